//! Background shells of an agent whose host is gone, and the turns that follow on their ends.

use anyhow::Result;
use askd_tests::{Host, Model, Step, Version, World, until};
use serde_json::json;

use crate::{behind, script};

/// A shell in the background that runs until the test lets it go, or for ever.
fn shell(command: &str) -> Step {
    let input = json!({"command": command, "description": "the long build", "run_in_background": true});
    Step::call("Bash", input)
}

#[test]
fn c7_what_follows_on_a_background_shell_is_asked_about_when_the_host_is_gone() -> Result<()> {
    follows(Version::Newest)
}

/// It kills its shells as soon as its own input has ended.
#[test]
fn c7_what_follows_on_a_background_shell_is_asked_about_when_the_host_is_gone_older_version() -> Result<()> {
    follows(Version::Older)
}

fn follows(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    // Nobody is asked about one that only looks.
    let wait = "until [ -e go ]; do sleep 0.1; done";
    let steps = [shell(wait), Step::say("started"), Step::bash("touch after"), Step::say("done")];
    let model = Model::start(script(steps))?;
    let mut agent = behind(&world, version, &model, &[], &[], Host::Nobody)?;
    agent.say("play=main")?;
    agent.close();
    agent.turn_end(1)?;
    let said = "a background shell (\"the long build\") runs, and a turn may follow on its end";
    until("what is waited for on standard error", || Ok(agent.stderr()?.contains(said).then_some(())))?;
    std::fs::write(world.project().join("go"), "")?;
    let after = world.ask("touch after")?;
    assert_eq!(world.allow(&after.id)?, 0);
    world.wait_made("after")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(model.results().iter().all(|result| !result.is_error), "{:?}", model.results());
    Ok(())
}

#[test]
fn c7_a_background_shell_that_never_ends_is_stopped_when_its_time_is_over() -> Result<()> {
    for version in [Version::Newest, Version::Older] {
        let world = World::with_askd()?;
        let model = Model::start(script([shell("sleep 1000000"), Step::say("started")]))?;
        let limit = [("ASKD_CLAUDE__SHELL_PATIENCE_SECS", "2")];
        let mut agent = behind(&world, version, &model, &[], &limit, Host::Nobody)?;
        agent.say("play=main")?;
        agent.close();
        assert_eq!(agent.end()?, Some(0));
        let said = agent.stderr()?;
        assert!(
            said.contains("ran on for 2 s after the last turn (claude.shell_patience_secs): stopped"),
            "{said}"
        );
        let told = |frame: &&serde_json::Value| {
            frame["subtype"] == "task_notification" && frame["status"] == "stopped"
        };
        assert!(agent.frames().iter().any(|frame| told(&frame)), "{:?}", agent.frames());
        assert!(!agent.frames().iter().any(|frame| frame["type"] == "control_response"));
    }
    Ok(())
}
