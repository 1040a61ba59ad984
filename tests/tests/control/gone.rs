//! Hosts that are gone before the agent has begun, or before it needs them.

use anyhow::Result;
use askd_tests::{Gate, Host, Model, Step, Version, World};
use serde_json::json;

use crate::{behind, script};

#[test]
fn c7_a_turn_that_the_agent_begins_by_itself_is_asked_about_with_its_host_gone_from_the_start() -> Result<()>
{
    begins_by_itself(Version::Newest)
}

#[test]
fn c7_a_turn_that_the_agent_begins_by_itself_is_asked_about_with_its_host_gone_from_the_start_older_version()
-> Result<()> {
    begins_by_itself(Version::Older)
}

fn begins_by_itself(version: Version) -> Result<()> {
    let mut world = World::new()?;
    let said =
        json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "initialUserMessage": "play=main"}});
    let hook = json!({"type": "command", "command": format!("echo '{said}'")});
    world.write_settings(&json!({
        "permissions": {"defaultMode": "default"},
        "hooks": {"SessionStart": [{"hooks": [hook]}]},
    }))?;
    world.start_daemon()?;
    let model = Model::start(script([Step::bash("touch made"), Step::say("done")]))?;
    let mut agent = behind(&world, version, &model, &[], &[], Host::Stdio)?;
    agent.close();
    let ask = world.ask("touch made")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(!model.result("main", 0)?.is_error);
    Ok(())
}

#[test]
fn c7_one_with_nothing_to_do_is_let_go_at_once() -> Result<()> {
    let world = World::with_askd()?;
    for version in [Version::Newest, Version::Older] {
        let model = Model::start(script([]))?;
        let mut agent = behind(&world, version, &model, &[], &[], Host::Nobody)?;
        agent.close();
        agent.end()?;
        assert!(model.results().is_empty());
    }
    Ok(())
}

#[test]
fn c7_a_call_that_a_hook_of_the_host_would_check_is_asked_about_when_the_host_is_gone() -> Result<()> {
    checked(Version::Newest)
}

#[test]
fn c7_a_call_that_a_hook_of_the_host_would_check_is_asked_about_when_the_host_is_gone_older_version()
-> Result<()> {
    checked(Version::Older)
}

fn checked(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let gate = Gate::default();
    let model = Model::start(script([Step::bash("touch made").held_by(&gate), Step::say("done")]))?;
    // Rules would let it through, once nobody checks it.
    let flags = ["--allowedTools", "Bash"];
    let mut agent = behind(&world, version, &model, &flags, &[], Host::Stdio)?;
    let hooks = json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["h"]}]});
    agent.send(&json!({"type": "control_request", "request_id": "i", "request": {
        "subtype": "initialize", "hooks": hooks}}))?;
    agent.say("play=main")?;
    agent.close();
    gate.open();
    let ask = world.ask("touch made")?;
    assert!(!world.made("made"), "nobody has checked it");
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(!model.result("main", 0)?.is_error);
    assert!(agent.stderr()?.contains("the host is gone: what only it can reply to"), "{}", agent.stderr()?);
    Ok(())
}
