//! The races of lifecycle.md that the core decides.

use askd_core::ask::RequesterKind;
use askd_core::{
    AskId, Cause, Command, Decision, Delivery, LinkId, OutcomeKind, Raise, Refusal, Reply, Seen, Source,
    SurfaceId,
};
use askd_core::{Settings, Verdict};

use crate::common::World;
use crate::common::dice::Dice;
use crate::common::make::{
    action, again, background, call_ended, cancelled, child, hook, id, own_prompt, raise, subagent_started,
    surface, turn_ended,
};

fn world() -> World {
    World::new(Settings::default())
}

fn already(ask: AskId) -> Result<Reply, Refusal> {
    Err(Refusal::AlreadySettled(ask))
}

#[test]
fn c5_t1_opposite_answers_in_one_millisecond_settle_once_and_the_first_wins() {
    let mut dice = Dice(1);
    let mut world = world();
    for round in 0..10_000u32 {
        let ask = world.raise(&raise(round, "a"));
        let surfaces = 2 + dice.below(5);
        let first_allows = dice.once_in(2);
        for n in 0..surfaces {
            let allow = first_allows == (n % 2 == 0);
            let decision = if allow { Decision::Allow } else { Decision::Deny };
            let reply = world.answer_with(ask, decision, |a| {
                a.surface = format!("surface {n}");
                a.remote = n % 3 == 2;
            });
            assert_eq!(reply, if n == 0 { Ok(Reply::Settled(ask)) } else { already(ask) });
        }
        let outcome = world.outcome(ask);
        assert_eq!(outcome.kind == OutcomeKind::Allowed, first_allows);
        assert_eq!((outcome.cause, outcome.surface.as_deref()), (Cause::Person, Some("surface 0")));
        assert_eq!(world.story(ask), ["asked", "settled"]);
        world.handed(ask).unwrap();
        world.confirmed(ask).unwrap();
        assert!(world.state.ask(ask).is_none(), "a finished ask stays in memory");
        assert_eq!(world.answer(ask, Decision::Allow), already(ask));
    }
}

#[test]
fn t4_an_answer_against_the_deadline_whichever_is_first() {
    for decision in [Decision::Allow, Decision::Deny] {
        let mut world = world();
        let before = world.raise(&background(1, "a", 60_000));
        let at = world.raise(&background(2, "a", 60_000));
        let after = world.raise(&background(3, "a", 60_000));
        world.pass(59_999);
        world.answer(before, decision).unwrap();
        // The clock says that it is over and nobody has acted on that yet.
        world.stall(1);
        world.answer(at, decision).unwrap();
        world.settle();
        assert_eq!(world.answer(after, decision), already(after));
        for ask in [before, at] {
            assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (decision.into(), Cause::Person));
        }
        let timed = world.outcome(after);
        assert_eq!(
            (timed.kind, timed.cause, timed.source),
            (OutcomeKind::Denied, Cause::Timed, Some(Source::Timed))
        );
        assert_eq!(timed.after_ms, 60_000);
    }
}

#[test]
fn c6_an_answer_against_a_withdrawal_whichever_is_first() {
    for cause in [Cause::Cancelled, Cause::SessionEnded, Cause::Superseded] {
        let mut world = world();
        let ask = world.raise(&raise(1, "a"));
        world.withdraw(ask, cause).unwrap();
        assert_eq!(world.answer(ask, Decision::Allow), already(ask), "nothing is kept after {cause:?}");
        assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Withdrawn, cause));
        assert_eq!(world.outcome(ask).verdict(), Verdict::None);

        // The other way round the answer stands, and what was not handed over is void.
        let ask = world.raise(&raise(2, "a"));
        world.answer(ask, Decision::Allow).unwrap();
        world.withdraw(ask, cause).unwrap();
        assert_eq!(world.outcome(ask).cause, Cause::Person);
        assert_eq!(world.ask(ask).delivery, Delivery::Voided);
    }
}

