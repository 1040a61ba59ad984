//! Forward from every version there was, with a backup; never backward.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use askd_core::event::Event;
use askd_journal::conformance::hand::{OPEN, Picture, ask, batch, one, picture, session};
use askd_journal::{HeadState, Journal as _, JournalError, Reader as _};
use rusqlite::Connection;

use crate::place::{Place, beside, files, mode, open};

/// A place with a version 1 journal.
fn old() -> Place {
    let place = Place::new();
    drop(place.open());
    fs::remove_file(place.path()).unwrap();
    let file = Connection::open(place.path()).unwrap();
    file.execute_batch(include_str!("v1.sql")).unwrap();
    drop(file);
    mode(&place.path(), 0o600);
    assert_eq!(schema(&place.path()), (1, false));
    place
}

/// Schema version, and whether it has the view that version 2 brought.
fn schema(path: &Path) -> (i64, bool) {
    let file = Connection::open(path).unwrap();
    let version = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    (version, file.table_exists(None, "log").unwrap() || has_view(&file))
}

fn has_view(file: &Connection) -> bool {
    file.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'view'", [], |row| row.get::<_, i64>(0))
        .unwrap()
        > 0
}

/// The same, one step further.
fn readable() -> Place {
    let place = old();
    let file = Connection::open(place.path()).unwrap();
    file.execute_batch(include_str!("v2.sql")).unwrap();
    drop(file);
    assert_eq!(schema(&place.path()), (2, true));
    place
}

/// And one more.
fn lean() -> Place {
    let place = readable();
    let file = Connection::open(place.path()).unwrap();
    file.execute_batch(include_str!("v3.sql")).unwrap();
    drop(file);
    assert_eq!(schema(&place.path()), (3, true));
    place
}

fn backup(place: &Place) -> PathBuf {
    beside(&place.path(), ".v1.bak")
}

const CLAIMS: [&str; 2] = ["handle/k7f", "key/call/1"];

/// What is in `v1.sql`.
fn check_content(seen: &Picture) {
    assert_eq!(seen.last, 6);
    assert_eq!(seen.holders, [Some(ask(1)), None]);
    let streams: Vec<_> = seen.entries.iter().map(|e| (e.position, e.stream.clone(), e.version)).collect();
    let s = session("it's s/1");
    assert_eq!(streams, [(2, s.clone(), 1), (3, ask(1), 1), (4, ask(1), 2), (5, ask(1), 3), (6, ask(2), 1)]);
    match &seen.entries[1].entry.event {
        Event::Asked { ask } => assert_eq!(ask.action.input.as_deref(), Some("{\"command\": \"ls 'é'\"}")),
        other => panic!("{other:?}"),
    }
    let open: Vec<_> =
        seen.open.iter().map(|(id, version, head)| (id.clone(), *version, head.state)).collect();
    assert_eq!(open, [(s, 1, HeadState::Open), (ask(1), 3, HeadState::Unfinished)]);
    assert_eq!(seen.open[1].2.due_wall_ms, Some(60_000));
}

#[test]
fn version_1_goes_forward_with_a_backup() {
    let place = old();
    let mut journal = place.open();
    check_content(&picture(&journal, &CLAIMS));
    assert_eq!(journal.due(60_000, 10).unwrap().len(), 1);
    journal.commit(&batch([one(&ask(5), 0, askd_journal::conformance::hand::closed(1))])).unwrap();
    assert_eq!(journal.prune(100_000, 10).unwrap(), 2);
    drop(journal);
    assert_eq!(schema(&place.path()), (4, true));
    let shell = Connection::open(place.path()).unwrap();
    let handle: String =
        shell.query_row("SELECT handle FROM log WHERE event = 'settled'", [], |row| row.get(0)).unwrap();
    assert_eq!(handle, "k7f");
    drop(shell);
    // The backup is the old journal, whole and private, and is itself a journal that goes forward.
    let backup = backup(&place);
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(schema(&backup), (1, false));
    let written = fs::read(&backup).unwrap();
    check_content(&picture(&open(&backup).unwrap(), &CLAIMS));
    // It is made once.
    fs::write(&backup, &written).unwrap();
    let modified = fs::metadata(&backup).unwrap().modified().unwrap();
    drop(place.open());
    assert_eq!(fs::metadata(&backup).unwrap().modified().unwrap(), modified);
}

