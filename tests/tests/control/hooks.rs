//! Claude's own hooks, and those of askd, beside the wrapper.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use askd_tests::{Step, Version, World, until};
use serde_json::json;

use crate::{script, start};

#[test]
fn c3_c10_a_hook_and_the_host_within_milliseconds_run_every_call_once_and_the_winner_is_known() -> Result<()>
{
    const ROUNDS: usize = 8;
    let mut world = World::new()?;
    let hook = world.file("hook.sh");
    let decision =
        r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#;
    // Sooner or later than the host, by turns.
    let text = format!(
        "#!/bin/sh\ncat > /dev/null\nn=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) > n\nsleep 0.$((n % 4))\necho '{decision}'\n"
    );
    fs::write(&hook, text)?;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))?;
    let command = json!({"type": "command", "command": hook});
    world.write_settings(&json!({
        "permissions": {"defaultMode": "default"},
        "hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [command]}]},
    }))?;
    world.start_daemon()?;
    let steps = (0..ROUNDS).map(|n| Step::bash(&format!("echo ran >> r{n}"))).chain([Step::say("done")]);
    let (model, mut agent) = start(&world, Version::Newest, script(steps))?;
    for round in 0..ROUNDS {
        let at_host = agent.request()?;
        // Often too late, which harms nothing.
        agent.allow(&at_host, &at_host.input)?;
        let told = model.result("main", round)?;
        assert!(!told.is_error, "{told:?}");
        assert_eq!(fs::read_to_string(world.project().join(format!("r{round}")))?, "ran\n");
    }
    agent.turn_end(1)?;
    agent.finish()?;
    let asks = until("every ask settled", || {
        let asks = world.asks()?;
        Ok((asks.len() == ROUNDS && asks.iter().all(|ask| ask.state == "settled")).then_some(asks))
    })?;
    for ask in asks {
        let (outcome, cause) = ask.settled().unwrap_or_default();
        assert_eq!(outcome, "allowed", "{ask:?}");
        assert!(["person", "agent"].contains(&cause), "{ask:?}");
    }
    Ok(())
}

#[test]
fn c3_a_hook_that_decides_before_anybody_is_recorded_as_what_it_is() -> Result<()> {
    let mut world = World::new()?;
    let hook = world.file("hook.sh");
    let decision = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"house rule"}}}"#;
    // Not before the ask is on every surface.
    let text =
        format!("#!/bin/sh\ncat > /dev/null\nwhile [ ! -e go ]; do sleep 0.05; done\necho '{decision}'\n");
    fs::write(&hook, text)?;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))?;
    let command = json!({"type": "command", "command": hook});
    world.write_settings(&json!({
        "permissions": {"defaultMode": "default"},
        "hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [command]}]},
    }))?;
    world.start_daemon()?;
    let (model, mut agent) =
        start(&world, Version::Newest, script([Step::bash("touch made"), Step::say("done")]))?;
    let at_host = agent.request()?;
    let ask = world.ask("touch made")?;
    fs::write(world.project().join("go"), "")?;
    agent.cancelled(&at_host)?;
    assert_eq!(model.result("main", 0)?.text, "house rule");
    let ask = world.wait(&ask.id, "the winner known", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("denied", "agent")));
    let shown = world.must(&["show", &ask.id])?;
    assert!(shown.contains("by the agent's own hook"), "{shown}");
    agent.turn_end(1)?;
    agent.finish()
}

#[test]
fn a17_c3_with_hooks_of_askd_installed_too_there_is_one_ask() -> Result<()> {
    let world = World::with_askd()?;
    let (_model, mut agent) =
        start(&world, Version::Newest, script([Step::bash("touch made"), Step::say("done")]))?;
    let at_host = agent.request()?;
    let ask = world.ask("touch made")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    agent.cancelled(&at_host)?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("made"));
    assert_eq!(world.asks()?.len(), 1);
    Ok(())
}
