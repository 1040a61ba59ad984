//! Answers to one ask: read to its end, what an always grants, a message, the agent's own prompt.

use askd_tui::{Action, Key, Link, Reply};
use askd_wire::{Choice, ChoiceKind, Decision, SurfaceReport};

use crate::rig::{Rig, answers, decided};
use crate::{samples, stream};

#[test]
fn an_answer_names_what_was_shown() {
    let ask = samples::bash("k7f", "ls");
    let mut rig = Rig::with(60, 15, std::slice::from_ref(&ask));
    let given = answers(&rig.press('y')).remove(0);
    assert_eq!((given.id, given.answer.digest, given.answer.option), (ask.id, ask.digest, None));
    // It is on its way: nothing is said twice.
    rig.frame();
    rig.pass(500);
    assert!(answers(&rig.type_in("yn")).is_empty());
}

#[test]
fn s4_allow_is_live_only_when_every_page_was_on_the_screen() {
    let lines: Vec<String> = (0..40).map(|n| format!("echo {n}")).collect();
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", &lines.join("\n"))]);
    assert!(rig.sees("allow after the last"));
    let mut pages = 0;
    while rig.sees("for more") {
        assert!(decided(&rig.calmly(Key::Char('y'))).is_empty());
        assert!(rig.sees("read it to its end first: space"), "{}", rig.shown());
        rig.calmly(Key::Char(' '));
        pages += 1;
        assert!(pages < 60);
    }
    assert!(pages > 2, "{}", rig.shown());
    rig.pass(500);
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn s4_the_end_alone_is_not_the_whole() {
    let lines: Vec<String> = (0..60).map(|n| format!("echo {n}")).collect();
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", &lines.join("\n"))]);
    // Pages that were never drawn were never on the screen.
    for _ in 0..30 {
        rig.press(' ');
    }
    rig.frame();
    rig.pass(500);
    assert!(decided(&rig.press('y')).is_empty());
    assert!(rig.sees("read it to its end first"));
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn s4_a_page_that_just_appeared_cannot_be_allowed_yet() {
    let lines: Vec<String> = (0..12).map(|n| format!("echo {n}")).collect();
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", &lines.join("\n"))]);
    rig.press(' ');
    rig.frame();
    assert!(!rig.sees("space"), "{}", rig.shown());
    assert!(decided(&rig.press('y')).is_empty());
    rig.pass(400);
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn s4_what_was_read_stays_read_at_another_size() {
    let lines: Vec<String> = (0..30).map(|n| format!("echo {n} and a few more words than fit")).collect();
    let mut rig = Rig::with(100, 50, &[samples::bash("k7f", &lines.join("\n"))]);
    rig.resize(60, 15);
    rig.pass(500);
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn s4_an_action_that_was_cut_or_is_too_large_can_only_be_denied() {
    let mut cut = samples::bash("k7f", "ls");
    cut.display[0].complete = false;
    let huge = samples::bash("q2m", &"x".repeat(2 * 1024 * 1024));
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&[cut, huge]));
    let reported: Vec<bool> = rig
        .frame()
        .into_iter()
        .filter_map(|action| match action {
            Action::Report(report) => Some(matches!(report, SurfaceReport::Failed { .. })),
            _ => None,
        })
        .collect();
    assert_eq!(reported, [true, true]);
    for handle in ["k7f", "q2m"] {
        rig.frame();
        rig.pass(500);
        assert!(decided(&rig.press('y')).is_empty());
        assert_eq!(decided(&rig.press('n')), [format!("{handle} deny")]);
    }
}

#[test]
fn an_always_needs_a_second_key_and_shows_what_it_grants() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "cargo test")]);
    assert!(answers(&rig.press('A')).is_empty());
    // The second key must have seen it.
    assert!(answers(&rig.press('1')).is_empty());
    assert!(rig.sees("grants Bash(cargo test:*) in this session"));
    assert!(answers(&rig.press('y')).is_empty());
    rig.pass(500);
    let given = answers(&rig.press('1')).remove(0).answer;
    assert_eq!((given.decision, given.option.as_deref()), (Decision::Allow, Some("always_1")));
}

#[test]
fn every_option_of_the_agent_can_be_chosen_and_none_is_guessed() {
    let mut ask = samples::bash("k7f", "ls");
    let choice = |id: &str, kind| Choice {
        id: id.into(),
        label: format!("the {id}"),
        kind,
        grants: None,
        payload: None,
    };
    ask.options = vec![
        choice("a1", ChoiceKind::AllowAlways),
        choice("a2", ChoiceKind::AllowAlways),
        choice("r1", ChoiceKind::RejectAlways),
        choice("r2", ChoiceKind::RejectAlways),
    ];
    let mut rig = Rig::with(60, 15, &[ask]);
    // There is no plain yes, so y is none.
    assert!(answers(&rig.press('y')).is_empty());
    assert!(rig.sees("the agent offers no plain yes"));
    rig.pass(500);
    rig.calmly(Key::Char('A'));
    assert!(rig.sees("the agent does not say for what"));
    assert!(answers(&rig.press('y')).is_empty());
    // The first reject_always is what n says, so it is not among the others.
    assert!(answers(&rig.press('4')).is_empty());
    let given = answers(&rig.press('3')).remove(0).answer;
    assert_eq!((given.decision, given.option.as_deref()), (Decision::Deny, Some("r2")));
}

#[test]
fn s4_a_grant_that_does_not_fit_must_be_read_first() {
    let mut ask = samples::bash("k7f", "ls");
    ask.options[1].grants = Some("x".repeat(3000));
    let mut rig = Rig::with(60, 15, &[ask]);
    rig.calmly(Key::Char('A'));
    assert!(answers(&rig.calmly(Key::Char('1'))).is_empty());
    for _ in 0..10 {
        rig.calmly(Key::Char(' '));
    }
    rig.pass(500);
    assert_eq!(answers(&rig.press('1')).len(), 1);
}

