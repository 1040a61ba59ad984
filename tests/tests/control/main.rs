//! The real Claude Code behind `askd claude`, with the test as its host: every ask is real, and what was allowed is
//! proven by files that exist or not.

mod answers;
mod ends;
mod gone;
mod hooks;
mod many;
mod modes;
mod runs;
mod sdk;
mod shells;
mod state;
mod turns;

use anyhow::Result;
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World};

/// The agent behind askd, in its turn.
fn start(world: &World, version: Version, scripts: Scripts) -> Result<(Model, Headless)> {
    start_with(world, version, scripts, &[], &[])
}

/// `flags` and `env` are the agent's.
fn start_with(
    world: &World,
    version: Version,
    scripts: Scripts,
    flags: &[&str],
    env: &[(&str, &str)],
) -> Result<(Model, Headless)> {
    let model = Model::start(scripts)?;
    let mut agent = behind(world, version, &model, flags, env, Host::Stdio)?;
    agent.say("play=main")?;
    Ok((model, agent))
}

/// The agent behind askd, with nothing said to it.
fn behind(
    world: &World,
    version: Version,
    model: &Model,
    flags: &[&str],
    env: &[(&str, &str)],
    host: Host,
) -> Result<Headless> {
    let mut command = world.command(&["claude", "--"]);
    command.arg(version.binary()?).args(flags);
    command.env_clear().envs(world.agent_env(model)).envs(env.iter().copied());
    command.current_dir(world.project());
    Headless::spawn(world, command, host)
}

fn script(steps: impl IntoIterator<Item = Step>) -> Scripts {
    Scripts::of("main", steps)
}
