//! What goes on without its host: children that are resumed, and requests that only the host could serve.

use std::time::Duration;

use askd_agents::claude::HostKind;
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTES: Duration = Duration::from_secs(600);

fn callback(id: &str, event: &str) -> Value {
    let input = json!({"hook_event_name": event, "tool_name": "Bash", "tool_input": {"command": "x"}});
    json!({"type": "control_request", "request_id": id, "request": {
        "subtype": "hook_callback", "callback_id": "h", "input": input, "tool_use_id": "c"}})
}

fn tool(id: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {
        "subtype": "mcp_message", "server_name": "s", "message": {"method": "tools/call"}}})
}

fn last(bench: &Bench) -> Value {
    bench.to_agent.last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

#[test]
fn c7_what_only_the_host_could_do_gets_an_error_when_it_is_gone() {
    for kind in [HostKind::Answers, HostKind::Silent { attended: false }] {
        let mut bench = Bench::new(kind);
        bench.agent(&tool("open"));
        bench.agent(&tool("replied"));
        bench.agent(&tool("cancelled"));
        bench.respond("replied", &json!({}));
        bench.agent(&json!({"type": "control_cancel_request", "request_id": "cancelled"}));
        bench.forget();
        bench.close_host();
        let line = last(&bench);
        assert_eq!(bench.to_agent.len(), 1, "{:?}", bench.to_agent);
        assert_eq!(
            (&line["response"]["subtype"], &line["response"]["request_id"]),
            (&json!("error"), &json!("open"))
        );
        bench.forget();
        bench.agent(&tool("later"));
        assert_eq!(last(&bench)["response"]["request_id"], "later");
        assert_eq!(bench.to_host, [""; 0], "nobody may begin what nobody waits for");
        bench.agent(&callback("stop", "Stop"));
        assert_eq!(last(&bench)["response"]["subtype"], "error");
        let told = bench.logs.iter().filter(|text| text.contains("the host is gone: what only it")).count();
        assert_eq!(told, 1, "{:?}", bench.logs);
        assert!(bench.raised.is_empty());
        // A permission request is none of them.
        let no = bench.ask("r", "c");
        bench.pass(HOUR);
        assert!(!bench.to_agent.iter().any(|line| line.contains("\"r\"")), "{:?}", bench.to_agent);
        bench.outcome(no, outcome(Verdict::Allow));
        assert_eq!(last(&bench)["response"]["response"]["behavior"], "allow");
    }
}

#[test]
fn c7_a_call_that_the_host_would_have_checked_is_asked_about_and_not_let_through() {
    let mut bench = Bench::answering();
    bench.agent(&callback("open", "PreToolUse"));
    bench.forget();
    bench.close_host();
    bench.agent(&callback("later", "PreToolUse"));
    assert_eq!(bench.to_agent.len(), 2);
    for (line, id) in bench.to_agent.iter().zip(["open", "later"]) {
        let response = serde_json::from_str::<Value>(line).unwrap()["response"].take();
        assert_eq!((&response["subtype"], &response["request_id"]), (&json!("success"), &json!(id)));
        assert_eq!(response["response"]["hookSpecificOutput"]["permissionDecision"], "ask");
    }
}

fn state(state: &str) -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": state, "session_id": "s"})
}

fn system(subtype: &str, task: &str, more: &Value) -> Value {
    let mut line = json!({"type": "system", "subtype": subtype, "task_id": task, "session_id": "s"});
    for (name, value) in more.as_object().into_iter().flatten() {
        line[name] = value.clone();
    }
    line
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": tool, "input": input});
    json!({"type": "assistant", "message": {"content": [block]}, "parent_tool_use_id": null, "session_id": "s"})
}

fn returns(id: &str, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
    json!({"type": "user", "message": {"role": "user", "content": [block]}, "session_id": "s"})
}

/// A child called `bob` that has ended, and the turn that followed on it, with the host gone.
fn with_ended_child(how: &str) -> Bench {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    bench.agent(&state("running"));
    bench.agent(&call("a", "Agent", &json!({"name": "bob", "run_in_background": true})));
    bench.agent(&system("task_started", "t1", &json!({"tool_use_id": "a", "subagent_type": "k"})));
    bench.agent(&returns("a", "launched"));
    bench.agent(&json!({"type": "result", "session_id": "s"}));
    bench.close_host();
    bench.agent(&system("task_updated", "t1", &json!({"patch": {"status": how}})));
    bench.agent(&system("task_notification", "t1", &json!({"status": how})));
    bench
}

