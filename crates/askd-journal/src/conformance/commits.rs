//! Atomic compare-and-set, and that what went in comes out.

use askd_core::event::Event;
use askd_core::id::{AskId, StreamId};
use askd_core::time::{BootId, Stamp};
use serde_json::json;
use uuid::Uuid;

use super::hand::{
    OPEN, ask, batch, claim, closed, conflict, entry, one, picture, refused, session, small, some, stamp,
};
use crate::contract::{Append, Batch, Committed, Entry, Head, HeadState, Journal, Positioned};

pub(super) fn read_back(journal: &mut dyn Journal) {
    let at = [
        stamp(0),
        Stamp { boot: BootId(Uuid::from_u128(u128::MAX)), boot_ms: u64::MAX, wall_ms: i64::MAX },
        Stamp { boot: BootId(Uuid::nil()), boot_ms: 0, wall_ms: i64::MIN },
    ];
    let events = [asked(AskId(Uuid::from_u128(1)), r#"{"a": 1,  "a": 2, "é": "\u0000"}"#), settled(), late()];
    let mut entries: Vec<Entry> =
        events.into_iter().zip(at).map(|(event, at)| Entry { at, ..entry(event) }).collect();
    entries.extend([
        small("line\nbreak, \"quotes\", \u{202e}bidi\u{0}, 🦀"),
        entry(Event::Detached),
        entry(session_started()),
        entry(Event::SurfaceState {
            state: serde_json::json!({"offset": u64::MAX, "slots": [null, -1, "x"]}),
        }),
    ]);
    let head = Head {
        state: HeadState::Unfinished,
        root: Some("claude-code/it's a/b".to_owned()),
        due_wall_ms: Some(i64::MIN),
        closed_wall_ms: Some(i64::MAX),
    };
    let append = Append { stream: ask(1), expected: 0, entries, head };
    let done = journal.commit(&batch([append.clone()])).unwrap();
    assert_eq!(done, Committed { first: 1, last: 7 });
    assert_eq!(journal.read(&ask(1)).unwrap(), placed(&append, 1));
    assert_eq!(journal.feed(0, 100).unwrap(), placed(&append, 1));
    assert_eq!(journal.head(&ask(1)).unwrap(), Some((7, append.head)));
}

/// The entries of an append as they are read, when the first of them has this position.
fn placed(append: &Append, first: u64) -> Vec<Positioned> {
    let version = append.expected + 1;
    (first..)
        .zip(version..)
        .zip(&append.entries)
        .map(|((position, version), entry)| Positioned {
            position,
            stream: append.stream.clone(),
            version,
            entry: entry.clone(),
        })
        .collect()
}

pub(super) fn positions(journal: &mut dyn Journal) {
    let mut expected = Vec::new();
    let mut next = 1;
    for round in 0..20 {
        let appends = [
            some(&ask(round), 0, 2, OPEN),
            some(&session("s"), round as u64 * 3, 3, OPEN),
            some(&ask(1_000 + round), 0, 1, OPEN),
        ];
        let done = journal.commit(&batch(appends.clone())).unwrap();
        assert_eq!(done, Committed { first: next, last: next + 5 });
        for append in &appends {
            expected.extend(placed(append, next));
            next += append.entries.len() as u64;
        }
    }
    assert_eq!(journal.last().unwrap(), next - 1);
    let feed = journal.feed(0, usize::MAX).unwrap();
    assert_eq!(feed, expected);
    assert!(feed.iter().map(|e| e.position).eq(1..next));
    assert!(journal.read(&session("s")).unwrap().iter().map(|e| e.version).eq(1..=60));
}

pub(super) fn stale(journal: &mut dyn Journal) {
    journal.commit(&batch([some(&ask(1), 0, 3, OPEN)])).unwrap();
    let before = picture(journal, &[]);
    for (stream, wrong) in [(ask(1), 0), (ask(1), 2), (ask(1), 4), (ask(2), 1), (ask(1), u64::MAX)] {
        let (streams, claims) = conflict(journal, &batch([one(&stream, wrong, OPEN)]));
        assert_eq!((streams, claims), (vec![stream], vec![]), "expected {wrong}");
        assert_eq!(picture(journal, &[]), before);
    }
    assert_eq!(journal.commit(&batch([one(&ask(1), 3, OPEN)])).unwrap(), Committed { first: 4, last: 4 });
}

pub(super) fn atomic(journal: &mut dyn Journal) {
    let names = ["key/a", "key/b"];
    let first = Batch { take: vec![claim("key/a", &ask(1))], ..batch([one(&ask(1), 0, OPEN)]) };
    journal.commit(&first).unwrap();
    let before = picture(journal, &names);
    // The bad append stands first, in the middle and last; everything around it is fine.
    for bad in 0..3 {
        let mut appends: Vec<Append> = (0..3).map(|n| one(&ask(10 + n), u64::from(n == bad), OPEN)).collect();
        appends.push(one(&ask(1), 1, closed(5)));
        let tried =
            Batch { take: vec![claim("key/b", &ask(10))], release: vec![claim("key/a", &ask(1))], appends };
        assert_eq!(conflict(journal, &tried), (vec![ask(10 + bad)], vec![]));
        assert_eq!(picture(journal, &names), before);
        for append in &tried.appends {
            assert!(!journal.contains(&append.stream, append.entries[0].id).unwrap());
        }
        for n in 0..3 {
            assert_eq!(journal.head(&ask(10 + n)).unwrap(), None);
        }
    }
}

pub(super) fn all_conflicts(journal: &mut dyn Journal) {
    let held = ["key/a", "key/b", "key/mine"].map(|name| claim(name, &ask(1)));
    journal
        .commit(&Batch { take: held.to_vec(), ..batch([one(&ask(1), 0, OPEN), one(&ask(2), 0, OPEN)]) })
        .unwrap();
    let tried = Batch {
        take: vec![claim("key/a", &ask(5)), claim("key/b", &ask(2)), claim("key/mine", &ask(1))],
        ..batch([one(&ask(1), 0, OPEN), one(&ask(2), 1, OPEN), one(&ask(3), 7, OPEN), one(&ask(5), 0, OPEN)])
    };
    let (streams, claims) = conflict(journal, &tried);
    assert_eq!(streams, [ask(1), ask(3)]);
    assert_eq!(claims, [claim("key/a", &ask(1)), claim("key/b", &ask(1))]);
}

pub(super) fn contradictions(journal: &mut dyn Journal) {
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let before = picture(journal, &["key/a"]);
    let twice = one(&ask(2), 0, OPEN);
    let same_entry = Append { stream: ask(3), ..twice.clone() };
    let bad = [
        batch([one(&ask(1), 1, OPEN), one(&ask(1), 2, OPEN)]),
        batch([twice.clone(), same_entry]),
        batch([Append { entries: [twice.entries.clone(), twice.entries.clone()].concat(), ..twice.clone() }]),
        batch([some(&ask(4), 0, 0, OPEN)]),
        Batch { take: vec![claim("key/a", &ask(1)), claim("key/a", &ask(2))], ..Batch::default() },
        Batch { take: vec![claim("key/a", &ask(9))], ..batch([one(&ask(8), 0, OPEN)]) },
    ];
    for tried in bad {
        assert!(!refused(journal, &tried).is_empty());
        assert_eq!(picture(journal, &["key/a"]), before);
    }
}

pub(super) fn entry_once(journal: &mut dyn Journal) {
    let first = one(&ask(1), 0, OPEN);
    journal.commit(&batch([first.clone()])).unwrap();
    let before = picture(journal, &[]);
    // A retry of the whole batch is a conflict of versions.
    assert_eq!(conflict(journal, &batch([first.clone()])).0, [ask(1)]);
    assert_eq!(picture(journal, &[]), before);
}

pub(super) fn tried(journal: &mut dyn Journal) {
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let before = picture(journal, &[]);
    for _ in 0..3 {
        journal.try_writing().unwrap();
    }
    assert_eq!(picture(journal, &[]), before);
}

pub(super) fn settling(journal: &mut dyn Journal) {
    let all: Vec<_> = (1..=3).map(ask).collect();
    for stream in &all {
        journal.commit(&batch([one(stream, 0, OPEN)])).unwrap();
        let before = picture(journal, &[]);
        journal.settle().unwrap();
        assert_eq!(picture(journal, &[]), before);
    }
}

pub(super) fn empty(journal: &mut dyn Journal) {
    assert_eq!(journal.commit(&Batch::default()).unwrap(), Committed { first: 1, last: 0 });
    journal.commit(&batch([some(&ask(1), 0, 2, OPEN)])).unwrap();
    let head = closed(9);
    let done = journal.commit(&batch([some(&ask(1), 2, 0, head.clone())])).unwrap();
    assert_eq!(done, Committed { first: 3, last: 2 });
    assert_eq!(journal.head(&ask(1)).unwrap(), Some((2, head)));
    assert_eq!(conflict(journal, &batch([some(&ask(1), 1, 0, OPEN)])).0, [ask(1)]);
    assert_eq!(conflict(journal, &batch([some(&ask(2), 1, 0, OPEN)])).0, [ask(2)]);
}

pub(super) fn large_batch(journal: &mut dyn Journal) {
    let mut tried = batch((0..1_000).map(|n| some(&ask(n), 0, 2, OPEN)));
    tried.take = (0..1_000).map(|n| claim(&format!("handle/{n}"), &ask(n))).collect();
    assert_eq!(journal.commit(&tried).unwrap(), Committed { first: 1, last: 2_000 });
    assert_eq!(journal.open_heads().unwrap().len(), 1_000);
    assert_eq!(journal.holder("handle/999").unwrap(), Some(ask(999)));
    let mut again = batch((0..1_000).map(|n| one(&ask(n), 2, closed(1))));
    again.appends[999].expected = 1;
    assert_eq!(conflict(journal, &again).0, [ask(999)]);
    assert_eq!(journal.last().unwrap(), 2_000);
}

pub(super) fn large_body(journal: &mut dyn Journal) {
    const BODY: usize = 16 << 20;
    let mut bodies = Vec::new();
    for n in 0..2 {
        // Nothing that repeats, so that no part can stand for another.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 + n;
        let body: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + (state >> 57) as u8 % 95)
        })
        .take(BODY)
        .collect();
        bodies.push(body);
    }
    for (n, body) in (1..).zip(&bodies) {
        let event = asked(AskId(Uuid::from_u128(n)), body);
        let append = Append { stream: ask(n), expected: 0, entries: vec![entry(event)], head: OPEN };
        journal.commit(&batch([append])).unwrap();
    }
    for (n, body) in (1..).zip(&bodies) {
        let found = journal.read(&ask(n)).unwrap();
        let [Positioned { entry: Entry { event: Event::Asked { ask }, .. }, .. }] = found.as_slice() else {
            panic!("{} entries", found.len());
        };
        assert!(ask.action.input.as_ref() == Some(body), "body {n} was changed");
    }
}

