//! Clocks: deadlines, graces and limits on the boot clock; wall time only across boots.

use askd_core::{AskId, Cause, Command, Decision, Delivery, OutcomeKind, Raise, Settings};

use crate::common::World;
use crate::common::make::{again, background, hook, id, own_prompt, raise};

const EIGHT_HOURS: i64 = 28_800_000;

fn world() -> World {
    World::new(Settings::default())
}

/// One of everything that waits for a time, all due at 60 s.
fn everything(world: &mut World) -> [AskId; 5] {
    let timed = world.raise(&background(1, "a", 60_000));
    let gives_up = world.raise(&Raise { gives_up_ms: Some(60_000), ..raise(2, "a") });
    let away = raise(3, "a");
    let lost = world.raise(&away);
    world.close(&away);
    let undelivered = raise(4, "a");
    let answered = world.raise(&undelivered);
    world.answer(answered, Decision::Allow).unwrap();
    world.close(&undelivered);
    let dead = Raise { call: Some("c".to_owned()), ..hook(5, "a") };
    let kept = world.raise(&dead);
    world.close(&dead);
    let _ = world.answer(kept, Decision::Deny);
    [timed, gives_up, lost, answered, kept]
}

fn all_happened(world: &World, [timed, gives_up, lost, answered, kept]: [AskId; 5]) -> bool {
    let causes = [timed, gives_up, lost].map(|ask| world.ask(ask).outcome.as_ref().map(|o| o.cause));
    let expected = [Cause::Timed, Cause::RequesterLimit, Cause::RequesterGone].map(Some);
    let over = world.story(kept).last() == Some(&"late_revoked");
    let happened = [causes == expected, world.ask(answered).delivery == Delivery::Expired, over];
    assert!(happened.iter().all(|h| *h) || happened.iter().all(|h| !*h), "{happened:?} {causes:?}");
    happened[0]
}

#[test]
fn c1_t4_a_stepped_wall_clock_moves_nothing() {
    for step in [EIGHT_HOURS, -EIGHT_HOURS] {
        let mut world = world();
        let asks = everything(&mut world);
        let due = world.state.poll_timeout(world.now);
        world.step_wall(step);
        assert_eq!(world.state.poll_timeout(world.now), due);
        world.pass(59_999);
        assert!(!all_happened(&world, asks), "a step of {step} ms made something early");
        world.step_wall(-step / 2);
        world.pass(1);
        assert!(all_happened(&world, asks), "a step of {step} ms made something late");
    }
}

#[test]
fn t4_wall_time_counts_across_a_reboot_and_no_step_moves_anything_afterwards() {
    for step in [0, EIGHT_HOURS, -EIGHT_HOURS] {
        let mut world = world();
        let ask = world.raise(&background(1, "a", 360_000));
        world.pass(60_000);
        world.reboot(100_000);
        assert_eq!(world.state.poll_timeout(world.now), Some((60_000, "grace")), "its own grace begins anew");
        world.raise(&Raise { id: id(77), ..background(1, "a", 360_000) });
        world.step_wall(step);
        assert_eq!(world.state.poll_timeout(world.now), Some((200_000, "deadline")));
        // Whatever touches the ask must not look at the wall again.
        world.run(&Command::Shown { ask, surface: "terminal".to_owned(), remote: false }).unwrap();
        assert_eq!(world.state.poll_timeout(world.now), Some((200_000, "deadline")));
        world.pass(199_999);
        assert!(world.ask(ask).is_open());
        world.pass(1);
        let outcome = world.outcome(ask);
        assert_eq!((outcome.cause, outcome.after_ms), (Cause::Timed, 360_000));
    }
}

#[test]
fn t4_a_wall_clock_that_ran_backwards_over_a_reboot_is_no_time_passed() {
    let mut world = world();
    let ask = world.raise(&background(1, "a", 60_000));
    world.step_wall(-EIGHT_HOURS);
    world.reboot(0);
    world.raise(&Raise { id: id(77), ..background(1, "a", 60_000) });
    world.pass(59_999);
    assert!(world.ask(ask).is_open());
    world.pass(1);
    assert_eq!(world.outcome(ask).cause, Cause::Timed);
}

