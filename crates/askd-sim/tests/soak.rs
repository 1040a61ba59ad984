//! 10 000 tool calls of one session, and a broker with the old faults that the same calls must catch.

use askd_sim::soak::{Found, Kind, Rule, run};

/// Every kind of trouble.
const TROUBLE: [&str; 39] = [
    "parallel calls",
    "a hook of the agent was first",
    "a person was first",
    "the host failed",
    "a response twice at once",
    "an old response again",
    "an unknown response",
    "the turn was stopped",
    "the daemon died or came back",
    "the host closed its end",
    "the host closed its end during an ask",
    "the agent was killed and resumed",
    "a child in the background",
    "a denial stopped a child in the background",
    "a denial stopped the turn",
    "an interrupt without a reply",
    "an interrupt that was slow to work",
    "the daemon was away for half a minute",
    "the daemon was away for longer than a deadline",
    "the host closed its end with a message queued",
    "the host closed its end with a message that was not read",
    "a turn began after the host had closed its end",
    "two messages in one turn",
    "a turn ended between a child's end and the turn that follows on it",
    "the agent was asked whether it has read everything",
    "asks were refused for good",
    "the host closed before anything was told",
    "a turn began by itself at the start",
    "an agent that never says that it is idle",
    "a shell in the background",
    "a shell ran on for hours",
    "a monitor",
    "a turn on a line of a monitor",
    "a scheduled turn",
    "a child was resumed after its end",
    "a late word of a child that had ended",
    "the agent wanted something else of its host",
    "the agent wanted something else of a host that was gone",
    "a call that nobody had checked was asked about",
];

fn nothing_is_wrong(found: &Found) {
    let wrong =
        [found.false_denies, found.false_allows, found.double_runs, found.lost_answers, found.changed_inputs];
    assert_eq!(wrong, [0; 5], "{found:?}");
    assert_eq!([found.never_let_go, found.hung, found.unchecked], [0; 3], "{found:?}");
}

#[test]
fn c10_ten_thousand_calls_without_a_false_deny_a_double_run_or_a_lost_answer() {
    let found = run(Kind::Askd, 1, 10_000);
    nothing_is_wrong(&found);
    assert_eq!(found.calls, 10_000);
    assert!(found.ran > 3_000 && found.denied > 1_500 && found.cancelled > 50, "{found:?}");
    for trouble in TROUBLE {
        assert!(found.happened.contains(trouble), "{trouble} did not happen: {:?}", found.happened);
    }
    // What is held does not grow with the calls (nor do its bytes: `soak_memory.rs`).
    assert!(found.most_held < 400, "{found:?}");
    assert!(found.held_at_the_end < 20, "{found:?}");
}

#[test]
fn c10_other_seeds() {
    for seed in 2..12 {
        nothing_is_wrong(&run(Kind::Askd, seed, 400));
    }
}

#[test]
fn c10_the_soak_finds_every_rule_that_is_broken() {
    for rule in Rule::ALL {
        let is_found = (1..31).any(|seed| {
            let found = run(Kind::Without(rule), seed, 2_000);
            [found.false_denies, found.never_let_go, found.hung].iter().any(|count| *count > 0)
        });
        assert!(is_found, "without {rule:?} nothing is found");
    }
}

#[test]
fn c10_the_soak_finds_the_faults_of_the_old_design() {
    let found = run(Kind::Old, 1, 10_000);
    assert!(found.false_denies > 0, "{found:?}");
    assert!(found.double_runs > 0, "{found:?}");
    assert!(found.lost_answers > 0, "{found:?}");
}
