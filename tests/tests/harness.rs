//! The tools of the whole-system tests on their own: the real agents without askd behave as the scenarios assume.

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Scripts, Step, Terminal, Version, World};
use serde_json::json;

#[test]
fn a_host_alone_allows_and_denies() -> Result<()> {
    for version in [Version::Newest, Version::Older] {
        let world = World::new()?;
        let model = Model::start(Scripts::of(
            "main",
            [Step::bash("touch made"), Step::bash("touch unmade"), Step::say("done")],
        ))?;
        let mut agent = Headless::start(&world, version, &model, Host::Stdio)?;
        agent.say("play=main")?;
        let first = agent.request()?;
        agent.allow(&first, &first.input)?;
        assert!(!model.result("main", 0)?.is_error);
        let second = agent.request()?;
        agent.deny(&second, "not that one")?;
        let told = model.result("main", 1)?;
        assert_eq!((told.text.as_str(), told.is_error), ("not that one", true));
        agent.turn_end(1)?;
        agent.finish()?;
        assert!(world.made("made") && !world.made("unmade"), "{version:?}");
    }
    Ok(())
}

#[test]
fn a_terminal_alone_asks_and_takes_the_answer() -> Result<()> {
    let world = World::new()?;
    let model = Model::start(Scripts::of("main", [Step::bash("touch made"), Step::say("all is done")]))?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;
    terminal.wait_for(&["Do you want to proceed?", "touch made", "1. Yes"])?;
    assert!(!world.made("made"));
    terminal.press("\r", "the file made", |_| world.made("made"))?;
    terminal.wait_for(&["all is done"])
}

#[test]
fn the_agents_are_the_pinned_ones() -> Result<()> {
    for version in [Version::Newest, Version::Older] {
        let output = std::process::Command::new(version.binary()?).arg("--version").output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with(version.number()), "{said} {}", json!(version.number()));
    }
    Ok(())
}
