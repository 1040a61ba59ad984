use std::fs;

use anyhow::Result;
use askd_tests::{Model, Scripts, Step, World, kill, until};

use super::server::Server;
use super::{bash, bash_asks, child};

#[test]
fn a6_a_cancel_ends_the_asks_and_a_late_allow_runs_nothing() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("done")])
        .with("kid", [bash("touch late"), Step::say("done")])
        .with("next", [bash("touch next"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let server = Server::start(&world, &model, &bash_asks())?;
    let session = server.play("main")?;
    let ask = world.ask("touch late")?;
    server.abort(&session)?;
    let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&ask.id)?, 5);
    // opencode would keep it listed for ever, and run it on a yes.
    until("the leftover cleared", || Ok(server.asks()?.is_empty().then_some(())))?;

    server.say(&session, "next")?;
    let next = world.ask("touch next")?;
    assert_eq!(world.allow(&next.id)?, 0);
    world.wait_made("next")?;
    assert!(!world.made("late"));
    Ok(())
}

#[test]
fn a1_c1_opencode_is_killed_with_an_ask_open() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(Scripts::of("main", [bash("touch lost"), Step::say("done")]))?;
    let mut server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let ask = world.ask("touch lost")?;
    kill(server.opencode()?)?;
    let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("withdrawn", "requester_gone")));
    assert_eq!(until("the end of askd run", || server.ended())?, 128 + 9);
    assert_eq!(world.allow(&ask.id)?, 5);
    assert!(!world.made("lost"));
    Ok(())
}

#[test]
fn c1_a_daemon_that_is_killed_and_started_again_loses_no_ask() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("done")])
        .with("kid", [bash("touch kept"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let ask = world.ask("touch kept")?;
    world.kill_daemon()?;
    world.start_daemon()?;
    let same = world.wait(&ask.id, "the requester back", |ask| ask.requester.link == "attached")?;
    assert_eq!((same.state.as_str(), world.open()?.len()), ("open", 1));
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("kept")?;
    world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    model.wait_for("main", 1)
}

#[test]
fn s1_opencodes_own_shell_cannot_answer_at_askd() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    // It is allowed, and then tries to allow what a child waits for.
    let answer = format!(
        "until [ -s id ]; do sleep 0.1; done; {} allow $(cat id) >said 2>&1; echo $? >code",
        world.askd().display()
    );
    let scripts = Scripts::of("main", [child("helper", "kid").and(bash(&answer)), Step::say("done")])
        .with("kid", [bash("touch forbidden"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let forbidden = world.ask("touch forbidden")?;
    let shell = world.ask("allow $(cat id)")?;
    assert_eq!(world.allow(&shell.id)?, 0);
    fs::write(world.project().join("id"), &forbidden.id)?;
    let code = until("what became of the agent's own answer", || {
        let code = fs::read_to_string(world.project().join("code")).unwrap_or_default();
        Ok(code.ends_with('\n').then_some(code))
    })?;
    assert_eq!(code.trim(), "7", "{:?}", fs::read_to_string(world.project().join("said")));
    assert_eq!(world.show(&forbidden.id)?.state, "open");
    assert_eq!(world.deny(&forbidden.id, "no")?, 0);
    model.wait_for("main", 1)?;
    assert!(!world.made("forbidden"));
    Ok(())
}
