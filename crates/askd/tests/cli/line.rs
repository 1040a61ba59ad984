//! Line mode through a pipe: what is drawn, what answers, and what does not.

use std::fs;

use askd_client::{Answers, Places};
use askd_wire::{RegisterSurface, Scope, SurfaceKind, SurfaceReport};
use rustix::process::Signal;
use serde_json::Value;

use crate::world::{Running, World, until};

/// A surface that is attached and has said so.
fn surface(world: &World) -> Running {
    let mut line = world.spawn(&[]);
    line.line("open ask");
    line
}

#[test]
fn asks_are_drawn_as_they_come_and_answered_by_line() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("waits for an answer");
    line.line("command     one");
    line.line("answer with:");
    let handle = world.handle("one");
    line.type_line(&format!("allow {handle}"));
    line.line(&format!("{handle}: allowed by you in the terminal"));
    assert_eq!(one.end().0, Some(0));

    let two = world.ask("two", &["--background"]);
    line.line("timed       auto-deny in");
    line.line("answer with:");
    let handle = world.handle("two");
    line.type_line(&format!("deny {handle} not  this folder"));
    line.line(&format!("{handle}: denied by you in the terminal: not  this folder"));
    let (code, out) = two.end();
    assert_eq!((code, out.contains("not  this folder")), (Some(1), true), "{out}");
    line.type_line("quit");
    let (code, out) = line.end();
    assert_eq!(code, Some(0));
    // The event of an own answer says nothing new.
    assert_eq!(out.matches("denied by you").count(), 1, "{out}");
    let log = world.must(&["log"]);
    assert!(log.contains("shown in the terminal"), "{log}");
}

#[test]
fn what_is_not_an_answer_answers_nothing() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let mut line = surface(&world);
    line.line("answer with:");
    for typed in
        ["", "   ", "y", "yes", "allow", "deny", &format!("Allow {handle}"), &format!("{handle} allow")]
    {
        line.type_line(typed);
    }
    line.type_line(&format!("allow {}", &handle[..2]));
    line.line("no ask of this handle was shown here");
    line.type_line("allow zzz");
    line.line("no ask of this handle was shown here");
    line.type_line("help");
    line.line("deny it and tell the agent why");
    line.type_line("ls");
    line.line("Bash: ls");
    assert_eq!(world.open("ls")["state"], "open");
    line.close_input();
    assert_eq!(line.end().0, Some(0));
    // Leaving decides nothing.
    assert_eq!(world.open("ls")["state"], "open");
    drop(asked);
}

#[test]
fn a_line_that_began_before_the_ask_was_drawn_does_not_answer_it() {
    let world = World::new();
    let mut line = surface(&world);
    line.type_raw("allow ");
    let asked = world.ask("ls", &[]);
    line.line("answer with:");
    let handle = world.handle("ls");
    line.type_line(&handle);
    line.line("that line began before the ask was shown");
    assert_eq!(world.open("ls")["state"], "open");
    line.type_line(&format!("deny {handle}"));
    line.line("denied by you");
    assert_eq!(asked.end().0, Some(1));
}

#[test]
fn a_last_line_without_its_end_does_not_answer() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let mut line = surface(&world);
    line.line("answer with:");
    line.type_raw(&format!("allow {handle}"));
    line.close_input();
    assert_eq!(line.end().0, Some(0));
    assert_eq!(world.open("ls")["state"], "open");
    drop(asked);
}

#[test]
fn c6_what_is_settled_elsewhere_leaves_one_true_line() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("command     one");
    let handle = world.handle("one");
    world.must(&["deny", &handle, "-m", "no"]);
    line.line(&format!("{handle}: denied by you in the command line: no"));
    line.type_line(&format!("allow {handle}"));
    line.line("already settled: denied by you in the command line: no");
    assert_eq!(one.end().0, Some(1));

    let two = world.ask("two", &[]);
    line.line("command     two");
    two.signal(Signal::TERM);
    line.line("withdrawn: its requester took it back");
    let three = world.ask("three", &["--background", "--deadline", "1"]);
    line.line("timed out: auto-denied after 1s");
    drop((two, three));
}

#[test]
fn it_connects_again_and_shows_each_ask_once() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("command     one");
    world.must(&["daemon", "restart"]);
    line.line("the daemon went away; connecting again");
    line.line("connected again");
    let two = world.ask("two", &[]);
    line.line("command     two");
    let (first, second) = (world.handle("one"), world.handle("two"));
    line.line("answer with:");
    line.type_line(&format!("allow {first} {second}"));
    line.line(&format!("{first}: allowed by you"));
    line.line(&format!("{second}: allowed by you"));
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
    let drawn = line.seen.iter().filter(|line| line.contains("command     one")).count();
    assert_eq!(drawn, 1, "{:#?}", line.seen);
    // Killed, nobody restarts it: the surface does.
    world.kill_daemon();
    line.line("connected again");
}

#[test]
fn a_stop_by_a_person_ends_it_and_starting_it_ends_the_stop() {
    let world = World::new();
    let mut line = surface(&world);
    world.must(&["daemon", "stop"]);
    line.line("askd was stopped");
    assert_eq!(line.end().0, Some(0));
    assert_eq!(world.run(&["status"]).out, "askd: stopped\n");
    let line = surface(&world);
    until("it runs", || (world.run(&["status"]).out == "askd: 0 waiting\n").then_some(()));
    drop(line);
}

