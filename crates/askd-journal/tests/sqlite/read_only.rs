//! A journal that may be read and not written is refused before anything depends on it.

use std::fs;

use askd_journal::conformance::hand::{OPEN, ask, batch, one, picture};
use askd_journal::{CommitError, Journal as _, JournalError};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::place::{Place, mode, open};

/// Runs `f` as a user whom permissions stop. Root is one too, on a thread without its override.
fn as_user<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let drop_override = || {
        if rustix::process::geteuid().is_root() {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
            set_capabilities(None, sets).unwrap();
        }
        f()
    };
    std::thread::scope(|scope| scope.spawn(drop_override).join().unwrap())
}

#[test]
fn a_read_only_file_or_directory_is_told() {
    let place = Place::new();
    let mut journal = place.open();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let before = picture(&journal, &[]);
    drop(journal);
    for (path, read_only, writable) in [(place.path(), 0o400, 0o600), (place.dir(), 0o500, 0o700)] {
        mode(&path, read_only);
        let opened = as_user(|| open(&place.path()).map(drop));
        assert!(matches!(opened, Err(JournalError::ReadOnly { .. })), "{}: {opened:?}", path.display());
        mode(&path, writable);
        assert_eq!(picture(&place.open(), &[]), before);
    }
}

#[test]
fn a_new_journal_in_a_read_only_directory_is_told() {
    let place = Place::new();
    fs::create_dir(place.dir()).unwrap();
    for path in [place.path(), place.dir().join("deeper/journal.db")] {
        mode(&place.dir(), 0o500);
        let opened = as_user(|| open(&path).map(drop));
        assert!(matches!(opened, Err(JournalError::ReadOnly { .. })), "{}: {opened:?}", path.display());
        mode(&place.dir(), 0o700);
        assert!(!path.exists());
    }
}

/// A person's sqlite3 shell holds the write lock: waited for, then told, and over when it is over.
#[test]
fn a_shell_that_writes_is_waited_for() {
    let place = Place::new();
    let mut journal = place.open();
    let shell = rusqlite::Connection::open(place.path()).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    match journal.commit(&batch([one(&ask(1), 0, OPEN)])) {
        Err(CommitError::Failed(JournalError::Other(said))) => {
            assert!(said.contains("another program"), "{said}")
        }
        other => panic!("{other:?}"),
    }
    shell.execute_batch("ROLLBACK").unwrap();
    assert_eq!(journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap().last, 1);
}