fn idles(bench: &mut Bench) {
    bench.agent(&json!({"type": "result", "session_id": "s"}));
    bench.agent(&state("idle"));
}

fn ends_again(bench: &mut Bench, task: &str) {
    assert!(!bench.closed);
    bench.agent(&system("task_notification", task, &json!({"status": "completed"})));
    bench.pass(Duration::from_secs(9));
    assert!(!bench.closed, "a turn may follow on it");
    bench.agent(&state("running"));
    idles(bench);
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_a_child_that_a_message_resumes_is_waited_for() {
    let resumed = r#"{"success":true,"message":"Agent \"bob\" was stopped (completed); resumed it"}"#;
    for (to, how, text) in
        [("bob", "completed", resumed), ("t1", "killed", resumed), ("other", "completed", "t1 goes on")]
    {
        let mut bench = with_ended_child(how);
        bench.agent(&state("running"));
        bench.agent(&call("m", "SendMessage", &json!({"to": to, "message": "more"})));
        bench.agent(&returns("m", text));
        idles(&mut bench);
        bench.pass(HOUR);
        assert!(bench.said("a background task runs"), "{:?}", bench.logs);
        ends_again(&mut bench, "t1");
    }
    // One that nobody knows.
    let mut bench = with_ended_child("completed");
    bench.agent(&state("running"));
    bench.agent(&call("m", "SendMessage", &json!({"to": "eve", "message": "more"})));
    bench.agent(&returns("m", "resumed it"));
    idles(&mut bench);
    bench.pass(HOUR);
    assert!(!bench.closed);
    bench.agent(&system("task_notification", "x", &json!({"status": "completed"})));
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_a_message_that_resumes_nothing_holds_nothing() {
    for text in [r#"{"success":false,"message":"t1 is not there"}"#, "queued"] {
        let mut bench = with_ended_child("completed");
        bench.agent(&state("running"));
        bench.agent(&call("m", "SendMessage", &json!({"to": "eve", "message": "more"})));
        bench.agent(&returns("m", text));
        idles(&mut bench);
        bench.pass(Duration::from_secs(10));
        assert!(bench.closed, "{text}");
    }
}

#[test]
fn c7_whatever_is_heard_of_a_child_after_its_end_revives_it_unless_it_was_stopped() {
    let signs = [
        system("task_progress", "t1", &json!({})),
        system("task_updated", "t1", &json!({"patch": {"status": "running"}})),
        json!({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool",
            "tool_name": "Bash", "input": {}, "tool_use_id": "c", "agent_id": "t1"}}),
    ];
    for sign in signs {
        let mut bench = with_ended_child("completed");
        bench.agent(&state("running"));
        bench.agent(&sign);
        if let Some((no, raise)) = bench.raised.pop() {
            assert_eq!(raise.subagent.unwrap().work_id, "t1");
            bench.outcome(no, outcome(Verdict::Allow));
        }
        idles(&mut bench);
        if sign["subtype"] == "task_progress" {
            // It may have been under way since before the end.
            bench.pass(MINUTES - Duration::from_secs(1));
            bench.agent(&sign);
            bench.pass(MINUTES - Duration::from_secs(1));
        } else {
            bench.pass(HOUR);
        }
        ends_again(&mut bench, "t1");
    }
    let mut bench = with_ended_child("killed");
    bench.agent(&state("running"));
    bench.agent(&system("task_progress", "t1", &json!({})));
    idles(&mut bench);
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_a_late_word_of_a_child_that_has_ended_holds_nobody_for_ever() {
    let mut bench = with_ended_child("completed");
    bench.agent(&state("running"));
    bench.agent(&system("task_progress", "t1", &json!({})));
    idles(&mut bench);
    assert!(bench.said("heard of again; for up to 10 minutes"), "{:?}", bench.logs);
    bench.pass(MINUTES - Duration::from_secs(1));
    assert!(!bench.closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.closed);
}

#[test]
fn c7_a_monitor_is_no_shell_its_lines_begin_turns() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    bench.agent(&state("running"));
    bench.agent(&call("m", "Monitor", &json!({"command": "x"})));
    let more = json!({"tool_use_id": "m", "task_type": "local_bash"});
    bench.agent(&system("task_started", "b", &more));
    bench.agent(&returns("m", "Monitor started"));
    bench.close_host();
    idles(&mut bench);
    bench.pass(HOUR);
    ends_again(&mut bench, "b");
}
