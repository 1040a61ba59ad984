//! Late answers, sentence by sentence.

use askd_core::ask::Class;
use askd_core::{AskId, Cause, Command, Decision, Delivery, OutcomeKind, Raise, Refusal, Seen, Settings};

use crate::common::World;
use crate::common::make::{
    action, again, call_ended, cancelled, child, hook, instance, many_options, raise, seen, session,
    turn_ended,
};

/// An ask whose requester was lost just now, and that was answered since.
fn kept(world: &mut World, of: &Raise, decision: Decision) -> AskId {
    let ask = world.raise(of);
    world.close(of);
    assert!(matches!(world.answer(ask, decision), Err(Refusal::Late { .. })));
    ask
}

fn world() -> World {
    World::new(Settings::default())
}

fn is_asked(world: &mut World, raise: &Raise) -> bool {
    let ask = world.raise(raise);
    world.ask(ask).is_open()
}

#[test]
fn c6_a_late_answer_is_refused_as_late_and_says_until_when_it_counts() {
    let mut world = world();
    let lost = hook(1, "a");
    let ask = world.raise(&lost);
    world.pass(1_000);
    world.close(&lost);
    let lost_at = world.now;
    world.pass(20_000);
    let reply = world.answer(ask, Decision::Allow);
    let expected = Refusal::Late { ask, decision: Decision::Allow, recorded_at: lost_at, for_ms: 60_000 };
    assert_eq!(reply, Err(expected));
    assert_eq!(world.outcome(ask).kind, OutcomeKind::Withdrawn, "the outcome stays what it was");
    // Only the first.
    assert_eq!(world.answer(ask, Decision::Deny), Err(Refusal::AlreadySettled(ask)));
    world.pass(39_999);
    let next = world.raise(&again(&lost, 2));
    let outcome = world.outcome(next);
    assert_eq!(
        (outcome.kind, outcome.cause, outcome.late_of),
        (OutcomeKind::Allowed, Cause::Person, Some(ask))
    );
    assert_eq!((outcome.surface.as_deref(), outcome.by.as_deref()), (Some("terminal"), Some("ana")));
    assert_eq!(world.ask(next).delivery, Delivery::Pending);
    assert_eq!(world.story(ask), ["asked", "withdrawn", "late_recorded", "late_used"]);
    assert_eq!(world.story(next), ["asked", "settled"]);
}

#[test]
fn c6_a_late_answer_counts_for_sixty_seconds_of_the_loss() {
    for restart in [false, true] {
        let mut world = world();
        let lost = hook(1, "a");
        let ask = kept(&mut world, &lost, Decision::Allow);
        world.pass(59_999);
        if restart {
            world.crash();
        }
        world.pass(1);
        assert!(is_asked(&mut world, &again(&lost, 2)));
        assert_eq!(world.story(ask).last(), Some(&"late_revoked"), "surfaces hear that it lapsed");
        assert_eq!(world.answer(ask, Decision::Allow), Err(Refusal::AlreadySettled(ask)));
    }
    let mut world = world();
    let lost = hook(1, "a");
    let ask = world.raise(&lost);
    world.close(&lost);
    world.pass(60_000);
    assert_eq!(world.answer(ask, Decision::Allow), Err(Refusal::AlreadySettled(ask)));
}

#[test]
fn c6_a_lapsed_consent_does_not_come_back_with_the_wall_clock() {
    let mut world = world();
    let lost = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
    let ask = world.raise(&lost);
    world.answer(ask, Decision::Allow).unwrap();
    world.close(&lost);
    world.pass(60_000);
    world.step_wall(-28_800_000);
    world.reboot(1_000);
    assert!(is_asked(&mut world, &again(&lost, 2)));
}

#[test]
fn c6_a_late_answer_is_for_the_same_session_subagent_tool_and_content() {
    let lost = Raise { subagent: Some(child("w1")), ..hook(1, "a") };
    let differs: [fn(&mut Raise); 6] = [
        |r| r.session = session("b"),
        |r| r.subagent = Some(child("w2")),
        |r| r.subagent = None,
        |r| r.action.tool = "Shell".to_owned(),
        |r| r.action = action("rm"),
        |r| r.class = Class::Safety,
    ];
    for (n, differ) in differs.iter().enumerate() {
        let mut world = world();
        let ask = kept(&mut world, &lost, Decision::Allow);
        let mut other = again(&lost, 2);
        differ(&mut other);
        assert!(is_asked(&mut world, &other), "{n}");
        // It is still there for the right one.
        let right = world.raise(&again(&lost, 3));
        assert_eq!(world.outcome(right).late_of, Some(ask), "{n}");
    }
}

