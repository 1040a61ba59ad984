//! Cancels, ends and restarts while asks are open.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::stage::Stage;
use crate::pty::Pty;
use crate::world::{Running, World};

#[test]
fn a6_after_a_cancel_a_late_allow_runs_nothing_and_the_next_prompt_works() {
    let mut stage = Stage::started(&[]);
    stage.agent(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"subagent_update","sessionId":"child","title":"t","state":{"state":"running"}}}}));
    let main = stage.ask(&json!(10), "s", "c", "touch main");
    let child = stage.ask(&json!(11), "child", "c", "touch child");
    stage.client(&json!({"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}));
    for id in [json!(10), json!(11)] {
        assert_eq!(stage.answer(&id), json!({"outcome":"cancelled"}));
        stage.withdrawn(&id);
    }
    for command in ["touch main", "touch child"] {
        let outcome = stage.settled(command)["outcome"].clone();
        assert_eq!(
            (&outcome["outcome"], &outcome["cause"]),
            (&json!("withdrawn"), &json!("cancelled")),
            "{command}"
        );
    }
    assert_eq!(stage.world.run(&["allow", &main]).code, Some(5));
    assert_eq!(stage.world.run(&["allow", &child]).code, Some(5));
    stage.select(&json!(11), "ok");
    assert_eq!((stage.answers(&json!(10)), stage.answers(&json!(11))), (1, 1));
    stage.agent(&json!({"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}));
    stage.at_client.json("the end of the turn", |m| m["id"] == 2);
    stage.prompt(3);
    let next = stage.ask(&json!(12), "s", "d", "touch next");
    stage.world.must(&["allow", &next]);
    assert_eq!(stage.answer(&json!(12))["optionId"], "ok");
}

#[test]
fn a7_a_childs_end_withdraws_its_ask_everywhere() {
    let mut stage = Stage::started(&[]);
    let child = |state: serde_json::Value| {
        json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
            {"sessionUpdate":"subagent_update","sessionId":"child","title":"t","state":state}}})
    };
    stage.agent(&child(json!({"state":"running"})));
    let handle = stage.ask(&json!(10), "child", "c", "touch a");
    stage.agent(&child(json!({"state":"idle","stopReason":"end_turn"})));
    stage.withdrawn(&json!(10));
    assert_eq!(stage.settled("touch a")["outcome"]["outcome"], "withdrawn");
    assert_eq!(stage.world.run(&["allow", &handle]).code, Some(5));
}

#[test]
fn a_daemon_that_restarts_or_dies_keeps_the_ask_and_the_dialog() {
    let mut stage = Stage::started(&[]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    stage.world.must(&["daemon", "restart"]);
    assert_eq!(stage.world.handle("touch a"), handle);
    stage.world.kill_daemon();
    // Whoever waits starts the next one.
    assert_eq!(stage.world.handle("touch a"), handle);
    stage.world.must(&["allow", &handle]);
    assert_eq!(stage.answer(&json!(10))["optionId"], "ok");
    stage.withdrawn(&json!(10));
    assert_eq!(stage.answers(&json!(10)), 1);
}

#[test]
fn the_agent_dies_with_an_ask_open() {
    let mut stage = Stage::started(&[]);
    stage.ask(&json!(10), "s", "c", "touch a");
    stage.end_agent();
    stage.withdrawn(&json!(10));
    assert_eq!(stage.status(), Some(7), "its exit status is ours");
    assert_eq!(stage.settled("touch a")["outcome"]["cause"], "requester_gone");
}

#[test]
fn a15_a_client_that_died_leaves_the_ask_to_the_others() {
    let mut stage = Stage::started(&[]);
    let handle = stage.ask(&json!(10), "s", "c", "touch a");
    stage.close_client();
    stage.world.must(&["allow", &handle]);
    assert_eq!(stage.answer(&json!(10))["optionId"], "ok");
    assert!(stage.is_running());
    stage.agent(&json!({"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}));
    // Nothing is left to do, so the agent's input is closed.
    stage.at_agent.end();
    stage.end_agent();
    assert_eq!(stage.status(), Some(7));
}

#[test]
fn signals_reach_the_agent() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let world = World::new();
        // Not in the foreground of any terminal.
        let mut command = world.command(&["acp", "--", "cat"]);
        command.process_group(0);
        let mut proxy = Running::start(command);
        proxy.type_line("hello");
        proxy.line("hello");
        proxy.signal(signal);
        assert_eq!(proxy.end().0, Some(status), "{signal:?}");
    }
}

#[test]
fn an_interrupt_of_the_terminal_reaches_the_agent_once() {
    let world = World::new();
    let agent = world.path("agent");
    world.script(
        &agent,
        r#"#!/bin/sh
n=0
trap 'n=$((n+1)); echo "got $n"' INT
echo ready
until [ "$line" = bye ]; do
    if read -r line; then echo "$line has $n"; fi
done
"#,
    );
    let mut terminal = Pty::start(&world, &["acp", "--", agent.to_str().unwrap()]);
    terminal.sees("ready");
    terminal.keys("\u{3}");
    terminal.sees("got 1");
    for word in ["one", "two", "bye"] {
        terminal.keys(&format!("{word}\r"));
        terminal.sees(&format!("{word} has 1"));
    }
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a13_an_agent_that_says_nothing_more_ends_the_clients_input() {
    let world = World::new();
    let agent = world.path("agent");
    world.script(&agent, "#!/bin/sh\necho last\nexec >&-\nread -r line\nexit 7\n");
    let mut command = world.command(&["acp", "--"]);
    command.arg(&agent).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut proxy = command.spawn().unwrap();
    let mut all = String::new();
    proxy.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!(all, "last\n");
    assert!(proxy.try_wait().unwrap().is_none(), "the agent is still there");
    proxy.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert_eq!(proxy.wait().unwrap().code(), Some(7));
}
