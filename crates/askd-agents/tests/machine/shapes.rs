//! How children's asks look, and how answers find their way.

use std::time::Duration;

use askd_agents::acp::{Answered, News};
use askd_wire::{Attendance, Verdict};
use serde_json::{Value, json};

use crate::support::Stage;

#[test]
fn a4_the_options_are_mirrored_and_the_clients_own_bytes_go_on() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(7), "s", "c1");
    let raise = &stage.raised[0].1;
    let options: Vec<&str> = raise.options.iter().map(|o| o.id.as_str()).collect();
    assert_eq!(options, ["ok", "ever", "no"]);
    assert_eq!(raise.action.input.as_ref().unwrap().get(), r#"{"command":"touch x"}"#);
    assert_eq!(raise.attendance, Some(Attendance::Foreground));
    stage.clear();
    let line = "{\"jsonrpc\":\"2.0\", \"id\":7,\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"ever\",\"_meta\":{}},\"_meta\":{\"n\":1.0}}}\n";
    stage.client_raw(line.as_bytes());
    assert!(stage.to_agent.is_empty(), "not before it is in the journal");
    assert!(stage.was_told("Answer { ask: 1, decision: Allow, option: Some(\"ever\"), message: None, stop: false, client: \"The Client\" }"));
    stage.news(News::Answered { ask, how: Answered::Won });
    assert_eq!(stage.to_agent, [line]);
    assert!(stage.to_client.is_empty(), "its own dialog is not withdrawn");
}

#[test]
fn a4_an_answer_goes_on_when_the_journal_is_slow_and_is_written_down_then() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(7), "s", "c1");
    stage.select(&json!(7), "ok");
    assert_eq!(stage.answers(&json!(7)).len(), 0);
    stage.pass(Duration::from_secs(3));
    assert_eq!(stage.answers(&json!(7)).len(), 1);
    // It had been denied elsewhere.
    let lost = crate::support::outcome("no", Verdict::Deny);
    stage.news(News::Answered { ask, how: Answered::Lost(Box::new(lost)) });
    assert!(stage.was_told("Record { ask: 1, allowed: true }"));
    assert_eq!(stage.answers(&json!(7)).len(), 1, "one outcome");
}

#[test]
fn two_options_of_one_kind_are_told_apart() {
    let mut stage = Stage::new("qwen-code", &json!({}));
    stage.agent(&json!({"id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},
        "options":[{"optionId":"all","name":"1","kind":"allow_always"},{"optionId":"a","name":"2","kind":"allow_once"},{"optionId":"b","name":"3","kind":"allow_once"}]}}));
    let ask = stage.last_raised();
    stage.elsewhere(ask, "b", Verdict::Allow);
    assert_eq!(stage.answers(&json!(1))[0]["result"]["outcome"]["optionId"], "b");

    stage.agent(&json!({"id":2,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"d"},
        "options":[{"optionId":"all","name":"1","kind":"allow_always"},{"optionId":"a","name":"2","kind":"allow_once"}]}}));
    let ask = stage.last_raised();
    stage.elsewhere(ask, "", Verdict::Deny);
    assert_eq!(
        stage.answers(&json!(2))[0]["result"],
        json!({"outcome":{"outcome":"cancelled"}}),
        "a10: no reject exists"
    );
}

#[test]
fn ids_are_told_apart() {
    let mut stage = Stage::new("agent", &json!({}));
    let ids = [json!(0), json!("0"), json!(null), json!(-3), json!("é")];
    let asks: Vec<_> = ids.iter().map(|id| stage.ask(id, "s", &format!("c{id}"))).collect();
    for (n, (id, ask)) in ids.iter().zip(asks).enumerate() {
        let option = if n % 2 == 0 { "ok" } else { "no" };
        stage.select(id, option);
        stage.news(News::Answered { ask, how: Answered::Won });
        let answers: Vec<Value> = stage.answers(id);
        assert_eq!(answers.len(), 1, "{id}");
        assert_eq!(answers[0]["result"]["outcome"]["optionId"], option, "{id}");
    }
}

