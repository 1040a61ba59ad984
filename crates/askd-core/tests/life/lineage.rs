//! Who asks, and which call it is about: sessions, subagents, correlation by observation.

use askd_core::ask::{AtDeadline, Attendance, Place, RequesterKind, Subagent};
use askd_core::event::{Scope, SurfaceInfo};
use askd_core::{
    AskId, Cause, Command, Decision, Delivery, Observe, Overrides, Raise, Refusal, Seen, Settings, Side,
    SurfaceId, Voice,
};

use crate::common::World;
use crate::common::make::{
    action, call_ended, call_started, cancelled, child, hook, instance, raise, seen, session, spawn,
    subagent_started, token, turn_ended,
};

fn world() -> World {
    World::new(Settings::default())
}

fn of_child(n: u32, work_id: &str) -> Raise {
    Raise { subagent: Some(child(work_id)), ..hook(n, "a") }
}

fn subagent(world: &World, ask: AskId) -> &Subagent {
    world.ask(ask).ask.lineage.subagent.as_ref().unwrap()
}

#[test]
fn c14_an_ask_carries_the_name_type_and_depth_of_its_subagent() {
    let mut world = world();
    world.see("a", spawn("c1", "tester", "general", false));
    world.see("a", subagent_started("w1", Some("general"), None));
    let ask = world.raise(&of_child(1, "w1"));
    let told = |w: &World, ask| {
        let s = subagent(w, ask);
        (s.name.clone(), s.kind.clone(), s.depth, s.parent.clone())
    };
    assert_eq!(told(&world, ask), (Some("tester".to_owned()), Some("general".to_owned()), Some(1), None));
    // A child of the child.
    world.see("a", subagent_started("w2", Some("reader"), Some("w1")));
    let ask = world.raise(&of_child(2, "w2"));
    assert_eq!(told(&world, ask), (None, Some("reader".to_owned()), Some(2), Some("w1".to_owned())));
    // After a restart it is still known.
    world.crash();
    let ask = world.raise(&of_child(3, "w1"));
    assert_eq!(told(&world, ask).0.as_deref(), Some("tester"));
    // What the requester itself says is not overwritten.
    let named = Subagent { name: Some("mine".to_owned()), ..child("w1") };
    let ask = world.raise(&Raise { subagent: Some(named), ..of_child(4, "w1") });
    assert_eq!(told(&world, ask).0.as_deref(), Some("mine"));
}

#[test]
fn c14_a_child_that_could_be_one_of_two_spawns_gets_no_name() {
    let mut world = world();
    world.see("a", spawn("c1", "tester", "general", true));
    world.see("a", spawn("c2", "reader", "general", false));
    world.see("a", subagent_started("w1", Some("general"), None));
    let ask = world.raise(&of_child(1, "w1"));
    assert_eq!((&subagent(&world, ask).name, subagent(&world, ask).depth), (&None, None));
    assert_eq!(world.ask(ask).ask.attendance, Attendance::Foreground, "unknown is foreground");
    // Named by the agent, or of a type of its own, it is not ambiguous.
    let named = Seen::SubagentStarted {
        work_id: "w2".to_owned(),
        kind: None,
        name: None,
        parent: None,
        call: Some("c1".to_owned()),
    };
    world.see("a", named);
    let ask = world.raise(&of_child(2, "w2"));
    assert_eq!(subagent(&world, ask).name.as_deref(), Some("tester"));
    assert_eq!(world.ask(ask).ask.attendance, Attendance::Background);
}

#[test]
fn c14_a_child_that_shows_itself_again_does_not_take_the_spawn_of_another() {
    let mut world = world();
    world.see("a", spawn("c1", "tester", "general", false));
    world.see("a", subagent_started("w1", Some("general"), None));
    world.see("a", spawn("c2", "reader", "general", true));
    let before = world.history.len();
    world.see("a", subagent_started("w1", Some("general"), None));
    assert_eq!(world.history.len(), before, "nothing new was said");
    world.see("a", subagent_started("w2", Some("general"), None));
    let asks = [of_child(1, "w1"), of_child(2, "w2")].map(|r| world.raise(&r));
    let names = asks.map(|ask| subagent(&world, ask).name.clone().unwrap());
    assert_eq!(names, ["tester", "reader"]);
    assert_eq!(
        asks.map(|ask| world.ask(ask).ask.attendance),
        [Attendance::Foreground, Attendance::Background]
    );
}