#[test]
fn c6_a_cancel_voids_every_allow_of_its_tree_that_was_not_handed_over() {
    let mut world = world();
    world.see("a", subagent_started("w1", None, None));
    world.see("a", subagent_started("w2", None, Some("w1")));
    let below = |n, work| Raise { subagent: Some(child(work)), ..raise(n, "a") };
    let grandchild = Raise { parent: Some(crate::common::make::session("a")), ..raise(4, "b") };
    let asks =
        [raise(1, "a"), below(2, "w1"), below(3, "w2"), grandchild, raise(5, "c")].map(|r| world.raise(&r));
    for ask in asks {
        world.answer(ask, Decision::Allow).unwrap();
    }
    let late = world.raise(&raise(6, "a"));
    world.answer(late, Decision::Allow).unwrap();
    world.handed(late).unwrap();
    // One subagent and what it started.
    world.see("a", cancelled(Some("w1")));
    let deliveries = |world: &World| asks.map(|ask| world.ask(ask).delivery);
    use Delivery::{Handed, Pending, Voided};
    assert_eq!(deliveries(&world), [Pending, Voided, Voided, Pending, Pending]);
    // The whole tree, and nothing beside it.
    world.see("a", cancelled(None));
    assert_eq!(deliveries(&world), [Voided, Voided, Voided, Voided, Pending]);
    assert_eq!(world.ask(late).delivery, Handed, "what was handed over before is history");
    for ask in &asks[..4] {
        assert!(world.handed(*ask).is_err(), "a void allow cannot be handed over");
        assert!(world.confirmed(*ask).is_err());
        assert_eq!(world.story(*ask), ["asked", "settled", "voided"]);
    }
}

#[test]
fn c6_a_cancel_voids_an_allow_whose_requester_was_lost() {
    let mut world = world();
    let lost = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
    let ask = world.raise(&lost);
    world.answer(ask, Decision::Allow).unwrap();
    world.close(&lost);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    world.see("a", cancelled(None));
    assert_eq!(world.ask(ask).delivery, Delivery::Voided);
    assert!(world.handed(ask).is_err(), "the requester came back after the cancel");
    let new = world.raise(&again(&lost, 2));
    assert!(world.ask(new).is_open(), "the person is asked again");
}

#[test]
fn c1_the_requester_dies_before_or_after_the_answer() {
    // Before: nobody was denied, and a late answer serves the same call asking again.
    let mut world = world();
    let dying = hook(1, "a");
    let ask = world.raise(&dying);
    world.close(&dying);
    assert_eq!(
        (world.outcome(ask).kind, world.outcome(ask).cause),
        (OutcomeKind::Withdrawn, Cause::RequesterGone)
    );
    assert_eq!(world.outcome(ask).reason_for_model(), None);
    assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { for_ms: 60_000, .. })));
    let next = world.raise(&again(&dying, 2));
    assert_eq!((world.outcome(next).kind, world.outcome(next).late_of), (OutcomeKind::Allowed, Some(ask)));

    // After: it is kept undelivered, and not asked again.
    let dying = Raise { call: Some("c9".to_owned()), action: action("rm"), ..hook(3, "a") };
    let ask = world.raise(&dying);
    world.answer(ask, Decision::Deny).unwrap();
    world.close(&dying);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    let next = world.raise(&again(&dying, 4));
    assert_eq!((world.outcome(next).kind, world.outcome(next).late_of), (OutcomeKind::Denied, Some(ask)));
}

#[test]
fn c2_coming_back_against_the_grace() {
    let raise = raise(1, "a");
    for (away, comes_back) in [(0, true), (59_999, true), (60_000, false)] {
        let mut world = world();
        let ask = world.raise(&raise);
        world.close(&raise);
        world.pass(away);
        let back = Raise { id: id(77), ..raise.clone() };
        assert_eq!(world.raise(&back) == ask, comes_back, "after {away} ms");
        assert_eq!(world.ask(ask).is_open(), comes_back);
    }
    // Nobody has acted on the end of the grace yet: who comes back is back.
    let mut world = world();
    let ask = world.raise(&raise);
    world.close(&raise);
    world.stall(60_000);
    assert_eq!(world.raise(&Raise { id: id(77), ..raise.clone() }), ask);
    world.settle();
    assert!(world.ask(ask).is_open());
    assert_eq!(world.story(ask), ["asked", "detached", "reattached"]);
}