#[test]
fn c5_a_late_answer_settles_at_most_one_ask() {
    let mut world = world();
    let lost = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
    kept(&mut world, &lost, Decision::Allow);
    let second = again(&lost, 2);
    let used = world.raise(&second);
    assert_eq!(world.outcome(used).kind, OutcomeKind::Allowed);
    // Not a third one, also not by way of the second.
    world.close(&second);
    assert_eq!(world.ask(used).delivery, Delivery::Expired);
    assert!(is_asked(&mut world, &again(&lost, 3)));
}

#[test]
fn c5_two_fitting_late_answers_settle_nothing() {
    let mut world = world();
    let lost = hook(1, "a");
    let twin = again(&lost, 2);
    let (first, second) = (world.raise(&lost), world.raise(&twin));
    world.close(&lost);
    world.close(&twin);
    for ask in [first, second] {
        assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { .. })));
    }
    assert!(is_asked(&mut world, &again(&lost, 3)), "which of the two was meant is not known");
    // One of them is taken back: now it is exactly one.
    world.run(&Command::RevokeLate { ask: first, by: "ana".to_owned() }).unwrap();
    let next = world.raise(&again(&lost, 4));
    assert_eq!(world.outcome(next).late_of, Some(second));
}

#[test]
fn c6_no_late_answer_after_a_cancel_that_came_between() {
    let between: [Seen; 4] = [
        cancelled(None),
        cancelled(Some("w1")),
        Seen::SessionEnded,
        Seen::SubagentEnded { work_id: "w1".to_owned() },
    ];
    for what in between {
        for answered_before in [true, false] {
            for restart in [false, true] {
                let mut world = world();
                let lost = Raise { subagent: Some(child("w1")), ..hook(1, "a") };
                let ask = world.raise(&lost);
                world.close(&lost);
                if answered_before {
                    assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { .. })));
                }
                world.see("a", what.clone());
                if restart {
                    world.crash();
                }
                if !answered_before {
                    assert_eq!(
                        world.answer(ask, Decision::Allow),
                        Err(Refusal::AlreadySettled(ask)),
                        "{what:?}"
                    );
                }
                assert!(is_asked(&mut world, &again(&lost, 2)), "{what:?}");
            }
        }
    }
}

#[test]
fn c6_no_late_answer_after_the_turn_ended_or_a_new_prompt_came() {
    let lost = Raise { turn: Some("t1".to_owned()), ..hook(1, "a") };
    let mut world = world();
    kept(&mut world, &lost, Decision::Allow);
    assert!(is_asked(&mut world, &Raise { turn: Some("t2".to_owned()), ..again(&lost, 2) }));
    let mut world = self::world();
    kept(&mut world, &lost, Decision::Allow);
    world.see("a", turn_ended(Some("w1")));
    let same = world.raise(&again(&lost, 2));
    assert!(!world.ask(same).is_open(), "another thread's turn is not this one's");
    let mut world = self::world();
    kept(&mut world, &lost, Decision::Allow);
    world.see("a", turn_ended(None));
    assert!(is_asked(&mut world, &again(&lost, 2)));
}

