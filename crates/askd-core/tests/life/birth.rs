//! What is decided the moment an ask is made: its policy, whether anybody can be asked, what is refused.

use askd_core::ask::{AtDeadline, Attendance, ChoiceKind, Class, RequesterKind};
use askd_core::event::{Scope, SurfaceInfo};
use askd_core::settings::{HoldBackground, Unreachable};
use askd_core::{
    Cause, Command, Decision, Delivery, OutcomeKind, Raise, Refusal, Settings, Source, SurfaceId, Verdict,
};

use crate::common::World;
use crate::common::make::{
    background, call_ended, choice, hook, id, many_options, own_prompt, raise, session, surface,
};

fn default() -> World {
    World::new(Settings::default())
}

#[test]
fn t3_t4_t5_the_deadline_comes_from_attendance_and_class() {
    let settings = Settings {
        background_timeout_ms: 1_000,
        background_default: Decision::Allow,
        safety_timeout_ms: 2_000,
        safety_default: Decision::Deny,
        ..Settings::default()
    };
    let mut world = World::new(settings);
    let unset = |n| Raise { deadline_ms: None, ..background(n, "a", 1) };
    let tool = world.raise(&unset(1));
    let safety = world.raise(&Raise { class: Class::Safety, ..unset(2) });
    let person = world.raise(&raise(3, "a"));
    let person_safety = world.raise(&Raise { class: Class::Safety, ..raise(4, "a") });
    let own = world.raise(&Raise { deadline_ms: Some(500), ..unset(5) });
    let policy = |ask| {
        let policy = &world.ask(ask).ask.policy;
        policy.deadline_ms.map(|ms| (ms, policy.at_deadline))
    };
    assert_eq!(policy(tool), Some((1_000, AtDeadline::Answer(Decision::Allow))));
    assert_eq!(policy(safety), Some((2_000, AtDeadline::Answer(Decision::Deny))));
    assert_eq!((policy(person), policy(person_safety)), (None, None));
    assert_eq!(policy(own), Some((500, AtDeadline::Answer(Decision::Allow))));
    // Settings that change later change no ask that was made before.
    world.state.settings.background_timeout_ms = 1;
    world.state.settings.background_default = Decision::Deny;
    world.pass(999);
    assert!(world.ask(tool).is_open());
    world.pass(1);
    assert_eq!((world.outcome(tool).kind, world.outcome(tool).cause), (OutcomeKind::Allowed, Cause::Timed));
}

#[test]
fn t4_the_defaults_are_deny_after_six_minutes() {
    let mut world = default();
    let ask = world.raise(&Raise { deadline_ms: None, ..background(1, "a", 1) });
    world.pass(359_999);
    assert!(world.ask(ask).is_open());
    world.pass(1);
    let outcome = world.outcome(ask);
    assert_eq!(
        (outcome.kind, outcome.cause, outcome.option.as_deref()),
        (OutcomeKind::Denied, Cause::Timed, Some("reject_once"))
    );
    assert_eq!(outcome.reason_for_model().unwrap(), "no answer arrived within 6m0s; nobody denied it");
    assert_eq!(outcome.text(), "timed out: auto-denied after 6m0s");
}

#[test]
fn c12_a_deny_tells_the_model_the_persons_words_and_never_a_failure() {
    let mut world = default();
    for (n, (words, told)) in [
        (Some(" use the other folder "), "use the other folder"),
        (Some("  "), "The user denied this action."),
        (None, "The user denied this action."),
    ]
    .into_iter()
    .enumerate()
    {
        let ask = world.raise(&raise(u32::try_from(n).unwrap(), "a"));
        world.answer_with(ask, Decision::Deny, |a| a.message = words.map(str::to_owned)).unwrap();
        assert_eq!(world.outcome(ask).reason_for_model().as_deref(), Some(told));
    }
}

