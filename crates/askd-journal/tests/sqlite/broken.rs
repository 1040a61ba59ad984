//! Files that are no journals, or not any more: told, and never read as something that was not written.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use askd_journal::conformance::hand::{
    OPEN, Picture, ask, batch, claim, closed, due, picture, session, some,
};
use askd_journal::{Batch, Journal as _, JournalError, Reader as _};

use crate::place::{Place, beside, mode, open};

const CLAIMS: [&str; 3] = ["handle/k7f", "key/a", "key/none"];

fn corrupt(path: &Path) -> String {
    match open(path) {
        Err(JournalError::Corrupt { detail, .. }) => detail,
        other => panic!("{other:?}"),
    }
}

/// A closed journal of a few dozen pages, and what is in it.
fn written() -> (Place, Picture) {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..40 {
        let head = if n % 3 == 0 { closed(5) } else { due(n as i64) };
        let mut tried = batch([some(&ask(n), 0, 3, head), some(&session("s"), 2 * n as u64, 2, OPEN)]);
        tried.appends[0].entries[0].event =
            askd_core::event::Event::SurfaceFailed { surface: "x".repeat(3_000), reason: "é".repeat(500) };
        journal.commit(&tried).unwrap();
    }
    let take = vec![claim("handle/k7f", &ask(1)), claim("key/a", &ask(1))];
    journal.commit(&Batch { take, ..Batch::default() }).unwrap();
    let seen = picture(&journal, &CLAIMS);
    drop(journal);
    (place, seen)
}

#[test]
fn what_is_no_database_is_corrupt_and_stays_as_it_is() {
    for content in
        [&b""[..], b"x", b"SQLite format 3\0", &[0; 200], "not a journal ".repeat(1_000).as_bytes()]
    {
        let place = Place::new();
        drop(place.open());
        fs::write(place.path(), content).unwrap();
        assert!(!corrupt(&place.path()).is_empty());
        assert_eq!(fs::read(place.path()).unwrap(), content);
    }
}

#[test]
fn another_programs_database_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    drop(place.open());
    fs::remove_file(place.path()).unwrap();
    let theirs = rusqlite::Connection::open(place.path()).unwrap();
    theirs.execute_batch("CREATE TABLE bookmark(url TEXT); PRAGMA user_version = 1").unwrap();
    drop(theirs);
    mode(&place.path(), 0o600);
    let before = fs::read(place.path()).unwrap();
    assert!(corrupt(&place.path()).contains("another program"));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[test]
fn a_log_without_its_file_is_told() {
    let place = Place::new();
    drop(place.open());
    fs::remove_file(place.path()).unwrap();
    let log = beside(&place.path(), "-wal");
    fs::write(&log, "what was committed last").unwrap();
    mode(&log, 0o600);
    assert!(corrupt(&place.path()).contains("the file is gone"));
    assert!(log.exists() && !place.path().exists());
    // Moved away, a new journal begins.
    fs::rename(&log, place.dir().join("kept")).unwrap();
    assert_eq!(place.open().last().unwrap(), 0);
}

#[test]
fn a_truncated_file_is_corrupt() {
    let (place, _) = written();
    let len = fs::metadata(place.path()).unwrap().len();
    for left in (1..len / 4096).map(|pages| pages * 4096).chain([50, 100, 4_000, len - 1, len - 4_000]) {
        let copy = place.copy();
        OpenOptions::new().write(true).open(copy.path()).unwrap().set_len(left).unwrap();
        assert!(!corrupt(&copy.path()).is_empty(), "{left} of {len} bytes");
    }
}