#[test]
fn c12_a_message_goes_with_a_deny_of_the_ask_it_was_typed_for() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::with(60, 15, &asks);
    rig.calmly(Key::Char('m'));
    rig.type_in("not ");
    // Another ask comes, and keys are letters.
    rig.event(stream::event("asked", &samples::child("x9p", "id")));
    rig.frame();
    rig.type_in("any");
    rig.key(Key::Tab);
    let given = answers(&rig.key(Key::Enter)).remove(0);
    assert_eq!(given.id, asks[0].id);
    assert_eq!(given.answer.message.as_deref(), Some("not any"));
    assert_eq!((given.answer.decision, given.answer.stop), (Decision::Deny, true));
}

#[test]
fn words_for_an_ask_that_is_over_are_kept_and_sent_to_no_other() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::with(60, 15, &asks);
    rig.calmly(Key::Char('m'));
    rig.type_in("not now");
    rig.event(stream::event("withdrawn", &stream::settled(&asks[0], "withdrawn", "cancelled", None)));
    rig.frame();
    assert!(answers(&rig.type_in(" yn")).is_empty());
    assert!(rig.sees("k7f is over"));
    assert!(answers(&rig.key(Key::Enter)).is_empty());
    rig.frame();
    rig.pass(500);
    rig.calmly(Key::Char('m'));
    assert!(rig.sees("› not now yn"));
    let given = answers(&rig.key(Key::Enter)).remove(0);
    assert_eq!((given.id, given.answer.message.as_deref()), (asks[1].id.clone(), Some("not now yn")));
}

#[test]
fn c11_a_handed_back_ask_stays_and_says_where() {
    let mut ask = samples::bash("k7f", "ls");
    let mut rig = Rig::with(60, 15, std::slice::from_ref(&ask));
    ask.requester.link = "handed_back".into();
    ask.requester.at = Some("terminal".into());
    rig.event(stream::event("handed_back", &ask));
    assert!(rig.sees("handed back: answer it in the terminal's own prompt"));
    assert!(rig.sees("1 in the agent's own prompt"));
    rig.pass(500);
    assert!(answers(&rig.type_in("yn")).is_empty());
    assert!(rig.sees("only the agent's own prompt can answer it now"));
    let jumped = rig.press('g');
    assert!(matches!(&jumped[..], [Action::JumpToPane { pane }] if pane == "%4"), "{jumped:?}");
}

#[test]
fn s4_only_the_name_of_a_pane_goes_to_tmux() {
    for hostile in ["", "%", "%4;kill-server", "-t", "4", "%4 x", "$(x)"] {
        let mut ask = samples::bash("k7f", "ls");
        ask.lineage.place.as_mut().unwrap().tmux_pane = Some(hostile.into());
        let mut rig = Rig::with(60, 15, &[ask]);
        assert!(rig.press('g').is_empty(), "{hostile:?}");
    }
    let mut far = samples::bash("k7f", "ls");
    far.lineage.host = Some("elsewhere".into());
    assert!(Rig::with(60, 15, &[far]).press('g').is_empty());
}

#[test]
fn nothing_is_answered_while_the_daemon_is_away() {
    let mut rig = Rig::with(60, 15, &[samples::child("k7f", "ls")]);
    let _ = rig.queue.handle_link(Link::Down("the daemon went away".into()), rig.now);
    rig.frame();
    rig.pass(500);
    for c in ['y', 'n', 'm', 'A', 'a', 'd'] {
        assert!(answers(&rig.press(c)).is_empty());
        assert!(rig.sees("the daemon is away: nothing was answered"), "{c}");
    }
    let _ = rig.queue.handle_link(Link::Up, rig.now);
    rig.frame();
    rig.pass(500);
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn an_answer_without_a_reply_is_not_taken_for_one() {
    let ask = samples::bash("k7f", "ls");
    let mut rig = Rig::with(60, 15, std::slice::from_ref(&ask));
    rig.press('y');
    let actions = rig.reply(Reply::Lost { id: ask.id.clone(), why: "no reply in time".into() });
    assert!(actions.iter().any(|action| matches!(action, Action::Look { id } if *id == ask.id)));
    assert!(rig.sees("no reply, your answer may not have arrived"), "{}", rig.shown());
    rig.pass(500);
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn what_was_on_the_screen_is_reported_once() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&asks));
    let reported = |actions: Vec<Action>| actions.iter().filter(|it| matches!(it, Action::Report(_))).count();
    rig.render();
    assert_eq!(reported(rig.frame()), 2);
    assert_eq!(reported(rig.frame()), 0);
}

#[test]
fn a_yes_never_chooses_a_deny() {
    let mut ask = samples::bash("k7f", "ls");
    ask.options[1].kind = ChoiceKind::RejectAlways;
    let mut rig = Rig::with(60, 15, &[ask]);
    rig.calmly(Key::Char('A'));
    assert!(rig.sees("deny always: Yes, and don't ask again for this"));
    assert!(rig.sees("forbids Bash(cargo test:*)"));
    for c in ['y', 'A'] {
        assert!(answers(&rig.calmly(Key::Char(c))).is_empty(), "{c}");
    }
    assert_eq!(decided(&rig.press('1')), ["k7f deny"]);
}

#[test]
fn an_answer_on_its_way_is_told() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")]);
    rig.press('n');
    assert!(rig.sees("1 waiting · 1 being answered"), "{}", rig.shown());
}