#[test]
fn c6_nothing_is_kept_for_an_ask_that_was_replaced() {
    // The new ask names the old one, whose requester was lost and whose answer waits.
    let mut world = world();
    let lost = hook(1, "a");
    let old = kept(&mut world, &lost, Decision::Allow);
    let new = Raise { token: lost.token, supersedes: Some(old), ..again(&lost, 2) };
    assert!(is_asked(&mut world, &new));
    // Replaced while it was open, and while its allow was on its way.
    for answered in [false, true] {
        let mut world = self::world();
        let first = raise(1, "a");
        let old = world.raise(&first);
        if answered {
            world.answer(old, Decision::Allow).unwrap();
        }
        let new = Raise { token: first.token, supersedes: Some(old), ..again(&first, 2) };
        assert!(is_asked(&mut world, &new));
        assert!(!world.ask(old).is_open());
        assert_eq!(world.ask(old).delivery, if answered { Delivery::Voided } else { Delivery::None });
        assert_eq!(world.answer(old, Decision::Allow), Err(Refusal::AlreadySettled(old)));
    }
    // Another requester cannot replace it.
    let mut world = self::world();
    let old = world.raise(&raise(1, "a"));
    world.raise(&Raise { supersedes: Some(old), ..raise(2, "a") });
    assert!(world.ask(old).is_open());
}

#[test]
fn c5_only_the_plain_yes_or_no_is_kept() {
    let lost = Raise { options: many_options(), ..hook(1, "a") };
    for (option, decision, keeps) in [
        (Some("once"), Decision::Allow, true),
        (None, Decision::Allow, true),
        (Some("once-more"), Decision::Allow, false),
        (Some("always"), Decision::Allow, false),
        (Some("no"), Decision::Deny, true),
        (Some("never"), Decision::Deny, false),
    ] {
        let mut world = world();
        let ask = world.raise(&lost);
        world.close(&lost);
        let reply = world.answer_with(ask, decision, |a| a.option = option.map(str::to_owned));
        assert_eq!(matches!(reply, Err(Refusal::Late { .. })), keeps, "{option:?} {reply:?}");
        assert_eq!(is_asked(&mut world, &again(&lost, 2)), !keeps, "{option:?}");

        // The same when it was answered in time and never reached its requester.
        let mut world = self::world();
        let lost = Raise { call: Some("c1".to_owned()), ..lost.clone() };
        let ask = world.raise(&lost);
        world.answer_with(ask, decision, |a| a.option = option.map(str::to_owned)).unwrap();
        world.close(&lost);
        assert_eq!(is_asked(&mut world, &again(&lost, 2)), !keeps, "{option:?}");
    }
    // A call that offers no plain yes gets none.
    let mut world = world();
    kept(&mut world, &hook(1, "a"), Decision::Allow);
    let options = many_options().into_iter().filter(|c| !c.id.starts_with("once")).collect();
    assert!(is_asked(&mut world, &Raise { options, ..again(&hook(1, "a"), 2) }));
}

#[test]
fn c12_a_late_deny_carries_the_words_and_whether_to_stop() {
    let mut world = world();
    let lost = hook(1, "a");
    let ask = world.raise(&lost);
    world.close(&lost);
    let _ = world.answer_with(ask, Decision::Deny, |a| {
        a.message = Some("not this folder".to_owned());
        a.stop = true;
    });
    let next = world.raise(&again(&lost, 2));
    assert_eq!(world.outcome(next).reason_for_model().as_deref(), Some("not this folder"));
    assert!(world.outcome(next).stop);
    // "Stop" says nothing on an allow.
    let other = Raise { action: action("rm"), ..hook(3, "a") };
    let ask = world.raise(&other);
    world.close(&other);
    let _ = world.answer_with(ask, Decision::Allow, |a| a.stop = true);
    let next = world.raise(&again(&other, 4));
    assert!(!world.outcome(next).stop);
}

#[test]
fn c6_a_kept_answer_can_be_taken_back() {
    let revoke = |ask| Command::RevokeLate { ask, by: "ana".to_owned() };
    let lost = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
    // Given late.
    let mut world = world();
    let ask = kept(&mut world, &lost, Decision::Allow);
    world.run(&revoke(ask)).unwrap();
    assert!(world.run(&revoke(ask)).is_err());
    assert!(is_asked(&mut world, &again(&lost, 2)));
    // Given in time and never handed over: void from here on.
    let mut world = self::world();
    let ask = world.raise(&lost);
    world.answer(ask, Decision::Allow).unwrap();
    assert!(world.run(&revoke(ask)).is_err(), "it is on its way");
    world.close(&lost);
    world.run(&revoke(ask)).unwrap();
    assert_eq!(world.ask(ask).delivery, Delivery::Voided);
    assert!(world.handed(ask).is_err());
    assert!(is_asked(&mut world, &again(&lost, 2)));
}

