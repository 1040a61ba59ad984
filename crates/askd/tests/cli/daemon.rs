//! The daemon's life as a person handles it, the settings, and what a status bar sees.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

use askd_tests::processes;
use rustix::process::Signal;
use serde_json::Value;

use crate::world::{World, until};

#[test]
fn a_restart_keeps_the_options_and_the_open_asks() {
    let world = World::new();
    // A relative journal is relative to where the daemon was started.
    fs::DirBuilder::new().mode(0o700).create(world.home().join("own")).unwrap();
    let daemon = world.spawn(&["daemon", "--journal", "sqlite:own/mine.sqlite"]);
    until("a daemon", || (world.run(&["status"]).code == Some(0)).then_some(()));
    let before = until("the daemon says who it is", || world.daemon_pid());
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let out = world.must(&["daemon", "restart"]);
    assert!(out.contains("restarted") && out.contains("open asks stay open"), "{out}");
    let after = until("the new daemon says who it is", || world.daemon_pid());
    assert_ne!(before, after);
    assert_eq!(world.handle("ls"), handle);
    let command = fs::read(format!("/proc/{}/cmdline", after.as_raw_nonzero())).unwrap();
    assert!(String::from_utf8_lossy(&command).ends_with("daemon\0--journal\0sqlite:own/mine.sqlite\0"));
    assert!(world.home().join("own/mine.sqlite").exists());
    assert!(!world.askd_dir().join("state/journal.sqlite").exists());
    world.must(&["allow", &handle]);
    assert_eq!(asked.end().0, Some(0));
    drop(daemon);
}

#[test]
fn a_restart_that_would_not_come_back_changes_nothing_and_says_why() {
    let world = World::new();
    world.start();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let before = world.daemon_pid();
    let config = world.askd_dir().join("config.toml");
    let other = world.home().join("no-directory");
    fs::write(&other, "").unwrap();
    let url = format!("[journal]\nurl = \"sqlite:{}/j.sqlite\"\n", other.display());
    for (text, part) in [("[permissions]\nqueue_capp = 3\n", "queue_capp"), (url.as_str(), "no-directory")] {
        fs::write(&config, text).unwrap();
        let ran = world.run(&["daemon", "restart"]);
        assert_ne!(ran.code, Some(0), "{ran:?}");
        assert!(ran.err.contains("nothing was changed") && ran.err.contains(part), "{ran:?}");
        assert_eq!(world.daemon_pid(), before);
        assert_eq!(world.handle("ls"), handle);
    }
    fs::write(&config, "[permissions]\nqueue_capp = 3\n").unwrap();
    until("the status line says it", || world.must(&["status"]).contains("askd config check").then_some(()));
    fs::write(&config, "[permissions]\nqueue_cap = 3\n").unwrap();
    until("the status line is right again", || {
        (!world.must(&["status"]).contains("askd config check")).then_some(())
    });
    world.must(&["daemon", "restart"]);
    assert_ne!(world.daemon_pid(), before);
    world.must(&["allow", &handle]);
    assert_eq!(asked.end().0, Some(0));
}

#[test]
fn a_daemon_that_cannot_say_where_it_is_runs_and_a_restart_is_one_only_when_a_daemon_answers() {
    let world = World::new();
    fs::DirBuilder::new().mode(0o700).create(world.home().join("own")).unwrap();
    let daemon = world.spawn(&["daemon", "--journal", "sqlite:own/mine.sqlite"]);
    until("a daemon", || (world.run(&["status"]).code == Some(0)).then_some(()));
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    // As on a full disk: what is written anew is not there.
    let in_the_way = world.askd_dir().join("state/daemon.new");
    fs::create_dir(&in_the_way).unwrap();
    for _ in 0..2 {
        let out = world.must(&["daemon", "restart"]);
        assert!(out.contains("restarted (process "), "{out}");
        assert_eq!(world.run(&["status"]).code, Some(0));
        assert_eq!(world.handle("ls"), handle, "with the journal that it was started with");
    }
    world.must(&["allow", &handle]);
    assert_eq!(asked.end().0, Some(0));
    drop(daemon);
}