#[test]
fn c5_a_plain_answer_is_never_always_and_never_a_place_in_a_list() {
    let mut world = default();
    let with = |n, options| Raise { options, ..raise(n, "a") };
    let chosen = |world: &mut World, raise: &Raise, decision| {
        let ask = world.raise(raise);
        world.answer(ask, decision).map(|_| world.outcome(ask).option.clone().unwrap())
    };
    assert_eq!(chosen(&mut world, &with(1, many_options()), Decision::Allow).unwrap(), "once");
    assert_eq!(chosen(&mut world, &with(2, many_options()), Decision::Deny).unwrap(), "no");
    let only_always =
        vec![choice("always", ChoiceKind::AllowAlways), choice("never", ChoiceKind::RejectAlways)];
    let refused = chosen(&mut world, &with(3, only_always.clone()), Decision::Allow);
    assert_eq!(refused, Err(Refusal::OptionNotOffered { ask: id(4), offered: "always".to_owned() }));
    assert_eq!(chosen(&mut world, &with(4, only_always.clone()), Decision::Deny).unwrap(), "never");
    // Nor does a timed allow choose it.
    let settings = Settings { background_default: Decision::Allow, ..Settings::default() };
    let mut world = World::new(settings);
    let ask = world.raise(&Raise { options: only_always, ..background(5, "a", 1_000) });
    world.pass(1_000);
    assert_eq!(world.outcome(ask).kind, OutcomeKind::Denied);
}

#[test]
fn c5_unknown_mismatching_and_foreign_answers_change_nothing() {
    let mut world = default();
    let ask = world.raise(&Raise { options: many_options(), ..raise(1, "a") });
    let unknown = crate::common::make::answer(id(99), world.ask(ask).ask.digest, Decision::Allow);
    assert_eq!(world.run(&Command::Answer(unknown)), Err(Refusal::UnknownAsk));
    let other = crate::common::make::action("something else").digest();
    assert_eq!(
        world.answer_with(ask, Decision::Allow, |a| a.digest = other),
        Err(Refusal::DigestMismatch(ask))
    );
    for option in ["no such", "no", "Once"] {
        let reply = world.answer_with(ask, Decision::Allow, |a| a.option = Some(option.to_owned()));
        let offered = "always, once, once-more".to_owned();
        assert_eq!(reply, Err(Refusal::OptionNotOffered { ask, offered }));
    }
    assert_eq!(world.story(ask), ["asked"]);
    assert!(world.ask(ask).is_open());
}

#[test]
fn s1_an_agents_answer_to_itself_is_refused_and_written_down() {
    let mut world = default();
    let ask = world.raise(&raise(1, "a"));
    for _ in 0..2 {
        let reply =
            world.answer_with(ask, Decision::Allow, |a| a.refused = Some("inside the agent".to_owned()));
        assert_eq!(reply, Err(Refusal::NotPermitted("inside the agent".to_owned())));
    }
    assert!(world.ask(ask).is_open());
    assert_eq!(world.story(ask), ["asked", "self_answer_refused", "self_answer_refused"]);
    world.answer(ask, Decision::Deny).unwrap();
    assert_eq!(world.outcome(ask).kind, OutcomeKind::Denied);
}

#[test]
fn s1_only_its_own_requester_withdraws_an_ask_or_reports_its_delivery() {
    let mut world = default();
    let ask = world.raise(&raise(1, "a"));
    let token = crate::common::make::token(99u32);
    let commands = [
        Command::Withdraw { ask, token, cause: Cause::Cancelled },
        Command::Handed { ask, token },
        Command::Confirmed { ask, token },
        Command::DeliveryRefused { ask, token, reason: "x".to_owned() },
    ];
    for command in &commands {
        assert_eq!(world.run(command), Err(Refusal::UnknownAsk), "ids cannot be probed");
    }
    assert!(matches!(world.handed(ask), Err(Refusal::Malformed(_))), "nothing was decided yet");
    assert!(matches!(world.withdraw(ask, Cause::Person), Err(Refusal::Malformed(_))));
    assert_eq!(world.story(ask), ["asked"]);
}

