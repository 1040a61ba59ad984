//! Asks that are answered, each in its own way.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use askd_tests::{Gate, Headless, Host, Model, Scripts, Step, Version, World, until};
use serde_json::json;

use crate::host;

#[test]
fn c13_an_allowed_call_runs_exactly_as_it_was_shown() -> Result<()> {
    allowed(Version::Newest)
}

#[test]
fn c13_an_allowed_call_runs_exactly_as_it_was_shown_older_version() -> Result<()> {
    allowed(Version::Older)
}

/// No daemon runs at first: the hook starts one.
fn allowed(version: Version) -> Result<()> {
    let world = World::new()?;
    world.set_up()?;
    let command = "printf '%s' 'gr\u{fc}n \"1\" \\ 2' > made";
    let model = Model::start(Scripts::of("main", [Step::bash(command), Step::say("done")]))?;
    let mut agent = Headless::start(&world, version, &model, host(version))?;
    agent.say("play=main")?;

    let ask = world.ask("made")?;
    assert_eq!(ask.command(), command);
    assert_eq!(ask.action["tool"], "Bash");
    assert_eq!(ask.action["cwd"], world.project().display().to_string());
    assert_eq!((ask.state.as_str(), ask.requester.link.as_str()), ("open", "attached"));
    assert_eq!((ask.lineage.agent.as_str(), ask.lineage.subagent.is_none()), ("claude-code", true));
    assert!(ask.digest.starts_with("sha256:"), "{}", ask.digest);
    assert!(!world.made("made") && model.results().is_empty());

    assert_eq!(world.allow(&ask.handle)?, 0);
    let told = model.result("main", 0)?;
    assert!(!told.is_error, "{told:?}");
    assert_eq!(fs::read_to_string(world.project().join("made"))?, "gr\u{fc}n \"1\" \\ 2");
    let ask = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(ask.settled(), Some(("allowed", "person")));
    assert_eq!(ask.outcome.and_then(|outcome| outcome.source).as_deref(), Some("direct"));
    agent.turn_end(1)?;
    agent.finish()
}

#[test]
fn c12_a_denial_reaches_the_model_word_for_word() -> Result<()> {
    denied(Version::Newest)
}

#[test]
fn c12_a_denial_reaches_the_model_word_for_word_older_version() -> Result<()> {
    denied(Version::Older)
}

fn denied(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let model = Model::start(Scripts::of("main", [Step::bash("touch made"), Step::say("done")]))?;
    let mut agent = Headless::start(&world, version, &model, host(version))?;
    agent.say("play=main")?;

    let words = "not this folder: use \"/srv\", gr\u{fc}n";
    let ask = world.ask("touch made")?;
    assert_eq!(world.deny(&ask.id, words)?, 0);
    let told = model.result("main", 0)?;
    assert_eq!((told.text.as_str(), told.is_error), (words, true));
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(!world.made("made"));
    let ask = world.show(&ask.id)?;
    assert_eq!(ask.settled(), Some(("denied", "person")));
    assert_eq!(ask.outcome.and_then(|outcome| outcome.message).as_deref(), Some(words));
    Ok(())
}

#[test]
fn c14_children_that_wait_together_each_get_their_own_answer() -> Result<()> {
    children_answered_oppositely(Version::Newest)
}

#[test]
fn c14_children_that_wait_together_each_get_their_own_answer_older_version() -> Result<()> {
    children_answered_oppositely(Version::Older)
}