#[test]
fn many_requesters_under_a_restart_find_one_daemon() {
    let world = World::new();
    let asked: Vec<_> = (0..8).map(|n| world.ask(&format!("ask {n}"), &[])).collect();
    for n in 0..8 {
        world.open(&format!("ask {n}"));
    }
    world.must(&["daemon", "restart"]);
    let pid = until("the new daemon says who it is", || world.daemon_pid());
    let mut args = vec!["allow".to_owned()];
    args.extend((0..8).map(|n| world.handle(&format!("ask {n}"))));
    world.must(&args.iter().map(String::as_str).collect::<Vec<_>>());
    for asked in asked {
        assert_eq!(asked.end().0, Some(0));
    }
    assert_eq!(world.daemon_pid(), Some(pid));
}

#[test]
fn a_second_daemon_does_not_start_and_a_stop_holds_until_a_person_starts_one() {
    let world = World::new();
    world.start();
    let ran = world.run(&["daemon"]);
    assert_eq!(
        (ran.code, ran.err.contains("already runs") && ran.err.contains("askd daemon restart")),
        (Some(9), true),
        "{ran:?}"
    );
    world.must(&["daemon", "stop"]);
    assert_eq!(world.run(&["ask", "--tool", "T"]).code, Some(4));
    assert_eq!(world.run(&["status"]).code, Some(4));
    let again = world.must(&["daemon", "stop"]);
    assert!(again.contains("no daemon was running"), "{again}");
    world.start();
    let asked = world.ask("ls", &[]);
    world.open("ls");
    drop(asked);
}

#[test]
fn c8_after_a_crash_nothing_is_decided_before_the_queue_is_back() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), "[permissions]\nunreachable = \"when_none_attached\"\n")
        .unwrap();
    world.start();
    // Nobody is there.
    assert_eq!(world.ask("first", &[]).end().0, Some(4));
    let mut queue = world.spawn(&[]);
    queue.line("open ask");
    let second = world.ask("second", &[]);
    world.open("second");
    // It takes its time to come back.
    queue.signal(Signal::STOP);
    world.kill_daemon();
    let asked = world.ask("third", &[]);
    world.open("third");
    queue.signal(Signal::CONT);
    queue.line("third");
    let handle = world.handle("third");
    queue.type_line(&format!("allow {handle}"));
    assert_eq!(asked.end().0, Some(0));
    // Who left before it was killed is not waited for.
    drop((queue, second));
    let noted = world.askd_dir().join("state/surfaces");
    until("nobody", || fs::read_to_string(&noted).ok().filter(|text| text.ends_with(" 0")));
    world.kill_daemon();
    assert_eq!(world.ask("fourth", &[]).end().0, Some(4));
}

#[test]
fn s2_an_autostarted_daemon_takes_no_setting_from_its_requester() {
    let world = World::new();
    let mut command =
        world.command(&["ask", "--tool", "T", "--background", "--input", r#"{"command":"ls"}"#]);
    command.env("ASKD_PERMISSIONS__BACKGROUND_DEFAULT", "allow");
    command.env("ASKD_PERMISSIONS__BACKGROUND_TIMEOUT_SECS", "1");
    let mut asked = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ask = world.open("ls");
    assert_eq!(ask["default"], "deny");
    let secs = |field: &str| {
        let text = ask[field].as_str().unwrap();
        text.parse::<jiff::Timestamp>().unwrap().as_second()
    };
    assert_eq!(secs("deadline") - secs("asked_at"), 360);
    asked.kill().unwrap();
    asked.wait().unwrap();
}

#[test]
fn s2_a_loosened_setting_waits_for_config_accept() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), "[permissions]\nbackground_default = \"allow\"\n")
        .unwrap();
    world.start();
    let out = world.must(&["config", "check"]);
    assert!(out.contains("waits until a person accepts it"), "{out}");
    let out = world.must(&["config", "explain", "permissions.background_default"]);
    assert!(out.contains("config.toml:2") && out.contains("askd config accept"), "{out}");
    assert!(world.must(&["status"]).contains("settings wait"));
    assert!(world.must(&["ls"]).contains("no open asks"));

    // Nobody is at the terminal, and an agent is nobody.
    let ran = world.run(&["config", "accept"]);
    assert_eq!((ran.code, ran.err.contains("--yes")), (Some(2), true), "{ran:?}");
    let ran = world.command(&["config", "accept", "--yes"]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    let ran = world.run(&["config", "accept", "permissions.safety_default"]);
    assert_eq!((ran.code, ran.err.contains("does not wait")), (Some(2), true), "{ran:?}");
    let (code, _) = world.ask("tight", &["--background", "--deadline", "1"]).end();
    assert_eq!(code, Some(1));

    let out = world.must(&["config", "accept", "permissions.background_default"]);
    assert!(out.contains("is in force"), "{out}");
    let (code, _) = world.ask("loose", &["--background", "--deadline", "1"]).end();
    assert_eq!(code, Some(0));
    assert!(world.must(&["config", "accept"]).contains("no setting waits"));
    assert!(world.must(&["config", "check"]).contains("a person accepted it"));
}

