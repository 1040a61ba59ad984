//! Asks whose daemon, hook or agent goes away.

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World, alive, kill, pause, resume, until};

use crate::{hook_of, host};

fn start(world: &World, version: Version, host: Host, steps: &[Step]) -> Result<(Model, Headless)> {
    let model = Model::start(Scripts::of("main", steps.iter().cloned()))?;
    let mut agent = Headless::start(world, version, &model, host)?;
    agent.say("play=main")?;
    Ok((model, agent))
}

#[test]
fn c1_an_ask_outlives_its_daemon_and_is_answered_by_the_next() -> Result<()> {
    daemon_killed(Version::Newest)
}

#[test]
fn c1_an_ask_outlives_its_daemon_and_is_answered_by_the_next_older_version() -> Result<()> {
    daemon_killed(Version::Older)
}

fn daemon_killed(version: Version) -> Result<()> {
    let mut world = World::with_askd()?;
    let steps = [Step::bash("touch made"), Step::bash("touch unmade"), Step::say("done")];
    let (model, mut agent) = start(&world, version, host(version), &steps)?;

    let first = world.ask("touch made")?;
    world.kill_daemon()?;
    world.start_daemon()?;
    let again = world.wait(&first.id, "the hook attached again", |ask| ask.requester.link == "attached")?;
    assert_eq!((again.state, again.digest), ("open".to_owned(), first.digest));
    assert!(model.results().is_empty(), "nobody has answered: {:?}", model.results());
    assert_eq!(world.asks()?.len(), 1, "the same ask, not another one");
    assert_eq!(world.allow(&first.handle)?, 0);
    assert!(!model.result("main", 0)?.is_error);
    assert!(world.made("made"));

    // Answered, and the daemon dies before the hook can hear it.
    let second = world.ask("touch unmade")?;
    let hook = hook_of(agent.pid())?;
    pause(hook)?;
    assert_eq!(world.deny(&second.id, "not that one")?, 0);
    world.kill_daemon()?;
    world.start_daemon()?;
    assert_eq!(world.show(&second.id)?.settled(), Some(("denied", "person")));
    resume(hook)?;
    assert_eq!(model.result("main", 1)?.text, "not that one");
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("unmade"));
    Ok(())
}

#[test]
fn c2_an_answer_after_its_hook_was_killed_settles_the_same_call_once() -> Result<()> {
    let world = World::with_askd()?;
    let command = "echo ran >> made";
    let steps = [Step::bash(command), Step::bash(command), Step::bash(command), Step::say("done")];
    let (model, mut agent) = start(&world, Version::Newest, Host::Stdio, &steps)?;

    let lost = world.ask(command)?;
    let at_host = agent.request()?;
    kill(hook_of(agent.pid())?)?;
    let gone = world.wait(&lost.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "requester_gone")));
    assert!(model.results().is_empty(), "the call stays open at its host: {:?}", model.results());
    assert_eq!(world.allow(&lost.id)?, 5, "too late for that ask");
    agent.deny(&at_host, "the host could not show it")?;
    assert_eq!(model.result("main", 0)?.text, "the host could not show it");

    // The same call again: the person's answer is there already.
    assert!(!model.result("main", 1)?.is_error);
    // And once more: it is a loop by now, which may go on; the kept answer was used up.
    let repeats = until("the ask about the loop", || {
        Ok(world.open()?.into_iter().find(|ask| ask.action["tool"] == "doom_loop"))
    })?;
    assert_eq!(world.allow(&repeats.id)?, 0);
    let third = world.ask(command)?;
    assert_ne!(third.id, lost.id);
    assert_eq!(world.deny(&third.id, "once was enough")?, 0);
    assert_eq!(model.result("main", 2)?.text, "once was enough");
    assert_eq!(std::fs::read_to_string(world.project().join("made"))?, "ran\n");
    Ok(())
}

#[test]
fn c5_an_answer_for_a_dead_agent_runs_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let (model, mut agent) =
        start(&world, Version::Newest, Host::Nobody, &[Step::bash("touch made"), Step::say("done")])?;
    let ask = world.ask("touch made")?;
    let hook = hook_of(agent.pid())?;
    agent.kill()?;
    let gone = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "requester_gone")));
    until("the end of the hook", || Ok((!alive(hook)).then_some(())))?;
    assert_eq!((world.allow(&ask.id)?, world.deny(&ask.id, "no")?), (5, 5));
    assert!(world.open()?.is_empty());
    assert_eq!(world.sessions()?.iter().map(|session| session.waiting).sum::<u32>(), 0);
    assert!(!world.made("made") && model.results().is_empty());
    Ok(())
}

#[test]
fn c6_a_stopped_turn_withdraws_its_ask_and_an_answer_that_crosses_it_runs_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let steps = [Step::bash("touch made"), Step::say("done")];
    let (model, mut agent) = start(&world, Version::Newest, Host::Stdio, &steps)?;
    let stopped = world.ask("touch made")?;
    let at_host = agent.request()?;
    agent.interrupt()?;
    agent.cancelled(&at_host)?;
    let gone = world.wait(&stopped.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&stopped.id)?, 5);
    agent.turn_end(1)?;

    // The same call in a new turn is a new ask: the late answer is not used for it.
    agent.say("play=main")?;
    let again = world.ask("touch made")?;
    assert_ne!(again.id, stopped.id);
    assert_eq!(world.deny(&again.id, "still no")?, 0);
    until("the second denial told", || {
        Ok(model.results().iter().any(|result| result.text == "still no").then_some(()))
    })?;
    agent.turn_end(2)?;
    assert!(!world.made("made"));
    Ok(())
}

#[test]
fn c1_without_a_daemon_the_agent_asks_by_itself() -> Result<()> {
    let mut world = World::with_askd()?;
    world.must(&["daemon", "stop"])?;
    until("the end of the daemon", || Ok((world.run(&["status"])?.code != 0).then_some(())))?;
    let steps = [Step::bash("touch made"), Step::say("done")];
    let (model, mut agent) = start(&world, Version::Newest, Host::Stdio, &steps)?;
    // Stopped by the person: the hook starts none and has no opinion.
    let at_host = agent.request()?;
    agent.allow(&at_host, &at_host.input)?;
    assert!(!model.result("main", 0)?.is_error);
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("made"));
    world.start_daemon()?;
    let asks = world.asks()?;
    assert!(asks.is_empty(), "{asks:?}");
    Ok(())
}