#[test]
fn c4_a_hook_finds_its_call_only_when_exactly_one_fits() {
    let ls = action("ls").digest();
    let mut world = world();
    world.see("a", call_started("other thread", Some("w1"), ls));
    world.see("a", call_started("other content", None, action("rm").digest()));
    world.run(&seen("b", call_started("other session", None, ls))).unwrap();
    let ask = world.raise(&hook(1, "a"));
    assert_eq!(world.ask(ask).call(), None);
    world.see("a", call_started("c1", None, ls));
    let ask = world.raise(&hook(2, "a"));
    assert_eq!(world.ask(ask).call(), Some("c1"));
    // Two calls with one content: which one asks cannot be known, and an observation of either settles nothing.
    world.see("a", call_started("c2", None, ls));
    world.see("a", call_started("c3", None, ls));
    let twins = [hook(3, "a"), hook(4, "a")].map(|r| world.raise(&r));
    world.see("a", call_ended("c2"));
    world.see("a", call_ended("c3"));
    for ask in twins {
        assert_eq!(world.ask(ask).call(), None);
        assert!(world.ask(ask).is_open(), "an ambiguous match settles nothing");
    }
    // With one of them over, the next is the other's.
    world.see("a", call_started("c4", None, ls));
    let ask = world.raise(&hook(5, "a"));
    assert_eq!(world.ask(ask).call(), Some("c4"));
    world.see("a", call_ended("c1"));
    assert!(world.ask(ask).is_open());
}

#[test]
fn c11_a_call_that_ended_unseen_does_not_hide_the_next_one_like_it() {
    let ls = action("ls").digest();
    // "No" in the terminal: the hook is killed and nothing else is seen of the call.
    let mut world = world();
    world.see("a", call_started("c1", None, ls));
    let no = hook(1, "a");
    let ask = world.raise(&no);
    world.close(&no);
    world.pass(120_000);
    assert!(world.state.ask(ask).is_none());
    world.see("a", call_started("c2", None, ls));
    let ask = world.raise(&hook(2, "a"));
    assert_eq!(world.ask(ask).call(), Some("c2"));
    world.see("a", call_ended("c2"));
    assert_eq!(world.outcome(ask).cause, Cause::Agent);
    // A call that nobody asked about, and a turn that is over.
    for over in [turn_ended(None), cancelled(None)] {
        let mut world = self::world();
        world.see("a", call_started("c1", None, ls));
        world.see("a", over);
        world.see("a", call_started("c2", None, ls));
        let ask = world.raise(&hook(1, "a"));
        assert_eq!(world.ask(ask).call(), Some("c2"));
    }
}

#[test]
fn c4_c5_a_duplicate_is_known_after_1_000_10_000_and_100_000_calls() {
    let mut world = world();
    let first = Raise { call: Some("first".to_owned()), key: "the key".to_owned(), ..raise(0, "a") };
    let ask = world.raise(&first);
    let answered = Raise { call: Some("second".to_owned()), ..raise(1, "a") };
    let settled = world.raise(&answered);
    world.answer(settled, Decision::Allow).unwrap();
    world.handed(settled).unwrap();
    world.see("a", call_ended("second"));
    let mut done = 2;
    for calls in [1_000, 10_000, 100_000] {
        while done < calls {
            let other = world.raise(&Raise { call: Some(format!("c{done}")), ..raise(done, "a") });
            world.answer(other, Decision::Deny).unwrap();
            world.handed(other).unwrap();
            world.see("a", call_ended(&format!("c{done}")));
            done += 1;
        }
        assert_eq!(world.raise(&Raise { id: crate::common::make::id(999_999), ..first.clone() }), ask);
        assert_eq!(world.answer(settled, Decision::Deny), Err(Refusal::AlreadySettled(settled)));
        let token = world.ask(settled).ask.requester.token;
        assert!(world.run(&Command::Confirmed { ask: settled, token }).is_ok());
        assert_eq!(world.ask(settled).delivery, Delivery::Confirmed);
        assert_eq!(world.state.asks().count(), 1, "only what is unfinished is in memory");
    }
    world.see("a", call_ended("first"));
    assert_eq!(world.outcome(ask).cause, Cause::Agent);
}