#[test]
fn c13_the_input_is_kept_byte_for_byte() {
    let mut world = default();
    let raw = "{ \"b\" :1.0, \"a\":\"\\u0041\", \"b\" : 12345678901234567890 }";
    let mut strange = raise(1, "a");
    strange.action.input = Some(raw.to_owned());
    let ask = world.raise(&strange);
    assert_eq!(world.replayed(ask).ask.action.input.as_deref(), Some(raw));
}

#[test]
fn t1_unreachable_settles_at_once_only_when_no_surface_exists() {
    let nobody = Settings { no_surfaces: true, ..Settings::default() };
    let strict = Settings { unreachable: Unreachable::WhenNoneAttached, ..Settings::default() };
    for (settings, attached, reachable) in [
        (Settings::default(), false, true),
        (nobody.clone(), false, false),
        (nobody, true, false),
        (strict.clone(), false, false),
        (strict.clone(), true, true),
        (Settings { remotes: 1, ..strict }, false, true),
    ] {
        let mut world = World::new(settings);
        if attached {
            world.run(&surface("terminal", false)).unwrap();
        }
        let ask = world.raise(&raise(1, "a"));
        assert_eq!(world.ask(ask).is_open(), reachable);
        let own = world.raise(&Raise { own_prompt: Some(own_prompt(false)), ..hook(2, "a") });
        assert_eq!(world.ask(own).is_handed_back(), !reachable, "its agent can still ask");
        if !reachable {
            let outcome = world.outcome(ask);
            assert_eq!((outcome.kind, outcome.cause), (OutcomeKind::Denied, Cause::Unreachable));
            assert_eq!((outcome.source, world.ask(ask).delivery), (Some(Source::Policy), Delivery::Pending));
        }
    }
}

#[test]
fn c11_a_background_child_is_held_only_while_somebody_can_answer() {
    let held = |world: &mut World, n| {
        let ask = world.raise(&Raise { own_prompt: Some(own_prompt(true)), ..hook(n, "a") });
        (ask, !world.ask(ask).is_handed_back())
    };
    let with = |hold_background, remotes| Settings { hold_background, remotes, ..Settings::default() };
    assert!(!held(&mut World::new(with(HoldBackground::Auto, 0)), 1).1);
    assert!(held(&mut World::new(with(HoldBackground::Auto, 1)), 1).1);
    assert!(held(&mut World::new(with(HoldBackground::Always, 0)), 1).1);
    assert!(!held(&mut World::new(with(HoldBackground::Never, 1)), 1).1);
    // The last surface that shows it leaves: the agent asks by itself.
    let mut world = World::new(with(HoldBackground::Auto, 0));
    world.run(&surface("one", false)).unwrap();
    let only = SurfaceInfo {
        name: "two".to_owned(),
        remote: false,
        scope: Scope::Roots([session("a")].into()),
        capacity: None,
    };
    world.run(&Command::AttachSurface { surface: SurfaceId("two".to_owned()), info: only }).unwrap();
    let (ask, is_held) = held(&mut world, 1);
    let unblocked = world.raise(&Raise { own_prompt: Some(own_prompt(false)), ..hook(2, "a") });
    assert!(is_held);
    world.run(&Command::DetachSurface { surface: SurfaceId("one".to_owned()) }).unwrap();
    assert!(!world.ask(ask).is_handed_back());
    world.run(&Command::DetachSurface { surface: SurfaceId("two".to_owned()) }).unwrap();
    assert!(world.ask(ask).is_handed_back() && !world.ask(unblocked).is_handed_back());
    // A surface for another root does not show it.
    let other = SurfaceInfo {
        name: "x".to_owned(),
        remote: false,
        scope: Scope::Roots([session("z")].into()),
        capacity: None,
    };
    world.run(&Command::AttachSurface { surface: SurfaceId("x".to_owned()), info: other }).unwrap();
    assert!(!held(&mut world, 3).1);
}

