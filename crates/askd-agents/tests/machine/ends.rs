//! How asks end: cancelled, withdrawn, with either side gone.

use std::time::Duration;

use askd_agents::acp::{Answered, News};
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Stage, outcome};

#[test]
fn a_deny_that_stops_cancels_the_turn() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.ask(&json!(5), "s", "d");
    let outcome = askd_wire::Outcome { stop: true, ..outcome("no", Verdict::Deny) };
    stage.news(News::Outcome { ask, outcome: Box::new(outcome) });
    assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["optionId"], "no");
    assert!(stage.to_agent.iter().any(|l| l.contains("\"session/cancel\"")));
    assert_eq!(stage.answers(&json!(5))[0]["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn a6_a_cancel_ends_every_ask_of_the_tree_and_a_late_allow_runs_nothing() {
    let mut stage = Stage::new("agent", &json!({"subagents":{}}));
    stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"child","title":"t","state":{"state":"running"}}));
    stage.client(&json!({"id":20,"method":"session/new","params":{"cwd":"/w"}}));
    stage.agent(&json!({"id":20,"result":{"sessionId":"other"}}));
    let asks = [
        stage.ask(&json!(4), "s", "c"),
        stage.ask(&json!(5), "child", "d"),
        stage.ask(&json!(6), "other", "e"),
    ];
    // One is answered and on its way to the journal.
    stage.select(&json!(4), "ok");
    stage.clear();
    let cancel = json!({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}});
    stage.client(&cancel);
    assert_eq!(serde_json::from_str::<Value>(&stage.to_agent[0]).unwrap(), cancel, "the cancel goes first");
    for id in [4, 5] {
        assert_eq!(stage.answers(&json!(id))[0]["result"]["outcome"]["outcome"], "cancelled");
    }
    assert!(stage.answers(&json!(6)).is_empty(), "another session's ask stays");
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 5, "4 was answered");
    assert!(stage.was_told("TurnCancelled"));
    stage.clear();
    // Late allows of every kind.
    stage.news(News::Answered { ask: asks[0], how: Answered::Won });
    stage.elsewhere(asks[1], "ok", Verdict::Allow);
    stage.select(&json!(5), "ok");
    assert!(stage.to_agent.is_empty());
    // An ask of the turn that is ending is not shown.
    stage.agent(&json!({"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"f"},"options":[]}}));
    assert_eq!(stage.answers(&json!(7))[0]["result"]["outcome"]["outcome"], "cancelled");
    // The next prompt works.
    stage.agent(&json!({"id":3,"result":{"stopReason":"cancelled"}}));
    stage.prompt(8);
    let ask = stage.ask(&json!(9), "s", "g");
    stage.elsewhere(ask, "ok", Verdict::Allow);
    assert_eq!(stage.answers(&json!(9))[0]["result"]["outcome"]["optionId"], "ok");
}

#[test]
fn a6_the_gate_holds_for_the_whole_tree_until_the_old_turn_is_over() {
    let child = |stage: &mut Stage, parent: &str, name: &str| {
        stage.update(parent, json!({"sessionUpdate":"subagent_update","sessionId":name,"title":"t","state":{"state":"running"}}));
    };
    let cancel = |session: &str| json!({"method":"session/cancel","params":{"sessionId":session}});
    let is_gated = |stage: &mut Stage, id: u64, session: &str| {
        stage.clear();
        stage.agent(&json!({"id":id,"method":"session/request_permission","params":{"sessionId":session,
            "toolCall":{"toolCallId":format!("call-{id}")},"options":[]}}));
        let answers = stage.answers(&json!(id));
        assert_eq!(answers.is_empty(), !stage.raised.is_empty());
        answers.first().is_some_and(|answer| answer["result"]["outcome"]["outcome"] == "cancelled")
    };
    let mut stage = Stage::new("agent", &json!({"subagents":{}}));
    stage.client(&cancel("s"));
    // Children that are told of afterwards, and what they asked before they were told of.
    child(&mut stage, "s", "a");
    child(&mut stage, "a", "b");
    assert!(is_gated(&mut stage, 40, "a") && is_gated(&mut stage, 41, "b"));
    assert!(!is_gated(&mut stage, 42, "c"), "nobody knows whose it is");
    child(&mut stage, "b", "c");
    assert_eq!(stage.answers(&json!(42))[0]["result"]["outcome"]["outcome"], "cancelled");
    // The next prompt is under way before the agent ended the cancelled one.
    stage.prompt(50);
    assert!(is_gated(&mut stage, 43, "s") && is_gated(&mut stage, 44, "b"));
    stage.agent(&json!({"id":3,"result":{"stopReason":"cancelled"}}));
    assert!(!is_gated(&mut stage, 45, "s") && !is_gated(&mut stage, 46, "b"));
    // A child by itself.
    stage.client(&cancel("a"));
    assert!(is_gated(&mut stage, 47, "a") && is_gated(&mut stage, 48, "b"));
    assert!(!is_gated(&mut stage, 49, "s"));
    stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"a","state":{"state":"idle","stopReason":"cancelled"}}));
    assert!(!is_gated(&mut stage, 51, "a"));
}