#[test]
fn s4_hostile_text_is_inert_and_nothing_rings_in_a_pipe() {
    let world = World::new();
    let mut line = surface(&world);
    let asked =
        world.ask("\u{1b}[2Jls \u{202e}x\u{7}", &["--title", "\u{1b}]0;t\u{7}", "--subagent", "a\u{1b}[1mb"]);
    line.line("answer with:");
    let all = line.seen.join("\n");
    assert!(!all.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{all:?}");
    assert!(all.contains("\\u{1b}[2Jls \\u{202e}x\\u{7}"), "{all}");
    assert!(all.contains("subagent    a\\u{1b}[1mb"), "{all}");
    drop(asked);
}

#[test]
fn t7_policy_lines_are_typed_here_too() {
    let world = World::new();
    let asked = world.ask("one", &["--session", "s"]);
    world.open("one");
    let mut line = surface(&world);
    line.type_line("/permissions timeout 90");
    line.line("background asks: auto-deny in 1m30s  (for every session until the daemon stops)");
    line.type_line("/permissions default allow safety --session s");
    line.line("safety asks: auto-allow in 6m0s  (session override for s)");
    line.line("warning: unattended loops go on");
    line.type_line("/permissions");
    line.line("background asks (jobs, workflow steps, background subagents): auto-deny in 1m30s");
    line.line("[pending]");
    line.type_line("/skip-permissions on");
    line.line("skip-permissions on: every tool ask is allowed, no safety ask");
    assert_eq!(world.ask("two", &[]).end().0, Some(0));
    line.line("allowed: permissions are skipped");
    for wrong in ["/permissions default maybe", "/permissions timeout 0", "/skip-permissions maybe"] {
        line.type_line(wrong);
        let said = line.line("usage: /permissions");
        assert!(said.contains("nothing was changed"), "{said}");
    }
    line.type_line("/permissions --session nobody default allow");
    line.line("no session is named nobody");
    line.type_line("/permit");
    line.line("not understood");
    let view = world.json(&["permissions", "--json"]);
    assert_eq!(
        (&view["background"]["default"], &view["safety"]["default"]),
        (&"deny".into(), &"deny".into())
    );
    assert_eq!(world.open("one")["state"], "open");
    drop(asked);
}

#[test]
fn t13_an_ask_over_the_cap_leaves_one_line_with_its_own_cause() {
    let world = World::new();
    let mut line = surface(&world);
    let asked: Vec<_> =
        (0..6).map(|n| world.ask(&format!("job {n}"), &["--background", "--session", "s"])).collect();
    for n in 0..6 {
        world.open(&format!("job {n}"));
    }
    let (code, out) = world.ask("one too many", &["--background", "--session", "s"]).end();
    assert_eq!((code, out.contains("queue full: auto-denied")), (Some(1), true), "{out}");
    let said = line.line("queue full: auto-denied");
    assert!(said.contains("Bash: one too many"), "{said}");
    // It never asked anybody anything.
    assert!(!line.seen.iter().any(|seen| seen.contains("command     one too many")), "{:#?}", line.seen);
    drop(asked);
}

#[test]
fn t6_risky_settings_are_told_at_the_start() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), "[permissions]\nsafety_default = \"allow\"\n").unwrap();
    let mut line = surface(&world);
    assert!(
        line.seen.iter().any(|seen| seen.contains("waits for you: askd config accept")),
        "{:#?}",
        line.seen
    );
    line.type_line("quit");
    assert_eq!(line.end().0, Some(0));
    world.must(&["config", "accept", "permissions.safety_default"]);
    let line = surface(&world);
    let warned = "warning: permissions.safety_default = \"allow\": unattended loops go on";
    assert!(line.seen.iter().any(|seen| seen.contains(warned)), "{:#?}", line.seen);
}

#[test]
fn t3_a_remote_silence_is_counted_down_and_named() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), "[remote]\ntimeout_secs = 2\n").unwrap();
    let mut line = surface(&world);
    let places = Places::at(&world.askd_dir());
    let mut remote = Answers::connect(&places).unwrap();
    let registered = remote
        .register(&RegisterSurface {
            name: "a phone".to_owned(),
            kind: SurfaceKind::Remote,
            scope: Scope::All,
            capacity: None,
        })
        .unwrap();
    let events = remote.events(Some(&registered.surface), None).unwrap();
    let asked = world.ask("one", &[]);
    let ask = world.open("one");
    line.line("command     one");
    assert_eq!(ask["deadline"], Value::Null);
    let shown = SurfaceReport::Shown { ask: ask["id"].as_str().unwrap().to_owned() };
    Answers::connect(&places).unwrap().report(&registered.surface, &shown).unwrap();
    let handle = ask["handle"].as_str().unwrap();
    line.line(&format!("{handle}: auto-deny in"));
    line.line(&format!("{handle}: no remote answer: auto-denied after 2s"));
    let (code, out) = asked.end();
    assert_eq!((code, out.contains("no remote answer")), (Some(1), true), "{out}");
    drop(events);
}