fn children_answered_oppositely(version: Version) -> Result<()> {
    let world = World::with_askd()?;
    let both =
        Step::agent("the first child", "one", false).and(Step::agent("the second child", "two", false));
    let scripts = Scripts::of("main", [both, Step::say("done")])
        .with("one", [Step::bash("touch one"), Step::agent("a grandchild", "deep", false), Step::say("done")])
        .with("two", [Step::bash("touch two"), Step::say("done")])
        .with("deep", [Step::bash("touch deep"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, version, &model, host(version))?;
    agent.say("play=main")?;

    let one = world.ask("touch one")?;
    let two = world.ask("touch two")?;
    waiting_is(&world, 2)?;
    assert_eq!(one.lineage.session, two.lineage.session);
    assert_ne!(one.id, two.id);
    for (ask, name) in [(&one, "the first child"), (&two, "the second child")] {
        let child = ask.lineage.subagent.as_ref().context("the ask of a child names it")?;
        assert_eq!(child.name.as_deref(), Some(name));
        assert_eq!(child.kind.as_deref(), Some("general-purpose"));
        assert_eq!(child.depth, Some(1));
    }

    assert_eq!(world.deny(&two.id, "only one of you")?, 0);
    waiting_is(&world, 1)?;
    let told = model.result("two", 0)?;
    assert_eq!((told.text.as_str(), told.is_error), ("only one of you", true));
    assert!(!world.made("one"), "one answer settles one ask");
    assert_eq!(world.allow(&one.id)?, 0);
    world.wait_made("one")?;

    let deep = world.ask("touch deep")?;
    let child = deep.lineage.subagent.as_ref().context("the ask of a grandchild names it")?;
    assert_eq!((child.name.as_deref(), child.depth), (Some("a grandchild"), Some(2)));
    waiting_is(&world, 1)?;
    assert_eq!(world.allow(&deep.id)?, 0);
    waiting_is(&world, 0)?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("one") && world.made("deep") && !world.made("two"));
    Ok(())
}

/// The number is right at once, not some time later; only the session that has ended may be gone.
fn waiting_is(world: &World, expected: u32) -> Result<()> {
    let waiting: u32 = world.sessions()?.iter().map(|session| session.waiting).sum();
    let open = u32::try_from(world.open()?.len())?;
    assert_eq!((waiting, open), (expected, expected));
    Ok(())
}

#[test]
fn c14_a_grandchild_in_the_background_outlives_its_parent() -> Result<()> {
    let world = World::with_askd()?;
    let child_ends = Gate::default();
    let scripts = Scripts::of("main", [Step::agent("the child", "child", true), Step::say("done")])
        .with(
            "child",
            [Step::agent("the grandchild", "grandchild", true), Step::say("done").held_by(&child_ends)],
        )
        .with("grandchild", [Step::bash("touch made"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    let ask = world.ask("touch made")?;
    let waiting = ask.lineage.subagent.context("the ask of a grandchild names it")?;
    assert_eq!((waiting.name.as_deref(), waiting.depth), (Some("the grandchild"), Some(2)));
    child_ends.open();
    until("the end of the child", || {
        let sessions = world.sessions()?;
        let live: Vec<_> = sessions.iter().flat_map(|session| &session.subagents).collect();
        Ok((live.len() == 1 && live[0].work_id == waiting.work_id).then_some(()))
    })?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("made")
}

#[test]
fn c8_the_waiting_count_is_the_number_of_open_asks() -> Result<()> {
    let world = World::with_askd()?;
    let names = ["a", "b", "c"];
    let start = names.iter().map(|name| Step::agent(name, name, true)).reduce(Step::and).expect("three");
    let mut scripts = Scripts::of("main", [start, Step::say("done")]);
    for name in names {
        scripts = scripts.with(name, [Step::bash(&format!("touch {name}")), Step::say("done")]);
    }
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    let mut asks = Vec::new();
    for name in names {
        asks.push(world.ask(&format!("touch {name}"))?);
    }
    for ask in &asks {
        assert_eq!(ask.attendance, "background");
    }
    for (index, ask) in asks.iter().enumerate() {
        waiting_is(&world, u32::try_from(asks.len() - index)?)?;
        assert_eq!(world.allow(&ask.id)?, 0);
    }
    waiting_is(&world, 0)?;
    for name in names {
        world.wait_made(name)?;
    }
    Ok(())
}

#[test]
fn c9_what_the_agents_own_rules_decide_is_never_an_ask() -> Result<()> {
    let mut world = World::new()?;
    let rules =
        json!({"defaultMode": "default", "allow": ["Bash(touch ruled)"], "deny": ["Bash(touch barred)"]});
    world.write_settings(&json!({"permissions": rules}))?;
    world.start_daemon()?;
    world.set_up()?;
    let steps = [Step::bash("touch ruled"), Step::bash("touch barred"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;
    agent.turn_end(1)?;
    agent.finish()?;
    assert!(world.made("ruled") && !world.made("barred"));
    assert!(model.result("main", 1)?.is_error);
    let asks = world.asks()?;
    assert!(asks.is_empty(), "{asks:?}");
    Ok(())
}

#[test]
fn c5_of_two_opposite_answers_one_counts_and_no_other_answer_does_harm() -> Result<()> {
    const ROUNDS: usize = 5;
    let world = World::with_askd()?;
    let rounds = (0..ROUNDS).map(|round| Step::bash(&format!("echo ran >> r{round}")));
    let steps: Vec<_> = rounds.chain([Step::say("done")]).collect();
    let model = Model::start(Scripts::of("main", steps))?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;

    let mut seen = BTreeMap::new();
    for round in 0..ROUNDS {
        let ask = world.ask(&format!("r{round}"))?;
        for unknown in ["zzzzzzzz", "0190ffff-0000-7000-8000-000000000000"] {
            assert_eq!(world.allow(unknown)?, 6);
        }
        assert_eq!(world.show(&ask.id)?.state, "open");

        let mut allow = world.command(&["allow", &ask.id]).spawn()?;
        let mut deny = world.command(&["deny", &ask.id, "-m", "the other one"]).spawn()?;
        let codes = (allow.wait()?.code(), deny.wait()?.code());
        let allowed = match codes {
            (Some(0), Some(5)) => true,
            (Some(5), Some(0)) => false,
            _ => panic!("one has to win and the other has to hear of it: {codes:?}"),
        };
        let told = model.result("main", round)?;
        assert_eq!(told.is_error, !allowed, "{told:?}");
        let expected = if allowed { ("allowed", "person") } else { ("denied", "person") };
        assert_eq!(world.show(&ask.id)?.settled(), Some(expected));
        // Too late, either way.
        assert_eq!((world.allow(&ask.id)?, world.deny(&ask.id, "no")?), (5, 5));
        assert_eq!(world.show(&ask.id)?.settled(), Some(expected));
        assert!(seen.insert(ask.handle, allowed).is_none(), "a handle came back");
        let ran = fs::read_to_string(world.project().join(format!("r{round}"))).unwrap_or_default();
        assert_eq!(ran, if allowed { "ran\n" } else { "" });
    }
    agent.turn_end(1)?;
    until("every delivery of an allow confirmed", || {
        let waiting = world.asks()?.iter().any(|ask| ask.delivery != "confirmed" && seen[&ask.handle]);
        Ok((!waiting).then_some(()))
    })
}
