//! The permission tool: Claude Code asks `askd mcp` over MCP instead of a person at a prompt of its own.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World, children, kill, until};
use serde_json::json;

const TOOL: &str = "mcp__askd__ask";

fn start(world: &World, version: Version, model: &Model) -> Result<Headless> {
    let config = json!({"mcpServers": {"askd": {"command": world.askd(), "args": ["mcp"]}}});
    let mut command = Command::new(version.binary()?);
    command.args(["--strict-mcp-config", "--permission-prompt-tool", TOOL, "--mcp-config"]);
    command.arg(config.to_string()).env_clear().envs(world.agent_env(model)).current_dir(world.project());
    let mut agent = Headless::spawn(world, command, Host::Nobody)?;
    agent.say("play=main")?;
    Ok(agent)
}

fn one(steps: impl IntoIterator<Item = Step>) -> Result<Model> {
    Model::start(Scripts::of("main", steps))
}

/// The process of the server that this agent has started.
fn server_of(agent: u32) -> Result<u32> {
    let found = children(agent);
    let server = found.iter().find(|(_, line)| line.trim_end().ends_with(" mcp"));
    Ok(server.with_context(|| format!("no server among {found:?}"))?.0)
}

#[test]
fn c13_the_permission_tool_gives_back_exactly_the_input_that_was_shown() -> Result<()> {
    allowed(Version::Newest)
}

#[test]
fn c13_the_permission_tool_gives_back_exactly_the_input_that_was_shown_older_version() -> Result<()> {
    allowed(Version::Older)
}

/// No daemon runs at first: the server starts one.
fn allowed(version: Version) -> Result<()> {
    let world = World::new()?;
    let command = "printf '%s' 'gr\u{fc}n \"1\" \\ 2' > made";
    let model = one([Step::bash(command), Step::say("done")])?;
    let mut agent = start(&world, version, &model)?;
    let ask = world.ask("made")?;
    assert_eq!((ask.command(), &ask.action["tool"]), (command, &json!("Bash")));
    assert_eq!((ask.lineage.agent.as_str(), ask.requester.link.as_str()), ("claude-code", "attached"));
    assert!(ask.lineage.tool_call.as_deref().is_some_and(|call| call.starts_with("toolu_")), "{ask:?}");
    assert!(!world.made("made") && model.results().is_empty());

    assert_eq!(world.allow(&ask.handle)?, 0);
    let told = model.result("main", 0)?;
    assert!(!told.is_error, "{told:?}");
    assert_eq!(fs::read_to_string(world.project().join("made"))?, "gr\u{fc}n \"1\" \\ 2");
    world.wait(&ask.id, "the answer handed over", |ask| ask.delivery == "handed")?;
    let end = agent.turn_end(1)?;
    // The session under which the ask is listed is the agent's own.
    assert_eq!(end["session_id"], ask.lineage.session.as_str());
    agent.finish()
}

#[test]
fn c12_the_permission_tool_tells_the_persons_words() -> Result<()> {
    denied(Version::Newest)
}

#[test]
fn c12_the_permission_tool_tells_the_persons_words_older_version() -> Result<()> {
    denied(Version::Older)
}

fn denied(version: Version) -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let model = one([Step::bash("touch made"), Step::bash("touch two"), Step::say("done")])?;
    let mut agent = start(&world, version, &model)?;
    let words = "not this folder: use \"/srv\", gr\u{fc}n";
    assert_eq!(world.deny(&world.ask("touch made")?.id, words)?, 0);
    let told = model.result("main", 0)?;
    assert!(told.is_error && told.text.contains(words), "{told:?}");

    // A no that stops the turn.
    let second = world.ask("touch two")?;
    assert_eq!(world.run(&["deny", &second.id, "-m", "stop here", "--stop"])?.code, 0);
    agent.turn_end(1)?;
    assert!(!model.reached("main", 2) || model.result("main", 1)?.is_error);
    agent.finish()?;
    assert!(!world.made("made") && !world.made("two"));
    Ok(())
}

