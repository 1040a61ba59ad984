//! Heads, deadlines, the feed, and readers beside the writer.

use std::sync::mpsc;

use askd_core::id::{AskId, StreamId};
use uuid::Uuid;

use super::hand::{OPEN, ask, batch, closed, due as due_at, one, session, some};
use crate::contract::{Append, Head, HeadState, Journal, Version};

pub(super) fn empty(journal: &mut dyn Journal) {
    assert_eq!(journal.last().unwrap(), 0);
    assert_eq!(journal.feed(0, 10).unwrap(), []);
    assert_eq!(journal.read(&ask(1)).unwrap(), []);
    assert_eq!(journal.head(&ask(1)).unwrap(), None);
    assert_eq!(journal.open_heads().unwrap(), []);
    assert_eq!(journal.due(i64::MAX, 10).unwrap(), []);
    assert_eq!(journal.holder("key/a").unwrap(), None);
    assert!(!journal.contains(&ask(1), Uuid::nil()).unwrap());
    assert_eq!(journal.prune(i64::MAX, 10).unwrap(), 0);
    assert!(!journal.describe().is_empty());
}

pub(super) fn heads(journal: &mut dyn Journal) {
    let states = [
        Head { root: Some("claude-code/s".to_owned()), ..due_at(7) },
        Head { state: HeadState::Unfinished, ..OPEN },
        closed(9),
        // A late answer opens a closed one again.
        Head { state: HeadState::Unfinished, closed_wall_ms: Some(9), ..OPEN },
    ];
    for (version, head) in (0..).zip(&states) {
        journal.commit(&batch([one(&ask(1), version, head.clone())])).unwrap();
        assert_eq!(journal.head(&ask(1)).unwrap(), Some((version + 1, head.clone())));
    }
    assert_eq!(journal.head(&ask(2)).unwrap(), None);
}

pub(super) fn open_heads(journal: &mut dyn Journal) {
    // Ids run against the order of beginning.
    let streams: Vec<StreamId> =
        (0..10).map(|n| if n % 3 == 0 { session(&format!("{n}")) } else { ask(100 - n) }).collect();
    for stream in &streams {
        journal.commit(&batch([one(stream, 0, OPEN)])).unwrap();
    }
    // Later events do not change the order, whatever their own is.
    for stream in streams.iter().rev() {
        journal.commit(&batch([one(stream, 1, Head { state: HeadState::Unfinished, ..OPEN })])).unwrap();
    }
    let open = |journal: &dyn Journal| -> Vec<(StreamId, Version)> {
        journal.open_heads().unwrap().into_iter().map(|(id, version, _)| (id, version)).collect()
    };
    let all: Vec<_> = streams.iter().map(|id| (id.clone(), 2)).collect();
    assert_eq!(open(journal), all);
    journal.commit(&batch([one(&streams[4], 2, closed(1)), one(&streams[0], 2, closed(1))])).unwrap();
    let mut left = all.clone();
    left.retain(|(id, _)| *id != streams[4] && *id != streams[0]);
    assert_eq!(open(journal), left);
    journal.commit(&batch([one(&streams[4], 3, OPEN)])).unwrap();
    left.insert(3, (streams[4].clone(), 4));
    assert_eq!(open(journal), left);
}

pub(super) fn due(journal: &mut dyn Journal) {
    let at = [(1, 500), (2, 300), (3, 900), (4, 300), (5, -5)];
    for (n, wall) in at {
        journal.commit(&batch([one(&ask(n), 0, due_at(wall))])).unwrap();
    }
    journal.commit(&batch([one(&session("s"), 0, due_at(1)), one(&ask(6), 0, OPEN)])).unwrap();
    let found = |journal: &dyn Journal, wall, limit| -> Vec<u128> {
        journal.due(wall, limit).unwrap().into_iter().map(|AskId(id)| id.as_u128()).collect()
    };
    assert_eq!(found(journal, i64::MIN, 10), [0; 0]);
    assert_eq!(found(journal, 299, 10), [5]);
    // Among equals the one that began first.
    assert_eq!(found(journal, 300, 10), [5, 2, 4]);
    assert_eq!(found(journal, i64::MAX, 10), [5, 2, 4, 1, 3]);
    assert_eq!(found(journal, i64::MAX, 2), [5, 2]);
    assert_eq!(found(journal, i64::MAX, 0), [0; 0]);
    // A closed one is not due any more, and one with another is due then.
    let over = Head { due_wall_ms: Some(-5), ..closed(1) };
    journal.commit(&batch([one(&ask(5), 1, over), one(&ask(2), 1, due_at(1_000))])).unwrap();
    assert_eq!(found(journal, i64::MAX, 10), [4, 1, 3, 2]);
}

pub(super) fn contains(journal: &mut dyn Journal) {
    let appends: Vec<Append> = (0..5).map(|n| some(&ask(n), 0, 3, OPEN)).collect();
    let ids: Vec<(StreamId, Uuid)> =
        appends.iter().flat_map(|a| a.entries.iter().map(|e| (a.stream.clone(), e.id))).collect();
    for (stream, id) in &ids {
        assert!(!journal.contains(stream, *id).unwrap());
    }
    journal.commit(&batch(appends)).unwrap();
    for (stream, id) in &ids {
        assert!(journal.contains(stream, *id).unwrap());
        assert_eq!(journal.contains(&ask(0), *id).unwrap(), *stream == ask(0), "of that stream only");
        assert!(!journal.contains(stream, Uuid::nil()).unwrap());
    }
}

pub(super) fn feed(journal: &mut dyn Journal) {
    for n in 0..10 {
        journal.commit(&batch([some(&ask(n), 0, 10, OPEN)])).unwrap();
    }
    let mut seen = Vec::new();
    loop {
        let page = journal.feed(seen.last().copied().unwrap_or(0), 7).unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|e| e.position));
    }
    assert!(seen.into_iter().eq(1..=100));
    assert_eq!(journal.feed(0, 0).unwrap(), []);
    assert_eq!(journal.feed(100, 5).unwrap(), []);
    assert_eq!(journal.feed(u64::MAX, 5).unwrap(), []);
    assert_eq!(journal.feed(99, usize::MAX).unwrap().len(), 1);
}

pub(super) fn reader(journal: &mut dyn Journal) {
    let first = journal.reader().unwrap();
    let second = journal.reader().unwrap();
    assert_eq!(first.last().unwrap(), 0);
    // On another thread; it is told of each commit after that returned, and must find exactly that much.
    let (tell, told) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel();
    let watcher = std::thread::spawn(move || {
        for last in told {
            assert_eq!(first.last().unwrap(), last);
            assert_eq!(first.feed(last - 1, 10).unwrap().len(), 1);
            assert_eq!(first.head(&ask(1)).unwrap().map(|(version, _)| version), Some(last));
            assert_eq!(first.read(&ask(1)).unwrap().len() as u64, last);
            answer.send(()).unwrap();
        }
        first
    });
    for version in 0..50 {
        let done = journal.commit(&batch([one(&ask(1), version, due_at(3))])).unwrap();
        assert_eq!(second.last().unwrap(), done.last);
        assert_eq!(second.due(3, 10).unwrap().len(), 1);
        tell.send(done.last).unwrap();
        answered.recv().unwrap();
    }
    drop(tell);
    let first = watcher.join().unwrap();
    journal.commit(&batch([one(&ask(1), 50, closed(5))])).unwrap();
    assert_eq!(journal.prune(6, 10).unwrap(), 1);
    assert_eq!(first.read(&ask(1)).unwrap(), []);
    assert_eq!(first.last().unwrap(), 51);
}
