//! Every event's exact observation, sent by the real program.

use crate::support::{Daemon, Hook, assert_silent};
use serde_json::{Value, json};

/// Runs one event against a daemon that takes it, and gives what was sent.
fn observed(hook: impl FnOnce(Hook) -> Hook, event: &str) -> Value {
    let daemon = Daemon::start();
    let child = hook(daemon.hook()).start(event);
    let request = daemon.request();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/observations"));
    request.reply("200 OK", "{}");
    let output = child.wait_with_output().unwrap();
    assert_silent(&output, "");
    let mut body = request.json();
    let instance = body.as_object_mut().unwrap().remove("instance").unwrap();
    assert_eq!(instance["pid"], std::process::id());
    assert!(instance["start"].as_u64().unwrap() > 0);
    body
}

fn plain(event: &str) -> Value {
    let body = observed(|hook| hook, event);
    assert_eq!(body["agent"], "claude-code");
    assert_eq!(body["session"], "s1");
    body["observations"].clone()
}

fn event(name: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        r#"{{"session_id":"s1","transcript_path":"/nowhere/s1.jsonl","cwd":"/work","prompt_id":"p1","permission_mode":"default","effort":{{"level":"medium"}},"hook_event_name":"{name}"{comma}{more}}}"#
    )
}

#[test]
fn c13_a_started_call_keeps_its_input_byte_for_byte() {
    let input = r#"{ "command":"echo \u00e9 \ud800","command":"twice","n":123456789012345678901234567890,"f":1.0e3 }"#;
    let more = format!(r#""tool_name":"Bash","tool_input":{input},"tool_use_id":"toolu_1""#);
    let body = observed(|hook| hook.env("TMUX_PANE", "%3"), &event("PreToolUse", &more));
    assert_eq!(body["cwd"], "/work");
    assert_eq!(body["place"]["tmux_pane"], "%3");
    let expected = json!([{
        "type": "call_started", "call": "toolu_1", "tool": "Bash", "input_digest": null, "input_json": input,
        "batch": null, "subagent": null, "turn": "p1", "spawn": null,
    }]);
    assert_eq!(body["observations"], expected);
}

#[test]
fn c14_a_call_that_starts_a_child_says_so() {
    for tool in ["Agent", "Task"] {
        for (key, background) in [(r#","run_in_background":true"#, true), ("", false)] {
            let input =
                format!(r#"{{"description":"look around","prompt":"x","subagent_type":"explore"{key}}}"#);
            let more = format!(
                r#""tool_name":"{tool}","tool_input":{input},"tool_use_id":"toolu_2","agent_id":"a1""#
            );
            let seen = plain(&event("PreToolUse", &more));
            let expected = json!({"name": "look around", "kind": "explore", "background": background});
            assert_eq!(seen[0]["spawn"], expected);
            assert_eq!(seen[0]["subagent"], "a1");
        }
    }
}

#[test]
fn c14_a_childs_call_tells_who_started_the_child() {
    let temp = tempfile::tempdir().unwrap();
    let subagents = temp.path().join("s1/subagents");
    std::fs::create_dir_all(&subagents).unwrap();
    let meta = r#"{"agentType":"explore","description":"look","toolUseId":"toolu_9","parentAgentId":"a0","spawnDepth":2,"requestShape":"background"}"#;
    std::fs::write(subagents.join("agent-a1.meta.json"), meta).unwrap();
    let event = event(
        "PreToolUse",
        r#""tool_name":"Read","tool_input":{},"tool_use_id":"toolu_3","agent_id":"a1","agent_type":"explore""#,
    )
    .replace("/nowhere", temp.path().to_str().unwrap());
    let seen = plain(&event);
    let expected = json!({
        "type": "subagent_started", "work_id": "a1", "kind": "explore", "name": "look", "parent": "a0", "call": "toolu_9",
    });
    assert_eq!(seen[0], expected);
    assert_eq!(seen[1]["type"], "call_started");
    assert_eq!(seen.as_array().unwrap().len(), 2);
}

#[test]
fn the_other_events() {
    let call = r#""tool_name":"Bash","tool_input":{"command":"x"},"tool_response":{"stdout":"x"},"tool_use_id":"toolu_1","duration_ms":5"#;
    let ended = |ok: bool, subagent: Value| json!([{"type": "call_ended", "call": "toolu_1", "ok": ok, "subagent": subagent}]);
    assert_eq!(plain(&event("PostToolUse", call)), ended(true, Value::Null));
    let in_child = format!(r#"{call},"agent_id":"a1""#);
    assert_eq!(plain(&event("PostToolUse", &in_child)), ended(true, json!("a1")));
    assert_eq!(plain(&event("PostToolUseFailure", call)), ended(false, Value::Null));
    assert_eq!(
        plain(&event("Stop", r#""stop_hook_active":false,"background_tasks":[]"#)),
        json!([{"type": "turn_ended", "subagent": null}])
    );
    let child = r#""agent_id":"a1","agent_type":"explore""#;
    assert_eq!(
        plain(&event("SubagentStart", child)),
        json!([{"type": "subagent_started", "work_id": "a1", "kind": "explore", "name": null, "parent": null, "call": null}])
    );
    assert_eq!(plain(&event("SubagentStop", child)), json!([{"type": "subagent_ended", "work_id": "a1"}]));
    assert_eq!(plain(&event("SessionStart", "")), json!([{"type": "session_started"}]));
    assert_eq!(plain(&event("SessionEnd", r#""reason":"other""#)), json!([{"type": "session_ended"}]));
}

#[test]
fn events_that_say_nothing_send_nothing() {
    let daemon = Daemon::start();
    for name in ["UserPromptSubmit", "Notification", "SomethingNew"] {
        assert_silent(&daemon.hook().run(&event(name, "")), "");
    }
    assert!(daemon.seen.try_recv().is_err());
}

#[test]
fn without_a_daemon_only_the_events_that_come_first_start_one() {
    let temp = tempfile::tempdir().unwrap();
    for name in ["PostToolUse", "Stop", "SessionEnd", "SubagentStop"] {
        let more = r#""tool_use_id":"t","agent_id":"a""#;
        assert_silent(&Hook::new(temp.path()).run(&event(name, more)), "");
        assert!(!temp.path().join("state").exists(), "{name} tried to start a daemon");
    }
    // The program under test is no daemon, so starting it as one fails, and that is told.
    let more = r#""tool_name":"Bash","tool_input":{},"tool_use_id":"t","agent_id":"a""#;
    for name in ["PreToolUse", "SubagentStart", "PermissionRequest"] {
        assert_silent(
            &Hook::new(temp.path()).run(&event(name, more)),
            "cannot be started: askd hook: \"daemon\" is not served",
        );
        std::fs::remove_dir_all(temp.path().join("state")).unwrap();
    }
}

#[test]
fn c1_a_daemon_that_refuses_hangs_or_talks_nonsense_is_not_noticed_by_the_agent() {
    let more = r#""tool_name":"Bash","tool_input":{},"tool_use_id":"t""#;
    let problem =
        r#"{"type":"about:blank","title":"No","status":503,"detail":"disk full","code":"not_recorded"}"#;
    for (reply, why) in [
        (
            Some(format!("HTTP/1.1 503 X\r\ncontent-length: {}\r\n\r\n{problem}", problem.len())),
            "No: disk full",
        ),
        (
            Some("HTTP/1.1 426 X\r\ncontent-length: 0\r\nx-askd-version: 9\r\n\r\n".to_owned()),
            "upgrade this program",
        ),
        (Some("HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\noops".to_owned()), "unexpected reply 500: oops"),
        (Some("hello\r\n".to_owned()), "not valid HTTP"),
        (None, "no reply in time"),
    ] {
        let daemon = Daemon::start();
        let child = daemon.hook().start(&event("PreToolUse", more));
        let request = daemon.request();
        if let Some(reply) = reply {
            request.raw(&reply);
        }
        assert_silent(&child.wait_with_output().unwrap(), why);
    }
}

#[test]
fn s7_a_socket_that_others_could_serve_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = Daemon::start();
    std::fs::set_permissions(daemon.dir.path().join("run"), PermissionsExt::from_mode(0o777)).unwrap();
    let output = daemon.hook().run(&event("Stop", ""));
    assert_silent(&output, "has mode 0777; it must be 0700");
    assert!(daemon.seen.try_recv().is_err());
}