#[test]
fn c5_the_same_key_is_the_same_ask_only_for_the_same_content_requester_and_process() {
    let first = Raise { instance: Some(instance(1)), ..raise(1, "a") };
    let mut world = world();
    let ask = world.raise(&first);
    let other_content =
        world.raise(&Raise { id: crate::common::make::id(50), action: action("rm"), ..first.clone() });
    assert_ne!(other_content, ask);
    // Both are still found by whoever comes back.
    assert_eq!(world.raise(&Raise { id: crate::common::make::id(51), ..first.clone() }), ask);
    let back = Raise { id: crate::common::make::id(52), action: action("rm"), ..first.clone() };
    assert_eq!(world.raise(&back), other_content);
    let others: [fn(&mut Raise); 3] =
        [|r| r.token = token(9u32), |r| r.key = "another".to_owned(), |r| r.instance = Some(instance(2))];
    for (n, differ) in others.iter().enumerate() {
        let mut other = Raise { id: crate::common::make::id(60 + n as u128), ..first.clone() };
        differ(&mut other);
        assert_eq!(world.raise(&other), other.id, "{n}");
    }
    // Over a restart too, and after delivery it is asked anew.
    world.crash();
    let ask = world.raise(&Raise { id: crate::common::make::id(70), ..first.clone() });
    world.answer(ask, Decision::Allow).unwrap();
    assert_eq!(world.raise(&Raise { id: crate::common::make::id(71), ..first.clone() }), ask);
    world.handed(ask).unwrap();
    assert_eq!(
        world.raise(&Raise { id: crate::common::make::id(72), ..first.clone() }),
        crate::common::make::id(72)
    );
}

#[test]
fn c8_waiting_is_the_number_of_open_asks_at_every_moment() {
    let mut world = world();
    let waiting = |world: &World| world.state.waiting(&session("a"));
    assert_eq!(waiting(&world), 0);
    let asks: Vec<_> = (0..5).map(|n| world.raise(&raise(n, "a"))).collect();
    world.raise(&raise(9, "b"));
    assert_eq!(waiting(&world), 5);
    world.answer(asks[0], Decision::Allow).unwrap();
    assert_eq!(waiting(&world), 4, "answered is not waiting, delivered or not");
    world.withdraw(asks[1], Cause::HandedBack).unwrap();
    assert_eq!(waiting(&world), 4, "its own prompt still waits");
    world.close(&raise(2, "a"));
    assert_eq!(waiting(&world), 4);
    world.crash();
    assert_eq!(waiting(&world), 4);
    world.pass(60_000);
    assert_eq!(waiting(&world), 1, "nobody came back; one was handed back");
    world.see("a", Seen::SessionEnded);
    assert_eq!(waiting(&world), 0);
}

#[test]
fn c8_an_ask_of_a_session_that_had_ended_counts_after_a_restart() {
    let mut world = world();
    let by_script = raise(1, "a");
    world
        .run(&Command::Observe(Box::new(Observe {
            by: Voice::All,
            owner: None,
            session: session("a"),
            parent: None,
            title: None,
            cwd: None,
            instance: Some(instance(1)),
            place: None,
            seen: Seen::SessionStarted,
        })))
        .unwrap();
    let ask = world.raise(&by_script);
    // The agent's process ends; the script goes on waiting.
    world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
    assert!(world.ask(ask).is_open());
    world.crash();
    assert_eq!(world.state.waiting(&session("a")), 1);
    assert_eq!(world.state.open().count(), 1);
    world.see("a", cancelled(None));
    assert_eq!(world.outcome(ask).cause, Cause::Cancelled);
    assert_eq!(world.state.waiting(&session("a")), 0);
}

