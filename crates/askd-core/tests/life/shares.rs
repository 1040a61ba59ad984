//! What one owner holds takes no place of another's, in whoever's name it was asked.

use askd_core::ask::{Attendance, Choice, ChoiceKind, OwnPrompt, Place, Subagent};
use askd_core::event::SpawnSeen;
use askd_core::{
    Cause, Command, Decision, Handled, Observe, Raise, Refusal, Reply, Seen, Settings, Verdict, Voice,
};

use crate::common::World;
use crate::common::make;
use crate::common::make::{call_started, child, choice, id, owner, raise, session, subagent_started};

/// An ask of `bytes` bytes and more, by a requester behind this shell.
fn by(shell: u32, n: u32, in_session: &str, bytes: usize) -> Raise {
    let mut raise = Raise { owner: Some(owner(shell)), ..raise(n, in_session) };
    raise.action.input = Some(format!("\"{}\"", "x".repeat(bytes)));
    raise
}

fn full(world: &mut World, command: Command) -> String {
    match world.run(&command) {
        Err(Refusal::CapReached(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn raised(raise: Raise) -> Command {
    Command::Raise(Box::new(raise))
}

fn told(shell: u32, in_session: &str, parent: Option<&str>, seen: Seen) -> Observe {
    Observe {
        by: Voice::All,
        owner: Some(owner(shell)),
        session: session(in_session),
        parent: parent.map(session),
        title: None,
        cwd: None,
        instance: None,
        place: None,
        seen,
    }
}

#[test]
fn s7_asks_in_anothers_name_take_none_of_its_room() {
    let settings = Settings {
        max_held_bytes: 100_000,
        max_held_bytes_per_session: 20_000,
        max_open_per_session: 3,
        ..Settings::default()
    };
    let mut world = World::new(settings);
    for n in 0..3 {
        world.raise(&by(1, n, "b", 4_000));
    }
    let text = full(&mut world, raised(by(1, 9, "b", 10)));
    assert!(text.contains("3 open asks from shell 1") && text.contains("answer or withdraw"), "{text}");
    // The session's own side has all that it would have without them.
    for n in 10..12 {
        world.raise(&by(2, n, "b", 7_000));
    }
    let text = full(&mut world, raised(by(2, 12, "b", 4_000)));
    assert!(text.contains("b and its subagents from shell 2"), "{text}");
    world.raise(&by(2, 12, "b", 10));
    // Other names do not help who has its share, also not after a restart.
    world.raise(&by(1, 20, "x", 8_000));
    world.crash();
    let text = full(&mut world, raised(by(1, 21, "y", 16_000)));
    assert!(text.contains("from shell 1") && text.contains("kept for others"), "{text}");
    world.raise(&by(3, 30, "z", 14_000));
    // Room comes back with what is over.
    world.answer(id(21), Decision::Deny).unwrap();
    world.withdraw(id(21), Cause::Cancelled).unwrap();
    world.withdraw(id(1), Cause::Cancelled).unwrap();
    world.raise(&by(1, 22, "y", 5_000));
}

#[test]
fn t13_background_asks_in_anothers_name_take_no_place_in_its_queue() {
    let mut world = World::new(Settings { queue_cap: 2, ..Settings::default() });
    let queued = |shell, n| Raise { attendance: Some(Attendance::Background), ..by(shell, n, "b", 1) };
    for n in 0..3 {
        let ask = world.raise(&queued(1, n));
        assert!(world.ask(ask).is_open());
    }
    let over = world.raise(&queued(1, 3));
    assert_eq!(world.outcome(over).cause, Cause::Overflow);
    for n in 10..13 {
        let ask = world.raise(&queued(2, n));
        assert!(world.ask(ask).is_open(), "{n}: the queue is its own");
    }
    let over = world.raise(&queued(2, 13));
    assert_eq!(world.outcome(over).cause, Cause::Overflow);
    // One tree is one queue, whichever session of it asks.
    let below = Raise { session: session("child"), parent: Some(session("b")), ..queued(2, 14) };
    let over = world.raise(&below);
    assert_eq!(world.outcome(over).cause, Cause::Overflow);
}

#[test]
fn s7_sessions_that_one_owner_brings_are_bounded_and_the_silent_ones_end_first() {
    let mut world = World::new(Settings { max_brought_bytes: 200_000, ..Settings::default() });
    let start = |shell, name: &str, parent| {
        Command::Observe(Box::new(told(shell, name, parent, Seen::SessionStarted)))
    };
    let live = |world: &World| -> Vec<String> {
        let live = world.state.sessions().filter(|s| !s.ended);
        live.map(|s| s.info.key.session.clone()).collect()
    };
    world.run(&start(2, "others", None)).unwrap();
    world.raise(&by(1, 1, "asks", 1));
    world.run(&start(1, "above", None)).unwrap();
    world.run(&start(1, "below", Some("above"))).unwrap();
    for n in 0..100 {
        world.pass(1_000);
        world.run(&start(1, &format!("n{n}"), None)).unwrap();
        world.run(&start(1, "below", Some("above"))).unwrap();
    }
    let now = live(&world);
    assert!(now.len() < 50, "{now:?}");
    // What is asked stays, with what is above a live one; others' sessions are not touched; the newest are there.
    for name in ["asks", "others", "n99", "n98"] {
        assert!(now.iter().any(|s| s == name), "{name}: {now:?}");
    }
    assert!(now.iter().all(|s| s != "n0"), "{now:?}");
    // The same after a restart.
    world.crash();
    assert_eq!(live(&world), now);
    // Where every session has asks there is nothing to end: who brings more is refused, and others are not.
    let mut n = 100;
    let text = loop {
        match world.run(&raised(by(1, n, &format!("busy{n}"), 1))) {
            Ok(Reply::Raised(_)) => n += 1,
            Err(Refusal::CapReached(text)) => break text,
            other => panic!("{other:?}"),
        }
        assert!(n < 200, "no limit");
    };
    assert!(text.contains("live sessions and subagents from shell 1"), "{text}");
    assert!(text.contains("kept for others") && text.contains("answer what they ask"), "{text}");
    world.raise(&by(2, 300, "next", 1));
    world.raise(&by(3, 301, "new", 1));
    // Who has a session goes on in it.
    world.raise(&by(1, 302, "asks", 1));
}

#[test]
fn s7_subagents_without_end_are_refused_and_those_that_ended_make_room() {
    let mut world = World::new(Settings { max_brought_bytes: 20_000, ..Settings::default() });
    let start = |shell, n: usize| {
        let seen = subagent_started(&format!("w{n}"), None, None);
        Command::Observe(Box::new(told(shell, "a", None, seen)))
    };
    let end = |n: usize| {
        Command::Observe(Box::new(told(1, "a", None, Seen::SubagentEnded { work_id: format!("w{n}") })))
    };
    let mut n = 0;
    let text = loop {
        match world.run(&start(1, n)) {
            Ok(_) => n += 1,
            Err(Refusal::CapReached(text)) => break text,
            other => panic!("{other:?}"),
        }
        assert!(n < 100, "no limit");
    };
    assert!(text.contains("from shell 1"), "{text}");
    assert_eq!(world.state.session(&session("a")).unwrap().live_subagents().count(), n);
    // Somebody else's subagent of the same session is that one's affair; one that is known goes on.
    world.run(&start(2, 1_000)).unwrap();
    world.run(&start(1, 0)).unwrap();
    // With the session its subagents go.
    world.run(&end(0)).unwrap();
    world.run(&Command::Observe(Box::new(told(1, "a", None, Seen::SessionEnded)))).unwrap();
    world.run(&start(1, 2_000)).unwrap();
    let names: Vec<_> = world.state.session(&session("a")).unwrap().live_subagents().cloned().collect();
    assert_eq!(names.iter().map(|s| s.work_id.as_str()).collect::<Vec<_>>(), ["w2000"]);
}

#[test]
fn s7_a_session_does_not_grow_beyond_what_its_owner_may_hold() {
    let mut world = World::new(Settings { max_brought_bytes: 20_000, ..Settings::default() });
    let titled = |text: String| Observe { title: Some(text), ..told(1, "a", None, Seen::SessionStarted) };
    world.run(&Command::Observe(Box::new(titled("short".to_owned())))).unwrap();
    world.run(&Command::Observe(Box::new(titled("x".repeat(16_000))))).unwrap();
    let title = |world: &World| world.state.session(&session("a")).unwrap().info.title.clone();
    assert_eq!(title(&world).as_deref(), Some("short"), "what is known stays, and nobody is refused for it");
    world.run(&Command::Observe(Box::new(titled("x".repeat(1_000))))).unwrap();
    assert_eq!(title(&world).map(|title| title.len()), Some(1_000));
    // What would be too much alone is refused.
    let seen = Observe { session: session("b"), ..titled("y".repeat(16_000)) };
    let Handled { changes, reply } = world.state.handle(&Command::Observe(Box::new(seen)), world.now);
    assert!(changes.is_empty() && matches!(reply, Err(Refusal::CapReached(_))), "{reply:?}");
}

/// A world in which shell 1 may hold three asks.
fn three_at_most() -> World {
    let world = World::new(Settings { max_held: 10, ..Settings::default() });
    assert_eq!(world.state.asks().count(), 0);
    world
}

#[test]
fn s7_what_is_over_makes_room_and_what_is_open_never_does() {
    let mut world = three_at_most();
    let open = world.raise(&by(1, 0, "a", 10));
    let denied = world.raise(&by(1, 1, "a", 10));
    world.answer(denied, Decision::Deny).unwrap();
    let allowed = world.raise(&by(1, 2, "a", 10));
    world.answer(allowed, Decision::Allow).unwrap();
    let next = world.raise(&by(1, 3, "a", 10));
    assert!(world.state.ask(denied).is_none(), "the oldest that is over, and no consent before it has to");
    assert_eq!(world.story(denied), ["asked", "settled", "delivery_expired"]);
    assert!(world.state.ask(allowed).is_some());
    let last = world.raise(&by(1, 4, "a", 10));
    assert!(world.state.ask(allowed).is_none());
    // Nobody who was told something else is told of it, and nobody else's is touched.
    let text = full(&mut world, raised(by(1, 5, "a", 10)));
    assert!(text.contains("holds 3 asks from shell 1"), "{text}");
    assert!([open, next, last].iter().all(|id| world.ask(*id).is_open()));
    // Its requester may still say that it had it, and look at it.
    world.handed(allowed).unwrap();
    assert_eq!(world.story(allowed), ["asked", "settled", "delivery_expired", "handed"]);
    assert_eq!(world.ask(allowed).verdict(), Verdict::Allow);
    world.handed(denied).unwrap();
    assert_eq!(world.ask(denied).verdict(), Verdict::Deny);
    // It counts once, however often it is looked at.
    full(&mut world, raised(by(1, 5, "a", 10)));
    world.withdraw(open, Cause::Cancelled).unwrap();
    world.raise(&by(1, 5, "a", 10));
}

#[test]
fn s7_c4_who_comes_back_to_what_made_room_is_not_asked_again() {
    let mut world = three_at_most();
    let asks: Vec<_> = (0..3).map(|n| world.raise(&by(1, n, "a", 10))).collect();
    world.run(&Command::LinkClosed { link: by(1, 0, "a", 10).link }).unwrap();
    for (ask, decision) in asks.iter().zip([Decision::Allow, Decision::Deny, Decision::Allow]) {
        world.answer(*ask, decision).unwrap();
    }
    for n in 10..13 {
        world.raise(&by(1, n, "b", 10));
    }
    assert!(asks.iter().all(|ask| world.state.ask(*ask).is_none()));
    for (n, ask) in (0..).zip(&asks) {
        let back = Raise { id: id(u128::from(n) + 100), ..by(1, n, "a", 10) };
        assert_eq!(world.raise(&back), *ask, "also where there is no room");
        assert_eq!(world.state.of_requester(back.token, &back.key), Some(*ask));
    }
    assert_eq!(world.ask(asks[0]).verdict(), Verdict::Allow);
    // What it got, it does not get again.
    world.handed(asks[0]).unwrap();
    full(&mut world, raised(Raise { id: id(200), ..by(1, 0, "a", 10) }));
    // Nor another process, nor after its time, nor what a cancel came for.
    let other = Raise { id: id(201), token: by(1, 77, "a", 10).token, ..by(1, 1, "a", 10) };
    full(&mut world, raised(other));
    world.stall(60_000);
    full(&mut world, raised(Raise { id: id(202), ..by(1, 1, "a", 10) }));
}

#[test]
fn s7_t1_a_cancel_reaches_what_made_room() {
    for cancelled in [false, true] {
        let mut world = three_at_most();
        let child = |n| Raise { parent: Some(session("top")), ..by(1, n, "a", 10) };
        let ask = world.raise(&child(0));
        world.answer(ask, Decision::Allow).unwrap();
        for n in 10..13 {
            world.raise(&by(1, n, "b", 10));
        }
        assert!(world.state.ask(ask).is_none());
        if cancelled {
            let seen = told(1, "top", None, Seen::TurnCancelled { subagent: None });
            world.run(&Command::Observe(Box::new(seen))).unwrap();
        }
        let back = world.run(&raised(Raise { id: id(100), ..child(0) }));
        assert_eq!(back.is_ok(), !cancelled, "{back:?}");
    }
}

#[test]
fn s7_c1_a_consent_that_made_room_serves_no_other_call() {
    let mut world = three_at_most();
    let ask = world.raise(&by(1, 0, "a", 10));
    world.answer(ask, Decision::Allow).unwrap();
    for n in 10..12 {
        world.raise(&by(1, n, "b", 10));
    }
    let again = world.raise(&by(1, 1, "a", 10));
    assert!(world.state.ask(ask).is_none() && world.ask(again).is_open());
}

#[test]
fn s7_everything_that_is_held_of_an_ask_weighs() {
    type Longer = fn(&mut Raise, String);
    let longer: [Longer; 17] = [
        |r, x| r.key = x,
        |r, x| r.job = Some(x),
        |r, x| r.turn = Some(x),
        |r, x| r.call = Some(x),
        |r, x| r.session.session = x,
        |r, x| r.subagent = Some(child(&x)),
        |r, x| r.subagent = Some(Subagent { name: Some(x), ..child("w") }),
        |r, x| r.subagent = Some(Subagent { kind: Some(x), ..child("w") }),
        |r, x| r.subagent = Some(Subagent { parent: Some(x), ..child("w") }),
        |r, x| r.place = Some(Place { tty: Some(x), ..Place::default() }),
        |r, x| r.place = Some(Place { tmux_pane: Some(x), ..Place::default() }),
        |r, x| r.own_prompt = Some(OwnPrompt { at: x, blocked: false }),
        |r, x| r.action.tool = x,
        |r, x| r.action.title = Some(x),
        |r, x| r.action.kind = Some(x),
        |r, x| drop(r.extra.insert(x, serde_json::Value::Null)),
        |r, x| r.options = vec![Choice { grants: Some(x), ..choice("no", ChoiceKind::RejectOnce) }],
    ];
    let before = |text: &str, word: &str| -> usize {
        let mut words = text.split_whitespace().skip_while(|w| *w != word);
        words.nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let mut world = World::new(Settings { max_held_bytes: 100_000, ..Settings::default() });
    let huge = Raise { owner: None, ..by(1, 99, "z", 100_000) };
    for (n, longer) in (1..).zip(longer) {
        let short = Raise { owner: None, ..by(1, n, "a", 1) };
        let long = |raise: &Raise, length: usize| {
            let mut raise = raise.clone();
            longer(&mut raise, "x".repeat(length));
            raise
        };
        // What it would take is told,
        let mut small = World::new(Settings { max_held_bytes: 0, ..Settings::default() });
        let sizes = [1, 1_001].map(|length| before(&full(&mut small, raised(long(&short, length))), "has"));
        assert!(sizes[1] >= sizes[0] + 1_000, "{n}: {sizes:?}");
        // and as much is taken.
        let ask = world.raise(&long(&short, 1_001));
        assert!(before(&full(&mut world, raised(huge.clone())), "holds") >= sizes[1], "{n}: {sizes:?}");
        world.withdraw(ask, Cause::Cancelled).unwrap();
    }
    assert_eq!(before(&full(&mut world, raised(huge)), "holds"), 0, "as much was given back");
}

#[test]
fn s7_what_is_said_of_an_outcome_weighs_too() {
    let mut world = World::new(Settings { max_held_bytes: 12_000, ..Settings::default() });
    let first = world.raise(&Raise { owner: None, ..by(1, 0, "a", 1) });
    let (token, by_whom) = (world.ask(first).ask.requester.token, Some("x".repeat(10_000)));
    let decided =
        Command::DecidedByAgent { ask: first, token, decision: Decision::Deny, by: by_whom, went_on: false };
    world.run(&decided).unwrap();
    assert!(world.state.ask(first).is_some(), "its requester did not hear of it yet");
    world.raise(&Raise { owner: None, ..by(1, 1, "b", 1) });
    assert!(world.state.ask(first).is_none(), "there was no room for both");
}

/// A call of a session of this shell, in a thread of its own.
fn call(shell: u32, in_session: &str, n: u32, command: &str) -> Command {
    let seen = call_started(&format!("c{n}"), Some(&format!("w{n}")), make::action(command).digest());
    Command::Observe(Box::new(told(shell, in_session, None, seen)))
}

#[test]
fn s7_what_is_remembered_of_calls_is_bounded_for_all_sessions_together_and_the_busiest_pays() {
    let mut world = World::new(Settings { max_remembered_bytes: 200_000, ..Settings::default() });
    world.run(&call(1, "quiet", 1, "quiet")).unwrap();
    world.run(&call(2, "others", 1, "others")).unwrap();
    for n in 0..3_000 {
        world.run(&call(1, ["busy", "busier"][usize::from(n % 3 > 0)], n, "ls")).unwrap();
    }
    let all: Vec<_> = world.state.sessions().map(|s| (s.info.key.session.as_str(), s.remembered())).collect();
    let total: usize = all.iter().map(|(_, bytes)| bytes).sum();
    assert!(total < 80_000, "one owner's part of it: {all:?}");
    assert!(all.iter().all(|(_, bytes)| *bytes > 0), "{all:?}");
    // Those who told little are served as ever, and so is the newest of the busiest.
    for (n, in_session, thread, command) in [(1, "quiet", "w1", "quiet"), (2, "others", "w1", "others")] {
        let raise = Raise { subagent: Some(child(thread)), ..by(n, n, in_session, 1) };
        let ask = world.raise(&Raise { action: make::action(command), ..raise });
        assert_eq!(world.ask(ask).call(), Some("c1"), "{in_session}");
    }
    // With the session it is given back.
    for name in ["busy", "busier"] {
        world.run(&Command::Observe(Box::new(told(1, name, None, Seen::SessionEnded)))).unwrap();
        assert_eq!(world.state.session(&session(name)).unwrap().remembered(), 0);
    }
}

#[test]
fn s7_c6_a_call_like_one_that_was_forgotten_is_not_taken_for_it() {
    let mut world = World::new(Settings { max_remembered_bytes: 100_000, ..Settings::default() });
    let started = |name: &str, command: &str| {
        let seen = call_started(name, None, make::action(command).digest());
        Command::Observe(Box::new(told(1, "a", None, seen)))
    };
    world.run(&started("first", "rm")).unwrap();
    for n in 0..300 {
        world.run(&started(&format!("c{n}"), "ls")).unwrap();
    }
    world.run(&started("second", "rm")).unwrap();
    world.run(&started("other", "cat")).unwrap();
    // It may be about the first, of which nothing is known any more.
    let ask = world.raise(&Raise { action: make::action("rm"), ..by(1, 1, "a", 1) });
    assert_eq!(world.ask(ask).call(), None);
    let ask = world.raise(&Raise { action: make::action("cat"), ..by(1, 2, "a", 1) });
    assert_eq!(world.ask(ask).call(), Some("other"));
}

#[test]
fn s7_c8_a_spawn_is_not_taken_for_one_that_was_forgotten() {
    let spawn = |n: u32, kind: &str| {
        let mut seen = call_started(&format!("c{n}"), None, make::action("task").digest());
        if let Seen::CallStarted { spawn, call, .. } = &mut seen {
            *spawn = Some(SpawnSeen {
                call: call.clone(),
                parent: None,
                name: Some("x".repeat(5_000)),
                kind: Some(kind.to_owned()),
                background: kind == "last",
            });
        }
        Command::Observe(Box::new(told(1, "a", None, seen)))
    };
    let shows_itself =
        Command::Observe(Box::new(told(1, "a", None, subagent_started("w", Some("last"), None))));
    for most in [16 * 1024 * 1024, 100_000] {
        let mut world = World::new(Settings { max_remembered_bytes: most, ..Settings::default() });
        for n in 0..30 {
            world.run(&spawn(n, "first")).unwrap();
        }
        world.run(&spawn(30, "last")).unwrap();
        world.run(&shows_itself).unwrap();
        let ask = world.raise(&Raise { subagent: Some(child("w")), ..by(1, 1, "a", 1) });
        let is_background = world.ask(ask).ask.attendance == Attendance::Background;
        assert_eq!(is_background, most > 100_000);
    }
}
