//! The in-memory engine keeps the contract, and plays a second daemon and every fault on demand.

use askd_journal::{Journal, MemoryJournal, MemoryStore, conformance};

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
