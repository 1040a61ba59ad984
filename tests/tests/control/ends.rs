//! Hosts, agents and daemons that go away, and turns that are stopped.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use askd_tests::{Model, Step, Version, World, children, kill, until};
use serde_json::json;

use crate::{script, start, start_with};

#[test]
fn c7_a_host_that_closes_its_end_denies_nothing_now_or_later_in_the_turn() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = script([
        Step::bash("touch first"),
        Step::agent("the child", "child", true),
        Step::bash("touch second"),
        Step::say("done"),
    ])
    .with("child", [Step::bash("touch third"), Step::say("done")]);
    let (model, mut agent) = start(&world, Version::Newest, scripts)?;
    agent.request()?;
    let ask = world.ask("touch first")?;
    agent.close();
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("first")?;
    // Raised when there is no host any more.
    let second = world.ask("touch second")?;
    assert_eq!(second.attendance, "background");
    assert_eq!(world.allow(&second.id)?, 0);
    world.wait_made("second")?;
    // The turn is over, and a task in the background still asks.
    agent.turn_end(1)?;
    let third = world.ask("touch third")?;
    assert_eq!(world.allow(&third.id)?, 0);
    world.wait_made("third")?;
    assert_eq!(agent.end()?, Some(0));
    assert!(model.results().iter().all(|result| !result.is_error), "{:?}", model.results());
    Ok(())
}

#[test]
fn c7_a_host_that_is_killed_denies_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let model = Model::start(script([Step::bash("touch made"), Step::say("done")]))?;
    let say = json!({"type": "user", "message": {"role": "user", "content": "play=main"},
        "parent_tool_use_id": null, "session_id": ""});
    // The host is two processes: one writes to the agent, the other reads.
    let mut writes = Command::new("sh")
        .args(["-c", &format!("printf '%s\\n' '{say}'; exec sleep 1000000")])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut command = world.command(&["claude", "--"]);
    command.arg(Version::Newest.binary()?).args(["-p", "--verbose", "--permission-prompt-tool", "stdio"]);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    command.env_clear().envs(world.agent_env(&model)).current_dir(world.project());
    command.stdin(writes.stdout.take().context("a pipe")?).stdout(Stdio::piped());
    let mut agent = command.spawn()?;
    let mut reads =
        Command::new("sleep").arg("1000000").stdin(agent.stdout.take().context("a pipe")?).spawn()?;
    let ask = world.ask("touch made")?;
    for host in [&mut writes, &mut reads] {
        host.kill()?;
        host.wait()?;
    }
    assert_eq!(world.show(&ask.id)?.state, "open");
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")?;
    until("the end of the agent", || Ok(agent.try_wait()?))?;
    assert!(!model.result("main", 0)?.is_error);
    Ok(())
}

#[test]
fn c2_an_answer_that_comes_after_its_agent_was_killed_settles_the_resumed_call_once() -> Result<()> {
    let world = World::with_askd()?;
    let command = "echo ran >> made";
    let steps = || script([Step::bash(command), Step::say("done")]);
    let session = "0b0e7a52-6f0f-4c52-9a7b-6f4a1f1f5a01";
    let (model, mut agent) = start_with(&world, Version::Newest, steps(), &["--session-id", session], &[])?;
    agent.request()?;
    let lost = world.ask(command)?;
    world.wait_kept(session, lost.lineage.tool_call.as_deref().context("the call")?)?;
    let claude = children(agent.pid()).first().context("the agent below the wrapper")?.0;
    kill(claude)?;
    let gone = world.wait(&lost.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "requester_gone")));
    assert_eq!(agent.end()?, Some(128 + 9));
    assert_eq!(world.allow(&lost.id)?, 5, "too late for that ask");
    assert!(!world.made("made") && model.results().is_empty());

    // The turn is run again, under other ids; nobody is asked twice.
    let mut agent = crate::behind(
        &world,
        Version::Newest,
        &model,
        &["--resume", session],
        &[("CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "1")],
        askd_tests::Host::Stdio,
    )?;
    world.wait_made("made")?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert_eq!(std::fs::read_to_string(world.project().join("made"))?, "ran\n");
    let again =
        world.asks()?.into_iter().find(|ask| ask.id != lost.id).context("the ask of the resumed call")?;
    assert_eq!(again.settled().map(|(outcome, _)| outcome), Some("allowed"));
    assert_ne!(again.lineage.tool_call, lost.lineage.tool_call);
    Ok(())
}

#[test]
fn c6_an_interrupt_withdraws_the_ask_everywhere_and_an_answer_that_crosses_it_runs_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let steps = [Step::bash("touch made"), Step::say("done")];
    let (_model, mut agent) = start(&world, Version::Newest, script(steps))?;
    let at_host = agent.request()?;
    let stopped = world.ask("touch made")?;
    agent.interrupt()?;
    agent.allow(&at_host, &at_host.input)?;
    agent.cancelled(&at_host)?;
    let gone = world.wait(&stopped.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&stopped.id)?, 5);
    agent.turn_end(1)?;
    // A new turn asks anew: no late answer of the one before is used.
    agent.say("play=main")?;
    let again = world.ask("touch made")?;
    assert_ne!(again.id, stopped.id);
    assert_eq!(world.deny(&again.id, "still no")?, 0);
    agent.turn_end(2)?;
    agent.finish()?;
    assert!(!world.made("made") && world.open()?.is_empty());
    Ok(())
}

#[test]
fn c1_without_a_daemon_it_is_a_pipe_and_what_the_host_said_is_written_down_later() -> Result<()> {
    let mut world = World::with_askd()?;
    let steps = ["touch a", "touch b", "touch c"].map(Step::bash).into_iter().chain([Step::say("done")]);
    let (_model, mut agent) = start(&world, Version::Newest, script(steps))?;
    agent.request()?;
    let first = world.ask("touch a")?;
    // Killed while an ask is open, and back.
    world.kill_daemon()?;
    world.start_daemon()?;
    let first =
        world.wait(&first.id, "the wrapper attached again", |ask| ask.requester.link == "attached")?;
    assert_eq!(world.allow(&first.id)?, 0);
    world.wait_made("a")?;
    // Stopped by a person while the next is open: nothing starts it again.
    let at_host = agent.request()?;
    let second = world.ask("touch b")?;
    let said = world.must(&["daemon", "stop"])?;
    assert!(said.contains(&format!("{}  Bash: as long as it takes", second.handle)), "{said}");
    until("the end of the daemon", || Ok((world.run(&["status"])?.code != 0).then_some(())))?;
    agent.allow(&at_host, &at_host.input)?;
    world.wait_made("b")?;
    let at_host = agent.request()?;
    agent.deny(&at_host, "the host says no")?;
    agent.turn_end(1)?;
    world.start_daemon()?;
    until("the host's answers in the journal", || {
        let asks = world.asks()?;
        let settled = |command: &str| {
            let ask = asks.iter().find(|ask| ask.command() == command)?;
            Some(ask.settled()?.0.to_owned())
        };
        let both = (settled("touch b"), settled("touch c"));
        Ok((both == (Some("allowed".to_owned()), Some("denied".to_owned()))).then_some(()))
    })?;
    agent.finish()?;
    assert!(!world.made("c"));
    Ok(())
}
