//! Plain SQLite on a copy: what a person with a sqlite3 shell, or `askd log` on a copy, finds.

use std::fs;
use std::path::Path;

use askd_core::event::Event;
use askd_journal::conformance::hand::{OPEN, ask, batch, closed, entry, one, picture, session};
use askd_journal::{Append, Journal as _};
use rusqlite::{Connection, OpenFlags};

use crate::place::{Place, beside, files};

/// Opened without any of our code, and unable to change a byte.
fn plain(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn count(connection: &Connection, table: &str) -> i64 {
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_clean_close_leaves_everything_in_the_one_file() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..50 {
        journal.commit(&batch([one(&ask(n), 0, OPEN)])).unwrap();
    }
    let reader = journal.reader().unwrap();
    let before = picture(reader.as_ref(), &[]);
    drop(journal);
    // A reader that is still there keeps the log's file, but nothing is in it.
    let log = beside(&place.path(), "-wal");
    assert_eq!(fs::metadata(&log).map_or(0, |found| found.len()), 0);
    drop(reader);
    let copy = place.dir().join("copy.db");
    fs::copy(place.path(), &copy).unwrap();
    // A copy of the file alone, read as it is on a disk that cannot be written.
    let found = Connection::open_with_flags(
        format!("file:{}?immutable=1", copy.display()),
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    )
    .unwrap();
    assert_eq!(count(&found, "log"), 50);
    drop(found);
    assert_eq!(picture(&crate::place::open(&copy).unwrap(), &[]), before);
}

#[test]
fn a_copy_of_a_running_journal_with_its_log_is_complete() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..50 {
        journal.commit(&batch([one(&ask(n), 0, OPEN)])).unwrap();
    }
    let copy = place.dir().join("copy");
    fs::create_dir(&copy).unwrap();
    for suffix in ["", "-wal"] {
        // By another process: this one would lose its locks by closing the file.
        let copied = std::process::Command::new("cp").arg(beside(&place.path(), suffix)).arg(&copy).status();
        assert!(copied.unwrap().success());
    }
    let found = Connection::open(copy.join("journal.db")).unwrap();
    assert_eq!(count(&found, "entry"), 50);
    assert_eq!(count(&found, "log"), 50);
    // A shell on the file itself reads beside the daemon as well.
    let beside_daemon = plain(&place.path());
    journal.commit(&batch([one(&ask(100), 0, OPEN)])).unwrap();
    assert_eq!(count(&beside_daemon, "log"), 51);
}

#[test]
fn the_log_view_reads_like_a_log() {
    let place = Place::new();
    let mut journal = place.open();
    let session_event = Event::SessionEnded { why: "exit".to_owned() };
    let asked = serde_json::from_value(serde_json::json!({"type": "asked", "ask": ask_json()})).unwrap();
    let settled = serde_json::from_value(serde_json::json!({"type": "settled", "outcome": {
        "kind": "denied", "cause": "person", "source": "direct", "surface": "terminal", "by": "ada",
        "message": "not this folder", "stop": false, "after_ms": 1_500,
        "at": {"boot": "00000000-0000-0000-0000-000000000007", "boot_ms": 2_500, "wall_ms": 51_500}
    }}))
    .unwrap();
    let appended = |stream, events: Vec<Event>, head| Append {
        stream,
        expected: 0,
        entries: events.into_iter().map(entry).collect(),
        head,
    };
    journal
        .commit(&batch([
            appended(session("s"), vec![session_event], closed(1)),
            appended(ask(1), vec![asked, settled], closed(2)),
        ]))
        .unwrap();
    drop(journal);
    let found = plain(&place.path());
    let mut rows = found
        .prepare(
            "SELECT at, event, handle, agent, session, tool, outcome, cause, surface, who, message, state, stream,
             version FROM log",
        )
        .unwrap();
    let rows: Vec<Vec<String>> = rows
        .query_map([], |row| {
            (0..14)
                .map(|n| {
                    row.get_ref(n).map(|value| match value {
                        rusqlite::types::ValueRef::Null => "-".to_owned(),
                        rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                        other => other.as_str().unwrap().to_owned(),
                    })
                })
                .collect()
        })
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    let at = "1970-01-01T00:00:50.000Z";
    let id = "ask/00000000-0000-0000-0000-000000000001";
    let nothing = ["-"; 5];
    let of_ask = ["k7f", "claude-code", "s", "Bash"];
    let expected: [Vec<&str>; 3] = [
        [&[at, "session_ended"][..], &["-"; 4], &nothing, &["closed", "session/claude-code/s", "1"]].concat(),
        [&[at, "asked"][..], &of_ask, &nothing, &["closed", id, "1"]].concat(),
        [
            &[at, "settled"][..],
            &of_ask,
            &["denied", "person", "terminal", "ada", "not this folder"],
            &["closed", id, "2"],
        ]
        .concat(),
    ];
    assert_eq!(rows, expected);
    assert!(files(&place.dir()).contains(&place.path()));
}

fn ask_json() -> serde_json::Value {
    let session = serde_json::json!({"agent": "claude-code", "session": "s"});
    let stamp = serde_json::json!({"boot": "00000000-0000-0000-0000-000000000007", "boot_ms": 1_000, "wall_ms": 50_000});
    let hash = "0".repeat(64);
    serde_json::json!({
        "id": "00000000-0000-0000-0000-000000000001", "handle": "k7f", "key": "call/1",
        "digest": format!("sha256:{hash}"),
        "action": {"tool": "Bash", "input": "{\"command\": \"ls\"}", "cwd": "/tmp"},
        "class": "tool", "attendance": "foreground",
        "lineage": {"session": session, "root": session},
        "options": [],
        "policy": {"deadline_ms": null, "at_deadline": "hand_back"},
        "requester": {"kind": "hook", "token": hash, "grace_ms": 0},
        "asked_at": stamp, "gives_up_ms": null
    })
}