#[test]
fn t4_sleep_counts_and_what_was_due_first_has_happened_first() {
    // The requester was lost and its grace had run out before the deadline came: that nobody was there is the truth.
    let mut world = world();
    let raise = background(1, "a", 360_000);
    let ask = world.raise(&raise);
    world.close(&raise);
    world.suspend(3_600_000);
    world.settle();
    assert_eq!(world.outcome(ask).cause, Cause::RequesterGone);
    // The deadline was first, then the requester's own limit.
    let ask = world.raise(&Raise { gives_up_ms: Some(361_000), ..background(2, "a", 360_000) });
    world.suspend(3_600_000);
    world.settle();
    assert_eq!((world.outcome(ask).kind, world.outcome(ask).cause), (OutcomeKind::Denied, Cause::Timed));
    // And the other way round, over a reboot too.
    for reboot in [false, true] {
        let ask = world
            .raise(&Raise { gives_up_ms: Some(359_000), ..background(3 + u32::from(reboot), "a", 360_000) });
        if reboot {
            world.reboot(3_600_000);
        } else {
            world.suspend(3_600_000);
        }
        world.settle();
        assert_eq!(world.outcome(ask).cause, Cause::RequesterLimit);
    }
}

#[test]
fn c1_after_a_restart_everyone_has_thirty_seconds_to_come_back() {
    for (grace, back) in [(0, 30_000), (5_000, 30_000), (60_000, 60_000)] {
        for raise in [Raise { grace_ms: grace, ..raise(1, "a") }, Raise { grace_ms: grace, ..hook(1, "a") }] {
            let mut world = world();
            let ask = world.raise(&raise);
            world.crash();
            world.pass(back - 1);
            assert_eq!(world.raise(&Raise { id: id(77), ..raise.clone() }), ask);
            world.crash();
            world.pass(back);
            assert_eq!(world.outcome(ask).cause, Cause::RequesterGone);
        }
    }
}

#[test]
fn t20_a_limit_or_deadline_hands_back_to_an_agent_that_asks_by_itself() {
    let by_itself = |n| Raise { own_prompt: Some(own_prompt(false)), ..raise(n, "a") };
    let limited = Raise { gives_up_ms: Some(5_000), ..by_itself(1) };
    let mut timed = Raise { own_prompt: Some(own_prompt(false)), ..background(2, "a", 1) };
    timed.deadline_ms = None;
    let mut world = world();
    let asks = [limited, timed].map(|r| world.raise(&r));
    world.pass(360_000);
    for ask in asks {
        assert!(world.ask(ask).is_open() && world.ask(ask).is_handed_back());
    }
    assert_eq!(world.state.poll_timeout(world.now), None, "nothing is left to wait for");
    // A timeout that somebody set is an answer there too.
    let set = Raise { own_prompt: Some(own_prompt(false)), ..background(3, "a", 60_000) };
    let ask = world.raise(&set);
    world.pass(60_000);
    assert_eq!(world.outcome(ask).cause, Cause::Timed);
}

#[test]
fn c1_an_undelivered_answer_waits_out_the_grace_and_then_the_late_span() {
    let mut world = world();
    let raise = raise(1, "a");
    let ask = world.raise(&raise);
    world.answer(ask, Decision::Allow).unwrap();
    world.close(&raise);
    world.pass(59_999);
    assert_eq!(world.ask(ask).delivery, Delivery::Pending);
    world.pass(1);
    assert_eq!(world.ask(ask).delivery, Delivery::Expired);
    world.pass(59_999);
    // The same request, that it got the answer to nobody knows.
    let next = world.raise(&Raise { key: raise.key.clone(), token: raise.token, ..again(&raise, 2) });
    assert_eq!(world.outcome(next).late_of, Some(ask));
}

#[test]
fn nothing_open_means_no_wake_up() {
    let mut world = world();
    assert_eq!(world.state.poll_timeout(world.now), None);
    let ask = world.raise(&raise(1, "a"));
    assert_eq!(world.state.poll_timeout(world.now), None, "a person is not waited for by clock");
    world.answer(ask, Decision::Deny).unwrap();
    world.handed(ask).unwrap();
    world.close(&raise(1, "a"));
    assert_eq!(world.state.poll_timeout(world.now), None);
    assert!(world.state.ask(ask).is_none());
}

#[test]
fn c6_a_kept_answer_keeps_its_span_over_a_quick_reboot_and_a_stepped_clock() {
    for (step, then, counts) in
        [(EIGHT_HOURS, 9_999, true), (-EIGHT_HOURS, 9_999, true), (-EIGHT_HOURS, 10_000, false)]
    {
        let mut world = world();
        let lost = hook(1, "a");
        let ask = world.raise(&lost);
        world.close(&lost);
        let _ = world.answer(ask, Decision::Allow);
        world.pass(20_000);
        world.reboot(30_000);
        world.step_wall(step);
        world.pass(then);
        let next = world.raise(&again(&lost, 2));
        assert_eq!(!world.ask(next).is_open(), counts, "{step} {then}");
    }
}