#[test]
fn a6_a_cancelled_prompt_that_never_ends_shuts_the_gate_for_a_while_only() {
    let mut stage = Stage::new("agent", &json!({}));
    let cancel = json!({"method":"session/cancel","params":{"sessionId":"s"}});
    stage.client(&cancel);
    // However late the next prompt comes, what is asked right after it may still be of the old turn.
    stage.pass(Duration::from_secs(3600));
    stage.prompt(50);
    let asked = |stage: &mut Stage, id: u64| {
        stage.clear();
        stage.agent(&json!({"id":id,"method":"session/request_permission","params":{"sessionId":"s",
            "toolCall":{"toolCallId":format!("call-{id}")},"options":[]}}));
        assert_eq!(stage.answers(&json!(id)).is_empty(), !stage.raised.is_empty());
        !stage.raised.is_empty()
    };
    assert!(!asked(&mut stage, 40));
    stage.pass(Duration::from_secs(29));
    // Another prompt does not make it longer.
    stage.prompt(51);
    assert!(!asked(&mut stage, 41));
    stage.pass(Duration::from_secs(1));
    assert!(asked(&mut stage, 42), "the agent goes on without having ended it");
    // The next cancel shuts it again, until its own results.
    stage.client(&cancel);
    assert!(!asked(&mut stage, 43));
    for prompt in [50, 51] {
        assert!(!asked(&mut stage, 44 + prompt));
        stage.agent(&json!({"id":prompt,"result":{"stopReason":"cancelled"}}));
    }
    stage.prompt(52);
    assert!(!asked(&mut stage, 60), "the first one is still not over");
    stage.agent(&json!({"id":3,"result":{"stopReason":"cancelled"}}));
    assert!(asked(&mut stage, 61));
}

#[test]
fn a7_a_childs_end_withdraws_its_ask() {
    let mut stage = Stage::new("agent", &json!({"subagents":{}}));
    stage.update(
        "s",
        json!({"sessionUpdate":"subagent_update","sessionId":"a","title":"t","state":{"state":"running"}}),
    );
    stage.update(
        "s",
        json!({"sessionUpdate":"subagent_update","sessionId":"b","title":"t","state":{"state":"running"}}),
    );
    let (a, b) = (stage.ask(&json!(4), "a", "c"), stage.ask(&json!(5), "b", "c"));
    stage.clear();
    stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"a","state":{"state":"idle","stopReason":"end_turn"}}));
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
    assert!(stage.was_told("Withdraw { ask: 1"));
    stage.clear();
    stage.select(&json!(4), "ok");
    stage.elsewhere(a, "ok", Verdict::Allow);
    assert!(stage.to_agent.is_empty());
    stage.elsewhere(b, "no", Verdict::Deny);
    assert_eq!(stage.answers(&json!(5)).len(), 1, "a5: the other child is asked as before");
}

#[test]
fn a7_the_agent_withdraws() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(0), "s", "c");
    stage.clear();
    stage.agent_raw(b"{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":0}}\n");
    assert_eq!(stage.to_client, ["{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":0}}\n"]);
    assert!(stage.was_told("Withdraw"));
    let answers = stage.answers(&json!(0));
    assert_eq!((answers.len(), &answers[0]["error"]["code"]), (1, &json!(-32800)), "its request is over");
    stage.clear();
    stage.client(&json!({"id":0,"error":{"code":-32800,"message":"Request cancelled"}}));
    stage.select(&json!(0), "ok");
    stage.elsewhere(ask, "ok", Verdict::Allow);
    stage.agent_raw(b"{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":0}}\n");
    assert!(stage.to_agent.is_empty());
}