#[test]
fn c6_the_end_of_a_session_withdraws_each_ask_below_it_once() {
    let mut world = world();
    let under = |n, name: &str, parent: &str| Raise { parent: Some(session(parent)), ..raise(n, name) };
    let asks =
        [raise(1, "a"), under(2, "b", "a"), under(3, "c", "b"), raise(4, "d")].map(|r| world.raise(&r));
    world.see("a", Seen::SessionEnded);
    for ask in &asks[..3] {
        assert_eq!(world.outcome(*ask).cause, Cause::SessionEnded);
        assert_eq!(world.story(*ask), ["asked", "withdrawn"]);
    }
    assert!(world.ask(asks[3]).is_open());
    assert_eq!(world.state.root_of(&session("c")), session("a"));
}

#[test]
fn s7_names_that_are_too_long_and_loops_are_refused() {
    let mut world = world();
    let long = "x".repeat(2_000);
    for bad in [
        call_started(&long, None, action("ls").digest()),
        call_ended(""),
        subagent_started(&long, None, None),
        cancelled(Some("")),
    ] {
        assert!(matches!(world.run(&seen("a", bad)), Err(Refusal::Malformed(_))));
    }
    let looped = Command::Observe(Box::new(Observe {
        by: Voice::All,
        owner: None,
        session: session("a"),
        parent: Some(session("a")),
        title: None,
        cwd: None,
        instance: None,
        place: None,
        seen: Seen::SessionStarted,
    }));
    assert!(matches!(world.run(&looped), Err(Refusal::Malformed(_))));
    // A loop over two is not refused, and ends.
    let a = Raise { parent: Some(session("b")), ..raise(1, "a") };
    let b = Raise { parent: Some(session("a")), ..raise(2, "b") };
    let asks = [a, b].map(|r| world.raise(&r));
    world.see("a", cancelled(None));
    assert!(asks.iter().all(|ask| world.outcome(*ask).cause == Cause::Cancelled));
}

#[test]
fn s7_what_is_remembered_of_a_session_is_bounded() {
    let mut world = world();
    let ls = action("ls").digest();
    for n in 0..5_000 {
        world.see("a", call_started(&format!("c{n}"), None, ls));
    }
    world.see("a", call_started("last", None, action("rm").digest()));
    let ask = world.raise(&Raise { action: action("rm"), ..hook(1, "a") });
    assert_eq!(world.ask(ask).call(), Some("last"), "the newest are remembered");
}

#[test]
fn c1_the_death_of_a_sessions_earlier_process_ends_nothing() {
    let mut world = world();
    world.raise(&Raise { instance: Some(instance(1)), ..raise(1, "a") });
    world.see("a", Seen::SessionEnded);
    let resumed = world.raise(&hook(2, "a"));
    world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
    assert!(world.ask(resumed).is_open());
    assert!(!world.state.session(&session("a")).unwrap().ended);
}

#[test]
fn c8_an_ask_that_is_read_back_after_a_failed_commit_counts_once() {
    let mut world = world();
    let asks = [raise(1, "a"), raise(2, "a")].map(|r| world.raise(&r));
    let waiting = |world: &World| world.state.waiting(&session("a"));
    for _ in 0..3 {
        world.reload(asks[0]);
        assert_eq!(waiting(&world), 2);
        assert!(world.ask(asks[0]).is_attached(), "its requester never left");
    }
    world.answer(asks[0], Decision::Allow).unwrap();
    world.reload(asks[0]);
    assert_eq!((waiting(&world), world.ask(asks[0]).delivery), (1, Delivery::Pending));
    world.close(&raise(1, "a"));
    assert!(!world.ask(asks[0]).is_attached());
}

