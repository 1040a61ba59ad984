//! SQLite keeps the contract.

use askd_journal::{OpenOptions, SqliteJournal, conformance};

#[test]
fn sqlite_keeps_the_contract() {
    let place = tempfile::tempdir().unwrap();
    let mut n = 0;
    conformance::all(|| {
        n += 1;
        Box::new(
            SqliteJournal::open(place.path().join(format!("journal/{n}.db")), OpenOptions::default())
                .unwrap(),
        )
    });
}
