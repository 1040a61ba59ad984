//! `askd setup claude-code`: what is written, that nothing else changes, and the exact way back.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::Value;

use crate::world::{World, until};

const MINE: &str = "{\n\t\"model\": \"m\",   \"hooks\": {\n\t\t\"Stop\": [ {\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]} ] },\n\t\"permissions\": {\"defaultMode\": \"default\"}\n}";

fn settings(world: &World) -> PathBuf {
    world.home().join(".claude/settings.json")
}

fn write(world: &World, text: &str) {
    fs::create_dir_all(world.home().join(".claude")).unwrap();
    fs::write(settings(world), text).unwrap();
}

#[test]
fn a_dry_run_shows_everything_and_writes_nothing() {
    let world = World::new();
    write(&world, MINE);
    let out = world.must(&["setup", "claude-code", "--dry-run"]);
    assert!(out.contains("+ ") && out.contains("PermissionRequest") && out.contains("604800"), "{out}");
    assert_eq!(fs::read_to_string(settings(&world)).unwrap(), MINE);
    assert!(!world.askd_dir().exists());

    let none = World::new();
    none.must(&["setup", "claude-code", "--dry-run"]);
    assert!(!none.home().join(".claude").exists());
}

#[test]
fn it_goes_in_once_and_comes_out_to_the_byte() {
    let world = World::new();
    write(&world, MINE);
    let out = world.must(&["setup", "claude-code"]);
    assert!(out.contains("settings.json") && out.contains("askd setup claude-code --undo"), "{out}");
    let text = fs::read_to_string(settings(&world)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let hook = &value["hooks"]["PermissionRequest"][0]["hooks"][0];
    assert_eq!(hook["command"], env!("CARGO_BIN_EXE_askd-hook"));
    let dir = world.askd_dir();
    let words: Vec<&str> = hook["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(words, ["hook", "claude-code", "--dir", dir.to_str().unwrap(), "--timeout", "604800"]);
    assert_eq!(hook["timeout"], 604_800);
    assert_eq!(value["hooks"]["Stop"].as_array().unwrap().len(), 2);

    let again = world.must(&["setup", "claude-code"]);
    assert!(again.contains("nothing was changed"), "{again}");
    assert_eq!(fs::read_to_string(settings(&world)).unwrap(), text);

    let would = world.must(&["setup", "claude-code", "--undo", "--dry-run"]);
    assert!(would.contains("- ") && fs::read_to_string(settings(&world)).unwrap() == text, "{would}");
    world.must(&["setup", "claude-code", "--undo"]);
    assert_eq!(fs::read_to_string(settings(&world)).unwrap(), MINE);
    let nothing = world.must(&["setup", "claude-code", "--undo"]);
    assert!(nothing.contains("no hooks of askd"), "{nothing}");
}

#[test]
fn a_file_that_setup_made_goes_and_one_that_was_changed_since_keeps_the_change() {
    let world = World::new();
    world.must(&["setup", "claude-code"]);
    assert_eq!(fs::metadata(settings(&world)).unwrap().mode() & 0o777, 0o600);
    world.must(&["setup", "claude-code", "--undo"]);
    assert!(!settings(&world).exists());

    world.must(&["setup", "claude-code"]);
    let text = fs::read_to_string(settings(&world)).unwrap();
    let changed = text.replacen('{', "{\n  \"model\": \"new\",", 1);
    fs::write(settings(&world), changed).unwrap();
    world.must(&["setup", "claude-code", "--undo"]);
    let left: Value = serde_json::from_str(&fs::read_to_string(settings(&world)).unwrap()).unwrap();
    assert_eq!(left["model"], "new");
    assert_eq!(left.get("hooks"), None);
}

#[test]
fn links_and_modes_stay_and_another_directory_is_honoured() {
    let world = World::new();
    let real = world.path("dotfiles.json");
    fs::write(&real, MINE).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let other = world.path("other");
    fs::create_dir(&other).unwrap();
    symlink(&real, other.join("settings.json")).unwrap();
    let run = |args: &[&str]| {
        let output = world.command(args).env("CLAUDE_CONFIG_DIR", &other).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(&["setup", "claude-code"]);
    assert!(fs::read_to_string(&real).unwrap().contains("claude-code"));
    assert!(other.join("settings.json").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
    assert!(!world.home().join(".claude").exists());
    run(&["setup", "claude-code", "--undo"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), MINE);
}

#[test]
fn s7_settings_that_are_no_json_are_refused_with_the_place_and_left_alone() {
    let world = World::new();
    for broken in ["{\n  \"a\": 1,\n  nope\n}", "[1]", "{\"hooks\": 5}"] {
        write(&world, broken);
        let ran = world.run(&["setup", "claude-code"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("settings.json") && ran.err.contains("nothing was changed"), "{ran:?}");
        assert_eq!(fs::read_to_string(settings(&world)).unwrap(), broken);
    }
    write(&world, "{\n  \"a\": 1,\n  nope\n}");
    assert!(world.run(&["setup", "claude-code"]).err.contains("line 3"));
}

#[test]
fn a_mode_that_hides_asks_is_said_on_the_spot() {
    let world = World::new();
    let bin = world.path("bin");
    world.script(&bin.join("claude"), "#!/bin/sh\necho '2.1.332 (Claude Code)'\n");
    let setup = || {
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let output = world.command(&["setup", "claude-code"]).env("PATH", path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let out = setup();
    assert!(out.contains("warning:") && out.contains("defaultMode"), "{out}");
    write(&world, r#"{"permissions":{"defaultMode":"auto"}}"#);
    let out = setup();
    assert!(out.contains("in mode auto"), "{out}");
    write(&world, r#"{"permissions":{"defaultMode":"default"}}"#);
    let out = setup();
    assert!(!out.contains("warning:"), "{out}");
    write(&world, r#"{"permissions":{"defaultMode":"default"},"disableAllHooks":true}"#);
    let out = setup();
    assert!(out.contains("disableAllHooks"), "{out}");
}

#[test]
fn doctor_finds_no_fault_where_there_is_no_claude() {
    let world = World::new();
    let ran = world.run(&["doctor"]);
    assert!(ran.out.contains("no claude on PATH"), "{ran:?}");
    assert_eq!((ran.code, ran.out.contains("problem")), (Some(0), false), "{ran:?}");
}

#[test]
fn setup_of_pi_starts_who_serves_doctor_says_when_nobody_does_and_undo_leaves_nothing() {
    let world = World::new();
    fs::create_dir_all(world.home().join(".pi/agent")).unwrap();
    let config = world.askd_dir().join("config.toml");
    let said = world.must(&["setup", "pi"]);
    assert!(said.contains("the daemon runs and serves ") && said.contains("askd daemon"), "{said}");
    assert_eq!(world.run(&["status"]).code, Some(0));
    let said = world.run(&["doctor"]).out;
    assert!(said.contains("pi: the daemon serves ") && said.contains("is not there yet"), "{said}");

    // A request in a directory starts none.
    world.kill_daemon();
    until("it is gone", || (world.run(&["status"]).code != Some(0)).then_some(()));
    let ran = world.run(&["doctor"]);
    let problem = "served while a daemon runs, and none does";
    assert_eq!((ran.code, ran.out.contains(problem)), (Some(1), true), "{ran:?}");
    assert!(!ran.out.contains("pi: the daemon serves "), "{ran:?}");

    world.must(&["setup", "pi", "--undo"]);
    assert!(!config.exists());
    world.must(&["daemon", "stop"]);
    let said = world.must(&["setup", "pi"]);
    assert!(said.contains("nobody serves ") && said.contains("askd was stopped"), "{said}");
    fs::write(&config, fs::read_to_string(&config).unwrap() + "\n[notify]\nbell = false\n").unwrap();
    world.must(&["setup", "pi", "--undo"]);
    assert_eq!(fs::read_to_string(&config).unwrap().trim(), "[notify]\nbell = false");
}

#[test]
fn doctor_names_what_is_wrong_and_what_to_do() {
    let world = World::new();
    let bin = world.path("bin");
    world.script(&bin.join("claude"), "#!/bin/sh\necho '2.1.332 (Claude Code)'\n");
    let doctor = |world: &World| {
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let output = world.command(&["doctor"]).env("PATH", path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = doctor(&world);
    // Whoever starts it by `askd run` needs no hooks, and no mode.
    assert_eq!((code, out.contains("problem")), (Some(0), false), "{out}");
    assert!(out.contains("has no hooks of askd") && out.contains("→ askd setup claude-code"), "{out}");
    assert!(!out.contains("permission mode"), "{out}");
    assert!(out.contains("Claude Code 2.1.332"), "{out}");

    write(&world, r#"{"permissions":{"defaultMode":"default"}}"#);
    world.must(&["setup", "claude-code"]);
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("problem")), (Some(0), false), "{out}");
    world.start();
    let (code, out) = doctor(&world);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("daemon ") && out.contains("journal sqlite"), "{out}");

    // Each fault by itself.
    let good = fs::read_to_string(settings(&world)).unwrap();
    fs::write(settings(&world), good.replace("\"SubagentStop\"", "\"Other\"")).unwrap();
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("no hook for SubagentStop")), (Some(1), true), "{out}");
    fs::write(settings(&world), good.replace("604800,", "60,").replace("604800\n", "60\n")).unwrap();
    let (code, out) = doctor(&world);
    assert_eq!(
        (code, out.contains("handed back to Claude's own prompt after 60s")),
        (Some(1), true),
        "{out}"
    );
    // As it was written before calls that repeat themselves were asked about.
    let mut older: Value = serde_json::from_str(&good).unwrap();
    let hook = &mut older["hooks"]["PreToolUse"][0]["hooks"][0];
    hook["timeout"] = 15.into();
    hook["args"].as_array_mut().unwrap().retain(|arg| arg != "--timeout" && arg != "604800");
    fs::write(settings(&world), older.to_string()).unwrap();
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("PreToolUse is of an older askd")), (Some(1), true), "{out}");
    assert_eq!(out.matches("run `askd setup claude-code` again").count(), 1, "{out}");
    fs::write(settings(&world), good.replace(world.askd_dir().to_str().unwrap(), "/elsewhere")).unwrap();
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("another place")), (Some(1), true), "{out}");
    fs::write(settings(&world), &good).unwrap();

    fs::write(world.askd_dir().join("config.toml"), "[permissions]\nqueue_kap = 5\n").unwrap();
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("queue_kap")), (Some(1), true), "{out}");
    fs::remove_file(world.askd_dir().join("config.toml")).unwrap();

    let socket = world.askd_dir().join("run/answer.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("0666")), (Some(1), true), "{out}");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();

    // The permission tool: not needed, set up, broken, and needed by an older version.
    assert!(out.contains("the permission tool is not set up, and not needed"), "{out}");
    let server = |command: &str| {
        let text = format!(r#"{{"mcpServers":{{"askd":{{"command":"{command}","args":["mcp"]}}}}}}"#);
        fs::write(world.home().join(".claude.json"), text).unwrap();
    };
    server(env!("CARGO_BIN_EXE_askd"));
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("ok      permission tool mcp__askd__ask in ")), (Some(0), true), "{out}");
    server("/nowhere/askd");
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("there is no program /nowhere/askd")), (Some(1), true), "{out}");
    // A file may name any program, and what a person's command starts may answer: nothing of it is started.
    let (other, trace) = (bin.join("askd"), world.path("was-started"));
    world.script(&other, &format!("#!/bin/sh\n: > {}\n", trace.display()));
    server(other.to_str().unwrap());
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("is another program than this askd")), (Some(1), true), "{out}");
    assert!(!trace.exists(), "s1: a program that a file names was started");
    fs::remove_file(other).unwrap();
    fs::remove_file(world.home().join(".claude.json")).unwrap();
    world.script(&bin.join("claude"), "#!/bin/sh\necho '2.1.197 (Claude Code)'\n");
    let (_, out) = doctor(&world);
    assert!(out.contains("claude -p of 2.1.197 runs no permission hooks"), "{out}");
    assert!(out.contains("→ askd run -- claude -p …, which adds"), "{out}");

    world.must(&["daemon", "stop"]);
    let (code, out) = doctor(&world);
    assert_eq!((code, out.contains("askd was stopped")), (Some(1), true), "{out}");
}

#[test]
fn an_askd_that_was_installed_alone_is_its_own_hook() {
    let world = World::new();
    let alone = world.path("askd-alone");
    fs::copy(env!("CARGO_BIN_EXE_askd"), &alone).unwrap();
    let mut command = world.command_of(&alone, &["setup", "claude-code"]);
    assert!(command.output().unwrap().status.success());
    let value: Value = serde_json::from_str(&fs::read_to_string(settings(&world)).unwrap()).unwrap();
    assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], alone.to_str().unwrap());
}
