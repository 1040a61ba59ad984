//! Answers from either side.

use std::fs;

use anyhow::{Context, Result};
use askd_tests::{Scripts, Step, Version, World, until};
use serde_json::json;

use crate::{script, start};

#[test]
fn c3_c13_an_answer_elsewhere_runs_exactly_what_was_shown_and_closes_the_hosts_dialog() -> Result<()> {
    elsewhere(Version::Newest)
}

#[test]
fn c3_c13_an_answer_elsewhere_runs_exactly_what_was_shown_older_version() -> Result<()> {
    elsewhere(Version::Older)
}

/// No daemon runs at first: the wrapper starts one.
fn elsewhere(version: Version) -> Result<()> {
    let world = World::new()?;
    let first = "printf '%s' 'gr\u{fc}n \"1\" \\ 2' > made";
    let steps = [Step::bash(first), Step::bash("touch unmade"), Step::say("done")];
    let (model, mut agent) = start(&world, version, script(steps))?;

    let at_host = agent.request()?;
    let ask = world.ask("made")?;
    assert_eq!((ask.command(), ask.attendance.as_str()), (first, "foreground"));
    assert_eq!(ask.lineage.agent, "claude-code");
    assert!(ask.lineage.tool_call.is_some());
    assert!(!world.made("made") && model.results().is_empty());
    assert_eq!(world.allow(&ask.handle)?, 0);
    agent.cancelled(&at_host)?;
    // Late, and the other way.
    agent.deny(&at_host, "too late")?;
    assert!(!model.result("main", 0)?.is_error);
    assert_eq!(fs::read_to_string(world.project().join("made"))?, "gr\u{fc}n \"1\" \\ 2");
    let ask = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(ask.settled(), Some(("allowed", "person")));

    let at_host = agent.request()?;
    let ask = world.ask("unmade")?;
    let words = "not this folder: use \"/srv\", gr\u{fc}n";
    assert_eq!(world.deny(&ask.id, words)?, 0);
    agent.cancelled(&at_host)?;
    agent.allow(&at_host, &at_host.input)?;
    let told = model.result("main", 1)?;
    assert_eq!((told.text.as_str(), told.is_error), (words, true));
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("unmade"));
    let ask = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(ask.settled(), Some(("denied", "person")));
    Ok(())
}

#[test]
fn c3_c5_the_hosts_answers_win_too_and_a_failing_host_denies_nothing() -> Result<()> {
    let world = World::with_askd()?;
    let steps = ["touch a", "touch b", "touch c"].map(Step::bash);
    let (model, mut agent) =
        start(&world, Version::Newest, script(steps.into_iter().chain([Step::say("done")])))?;

    let at_host = agent.request()?;
    let ask = world.ask("touch a")?;
    agent.allow(&at_host, &at_host.input)?;
    // Doubled, and unknown.
    agent.deny(&at_host, "no")?;
    agent.send(&json!({"type": "control_response", "response":
        {"subtype": "success", "request_id": "unknown", "response": {"behavior": "deny", "message": "no"}}}))?;
    world.wait_made("a")?;
    let settled = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(settled.settled(), Some(("allowed", "person")));
    assert_eq!(world.deny(&ask.id, "late")?, 5);

    let at_host = agent.request()?;
    let ask = world.ask("touch b")?;
    agent.fail(&at_host, "the dialog crashed")?;
    until("the failure told", || Ok(world.log()?.contains("dialog crashed").then_some(())))?;
    assert_eq!((world.show(&ask.id)?.state.as_str(), model.results().len()), ("open", 1));
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("b")?;

    // A host that leaves the input out, which older versions take for a deny.
    let at_host = agent.request()?;
    world.ask("touch c")?;
    agent.respond(&at_host, &json!({"behavior": "allow"}))?;
    world.wait_made("c")?;
    agent.turn_end(1)?;
    agent.finish()
}

#[test]
fn c12_a_denial_that_stops_the_turn_stops_it() -> Result<()> {
    let world = World::with_askd()?;
    let (model, mut agent) = start(
        &world,
        Version::Newest,
        script([Step::bash("touch made"), Step::bash("touch next"), Step::say("done")]),
    )?;
    let ask = world.ask("touch made")?;
    world.must(&["deny", "--stop", "-m", "enough", &ask.id])?;
    let end = agent.turn_end(1)?;
    assert_eq!(end["terminal_reason"], "aborted_tools", "{end}");
    assert!(model.results().is_empty(), "the model is not called again");
    agent.finish()?;
    assert!(!world.made("made") && !world.made("next") && world.open()?.is_empty());
    Ok(())
}

