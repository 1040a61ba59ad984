//! The simulation finds faults: each deliberate flaw makes some world fail, and for the reason that it should.

use crate::flaw::Flaw;
use crate::{Failure, run_with};

/// Worlds that a flaw may stay hidden in.
const PATIENCE: u64 = 600;

fn found(flaw: Flaw) -> Box<Failure> {
    (0..PATIENCE)
        .find_map(|seed| run_with(seed, Some(flaw)).err())
        .unwrap_or_else(|| panic!("{flaw:?} was not found in {PATIENCE} worlds"))
}

fn must_say(flaw: Flaw, words: &[&str]) {
    let failure = found(flaw);
    assert!(
        words.iter().any(|word| failure.broken.contains(word)),
        "{flaw:?} was found for another reason: {failure}"
    );
    assert!(!failure.story.is_empty(), "a failure tells its story");
}

#[test]
fn a_journal_that_acknowledges_without_keeping_is_found() {
    must_say(Flaw::KeepsNothing, &["were told", "is not there", "not in the journal"]);
}

#[test]
fn a_journal_that_does_not_compare_versions_is_found() {
    must_say(Flaw::Overwrites, &["it has an outcome already", "nothing was to be handed", "there is no"]);
}

#[test]
fn a_journal_that_guesses_after_a_lost_acknowledgement_is_found() {
    must_say(Flaw::GuessesWritten, &["were told", "is not there", "not in the journal"]);
}

#[test]
fn a_journal_that_forgets_an_open_ask_at_the_start_is_found() {
    must_say(Flaw::ForgetsHeads, &["started without an ask"]);
}

#[test]
fn a_shell_that_replies_before_the_commit_is_found() {
    must_say(Flaw::RepliesEarly, &["was acknowledged and is gone", "which is not so"]);
}

#[test]
fn a_shell_that_tells_the_wrong_requester_is_found() {
    must_say(Flaw::WrongRequester, &["not its own", "never got an outcome"]);
}

#[test]
fn a_shell_that_sends_a_voided_allow_is_found() {
    must_say(Flaw::SendsVoided, &["an allow is sent although"]);
}

#[test]
fn a_shell_that_forgets_a_requester_is_found() {
    must_say(Flaw::ForgetsWaiter, &["never got an outcome"]);
}

#[test]
fn c1_a_hook_that_takes_a_lost_connection_for_an_allow_is_found() {
    must_say(Flaw::InventsAllow, &["nobody allowed it"]);
}

#[test]
fn c1_a_hook_that_takes_a_lost_connection_for_a_deny_is_found() {
    must_say(Flaw::InventsDeny, &["is denied because of None"]);
}

#[test]
fn a_shell_that_forgets_to_wait_after_a_wake_is_found() {
    must_say(Flaw::ForgetsWake, &["a remote surface may still have an answer"]);
}

#[test]
fn s4_a_queue_that_is_told_of_a_frame_before_the_keys_is_found() {
    must_say(Flaw::ShowsEarly, &["another ask was on the screen"]);
}

#[test]
fn s4_a_queue_that_lets_allow_count_too_early_is_found() {
    must_say(Flaw::FastKeys, &["it had not been there for long enough"]);
}

#[test]
fn a_failing_seed_fails_again_in_the_same_way() {
    let first = found(Flaw::ForgetsWaiter);
    let again = run_with(first.seed, Some(Flaw::ForgetsWaiter)).unwrap_err();
    assert_eq!((first.at_ms, &first.broken, &first.story), (again.at_ms, &again.broken, &again.story));
}