#[test]
fn s7_sessions_that_nobody_ends_are_ended_when_nothing_is_heard_of_them() {
    let mut world = World::new(Settings::default());
    let script = |n, session: &str| Raise { kind: RequesterKind::Script, ..raise(n, session) };
    let tidy = |most| Command::Tidy { idle_ms: 1_000, most };
    let ended = |world: &World, name: &str| world.state.session(&session(name)).is_none_or(|s| s.ended);
    let done = world.raise(&script(1, "done"));
    world.withdraw(done, Cause::Cancelled).unwrap();
    world.raise(&script(2, "open"));
    // Its child is alive, so it is.
    world.see("above", Seen::SessionStarted);
    let mut child = script(3, "below");
    child.parent = Some(session("above"));
    world.raise(&child);
    world.pass(500);
    world.see("young", Seen::SessionStarted);
    world.pass(500);
    world.run(&tidy(10)).unwrap();
    let is = |world: &World| ["done", "open", "above", "below", "young"].map(|name| ended(world, name));
    assert_eq!(is(&world), [true, false, false, false, false]);
    // More than may be remembered: the one that was heard of least recently goes first.
    world.see("younger", Seen::SessionStarted);
    world.run(&tidy(1)).unwrap();
    assert_eq!(is(&world), [true, false, false, false, true]);
    assert!(!ended(&world, "younger"));
    // One that speaks again goes on.
    world.raise(&script(4, "done"));
    assert!(!ended(&world, "done"));
    // With an agent process it is that one's end that counts.
    world.pass(5_000);
    world.run(&tidy(10)).unwrap();
    assert!(ended(&world, "younger"));
}

fn told(name: &str, parent: Option<&str>, by: Option<u32>) -> Command {
    Command::Observe(Box::new(Observe {
        by: Voice::All,
        owner: None,
        session: session(name),
        parent: parent.map(session),
        title: None,
        cwd: None,
        instance: by.map(instance),
        place: None,
        seen: Seen::SessionStarted,
    }))
}

#[test]
fn s2_what_others_say_of_a_session_puts_none_of_its_asks_under_what_was_set_elsewhere() {
    let skip = Overrides { skip: Some(true), ..Overrides::default() };
    let by = |n, name: &str, parent: Option<&str>| Raise { parent: parent.map(session), ..raise(n, name) };
    // Told by an observation before it asked, by one afterwards, and by an ask of somebody else in its name.
    for way in 0..3 {
        let mut world = world();
        world.raise(&by(1, "jail", None));
        world
            .run(&Command::SetOverrides {
                session: Some(session("jail")),
                overrides: skip.clone(),
                by: "you".to_owned(),
            })
            .unwrap();
        if way == 0 {
            world.run(&told("trusted", Some("jail"), None)).unwrap();
        }
        let before = world.raise(&by(2, "trusted", None));
        match way {
            0 => {}
            1 => drop(world.run(&told("trusted", Some("jail"), None)).unwrap()),
            _ => {
                // Whoever asks in jail's name is under what was set for jail: that is its own word about itself.
                let theirs = world.raise(&by(3, "trusted", Some("jail")));
                assert_eq!(world.outcome(theirs).cause, Cause::Skip);
            }
        }
        let after = world.raise(&by(4, "trusted", None));
        assert!(world.ask(before).is_open() && world.ask(after).is_open(), "way {way}");
        // Where it is shown is another thing: an observation routes it, another one's ask does not.
        let root = if way == 2 { "trusted" } else { "jail" };
        assert_eq!(world.state.root_of(&session("trusted")), session(root), "way {way}");
    }
}

#[test]
fn s2_what_a_person_set_for_a_tree_holds_for_what_says_itself_that_it_belongs_there() {
    let mut world = world();
    world.raise(&raise(1, "root"));
    let overrides = Overrides { skip: Some(true), ..Overrides::default() };
    let session_of = Some(session("root"));
    world.run(&Command::SetOverrides { session: session_of, overrides, by: "you".to_owned() }).unwrap();
    world.raise(&Raise { parent: Some(session("root")), ..raise(2, "child") });
    let below = Raise { parent: Some(session("child")), ..raise(3, "below") };
    let asked = world.raise(&below);
    assert!(world.ask(asked).is_open(), "it does not say so");
    assert_eq!(world.ask(asked).ask.lineage.root, session("root"), "and is shown there all the same");
    let says = Raise { root: Some(session("root")), id: raise(4, "below").id, key: "k".to_owned(), ..below };
    let asked = world.raise(&says);
    assert_eq!(world.outcome(asked).cause, Cause::Skip);
}