#[test]
fn c8_c11_after_a_restart_nobody_is_said_to_be_away_before_the_surfaces_of_before_are_back() {
    let settings = Settings { unreachable: Unreachable::WhenNoneAttached, ..Settings::default() };
    let blocked = |n| Raise { own_prompt: Some(own_prompt(true)), ..hook(n, "a") };
    for surfaces_come in [true, false] {
        let mut world = World::new(settings.clone());
        world.run(&Command::ExpectSurfaces { count: 2 }).unwrap();
        let asks = [world.raise(&raise(1, "a")), world.raise(&blocked(2))];
        let answered = world.raise(&raise(3, "a"));
        world.run(&surface("one", false)).unwrap();
        world.run(&Command::DetachSurface { surface: SurfaceId("one".to_owned()) }).unwrap();
        world.pass(9_999);
        assert!(asks.iter().all(|ask| world.ask(*ask).is_open() && !world.ask(*ask).is_handed_back()));
        world.answer(answered, Decision::Allow).unwrap();
        if surfaces_come {
            world.run(&surface("one", false)).unwrap();
            world.run(&surface("two", false)).unwrap();
            world.pass(60_000);
            assert!(asks.iter().all(|ask| world.ask(*ask).is_open() && !world.ask(*ask).is_handed_back()));
            world.run(&Command::DetachSurface { surface: SurfaceId("one".to_owned()) }).unwrap();
            world.run(&Command::DetachSurface { surface: SurfaceId("two".to_owned()) }).unwrap();
        } else {
            world.pass(1);
            assert_eq!(world.outcome(asks[0]).cause, Cause::Unreachable);
        }
        assert!(world.ask(asks[1]).is_handed_back());
        // From then on as ever.
        let ask = world.raise(&raise(4, "a"));
        assert_eq!(world.outcome(ask).cause, Cause::Unreachable);
        assert_eq!(world.outcome(answered).cause, Cause::Person);
    }
    // Nobody was attached before: there is nothing to wait for.
    let mut world = World::new(settings);
    world.run(&Command::ExpectSurfaces { count: 0 }).unwrap();
    let ask = world.raise(&raise(1, "a"));
    assert_eq!(world.outcome(ask).cause, Cause::Unreachable);
}

#[test]
fn c11_a_question_that_needs_its_own_prompt_is_handed_back_at_once() {
    let mut world = default();
    let question = Raise { needs_own_prompt: true, own_prompt: Some(own_prompt(false)), ..hook(1, "a") };
    let question = Raise { call: Some("c1".to_owned()), ..question };
    let ask = world.raise(&question);
    assert!(world.ask(ask).is_open() && world.ask(ask).is_handed_back());
    assert!(matches!(world.answer(ask, Decision::Allow), Err(Refusal::HandedBack { .. })));
    world.see("a", call_ended("c1"));
    assert_eq!(world.outcome(ask).verdict(), Verdict::None);
}

#[test]
fn c1_a_daemon_that_stops_hands_back_lets_go_and_keeps_what_comes_back() {
    let mut world = default();
    let own = world.raise(&Raise { own_prompt: Some(own_prompt(false)), ..hook(1, "a") });
    let let_go: Vec<_> = [RequesterKind::Hook, RequesterKind::Library, RequesterKind::Script]
        .into_iter()
        .zip(2..)
        .map(|(kind, n)| world.raise(&Raise { kind, own_prompt: None, ..raise(n, "a") }))
        .collect();
    let proxy = Raise { kind: RequesterKind::Proxy, ..raise(5, "a") };
    let ask = world.raise(&proxy);
    // Its connection broke before: nobody told it anything, and it is still on its way back.
    let away = raise(6, "a");
    let detached = world.raise(&away);
    world.run(&Command::LinkClosed { link: away.link }).unwrap();
    world.run(&Command::Stopping).unwrap();
    assert!(world.ask(own).is_open() && world.ask(own).is_handed_back());
    for ask in [ask, detached] {
        assert!(world.ask(ask).is_open() && !world.ask(ask).is_handed_back());
    }
    for ask in &let_go {
        let outcome = world.outcome(*ask);
        assert_eq!((outcome.verdict(), outcome.cause), (Verdict::None, Cause::RequesterGone));
        assert_eq!(outcome.message.as_deref(), Some("askd was stopped"));
    }
    world.restart();
    for ask in let_go {
        assert!(world.answer(ask, Decision::Allow).is_err(), "nobody waits for it");
    }
    assert_eq!(world.raise(&Raise { id: id(77), ..proxy }), ask);
    assert_eq!(world.raise(&Raise { id: id(78), ..away }), detached);
}

