//! The wrapper of the control protocol in its seeded worlds.

use std::collections::BTreeMap;

/// What has to happen at least once: a scenario that never happens proves nothing.
const HAPPENS: &[&str] = &[
    "the host's answer went on",
    "another's answer went on",
    "a late answer of the host was dropped",
    "interrupted",
    "a task's ask",
    "a hook was first",
    "a hook crossed an answer",
    "the host failed",
    "the host died",
    "the agent died",
    "the wrapper died",
    "the daemon died",
    "recorded afterwards",
    "the answer came when the daemon was away",
    "the journal was slow",
    "the reply to an answer was lost",
    "nobody was left",
    "the input was closed",
];

#[test]
fn c1_c3_c5_c6_c7_the_wrapper_keeps_its_word_in_every_world() {
    let mut happened = BTreeMap::new();
    for seed in 0..1_500 {
        for what in askd_sim::control::run(seed) {
            *happened.entry(what).or_insert(0u32) += 1;
        }
    }
    for what in HAPPENS {
        assert!(happened.contains_key(what), "never happened: {what}; {happened:?}");
    }
}
