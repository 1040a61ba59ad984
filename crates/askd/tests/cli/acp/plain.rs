//! What passes, with and without a daemon.

use serde_json::json;

use super::stage::Stage;
use crate::world::World;

#[test]
fn a13_lines_pass_as_they_are_whatever_they_are() {
    let mut stage = Stage::new();
    let odd = [
        "no JSON at all\n".to_owned(),
        "\n".to_owned(),
        "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\r\n".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"craft/drainMidTurnQueue\",\"params\":{\"n\":1.0e+2}}\n"
            .to_owned(),
        "{\"method\":\"_auth/status_update\"}\n".to_owned(),
        format!("{{\"method\":\"x\",\"params\":\"{}\"}}\n", "é".repeat(2_500_000)),
    ];
    for line in &odd {
        stage.agent_raw(line.as_bytes());
        stage.client_raw(line.as_bytes());
    }
    stage.settle_down();
    assert!(stage.at_agent.all().iter().zip(&odd).all(|(got, sent)| got == sent));
    stage.agent_raw(b"the end\n");
    stage.at_client.find("the end", |line| line == "the end\n");
    assert!(stage.at_client.all().iter().zip(&odd).all(|(got, sent)| got == sent));
    stage.said.find("the agent's standard error", |line| line == "the agent is here\n");
}

#[test]
fn a13_a_line_of_64_mib_passes() {
    let mut stage = Stage::new();
    let line = format!("{{\"method\":\"x\",\"params\":\"{}\"}}\n", "x".repeat(64 * 1024 * 1024));
    stage.agent_raw(line.as_bytes());
    let got = stage.at_client.find("the line", |got| got.len() == line.len());
    assert!(got == line);
}

#[test]
fn a13_without_a_daemon_it_is_a_pipe_and_what_was_answered_is_recorded_later() {
    let world = World::new();
    world.start();
    world.must(&["daemon", "stop"]);
    let mut stage = Stage::in_world(world, &[]);
    stage.open_session();
    for (id, option, command) in [(10, "ok", "touch a"), (11, "no", "touch b")] {
        stage.agent(&json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":"s",
            "toolCall":{"toolCallId":format!("c{id}"),"title":command,"rawInput":{"command":command}},
            "options":[{"optionId":"ok","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}));
        stage.at_client.json("the ask", |m| m["id"] == id && m["method"] == "session/request_permission");
        stage.select(&json!(id), option);
        assert_eq!(stage.answer(&json!(id))["optionId"], option);
    }
    assert_eq!(stage.world.run(&["status"]).code, Some(4), "nobody started the daemon that a person stopped");
    stage.world.start();
    for (command, outcome) in [("touch a", "allowed"), ("touch b", "denied")] {
        let ask = stage.settled(command);
        assert_eq!(
            (&ask["outcome"]["outcome"], &ask["outcome"]["cause"]),
            (&json!(outcome), &json!("agent")),
            "{command}"
        );
    }
}

#[test]
fn a13_without_a_daemon_it_ends_with_its_agent_and_says_nothing() {
    let world = World::new();
    world.start();
    world.must(&["daemon", "stop"]);
    let mut stage = Stage::in_world(world, &[]);
    stage.open_session();
    stage.agent(&json!({"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}));
    stage.at_client.json("the end of the turn", |m| m["id"] == 2);
    stage.close_client();
    stage.at_agent.end();
    stage.end_agent();
    assert_eq!(stage.status(), Some(7));
    assert!(!stage.said.all().iter().any(|line| line.starts_with("askd")), "{:?}", stage.said.all());
}

#[test]
fn a_program_that_is_not_there_is_said() {
    let world = World::new();
    let ran = world.run(&["acp", "--", "/nowhere/agent"]);
    assert_eq!(ran.code, Some(127));
    assert!(ran.err.contains("there is no such program"), "{ran:?}");
    assert_eq!(ran.out, "", "standard output is the protocol's");
}

#[test]
fn a2_translate_turns_subagent_sessions_on_at_the_agent() {
    for (flags, on) in [(&["--subagents", "translate"][..], true), (&[], false)] {
        let mut stage = Stage::in_world(World::new(), flags);
        let sent = json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}});
        stage.client(&sent);
        let got = stage.at_agent.json("initialize", |m| m["method"] == "initialize");
        assert_eq!(got["params"]["clientCapabilities"].get("subagents").is_some(), on);
        assert!(on || got == sent);
    }
}