/// A flipped byte is found or was of no account: what is read is what was written.
#[test]
fn s7_a_flipped_byte_never_changes_what_is_read() {
    let (place, before) = written();
    let copy = place.copy();
    let whole = fs::read(place.path()).unwrap();
    let (mut found, mut harmless) = (0, 0);
    // Every byte of the header, then steps that fall on all parts of a page.
    for at in (0..100).chain((100..whole.len()).step_by(251)) {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(&copy.path(), suffix));
        }
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(copy.path(), &bytes).unwrap();
        let read = open(&copy.path()).and_then(|journal| {
            Ok(Picture {
                entries: journal.feed(0, usize::MAX)?,
                last: journal.last()?,
                open: journal.open_heads()?,
                holders: CLAIMS.iter().map(|name| journal.holder(name)).collect::<Result<_, _>>()?,
            })
        });
        match read {
            Ok(read) => {
                assert!(read == before, "byte {at} changed what is read");
                harmless += 1;
            }
            Err(JournalError::Corrupt { .. } | JournalError::Newer { .. }) => found += 1,
            Err(e) => panic!("byte {at}: {e}"),
        }
    }
    // Pages are not full, and what is in their free parts is of no account.
    assert!(found > harmless, "{found} found, {harmless} harmless");
}

#[test]
fn a_file_that_breaks_while_it_is_open_is_told() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..200 {
        let mut tried = batch([some(&ask(n), 0, 3, OPEN)]);
        tried.appends[0].entries[0].event =
            askd_core::event::Event::SurfaceFailed { surface: "x".repeat(30_000), reason: String::new() };
        journal.commit(&tried).unwrap();
    }
    drop(journal);
    let journal = place.open();
    // Opened by another process, because closing the file here would drop this process's locks on it.
    let spoilt = std::process::Command::new("sh")
        .args(["-c", "head -c 3000000 /dev/zero | dd of=\"$0\" bs=1000 seek=100 conv=notrunc 2>/dev/null"])
        .arg(place.path())
        .status()
        .unwrap();
    assert!(spoilt.success());
    let reader = journal.reader().unwrap();
    let mut told = 0;
    for n in 0..200 {
        match reader.read(&ask(n)) {
            Ok(entries) => assert_eq!(entries.len(), 3),
            Err(JournalError::Corrupt { .. }) => told += 1,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(told > 50, "{told}");
}

/// Somebody edits a row with a sqlite3 shell.
#[test]
fn an_edited_row_is_corrupt() {
    for edit in [
        "UPDATE entry SET event = replace(event, 'surface 1', 'surface 2') WHERE position = 2",
        "UPDATE entry SET at_wall_ms = at_wall_ms + 1 WHERE position = 2",
        "UPDATE entry SET began = began + 1, version = 99 WHERE position = 2",
        "UPDATE head SET stream = 'ask/018f0000-0000-7000-8000-000000000001' WHERE began = 1",
        "UPDATE head SET state = 'closed', version = version - 1 WHERE stream LIKE 'ask/%2'",
        "UPDATE head SET version = version + 1 WHERE stream LIKE 'ask/%2'",
        "UPDATE head SET due_wall_ms = NULL WHERE stream LIKE 'ask/%2'",
        "DELETE FROM head WHERE stream = 'session/claude-code/s'",
    ] {
        let (place, _) = written();
        let shell = rusqlite::Connection::open(place.path()).unwrap();
        assert!(shell.execute(edit, []).unwrap() > 0, "{edit}");
        drop(shell);
        let read = open(&place.path()).and_then(|journal| {
            journal.feed(0, usize::MAX)?;
            for n in 0..40 {
                journal.head(&ask(n))?;
            }
            Ok(())
        });
        assert!(matches!(read, Err(JournalError::Corrupt { .. })), "{edit}: {read:?}");
    }
}

#[test]
fn a_torn_end_of_the_log_is_no_damage() {
    let place = Place::new();
    let mut journal = place.open();
    journal.commit(&batch([some(&ask(1), 0, 3, OPEN)])).unwrap();
    let before = picture(&journal, &[]);
    // A copy as a crash would leave it, with half a commit behind what was acknowledged.
    let copy = Place::new();
    let copied = std::process::Command::new("cp").arg("-rp").arg(place.dir()).arg(copy.dir()).status();
    assert!(copied.unwrap().success());
    let path = copy.path();
    let mut log = OpenOptions::new().write(true).open(beside(&path, "-wal")).unwrap();
    assert!(log.seek(SeekFrom::End(0)).unwrap() > 4_096);
    log.write_all(&[0x5a; 6_000]).unwrap();
    drop(log);
    let mut again = open(&path).unwrap();
    assert_eq!(picture(&again, &[]), before);
    again.commit(&batch([some(&ask(1), 3, 1, OPEN)])).unwrap();
}
