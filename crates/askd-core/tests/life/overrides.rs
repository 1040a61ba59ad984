//! What a person makes stricter: it holds for every session, and outlives the end of a session and of the daemon.

use askd_core::ask::{AtDeadline, Attendance};
use askd_core::{AskId, Cause, Command, Decision, Overrides, Raise, Seen, Settings};

use crate::common::World;
use crate::common::make::{background, instance, raise, session};

fn set(world: &mut World, of: Option<&str>, overrides: Overrides) {
    let session = of.map(session);
    world.run(&Command::SetOverrides { session, overrides, by: "you".to_owned() }).unwrap();
}

fn skip(skip: bool) -> Overrides {
    Overrides { skip: Some(skip), ..Overrides::default() }
}

fn default(decision: Decision) -> Overrides {
    Overrides { background_default: Some(decision), ..Overrides::default() }
}

/// Whether a new tool ask waits for a person.
fn waits(world: &mut World, n: u32, of: &str) -> bool {
    let ask = world.raise(&raise(n, of));
    let open = world.ask(ask).is_open();
    assert!(open || world.outcome(ask).cause == Cause::Skip);
    open
}

fn timed(world: &World, ask: AskId) -> AtDeadline {
    world.ask(ask).ask.policy.at_deadline
}

#[test]
fn s2_what_a_person_made_stricter_for_a_session_holds_again_when_that_one_goes_on() {
    type End = fn(&mut World);
    let ends: [End; 4] = [
        |w| w.see("a", Seen::SessionEnded),
        |w| {
            w.run(&Command::AgentGone { instance: instance(1) }).unwrap();
        },
        |w| {
            w.run(&Command::Tidy { idle_ms: 0, most: 0 }).unwrap();
        },
        |w| {
            w.see("a", Seen::SessionEnded);
            w.restart();
            set(w, None, skip(true));
        },
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let mut world = World::new(Settings::default());
        set(&mut world, None, skip(true));
        set(&mut world, None, default(Decision::Allow));
        let first = Raise { instance: (n != 2).then(|| instance(1)), ..raise(1, "a") };
        world.raise(&first);
        let stricter = Overrides {
            skip: Some(false),
            background_timeout_ms: Some(3_600_000),
            ..default(Decision::Deny)
        };
        set(&mut world, Some("a"), stricter);
        assert!(waits(&mut world, 2, "a"));
        if n == 2 {
            world.handed(first.id).unwrap();
            world.close(&first);
            world.withdraw(raise(2, "a").id, Cause::Cancelled).unwrap();
        }
        end(&mut world);
        assert!(world.state.session(&session("a")).is_none_or(|s| s.ended), "{n}");
        assert!(!waits(&mut world, 3, "other"), "{n}");
        assert!(waits(&mut world, 4, "a"), "{n}: skipping stays off where a person said so");
        let of_a = Raise { deadline_ms: None, ..background(5, "a", 1) };
        let ask = world.raise(&of_a);
        assert_eq!(timed(&world, ask), AtDeadline::Answer(Decision::Deny), "{n}");
        assert_eq!(world.ask(ask).ask.policy.deadline_ms, Some(3_600_000), "{n}");
        // Until the person says otherwise.
        set(&mut world, Some("a"), skip(true));
        assert!(!waits(&mut world, 6, "a"), "{n}");
        world.see("a", Seen::SessionEnded);
        set(&mut world, None, skip(false));
        assert!(waits(&mut world, 7, "a"), "{n}: what loosens ends with the session");
    }
}

#[test]
fn s2_what_is_stricter_for_every_session_holds_also_where_one_had_it_looser() {
    let mut world = World::new(Settings::default());
    world.raise(&raise(1, "a"));
    world.raise(&raise(2, "b"));
    set(&mut world, Some("a"), skip(true));
    set(&mut world, Some("a"), default(Decision::Allow));
    assert!(!waits(&mut world, 3, "a"));
    set(&mut world, None, skip(false));
    assert!(waits(&mut world, 4, "a"));
    let in_background = |n| Raise { attendance: Some(Attendance::Background), ..raise(n, "a") };
    let ask = world.raise(&in_background(5));
    assert_eq!(timed(&world, ask), AtDeadline::Answer(Decision::Allow), "that was not taken back");
    set(&mut world, None, default(Decision::Deny));
    let ask = world.raise(&in_background(6));
    assert_eq!(timed(&world, ask), AtDeadline::Answer(Decision::Deny));
    // Also after a restart, and until somebody says so again for that session.
    world.restart();
    assert!(waits(&mut world, 7, "a"));
    set(&mut world, Some("a"), skip(true));
    assert!(!waits(&mut world, 8, "a") && waits(&mut world, 9, "b"));
    // Each is in the journal.
    let names = world.history.iter().map(|record| record.event.name());
    assert_eq!(names.filter(|name| name.starts_with("overrides")).count(), 7);
}

#[test]
fn s2_what_is_stricter_for_every_session_outlives_the_daemon_and_what_is_looser_does_not() {
    let config = Settings { skip: true, background_default: Decision::Allow, ..Settings::default() };
    let mut world = World::new(config);
    assert!(!waits(&mut world, 1, "a"));
    set(&mut world, None, skip(false));
    set(&mut world, None, default(Decision::Deny));
    world.crash();
    assert!(waits(&mut world, 2, "a"));
    let of_b = Raise { deadline_ms: None, ..background(3, "b", 1) };
    let ask = world.raise(&of_b);
    assert_eq!(timed(&world, ask), AtDeadline::Answer(Decision::Deny));
    set(&mut world, None, skip(true));
    assert!(!waits(&mut world, 4, "a"));
    world.crash();
    assert!(!waits(&mut world, 5, "a"), "the config skips, and nothing stricter is left");
    let mut world = World::new(Settings::default());
    set(&mut world, None, skip(true));
    world.crash();
    assert!(waits(&mut world, 1, "a"));
}
