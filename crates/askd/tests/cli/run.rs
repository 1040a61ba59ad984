//! `askd run -- claude …` with a stand-in for the agent that shows what it was given and uses the hooks.

use std::fs;
use std::os::unix::process::CommandExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{Running, World, until};

/// Writes its arguments, environment and process id, and then does what the test says.
const AGENT: &str = r#"#!/bin/sh
echo $$ > "$HOME/pid"
for word in "$@"; do printf '%s\n' "$word"; done > "$HOME/args"
echo "$ASKD_OWNER" > "$HOME/owner"
. "$HOME/then"
"#;

fn world(then: &str) -> World {
    let world = World::new();
    world.script(&world.path("bin/claude"), AGENT);
    fs::write(world.home().join("then"), then).unwrap();
    world
}

fn run(world: &World, args: &[&str]) -> Running {
    let args: Vec<&str> = ["run", "--"].iter().chain(args).copied().collect();
    let mut command = world.command(&args);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    Running::start(command)
}

fn written(world: &World, name: &str) -> String {
    fs::read_to_string(world.home().join(name)).unwrap()
}

#[test]
fn the_agent_takes_the_process_over_and_nothing_on_disk_changes() {
    let world = world("exit 3");
    let started = run(&world, &["claude", "-p", "do it", "--model", "m"]);
    let pid = started.pid();
    assert_eq!(started.end().0, Some(3));
    assert_eq!(written(&world, "pid").trim(), pid.as_raw_nonzero().to_string());
    let owner = written(&world, "owner");
    assert!(owner.trim().ends_with(&format!("@{}", pid.as_raw_nonzero())), "{owner}");
    let text = written(&world, "args");
    let words: Vec<&str> = text.lines().collect();
    assert_eq!((words[0], &words[2..]), ("--settings", &["-p", "do it", "--model", "m"][..]));
    let settings: Value = serde_json::from_str(words[1]).unwrap();
    assert_eq!(settings["permissions"]["defaultMode"], "default");
    let args = settings["hooks"]["PermissionRequest"][0]["hooks"][0]["args"].to_string();
    assert!(args.contains("--owner") && args.contains(owner.trim()), "{args}");
    assert!(!world.home().join(".claude").exists());
    assert_eq!(world.run(&["status"]).out, "askd: 0 waiting\n");
}

#[test]
fn signals_reach_the_agent_itself() {
    let world = world("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let mut started = run(&world, &["claude", "-p", "x"]);
    started.line("ready");
    started.signal(Signal::TERM);
    assert_eq!(started.end().0, Some(7));
}

#[test]
fn a_headless_agent_that_waits_says_what_to_type() {
    // The hook as Claude starts it: the program and its arguments from the settings that came with --settings.
    let world = world(
        r#"echo '{"session_id":"s1","transcript_path":"/none","cwd":"/","permission_mode":"default","hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":{"command":"touch x"}}' > "$HOME/event"
        owner=$ASKD_OWNER
        "$ASKD_EXE" hook claude-code --dir "$ASKD_DIR" --timeout 604800 --owner "$owner" < "$HOME/event"
        echo "hook said $?""#,
    );
    let mut command = world.command(&["run", "--", "claude", "-p", "x"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    command.env("ASKD_EXE", env!("CARGO_BIN_EXE_askd"));
    let mut started = Running::start(command);
    let line = started.line("waiting: askd allow ");
    let handle = world.handle("touch x");
    assert!(line.contains(&format!("askd allow {handle} ")) && line.contains("Bash: touch x"), "{line}");
    world.must(&["allow", &handle]);
    let line = started.line("\"behavior\":\"allow\"");
    assert!(line.contains("PermissionRequest"), "{line}");
    assert_eq!(started.end().0, Some(0));
}

#[test]
fn s1_what_the_agent_starts_cannot_answer() {
    let world = world(
        r#"until [ -e "$HOME/handle" ]; do sleep 0.05; done
        "$ASKD_EXE" allow "$(cat "$HOME/handle")"; echo "plain $?"
        setsid "$ASKD_EXE" allow "$(cat "$HOME/handle")"; echo "setsid $?""#,
    );
    let asked = world.ask("rm x", &[]);
    let handle = world.handle("rm x");
    let mut command = world.command(&["run", "--", "claude", "-p", "x"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    command.env("ASKD_EXE", env!("CARGO_BIN_EXE_askd"));
    let mut started = Running::start(command);
    fs::write(world.home().join("handle.new"), &handle).unwrap();
    fs::rename(world.home().join("handle.new"), world.home().join("handle")).unwrap();
    started.line("plain 7");
    started.line("setsid 7");
    assert_eq!(world.open("rm x")["state"], "open");
    drop(asked);
}

#[test]
fn other_programs_and_missing_ones_are_told_apart() {
    let world = World::new();
    let ran = world.run(&["run", "--", "vim"]);
    assert_eq!((ran.code, ran.err.contains("it serves claude")), (Some(2), true), "{ran:?}");
    let ran = world.run(&["run", "--", "/nowhere/claude"]);
    assert_eq!((ran.code, ran.err.contains("there is no such program")), (Some(127), true), "{ran:?}");
    let ran = world.run(&["run"]);
    assert_eq!(ran.code, Some(2));
}

#[test]
fn c1_without_a_daemon_the_agent_runs_all_the_same() {
    let world = world("exit 0");
    world.must(&["daemon", "stop"]);
    let (code, out) = run(&world, &["claude"]).end();
    assert_eq!((code, out.contains("the agent asks by itself")), (Some(0), true), "{out}");
}

#[test]
fn the_one_that_watches_goes_with_the_agent() {
    let world = world("echo ready; read line");
    let mut started = run(&world, &["claude", "-p"]);
    started.line("ready");
    let watchers = || {
        let pid = started.pid().as_raw_nonzero().to_string();
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&format!("run-watch\0{pid}\0"))).count()
    };
    until("a watcher", || (watchers() == 1).then_some(()));
    started.signal(Signal::KILL);
    until("no watcher", || (watchers() == 0).then_some(()));
}

/// A stand-in for opencode that shows its process id and counts interrupts.
const OPENCODE: &str = r#"#!/bin/sh
echo $$ > "$HOME/pid"
n=0
trap 'n=$((n+1)); echo "got $n"' INT
echo ready
until [ "$line" = bye ]; do
    if read -r line; then echo "$line has $n"; fi
done
"#;

fn opencode(args: &[&str]) -> (World, Running) {
    let world = World::new();
    world.script(&world.path("bin/opencode"), OPENCODE);
    let args: Vec<&str> = ["run", "--", "opencode"].iter().chain(args).copied().collect();
    let mut command = world.command(&args);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    // Not in the foreground of any terminal.
    command.process_group(0);
    let mut started = Running::start(command);
    started.line("ready");
    (world, started)
}

#[test]
fn what_asks_nothing_of_opencode_takes_the_process_over() {
    let (world, mut started) = opencode(&["models"]);
    assert_eq!(written(&world, "pid").trim(), started.pid().as_raw_nonzero().to_string());
    started.type_line("bye");
    assert_eq!(started.end().0, Some(0));
}

#[test]
fn an_interrupt_reaches_an_opencode_server_once() {
    let (_world, mut started) = opencode(&["serve"]);
    started.signal(Signal::INT);
    started.line("got 1");
    for word in ["one", "bye"] {
        started.type_line(word);
        started.line(&format!("{word} has 1"));
    }
    assert_eq!(started.end().0, Some(0));
}