#[test]
fn s2_what_a_person_made_stricter_for_a_tree_holds_in_all_of_it() {
    let mut world = world();
    let set = |world: &mut World, session: Option<&str>, overrides: Overrides| {
        let session = session.map(self::session);
        world.run(&Command::SetOverrides { session, overrides, by: "you".to_owned() }).unwrap();
    };
    world.raise(&raise(1, "root"));
    world.raise(&Raise { parent: Some(session("root")), ..raise(2, "child") });
    world.run(&told("placed", Some("root"), None)).unwrap();
    set(&mut world, None, Overrides { skip: Some(true), ..Overrides::default() });
    let stricter = Overrides {
        skip: Some(false),
        background_default: Some(Decision::Deny),
        background_timeout_ms: Some(1_000_000),
        ..Overrides::default()
    };
    set(&mut world, Some("root"), stricter);
    let below = Raise { parent: Some(session("child")), ..raise(3, "below") };
    let beside = Raise { root: Some(session("elsewhere")), ..raise(4, "child") };
    for asks in [below, beside, raise(5, "placed"), raise(6, "root")] {
        let asked = world.raise(&Raise { attendance: Some(Attendance::Background), ..asks });
        assert!(world.ask(asked).is_open(), "skipping is off in the whole tree");
        let policy = &world.ask(asked).ask.policy;
        assert_eq!(policy.deadline_ms, Some(1_000_000));
        assert!(matches!(policy.at_deadline, AtDeadline::Answer(Decision::Deny)));
    }
    let asked = world.raise(&raise(7, "other"));
    assert_eq!(world.outcome(asked).cause, Cause::Skip);
}

#[test]
fn c6_a_session_that_has_its_place_is_moved_only_by_its_own_side() {
    let mut world = world();
    let by = |n, name: &str, parent: Option<&str>, who: u32| Raise {
        parent: parent.map(session),
        token: token(who),
        ..raise(n, name)
    };
    let own = world.raise(&by(1, "trusted", None, 1));
    world.raise(&by(2, "jail", None, 2));
    let forged = world.raise(&by(3, "trusted", Some("jail"), 2));
    assert_eq!(world.ask(forged).ask.lineage.root, session("jail"), "its own ask is what it says");
    let child = world.raise(&by(4, "child", Some("trusted"), 1));
    world.raise(&by(5, "child", Some("jail"), 2));
    world.run(&told("child", Some("jail"), None)).unwrap();
    assert_eq!(world.state.root_of(&session("child")), session("trusted"));
    world.see("jail", Seen::SessionEnded);
    assert!(world.ask(own).is_open() && world.ask(child).is_open());

    // A child whose parent is told only after it asked is linked by an observation, also by one of another process.
    let early = world.raise(&by(6, "early", None, 1));
    world.run(&told("early", Some("trusted"), Some(7))).unwrap();
    assert_eq!(world.state.root_of(&session("early")), session("trusted"));
    assert!(world.ask(early).is_open());
    // Its own side moves it: the process that it runs in, or whoever raised all of its asks.
    world.run(&told("elsewhere", None, None)).unwrap();
    world.run(&told("early", Some("elsewhere"), Some(8))).unwrap();
    assert_eq!(world.state.root_of(&session("early")), session("trusted"));
    world.raise(&by(7, "late", Some("trusted"), 1));
    world.raise(&by(8, "late", Some("elsewhere"), 1));
    assert_eq!(world.state.root_of(&session("late")), session("elsewhere"));
    // What was told before it asked gives way to what it says.
    world.run(&told("squatted", Some("elsewhere"), None)).unwrap();
    world.raise(&by(9, "squatted", Some("trusted"), 1));
    assert_eq!(world.state.root_of(&session("squatted")), session("trusted"));
}

/// What a process tells that speaks for its own asks only.
fn told_by(name: &str, by: u32, what: Seen) -> Command {
    let side = Side { instances: [instance(by)].into(), ..Side::default() };
    let Command::Observe(told) = told(name, None, Some(by)) else { unreachable!() };
    Command::Observe(Box::new(Observe { by: Voice::Of(side), seen: what, ..*told }))
}

