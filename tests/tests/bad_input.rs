//! Input that is wrong: a clear error, nothing lost, and never a decision that nobody made.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Stdio;

use anyhow::{Context, Result};
use askd_tests::{Ran, World, until};
use serde_json::{Value, json};

/// An ask of the hook's, as Claude Code would give it.
fn hook_ask(world: &World, command: &str) -> Value {
    json!({
        "session_id": "5e551011-0000-4000-8000-000000000000",
        "transcript_path": world.file("none.jsonl"),
        "cwd": world.project(),
        "permission_mode": "default",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": command},
    })
}

/// The hook had no opinion: the agent goes on as if askd were not there.
fn no_opinion(ran: &Ran) {
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
}

#[test]
fn s7_a_hook_that_is_given_nonsense_has_no_opinion() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let ask = hook_ask(&world, "ls").to_string();
    let mut no_tool = hook_ask(&world, "ls");
    no_tool["tool_name"] = Value::Null;
    let mut other_event = hook_ask(&world, "ls");
    other_event["hook_event_name"] = "Unheard".into();
    let (no_tool, other_event) = (no_tool.to_string(), other_event.to_string());
    let cut = ask.get(..ask.len() / 2).unwrap_or_default();
    let inputs: [&[u8]; 8] = [
        b"",
        b"{}",
        b"[1,2]",
        b"not JSON",
        b"\xff\xfe{\x00",
        cut.as_bytes(),
        no_tool.as_bytes(),
        other_event.as_bytes(),
    ];
    for input in inputs {
        no_opinion(&world.run_with(&["hook", "claude-code"], input)?);
    }
    no_opinion(&world.run_with(&["hook", "an-unknown-agent"], ask.as_bytes())?);
    let asks = world.asks()?;
    assert!(asks.is_empty(), "{asks:?}");
    Ok(())
}

#[test]
fn s7_an_ask_beyond_the_limit_is_refused_and_others_are_served() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let huge = hook_ask(&world, &"x".repeat(17 * 1024 * 1024)).to_string();
    no_opinion(&world.run_with(&["hook", "claude-code"], huge.as_bytes())?);
    let asks = world.asks()?;
    assert!(asks.is_empty(), "{} asks", asks.len());

    let input = r#"{"command":"ls"}"#;
    let mut small = world.command(&["ask", "--tool", "Bash", "--input", input, "--json"]);
    let small = small.stdout(Stdio::piped()).spawn()?;
    let ask = world.ask("ls")?;
    assert_eq!(world.allow(&ask.handle)?, 0);
    let output = small.wait_with_output()?;
    let settled: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((settled["outcome"].as_str(), output.status.code()), (Some("allowed"), Some(0)));
    Ok(())
}

#[test]
fn s7_an_id_that_names_no_ask_or_several_answers_nothing() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let input = r#"{"command":"ls"}"#;
    let mut askers = Vec::new();
    for _ in 0..3 {
        let mut asker = world.command(&["ask", "--tool", "Bash", "--input", input]);
        askers.push(asker.stdout(Stdio::null()).spawn()?);
    }
    let open = until("three asks", || Ok(Some(world.open()?).filter(|open| open.len() == 3)))?;
    for wrong in ["", "zzzzzzzz", "*", "../../etc/passwd", "019", "-1"] {
        let ran = world.run(&["allow", "--", wrong])?;
        assert!([2, 6].contains(&ran.code) && !ran.stderr.is_empty(), "{wrong:?}: {ran:?}");
    }
    // A part that several ids share.
    let shared = open[0].id.get(..4).context("a short id")?;
    let ran = world.run(&["allow", shared])?;
    assert!([2, 6].contains(&ran.code), "{ran:?}");
    assert_eq!(world.open()?.len(), 3);

    // Several at once: each gets its line, and the worst status is returned.
    let (first, second) = (open[0].handle.as_str(), open[1].handle.as_str());
    let ran = world.run(&["deny", first, "zzzzzzzz", second])?;
    assert_eq!(ran.code, 6);
    assert_eq!(world.open()?.len(), 1);
    assert_eq!(world.allow(&open[2].handle)?, 0);
    let mut codes = Vec::new();
    for mut asker in askers {
        codes.push(asker.wait()?.code());
    }
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1), Some(1)]);
    Ok(())
}

#[test]
fn s7_a_wrong_config_stops_the_daemon_and_leaves_the_agent_to_itself() -> Result<()> {
    let world = World::new()?;
    let cases = [
        ("[permissions]\nbackground_timeout_secs = 0\n", "background_timeout_secs"),
        ("[permissions]\nbackground_default = \"maybe\"\n", "background_default"),
        ("[permissions]\nqueue_kap = 5\n", "queue_cap"),
        ("[permissions\n", "config.toml"),
    ];
    for (config, named) in cases {
        fs::write(world.askd_dir().join("config.toml"), config)?;
        for command in [&["config", "check"][..], &["daemon"]] {
            let ran = world.run(command)?;
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(ran.code != 0 && said.contains(named), "{config:?}: {ran:?}");
        }
        let ask = hook_ask(&world, "ls").to_string();
        no_opinion(&world.run_with(&["hook", "claude-code"], ask.as_bytes())?);
    }
    Ok(())
}

#[test]
fn s7_a_daemon_trusts_no_foreign_place_and_no_second_one_starts() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let second = world.run(&["daemon"])?;
    assert!(second.code != 0 && !second.stderr.is_empty(), "{second:?}");
    assert!(world.open()?.is_empty(), "the first still serves");
    // The sockets it leaves behind are stale and in nobody's way.
    world.kill_daemon()?;
    assert!(world.askd_dir().join("run/ask.sock").exists());
    world.start_daemon()?;
    world.kill_daemon()?;

    let run = world.askd_dir().join("run");
    let elsewhere = world.file("elsewhere");
    fs::rename(&run, &elsewhere)?;
    symlink(&elsewhere, &run)?;
    let refused = world.run(&["daemon"])?;
    assert!(refused.code != 0 && refused.stderr.contains("run"), "{refused:?}");
    let ask = hook_ask(&world, "ls").to_string();
    no_opinion(&world.run_with(&["hook", "claude-code"], ask.as_bytes())?);

    if rustix::process::geteuid().is_root() {
        fs::remove_file(&run)?;
        fs::rename(&elsewhere, &run)?;
        chown(&run, Some(12_345), None)?;
        let refused = world.run(&["daemon"])?;
        assert!(refused.code != 0 && refused.stderr.contains("run"), "{refused:?}");
        no_opinion(&world.run_with(&["hook", "claude-code"], ask.as_bytes())?);
    }
    Ok(())
}