#[test]
fn c2_an_answer_while_the_requester_is_away_is_found_by_the_retry() {
    for restart in [false, true] {
        let mut world = world();
        let raise = raise(1, "a");
        let ask = world.raise(&raise);
        world.close(&raise);
        world.pass(30_000);
        world.answer(ask, Decision::Deny).unwrap();
        if restart {
            world.crash();
        }
        let reply = world.run(&Command::Raise(Box::new(Raise { id: id(77), ..raise.clone() })));
        assert_eq!(reply, Ok(Reply::Reattached(ask)));
        assert_eq!(world.outcome(ask).kind, OutcomeKind::Denied);
        assert_eq!(world.ask(ask).delivery, Delivery::Pending);
        world.handed(ask).unwrap();
        assert_eq!(world.state.open().count(), 0);
    }
}

#[test]
fn c5_what_was_settled_while_the_requester_was_away_is_not_asked_again() {
    // Its own prompt decided, or the turn was cancelled: whoever comes back hears that.
    for (what, cause) in [(call_ended("c1"), Cause::Agent), (cancelled(None), Cause::Cancelled)] {
        let mut world = world();
        let raise = Raise { call: Some("c1".to_owned()), ..raise(1, "a") };
        let ask = world.raise(&raise);
        world.close(&raise);
        world.see("a", what);
        assert_eq!(world.outcome(ask).cause, cause);
        let back = world.run(&Command::Raise(Box::new(Raise { id: id(77), ..raise.clone() })));
        assert_eq!(back, Ok(Reply::Reattached(ask)));
        assert_eq!(world.outcome(ask).verdict(), Verdict::None);
        assert_eq!(world.state.open().count(), 0);
    }
}

#[test]
fn t10_a_remote_decline_that_waited_during_sleep_beats_the_timer() {
    let settings = Settings { background_default: Decision::Allow, remotes: 1, ..Settings::default() };
    let mut world = World::new(settings.clone());
    world.run(&surface("telegram", true)).unwrap();
    let ask = world.raise(&background(1, "a", 60_000));
    world.suspend(3_600_000);
    world.pass(5_000);
    assert!(world.ask(ask).is_open(), "no overdue default before the remote was polled");
    world.answer_with(ask, Decision::Deny, |a| a.remote = true).unwrap();
    world.run(&Command::RemotePolled { surface: SurfaceId("telegram".to_owned()) }).unwrap();
    world.settle();
    let outcome = world.outcome(ask);
    assert_eq!((outcome.kind, outcome.source), (OutcomeKind::Denied, Some(Source::Remote)));

    // Nothing waited there: the default applies as soon as that is known, or after 10 s.
    for (polled, after) in [(true, 0), (false, 10_000)] {
        let mut world = World::new(settings.clone());
        world.run(&surface("telegram", true)).unwrap();
        let ask = world.raise(&background(1, "a", 60_000));
        world.suspend(3_600_000);
        world.settle();
        if polled {
            world.run(&Command::RemotePolled { surface: SurfaceId("telegram".to_owned()) }).unwrap();
        } else {
            world.pass(9_999);
            assert!(world.ask(ask).is_open());
            world.pass(1);
        }
        world.settle();
        assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Allowed, Cause::Timed));
        assert_eq!(world.outcome(ask).at.boot_ms, 1_000_000 + 3_600_000 + after);
    }
}

#[test]
fn t10_what_ends_later_does_not_overtake_a_deadline_that_waits_for_the_remote() {
    let settings = Settings { remotes: 1, ..Settings::default() };
    let mut world = World::new(settings);
    let ask = world.raise(&Raise { gives_up_ms: Some(90_000), ..background(1, "a", 60_000) });
    world.suspend(3_600_000);
    world.pass(9_000);
    assert!(world.ask(ask).is_open());
    world.answer_with(ask, Decision::Deny, |a| a.remote = true).unwrap();
    assert_eq!(world.outcome(ask).source, Some(Source::Remote));
}