#[test]
fn c13_an_always_adds_exactly_the_rule_that_was_shown() -> Result<()> {
    let world = World::with_askd()?;
    let steps = ["touch first", "touch first second", "mkdir third", "mkdir fourth"].map(Step::bash);
    let (_model, mut agent) =
        start(&world, Version::Newest, script(steps.into_iter().chain([Step::say("done")])))?;
    let ask = world.ask("touch first")?;
    let shown = world.must(&["show", &ask.id])?;
    let always = ask.options.iter().find(|option| option.kind == "allow_always").context("an always")?;
    assert!(shown.contains("settings.local.json"), "{shown}");
    world.must(&["allow", "--option", &always.id, &ask.id])?;
    world.wait_made("first")?;
    // The host changes permissions for the session; the next call of that kind is not asked about.
    let mut at_host = agent.request()?;
    while !at_host.input["command"].as_str().unwrap_or_default().contains("mkdir") {
        // What the rule covers differs between versions.
        agent.allow(&at_host, &at_host.input)?;
        at_host = agent.request()?;
    }
    let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "mkdir:*"}],
        "behavior": "allow", "destination": "session"});
    let input = at_host.input.clone();
    agent.respond(
        &at_host,
        &json!({"behavior": "allow", "updatedInput": input, "updatedPermissions": [rule]}),
    )?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("third") && world.made("fourth"));
    let asks = world.asks()?;
    assert!(!asks.iter().any(|ask| ask.command() == "mkdir fourth"), "{asks:?}");
    let rules = fs::read_to_string(world.project().join(".claude/settings.local.json"))?;
    assert!(rules.contains("Bash(touch"), "{rules}");
    Ok(())
}

#[test]
fn c14_parallel_reads_and_children_each_get_their_own_answer() -> Result<()> {
    let world = World::with_askd()?;
    for name in ["one", "two"] {
        fs::write(world.file(name), format!("text of {name}"))?;
    }
    let read = |name: &str| Step::call("Read", json!({"file_path": world.file(name)}));
    let both = Step::agent("the first child", "one", false).and(Step::agent("the second child", "two", true));
    let scripts = Scripts::of("main", [read("one").and(read("two")), both, Step::say("done")])
        .with("one", [Step::bash("touch made-one"), Step::say("done")])
        .with("two", [Step::bash("touch made-two"), Step::say("done")]);
    let (model, mut agent) = start(&world, Version::Newest, scripts)?;

    let (one, two) = (until_read(&world, "one")?, until_read(&world, "two")?);
    assert_eq!(world.deny(&two.id, "not the second")?, 0);
    assert_eq!(world.allow(&one.id)?, 0);
    let told = [model.result_of_block("main", 0, 0)?, model.result_of_block("main", 0, 1)?];
    assert!(told.iter().any(|told| told.text.contains("text of one") && !told.is_error), "{told:?}");
    assert!(told.iter().any(|told| told.text == "not the second" && told.is_error), "{told:?}");

    let (one, two) = (world.ask("touch made-one")?, world.ask("touch made-two")?);
    for (ask, name, attendance) in
        [(&one, "the first child", "foreground"), (&two, "the second child", "background")]
    {
        let child = ask.lineage.subagent.as_ref().context("the ask of a child names it")?;
        assert_eq!(
            (child.name.as_deref(), child.kind.as_deref(), child.depth),
            (Some(name), Some("general-purpose"), Some(1))
        );
        assert_eq!(ask.attendance, attendance);
    }
    assert_eq!(world.deny(&one.id, "only the other")?, 0);
    assert_eq!(world.allow(&two.id)?, 0);
    world.wait_made("made-two")?;
    assert_eq!(model.result("one", 0)?.text, "only the other");
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("made-one"));
    Ok(())
}

fn until_read(world: &World, name: &str) -> Result<askd_tests::Ask> {
    let path = world.file(name).display().to_string();
    until("the ask about a file", || {
        Ok(world.open()?.into_iter().find(|ask| ask.action["input"]["file_path"] == path.as_str()))
    })
}
