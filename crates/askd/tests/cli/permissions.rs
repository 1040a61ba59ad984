//! `askd permissions`: what happens without a person, shown and changed from the command line.

use std::fs;

use serde_json::Value;

use crate::pty::Pty;
use crate::world::{World, until};

fn background(world: &World, more: &[&str]) -> (Value, Value) {
    let mut args = vec!["permissions", "--json"];
    args.extend(more);
    let view = world.json(&args);
    (view["background"].clone(), view["safety"].clone())
}

#[test]
fn t7_overrides_hold_for_later_asks_only_and_are_never_written() {
    let world = World::new();
    world.start();
    let before = world.ask("before", &["--background"]);
    world.open("before");
    let out = world.must(&["permissions", "default", "allow"]);
    assert!(out.contains("auto-allow") && out.contains("for every session until the daemon stops"), "{out}");
    let out = world.must(&["permissions", "timeout", "1"]);
    assert!(out.contains("auto-allow in 1s"), "{out}");
    let (code, text) = world.ask("after", &["--background"]).end();
    assert_eq!((code, text.contains("timed out: auto-allowed after 1s")), (Some(0), true), "{text}");
    assert_eq!(world.open("before")["default"], "deny");
    assert!(!world.askd_dir().join("config.toml").exists());
    world.must(&["daemon", "stop"]);
    world.start();
    let (tools, _) = background(&world, &[]);
    assert_eq!((&tools["overridden"], &tools["default"]), (&false.into(), &"deny".into()));
    drop(before);
}

#[test]
fn t9_the_status_says_where_permissions_are_skipped_as_long_as_they_are() {
    let world = World::new();
    world.start();
    let status = || (world.must(&["status"]), world.json(&["status", "--json"]));
    let (line, told) = status();
    assert!(!line.contains("skip-permissions"), "{line}");
    assert_eq!(
        (&told["state"], &told["health"]["skipping"]["everywhere"]),
        (&"running".into(), &false.into())
    );
    let queue = Pty::start(&world, &[]);
    queue.sees("they appear here as agents ask");
    let one = world.ask("one", &["--session", "s1"]);
    world.open("one");
    world.must(&["permissions", "skip", "on", "--session", "script/s1"]);
    let (line, told) = status();
    assert!(
        line.contains("1 waiting (script") && line.contains("skip-permissions is on in script/s1"),
        "{line}"
    );
    assert_eq!(told["health"]["skipping"]["on"], serde_json::json!(["script/s1"]));
    assert_eq!(told["first"]["action"]["input"]["command"], "one");
    queue.sees("1 waiting · skip-permissions is on in script/s1");
    // Everywhere, and somewhere not.
    world.must(&["permissions", "skip", "on"]);
    world.must(&["permissions", "skip", "off", "--session", "script/s1"]);
    assert!(status().0.contains("skip-permissions is on everywhere but in script/s1"), "{}", status().0);
    queue.sees("skip-permissions is on everywhere but in script/s1");
    world.must(&["permissions", "skip", "off"]);
    assert!(!status().0.contains("skip"), "{}", status().0);
    // What was set for a session is over with it, and an open queue hears of that.
    world.must(&["permissions", "skip", "on", "--session", "script/s1"]);
    queue.sees("skip-permissions is on in script/s1");
    let ended =
        serde_json::json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    let mut side =
        askd_client::Connection::connect(&askd_client::Places::at(&world.askd_dir()).ask_sock(), None)
            .unwrap();
    let reply = side.request("POST", "/v1/observations", Some(ended.to_string().as_bytes())).unwrap();
    assert_eq!(reply.status, 204);
    queue.sees("skip-permissions is off: everything is asked");
    assert_eq!(one.end().0, Some(3));
    until("a head without it", || (!queue.shows("skip-permissions is on")).then_some(()));
    assert!(!status().0.contains("skip"), "{}", status().0);
    // An agent is not told.
    let health = side.request("GET", "/healthz", None).unwrap();
    let health: Value = serde_json::from_slice(&health.body).unwrap();
    assert_eq!(health["skipping"], serde_json::json!({"everywhere": false, "on": [], "off": []}));
}

#[test]
fn t5_t6_safety_has_its_own_pair_and_warns() {
    let world = World::new();
    world.start();
    let out = world.must(&["permissions", "default", "allow", "safety"]);
    assert!(out.contains("warning: unattended loops go on"), "{out}");
    world.must(&["permissions", "timeout", "90", "safety"]);
    let (tools, safety) = background(&world, &[]);
    assert_eq!((&tools["default"], &tools["timeout_secs"]), (&"deny".into(), &360.into()));
    assert_eq!((&safety["default"], &safety["timeout_secs"]), (&"allow".into(), &90.into()));
    let out = world.must(&["permissions"]);
    assert!(out.contains("safety asks (doom-loop confirmations): auto-allow in 1m30s"), "{out}");
    assert!(out.contains("warning: unattended loops go on"), "{out}");
    world.must(&["permissions", "default", "allow"]);
    world.must(&["permissions", "default", "deny", "safety"]);
    let (tools, safety) = background(&world, &[]);
    assert_eq!((&tools["default"], &safety["default"]), (&"allow".into(), &"deny".into()));
}