#[test]
fn s7_a_wrong_config_is_named_and_no_daemon_starts_with_it() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    let file = world.askd_dir().join("config.toml");
    fs::write(&file, "[permissions]\nbackground_timeout_secs = 0\nqueue_kap = 1\n").unwrap();
    let ran = world.run(&["config", "check"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("config.toml:2") && ran.err.contains("config.toml:3"), "{ran:?}");
    let ran = world.run(&["daemon"]);
    assert!(ran.code != Some(0) && ran.err.contains("background_timeout_secs"), "{ran:?}");
    // With a flag it is the command that is wrong, where the config is right.
    let ran = World::new().run(&["daemon", "--journal", "postgres://x"]);
    assert_eq!((ran.code, ran.err.contains("the config")), (Some(2), false), "{ran:?}");
    assert!(ran.err.contains("--journal"), "{ran:?}");
    // The first error, and where all of them are.
    let ran = world.run(&["ask", "--tool", "T"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("config.toml:2") && ran.err.contains("askd config check"), "{ran:?}");
    let ran = world.run(&["ls"]);
    assert_eq!((ran.code, ran.err.contains("askd config check")), (Some(4), true), "{ran:?}");
}

#[test]
fn t6_every_wrong_setting_is_named_with_its_line_and_what_was_meant() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    let text = "[permissions]\nqueue_kap = 1\nbackground_deny = \"halt\"\nsafety_timeout_secs = -1\n\
                dangerously_skip_permission = true\n[remote]\ntimeout = 5\n[notify]\nbel = false\n";
    fs::write(world.askd_dir().join("config.toml"), text).unwrap();
    let ran = world.run(&["config", "check"]);
    assert_eq!((ran.code, ran.err.lines().count()), (Some(1), 6), "{ran:?}");
    for (line, parts) in [
        (2, &["permissions.queue_kap", "did you mean permissions.queue_cap?"][..]),
        (3, &["permissions.background_deny = ", "halt", "continue", "stop"]),
        (4, &["permissions.safety_timeout_secs = -1", "1 to 31536000"]),
        (5, &["did you mean permissions.dangerously_skip_permissions?"]),
        (7, &["remote.timeout", "did you mean remote.timeout_secs?"]),
        (9, &["notify.bel", "did you mean notify.bell?"]),
    ] {
        let at = format!("config.toml:{line}:");
        let found = ran.err.lines().find(|said| said.contains(&at));
        let said = found.unwrap_or_else(|| panic!("{at} in {ran:?}"));
        for part in parts {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}

#[test]
fn s2_new_settings_are_explained_and_skip_waits_for_a_person() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    let text = "[permissions]\nqueue_cap = 2\nbackground_deny = \"stop\"\n\
                dangerously_skip_permissions = true\n[remote]\ntimeout_secs = 60\ntimeout_action = \"deny\"\n\
                [notify]\nbell = false\n";
    fs::write(world.askd_dir().join("config.toml"), text).unwrap();
    for (key, value) in [
        ("permissions.queue_cap", "2"),
        ("permissions.background_deny", "stop"),
        ("permissions.dangerously_skip_permissions", "true"),
        ("remote.timeout_secs", "60"),
        ("remote.timeout_action", "deny"),
        ("notify.bell", "false"),
    ] {
        let out = world.must(&["config", "explain", key]);
        assert!(out.contains(value) && out.contains("config.toml:"), "{key}: {out}");
    }
    world.start();
    let asked = world.ask("waits", &[]);
    let handle = world.handle("waits");
    world.must(&["deny", &handle]);
    assert_eq!(asked.end().0, Some(1));
    assert!(world.must(&["config", "check"]).contains("dangerously_skip_permissions"));
    world.must(&["config", "accept", "permissions.dangerously_skip_permissions"]);
    assert_eq!(world.ask("runs", &[]).end().0, Some(0));
    let out = world.must(&["permissions"]);
    assert!(out.contains("skip-permissions: on") && out.contains("warning: "), "{out}");
    assert!(out.contains("at most 2 background asks wait"), "{out}");
}

#[test]
fn the_settings_print_themselves() {
    let world = World::new();
    let file = world.must(&["config"]);
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), &file).unwrap();
    assert!(world.must(&["config", "check"]).contains("is right"));
    let schema: Value = serde_json::from_str(&world.must(&["config", "schema"])).unwrap();
    assert!(schema["properties"]["permissions"].is_object());
    let ran = world.run(&["config", "explain", "permissions.backgroud_default"]);
    assert_eq!((ran.code, ran.err.contains("did you mean")), (Some(2), true), "{ran:?}");
}

