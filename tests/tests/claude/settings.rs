//! Setting up, undoing it, and running without setting up.

use std::fs;
use std::process::Command;

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World, until};

#[test]
fn setup_leaves_what_is_there_alone_and_is_undone_exactly() -> Result<()> {
    let mut world = World::bare()?;
    // Odd on purpose: own hooks for the same event, unknown keys, an order and spacing that no program would write.
    let seen = world.file("own-hook-ran");
    let own = format!(
        "{{\n   \"zeta\": 1.50,\"permissions\":{{\"defaultMode\":\"default\"}},\n\t\"hooks\": {{ \"PermissionRequest\": [\n \
         {{\"matcher\":\"*\", \"hooks\":[{{\"type\":\"command\",\"command\":\"touch {}\"}}] }} ], \"Other\": [] }},\n \
         \"alpha\": [ 1,2 ] }}",
        seen.display()
    );
    fs::write(world.settings(), &own)?;
    world.start_daemon()?;
    world.must(&["setup", "claude-code", "--dry-run"])?;
    assert_eq!(fs::read_to_string(world.settings())?, own);
    world.set_up()?;
    let once = fs::read_to_string(world.settings())?;
    world.set_up()?;
    assert_eq!(fs::read_to_string(world.settings())?, once, "a second time changes nothing");

    let model = Model::start(Scripts::of("main", [Step::bash("touch made"), Step::say("done")]))?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    let ask = world.ask("touch made")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    until("the person's own hook", || Ok(seen.exists().then_some(())))?;
    agent.finish()?;

    world.must(&["setup", "claude-code", "--undo"])?;
    assert_eq!(fs::read_to_string(world.settings())?, own);
    Ok(())
}

#[test]
fn setup_and_doctor_say_that_the_mode_hides_asks() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    fs::write(world.settings(), r#"{"permissions":{"defaultMode":"auto"}}"#)?;
    let said = world.must(&["setup", "claude-code"])?;
    assert!(said.contains("auto"), "{said}");
    let doctor = world.run(&["doctor"])?;
    assert!(doctor.stdout.contains("auto"), "{doctor:?}");
    Ok(())
}

#[test]
fn a_run_under_askd_changes_nothing_on_disk() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let before = fs::read(world.settings())?;
    let model = Model::start(Scripts::of("main", [Step::bash("touch made"), Step::say("done")]))?;
    let mut command = Command::new(world.askd());
    // Under the name that the person types: the adapter is picked by it.
    let claude = world.file("claude");
    std::os::unix::fs::symlink(Version::Newest.binary()?, &claude)?;
    command.args(["run", "--"]).arg(&claude);
    command.env_clear().envs(world.agent_env(&model)).current_dir(world.project());
    let mut agent = Headless::spawn(&world, command, Host::Nobody)?;
    agent.say("play=main")?;
    let ask = world.ask("touch made")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert_eq!(fs::read(world.settings())?, before);
    Ok(())
}
