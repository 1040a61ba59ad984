//! Asks that the agent keeps to itself.

use askd_agents::acp::{Answered, News};
use askd_agents::hidden::{HiddenEnd, HiddenEvent, HiddenReply, HiddenTold};
use askd_wire::{Class, Verdict};
use serde_json::{Value, json};

use crate::support::{Stage, hidden_ask, outcome};

fn opencode(capabilities: &Value) -> Stage {
    Stage::new("OpenCode", capabilities)
}

/// One of the session that the client opened, which the agent forwards as well.
fn main_ask(id: &str, call: &str) -> HiddenEvent {
    let mut event = hidden_ask(id, "s", call);
    if let HiddenEvent::Asked(ask) = &mut event {
        ask.subagent = None;
    }
    event
}

#[test]
fn a1_a2_a_hidden_ask_comes_on_the_root_session_with_the_mark() {
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "child", "call_7"));
    assert!(stage.to_client.is_empty(), "durable before visible");
    let raise = stage.raised[0].1.clone();
    assert_eq!((raise.session.as_str(), raise.parent.as_deref()), ("child", Some("s")));
    let grants: Vec<_> = raise.options.iter().map(|o| o.grants.as_deref()).collect();
    assert_eq!(grants, [None, Some("bash touch *"), None]);
    let ask = stage.last_raised();
    let shown = stage.at_client("session/request_permission");
    assert_eq!(shown["id"].as_str().unwrap().strip_prefix("askd-m-").map(str::len), Some(1));
    let params = &shown["params"];
    assert_eq!(params["sessionId"], "s");
    assert_eq!(params["toolCall"]["toolCallId"], "child/call_7");
    assert_eq!(params["toolCall"]["title"], "[title of child] touch x");
    assert_eq!(params["toolCall"]["kind"], "execute");
    assert_eq!(params["toolCall"]["rawInput"], json!({"command":"touch x"}));
    assert_eq!(
        params["_meta"]["fx"]["subagent"],
        json!({"sessionId":"child","workId":"task-1","toolCallId":"call_7"})
    );
    let ids: Vec<&str> =
        params["options"].as_array().unwrap().iter().map(|o| o["optionId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["once", "always", "reject"]);
    let announced = stage.to_client.iter().position(|l| l.contains("\"tool_call\"")).unwrap();
    let asked = stage.to_client.iter().position(|l| l.contains("request_permission")).unwrap();
    assert!(announced < asked);
    // Answered in the client.
    stage.clear();
    stage.select(&shown["id"], "once");
    stage.news(News::Answered { ask, how: Answered::Won });
    assert_eq!(stage.replies, [("per_1".to_owned(), HiddenReply::Once, None)]);
    assert!(stage.to_agent.is_empty(), "the agent knows nothing of this request");
    assert!(stage.at_client("session/update")["params"]["update"]["status"] == "in_progress");
}

#[test]
fn a3_a_client_with_child_sessions_hears_of_the_child_first() {
    let mut stage = opencode(&json!({"subagents":{}}));
    stage.hidden(hidden_ask("per_1", "child", "call_7"));
    stage.last_raised();
    let updates = stage.all_at_client("session/update");
    assert_eq!(updates[0]["params"]["sessionId"], "s");
    let child = &updates[0]["params"]["update"];
    assert_eq!((&child["sessionUpdate"], &child["sessionId"]), (&json!("subagent_update"), &json!("child")));
    assert_eq!((&child["title"], &child["description"]), (&json!("title of child"), &json!("general")));
    assert_eq!(child["state"]["state"], "requires_action");
    assert!(child.get("capabilities").is_none(), "we cannot cancel it");
    let shown = stage.at_client("session/request_permission");
    assert_eq!(shown["params"]["sessionId"], "child");
    assert_eq!(shown["params"]["toolCall"]["toolCallId"], "call_7");
    assert!(shown["params"].get("_meta").is_none());
}

#[test]
fn a5_two_children_get_opposite_answers() {
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "a", "c"));
    let a = stage.last_raised();
    stage.hidden(hidden_ask("per_2", "b", "c"));
    let b = stage.last_raised();
    assert_eq!(stage.all_at_client("session/request_permission").len(), 2);
    stage.elsewhere(b, "once", Verdict::Allow);
    stage.elsewhere(a, "reject", Verdict::Deny);
    assert_eq!(
        stage.replies,
        [
            ("per_2".to_owned(), HiddenReply::Once, None),
            ("per_1".to_owned(), HiddenReply::Reject, Some("not this one".to_owned()))
        ]
    );
    assert_eq!(stage.all_at_client("$/cancel_request").len(), 2);
}