#[test]
fn c1_nothing_but_a_real_answer_is_kept() {
    // A timed deny that never arrived is not given to the next call.
    let mut world = world();
    let lost = crate::common::make::background(1, "a", 5_000);
    let ask = world.raise(&lost);
    world.pass(5_000);
    assert_eq!(world.outcome(ask).cause, Cause::Timed);
    world.close(&lost);
    world.pass(60_000);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    assert!(is_asked(&mut world, &again(&lost, 2)));
    // A hook without a known call may have printed what it had.
    let mut world = self::world();
    let lost = hook(1, "a");
    let ask = world.raise(&lost);
    world.answer(ask, Decision::Allow).unwrap();
    world.close(&lost);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    assert!(is_asked(&mut world, &again(&lost, 2)));
}

#[test]
fn c1_the_agent_dies_and_the_resumed_session_uses_the_answer() {
    let mut world = world();
    let dying = Raise { instance: Some(instance(1)), call: Some("c1".to_owned()), ..raise(1, "a") };
    let (open, answered) =
        (world.raise(&dying), world.raise(&Raise { action: action("rm"), ..again(&dying, 2) }));
    world.answer(answered, Decision::Deny).unwrap();
    world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
    assert_eq!(world.outcome(open).cause, Cause::RequesterGone);
    assert_eq!(world.ask(answered).delivery, Delivery::Expired);
    assert!(matches!(world.answer(open, Decision::Allow), Err(Refusal::Late { .. })));
    assert!(world.state.session(&session("a")).unwrap().ended);
    let resumed = |raise: &Raise, n| Raise { instance: Some(instance(2)), call: None, ..again(raise, n) };
    let allowed = world.raise(&resumed(&dying, 3));
    assert_eq!(world.outcome(allowed).late_of, Some(open));
    let denied = world.raise(&Raise { action: action("rm"), ..resumed(&dying, 4) });
    assert_eq!(world.outcome(denied).late_of, Some(answered));
    assert!(!world.state.session(&session("a")).unwrap().ended);
}

#[test]
fn c1_a_requester_that_stopped_waiting_is_no_cancel() {
    for cause in [Cause::RequesterGone, Cause::RequesterLimit] {
        let mut world = world();
        let ask = world.raise(&raise(1, "a"));
        world.answer(ask, Decision::Allow).unwrap();
        world.withdraw(ask, cause).unwrap();
        assert_eq!(world.ask(ask).delivery, Delivery::Expired);
        let next = world.raise(&again(&raise(1, "a"), 2));
        assert_eq!(world.outcome(next).late_of, Some(ask));
    }
}

#[test]
fn c6_a_late_answer_survives_a_crash_and_reports_of_other_calls() {
    let mut world = world();
    let lost = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
    let ask = kept(&mut world, &lost, Decision::Allow);
    world.see("a", call_ended("c2"));
    world.run(&seen("b", cancelled(None))).unwrap();
    world.crash();
    let next = world.raise(&again(&lost, 2));
    assert_eq!(world.outcome(next).late_of, Some(ask));
}

#[test]
fn c10_what_may_have_reached_its_call_serves_no_other_call_of_the_same_process() {
    let lost = Raise { call: Some("c1".to_owned()), instance: Some(instance(1)), ..raise(1, "a") };
    let undelivered = |world: &mut World| {
        let ask = world.raise(&lost);
        world.answer(ask, Decision::Allow).unwrap();
        world.close(&lost);
        world.pass(60_000);
        assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    };
    let other_call = Raise { call: Some("c2".to_owned()), ..again(&lost, 2) };
    for (next, asked) in [
        (other_call.clone(), true),
        (again(&lost, 2), false),
        (Raise { instance: Some(instance(2)), ..other_call }, false),
    ] {
        let mut world = world();
        undelivered(&mut world);
        assert_eq!(is_asked(&mut world, &next), asked, "{:?} {:?}", next.call, next.instance);
    }
}

