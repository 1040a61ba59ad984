//! The contract's meaning in full: what every engine must do, as checks that panic when it does not.
//!
//! [`all`] runs everything that one handle can show; [`rivals`] is for engines that several daemons may use at once.

#![expect(clippy::unwrap_used, reason = "these are tests, made public for the tests of engines")]

mod claims;
mod commits;
pub mod hand;
mod pruning;
mod reading;
mod rival;

use crate::contract::Journal;
pub use rival::rivals;

/// A check of one property, on an empty journal.
pub type Case = fn(&mut dyn Journal);

/// Every check with its name.
pub const CASES: &[(&str, Case)] = &[
    ("an empty journal is empty", reading::empty),
    ("what was committed is read back", commits::read_back),
    ("positions have no gaps across streams", commits::positions),
    ("a stale version conflicts", commits::stale),
    ("a batch is written whole or not at all", commits::atomic),
    ("every conflict of a batch is named", commits::all_conflicts),
    ("a batch that contradicts itself is refused", commits::contradictions),
    ("an entry is committed once", commits::entry_once),
    ("a batch may be empty, and an append too", commits::empty),
    ("trying to write changes nothing", commits::tried),
    ("settling without a doubt changes nothing", commits::settling),
    ("a large batch is one commit", commits::large_batch),
    ("a large body is kept", commits::large_body),
    ("odd names are names", commits::odd_names),
    ("claims are taken and given up", claims::life),
    ("a held claim conflicts", claims::contested),
    ("a claim changes hands in one batch", claims::handover),
    ("nobody gives up another's claim", claims::foreign_release),
    ("gathered commands keep their order", claims::gathered),
    ("heads follow their streams", reading::heads),
    ("open heads come in order of beginning", reading::open_heads),
    ("due asks come earliest first", reading::due),
    ("committed entries are found by id", reading::contains),
    ("the feed is read in pages", reading::feed),
    ("a reader sees every commit", reading::reader),
    ("old closed streams are pruned", pruning::old_ones),
    ("pruning goes in bounded steps", pruning::steps),
    ("pruning takes claims along", pruning::claims),
    ("positions are never given again", pruning::positions),
    ("of two rivals one wins", rival::one_wins),
];

/// Runs every check, each on a fresh and empty journal.
pub fn all(mut fresh: impl FnMut() -> Box<dyn Journal>) {
    for (name, case) in CASES {
        // Shown by the test harness when the case panics.
        println!("{name}");
        case(fresh().as_mut());
    }
}