#[test]
fn a6_a_cancel_rejects_hidden_asks_and_a_late_allow_does_nothing() {
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "child", "c"));
    let ask = stage.last_raised();
    let id = stage.at_client("session/request_permission")["id"].clone();
    stage.clear();
    stage.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
    assert_eq!(stage.replies, [("per_1".to_owned(), HiddenReply::Reject, None)]);
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], id);
    stage.clear();
    stage.select(&id, "once");
    stage.elsewhere(ask, "once", Verdict::Allow);
    assert!(stage.replies.is_empty() && stage.to_agent.is_empty());
    // One that comes while the turn ends is rejected unseen.
    stage.hidden(hidden_ask("per_2", "child", "d"));
    assert_eq!(stage.replies, [("per_2".to_owned(), HiddenReply::Reject, None)]);
    assert!(stage.to_client.is_empty() && stage.raised.is_empty());
}

#[test]
fn a7_a_hidden_ask_that_was_settled_elsewhere_is_withdrawn() {
    for (how, told) in [
        (HiddenEnd::Allowed, "allowed: true"),
        (HiddenEnd::Rejected, "allowed: false"),
        (HiddenEnd::Vanished, "Withdraw"),
    ] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        stage.last_raised();
        stage.clear();
        stage.hidden(HiddenEvent::Gone { id: "per_1".to_owned(), how });
        assert!(stage.was_told(told), "{:?}", stage.told);
        assert_eq!(stage.all_at_client("$/cancel_request").len(), 1);
        assert!(stage.replies.is_empty());
    }
}

#[test]
fn a_main_ask_is_not_shown_twice_and_its_servers_word_withdraws_the_dialog() {
    let mut stage = opencode(&json!({}));
    stage.hidden(main_ask("per_1", "c"));
    assert!(stage.raised.is_empty());
    stage.ask(&json!(4), "s", "c");
    stage.hidden(HiddenEvent::Gone { id: "per_1".to_owned(), how: HiddenEnd::Rejected });
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
    assert!(stage.was_told("OwnPromptAnswered { call: \"c\", allowed: false }"));
    assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"], json!({"outcome":"cancelled"}));
}

#[test]
fn a_hidden_ask_that_the_client_cannot_show_is_rejected_by_nobody() {
    for failed in [true, false] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        let id = stage.at_client("session/request_permission")["id"].clone();
        if failed {
            stage.client(&json!({"id":id,"error":{"code":-32602,"message":"unknown session"}}));
        } else {
            stage.select(&id, "once");
            stage.news(News::Answered { ask, how: Answered::NotPermitted("a descendant".to_owned()) });
        }
        stage.news(News::Others { ask, attached: false });
        assert!(stage.replies.is_empty());
        // Whoever comes later answers it.
        stage.elsewhere(ask, "once", Verdict::Allow);
        assert_eq!(stage.replies, [("per_1".to_owned(), HiddenReply::Once, None)]);
    }
}

#[test]
fn a_hidden_ask_that_nobody_was_shown_is_left_to_the_agents_own_prompt() {
    for stopped in [true, false] {
        let mut stage = opencode(&json!({}));
        let mut event = hidden_ask("per_1", "child", "c");
        if let HiddenEvent::Asked(ask) = &mut event {
            // A session that this client did not open.
            ask.root = "elsewhere".to_owned();
            ask.subagent.as_mut().unwrap().parent = "elsewhere".to_owned();
        }
        stage.hidden(event);
        let ask = stage.last_raised();
        stage.news(if stopped {
            News::Outcome { ask, outcome: Box::new(outcome("", Verdict::None)) }
        } else {
            News::Unavailable { ask, why: "no askd daemon runs".to_owned() }
        });
        stage.client_closed();
        stage.pass(std::time::Duration::from_secs(100));
        assert!(stage.closed && stage.replies.is_empty(), "{:?}", stage.replies);
        assert!(stage.to_client.is_empty(), "no card is closed that was never shown: {:?}", stage.to_client);
    }
}

#[test]
fn a_hidden_ask_without_askd_is_the_clients_alone() {
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "child", "c"));
    let ask = stage.raised[0].0;
    stage.news(News::Unavailable { ask, why: "no askd daemon runs".to_owned() });
    let id = stage.at_client("session/request_permission")["id"].clone();
    stage.select(&id, "reject");
    assert_eq!(stage.replies, [("per_1".to_owned(), HiddenReply::Reject, None)]);
    assert!(stage.was_told("Record { ask: "));
}