#[test]
fn t1_an_overdue_allow_needs_its_requester() {
    let settings = Settings { background_default: Decision::Allow, ..Settings::default() };
    let mut world = World::new(settings);
    let raise = Raise { grace_ms: 600_000, ..background(1, "a", 60_000) };
    let ask = world.raise(&raise);
    world.close(&raise);
    world.pass(300_000);
    assert!(world.ask(ask).is_open(), "never a timed allow for a requester that is not there");
    world.raise(&Raise { id: id(77), ..raise.clone() });
    world.settle();
    assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Allowed, Cause::Timed));
    // A dead one gets no default at all.
    let raise = Raise { grace_ms: 600_000, key: "other".to_owned(), id: id(88), ..raise };
    let ask = world.raise(&raise);
    world.close(&raise);
    world.pass(600_000);
    assert_eq!(world.outcome(ask).cause, Cause::RequesterGone);
}

#[test]
fn c11_the_agents_own_prompt_against_a_deny() {
    let with_call =
        Raise { call: Some("c1".to_owned()), own_prompt: Some(own_prompt(false)), ..hook(1, "a") };
    // Before the deny: learned, and the deny is refused.
    let mut world = world();
    let ask = world.raise(&with_call);
    world.see("a", call_ended("c1"));
    assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Allowed, Cause::Agent));
    assert_eq!(world.outcome(ask).verdict(), Verdict::None, "never sent back as a decision");
    assert_eq!(world.answer(ask, Decision::Deny), already(ask));

    // After it, at whatever stage the delivery is, also long after the requester was lost, also over a restart.
    type Stage = fn(&mut World, AskId, &Raise);
    let stages: [Stage; 6] = [
        |_, _, _| {},
        |world, ask, _| {
            world.handed(ask).unwrap();
        },
        |world, ask, raise| {
            world.handed(ask).unwrap();
            world.close(raise);
        },
        |world, _, raise| world.close(raise),
        |world, _, raise| {
            world.close(raise);
            world.pass(600_000);
        },
        |world, ask, _| {
            world.handed(ask).unwrap();
            world.crash();
            world.pass(600_000);
        },
    ];
    for (n, stage) in stages.iter().enumerate() {
        let mut world = self::world();
        let ask = world.raise(&with_call);
        world.answer(ask, Decision::Deny).unwrap();
        stage(&mut world, ask, &with_call);
        world.see("a", call_ended("c1"));
        assert_eq!(world.ask(ask).delivery, Delivery::Overtaken, "stage {n}");
        assert_eq!(world.outcome(ask).kind, OutcomeKind::Denied, "the log says both");
        assert_eq!(world.story(ask).last(), Some(&"overtaken"));
        // Whoever still waits hears that there is nothing for it.
        assert_eq!(world.ask(ask).verdict(), Verdict::None);
        world.run(&Command::Heard { ask }).unwrap();
        assert!(world.state.ask(ask).is_none(), "stage {n}");
    }
}

