//! Permissions that the host itself changes, by its own words: they hold in the agent, and the record says so.

use anyhow::{Context, Result};
use askd_tests::{Gate, Headless, Step, Version, World};
use serde_json::{Value, json};

use crate::{script, start};

fn write(world: &World, name: &str) -> Step {
    Step::call("Write", json!({"file_path": world.project().join(name), "content": "x"}))
}

fn about(ask: &askd_tests::Ask, name: &str) -> bool {
    ask.action["input"]["file_path"].as_str().is_some_and(|path| path.ends_with(name))
}

/// The agent's reply to a request of the host.
fn reply(agent: &Headless, id: &str) -> Result<Value> {
    askd_tests::until("the agent's reply to its host", || {
        let frames = agent.frames().into_iter();
        Ok(frames.map(|frame| frame["response"].clone()).find(|response| response["request_id"] == id))
    })
}

fn set_mode(agent: &mut Headless, id: &str, mode: &str) -> Result<()> {
    let request = json!({"subtype": "set_permission_mode", "mode": mode});
    agent.send(&json!({"type": "control_request", "request_id": id, "request": request}))?;
    let reply = reply(agent, id)?;
    anyhow::ensure!(reply["subtype"] == "success", "{reply}");
    Ok(())
}

#[test]
fn c9_a_mode_that_the_host_sets_holds_from_then_on_and_settles_nothing_that_is_open() -> Result<()> {
    changes_mode(Version::Newest)
}

#[test]
fn c9_a_mode_that_the_host_sets_holds_from_then_on_and_settles_nothing_that_is_open_older_version()
-> Result<()> {
    changes_mode(Version::Older)
}

fn changes_mode(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let gate = Gate::default();
    let steps = [
        write(&world, "asked"),
        write(&world, "unasked"),
        write(&world, "again").held_by(&gate),
        Step::say("done"),
    ];
    let (model, mut agent) = start(&world, version, script(steps))?;
    agent.request()?;
    let open = world.open()?.into_iter().find(|ask| about(ask, "/asked")).context("the first ask")?;
    set_mode(&mut agent, "mode-1", "acceptEdits")?;
    assert_eq!(world.show(&open.id)?.state, "open", "it was asked before");
    assert!(!world.made("asked"));
    assert_eq!(world.allow(&open.id)?, 0);
    world.wait_made("asked")?;
    world.wait_made("unasked")?;
    model.wait_for("main", 2)?;
    assert_eq!(world.asks()?.len(), 1, "edits are accepted in this mode");
    // And back.
    set_mode(&mut agent, "mode-2", "default")?;
    gate.open();
    let at_host = agent.request()?;
    agent.deny(&at_host, "not any more")?;
    assert_eq!(model.result("main", 2)?.text, "not any more");
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("again"));
    let denied = world.asks()?.into_iter().find(|ask| about(ask, "/again")).context("the last ask")?;
    assert_eq!(denied.settled(), Some(("denied", "person")));
    Ok(())
}

#[test]
fn c13_a_mode_in_the_hosts_allow_passes_as_it_is_and_is_in_the_record() -> Result<()> {
    let world = World::with_askd()?;
    let steps = [write(&world, "first"), write(&world, "second"), Step::say("done")];
    let (_model, mut agent) = start(&world, Version::Newest, script(steps))?;
    let at_host = agent.request()?;
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    let input = at_host.input.clone();
    // Another input as well: its words are its own.
    let mut changed = input.clone();
    changed["content"] = json!("from the host");
    let response = json!({"behavior": "allow", "updatedInput": changed, "updatedPermissions": [mode]});
    agent.respond(&at_host, &response)?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("second"), "edits are accepted from then on");
    assert_eq!(std::fs::read_to_string(world.project().join("first"))?, "from the host");
    let asks = world.asks()?;
    assert_eq!(asks.len(), 1, "{asks:?}");
    assert_eq!(asks[0].settled(), Some(("allowed", "person")));
    let said = asks[0].outcome.as_ref().and_then(|outcome| outcome.message.clone()).context("words")?;
    assert!(said.contains("the host changed the input"), "{said}");
    Ok(())
}