#[test]
fn a5_an_ask_outlives_the_prompt_of_agents_whose_children_do() {
    let mut stage = Stage::new("claude-agent-acp", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.agent(&json!({"id":3,"result":{"stopReason":"end_turn"}}));
    stage.elsewhere(ask, "ok", Verdict::Allow);
    assert_eq!(stage.answers(&json!(4)).len(), 1);

    let mut stage = Stage::new("OpenCode", &json!({}));
    stage.ask(&json!(4), "s", "c");
    stage.agent(&json!({"id":3,"result":{"stopReason":"end_turn"}}));
    assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn a12_nothing_stale_after_a_reload() {
    for method in ["session/load", "session/resume"] {
        let mut stage = Stage::new("agent", &json!({"subagents":{}}));
        stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"child","title":"t","state":{"state":"running"}}));
        let old = stage.ask(&json!(4), "child", "c");
        stage.clear();
        stage.client(&json!({"id":30,"method":method,"params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}));
        assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
        stage.agent(&json!({"id":30,"result":{}}));
        stage.clear();
        stage.elsewhere(old, "ok", Verdict::Allow);
        assert!(stage.to_agent.is_empty());
        // The child runs again, with the same call.
        let again = stage.ask(&json!(40), "child", "c");
        assert_eq!(stage.all_at_client("session/request_permission").len(), 1);
        assert_ne!(old, again);
    }
}

#[test]
fn a15_without_a_client_asks_wait_for_the_grace() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.client_closed();
    assert!(!stage.closed);
    stage.pass(Duration::from_secs(59));
    assert!(!stage.closed);
    stage.elsewhere(ask, "ok", Verdict::Allow);
    assert_eq!(stage.answers(&json!(4)).len(), 1);
    assert!(!stage.closed, "the turn goes on");
    stage.agent(&json!({"id":3,"result":{"stopReason":"end_turn"}}));
    assert!(stage.closed);

    let mut stage = Stage::new("agent", &json!({}));
    stage.ask(&json!(4), "s", "c");
    stage.client_closed();
    stage.pass(Duration::from_secs(60));
    assert!(stage.closed && stage.was_told("requester_gone"));
    assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["outcome"], "cancelled");

    let mut stage = Stage::new("agent", &json!({}));
    stage.client_closed();
    assert!(stage.closed, "nothing waits");
}

#[test]
fn a15_what_the_client_said_before_it_went_counts() {
    for raised in [true, false] {
        let mut stage = Stage::with_grace(false, Duration::ZERO);
        stage.agent(&json!({"id":4,"method":"session/request_permission","params":{"sessionId":"s",
            "toolCall":{"toolCallId":"c"},"options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}}));
        stage.ask(&json!(5), "s", "d");
        if raised {
            stage.news(News::Raised { ask: 1, timed: None });
        }
        stage.select(&json!(4), "ok");
        stage.client_closed();
        assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["optionId"], "ok");
        assert_eq!(stage.answers(&json!(5))[0]["result"]["outcome"]["outcome"], "cancelled");
        assert_eq!(stage.was_told("Record { ask: 1, allowed: true }"), !raised);
        assert!(stage.closed);
    }
}

#[test]
fn the_agents_end_withdraws_everything() {
    let mut stage = Stage::new("agent", &json!({}));
    stage.ask(&json!(4), "s", "c");
    stage.agent_closed();
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
    assert!(stage.was_told("requester_gone"));
    assert!(stage.answers(&json!(4)).is_empty());
}

#[test]
fn a14_commands_never_reach_the_agent() {
    let mut stage = Stage::new("agent", &json!({}));
    stage.client(&json!({"id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"/skip-permissions on"}]}}));
    assert!(stage.to_agent.is_empty());
    assert!(stage.was_told("Slash"));
    stage.client(&json!({"method":"$/cancel_request","params":{"requestId":"p"}}));
    assert!(stage.to_agent.is_empty());
    let ticket = stage
        .told
        .iter()
        .find_map(|t| t.split_once("Slash { ticket: ")?.1.split(',').next()?.parse().ok())
        .unwrap();
    stage.news(News::Slash { ticket, text: "it is on".to_owned() });
    assert_eq!(stage.at_client("session/update")["params"]["update"]["content"]["text"], "it is on");
    let last: Value = serde_json::from_str(stage.to_client.last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!("p"), &json!("end_turn")));
}

#[test]
fn a_session_that_the_agent_does_not_close_goes_on() {
    for refused in [true, false] {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.client(&json!({"jsonrpc":"2.0","id":9,"method":"session/close","params":{"sessionId":"s"}}));
        assert!(stage.was_told(&format!("Withdraw {{ ask: {ask}")), "{:?}", stage.told);
        assert!(!stage.was_told("SessionEnded") && !stage.was_told("Detach"), "{:?}", stage.told);
        stage.agent(&if refused {
            json!({"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no such method"}})
        } else {
            json!({"jsonrpc":"2.0","id":9,"result":{}})
        });
        assert_eq!(stage.was_told("SessionEnded"), !refused, "{:?}", stage.told);
        assert_eq!(stage.was_told("Detach"), !refused);
    }
}
