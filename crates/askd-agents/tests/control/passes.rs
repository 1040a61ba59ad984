//! What passes, and what does not.

use std::time::Duration;

use askd_agents::claude::{AskNo, HostKind, News};
use askd_wire::{Attendance, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

#[test]
fn c13_everything_but_the_permission_part_passes_byte_for_byte_in_order() {
    let mut bench = Bench::answering();
    let agent: &[&[u8]] = &[
        b"{ \"type\" : \"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"\\ud83d\"}]}}\r\n",
        b"not json\n",
        b"\n",
        b"{\"type\":\"control_request\",\"request_id\":\"h\",\"request\":{\"subtype\":\"hook_callback\"}}\n",
        b"{\"type\":\"control_cancel_request\",\"request_id\":\"unknown\"}\n",
        b"{\"type\":\"x\",\"a\":\"\xff\"}\n",
        b"{\"type\":\"last\"}",
    ];
    let host: &[&[u8]] = &[
        b"{ \"type\":\"user\", \"message\":{\"role\":\"user\",\"content\":\"x\"}}\r\n",
        b"  \n",
        b"{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"h\",\"response\":{}}}\n",
        b"{\"type\":\"control_request\",\"request_id\":\"r\",\"request\":{\"subtype\":\"set_permission_mode\"}}\n",
        b"{\"type\":\"unknown\",\"n\":1.0e5}\n",
    ];
    for (a, h) in agent.iter().zip(host.iter().chain([&b"{\"z\":1}\n"[..], b"{}\n"].iter())) {
        bench.agent_bytes(a);
        bench.host_bytes(h);
    }
    let all = |lines: &[&[u8]]| -> Vec<String> {
        lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    assert_eq!(bench.to_host, all(agent));
    assert_eq!(bench.to_agent[..5], all(host));
    assert!(bench.raised.is_empty());
}

#[test]
fn c13_no_broken_line_of_a_host_reaches_the_agent() {
    let mut bench = Bench::answering();
    for broken in [&b"{\"type\":\"user\""[..], b"hello\n", b"[]\n", b"7\n", b"{} {}\n", b"\xff\xfe\n"] {
        bench.host_bytes(broken);
    }
    assert_eq!(bench.to_agent, [""; 0]);
    // Whole, but the host died before its line end.
    bench.host_bytes(b"{\"type\":\"user\"}");
    assert_eq!(bench.to_agent, ["{\"type\":\"user\"}\n"]);
}

proptest! {
    #[test]
    fn c13_whatever_comes_from_either_side_only_whole_lines_reach_the_agent(
        lines in proptest::collection::vec((any::<bool>(), piece()), 0..40)
    ) {
        let mut bench = Bench::answering();
        for (from_host, line) in lines {
            if from_host { bench.host_bytes(&line) } else { bench.agent_bytes(&line) }
            if let Some((ask, _)) = bench.raised.pop() {
                bench.news(News::Raised { ask, timed: None });
            }
            bench.pass(Duration::from_millis(700));
        }
        for line in &bench.to_agent {
            prop_assert!(line.ends_with('\n'));
            prop_assert!(line.trim().is_empty() || serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object()), "{line}");
        }
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let frames = [
        r#"{"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"T","input":{"x":"\u2028"},"tool_use_id":"c"}}"#,
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow"}}}"#,
        r#"{"type":"control_response","response":{"subtype":"error","request_id":"a","error":"x"}}"#,
        r#"{"type":"control_cancel_request","request_id":"a"}"#,
        r#"{"type":"control_request","request_id":"i","request":{"subtype":"interrupt"}}"#,
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"i"}}"#,
        r#"{"type":"result"}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c"}]}}"#,
        r#"{"type":"system","subtype":"task_started","task_id":"t","parent_task_id":"t"}"#,
    ];
    prop_oneof![
        8 => (proptest::sample::select(frames.to_vec())).prop_map(|f| format!("{f}\n").into_bytes()),
        1 => (proptest::sample::select(frames.to_vec()), any::<prop::sample::Index>()).prop_map(|(f, cut)| {
            f.as_bytes()[..cut.index(f.len())].to_vec()
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..30),
    ]
}

#[test]
fn c1_a_host_that_fails_denies_nothing() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.forget();
    bench.host(&json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r", "error": "x"}}));
    bench.pass(Duration::from_secs(3600));
    assert_eq!(bench.to_agent, [""; 0], "nobody has decided");
    assert!(bench.did(&format!("unable {no}")));
    bench.outcome(no, outcome(Verdict::Allow));
    assert_eq!(bench.to_agent.len(), 1);
    // The host has no dialog to close any more, and what it says now is dropped.
    assert_eq!(bench.to_host, [""; 0]);
    bench.respond("r", &json!({"behavior": "deny", "message": "late"}));
    assert_eq!(bench.to_agent.len(), 1);
}

#[test]
fn c13_an_allow_carries_exactly_what_was_shown() {
    let mut bench = Bench::answering();
    let input = r#"{"z":1.50,"a":"gr\u00fcn","1":[],"n":12345678901234567890}"#;
    let line = format!(
        r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"can_use_tool","tool_name":"T","input":{input},"tool_use_id":"c"}}}}"#
    );
    bench.agent_bytes(format!("{line}\n").as_bytes());
    let no = bench.raised[0].0;
    assert_eq!(bench.raised[0].1.action.input.as_ref().unwrap().get(), input);
    bench.outcome(no, outcome(Verdict::Allow));
    assert!(bench.to_agent[0].contains(&format!(r#""updatedInput":{input}"#)), "{}", bench.to_agent[0]);
    // A host that leaves it out means the same.
    bench.agent_bytes(format!("{}\n", line.replace("\"r\"", "\"q\"")).as_bytes());
    let no = bench.raised[1].0;
    bench.raised_in_time(no);
    bench.respond("q", &json!({"behavior": "allow"}));
    bench.news(News::Answered { ask: no, how: askd_agents::claude::Answered::Won });
    assert!(bench.to_agent[1].contains(&format!(r#""updatedInput":{input}"#)), "{}", bench.to_agent[1]);
}

#[test]
fn c14_a_child_is_named_and_its_depth_is_told() {
    let mut bench = Bench::answering();
    for (id, parent) in [("t1", Value::Null), ("t2", json!("t1"))] {
        bench.agent(&json!({
            "type": "system", "subtype": "task_started", "task_id": id, "tool_use_id": "x", "description": format!("name {id}"),
            "subagent_type": "kind", "is_backgrounded": id == "t1", "parent_task_id": parent, "session_id": "s",
        }));
    }
    bench.ask_with("r", "c", &json!({"agent_id": "t2"}));
    let raise = &bench.raised[0].1;
    let child = raise.subagent.as_ref().unwrap();
    assert_eq!(
        (child.name.as_deref(), child.kind.as_deref(), child.depth),
        (Some("name t2"), Some("kind"), Some(2))
    );
    assert_eq!(
        raise.attendance,
        Some(Attendance::Background),
        "what is started in the background is there too"
    );
    assert_eq!((raise.session.as_str(), raise.tool_call.as_deref()), ("s", Some("c")));
}

#[test]
fn what_a_silent_host_never_asked_for_never_reaches_it() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    let no = bench.ask("r", "c");
    assert_eq!(bench.raised[0].1.attendance, Some(Attendance::Background));
    bench.outcome(no, outcome(Verdict::Deny));
    bench.ask("q", "d");
    bench.agent(&json!({"type": "control_cancel_request", "request_id": "q"}));
    assert_eq!(bench.to_host, [""; 0]);
    assert!(bench.to_agent[0].contains("not that one"));
}

#[test]
fn c4_answers_to_old_requests_are_known_after_100_000_of_them() {
    let mut bench = Bench::answering();
    for n in 0..100_000u32 {
        let (id, call) = (format!("r{n}"), format!("c{n}"));
        let no: AskNo = bench.ask(&id, &call);
        bench.outcome(no, outcome(Verdict::Deny));
        bench.result(&call, true, Value::Null);
        bench.forget();
        bench.raised.clear();
    }
    assert_eq!(bench.machine.held(), (0, 0));
    for id in ["r0", "r1", "r99000", "r99999"] {
        bench.respond(id, &json!({"behavior": "allow", "updatedInput": {}}));
    }
    assert_eq!(bench.to_agent, [""; 0]);
}
