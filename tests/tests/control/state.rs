//! What the agent says of its state: whoever asked for those lines gets them, and nobody else.

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World};
use serde_json::{Value, json};

use crate::{behind, script};

const EMIT: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";

fn states(frames: &[Value]) -> Vec<&str> {
    let lines = frames.iter().filter(|frame| frame["subtype"] == "session_state_changed");
    lines.filter_map(|frame| frame["state"].as_str()).collect()
}

/// One turn without a tool, and everything that the host saw of it.
fn one_turn(agent: &mut Headless) -> Result<Vec<Value>> {
    agent.say("play=main")?;
    agent.turn_end(1)?;
    agent.finish()?;
    Ok(agent.frames())
}

#[test]
fn c1_a_host_that_has_the_state_told_by_the_agents_own_settings_is_told_it() -> Result<()> {
    let mut world = World::new()?;
    world.write_settings(&json!({"permissions": {"defaultMode": "default"}, "env": {EMIT: "1"}}))?;
    world.start_daemon()?;
    let model = Model::start(script([Step::say("done")]))?;
    let mut agent = behind(&world, Version::Newest, &model, &[], &[], Host::Stdio)?;
    assert_eq!(states(&one_turn(&mut agent)?), ["running", "idle"]);
    Ok(())
}

#[test]
fn c1_a_host_that_has_the_state_told_behind_the_wrapper_is_told_it() -> Result<()> {
    let world = World::with_askd()?;
    for (version, name) in [(Version::Newest, EMIT), (Version::Older, EMIT)] {
        let model = Model::start(script([Step::say("done")]))?;
        let mut agent = behind(&world, version, &model, &[], &[(name, "1")], Host::Stdio)?;
        assert_eq!(states(&one_turn(&mut agent)?), ["running", "idle"], "{version:?}");
        // Set in front of the agent and behind the wrapper.
        let mut command = world.command(&["claude", "--", "env"]);
        command.arg(format!("{name}=1")).arg(version.binary()?);
        command.env_clear().envs(world.agent_env(&model)).current_dir(world.project());
        let mut agent = Headless::spawn(&world, command, Host::Stdio)?;
        let told = one_turn(&mut agent)?;
        if version == Version::Newest {
            assert_eq!(states(&told), ["running", "idle"]);
        }
    }
    Ok(())
}

#[test]
fn c1_a_host_that_reads_the_state_by_the_newer_variable_is_told_it() -> Result<()> {
    let world = World::with_askd()?;
    let model = Model::start(script([Step::say("done")]))?;
    let reads = [("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")];
    let mut agent = behind(&world, Version::Newest, &model, &[], &reads, Host::Stdio)?;
    assert_eq!(states(&one_turn(&mut agent)?), ["running", "idle"]);
    Ok(())
}

#[test]
fn c1_what_the_agent_runs_prints_no_state_that_it_was_not_asked_for() -> Result<()> {
    nested(Version::Newest, false)
}

#[test]
fn c1_a_wrapper_below_an_agent_behind_a_wrapper_passes_no_state_that_its_host_did_not_ask_for() -> Result<()>
{
    nested(Version::Newest, true)
}

#[test]
fn c1_a_wrapper_below_an_agent_behind_a_wrapper_passes_no_state_that_its_host_did_not_ask_for_older_version()
-> Result<()> {
    nested(Version::Older, true)
}

/// The agent runs another one by a command and reads its lines.
fn nested(version: Version, wrapped: bool) -> Result<()> {
    let world = World::with_askd()?;
    let binary = version.binary()?.display().to_string();
    let inner = match wrapped {
        true => format!("'{}' claude -- '{binary}'", world.askd().display()),
        false => format!("'{binary}'"),
    };
    let said = json!({"type": "user", "message": {"role": "user", "content": "play=inner"}});
    std::fs::write(world.project().join("said"), format!("{said}\n"))?;
    let command = format!(
        "{inner} -p --input-format stream-json --output-format stream-json --verbose < said > inner-lines"
    );
    let scripts = Scripts::of("main", [Step::bash(&command), Step::say("done")])
        .with("inner", [Step::say("inner done")]);
    let model = Model::start(scripts)?;
    let mut agent = behind(&world, version, &model, &[], &[], Host::Stdio)?;
    agent.say("play=main")?;
    let at_host = agent.request()?;
    agent.allow(&at_host, &at_host.input)?;
    agent.turn_end(1)?;
    agent.finish()?;
    let lines = std::fs::read_to_string(world.project().join("inner-lines"))?;
    let lines: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().any(|line| line["result"] == "inner done"), "{lines:?}");
    assert_eq!(states(&lines), [""; 0]);
    assert_eq!(states(&agent.frames()), [""; 0]);
    Ok(())
}