fn told_with(name: &str, tokens: &[u32], what: Seen) -> Command {
    let side = Side { tokens: tokens.iter().map(|n| token(*n)).collect(), ..Side::default() };
    let Command::Observe(told) = told(name, None, None) else { unreachable!() };
    Command::Observe(Box::new(Observe { by: Voice::Of(side), seen: what, ..*told }))
}

#[test]
fn s1_s2_an_ask_in_a_sessions_name_takes_nothing_of_the_session_over() {
    let pane = |pane: &str| Some(Place { tty: None, tmux_pane: Some(pane.to_owned()) });
    let mut world = world();
    let own = Raise {
        instance: Some(instance(1)),
        title: Some("the owner's".to_owned()),
        place: pane("%1"),
        call: Some("c1".to_owned()),
        ..raise(1, "a")
    };
    let ask = world.raise(&own);
    let skip = |skip| Overrides { skip: Some(skip), ..Overrides::default() };
    let set = |session, overrides| Command::SetOverrides { session, overrides, by: "you".to_owned() };
    world.run(&set(None, skip(true))).unwrap();
    world.run(&set(Some(session("a")), skip(false))).unwrap();
    let strange = Raise {
        instance: Some(instance(2)),
        title: Some("taken".to_owned()),
        place: pane("%2"),
        ..raise(2, "a")
    };
    let theirs = world.raise(&strange);
    let info = |world: &World| world.state.session(&session("a")).unwrap().info.clone();
    assert_eq!(info(&world).instance, Some(instance(1)));
    assert_eq!(info(&world).title.as_deref(), Some("the owner's"));
    assert_eq!(info(&world).place, pane("%1"));
    let answered = || Seen::OwnPromptAnswered { call: "c1".to_owned(), allowed: true };
    for what in [answered(), call_ended("c1"), turn_ended(None), cancelled(None), Seen::SessionEnded] {
        world.run(&told_by("a", 2, what)).unwrap();
        assert!(world.ask(ask).is_open());
    }
    assert_eq!(world.outcome(theirs).cause, Cause::Cancelled, "its own ask is its own");
    assert!(!world.state.session(&session("a")).unwrap().ended);
    let next = world.raise(&Raise { instance: Some(instance(1)), ..raise(3, "a") });
    assert!(world.ask(next).is_open(), "what a person made stricter holds");
    // The end of that process is not the session's either; that of its own is.
    world.run(&Command::AgentGone { instance: instance(2) }).unwrap();
    assert!(!world.state.session(&session("a")).unwrap().ended);
    world.run(&told_by("a", 1, answered())).unwrap();
    assert_eq!(world.outcome(ask).cause, Cause::Agent);
    world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
    assert_eq!(world.outcome(next).cause, Cause::RequesterGone);
    assert!(world.state.session(&session("a")).unwrap().ended);
}

#[test]
fn c1_a_session_goes_on_in_another_process_when_the_one_before_has_ended() {
    let of = |n: u32, by: u32| Raise { instance: Some(instance(by)), ..hook(n, "a") };
    let process = |world: &World| world.state.session(&session("a")).unwrap().info.instance.clone();
    // By the end of the process, by its own word, and without a word but after a restart.
    for way in 0..3 {
        let mut world = world();
        world.raise(&of(1, 1));
        match way {
            0 => drop(world.run(&Command::AgentGone { instance: instance(1) }).unwrap()),
            1 => world.see("a", Seen::SessionEnded),
            _ => {
                world.crash();
                world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
            }
        }
        let ask = world.raise(&of(2, 2));
        assert_eq!(process(&world), Some(instance(2)), "way {way}");
        // A watch that says so late ends nothing of the new one.
        world.run(&Command::AgentGone { instance: instance(1) }).unwrap();
        assert!(world.ask(ask).is_open());
        world.run(&told_by("a", 2, cancelled(None))).unwrap();
        assert_eq!(world.outcome(ask).cause, Cause::Cancelled);
    }
}