/// What version 3 keeps in other places is there: chains of entries, claims in heads.
#[test]
fn version_2_goes_forward_and_its_streams_go_on() {
    let place = readable();
    let mut journal = place.open();
    check_content(&picture(&journal, &CLAIMS));
    assert_eq!(schema(&beside(&place.path(), ".v2.bak")), (2, true));
    let ids = |journal: &askd_journal::SqliteJournal, stream: &_| -> Vec<_> {
        journal.read(stream).unwrap().iter().map(|e| e.entry.id).collect()
    };
    let before = ids(&journal, &ask(1));
    assert_eq!(before.len(), 3);
    assert!(before.iter().all(|id| journal.contains(&ask(1), *id).unwrap()));
    // The stream goes on where it was, keeps its claim, and takes another.
    let more = askd_journal::Batch {
        take: vec![askd_journal::conformance::hand::claim("handle/m2x", &ask(1))],
        ..batch([one(&ask(1), 3, askd_journal::conformance::hand::closed(1))])
    };
    journal.commit(&more).unwrap();
    let after = ids(&journal, &ask(1));
    assert_eq!((&after[..3], after.len()), (&before[..], 4));
    drop(journal);
    let mut journal = place.open();
    assert_eq!(ids(&journal, &ask(1)), after);
    for name in ["handle/k7f", "handle/m2x"] {
        assert_eq!(journal.holder(name).unwrap(), Some(ask(1)));
    }
    // And goes as a whole, with both.
    assert_eq!(journal.prune(100_000, 10).unwrap(), 2);
    assert!(ids(&journal, &ask(1)).is_empty());
    for name in ["handle/k7f", "handle/m2x"] {
        assert_eq!(journal.holder(name).unwrap(), None);
    }
    drop(journal);
    let file = Connection::open(place.path()).unwrap();
    for (table, left) in [("entry", 1), ("claim", 0), ("head", 1)] {
        let count: i64 =
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(count, left, "{table}");
    }
}

/// What version 4 has in its entries is made of what they say later; those from before need none.
#[test]
fn version_3_goes_forward_and_survives_a_crash_at_once() {
    let place = lean();
    let mut journal = place.open();
    check_content(&picture(&journal, &CLAIMS));
    assert_eq!(schema(&beside(&place.path(), ".v3.bak")), (3, true));
    journal
        .commit(&batch([one(&ask(1), 3, askd_journal::conformance::hand::closed(1)), one(&ask(9), 0, OPEN)]))
        .unwrap();
    let expected = picture(&journal, &CLAIMS);
    // Killed before the tables of heads had any of it.
    let copy = Place::new();
    let copied = std::process::Command::new("cp").arg("-rp").arg(place.dir()).arg(copy.dir()).status();
    assert!(copied.unwrap().success());
    drop(journal);
    for place in [&copy, &place] {
        let journal = place.open();
        assert_eq!(picture(&journal, &CLAIMS), expected);
        assert_eq!(
            journal.head(&ask(1)).unwrap().map(|(version, head)| (version, head.state)),
            Some((4, HeadState::Closed))
        );
        assert_eq!(journal.read(&ask(1)).unwrap().len(), 4);
        assert_eq!(journal.head(&ask(9)).unwrap(), Some((1, OPEN)));
    }
}

#[test]
fn a_new_journal_has_the_newest_schema_and_no_backup() {
    let place = Place::new();
    drop(place.open());
    assert_eq!(schema(&place.path()), (4, true));
    assert_eq!(files(&place.dir()).len(), 2, "{:?}", files(&place.dir()));
}

#[test]
fn a_newer_journal_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    drop(place.open());
    let file = Connection::open(place.path()).unwrap();
    file.pragma_update(None, "user_version", 5).unwrap();
    file.execute_batch("CREATE TABLE what_askd_will_have(x); PRAGMA journal_mode = DELETE").unwrap();
    drop(file);
    let before = fs::read(place.path()).unwrap();
    match open(&place.path()) {
        Err(e @ JournalError::Newer { found: 5, known: 4, .. }) => {
            assert!(e.to_string().contains("upgrade askd"), "{e}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

/// Something in the way of a step: nothing of it happens, the backup is there, and it is tried again.
#[test]
fn a_migration_that_fails_changes_nothing() {
    let place = old();
    let in_the_way = |sql| Connection::open(place.path()).unwrap().execute_batch(sql).unwrap();
    in_the_way("CREATE VIEW log AS SELECT 1");
    for _ in 0..2 {
        let failed = open(&place.path());
        assert!(matches!(&failed, Err(e) if e.to_string().contains("log")), "{failed:?}");
        assert_eq!(schema(&place.path()).0, 1);
        assert!(backup(&place).exists());
        let index: i64 = Connection::open(place.path())
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'head_closed'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(index, 0);
    }
    in_the_way("DROP VIEW log");
    check_content(&picture(&place.open(), &CLAIMS));
    assert_eq!(schema(&place.path()), (4, true));
}

#[test]
fn a_crash_during_the_backup_is_no_hindrance() {
    let place = old();
    let half = beside(&backup(&place), ".new");
    fs::write(&half, "half a backup").unwrap();
    fs::write(beside(&half, "-journal"), "and its journal").unwrap();
    check_content(&picture(&place.open(), &CLAIMS));
    assert!(!half.exists());
    assert_eq!(schema(&backup(&place)), (1, false));
}

/// Without its backup no journal is migrated.
#[test]
fn a_migration_without_room_for_the_backup_does_not_happen() {
    let place = old();
    fs::create_dir(backup(&place)).unwrap();
    fs::write(backup(&place).join("x"), "in the way").unwrap();
    assert!(open(&place.path()).is_err());
    assert_eq!(schema(&place.path()), (1, false));
    fs::remove_dir_all(backup(&place)).unwrap();
    check_content(&picture(&place.open(), &CLAIMS));
}
