//! Headless runs without a host that can answer.

use std::process::Stdio;

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Step, Version, World, until};
use serde_json::Value;

use crate::{behind, script};

#[test]
fn c1_a_host_without_permission_requests_gets_answers_and_never_sees_one() -> Result<()> {
    silent(Version::Newest)
}

#[test]
fn c1_a_host_without_permission_requests_gets_answers_and_never_sees_one_older_version() -> Result<()> {
    silent(Version::Older)
}

fn silent(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let model =
        Model::start(script([Step::bash("touch made"), Step::bash("touch unmade"), Step::say("done")]))?;
    let mut plain = Headless::start(&world, version, &model, Host::Nobody)?;
    plain.say("nothing to play")?;
    plain.turn_end(1)?;
    plain.finish()?;
    let mut agent = behind(&world, version, &model, &[], &[], Host::Nobody)?;
    agent.say("play=main")?;
    let ask = world.ask("touch made")?;
    assert_eq!(ask.attendance, "background");
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    let ask = world.ask("touch unmade")?;
    assert_eq!(world.deny(&ask.id, "not that")?, 0);
    assert_eq!(model.result("main", 1)?.text, "not that");
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("unmade"));
    let kinds = |frames: &[Value]| {
        frames.iter().filter(|f| f["type"].as_str().is_some_and(|t| t.starts_with("control"))).count()
    };
    assert_eq!(kinds(&agent.frames()), 0, "{:?}", agent.frames());
    // The model has the tools that it would have had.
    let tools =
        |frames: Vec<Value>| frames.into_iter().find(|f| f["subtype"] == "init").map(|f| f["tools"].clone());
    assert_eq!(tools(agent.frames()), tools(plain.frames()));
    Ok(())
}

#[test]
fn c1_a_run_with_messages_on_its_input_outlives_whoever_wrote_them() -> Result<()> {
    let world = World::with_askd()?;
    let model = Model::start(script([Step::bash("touch made"), Step::say("the last words")]))?;
    let claude = world.file("claude");
    std::os::unix::fs::symlink(Version::Newest.binary()?, &claude)?;
    let mut command = world.command(&["run", "--"]);
    command.arg(&claude).env_clear().envs(world.agent_env(&model)).current_dir(world.project());
    let mut agent = Headless::spawn(&world, command, Host::Nobody)?;
    agent.say("play=main")?;
    agent.close();
    let ask = world.ask("touch made")?;
    let waits = format!("waiting: askd allow {}", ask.handle);
    until("what to type on standard error", || Ok(agent.stderr()?.contains(&waits).then_some(())))?;
    assert_eq!(world.allow(&ask.id)?, 0);
    assert_eq!(agent.turn_end(1)?["result"], "the last words");
    assert_eq!(agent.end()?, Some(0));
    assert!(world.made("made"));
    assert_eq!(world.asks()?.len(), 1, "the hooks of the run only watch");
    Ok(())
}

#[test]
fn c1_a_plain_run_of_a_version_without_headless_hooks_is_asked_by_the_permission_tool() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = script([
        Step::bash("touch made"),
        Step::bash("touch unmade"),
        Step::agent("the child", "child", false),
        Step::say("the last words"),
    ])
    .with("child", [Step::bash("touch third"), Step::say("the child is done")]);
    let model = Model::start(scripts)?;
    let claude = world.file("claude");
    std::os::unix::fs::symlink(Version::Older.binary()?, &claude)?;
    let mut command = world.command(&["run", "--"]);
    command.arg(&claude).args(["-p", "play=main"]).env_clear().envs(world.agent_env(&model));
    let run = command.current_dir(world.project()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let ask = world.ask("touch made")?;
    assert_eq!(ask.attendance, "background");
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    let ask = world.ask("touch unmade")?;
    assert_eq!(world.deny(&ask.id, "not that")?, 0);
    assert_eq!(model.result("main", 1)?.text, "not that");
    let ask = world.ask("touch third")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    let output = run.wait_with_output()?;
    assert_eq!(String::from_utf8(output.stdout)?.trim_end(), "the last words");
    assert!(output.status.success() && world.made("third") && !world.made("unmade"));
    assert_eq!(world.asks()?.len(), 3, "the hooks beside it only watch");
    Ok(())
}

#[test]
fn c1_a_plain_run_prints_what_it_would_print_without_askd() -> Result<()> {
    let world = World::with_askd()?;
    let claude = world.file("claude");
    std::os::unix::fs::symlink(Version::Newest.binary()?, &claude)?;
    for (format, flags) in
        [("text", &[][..]), ("json", &[]), ("stream-json", &["--verbose"]), ("text", &["--max-turns", "1"])]
    {
        let model = Model::start(script([Step::bash("true"), Step::say("the last words")]))?;
        let mut printed = Vec::new();
        for under_askd in [false, true] {
            let mut command = world.command(&["run", "--"]);
            if !under_askd {
                command = std::process::Command::new("env");
            }
            command.arg(&claude).args(["-p", "play=main", "--output-format", format]).args(flags);
            command.env_clear().envs(world.agent_env(&model)).env("PATH", "/usr/bin:/bin");
            let output = command.current_dir(world.project()).stdin(Stdio::null()).output()?;
            let text = String::from_utf8(output.stdout)?;
            let shape: Vec<String> = text.lines().map(shape).collect();
            printed.push((shape, text.ends_with('\n'), output.status.code()));
        }
        assert_eq!(printed[0], printed[1], "{format} {flags:?}");
    }
    Ok(())
}

/// A line without what differs from run to run.
fn shape(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(object)) => {
            let keys: Vec<&str> = object.keys().map(String::as_str).collect();
            format!("{} {} {}", object["type"], object.get("result").unwrap_or(&Value::Null), keys.join(" "))
        }
        _ => line.to_owned(),
    }
}
