//! Who answers, and who hears of it.

use std::path::Path;

use serde_json::json;

use super::stage::Stage;
use crate::world::{Running, World, until};

#[test]
fn a8_the_command_line_is_first_and_the_clients_late_answer_is_dropped() {
    let mut stage = Stage::started(&[]);
    let late = [
        json!({"jsonrpc":"2.0","id":10,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}),
        json!({"jsonrpc":"2.0","id":11,"result":{"outcome":{"outcome":"cancelled"}}}),
        json!({"jsonrpc":"2.0","id":12,"error":{"code":-32800,"message":"Request cancelled"}}),
    ];
    for (n, late) in late.iter().enumerate() {
        let (id, command) = (json!(10 + n), format!("touch {n}"));
        let handle = stage.ask(&id, "s", &format!("c{n}"), &command);
        assert!(stage.world.must(&["allow", &handle]).contains("allowed"));
        stage.withdrawn(&id);
        assert_eq!(stage.answer(&id), json!({"outcome":"selected","optionId":"ok"}));
        stage.client(late);
        assert_eq!(stage.answers(&id), 1);
        let ask = stage.settled(&command);
        assert_eq!(
            (&ask["outcome"]["outcome"], &ask["outcome"]["surface"]),
            (&json!("allowed"), &json!("the command line"))
        );
    }
    stage.said.find("the late answer in the log", |line| line.contains("late answer"));
}

#[test]
fn a10_a_deny_elsewhere_is_the_reject_option() {
    let mut stage = Stage::started(&[]);
    let handle = stage.ask(&json!("x"), "s", "c", "rm -rf build");
    stage.world.must(&["deny", &handle, "-m", "keep it"]);
    assert_eq!(stage.answer(&json!("x")), json!({"outcome":"selected","optionId":"no"}));
    let line = stage.at_agent.find("the answer", |line| line.contains("\"optionId\":\"no\""));
    assert!(line.contains("keep it"), "{line}");
}

#[test]
fn a4_the_client_answers_and_its_own_bytes_go_on() {
    let mut stage = Stage::started(&[]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    let options = stage.world.open("touch a")["options"].clone();
    assert_eq!(
        options,
        json!([{"id":"ok","label":"Allow once","kind":"allow_once"},{"id":"ever","label":"Always","kind":"allow_always"},
            {"id":"no","label":"Reject","kind":"reject_once"}])
    );
    let line = "{\"jsonrpc\":\"2.0\",\"id\":10,  \"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"ever\"},\"_meta\":{\"n\":1.50}}}\n";
    stage.client_raw(line.as_bytes());
    stage.at_agent.find("the very bytes", |got| got == line);
    let ask = stage.settled("touch a");
    let outcome = &ask["outcome"];
    assert_eq!((&outcome["cause"], &outcome["source"]), (&json!("person"), &json!("direct")));
    assert_eq!((&outcome["surface"], &outcome["option"]), (&json!("tester"), &json!("ever")));
    let second = stage.world.run(&["deny", &handle]);
    assert_eq!(second.code, Some(5), "{second:?}");
}

#[test]
fn s1_a_process_of_the_agent_cannot_answer() {
    let mut stage = Stage::started(&[]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    let owner = stage.said.find("the agent's mark", |line| line.starts_with("owner acp-"));
    let owner = owner.trim().strip_prefix("owner ").unwrap().to_owned();
    let forged = stage.world.command(&["allow", &handle]).env("ASKD_OWNER", owner).output().unwrap();
    assert_eq!(forged.status.code(), Some(7));
    assert_eq!(stage.world.open("touch a")["state"], "open");
}

#[test]
fn a5_asks_at_once_are_answered_each_for_itself() {
    let mut stage = Stage::started(&[]);
    for child in ["a", "b"] {
        stage.agent(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
            {"sessionUpdate":"subagent_update","sessionId":child,"title":format!("child {child}"),"state":{"state":"running"}}}}));
    }
    let one = stage.ask(&json!(0), "a", "c", "touch one");
    let two = stage.ask(&json!("0"), "b", "c", "touch two");
    let three = stage.ask(&json!(1), "s", "c", "touch three");
    let lineage = &stage.world.open("touch one")["lineage"];
    assert_eq!((&lineage["session"], &lineage["root"]), (&json!("a"), &json!("s")));
    assert_eq!(lineage["subagent"]["name"], "child a");
    stage.world.must(&["deny", &two]);
    assert_eq!(stage.answer(&json!("0"))["optionId"], "no");
    stage.select(&json!(0), "ok");
    assert_eq!(stage.answer(&json!(0))["optionId"], "ok");
    assert_eq!(stage.answers(&json!(1)), 0);
    stage.world.must(&["allow", &three]);
    assert_eq!(stage.answer(&json!(1))["optionId"], "ok");
    assert_eq!(stage.world.run(&["allow", &one]).code, Some(5));
}

