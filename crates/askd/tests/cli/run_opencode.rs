//! `askd run -- opencode …` with a stand-in for the agent that shows what it was given.

use std::fs;

use rustix::process::Signal;

use crate::world::{Running, World};

/// Writes its arguments and environment, and then does what the test says.
const AGENT: &str = r#"#!/bin/sh
for word in "$@"; do printf '%s\n' "$word"; done > "$HOME/args"
echo "$ASKD_OWNER" > "$HOME/owner"
echo "$OPENCODE_SERVER_PASSWORD" > "$HOME/password"
. "$HOME/then"
"#;

fn world(then: &str) -> World {
    let world = World::new();
    world.script(&world.path("bin/opencode"), AGENT);
    fs::write(world.home().join("then"), then).unwrap();
    world
}

fn run(world: &World, args: &[&str]) -> Running {
    let args: Vec<&str> = ["run", "--", "opencode"].iter().chain(args).copied().collect();
    let mut command = world.command(&args);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    Running::start(command)
}

fn written(world: &World, name: &str) -> String {
    fs::read_to_string(world.home().join(name)).unwrap()
}

#[test]
fn opencode_gets_a_port_and_a_password_and_its_end_is_that_of_the_run() {
    let world = world("exit 3");
    assert_eq!(run(&world, &["serve", "--print-logs", "--", "rest"]).end().0, Some(3));
    let text = written(&world, "args");
    let words: Vec<&str> = text.lines().collect();
    assert_eq!(words[..3], ["serve", "--print-logs", "--port"]);
    assert!(words[3].parse::<u16>().is_ok_and(|port| port > 0), "{text}");
    assert_eq!(words[4..], ["--hostname", "127.0.0.1", "--", "rest"]);
    assert_eq!(written(&world, "password").trim().len(), 64);
    assert!(written(&world, "owner").starts_with("run-"));
    assert!(!world.home().join(".config").exists(), "nothing on disk changes");
}

#[test]
fn a_signal_reaches_opencode() {
    let world = world("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let mut started = run(&world, &["serve"]);
    started.line("ready");
    started.signal(Signal::TERM);
    assert_eq!(started.end().0, Some(7));
}

#[test]
fn what_asks_nothing_runs_as_it_is_and_a_signal_is_told_as_a_shell_tells_it() {
    let world = world("kill -9 $$");
    // It took the process over, so the signal ended that.
    assert_eq!(run(&world, &["models"]).end().0, None);
    assert_eq!((written(&world, "args").as_str(), written(&world, "password").trim()), ("models\n", ""));
    assert_eq!(run(&world, &["serve"]).end().0, Some(128 + 9));
}
