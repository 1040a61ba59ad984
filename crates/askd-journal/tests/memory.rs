//! The in-memory engine keeps the contract, and plays a second daemon and every fault on demand.

use askd_journal::conformance::hand::{OPEN, ask, batch, claim, closed, one, picture};
use askd_journal::memory::Fired;
use askd_journal::{
    Batch, CommitError, Fault, Journal, JournalError, MemoryJournal, MemoryStore, Reader, conformance,
};

#[test]
fn memory_keeps_the_contract() {
    conformance::all(|| Box::new(MemoryJournal::new()));
}

#[test]
fn two_daemons_on_one_store_have_one_winner_per_ask() {
    let store = MemoryStore::new();
    let daemon = || -> Box<dyn Journal> { Box::new(store.open()) };
    conformance::rivals([daemon(), daemon()]);
}

#[test]
fn a_crash_leaves_what_was_committed() {
    let store = MemoryStore::new();
    let mut first = store.open();
    first.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let before = picture(&first, &[]);
    drop(first);
    let mut second = store.open();
    assert_eq!(picture(&second, &[]), before);
    second.commit(&batch([one(&ask(1), 1, closed(1))])).unwrap();
}

#[test]
fn failures_write_nothing_and_pass() {
    let mut journal = MemoryJournal::new();
    let faults = journal.faults();
    faults.inject(Fault::Full);
    faults.inject(Fault::ReadOnly);
    faults.inject(Fault::Broken("the disk is on fire".to_owned()));
    let tried = batch([one(&ask(1), 0, OPEN)]);
    let mut failure = || match journal.commit(&tried) {
        Err(CommitError::Failed(e)) => e,
        other => panic!("{other:?}"),
    };
    assert!(matches!(failure(), JournalError::Full { .. }));
    assert!(matches!(failure(), JournalError::ReadOnly { .. }));
    assert_eq!(failure().to_string(), "journal: the disk is on fire");
    assert_eq!(journal.last().unwrap(), 0);
    assert_eq!(journal.commit(&tried).unwrap().last, 1);
}

#[test]
fn an_unknown_commit_is_resolved_by_the_entry_id() {
    for written in [true, false] {
        let mut journal = MemoryJournal::new();
        let faults = journal.faults();
        faults.inject(Fault::Pass);
        faults.inject(if written { Fault::UnknownWritten } else { Fault::UnknownLost });
        journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
        let tried = batch([one(&ask(1), 1, closed(1))]);
        assert!(matches!(journal.commit(&tried), Err(CommitError::Unknown(_))));
        assert_eq!(
            journal.contains(&tried.appends[0].stream, tried.appends[0].entries[0].id).unwrap(),
            written
        );
        assert_eq!(journal.last().unwrap(), if written { 2 } else { 1 });
        assert_eq!(faults.so_far(), [Fired::Unknown { written }]);
        // Trying again is safe either way.
        let again = journal.commit(&tried);
        assert_eq!(matches!(again, Err(CommitError::Conflict { .. })), written);
        assert_eq!(journal.last().unwrap(), 2);
    }
}

#[test]
fn an_unknown_commit_may_have_been_a_conflict() {
    let mut journal = MemoryJournal::new();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    journal.faults().inject(Fault::UnknownWritten);
    let stale = batch([one(&ask(1), 0, OPEN)]);
    assert!(matches!(journal.commit(&stale), Err(CommitError::Unknown(_))));
    assert!(!journal.contains(&stale.appends[0].stream, stale.appends[0].entries[0].id).unwrap());
    assert_eq!(journal.faults().so_far(), [Fired::Unknown { written: false }]);
}

#[test]
fn a_rival_writes_between_read_and_commit() {
    let mut journal = MemoryJournal::new();
    let faults = journal.faults();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    // It sees what is there and answers first, with a claim on top.
    faults.inject(Fault::Rival(Box::new(|seen| {
        let version = seen.head(&ask(1)).unwrap().unwrap().0;
        Batch { take: vec![claim("key/a", &ask(1))], ..batch([one(&ask(1), version, closed(1))]) }
    })));
    let tried = Batch { take: vec![claim("key/a", &ask(2))], ..batch([one(&ask(1), 1, closed(2))]) };
    match journal.commit(&tried) {
        Err(CommitError::Conflict { streams, claims }) => {
            assert_eq!(streams, [ask(1)]);
            assert_eq!(claims, [claim("key/a", &ask(1))]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(journal.head(&ask(1)).unwrap(), Some((2, closed(1))));
    // One that writes elsewhere stands in nobody's way; one that is stale itself changes nothing.
    faults.inject(Fault::rival(batch([one(&ask(5), 0, OPEN)])));
    faults.inject(Fault::rival(batch([one(&ask(5), 0, OPEN)])));
    assert_eq!(journal.commit(&batch([one(&ask(6), 0, OPEN)])).unwrap().last, 4);
    assert_eq!(journal.commit(&batch([one(&ask(7), 0, OPEN)])).unwrap().last, 5);
    assert_eq!(faults.so_far(), [true, true, false].map(|committed| Fired::Rival { committed }));
    assert_eq!(faults.waiting(), 0);
}

#[test]
fn faults_are_of_one_daemon() {
    let store = MemoryStore::new();
    let (mut one_daemon, mut other) = (store.open(), store.open());
    one_daemon.faults().inject(Fault::Full);
    one_daemon.faults().break_reads(2);
    let reader = one_daemon.reader().unwrap();
    assert!(reader.last().is_err());
    assert!(one_daemon.last().is_err());
    assert_eq!(one_daemon.last().unwrap(), 0);
    assert_eq!(other.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap().last, 1);
    assert!(one_daemon.commit(&batch([one(&ask(2), 0, OPEN)])).is_err());
    assert_eq!(reader.last().unwrap(), 1);
}
