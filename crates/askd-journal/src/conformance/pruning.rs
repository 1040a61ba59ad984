//! Forgetting what is old and closed, and nothing else.

use super::hand::{OPEN, ask, batch, claim, closed, one, session, some};
use crate::contract::{Batch, Committed, Head, HeadState, Journal};

pub(super) fn old_ones(journal: &mut dyn Journal) {
    let heads = [
        (ask(1), closed(100)),
        (ask(2), closed(199)),
        (ask(3), closed(200)),
        (ask(4), OPEN),
        (ask(5), Head { state: HeadState::Unfinished, closed_wall_ms: Some(1), ..OPEN }),
        (ask(6), Head { state: HeadState::Closed, ..OPEN }),
        (session("old"), closed(100)),
    ];
    let appends: Vec<_> = heads.iter().map(|(stream, head)| some(stream, 0, 3, head.clone())).collect();
    journal.commit(&batch(appends.clone())).unwrap();
    assert_eq!(journal.prune(100, 10).unwrap(), 0);
    assert_eq!(journal.prune(200, 10).unwrap(), 3);
    let gone = [ask(1), ask(2), session("old")];
    for append in &appends {
        let stays = !gone.contains(&append.stream);
        assert_eq!(journal.head(&append.stream).unwrap().is_some(), stays, "{}", append.stream);
        assert_eq!(journal.read(&append.stream).unwrap().len(), if stays { 3 } else { 0 });
        for entry in &append.entries {
            assert_eq!(journal.contains(&append.stream, entry.id).unwrap(), stays);
        }
    }
    // What is left of the feed is in order, at its old places.
    let left: Vec<u64> = journal.feed(0, 100).unwrap().iter().map(|e| e.position).collect();
    assert!(left.into_iter().eq(7..=18));
    // The name can be used again, from the beginning.
    let done = journal.commit(&batch([some(&session("old"), 0, 2, OPEN)])).unwrap();
    assert_eq!(done, Committed { first: 22, last: 23 });
    assert_eq!(journal.open_heads().unwrap().last().unwrap().0, session("old"));
}

pub(super) fn steps(journal: &mut dyn Journal) {
    // The oldest go first, whatever the order in which they began.
    for n in 0..25_i64 {
        journal.commit(&batch([some(&ask(n as u128), 0, 2, closed(1_000 - n))])).unwrap();
    }
    assert_eq!(journal.prune(i64::MAX, 0).unwrap(), 0);
    assert_eq!(journal.prune(i64::MAX, 10).unwrap(), 10);
    let first_left = journal.feed(0, 1).unwrap();
    assert_eq!(first_left[0].stream, ask(0));
    assert_eq!(journal.head(&ask(14)).unwrap().map(|(version, _)| version), Some(2));
    assert_eq!(journal.head(&ask(15)).unwrap(), None);
    assert_eq!(journal.prune(i64::MAX, 10).unwrap(), 10);
    assert_eq!(journal.prune(i64::MAX, 10).unwrap(), 5);
    assert_eq!(journal.prune(i64::MAX, 10).unwrap(), 0);
    assert_eq!(journal.feed(0, 100).unwrap(), []);
}

pub(super) fn claims(journal: &mut dyn Journal) {
    let take = ["handle/a", "handle/b"].map(|name| claim(name, &ask(1))).to_vec();
    journal.commit(&Batch { take, ..batch([one(&ask(1), 0, closed(1))]) }).unwrap();
    let take = vec![claim("handle/c", &ask(2))];
    journal.commit(&Batch { take, ..batch([one(&ask(2), 0, closed(50))]) }).unwrap();
    // A closed ask's handle stays its own until the ask is forgotten.
    let again = Batch { take: vec![claim("handle/a", &ask(3))], ..batch([one(&ask(3), 0, OPEN)]) };
    assert!(journal.commit(&again).is_err());
    assert_eq!(journal.prune(50, 10).unwrap(), 1);
    assert_eq!(journal.holder("handle/a").unwrap(), None);
    assert_eq!(journal.holder("handle/b").unwrap(), None);
    assert_eq!(journal.holder("handle/c").unwrap(), Some(ask(2)));
    journal.commit(&again).unwrap();
    assert_eq!(journal.holder("handle/a").unwrap(), Some(ask(3)));
}

pub(super) fn positions(journal: &mut dyn Journal) {
    journal.commit(&batch([some(&ask(1), 0, 2, OPEN), some(&ask(2), 0, 3, closed(1))])).unwrap();
    // The newest entries go, then all of them.
    assert_eq!(journal.prune(2, 10).unwrap(), 1);
    assert_eq!(journal.last().unwrap(), 5);
    let done = journal.commit(&batch([some(&ask(1), 2, 1, closed(1))])).unwrap();
    assert_eq!(done, Committed { first: 6, last: 6 });
    assert_eq!(journal.prune(2, 10).unwrap(), 1);
    assert_eq!(journal.feed(0, 10).unwrap(), []);
    assert_eq!(journal.last().unwrap(), 6);
    assert_eq!(journal.commit(&Batch::default()).unwrap(), Committed { first: 7, last: 6 });
    assert_eq!(journal.commit(&batch([one(&ask(3), 0, OPEN)])).unwrap().first, 7);
    assert_eq!(journal.feed(5, 10).unwrap()[0].position, 7);
}
