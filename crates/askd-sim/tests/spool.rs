//! Forwarding trees in their seeded worlds.

use std::collections::BTreeMap;

/// What has to happen at least once: a scenario that never happens proves nothing.
const HAPPENS: &[&str] = &[
    "answered",
    "the second race",
    "somebody removed",
    "somebody else answered",
    "the disk was full",
    "a requester died",
    "a requester left",
    "the daemon died",
    "a server died",
    "answered while nobody served",
    "left",
    "nothing is left",
    "a lock was removed",
    "a name was used again",
    "an answer of an earlier run was known again",
];

#[test]
fn f2_f3_f6_f10_f14_a_forwarding_tree_keeps_its_word_in_every_world() {
    let mut happened = BTreeMap::new();
    for seed in 0..2_000 {
        for what in askd_sim::spool::run(seed) {
            *happened.entry(what).or_insert(0u32) += 1;
        }
    }
    for what in HAPPENS {
        assert!(happened.contains_key(what), "never happened: {what}; {happened:?}");
    }
}