pub(super) fn odd_names(journal: &mut dyn Journal) {
    let long = "x".repeat(10_000);
    let odd = [
        "",
        " ",
        "a/b//c/",
        "it's",
        "\"; DROP TABLE entry; --",
        "100%",
        "_%_",
        "ASK",
        "ask",
        "ß",
        "e\u{301}",
        "é",
        "🦀\u{202e}",
        "new\nline",
        "nul\0nul",
        "../../etc",
        long.as_str(),
    ];
    let streams: Vec<StreamId> = odd
        .iter()
        .flat_map(|name| {
            [session(name), StreamId::Surface((*name).to_owned()), StreamId::Daemon((*name).to_owned())]
        })
        .collect();
    for stream in &streams {
        let take = vec![claim(&format!("key/{stream}"), stream)];
        journal.commit(&Batch { take, ..batch([one(stream, 0, OPEN)]) }).unwrap();
    }
    for (n, stream) in (1..).zip(&streams) {
        let read = journal.read(stream).unwrap();
        assert_eq!(read.iter().map(|e| (e.position, e.version)).collect::<Vec<_>>(), [(n, 1)], "{stream:?}");
        assert_eq!(journal.head(stream).unwrap().map(|(version, _)| version), Some(1));
        assert_eq!(journal.holder(&format!("key/{stream}")).unwrap().as_ref(), Some(stream));
        assert_eq!(conflict(journal, &batch([one(stream, 0, OPEN)])).0, std::slice::from_ref(stream));
    }
    let open: Vec<StreamId> = journal.open_heads().unwrap().into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(open, streams);
    assert_eq!(journal.due(i64::MAX, 100).unwrap(), []);
}