#[test]
fn c5_calls_that_wait_together_each_get_their_own_answer_from_the_permission_tool() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let both =
        Step::agent("the first child", "one", false).and(Step::agent("the second child", "two", false));
    let scripts = Scripts::of("main", [both, Step::say("done")])
        .with("one", [Step::bash("touch one"), Step::say("done")])
        .with("two", [Step::bash("touch two"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = start(&world, Version::Newest, &model)?;
    let (one, two) = (world.ask("touch one")?, world.ask("touch two")?);
    assert_ne!(one.lineage.tool_call, two.lineage.tool_call);
    assert_eq!(world.deny(&two.id, "only one of you")?, 0);
    assert!(model.result("two", 0)?.text.contains("only one of you"));
    assert!(!world.made("one"), "one answer settles one ask");
    assert_eq!(world.allow(&one.id)?, 0);
    assert!(!model.result("one", 0)?.is_error);
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("one") && !world.made("two"));
    Ok(())
}

#[test]
fn a17_with_hooks_beside_the_permission_tool_there_is_one_ask_and_it_names_the_child() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = Scripts::of("main", [Step::agent("the only child", "one", false), Step::say("done")])
        .with("one", [Step::bash("touch one"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = start(&world, Version::Newest, &model)?;
    let ask = world.ask("touch one")?;
    let child = ask.lineage.subagent.as_ref().context("the ask of a child names it")?;
    assert_eq!((child.name.as_deref(), child.depth), (Some("the only child"), Some(1)));
    assert_eq!(world.allow(&ask.id)?, 0);
    assert!(!model.result("one", 0)?.is_error);
    agent.turn_end(1)?;
    agent.finish()?;
    assert_eq!(world.asks()?.len(), 1, "the hook asked nobody");
    // What the tool cannot know the hooks saw.
    world.wait(&ask.id, "the call seen to end", |ask| ask.delivery == "confirmed")?;
    Ok(())
}

#[test]
fn c6_a_stopped_turn_withdraws_the_ask_of_the_permission_tool() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let model = one([Step::bash("touch made"), Step::say("done")])?;
    let mut agent = start(&world, Version::Newest, &model)?;
    let ask = world.ask("touch made")?;
    agent.interrupt()?;
    let gone = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!((world.allow(&ask.id)?, world.deny(&ask.id, "no")?), (5, 5), "nobody waits for it");
    agent.turn_end(1)?;

    // The next turn asks anew, and is answered.
    agent.say("play=main")?;
    let next = until("another ask", || Ok(world.open()?.into_iter().find(|next| next.id != ask.id)))?;
    assert_eq!(world.deny(&next.id, "still no")?, 0);
    agent.turn_end(2)?;
    agent.finish()?;
    assert!(!world.made("made"));
    Ok(())
}

#[test]
fn c1_the_permission_tool_outlives_its_daemon() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let model = one([Step::bash("touch made"), Step::say("done")])?;
    let mut agent = start(&world, Version::Newest, &model)?;
    let ask = world.ask("touch made")?;
    world.kill_daemon()?;
    world.start_daemon()?;
    let again = world.wait(&ask.id, "the server attached again", |ask| ask.requester.link == "attached")?;
    assert_eq!(again.state, "open");
    assert!(model.results().is_empty(), "nobody has answered: {:?}", model.results());
    assert_eq!(world.allow(&ask.id)?, 0);
    assert!(!model.result("main", 0)?.is_error);
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("made"));
    assert_eq!(world.asks()?.len(), 1);
    Ok(())
}

#[test]
fn c1_without_askd_the_permission_tool_denies_nothing() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let model = one([Step::bash("touch made"), Step::bash("touch two"), Step::say("done")])?;
    let mut agent = start(&world, Version::Newest, &model)?;
    // Stopped with the ask open, and then not there at all.
    world.ask("touch made")?;
    world.must(&["daemon", "stop"])?;
    for step in 0..2 {
        let told = model.result("main", step)?;
        assert!(told.is_error && told.text.contains("askd"), "{told:?}");
    }
    let end = agent.turn_end(1)?;
    assert_eq!(end["permission_denials"], json!([]), "a fault is no denial");
    agent.finish()?;
    assert!(!world.made("made") && !world.made("two"));
    Ok(())
}

#[test]
fn c5_a_killed_permission_server_runs_nothing_afterwards() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let model = one([Step::bash("touch made"), Step::say("done")])?;
    let mut agent = start(&world, Version::Newest, &model)?;
    let ask = world.ask("touch made")?;
    kill(server_of(agent.pid())?)?;
    assert!(model.result("main", 0)?.is_error);
    agent.turn_end(1)?;
    agent.kill()?;
    let gone = world.wait(&ask.id, "the ask over", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "requester_gone")));
    assert!(!world.made("made"));
    Ok(())
}

#[test]
fn c9_a_run_gets_the_permission_tool_for_itself() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let before = fs::read(world.settings())?;
    let model = one([Step::bash("touch made"), Step::say("done")])?;
    let claude = world.file("claude");
    std::os::unix::fs::symlink(Version::Newest.binary()?, &claude)?;
    let mut command = Command::new(world.askd());
    command.args(["run", "--"]).arg(&claude).args(["--permission-prompt-tool", TOOL]);
    command.env_clear().envs(world.agent_env(&model)).current_dir(world.project());
    let mut agent = Headless::spawn(&world, command, Host::Nobody)?;
    agent.say("play=main")?;
    let ask = world.ask("touch made")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    agent.turn_end(1)?;
    agent.finish()?;
    let ids: BTreeSet<String> = world.asks()?.into_iter().map(|ask| ask.id).collect();
    assert_eq!(ids, BTreeSet::from([ask.id]));
    assert_eq!(fs::read(world.settings())?, before);
    Ok(())
}
