//! Telegram in its seeded worlds.

use std::collections::BTreeMap;

/// What has to happen at least once: a scenario that never happens proves nothing.
const HAPPENS: &[&str] = &[
    "a tap",
    "a forged tap",
    "a stranger's tap",
    "answered elsewhere",
    "a deadline",
    "the daemon died",
    "the daemon died between two steps",
    "a call was done and nobody heard",
    "the reply to a call was lost",
    "the journal took nothing",
    "blocked",
    "a card that nobody knows",
];

#[test]
fn t1_t2_t16_s5_the_bot_keeps_its_word_in_every_world() {
    let mut happened = BTreeMap::new();
    for seed in 0..400 {
        for what in askd_sim::remote::run(seed) {
            *happened.entry(what).or_insert(0u32) += 1;
        }
    }
    for what in HAPPENS {
        assert!(happened.contains_key(what), "never happened: {what}; {happened:?}");
    }
}