#[test]
fn s7_a_raise_that_makes_no_sense_is_refused_and_leaves_nothing() {
    let mut world = default();
    let bad: [fn(&mut Raise); 12] = [
        |r| r.key.clear(),
        |r| r.key = "k".repeat(2_000),
        |r| r.action.tool.clear(),
        |r| r.session.agent = "a/b".to_owned(),
        |r| r.session.session.clear(),
        |r| r.parent = Some(r.session.clone()),
        |r| r.subagent = Some(crate::common::make::child("")),
        |r| r.options = vec![choice("x", ChoiceKind::AllowOnce); 2],
        |r| r.options = vec![choice("", ChoiceKind::AllowOnce)],
        |r| r.options = (0..65).map(|n| choice(&n.to_string(), ChoiceKind::AllowOnce)).collect(),
        |r| r.deadline_ms = Some(0),
        |r| (r.deadline_ms, r.attendance) = (Some(5), Some(Attendance::Foreground)),
    ];
    for (n, spoil) in bad.iter().enumerate() {
        let mut raise = background(1, "a", 1_000);
        spoil(&mut raise);
        let reply = world.run(&Command::Raise(Box::new(raise)));
        assert!(matches!(reply, Err(Refusal::Malformed(_))), "{n}: {reply:?}");
    }
    assert!(world.history.is_empty());
}

#[test]
fn s7_the_limit_of_open_asks_refuses_clearly_and_only_new_ones() {
    let settings = Settings { max_open_per_session: 3, ..Settings::default() };
    let mut world = World::new(settings);
    for n in 0..3 {
        world.raise(&raise(n, "a"));
    }
    let refused = world.run(&Command::Raise(Box::new(raise(3, "a"))));
    assert!(matches!(refused, Err(Refusal::CapReached(_))));
    let back = Raise { id: id(77), ..raise(0, "a") };
    assert_eq!(world.raise(&back), id(1), "who has one may come back to it");
    world.raise(&raise(4, "b"));
    world.answer(id(1), Decision::Deny).unwrap();
    world.raise(&raise(5, "a"));
}

#[test]
fn s7_what_all_asks_hold_together_is_limited_and_freed_with_them() {
    let settings = Settings { max_held: 3, max_held_bytes: 10_000, ..Settings::default() };
    let mut world = World::new(settings);
    let sized = |n: u32, session: &str, bytes: usize| {
        let mut raise = Raise { kind: RequesterKind::Script, ..raise(n, session) };
        raise.action.input = Some(format!("\"{}\"", "x".repeat(bytes)));
        raise
    };
    let refusal = |world: &mut World, raise: Raise| match world.run(&Command::Raise(Box::new(raise))) {
        Err(Refusal::CapReached(text)) => text,
        other => panic!("{other:?}"),
    };
    let big = world.raise(&sized(0, "a", 7_000));
    let text = refusal(&mut world, sized(1, "b", 2_000));
    assert!(text.contains("bytes") && text.contains("answer or withdraw"), "{text}");
    // Not only the input counts.
    let mut wide = sized(1, "b", 10);
    wide.extra.insert("x".to_owned(), serde_json::json!([{"y": "z".repeat(2_000)}]));
    refusal(&mut world, wide);
    world.raise(&sized(2, "b", 10));
    // Settled and not delivered yet: it makes room, and can still be handed over.
    world.answer(big, Decision::Allow).unwrap();
    let next = world.raise(&sized(4, "c", 2_000));
    assert!(world.state.ask(big).is_none());
    world.handed(big).unwrap();
    world.raise(&sized(5, "d", 10));
    let text = refusal(&mut world, sized(6, "e", 10));
    assert!(text.contains("holds 3 asks") && text.contains("the limit is 3"), "{text}");
    // Who has one comes back to it, also after a restart.
    world.crash();
    assert_eq!(world.raise(&Raise { id: id(99), ..sized(4, "c", 2_000) }), next);
    refusal(&mut world, sized(7, "e", 10));
    world.withdraw(next, Cause::Cancelled).unwrap();
    world.raise(&sized(8, "e", 2_000));
}