#[test]
fn a_loop_that_the_agent_asks_about_is_a_safety_ask() {
    let mut stage = opencode(&json!({}));
    let mut event = hidden_ask("per_1", "child", "c");
    if let HiddenEvent::Asked(ask) = &mut event {
        ask.tool = "doom_loop".to_owned();
    }
    stage.hidden(event);
    stage.hidden(hidden_ask("per_2", "child", "d"));
    let classes: Vec<_> = stage.raised.iter().map(|(_, raise)| raise.class).collect();
    assert_eq!(classes, [Class::Safety, Class::Tool]);
}

#[test]
fn a12_a_session_that_is_loaded_again_denies_nothing_that_the_server_still_asks() {
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "child", "c"));
    let ask = stage.last_raised();
    stage.client(
        &json!({"jsonrpc":"2.0","id":77,"method":"session/load","params":{"sessionId":"s","cwd":"/"}}),
    );
    assert!(stage.replies.is_empty(), "{:?}", stage.replies);
    // It can still be answered.
    stage.news(News::Outcome { ask, outcome: Box::new(outcome("once", Verdict::Allow)) });
    assert_eq!(stage.replies, [("per_1".to_owned(), HiddenReply::Once, None)]);
}

#[test]
fn c11_what_the_server_did_otherwise_than_was_decided_is_told() {
    for (verdict, how, told, never) in [
        (Verdict::Deny, HiddenEnd::Allowed, "OwnPromptAnswered { call: \"c\", allowed: true }", "Confirmed"),
        (
            Verdict::Allow,
            HiddenEnd::Rejected,
            "OwnPromptAnswered { call: \"c\", allowed: false }",
            "Confirmed",
        ),
        (Verdict::Deny, HiddenEnd::Rejected, "Confirmed", "OwnPrompt"),
        (Verdict::Allow, HiddenEnd::Allowed, "Confirmed", "OwnPrompt"),
        (Verdict::Deny, HiddenEnd::Vanished, "cause: \"cancelled\"", "Confirmed"),
        (Verdict::Allow, HiddenEnd::Vanished, "cause: \"cancelled\"", "Confirmed"),
    ] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        stage.elsewhere(ask, if verdict == Verdict::Allow { "once" } else { "reject" }, verdict);
        stage.clear();
        stage.hidden(HiddenEvent::Gone { id: "per_1".to_owned(), how });
        assert!(stage.was_told(told) && !stage.was_told(never), "{verdict:?} {how:?}: {:?}", stage.told);
    }
}

/// The same of an ask that the agent forwards.
#[test]
fn c11_what_the_server_did_otherwise_with_a_main_ask_is_told() {
    for (option, verdict, how, told) in [
        ("no", Verdict::Deny, HiddenEnd::Allowed, "OwnPromptAnswered { call: \"c\", allowed: true }"),
        ("ok", Verdict::Allow, HiddenEnd::Rejected, "OwnPromptAnswered { call: \"c\", allowed: false }"),
        ("no", Verdict::Deny, HiddenEnd::Rejected, "Confirmed"),
    ] {
        let mut stage = opencode(&json!({}));
        stage.hidden(main_ask("per_1", "c"));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.elsewhere(ask, option, verdict);
        stage.clear();
        stage.hidden(HiddenEvent::Gone { id: "per_1".to_owned(), how });
        assert!(stage.was_told(told), "{verdict:?} {how:?}: {:?}", stage.told);
    }
}

#[test]
fn a15_a_main_ask_after_the_client_left_is_raised_once() {
    for server_first in [true, false] {
        let mut stage = opencode(&json!({}));
        stage.ask(&json!(4), "s", "b");
        stage.client_closed();
        assert!(!stage.closed, "the grace runs");
        stage.clear();
        let request = json!({"id":5,"method":"session/request_permission","params":{"sessionId":"s",
            "toolCall":{"toolCallId":"c","title":"t"},"options":[]}});
        if server_first {
            stage.hidden(main_ask("per_1", "c"));
            stage.agent(&request);
        } else {
            stage.agent(&request);
            stage.hidden(main_ask("per_1", "c"));
        }
        assert_eq!(stage.raised.len(), 1, "{server_first}");
    }
}

