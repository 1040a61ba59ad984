//! Calls that repeat themselves: asked about before the third runs, and really stopped when they may not go on.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, ensure};
use askd_tests::{Ask, Headless, Host, Model, Scripts, Step, Terminal, Version, World, until};
use serde_json::{Value, json};

const COMMAND: &str = "echo ran >> made";

/// A world in which Claude itself allows every shell command.
fn world(config: &str) -> Result<World> {
    let mut world = World::bare()?;
    world.write_settings(&json!({"permissions": {"defaultMode": "default", "allow": ["Bash"]}}))?;
    fs::write(world.askd_dir().join("config.toml"), config)?;
    world.start_daemon()?;
    world.set_up()?;
    Ok(world)
}

fn again(times: usize) -> impl Iterator<Item = Step> {
    (0..times).map(|_| Step::bash(COMMAND))
}

fn ran(world: &World) -> usize {
    fs::read_to_string(world.project().join("made")).unwrap_or_default().lines().count()
}

/// Waits for an open ask about a loop, and looks at what every such ask has to show.
fn loop_ask(world: &World) -> Result<Ask> {
    let found = until("an open ask about a loop", || {
        Ok(world.open()?.into_iter().find(|ask| ask.action["tool"] == "doom_loop"))
    });
    let ask = found.with_context(|| world.daemon_said())?;
    let input = &ask.action["input"];
    assert_eq!(input["repeated_call"]["tool"], "Bash");
    assert_eq!(input["repeated_call"]["input"]["command"], COMMAND);
    assert_eq!(input["times"], 3);
    assert!(input["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{input}");
    let shown: Value = serde_json::from_str(&world.must(&["show", &ask.id, "--json"])?)?;
    assert_eq!(shown["class"], "safety");
    Ok(ask)
}

/// The end of the `n`th turn, which a hook has brought about.
fn stopped(agent: &Headless, n: usize) -> Result<()> {
    let end = agent.turn_end(n)?;
    assert_eq!(end["terminal_reason"], "hook_stopped", "{end}");
    Ok(())
}

#[test]
fn t8_a_loop_goes_on_when_allowed_and_ends_when_declined() -> Result<()> {
    allowed_then_declined(Version::Newest)
}

#[test]
fn t8_a_loop_goes_on_when_allowed_and_ends_when_declined_older_version() -> Result<()> {
    allowed_then_declined(Version::Older)
}

fn allowed_then_declined(version: Version) -> Result<()> {
    let world = world("")?;
    let scripts = Scripts::of("main", again(7).chain([Step::say("done")]))
        .with("more", [Step::bash("touch more"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, version, &model, Host::Stdio)?;
    agent.say("play=main")?;

    let first = loop_ask(&world)?;
    assert_eq!((ran(&world), first.attendance.as_str()), (2, "foreground"));
    assert_eq!((first.default.as_deref(), first.lineage.subagent.is_none()), (None, true));
    assert_eq!(world.allow(&first.id)?, 0);

    // The count begins anew: three more, and the third of them is asked about.
    let second = loop_ask(&world)?;
    assert_ne!(second.id, first.id);
    assert_eq!(ran(&world), 5);
    let first = world.wait(&first.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(first.settled(), Some(("allowed", "person")));
    assert_eq!(world.deny(&second.id, "read the error first")?, 0);
    stopped(&agent, 1)?;
    assert_eq!(ran(&world), 5);
    assert!(!model.reached("main", 6), "the model was called again");

    // The session lives, and the model hears in the next turn what the person said.
    agent.say("play=more")?;
    world.wait_made("more")?;
    let told = model.result("main", 5)?;
    let expected = "the user declined to let it continue: read the error first";
    assert!(told.is_error && told.text.ends_with(expected), "{told:?}");
    agent.turn_end(2)?;
    agent.finish()?;
    assert_eq!(world.show(&second.id)?.settled(), Some(("denied", "person")));
    assert_eq!(world.asks()?.len(), 2);
    Ok(())
}

#[test]
fn t8_a_loop_that_nobody_answers_ends_at_its_deadline() -> Result<()> {
    let world = world("[permissions]\nsafety_timeout_secs = 2\n")?;
    let scripts = Scripts::of("main", again(4).chain([Step::say("done")])).with("more", [Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    stopped(&agent, 1)?;
    assert_eq!(ran(&world), 2);
    assert!(!model.reached("main", 3), "the model was called again");
    let asks = world.asks()?;
    assert_eq!(asks.len(), 1, "{asks:?}");
    assert_eq!((asks[0].settled(), asks[0].attendance.as_str()), (Some(("denied", "timed")), "background"));
    agent.say("play=more")?;
    agent.turn_end(2)?;
    let told = model.result("main", 2)?;
    assert!(told.text.ends_with("no answer arrived before the deadline"), "{told:?}");
    Ok(())
}

#[test]
fn t9_skipped_permissions_do_not_let_a_loop_go_on() -> Result<()> {
    let world = World::with_askd()?;
    skip(&world)?;
    let model = Model::start(Scripts::of("main", again(4).chain([Step::say("done")])))?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    let ask = loop_ask(&world)?;
    assert_eq!(ran(&world), 2);
    assert_eq!(world.deny(&ask.id, "")?, 0);
    stopped(&agent, 1)?;
    assert!(ran(&world) == 2 && !model.reached("main", 3));
    let skipped = world.asks()?.iter().filter(|ask| ask.settled() == Some(("allowed", "skip"))).count();
    assert_eq!(skipped, 2, "what was skipped is what ran");
    Ok(())
}

/// As the person, for every session.
fn skip(world: &World) -> Result<()> {
    let mut stream = UnixStream::connect(world.askd_dir().join("run/answer.sock"))?;
    let body = r#"{"skip":true}"#;
    write!(
        stream,
        "PATCH /v1/permissions HTTP/1.1\r\nhost: askd\r\nx-askd-version: 1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    ensure!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    Ok(())
}

#[test]
fn t8_equal_calls_of_one_message_are_one_batch() -> Result<()> {
    let world = world("")?;
    let three = || Step::bash(COMMAND).and(Step::bash(COMMAND)).and(Step::bash(COMMAND));
    let steps = [three(), three(), three(), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    // Two messages were no loop; the third is one as soon as it is whole.
    let ask = loop_ask(&world)?;
    assert_eq!((ran(&world), world.asks()?.len()), (8, 1));
    assert_eq!(world.deny(&ask.id, "")?, 0);
    stopped(&agent, 1)?;
    assert!(ran(&world) == 8 && !model.reached("main", 3));
    Ok(())
}

#[test]
fn t8_a_background_childs_loop_ends_the_child_alone() -> Result<()> {
    background_child(Version::Newest)
}

#[test]
fn t8_a_background_childs_loop_ends_the_child_alone_older_version() -> Result<()> {
    background_child(Version::Older)
}

fn background_child(version: Version) -> Result<()> {
    let world = world("")?;
    let wait = Step::bash("until [ -e go ]; do sleep 0.1; done; touch gone");
    let scripts = Scripts::of("main", [Step::agent("the helper", "kid", true), wait, Step::say("done")])
        .with("kid", again(4).chain([Step::say("done")]));
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, version, &model, Host::Stdio)?;
    agent.say("play=main")?;
    let ask = loop_ask(&world)?;
    assert_eq!((ran(&world), ask.attendance.as_str()), (2, "background"));
    assert_eq!(ask.default.as_deref(), Some("deny"));
    let child = ask.lineage.subagent.as_ref().context("the ask of a child names it")?;
    assert_eq!((child.name.as_deref(), child.depth), (Some("the helper"), Some(1)));
    assert_eq!(world.deny(&ask.id, "")?, 0);
    world.wait(&ask.id, "the denial handed", |ask| ask.delivery == "handed")?;
    fs::write(world.project().join("go"), "")?;
    world.wait_made("gone")?;
    let end = agent.turn_end(1)?;
    assert_eq!(end["terminal_reason"], "completed", "{end}");
    agent.finish()?;
    assert!(ran(&world) == 2 && !model.reached("kid", 3));
    Ok(())
}

#[test]
fn t20_a_loop_that_nobody_sees_is_asked_about_in_the_agents_own_prompt() -> Result<()> {
    let world = world("")?;
    let model = Model::start(Scripts::of("main", again(3).chain([Step::say("all is done")])))?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;
    terminal.wait_for(&["Do you want to proceed?", "Bash with the same input 3 times in a row"])?;
    let ask = loop_ask(&world)?;
    assert_eq!((ran(&world), ask.requester.link.as_str()), (2, "handed_back"));
    assert_eq!((world.allow(&ask.id)?, world.deny(&ask.id, "no")?), (5, 5));
    assert_eq!(world.asks()?.len(), 1, "asked once");
    terminal.press("\r", "the third run", |_| ran(&world) == 3)?;
    let ask = world.wait(&ask.id, "the terminal's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "agent")));
    terminal.wait_for(&["all is done"])
}
