//! acpx, a real client, in a terminal.

use std::fs;

use anyhow::Result;
use askd_tests::{Model, Program, Scripts, Step, Terminal, World};

use super::{bash, child, opencode_env};

#[test]
fn a1_a8_acpx_prompts_for_a_childs_ask_and_takes_it_down_when_answered_elsewhere() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("all is done")])
        .with("kid", [bash("touch typed"), bash("touch elsewhere"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let agent = format!("{} acp -- {} acp", world.askd().display(), Program::Opencode.command()?.join(" "));
    let command = Program::Acpx.command()?;
    let args: Vec<&str> =
        command[1..].iter().map(String::as_str).chain(["--agent", &agent, "exec", "play=main"]).collect();
    let mut terminal =
        Terminal::run(command[0].as_ref(), &args, opencode_env(&world, &model), &world.project())?;

    terminal.wait_for(&["[the child] touch typed"])?;
    terminal.press("y\r", "the file typed", |_| world.made("typed"))?;
    let ask = world.ask("touch elsewhere")?;
    terminal.wait_for(&["[the child] touch elsewhere"])?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("elsewhere")?;
    terminal.wait_for(&["all is done"])?;
    let settled: Vec<_> = world.asks()?.iter().map(|ask| ask.settled().map(|(o, _)| o.to_owned())).collect();
    assert_eq!(settled, [Some("allowed".to_owned()), Some("allowed".to_owned())]);
    Ok(())
}

#[test]
fn a1_acpx_as_setup_configured_it_runs_its_agents_behind_askd() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("all is done")])
        .with("kid", [bash("touch childs"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Program::Opencode.command()?;
    agent.push("acp".to_owned());
    let config = serde_json::json!({"agents": {"mine": {"argv": agent}}});
    let file = world.home().join(".acpx/config.json");
    fs::create_dir_all(world.home().join(".acpx"))?;
    fs::write(&file, config.to_string())?;
    world.must(&["setup", "acpx"])?;

    let command = Program::Acpx.command()?;
    let args: Vec<&str> =
        command[1..].iter().map(String::as_str).chain(["mine", "exec", "play=main"]).collect();
    // Where askd is stands in the configuration, not in the client's environment.
    let env = opencode_env(&world, &model).into_iter().filter(|(name, _)| name != "ASKD_DIR");
    let terminal = Terminal::run(command[0].as_ref(), &args, env, &world.project())?;
    terminal.wait_for(&["[the child] touch childs"])?;
    let ask = world.ask("touch childs")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("childs")?;
    terminal.wait_for(&["all is done"])?;
    world.must(&["setup", "acpx", "--undo"])?;
    assert_eq!(fs::read_to_string(&file)?, config.to_string());
    Ok(())
}
