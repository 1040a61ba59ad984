//! What the end of a tool call says of the asks about it.

use askd_agents::acp::News;
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::Stage;

#[test]
fn a7_a_call_that_went_on_by_itself_ends_its_ask() {
    for (status, seen) in [("completed", "OwnPromptAnswered"), ("failed", "Withdraw")] {
        let mut stage = Stage::new("agent", &json!({}));
        stage.update(
            "s",
            json!({"sessionUpdate":"tool_call","toolCallId":"c","title":"t","status":"pending"}),
        );
        stage.ask(&json!(4), "s", "c");
        stage.update("s", json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":status}));
        assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
        let answers = stage.answers(&json!(4));
        assert_eq!(answers.len(), 1, "every request gets its response");
        assert_eq!(answers[0]["result"]["outcome"], json!({"outcome":"cancelled"}));
        assert!(stage.was_told(seen), "{status}");
    }
}

fn call(stage: &mut Stage, id: &str, status: &str) {
    let kind = if status == "pending" { "tool_call" } else { "tool_call_update" };
    stage.update("s", json!({"sessionUpdate":kind,"toolCallId":id,"title":"t","status":status}));
}

#[test]
fn c11_a_refused_call_that_ran_all_the_same_is_told() {
    for (in_client, status, told, never) in [
        (false, "completed", "OwnPromptAnswered { call: \"c\", allowed: true }", "Confirmed"),
        (true, "completed", "OwnPromptAnswered { call: \"c\", allowed: true }", "Confirmed"),
        (false, "failed", "Confirmed { ask: 1 }", "Observe"),
        (true, "failed", "Confirmed { ask: 1 }", "Observe"),
    ] {
        let mut stage = Stage::new("agent", &json!({}));
        call(&mut stage, "c", "pending");
        let ask = stage.ask(&json!(4), "s", "c");
        if in_client {
            stage.select(&json!(4), "no");
            stage.news(News::Answered { ask, how: askd_agents::acp::Answered::Won });
        } else {
            stage.elsewhere(ask, "no", Verdict::Deny);
        }
        stage.clear();
        call(&mut stage, "c", status);
        assert!(stage.was_told(told) && !stage.was_told(never), "{status}: {:?}", stage.told);
        // Another call with the same id says nothing of that ask.
        stage.clear();
        call(&mut stage, "c", "pending");
        call(&mut stage, "c", "completed");
        assert!(stage.told.is_empty(), "{:?}", stage.told);
    }
}

#[test]
fn a_call_that_asked_twice_and_was_refused_once_did_not_run() {
    let mut stage = Stage::new("agent", &json!({}));
    call(&mut stage, "c", "pending");
    let first = stage.ask(&json!(4), "s", "c");
    stage.elsewhere(first, "ok", Verdict::Allow);
    let second = stage.ask(&json!(5), "s", "c");
    stage.elsewhere(second, "no", Verdict::Deny);
    stage.clear();
    call(&mut stage, "c", "failed");
    // That it had run would be told of both asks.
    assert!(!stage.was_told("CallEnded"), "{:?}", stage.told);
    for ask in [first, second] {
        assert!(stage.was_told(&format!("Confirmed {{ ask: {ask} }}")), "{:?}", stage.told);
    }
}

/// An ask with an option of a kind that nobody knows, which the client chose.
fn answered_until_noon() -> Stage {
    let mut stage = Stage::new("agent", &json!({}));
    let mut options: Vec<Value> = serde_json::from_str(crate::support::OPTIONS).unwrap();
    options.push(json!({"optionId":"noon","name":"Until noon","kind":"allow_until_noon"}));
    stage.agent(&json!({"id":4,"method":"session/request_permission","params":{"sessionId":"s",
        "toolCall":{"toolCallId":"c","title":"t"},"options":options}}));
    stage.news(News::Raised { ask: 1, timed: None });
    stage.select(&json!(4), "noon");
    assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["optionId"], "noon");
    assert!(stage.was_told("cause: \"handed_back\"") && !stage.was_told("cancelled"), "{:?}", stage.told);
    stage.clear();
    stage
}

#[test]
fn a4_an_answer_that_askd_has_no_word_for_is_known_by_what_the_call_does() {
    for (status, told) in [
        ("completed", "OwnPromptAnswered { call: \"c\", allowed: true }"),
        ("failed", "Withdraw { ask: 1, cause: \"cancelled\" }"),
    ] {
        let mut stage = answered_until_noon();
        call(&mut stage, "c", status);
        assert!(stage.was_told(told), "{status}: {:?}", stage.told);
        stage.clear();
        stage.agent(&json!({"id":3,"result":{"stopReason":"end_turn"}}));
        assert!(!stage.was_told("Withdraw"), "once: {:?}", stage.told);
    }
    // Nothing was ever seen of its call: it does not stay listed behind its turn.
    let mut stage = answered_until_noon();
    stage.agent(&json!({"id":3,"result":{"stopReason":"end_turn"}}));
    assert!(stage.was_told("Withdraw { ask: 1, cause: \"cancelled\" }"), "{:?}", stage.told);
}
