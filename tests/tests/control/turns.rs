//! Threads that are stopped beside others, and turns that are to come when the host has closed its end.

use anyhow::Result;
use askd_tests::{Scripts, Step, Version, World};
use serde_json::{Value, json};

use crate::{script, start};

/// A child in the background that asks, beside whatever `after` is.
fn with_child(after: impl IntoIterator<Item = Step>) -> Scripts {
    script([Step::agent("the child", "child", true)].into_iter().chain(after))
        .with("child", [Step::bash("touch third"), Step::say("the child is done")])
}

#[test]
fn c6_a_denial_that_stops_a_background_child_leaves_the_ask_of_the_main_thread_open() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = with_child([Step::bash("touch second"), Step::say("done")]);
    let (_model, mut agent) = start(&world, Version::Newest, scripts)?;
    let (main, child) = (world.ask("touch second")?, world.ask("touch third")?);
    assert_eq!((main.attendance.as_str(), child.attendance.as_str()), ("foreground", "background"));
    world.must(&["deny", "--stop", &child.id])?;
    let stopped =
        world.wait(&child.id, "the child's denial at the agent", |ask| ask.delivery == "confirmed")?;
    assert_eq!(stopped.settled(), Some(("denied", "person")));
    // The agent cancels nothing of the main thread, and waits for it.
    assert_eq!(world.show(&main.id)?.state, "open");
    assert_eq!(world.allow(&main.id)?, 0);
    world.wait_made("second")?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("third") && world.open()?.is_empty());
    Ok(())
}

#[test]
fn c7_a_second_message_gets_its_turn_behind_a_slow_hook_of_the_person() -> Result<()> {
    second_message(Version::Newest)
}

#[test]
fn c7_a_second_message_gets_its_turn_behind_a_slow_hook_of_the_person_older_version() -> Result<()> {
    second_message(Version::Older)
}

fn second_message(version: Version) -> Result<()> {
    let mut world = World::new()?;
    // Longer than any guess of seconds about when a turn begins.
    let hook = json!({"type": "command", "command": "sleep 5"});
    world.write_settings(&json!({
        "permissions": {"defaultMode": "default"},
        "hooks": {"UserPromptSubmit": [{"hooks": [hook]}]},
    }))?;
    world.start_daemon()?;
    let scripts = script([Step::say("first")]).with("late", [Step::bash("touch late"), Step::say("second")]);
    let (model, mut agent) = start(&world, version, scripts)?;
    agent.say("play=late")?;
    agent.close();
    agent.turn_end(1)?;
    let ask = world.ask("touch late")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("late")?;
    assert_eq!(agent.turn_end(2)?["result"], "second");
    assert_eq!(agent.end()?, Some(0));
    assert!(!model.result("late", 0)?.is_error);
    only_its_own(&agent.frames());
    Ok(())
}

/// What the wrapper asks the agent, and has it say, is not the host's.
fn only_its_own(frames: &[Value]) {
    for frame in frames {
        assert_ne!(frame["subtype"], "session_state_changed", "{frame}");
        assert_ne!(frame["type"], "control_response", "{frame}");
    }
}

#[test]
fn c7_two_messages_in_one_turn_hold_the_run_up_for_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = script([Step::bash("touch made"), Step::say("not said")]).with("more", [Step::say("both")]);
    let (_model, mut agent) = start(&world, Version::Newest, scripts)?;
    let at_host = agent.request()?;
    agent.say("play=more")?;
    agent.allow(&at_host, &at_host.input)?;
    agent.close();
    assert_eq!(agent.end()?, Some(0));
    let turns = agent.frames().iter().filter(|frame| frame["type"] == "result").count();
    assert_eq!((turns, agent.turn_end(1)?["result"].as_str()), (1, Some("both")));
    only_its_own(&agent.frames());
    Ok(())
}

#[test]
fn c7_what_follows_on_a_child_that_was_stopped_is_asked_when_the_host_is_gone() -> Result<()> {
    follows(Version::Newest)
}

#[test]
fn c7_what_follows_on_a_child_that_was_stopped_is_asked_when_the_host_is_gone_older_version() -> Result<()> {
    follows(Version::Older)
}

fn follows(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let scripts = with_child([Step::say("started"), Step::bash("touch after"), Step::say("done")]);
    let (_model, mut agent) = start(&world, version, scripts)?;
    let child = world.ask("touch third")?;
    agent.turn_end(1)?;
    agent.close();
    world.must(&["deny", "--stop", &child.id])?;
    let after = world.ask("touch after")?;
    assert_eq!(world.allow(&after.id)?, 0);
    world.wait_made("after")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(!world.made("third"));
    Ok(())
}

#[test]
fn c7_an_interrupt_ends_its_turn_and_not_the_message_behind_it() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = script([Step::bash("touch made"), Step::say("done")])
        .with("late", [Step::bash("touch late"), Step::say("second")]);
    let (_model, mut agent) = start(&world, Version::Newest, scripts)?;
    agent.request()?;
    agent.say("play=late")?;
    agent.interrupt()?;
    agent.close();
    let late = world.ask("touch late")?;
    assert_eq!(world.allow(&late.id)?, 0);
    world.wait_made("late")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(!world.made("made"));
    Ok(())
}