#[test]
fn c5_what_a_requester_may_have_heard_serves_no_other_one() {
    use askd_core::ask::RequesterKind;
    for kind in [RequesterKind::Script, RequesterKind::Library, RequesterKind::Proxy, RequesterKind::Spool] {
        let lost = Raise { kind, grace_ms: 0, instance: Some(instance(1)), ..raise(1, "a") };
        // It read the reply, did what it was allowed to do, and said nothing of it.
        let heard = || {
            let mut world = world();
            let ask = world.raise(&lost);
            world.answer(ask, Decision::Allow).unwrap();
            world.close(&lost);
            assert_eq!(world.ask(ask).delivery, Delivery::Expired);
            (world, ask)
        };
        let (mut world, ask) = heard();
        assert!(is_asked(&mut world, &again(&lost, 2)), "{kind:?}");
        // The same request asks again, because it lost the reply.
        let same = world.raise(&Raise { key: lost.key.clone(), token: lost.token, ..again(&lost, 3) });
        assert_eq!(world.outcome(same).late_of, Some(ask), "{kind:?}");
        // Another one that gave itself the same key.
        let (mut world, _) = heard();
        assert!(is_asked(&mut world, &Raise { key: lost.key.clone(), ..again(&lost, 2) }), "{kind:?}");
        // The same one with another request.
        assert!(is_asked(&mut world, &Raise { token: lost.token, ..again(&lost, 3) }), "{kind:?}");
        // Who told it is not known after a crash.
        let (mut world, _) = heard();
        world.crash();
        assert!(is_asked(&mut world, &again(&lost, 2)), "{kind:?}");
        // Every run of a script is another process; that of an agent is not.
        let (mut world, _) = heard();
        let other = Raise { instance: Some(instance(2)), ..again(&lost, 2) };
        assert_eq!(is_asked(&mut world, &other), kind == RequesterKind::Script, "{kind:?}");
    }
}

#[test]
fn c1_what_was_decided_while_the_requester_was_away_serves_the_same_call() {
    let lost = Raise { grace_ms: 10_000, ..raise(1, "a") };
    let away = |then: fn(&mut World, &Raise)| {
        let lost = lost.clone();
        let mut world = world();
        let ask = world.raise(&lost);
        world.close(&lost);
        world.answer(ask, Decision::Allow).unwrap();
        then(&mut world, &lost);
        world.pass(30_000);
        assert_eq!(world.ask(ask).delivery, Delivery::Expired);
        is_asked(&mut world, &again(&lost, 2))
    };
    assert!(!away(|_, _| {}));
    // It came back and heard it.
    assert!(away(|world, lost| {
        world.raise(lost);
        world.close(lost);
    }));
    // A crash, in which it may have come back and gone again.
    assert!(away(|world, _| world.crash()));
    // It was there when the daemon was killed, and nobody saw it go.
    let mut world = world();
    let ask = world.raise(&lost);
    world.crash();
    world.answer(ask, Decision::Allow).unwrap();
    world.pass(30_000);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    assert!(is_asked(&mut world, &again(&lost, 2)));
}

#[test]
fn c6_the_span_ends_by_the_clock_and_not_by_a_tick() {
    // Nobody has acted on its end yet.
    for (late, counts) in [(59_999, true), (60_000, false)] {
        let mut world = world();
        let lost = hook(1, "a");
        let ask = world.raise(&lost);
        world.close(&lost);
        world.stall(late);
        assert_eq!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { .. })), counts);

        let mut world = self::world();
        kept(&mut world, &lost, Decision::Allow);
        world.stall(late);
        assert_eq!(is_asked(&mut world, &again(&lost, 2)), !counts);
    }
}

#[test]
fn c6_a_finished_ask_that_is_read_back_keeps_nothing_and_waits_for_nothing() {
    let mut world = world();
    let lost = hook(1, "a");
    let ask = world.raise(&lost);
    world.close(&lost);
    world.pass(60_000);
    assert!(world.state.ask(ask).is_none());
    let state = world.recalled(ask);
    assert_eq!(state.poll_timeout(world.now), None);
    let answer = crate::common::make::answer(ask, world.ask(ask).ask.digest, Decision::Allow);
    world.step_wall(-28_800_000);
    assert_eq!(world.run(&Command::Answer(answer)), Err(Refusal::AlreadySettled(ask)));
    assert_eq!(world.story(ask), ["asked", "withdrawn"]);
}
