//! The ACP proxy in its seeded worlds.

use std::collections::BTreeMap;

/// What has to happen at least once: a scenario that never happens proves nothing.
const HAPPENS: &[&str] = &[
    "the client's answer went on",
    "another's answer went on",
    "the client's late answer was dropped",
    "cancelled",
    "a child's ask",
    "the daemon died",
    "the client died",
    "the proxy died",
    "recorded afterwards",
    "the answer came when the daemon was away",
    "the journal was slow",
    "the reply to an answer was lost",
    "dismissed",
    "withdrawn by the agent",
];

#[test]
fn a5_a6_a8_a10_the_proxy_keeps_its_word_in_every_world() {
    let mut happened = BTreeMap::new();
    for seed in 0..1_500 {
        for what in askd_sim::proxy::run(seed) {
            *happened.entry(what).or_insert(0u32) += 1;
        }
    }
    for what in HAPPENS {
        assert!(happened.contains_key(what), "never happened: {what}; {happened:?}");
    }
}