#[test]
fn c4_c5_what_ended_between_two_requests_is_heard_by_the_second_and_not_asked_again() {
    let asks = Raise { call: Some("c1".to_owned()), ..raise(1, "a") };
    type End = fn(&mut World, AskId);
    let ends: [(End, Cause); 5] = [
        (
            |w, ask| {
                w.run(&Command::Dismiss { ask, by: "you".to_owned() }).unwrap();
            },
            Cause::Cancelled,
        ),
        (|w, _| w.see("a", cancelled(None)), Cause::Cancelled),
        (|w, _| w.see("a", turn_ended(None)), Cause::Cancelled),
        (|w, _| w.see("a", call_ended("c1")), Cause::Agent),
        (|w, _| w.see("a", Seen::SessionEnded), Cause::SessionEnded),
    ];
    for (n, (end, cause)) in ends.into_iter().enumerate() {
        for hook in [false, true] {
            let asks = if hook {
                Raise { grace_ms: 0, kind: RequesterKind::Hook, ..asks.clone() }
            } else {
                asks.clone()
            };
            let mut world = world();
            let ask = world.raise(&asks);
            end(&mut world, ask);
            world.pass(29_999);
            // The next request on the same connection.
            assert_eq!(world.raise(&Raise { id: id(50), ..asks.clone() }), ask, "{n}");
            assert_eq!((world.outcome(ask).cause, world.ask(ask).verdict()), (cause, Verdict::None));
            // Its reply was lost, and it asks once more.
            assert_eq!(world.raise(&Raise { id: id(51), link: LinkId(51), ..asks.clone() }), ask);
            // Now it knows. Whoever asks then asks anew.
            world.run(&Command::Heard { ask }).unwrap();
            assert_eq!(world.state.asks().count(), 0);
            assert_eq!(world.raise(&Raise { id: id(52), link: LinkId(52), ..asks.clone() }), id(52));
        }
    }
    // Who never comes is not waited for without end, nor is one whose only connection has closed.
    let mut world = world();
    let ask = world.raise(&asks);
    world.see("a", cancelled(None));
    world.pass(60_000);
    assert!(world.state.ask(ask).is_none());
    let hook = hook(2, "a");
    let ask = world.raise(&hook);
    world.see("a", cancelled(None));
    world.close(&hook);
    assert!(world.state.ask(ask).is_none());
    // What it took back itself it may ask again.
    let ask = world.raise(&asks);
    world.withdraw(ask, Cause::Cancelled).unwrap();
    assert_eq!(world.raise(&Raise { id: id(60), ..asks.clone() }), id(60));
}

#[test]
fn c1_c4_what_was_answered_and_then_cancelled_while_its_requester_was_away_is_not_asked_again() {
    for decision in [Decision::Allow, Decision::Deny] {
        for over_a_restart in [false, true] {
            let asks = raise(1, "a");
            let mut world = world();
            let ask = world.raise(&asks);
            world.close(&asks);
            world.answer(ask, decision).unwrap();
            world.see("a", cancelled(None));
            if over_a_restart {
                world.crash();
            }
            let back = Raise { id: id(50), link: LinkId(50), ..asks.clone() };
            assert_eq!(world.raise(&back), ask, "{decision:?}");
            assert_eq!(world.ask(ask).verdict(), Verdict::None, "a cancel voids consent");
            world.run(&Command::Heard { ask }).unwrap();
            assert!(world.state.ask(ask).is_none());
            // After its grace it is another one.
            let asks = raise(2, "a");
            let ask = world.raise(&asks);
            world.close(&asks);
            world.answer(ask, decision).unwrap();
            world.see("a", cancelled(None));
            world.pass(60_000);
            assert_eq!(world.raise(&Raise { id: id(51), link: LinkId(51), ..asks }), id(51));
        }
    }
}

#[test]
fn c11_an_answer_to_a_call_that_its_own_prompt_decided_is_not_kept() {
    for answered_before in [false, true] {
        let mut world = world();
        let killed = Raise { call: Some("c1".to_owned()), ..hook(1, "a") };
        let ask = world.raise(&killed);
        world.close(&killed);
        if answered_before {
            assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::Late { .. })));
        }
        world.see("a", call_ended("c1"));
        if !answered_before {
            assert_eq!(world.answer(ask, Decision::Allow), already(ask));
        }
        let next = world.raise(&Raise { call: None, ..again(&killed, 2) });
        assert!(world.ask(next).is_open(), "the same command again is another call");
    }
}

#[test]
fn c11_handed_back_stays_listed_until_an_observation_settles_it() {
    let mut world = world();
    let raise = Raise { call: Some("c1".to_owned()), own_prompt: Some(own_prompt(false)), ..hook(1, "a") };
    let ask = world.raise(&raise);
    world.withdraw(ask, Cause::HandedBack).unwrap();
    world.withdraw(ask, Cause::HandedBack).unwrap();
    world.close(&raise);
    world.pass(3_600_000);
    assert_eq!(
        world.answer(ask, Decision::Allow),
        Err(Refusal::HandedBack { ask, at: "terminal".to_owned() })
    );
    assert_eq!((world.state.open().count(), world.state.waiting(world.ask(ask).session())), (1, 1));
    world.crash();
    assert!(world.ask(ask).is_handed_back());
    world.see("a", call_ended("c1"));
    assert_eq!((world.outcome(ask).cause, world.state.open().count()), (Cause::Agent, 0));
    assert_eq!(world.story(ask), ["asked", "handed_back", "settled"]);
}

