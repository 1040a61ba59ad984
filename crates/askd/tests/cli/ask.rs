//! `askd ask`: every outcome has its exit status, and nothing that breaks in between becomes one.

use crate::world::{World, until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn an_allowed_ask_says_so_and_exits_0() {
    let world = World::new();
    let asked = world.ask("ls", &["--json"]);
    let handle = world.handle("ls");
    assert_eq!(world.run(&["allow", &handle]).code, Some(0));
    let (code, out) = asked.end();
    // What it waits for may have been said before.
    let settled: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(code, Some(0));
    assert_eq!(settled["outcome"], "allowed");
    assert_eq!(settled["cause"], "person");
    assert_eq!(settled["source"], "direct");
    let mut keys: Vec<&String> = settled.as_object().unwrap().keys().collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "asked_at",
            "by",
            "cause",
            "handle",
            "id",
            "message",
            "option",
            "outcome",
            "settled_at",
            "source",
            "surface"
        ]
    );
}

#[test]
fn where_no_surface_shows_it_the_script_says_what_to_type() {
    let world = World::new();
    let mut asked = world.ask("make install", &[]);
    let line = asked.line("waiting: ");
    let handle = world.handle("make install");
    assert!(line.contains(&format!("askd allow {handle}  (Bash: make install")), "{line}");
    world.must(&["allow", &handle]);
    let (code, out) = asked.end();
    assert_eq!((code, out.matches("waiting: ").count()), (Some(0), 1), "{out}");
}

#[test]
fn a_stop_tells_a_script_that_nobody_decided_and_what_to_do() {
    let world = World::new();
    let asked = world.ask("make install", &[]);
    world.open("make install");
    let said = world.must(&["daemon", "stop"]);
    assert!(said.contains("1 ask of a script was let go: nobody decided it"), "{said}");
    let (code, out) = asked.end();
    assert_eq!(code, Some(4), "{out}");
    assert!(out.contains("askd was stopped") && out.contains("start it with `askd` and ask again"), "{out}");
    assert!(!out.contains("by itself"), "{out}");
}

#[test]
fn an_answer_that_names_no_ask_says_both_ways() {
    let world = World::new();
    for command in ["allow", "deny"] {
        let ran = world.run(&[command]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("askd ls") && ran.err.contains("--all-background"), "{ran:?}");
    }
}

#[test]
fn c12_a_denied_ask_carries_the_words_and_exits_1() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    assert_eq!(world.run(&["deny", &handle, "-m", "not this folder"]).code, Some(0));
    let (code, out) = asked.end();
    assert_eq!(code, Some(1));
    assert!(out.contains("not this folder"), "{out}");
    let shown = world.json(&["show", &handle, "--json"]);
    assert_eq!(shown["outcome"]["reason_for_model"], "not this folder");
    assert_eq!(shown["delivery"], "handed");
}

#[test]
fn a_withdrawn_ask_exits_3() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    assert_eq!(world.run(&["withdraw", &handle]).code, Some(0));
    assert_eq!(asked.end().0, Some(3));
    assert_eq!(world.run(&["withdraw", &handle]).code, Some(5));
}

#[test]
fn c6_a_signal_withdraws_and_a_late_answer_runs_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let world = World::new();
        let asked = world.ask("ls", &[]);
        let handle = world.handle("ls");
        asked.signal(signal);
        let (code, out) = asked.end();
        assert_eq!((code, out.contains("is withdrawn")), (Some(3), true), "{out}");
        let shown = world.json(&["show", &handle, "--json"]);
        assert_eq!(shown["outcome"]["outcome"], "withdrawn");
        assert_eq!(shown["outcome"]["cause"], "cancelled");
        let log = world.must(&["log"]);
        assert!(!log.contains("came back"), "it left for good: {log}");
        assert_eq!(world.run(&["allow", &handle]).code, Some(5));
    }
}

#[test]
fn c1_a_daemon_that_is_restarted_or_killed_decides_nothing() {
    let world = World::new();
    let mut asked = world.ask("ls", &[]);
    let id = world.open("ls")["id"].as_str().unwrap().to_owned();
    world.must(&["daemon", "restart"]);
    assert_eq!(world.open("ls")["id"], id.as_str());
    world.kill_daemon();
    // The requester itself starts the next daemon.
    let open = until("the ask is back and attached", || {
        let ran = world.run(&["show", &id, "--json"]);
        let ask: Value = serde_json::from_str(&ran.out).ok()?;
        (ask["requester"]["link"] == "attached").then_some(ask)
    });
    assert_eq!(open["state"], "open");
    assert!(asked.is_running());
    assert_eq!(world.run(&["allow", &id]).code, Some(0));
    assert_eq!(asked.end().0, Some(0));
}