#[test]
fn c8_status_and_sessions_count_what_waits() {
    let world = World::new();
    assert_eq!(world.run(&["status"]).out, "askd: not running\n");
    let one = world.ask("one", &["--session", "s", "--subagent", "kid"]);
    let handle = world.handle("one");
    assert_eq!(world.must(&["status"]), format!("askd: 1 waiting (script {handle} Bash)\n"));
    let two = world.ask("two", &["--session", "s"]);
    let second = world.handle("two");
    let sessions = world.json(&["sessions", "--json"]);
    assert_eq!((&sessions[0]["session"], &sessions[0]["waiting"]), (&"s".into(), &2.into()));
    assert!(world.must(&["sessions"]).contains("2 waiting"));
    let shown = world.must(&["show", &handle]);
    assert!(shown.contains("subagent    kid"), "{shown}");
    world.must(&["allow", &handle]);
    assert_eq!(world.json(&["sessions", "--json"])[0]["waiting"], 1);
    world.must(&["deny", &second]);
    assert_eq!(world.json(&["sessions", "--json"])[0]["waiting"], 0);
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(1)));
    assert_eq!(world.must(&["status"]), "askd: 0 waiting\n");

    let log = world.must(&["log", "--session", "s"]);
    assert!(log.contains("Bash: one") && log.contains("denied by you"), "{log}");
    let lines = world.must(&["log", "--json", "--since", "1h"]);
    for line in lines.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert!(entry["position"].is_u64() && entry["what"].is_string(), "{line}");
    }
    assert!(world.must(&["log", "--since", "2999-01-01"]).contains("nothing in the log"));
    assert_eq!(world.run(&["log", "--since", "yesterday"]).code, Some(2));
}

#[test]
fn s7_a_reader_that_leaves_is_no_error_to_talk_about() {
    let world = World::new();
    let command = format!("{} config | head -c 1 > /dev/null", env!("CARGO_BIN_EXE_askd"));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", world.home());
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_hook_says_nothing_to_the_agent_when_it_is_called_wrongly() {
    let world = World::new();
    for args in [&["hook"][..], &["hook", "other-agent"], &["hook", "claude-code"]] {
        let ran = world.run_with(args, "nonsense");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.is_empty()), (Some(0), "", false), "{args:?}");
    }
    let help = world.must(&["hook", "--help"]);
    assert!(help.contains("claude-code"), "{help}");
    assert!(world.must(&["--version"]).starts_with("askd "));
}

#[test]
fn the_hook_program_starts_the_askd_beside_it() {
    let world = World::new();
    let event = r#"{"session_id":"s1","transcript_path":"/dev/null","cwd":"/tmp","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"ls"}}"#;
    let program = Path::new(env!("CARGO_BIN_EXE_askd-hook"));
    let ran = world.run_program_with(program, &["hook", "claude-code"], event);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    let sessions: Value = serde_json::from_str(&world.must(&["sessions", "--json"])).unwrap();
    assert_eq!(sessions[0]["session"], "s1", "{sessions}");
}

/// What a test starts may be starting a daemon when the test ends, as a failing one does at any moment.
#[test]
fn no_world_leaves_a_process_behind() {
    for round in 0..5 {
        let world = World::new();
        // Whoever is left over, in a session of its own, and begins anew whatever ends.
        let script = "while :; do \"$0\" ask --tool Bash --input '{}' & sleep 0.05; done";
        let mut stray = world.command_of(Path::new("setsid"), &["sh", "-c", script]);
        stray.arg(env!("CARGO_BIN_EXE_askd")).stdout(Stdio::null());
        let mut stray = stray.stderr(Stdio::null()).spawn().unwrap();
        let dir = world.path("");
        until("what it starts", || (processes::of_world(&dir).len() > 1 + round).then_some(()));
        drop(world);
        assert_eq!(processes::of_world(&dir), Vec::<u32>::new());
        assert!(!dir.exists(), "and its directory is gone");
        stray.wait().unwrap();
    }
}