#[test]
fn a2_a_claude_child_on_its_parents_session_gains_the_mark_once() {
    let mut stage = Stage::new("@agentclientprotocol/claude-agent-acp", &json!({}));
    stage.update(
        "s",
        json!({"sessionUpdate":"tool_call","toolCallId":"task-1","title":"Task","kind":"think",
        "rawInput":{"description":"read the docs","subagent_type":"reader"}}),
    );
    let ask = |stage: &mut Stage, id: u64, meta: Value| {
        stage.clear();
        stage.agent(&json!({"id":id,"method":"session/request_permission","params":{"sessionId":"s","_meta":meta,
            "toolCall":{"toolCallId":"t","title":"touch x","rawInput":{"n":1.0e1},"_meta":{"claudeCode":{"parentToolUseId":"task-1","toolName":"Bash"}}},
            "options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}}));
        stage.at_client("session/request_permission")
    };
    let shown = ask(&mut stage, 1, json!({"other":true}));
    assert_eq!(shown["id"], 1);
    let mark = &shown["params"]["_meta"]["fx"]["subagent"];
    assert_eq!((&mark["workId"], &mark["toolCallId"]), (&json!("task-1"), &json!("t")));
    assert_eq!(shown["params"]["_meta"]["other"], true);
    assert_eq!(shown["params"]["toolCall"]["toolCallId"], "t", "its ids stay");
    let raise = &stage.raised[0].1;
    assert_eq!((raise.agent.as_str(), raise.action.tool.as_str()), ("claude-code", "Bash"));
    let child = raise.subagent.as_ref().unwrap();
    assert_eq!(child.name.as_deref(), Some("read the docs"));
    assert_eq!((child.kind.as_deref(), child.work_id.as_str()), (Some("reader"), "task-1"));

    let before = json!({"fx":{"subagent":{"sessionId":"x","workId":"task-1","toolCallId":"t"}}});
    let shown = ask(&mut stage, 2, before.clone());
    assert_eq!(shown["params"]["_meta"], before, "marked already");
}

#[test]
fn a2_a_codex_child_is_known_by_its_unannounced_call() {
    let mut stage = Stage::new("@agentclientprotocol/codex-acp", &json!({}));
    stage.update("s", json!({"sessionUpdate":"tool_call","toolCallId":"main","title":"t"}));
    stage.ask(&json!(1), "s", "main");
    stage.ask(&json!(2), "s", "elicitation-5");
    stage.ask(&json!(3), "s", "exec-child");
    let marked: Vec<bool> = stage
        .all_at_client("session/request_permission")
        .iter()
        .map(|line| !line["params"]["_meta"]["fx"]["subagent"].is_null())
        .collect();
    assert_eq!(marked, [false, false, true]);
    assert_eq!(stage.raised[2].1.subagent.as_ref().unwrap().name.as_deref(), Some("subagent"));
    assert!(stage.raised[0].1.subagent.is_none());
}

#[test]
fn a3_a_childs_ask_on_its_own_session_passes_as_it_is() {
    let mut stage = Stage::new("@agentclientprotocol/claude-agent-acp", &json!({"subagents":{}}));
    stage.update(
        "s",
        json!({"sessionUpdate":"subagent_update","sessionId":"child","title":"the reader","state":{"state":"running"}}),
    );
    stage.clear();
    stage.ask(&json!(5), "child", "c");
    let shown = stage.at_client("session/request_permission");
    assert_eq!(shown["params"]["sessionId"], "child");
    assert!(shown["params"]["_meta"].is_null());
    let raise = &stage.raised[0].1;
    assert_eq!((raise.session.as_str(), raise.parent.as_deref()), ("child", Some("s")));
    assert_eq!(raise.subagent.as_ref().unwrap().name.as_deref(), Some("the reader"));
}

#[test]
fn a3_an_ask_before_its_child_was_announced_is_an_ask_all_the_same() {
    let mut stage = Stage::new("agent", &json!({"subagents":{}}));
    let ask = stage.ask(&json!(5), "child", "c");
    stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"child","title":"late","state":{"state":"running"}}));
    stage.elsewhere(ask, "ok", Verdict::Allow);
    assert_eq!(stage.answers(&json!(5)).len(), 1);
    assert!(stage.was_told("session: \"child\", parent: Some(\"s\")"), "the daemon hears whose child it is");
}

#[test]
fn a2_translate_turns_child_sessions_into_marked_asks() {
    let mut stage = Stage::with("codex-acp", &json!({}), true);
    stage.client(&json!({"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true}}}}));
    let sent: Value = serde_json::from_str(stage.to_agent.last().unwrap()).unwrap();
    assert_eq!(sent["params"]["clientCapabilities"], json!({"fs":{"readTextFile":true},"subagents":{}}));
    stage.clear();
    stage.update("s", json!({"sessionUpdate":"subagent_update","sessionId":"child","title":"helper","capabilities":{"cancel":{}},"state":{"state":"running"}}));
    stage.update("child", json!({"sessionUpdate":"tool_call","toolCallId":"c","title":"touch x"}));
    stage.update(
        "child",
        json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hm"}}),
    );
    assert!(stage.to_client.is_empty(), "the client hears nothing of a session that it does not know");
    stage.ask(&json!(9), "child", "c");
    let params = stage.at_client("session/request_permission")["params"].clone();
    assert_eq!(params["sessionId"], "s");
    assert_eq!(params["toolCall"]["toolCallId"], "child/c");
    assert_eq!(params["toolCall"]["title"], "[helper] touch x");
    assert_eq!(params["_meta"]["fx"]["subagent"]["sessionId"], "child");
    stage.clear();
    stage.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
    let methods: Vec<Value> = stage
        .to_agent
        .iter()
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["params"]["sessionId"].clone())
        .collect();
    assert_eq!(methods[..2], [json!("s"), json!("child")], "the child is cancelled too");
}

#[test]
fn a_background_childs_timer_is_in_the_title() {
    let mut stage = Stage::new("claude-agent-acp", &json!({}));
    stage.update("s", json!({"sessionUpdate":"tool_call","toolCallId":"task","title":"Task","rawInput":{"description":"watcher","run_in_background":true}}));
    stage.clear();
    stage.agent(&json!({"id":1,"method":"session/request_permission","params":{"sessionId":"s",
        "toolCall":{"toolCallId":"t","title":"touch x","_meta":{"claudeCode":{"parentToolUseId":"task"}}},
        "options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}}));
    stage.update(
        "s",
        json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"behind"}}),
    );
    assert!(stage.to_client.is_empty(), "everything waits for the deadline to be known");
    assert_eq!(stage.raised[0].1.attendance, Some(Attendance::Background));
    let ask = stage.raised[0].0;
    stage.news(News::Raised { ask, timed: Some("denied at 14:05 if nobody answers".to_owned()) });
    assert_eq!(stage.to_client.len(), 2);
    assert!(
        stage.to_client[0].contains("[watcher] touch x (denied at 14:05 if nobody answers)"),
        "{:?}",
        stage.to_client
    );
    assert!(stage.to_client[1].contains("behind"));
    // Without a daemon that says it in time, the dialog comes all the same.
    stage.clear();
    stage.agent(&json!({"id":2,"method":"session/request_permission","params":{"sessionId":"s",
        "toolCall":{"toolCallId":"u","title":"touch y","_meta":{"claudeCode":{"parentToolUseId":"task"}}},
        "options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}}));
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.at_client("session/request_permission")["params"]["toolCall"]["title"], "touch y");
}