#[test]
fn c2_the_same_key_finds_its_ask_and_the_answer_that_came_meanwhile() {
    let world = World::new();
    let asked = world.ask("make", &["--key", "build-7"]);
    let id = world.open("make")["id"].as_str().unwrap().to_owned();
    asked.signal(Signal::KILL);
    assert_eq!(asked.end().0, None);

    // It comes back to the same ask, and is lost again.
    let asked = world.ask("make", &["--key", "build-7"]);
    until("it is attached", || {
        let ask = world.json(&["show", &id, "--json"]);
        (ask["requester"]["link"] == "attached").then_some(())
    });
    asked.signal(Signal::KILL);
    assert_eq!(asked.end().0, None);
    assert_eq!(world.run(&["allow", &id]).code, Some(0));

    // Another key, and the same key for another action, are other asks.
    let other = world.ask("make", &["--key", "build-8"]);
    let open = world.open("make");
    assert_ne!(open["id"], id.as_str());
    drop(other);

    let (code, _) = world.ask("make", &["--key", "build-7"]).end();
    assert_eq!(code, Some(0));
    assert_eq!(world.json(&["show", &id, "--json"])["delivery"], "handed");
}

#[test]
fn with_nobody_to_ask_it_exits_4_and_denies_nothing() {
    let world = World::new();
    world.must(&["daemon", "stop"]);
    let ran = world.run(&["ask", "--tool", "Bash"]);
    assert_eq!((ran.code, ran.err.contains("askd was stopped")), (Some(4), true), "{ran:?}");

    let world = World::new();
    let mut daemon = world.spawn(&["daemon", "--no-surfaces"]);
    daemon.line("listens in");
    let ran = world.run(&["ask", "--tool", "Bash", "--json"]);
    let settled: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &settled["cause"]), (Some(4), &Value::from("unreachable")));
}

#[test]
fn a_stopping_daemon_lets_the_ask_go() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    world.open("ls");
    world.must(&["daemon", "stop"]);
    let (code, out) = asked.end();
    assert_eq!(code, Some(4), "{out}");
}

#[test]
fn t4_a_deadline_gives_the_timed_answer() {
    let world = World::new();
    let (code, out) = world.ask("ls", &["--background", "--deadline", "1", "--json"]).end();
    let settled: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((code, &settled["cause"]), (Some(1), &Value::from("timed")));
    let shown = world.json(&["show", settled["handle"].as_str().unwrap(), "--json"]);
    let told = shown["outcome"]["reason_for_model"].as_str().unwrap();
    assert!(told.contains("nobody denied it"), "{told}");
}

#[test]
fn wrong_use_exits_2_and_says_what_would_be_right() {
    let world = World::new();
    for (args, said) in [
        (vec!["ask"], "--tool"),
        (vec!["ask", "--tool", "T", "--input", "{nope"], "--input is not JSON"),
        (vec!["ask", "--tool", "T", "--deadline", "5"], "--background"),
        (vec!["ask", "--tool", ""], "--tool is empty"),
        (vec!["nonsense"], "nonsense"),
    ] {
        let ran = world.run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.err.contains(said), "{args:?}: {ran:?}");
    }
    // Nothing of it reached a daemon.
    assert_eq!(world.run(&["status"]).out, "askd: not running\n");
}

#[test]
fn c13_the_input_arrives_byte_for_byte() {
    let world = World::new();
    let input = r#"{"b": 1.0e2, "a":"\u0041", "b2":[1,  2]}"#;
    let asked = world.spawn(&["ask", "--tool", "T", "--input", input]);
    let text = until("the ask", || {
        let out = world.run(&["ls", "--json"]).out;
        out.contains("\"T\"").then_some(out)
    });
    assert!(text.contains(input), "{text}");
    drop(asked);
    // Too long for an argument list, so by standard input.
    let big = format!("{{\"command\":\"{}\"}}", "x".repeat(300_000));
    let mut asked = world.spawn(&["ask", "--tool", "Big", "--input", "-"]);
    asked.type_raw(&big);
    asked.close_input();
    until("the big one", || world.run(&["ls", "--json"]).out.contains(&big).then_some(()));
}

#[test]
fn c1_a_caller_that_dies_detaches_and_decides_nothing() {
    let world = World::new();
    world.start();
    let mut shell = std::process::Command::new("/bin/sh");
    let askd = env!("CARGO_BIN_EXE_askd");
    shell.args(["-c", &format!("'{askd}' ask --tool T --input '{{\"command\":\"ls\"}}'; echo $?")]);
    shell
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world.home())
        .env("ASKD_DIR", world.askd_dir());
    let mut caller = shell.current_dir(world.home()).spawn().unwrap();
    let id = world.open("ls")["id"].as_str().unwrap().to_owned();
    caller.kill().unwrap();
    caller.wait().unwrap();
    let ask = until("it is detached", || {
        let ask = world.json(&["show", &id, "--json"]);
        (ask["requester"]["link"] == "detached").then_some(ask)
    });
    assert_eq!(ask["state"], "open");
}