#[test]
fn c11_a_call_that_asks_two_things_is_settled_by_its_end_and_not_by_one_answer() {
    let mut world = world();
    let first = Raise { call: Some("c1".to_owned()), ..raise(1, "a") };
    let second = Raise { call: Some("c1".to_owned()), ..raise(2, "a") };
    let asks = [first, second].map(|r| world.raise(&r));
    world.see("a", Seen::OwnPromptAnswered { call: "c1".to_owned(), allowed: false });
    assert!(asks.iter().all(|ask| world.ask(*ask).is_open()), "which one was answered is not known");
    world.see("a", call_ended("c1"));
    assert!(asks.iter().all(|ask| world.outcome(*ask).cause == Cause::Agent));
}

#[test]
fn f5_that_a_yes_lies_in_a_forwarding_directory_does_not_say_that_it_was_fetched() {
    let mut world = world();
    let forwarded = Raise { kind: RequesterKind::Spool, call: Some("c1".to_owned()), ..raise(1, "a") };
    let ask = world.raise(&forwarded);
    world.answer(ask, Decision::Allow).unwrap();
    world.see("a", Seen::OwnPromptAnswered { call: "c1".to_owned(), allowed: true });
    assert_eq!(world.ask(ask).delivery, Delivery::Pending);
    // That somebody else's no lies there instead is another matter.
    world.see("a", Seen::OwnPromptAnswered { call: "c1".to_owned(), allowed: false });
    assert_eq!(world.ask(ask).delivery, Delivery::Overtaken);
}

#[test]
fn c5_a_surface_that_answers_twice_an_hour_late_never_or_fails_after_it_showed() {
    let mut world = world();
    let shown = |ask, surface: &str| Command::Shown { ask, surface: surface.to_owned(), remote: false };
    let ask = world.raise(&raise(1, "a"));
    let other = world.raise(&raise(2, "a"));
    for name in ["telegram", "terminal"] {
        world.run(&shown(ask, name)).unwrap();
        world.run(&shown(ask, name)).unwrap();
    }
    let failed = Command::SurfaceFailed { ask, surface: "telegram".to_owned(), reason: "gone".to_owned() };
    world.run(&failed).unwrap();
    assert!(world.ask(ask).is_open(), "a surface that failed is no answer");
    world.answer(ask, Decision::Deny).unwrap();
    for decision in [Decision::Deny, Decision::Allow] {
        assert_eq!(world.answer(ask, decision), already(ask));
    }
    world.handed(ask).unwrap();
    let story = world.story(ask);
    world.pass(3_600_000);
    assert_eq!(world.answer(ask, Decision::Allow), already(ask));
    assert_eq!(world.run(&failed), Err(Refusal::AlreadySettled(ask)));
    assert_eq!(world.story(ask), story, "late words change nothing");
    assert_eq!(story, ["asked", "shown", "shown", "surface_failed", "settled", "handed"]);
    assert!(world.ask(other).is_open(), "silence is not an answer");
}

#[test]
fn c5_a_turn_that_ends_by_itself_decides_nothing() {
    let mut world = world();
    let ask = world.raise(&Raise { call: Some("c1".to_owned()), ..raise(1, "a") });
    let of_child = world.raise(&Raise { subagent: Some(child("w1")), ..raise(2, "a") });
    world.see("a", turn_ended(None));
    assert_eq!(
        (world.outcome(ask).kind, world.outcome(ask).cause),
        (OutcomeKind::Withdrawn, Cause::Cancelled)
    );
    assert!(world.ask(of_child).is_open(), "a child may still be asking");
}

#[test]
fn c5_a_request_read_late_from_an_old_connection_takes_nothing_over() {
    let mut world = world();
    let old = Raise { link: LinkId(5), ..raise(1, "a") };
    let ask = world.raise(&Raise { link: LinkId(9), ..old.clone() });
    world.raise(&Raise { id: id(77), ..old.clone() });
    world.close(&old);
    assert!(world.ask(ask).is_attached(), "the newer connection still waits");
}