#[test]
fn t5_the_loop_question_of_the_main_session_is_a_safety_ask() {
    let loops = json!({"id":4,"method":"session/request_permission","params":{"sessionId":"s",
        "toolCall":{"toolCallId":"per_1","title":"doom_loop","kind":"other","rawInput":{"tool":"glob","input":{}}},
        "options":[{"optionId":"once","name":"Allow once","kind":"allow_once"}]}});
    let mut stage = opencode(&json!({}));
    stage.agent(&loops);
    let (_, raise) = &stage.raised[0];
    assert_eq!((raise.class, raise.action.tool.as_str()), (Class::Safety, "doom_loop"));
    // A call of that name is one, and another agent knows no such question.
    let mut call = loops.clone();
    call["params"]["toolCall"]["toolCallId"] = json!("call_1");
    for (agent, line) in [("OpenCode", &call), ("other", &loops)] {
        let mut stage = Stage::new(agent, &json!({}));
        stage.agent(line);
        assert_eq!(stage.raised[0].1.class, Class::Tool, "{agent}");
    }
}

#[test]
fn a6_a_cancel_takes_back_a_yes_that_is_not_with_the_server_yet() {
    let cancel = json!({"method":"session/cancel","params":{"sessionId":"s"}});
    for (arrived, forgotten) in [(true, false), (false, true)] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        stage.elsewhere(ask, "once", Verdict::Allow);
        if arrived {
            stage.machine.hidden_replied(ask, Some(HiddenTold::AsSaid), stage.now);
        }
        stage.clear();
        stage.client(&cancel);
        assert_eq!(stage.was_told("HiddenForget { id: \"per_1\" }"), forgotten, "{:?}", stage.told);
        assert!(stage.replies.is_empty());
    }
}

#[test]
fn c11_what_was_allowed_along_with_another_is_told_as_that() {
    for denied in [true, false] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        if denied {
            stage.elsewhere(ask, "reject", Verdict::Deny);
        }
        stage.clear();
        stage.hidden(HiddenEvent::Gone { id: "per_1".to_owned(), how: HiddenEnd::AllowedAlong });
        assert!(stage.was_told("DecidedByAgent { call: \"c\", allowed: true"), "{:?}", stage.told);
        assert!(!stage.was_told("OwnPrompt"), "{:?}", stage.told);
    }
}

#[test]
fn a3_the_card_of_a_childs_call_says_what_the_call_does() {
    let over =
        |call: &str, ok| HiddenEvent::CallEnded { session: "child".to_owned(), call: call.to_owned(), ok };
    let statuses = |stage: &Stage| -> Vec<String> {
        let told = stage.all_at_client("session/update");
        let told =
            told.iter().filter_map(|line| line["params"]["update"]["status"].as_str().map(str::to_owned));
        told.collect()
    };
    for (ok, last) in [(true, "completed"), (false, "failed")] {
        let mut stage = opencode(&json!({}));
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        stage.elsewhere(ask, "once", Verdict::Allow);
        stage.hidden(over("other", true));
        assert_eq!(statuses(&stage), ["pending", "in_progress"]);
        stage.hidden(over("c", ok));
        stage.hidden(over("c", ok));
        assert_eq!(statuses(&stage), ["pending", "in_progress", last]);
    }
    let mut stage = opencode(&json!({}));
    stage.hidden(hidden_ask("per_1", "child", "c"));
    let ask = stage.last_raised();
    stage.elsewhere(ask, "reject", Verdict::Deny);
    stage.hidden(over("c", false));
    assert_eq!(statuses(&stage), ["pending", "failed"]);
}

#[test]
fn a3_a_child_that_was_announced_is_idle_when_it_has_ended() {
    for (knows, cancelled) in [(true, false), (true, true), (false, false)] {
        let mut stage = opencode(&if knows { json!({"subagents":{}}) } else { json!({}) });
        stage.hidden(hidden_ask("per_1", "child", "c"));
        let ask = stage.last_raised();
        stage.elsewhere(ask, "once", Verdict::Allow);
        if cancelled {
            stage.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
        }
        stage.clear();
        stage.hidden(HiddenEvent::ChildEnded { session: "child".to_owned() });
        let told = stage.all_at_client("session/update");
        let reason = if cancelled { "cancelled" } else { "end_turn" };
        let idle = json!({"sessionUpdate":"subagent_update","sessionId":"child",
            "state":{"state":"idle","stopReason":reason}});
        let is_idle =
            told.last().is_some_and(|line| line["params"] == json!({"sessionId":"s","update":idle}));
        assert_eq!(is_idle, knows, "{told:?}");
        stage.clear();
        stage.hidden(HiddenEvent::ChildEnded { session: "child".to_owned() });
        assert!(stage.to_client.is_empty(), "once: {:?}", stage.to_client);
    }
}
