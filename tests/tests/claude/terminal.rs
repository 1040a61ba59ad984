//! The agent's own dialog, in a real terminal, beside askd.

use std::fs;

use anyhow::{Context, Result};
use askd_tests::{Ask, Headless, Host, Model, Scripts, Step, Terminal, Version, World, until};
use serde_json::json;

/// The agent's question, in every version.
const DIALOG: &str = "Do you want to proceed?";

#[test]
fn c11_the_first_answer_counts_in_the_terminal_and_in_askd() -> Result<()> {
    let world = World::with_askd()?;
    let steps = [Step::bash("touch first"), Step::bash("touch second"), Step::bash("touch third")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;

    // The terminal is first.
    let first = world.ask("touch first")?;
    terminal.wait_for(&[DIALOG, "touch first"])?;
    terminal.press("\r", "the file first", |_| world.made("first"))?;
    let first = world.wait(&first.id, "the terminal's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(first.settled(), Some(("allowed", "agent")));
    assert_eq!(world.deny(&first.id, "too late")?, 5);

    // askd is first: the dialog goes away by itself.
    let second = world.ask("touch second")?;
    terminal.wait_for(&[DIALOG, "touch second"])?;
    assert!(!world.made("second"));
    assert_eq!(world.allow(&second.handle)?, 0);
    world.wait_made("second")?;

    // No in the terminal.
    let third = world.ask("touch third")?;
    terminal.wait_for(&[DIALOG, "touch third"])?;
    terminal.press("\u{1b}", "the dialog gone", |text| !text.contains(DIALOG))?;
    let third = world.wait(&third.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(third.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&third.id)?, 5);
    assert!(world.made("first") && world.made("second") && !world.made("third"));
    Ok(())
}

#[test]
fn c11_a_denial_of_a_command_that_already_runs_is_overtaken() -> Result<()> {
    let world = World::with_askd()?;
    let long = "touch started; until [ -e go ]; do sleep 0.1; done; touch made";
    let model = Model::start(Scripts::of("main", [Step::bash(long), Step::say("all is done")]))?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;

    let ask = world.ask("touch started")?;
    terminal.wait_for(&[DIALOG])?;
    terminal.press("\r", "the command started", |_| world.made("started"))?;
    // The agent tells nobody that it was answered, so the ask is still open here.
    assert_eq!(world.deny(&ask.id, "not now")?, 0);
    fs::write(world.project().join("go"), "")?;
    world.wait_made("made")?;
    let ask = world.wait(&ask.id, "the denial overtaken", |ask| ask.delivery == "overtaken")?;
    assert_eq!(ask.settled(), Some(("denied", "person")), "what the person said stays on record");
    let told = model.result("main", 0)?;
    assert!(!told.is_error && !told.text.contains("not now"), "{told:?}");
    let log = world.log()?;
    assert!(log.contains("overtaken"), "{log}");
    terminal.wait_for(&["all is done"])
}

fn question() -> Step {
    let option = |label: &str| json!({"label": label, "description": format!("{label} it is")});
    let question = json!({
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": false,
        "options": [option("Red"), option("Blue")],
    });
    Step::call("AskUserQuestion", json!({"questions": [question]}))
}

fn handed_back(world: &World) -> Result<Ask> {
    let found = until("an ask that was handed back", || {
        Ok(world.open()?.into_iter().find(|ask| ask.requester.link == "handed_back"))
    });
    found.with_context(|| world.daemon_said())
}

#[test]
fn c11_a_question_to_the_person_goes_to_the_agents_own_prompt() -> Result<()> {
    let world = World::with_askd()?;
    let model = Model::start(Scripts::of("main", [question(), Step::say("all is done")]))?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;
    terminal.wait_for(&["Which colour?", "Blue"])?;
    let ask = handed_back(&world)?;
    assert_eq!(ask.action["tool"], "AskUserQuestion");
    assert_eq!((world.allow(&ask.id)?, world.deny(&ask.id, "no")?), (5, 5));
    terminal.press("\r", "the question gone", |text| !text.contains("Blue it is"))?;
    let told = model.result("main", 0)?;
    assert!(told.text.contains("Red") && !told.is_error, "{told:?}");
    let ask = world.wait(&ask.id, "the person's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "agent")));

    // The older version would take any allow of a hook for the answer.
    let model = Model::start(Scripts::of("main", [question(), Step::say("all is done")]))?;
    let mut agent = Headless::start(&world, Version::Older, &model, Host::Stdio)?;
    agent.say("play=main")?;
    let at_host = agent.request()?;
    handed_back(&world)?;
    agent.deny(&at_host, "ask me later")?;
    assert_eq!(model.result("main", 0)?.text, "ask me later");
    Ok(())
}

#[test]
fn c11_a_background_child_is_held_only_while_somebody_looks_at_askd() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = Scripts::of("main", [Step::agent("helper", "kid", true), Step::say("the turn is over")])
        .with("kid", [Step::bash("touch alone"), Step::bash("touch watched"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut terminal = Terminal::agent(&world, Version::Newest, &model)?;
    terminal.enter("play=main")?;

    // Nobody looks: the dialog comes although the ask is listed.
    terminal.wait_for(&[DIALOG, "touch alone"])?;
    let ask = handed_back(&world)?;
    assert_eq!((ask.command(), ask.attendance.as_str()), ("touch alone", "background"));
    assert_eq!(world.allow(&ask.id)?, 5);

    // From here on somebody looks: the next one is held for them.
    let mut queue = Terminal::run(world.askd(), &["--plain"], world.env(), &world.home())?;
    queue.wait_for(&[ask.handle.as_str()])?;
    terminal.press("\r", "the file alone", |_| world.made("alone"))?;
    let ask = world.wait(&ask.id, "the terminal's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "agent")));

    let held = world.ask("touch watched")?;
    assert_eq!(held.requester.link, "attached");
    queue.wait_for(&[held.handle.as_str(), "touch watched"])?;
    assert!(!terminal.text().contains(DIALOG));
    queue.enter(&format!("allow {}", held.handle))?;
    world.wait_made("watched")?;
    let held = world.wait(&held.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(held.settled(), Some(("allowed", "person")));
    Ok(())
}
