//! Worlds that always run: seeds that once failed, seeds that must replay, and proof that everything that is claimed to
//! be tried does happen.

use askd_sim::{Counts, run};

/// Seeds in which a fault showed itself that is gone now, with what it was. Worlds grow, and a seed may lead elsewhere
/// since: `faults.rs` has each of them by itself.
const REGRESSIONS: &[(u64, &str)] = &[
    (6, "a batch that was written although the journal could not tell was never told of"),
    (44, "a batch that was written although the journal could not tell was never told of"),
    (36, "a requester that held on lost its link when the journal could not be read back"),
    (106, "a requester that held on lost its link when the journal could not be read back"),
    (131, "the head of a finished ask stayed open when it could not be read"),
    (224, "the head of a finished ask stayed open when it could not be read"),
    (406, "a batch that failed still took the link from an ask that it had handed back"),
    (924, "a batch that failed still took the link from an ask that it had handed back"),
    (151, "a poll that was not recorded ended the wait for remote surfaces"),
    (361, "a poll that was not recorded ended the wait for remote surfaces"),
    (2, "a resumed agent could not ask under the key of its predecessor"),
    (29, "a resumed agent could not ask under the key of its predecessor"),
    (346, "an older ask of another process under the same key hid the requester's own"),
    (2110, "an older ask of another process under the same key hid the requester's own"),
    (8625, "a cancel did not pass through a session that had ended before a restart"),
    (13226, "a cancel did not pass through a session that had ended before a restart"),
    (135, "a request read late, from a connection that was replaced, took the ask over"),
    (210, "a request read late, from a connection that was replaced, took the ask over"),
    (8, "one answer let two calls of one process run"),
    (90, "one answer let two calls of one process run"),
    (888, "an ask that was never recorded used its call up"),
    (1364, "an ask that was never recorded used its call up"),
    (142, "a requester that asked again was taken for another call"),
    (442, "a requester that asked again was taken for another call"),
];

/// What has to happen at least once in a thousand worlds: a scenario that never happens proves nothing.
const HAPPENS: &[&str] = &[
    // Outcomes, with their causes.
    "allowed by a person",
    "denied by a person",
    "allowed by the deadline",
    "denied by the deadline",
    "allowed by the own prompt",
    "denied by the own prompt",
    "allowed by a late answer",
    "denied by a late answer",
    "denied as unreachable",
    "withdrawn: cancelled",
    "withdrawn: session ended",
    "withdrawn: superseded",
    "withdrawn: requester gone",
    "withdrawn: requester limit",
    // What happens to an ask.
    "asked",
    "shown",
    "surface_failed",
    "settled",
    "withdrawn",
    "late_recorded",
    "late_used",
    "late_revoked",
    "detached",
    "reattached",
    "handed_back",
    "handed",
    "confirmed",
    "overtaken",
    "delivery_refused",
    "voided",
    "delivery_expired",
    "self_answer_refused",
    // What answerers hear.
    "answer settled",
    "answer refused: already settled",
    "answer refused: late",
    "answer refused: handed back",
    "answer refused: digest mismatch",
    "answer refused: option not offered",
    "answer refused: not permitted",
    "answer refused: unknown ask",
    "answer refused: not recorded",
    "opposite answers at once",
    "answered in bulk",
    "waited for a slot",
    "allowed while the turn was cancelled",
    "answered at the deadline",
    "stranger refused",
    "own side told that it decided",
    "late always",
    "queue answered",
    "queue answered in bulk",
    "queue key held",
    "queue lost its terminal",
    "override for a session",
    "override for all",
    "override refused",
    "overrides_set",
    "asked under an override",
    "allowed as skipped",
    // What requesters and agents live through.
    "raised",
    "re-attached",
    "handed back told",
    "no opinion told",
    "outcome lost",
    "outcome not taken",
    "ask refused",
    "requester died",
    "requester died before handing over",
    "requester left after handing over and did not say so",
    "requester gave up",
    "requester lost its connection",
    "ran because it was allowed",
    "ran by the own prompt",
    "denied",
    "turn cancelled",
    "agent killed",
    "agent resumed",
    // What goes wrong.
    "crash when drained",
    "crash when applied",
    "crash when committed",
    "crash when released",
    "crash between replies",
    "restart",
    "orderly stop",
    "start failed",
    "journal full",
    "unknown and written",
    "unknown and lost",
    "told only with the next batch",
    "reads broken",
    "request lost",
    "request doubled",
    "reply lost",
    "connection broken",
    "clock stepped",
    "suspend",
    "reboot",
    "surface left",
    "surface failed",
    "surface lied",
    // Two daemons on one journal.
    "world with two daemons",
    "conflict on a stream",
    "conflict on a claim",
    "raised at two daemons",
    "requester went to another daemon",
    "outcome read from the journal",
];

#[test]
fn seeds_that_once_failed_hold() {
    for (seed, what) in REGRESSIONS {
        if let Err(failure) = run(*seed) {
            panic!("{what}\n{failure}");
        }
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        assert_eq!(run(seed).unwrap(), run(seed).unwrap());
    }
}

/// Durable before visible, one outcome, no invented decision, and every other tenet: they hold in each world, or it
/// fails. Here it is also seen that the worlds are full of what could break them.
#[test]
fn c1_c5_c6_c8_c11_t7_every_tenet_holds_in_a_thousand_worlds_and_everything_happens() {
    let mut counts = Counts::default();
    for seed in 0..1_000 {
        match run(seed) {
            Ok(report) => counts.merge(&report.counts),
            Err(failure) => panic!("{failure}"),
        }
    }
    let missing: Vec<_> = HAPPENS.iter().filter(|what| counts.of(what) == 0).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}