#[test]
fn a9_a_client_that_cannot_show_it_leaves_it_to_the_others() {
    let mut stage = Stage::started(&[]);
    let mut surface = stage.world.spawn(&["--plain"]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    surface.line(&handle);
    stage.client(&json!({"jsonrpc":"2.0","id":10,"error":{"code":-32601,"message":"Method not found"}}));
    stage.said.find("why", |line| line.contains("cannot show it"));
    stage.said.find("that somebody is there", |line| line.contains("stays open elsewhere"));
    assert_eq!(stage.answers(&json!(10)), 0);
    stage.world.must(&["allow", &handle]);
    assert_eq!(stage.answer(&json!(10))["optionId"], "ok");
}

#[test]
fn a_dismissed_dialog_stays_open_elsewhere_while_somebody_is_there() {
    let mut stage = Stage::started(&[]);
    let mut surface = stage.world.spawn(&["--plain"]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    surface.line(&handle);
    stage.client(&json!({"jsonrpc":"2.0","id":10,"result":{"outcome":{"outcome":"cancelled"}}}));
    stage.said.find("what it means", |line| line.contains("stays open elsewhere"));
    assert_eq!(stage.answers(&json!(10)), 0);
    surface.type_line(&format!("allow {handle}"));
    assert_eq!(stage.answer(&json!(10))["optionId"], "ok");
}

#[test]
fn a_dismissed_dialog_is_a_cancel_when_nobody_else_is_there() {
    let mut stage = Stage::started(&[]);
    stage.ask(&json!(10), "s", "c", "touch a");
    stage.client(&json!({"jsonrpc":"2.0","id":10,"result":{"outcome":{"outcome":"cancelled"}}}));
    assert_eq!(stage.answer(&json!(10)), json!({"outcome":"cancelled"}));
    assert_eq!(stage.settled("touch a")["outcome"]["outcome"], "withdrawn");
}

#[test]
fn a_dismissed_dialog_is_a_cancel_where_the_settings_say_so() {
    let world = World::new();
    std::fs::create_dir(world.askd_dir()).unwrap();
    std::fs::write(world.askd_dir().join("config.toml"), "[acp]\nclient_dismiss = \"cancel\"\n").unwrap();
    let mut stage = Stage::in_world(world, &[]);
    stage.open_session();
    let mut surface = stage.world.spawn(&["--plain"]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    surface.line(&handle);
    stage.client(&json!({"jsonrpc":"2.0","id":10,"result":{"outcome":{"outcome":"cancelled"}}}));
    assert_eq!(stage.answer(&json!(10)), json!({"outcome":"cancelled"}));
}

#[test]
fn a14_permissions_are_typed_in_the_client() {
    let mut stage = Stage::started(&[]);
    stage.agent(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"available_commands_update","availableCommands":[{"name":"review","description":"d"}]}}}));
    stage.at_client.find("both lists", |line| {
        line.contains("\"review\"")
            && line.contains("\"permissions\"")
            && line.contains("\"skip-permissions\"")
    });
    let say = |stage: &mut Stage, id: u64, text: &str| {
        stage.client(&json!({"jsonrpc":"2.0","id":id,"method":"session/prompt","params":{"sessionId":"s",
            "prompt":[{"type":"text","text":text}]}}));
        let done = stage.at_client.json("the end of the turn", |m| m["id"] == id);
        assert_eq!(done["result"]["stopReason"], "end_turn");
    };
    say(&mut stage, 20, "/permissions");
    stage.at_client.find("the policy", |line| line.contains("background asks"));
    say(&mut stage, 21, "/skip-permissions on");
    stage.settle_down();
    assert!(!stage.at_agent.all().iter().any(|line| line.contains("ermissions")), "never sent to the agent");
    // It holds: the next ask is allowed without anybody.
    stage.agent(
        &json!({"jsonrpc":"2.0","id":30,"method":"session/request_permission","params":{"sessionId":"s",
        "toolCall":{"toolCallId":"c","title":"touch a","rawInput":{"command":"touch a"}},
        "options":[{"optionId":"ok","name":"Allow once","kind":"allow_once"}]}}),
    );
    assert_eq!(stage.answer(&json!(30))["optionId"], "ok");
    assert_eq!(stage.settled("touch a")["outcome"]["cause"], "skip");
}

