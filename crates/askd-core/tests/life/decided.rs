//! What the requester's own side decided: told by the ask's own id, for that ask and no other.

use askd_core::event::Event;
use askd_core::id::StreamId;
use askd_core::{
    AskId, Cause, Command, Decision, Delivery, OutcomeKind, Raise, Refusal, Reply, Settings, Verdict,
};

use crate::common::World;
use crate::common::make::{again, raise, token};

fn world() -> World {
    World::new(Settings::default())
}

fn of_call(n: u32, call: &str) -> Raise {
    Raise { call: Some(call.to_owned()), ..raise(n, "a") }
}

fn decided(world: &mut World, ask: AskId, decision: Decision, went_on: bool) -> Result<Reply, Refusal> {
    let token = world.ask(ask).ask.requester.token;
    world.run(&Command::DecidedByAgent { ask, token, decision, by: Some("hook".to_owned()), went_on })
}

/// What the record says that was seen of the agent.
fn seen(world: &World, ask: AskId) -> Option<String> {
    world.history.iter().rev().find_map(|record| match &record.event {
        Event::Overtaken { seen } if record.stream == StreamId::Ask(ask) => Some(seen.clone()),
        _ => None,
    })
}

#[test]
fn c3_a_hook_decides_its_own_ask_and_the_other_one_of_the_call_stays_open() {
    for decision in [Decision::Allow, Decision::Deny] {
        let mut world = world();
        let (first, second) = (world.raise(&of_call(1, "c1")), world.raise(&of_call(2, "c1")));
        decided(&mut world, first, decision, false).unwrap();
        let outcome = world.outcome(first).clone();
        assert_eq!(
            (outcome.kind, outcome.cause, outcome.by.as_deref()),
            (decision.into(), Cause::Agent, Some("hook"))
        );
        assert_eq!(world.ask(first).verdict(), Verdict::None, "it is never given back as a decision");
        assert!(world.ask(second).is_open());
        world.answer(second, Decision::Deny).unwrap();
        assert_eq!(world.outcome(second).cause, Cause::Person);
        assert_eq!(world.answer(first, Decision::Allow), Err(Refusal::AlreadySettled(first)));
    }
}

#[test]
fn c3_a_hook_against_a_person_whichever_is_first() {
    let mut world = world();
    let ask = world.raise(&raise(1, "a"));
    world.answer(ask, Decision::Deny).unwrap();
    assert_eq!(decided(&mut world, ask, Decision::Allow, false), Err(Refusal::AlreadySettled(ask)));
    assert_eq!((world.outcome(ask).kind, world.ask(ask).delivery), (OutcomeKind::Denied, Delivery::Pending));
    assert_eq!(world.story(ask), ["asked", "settled"]);
    // The agent had acted on its hook before it could hear of the answer: the record is corrected, once.
    for _ in 0..2 {
        decided(&mut world, ask, Decision::Allow, true).unwrap();
        assert_eq!(world.ask(ask).delivery, Delivery::Overtaken);
    }
    assert_eq!(world.story(ask), ["asked", "settled", "overtaken"]);
    assert_eq!(seen(&world, ask).as_deref(), Some("the agent had already gone on: allowed by its hook"));
}

#[test]
fn c10_what_a_hook_decides_after_an_ask_was_taken_down_is_in_its_record() {
    let mut world = world();
    for (n, decision, word) in [(1, Decision::Allow, "allowed"), (2, Decision::Deny, "denied")] {
        let ask = world.raise(&raise(n, "a"));
        world.run(&Command::Dismiss { ask, by: "ana".to_owned() }).unwrap();
        // Its reply may be lost, so that it is told again.
        for _ in 0..2 {
            decided(&mut world, ask, decision, false).unwrap();
        }
        assert_eq!(world.outcome(ask).kind, OutcomeKind::Withdrawn, "one outcome");
        assert_eq!(world.story(ask), ["asked", "withdrawn", "overtaken"]);
        assert_eq!(seen(&world, ask), Some(format!("{word} by the agent's own hook")));
    }
}

#[test]
fn c2_a_hooks_decision_survives_a_crash_and_is_told_again_without_harm() {
    let mut world = world();
    let ask = world.raise(&raise(1, "a"));
    world.crash();
    decided(&mut world, ask, Decision::Allow, true).unwrap();
    world.crash();
    decided(&mut world, ask, Decision::Allow, true).unwrap();
    assert_eq!(world.story(ask), ["asked", "settled"]);
    assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Allowed, Cause::Agent));
}

#[test]
fn c6_an_answer_that_came_late_serves_nobody_once_the_hook_has_decided() {
    let mut world = world();
    let lost = Raise { grace_ms: 0, ..of_call(1, "c1") };
    let ask = world.raise(&lost);
    world.close(&lost);
    assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { .. })));
    decided(&mut world, ask, Decision::Deny, true).unwrap();
    let next = world.raise(&again(&lost, 2));
    assert!(world.ask(next).is_open(), "the call was decided; the next one is asked");
}

#[test]
fn s1_only_its_own_requester_tells_what_its_hook_decided() {
    let mut world = world();
    let ask = world.raise(&raise(1, "a"));
    let told = |by: Option<String>, token| Command::DecidedByAgent {
        ask,
        token,
        decision: Decision::Allow,
        by,
        went_on: true,
    };
    assert_eq!(world.run(&told(None, token(99u32))), Err(Refusal::UnknownAsk));
    let own = world.ask(ask).ask.requester.token;
    assert!(matches!(world.run(&told(Some("x".repeat(1 << 20)), own)), Err(Refusal::Malformed(_))));
    assert!(world.ask(ask).is_open());
}
