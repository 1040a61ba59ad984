//! The example host, case by case.

#[expect(dead_code, reason = "the example's own main runs the same cases")]
#[path = "../examples/host.rs"]
mod host;

#[test]
fn c1_an_abort_of_the_parent_denies_nothing_and_runs_nothing() {
    host::parent_aborts_during_an_ask();
}

#[test]
fn c2_a_stream_closed_before_the_response_gets_it_by_the_retry() {
    host::stream_closed_before_the_response();
}

#[test]
fn c7_a_stream_closed_during_an_ask_denies_nothing() {
    host::stream_closed_during_an_ask();
}

#[test]
fn c3_a_hook_that_rejects_panics_or_is_undecided_is_no_decision() {
    host::hook_rejects_or_is_undecided();
}

#[test]
fn c3_a_hook_that_decides_first_wins_and_the_record_says_so() {
    host::hook_decides_first();
}

#[test]
fn c2_a_late_response_settles_the_same_call_once() {
    host::late_response();
}

#[test]
fn c5_a_duplicate_response_changes_nothing() {
    host::duplicate_response();
}

#[test]
fn c4_duplicates_are_known_after_a_thousand_calls() {
    host::many_calls(1_200);
}

#[test]
fn t8_with_nobody_to_ask_it_fails_closed_at_once() {
    host::nobody_to_ask();
}