#[test]
fn s7_no_session_fills_what_all_may_hold() {
    let settings =
        Settings { max_held_bytes: 40_000, max_held_bytes_per_session: 10_000, ..Settings::default() };
    let mut world = World::new(settings);
    let sized = |n: u32, session: &str, bytes: usize| {
        let mut raise = Raise { kind: RequesterKind::Script, ..raise(n, session) };
        raise.action.input = Some(format!("\"{}\"", "x".repeat(bytes)));
        raise
    };
    let refusal = |world: &mut World, raise: Raise| match world.run(&Command::Raise(Box::new(raise))) {
        Err(Refusal::CapReached(text)) => text,
        other => panic!("{other:?}"),
    };
    let first = world.raise(&sized(0, "a", 7_000));
    let text = refusal(&mut world, sized(1, "a", 2_000));
    assert!(text.contains("/a and its subagents") && text.contains("answer or withdraw"), "{text}");
    // Its subagents have no share of their own.
    let parent = Some(sized(0, "a", 1).session);
    refusal(&mut world, Raise { parent: parent.clone(), ..sized(2, "child", 2_000) });
    // Others do, and they get back to what they have.
    let other = world.raise(&sized(3, "b", 7_000));
    assert_eq!(world.raise(&Raise { id: id(99), ..sized(3, "b", 7_000) }), other);
    // Room comes back with what is over.
    world.withdraw(first, Cause::Cancelled).unwrap();
    world.raise(&Raise { parent, ..sized(4, "child", 7_000) });
    refusal(&mut world, sized(5, "a", 2_000));
}

#[test]
fn s7_texts_that_stay_in_memory_have_a_longest() {
    let mut world = default();
    let long = Some("x".repeat(20_000));
    for raise in [
        Raise { job: long.clone(), ..raise(1, "a") },
        Raise { title: long.clone(), ..raise(1, "a") },
        Raise { turn: long.clone(), ..raise(1, "a") },
    ] {
        let reply = world.run(&Command::Raise(Box::new(raise)));
        assert!(matches!(&reply, Err(Refusal::Malformed(text)) if text.contains("16384")), "{reply:?}");
    }
    assert!(world.history.is_empty());
}

#[test]
fn c5_a_handle_is_never_given_again_also_not_after_a_restart() {
    let mut world = default();
    let mut handles = std::collections::BTreeSet::new();
    for n in 0..20_000 {
        if n % 5_000 == 0 {
            world.crash();
        }
        let ask = world.raise(&Raise { kind: RequesterKind::Script, ..raise(n, "a") });
        assert!(handles.insert(world.ask(ask).ask.handle.clone()), "given twice");
        if n % 3 == 0 {
            world.withdraw(ask, Cause::Cancelled).unwrap();
        } else {
            world.answer(ask, Decision::Deny).unwrap();
            world.handed(ask).unwrap();
            world.confirmed(ask).unwrap();
        }
    }
    assert!(handles.iter().all(|h| (3..=5).contains(&h.0.len())));
}