#[test]
fn t7_one_session_is_set_and_every_other_stays() {
    let world = World::new();
    let asked = world.ask("one", &["--session", "s1"]);
    let other = world.ask("two", &["--session", "s2"]);
    world.open("one");
    world.open("two");
    let sessions = world.must(&["sessions"]);
    assert!(sessions.contains("script/s1") && sessions.contains("script/s2"), "{sessions}");
    let out = world.must(&["permissions", "timeout", "100", "--session", "s1"]);
    assert!(out.contains("auto-deny in 1m40s  (session override for s1)"), "{out}");
    let out = world.must(&["permissions", "--session", "script/s1"]);
    assert!(out.contains("auto-deny in 1m40s  (session override)"), "{out}");
    assert_eq!(background(&world, &["--session", "s1"]).0["timeout_secs"], 100);
    assert_eq!(background(&world, &["--session", "s2"]).0["timeout_secs"], 360);
    assert_eq!(background(&world, &[]).0["timeout_secs"], 360);
    // A child asks by its root's rules.
    let child = world.ask("child", &["--session", "c1", "--parent", "s1", "--background"]);
    let ask = world.open("child");
    let secs = |field: &str| ask[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(secs("deadline") - secs("asked_at"), 100);
    for wrong in ["s", "script/s", "nobody/s1", ""] {
        let ran = world.run(&["permissions", "default", "allow", "--session", wrong]);
        assert_eq!((ran.code, ran.err.contains("no session is named")), (Some(6), true), "{ran:?}");
    }
    drop((asked, other, child));
}

#[test]
fn t9_skip_allows_tools_and_never_a_safety_ask() {
    let world = World::new();
    world.start();
    let out = world.must(&["permissions", "skip", "on"]);
    assert!(out.contains("every tool ask is allowed, no safety ask"), "{out}");
    let (code, out) = world.ask("tool", &["--background"]).end();
    assert_eq!((code, out.contains("permissions are skipped")), (Some(0), true), "{out}");
    let safety = world.ask("loop", &["--safety", "doom_loop"]);
    assert_eq!(world.open("loop")["state"], "open");
    let view = world.json(&["permissions", "skip", "off", "--json"]);
    assert_eq!(view["skip"], false);
    let asked = world.ask("later", &[]);
    assert_eq!(world.open("later")["state"], "open");
    drop((safety, asked));
}

#[test]
fn t18_the_open_asks_are_listed_with_ids_that_answer_them() {
    let world = World::new();
    let (one, two) = (world.ask("one", &["--background"]), world.ask("two", &[]));
    let (first, second) = (world.handle("one"), world.handle("two"));
    let out = world.must(&["permissions"]);
    let line = out.lines().find(|line| line.contains(&first)).unwrap();
    assert!(line.contains("[pending]") && line.contains("Bash: one"), "{out}");
    assert!(line.contains("auto-deny in 5m") || line.contains("auto-deny in 6m"), "{out}");
    let line = out.lines().find(|line| line.contains(&second)).unwrap();
    assert!(!line.contains("auto-"), "{out}");
    world.must(&["allow", &first]);
    world.must(&["deny", &second]);
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(1)));
}

#[test]
fn s1_an_agents_shell_cannot_change_them() {
    let world = World::new();
    world.start();
    for args in [
        &["permissions", "default", "allow"][..],
        &["permissions", "skip", "on"],
        &["permissions", "timeout", "1", "safety", "--json"],
    ] {
        let ran = world.command(args).env("CLAUDECODE", "1").output().unwrap();
        assert_eq!(ran.status.code(), Some(7), "{args:?}: {ran:?}");
    }
    let (tools, safety) = background(&world, &[]);
    assert_eq!((&tools["overridden"], &safety["overridden"]), (&false.into(), &false.into()));
    // Looking is not changing.
    let ran = world.command(&["permissions"]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
}

#[test]
fn t6_bad_words_are_refused_with_what_is_allowed() {
    let world = World::new();
    world.start();
    for (args, said) in [
        (&["permissions", "default", "maybe"][..], "allow, deny"),
        (&["permissions", "timeout", "0"], "1..=31536000"),
        (&["permissions", "timeout", "5", "tools"], "safety"),
        (&["permissions", "skip"], "on|off"),
    ] {
        let ran = world.run(args);
        assert_eq!((ran.code, ran.err.contains(said)), (Some(2), true), "{args:?}: {ran:?}");
    }
    let (tools, _) = background(&world, &[]);
    assert_eq!(tools["overridden"], false);
    assert!(fs::metadata(world.askd_dir().join("config.toml")).is_err());
}