/// Events are made from their JSON, as they are in journals, so that these stay the same when the core learns more.
fn event(json: serde_json::Value) -> Event {
    serde_json::from_value(json).unwrap()
}

fn asked(id: AskId, input: &str) -> Event {
    let (session, hash) = (json!({"agent": "claude-code", "session": "s/1"}), "0f".repeat(32));
    event(json!({"type": "asked", "ask": {
        "id": id, "handle": "k7f", "key": "call/1", "digest": format!("sha256:{hash}"),
        "action": {"tool": "Bash", "kind": "execute", "input": input, "cwd": "/tmp/a b"},
        "class": "safety", "attendance": "background",
        "lineage": {
            "session": session, "root": session, "parent": session, "call": "toolu_1",
            "subagent": {"work_id": "w1", "name": "tester", "depth": 1},
            "place": {"tty": "/dev/pts/3"}
        },
        "options": [{
            "id": "always", "label": "Yes, and don't ask again", "kind": "allow_always", "grants": "npm test:*",
            "payload": {"rules": [1, 2.5, {"x": null}]}
        }],
        "policy": {"deadline_ms": 360_000, "at_deadline": {"answer": "deny"}, "deny_stops": true},
        "requester": {
            "kind": "hook", "token": hash, "instance": {"host": "box", "pid": 42, "start": u64::MAX},
            "grace_ms": 0, "own_prompt": {"at": "terminal", "blocked": true}
        },
        "asked_at": stamp(50_000), "gives_up_ms": u64::MAX, "extra": {"unknown": [i64::MIN, u64::MAX]}
    }}))
}

fn settled() -> Event {
    event(json!({"type": "settled", "outcome": {
        "kind": "denied", "cause": "person", "source": "direct", "surface": "terminal", "by": "ada",
        "option": "reject_once", "message": "not this folder", "stop": false, "at": stamp(60_000),
        "after_ms": 10_000, "late_of": AskId(Uuid::from_u128(9))
    }}))
}

fn late() -> Event {
    event(json!({"type": "late_recorded", "answer": {
        "decision": "allow", "source": "remote", "surface": "telegram", "stop": true, "lost_at": stamp(-1),
        "for_ms": 60_000
    }}))
}

fn session_started() -> Event {
    let key = json!({"agent": "claude-code", "session": "child"});
    event(json!({"type": "session_started", "session": {
        "key": key, "parent": key, "root": key, "title": "Fix it",
        "instance": {"host": "box", "pid": 42, "start": 0}
    }}))
}