#[test]
fn a17_hooks_below_the_proxy_raise_nothing() {
    let mut stage = Stage::started(&[]);
    stage.ask(&json!(10), "s", "c", "touch a");
    let owner = stage.said.find("the agent's mark", |line| line.starts_with("owner acp-"));
    let event = json!({"hook_event_name":"PermissionRequest","session_id":"s","transcript_path":"/nowhere","cwd":stage.world.home(),
        "permission_mode":"default","tool_name":"Bash","tool_input":{"command":"touch a"}});
    // Below an agent that gives its permission requests to the proxy.
    let script = r#"CLAUDE_PID=$$ "$0" hook claude-code; exit $?"#;
    let args = ["-c", script, env!("CARGO_BIN_EXE_askd"), "--permission-prompt-tool", "stdio"];
    let mut command = stage.world.command_of(Path::new("/bin/sh"), &args);
    command.env("ASKD_OWNER", owner.trim().strip_prefix("owner ").unwrap());
    let mut hook = Running::start(command);
    hook.type_raw(&event.to_string());
    hook.close_input();
    assert_eq!(hook.end(), (Some(0), String::new()), "no opinion");
    let asks = stage.world.json(&["ls", "--json"]);
    assert_eq!(asks.as_array().unwrap().len(), 1, "{asks:#}");
}

/// A session asks hundreds of times.
#[cfg(target_os = "linux")]
#[test]
fn a_finished_ask_leaves_no_thread_and_no_descriptor() {
    let mut stage = Stage::started(&[]);
    let mut before = 0;
    for number in 0..13 {
        let (id, command, call) = (json!(10 + number), format!("touch {number}"), format!("c{number}"));
        let handle = stage.ask(&id, "s", &call, &command);
        match number % 3 {
            0 => drop(stage.world.must(&["allow", &handle])),
            1 => drop(stage.world.must(&["deny", &handle])),
            _ => stage.select(&id, "ok"),
        }
        stage.answer(&id);
        until("the answer is written down as handed", || {
            (stage.settled(&command)["delivery"] == "handed").then_some(())
        });
        until("the end of its thread", || (stage.held().0 == 0).then_some(()));
        if number == 0 {
            before = stage.held().1;
        }
    }
    let after = stage.held().1;
    assert!(after <= before + 6, "{before} {after}");
    // What became of one is told all the same.
    stage.agent(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"}}}));
    until("the word that the agent did not run it", || {
        (stage.settled("touch 1")["delivery"] == "confirmed").then_some(())
    });
}