#[test]
fn c4_two_processes_of_one_session_speak_each_for_their_own_asks() {
    let ls = action("ls").digest();
    let mut world = world();
    let own = Side { session: true, instances: [instance(1)].into(), ..Side::default() };
    let by_owner = |what| {
        let Command::Observe(told) = told("a", None, Some(1)) else { unreachable!() };
        Command::Observe(Box::new(Observe { by: Voice::Of(own.clone()), seen: what, ..*told }))
    };
    let of = |n: u32, by: u32| Raise { instance: Some(instance(by)), ..hook(n, "a") };
    world.raise(&of(1, 1));
    world.raise(&of(2, 2));
    // Both announce a call of the same content; each ask finds that of its own process.
    world.run(&told_by("a", 2, call_started("theirs", None, ls))).unwrap();
    world.run(&by_owner(call_started("mine", None, ls))).unwrap();
    let mine = world.raise(&of(3, 1));
    assert_eq!(world.ask(mine).call(), Some("mine"));
    let theirs = world.raise(&of(4, 2));
    assert_eq!(world.ask(theirs).call(), Some("theirs"));
    for other in ["theirs", "mine"] {
        let (by_other, of_other) = if other == "mine" {
            (told_by("a", 2, call_ended(other)), mine)
        } else {
            (by_owner(call_ended(other)), theirs)
        };
        world.run(&by_other).unwrap();
        assert!(world.ask(of_other).is_open(), "the end of another one's call");
    }
    world.run(&told_by("a", 2, call_ended("theirs"))).unwrap();
    world.run(&by_owner(call_ended("mine"))).unwrap();
    assert_eq!([mine, theirs].map(|ask| world.outcome(ask).cause), [Cause::Agent; 2]);
    // The end of the session as its own process says it leaves the other's asks to the other.
    let left = world.raise(&of(5, 2));
    world.run(&by_owner(Seen::SessionEnded)).unwrap();
    assert!(world.ask(left).is_open());
    world.run(&told_by("a", 2, turn_ended(None))).unwrap();
    assert_eq!(world.outcome(left).cause, Cause::Cancelled);
}

#[test]
fn s1_a_token_speaks_for_its_own_asks_and_for_the_session_when_all_are_its() {
    let mut world = world();
    let ask = world.raise(&raise(1, "a"));
    let other = world.raise(&raise(2, "a"));
    world.run(&told_with("a", &[2], Seen::SessionEnded)).unwrap();
    assert!(world.ask(ask).is_open());
    assert_eq!(world.outcome(other).cause, Cause::SessionEnded);
    assert!(!world.state.session(&session("a")).unwrap().ended);
    world.run(&told_with("a", &[1, 2], Seen::SessionEnded)).unwrap();
    assert_eq!(world.outcome(ask).cause, Cause::SessionEnded);
    assert!(world.state.session(&session("a")).unwrap().ended);
    // An ask with a process of its own makes that process the session's only when nobody else asks in it.
    world.raise(&raise(3, "b"));
    world.raise(&Raise { instance: Some(instance(9)), ..raise(4, "b") });
    assert_eq!(world.state.session(&session("b")).unwrap().info.instance, None);
}

#[test]
fn c6_c14_an_ask_whose_session_is_linked_later_is_told_of_where_it_is_shown_from_then_on() {
    let mut world = world();
    world.run(&told("root", None, None)).unwrap();
    let surface = SurfaceId("of the root".to_owned());
    let info = SurfaceInfo {
        name: "of the root".to_owned(),
        remote: false,
        scope: Scope::Roots([session("root")].into()),
        capacity: Some(3),
    };
    world.run(&Command::AttachSurface { surface: surface.clone(), info }).unwrap();
    let child = world.raise(&raise(1, "child"));
    let below = world.raise(&Raise { parent: Some(session("child")), ..raise(2, "below") });
    let over = world.raise(&raise(3, "child"));
    world.answer(over, Decision::Deny).unwrap();
    world.state.take_moved();
    assert!(world.state.slots(&surface).unwrap().is_empty());
    world.run(&told("child", Some("root"), None)).unwrap();
    let mut moved = world.state.take_moved();
    moved.sort();
    assert_eq!(moved, [(child, session("child")), (below, session("child"))].to_vec());
    assert_eq!(*world.state.slots(&surface).unwrap(), [child, below].into());
    // Said again it moves nothing.
    world.run(&told("child", Some("root"), None)).unwrap();
    assert!(world.state.take_moved().is_empty());
}
