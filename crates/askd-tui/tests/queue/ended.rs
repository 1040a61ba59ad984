//! What is told when an ask ended elsewhere, late, or otherwise than was told.

use askd_tui::{Action, Key};
use askd_wire::Delivery;

use crate::rig::{Rig, decided};
use crate::{samples, stream};

#[test]
fn t15_a_withdrawn_prompt_leaves_one_line_true_to_its_cause() {
    let cases = [
        ("allowed", "person", Some("Telegram"), "(answered elsewhere: allowed in Telegram)"),
        ("denied", "person", Some("the command line"), "(answered elsewhere: denied in the command line)"),
        ("denied", "timed", None, "(timed out: auto-denied)"),
        ("allowed", "timed", None, "(timed out: auto-allowed)"),
        ("withdrawn", "cancelled", None, "(cancelled by the agent)"),
        ("allowed", "agent", None, "(answered elsewhere: allowed in the agent's own prompt)"),
    ];
    for (outcome, cause, surface, line) in cases {
        let ask = samples::bash("k7f", "ls");
        let mut rig = Rig::with(100, 30, std::slice::from_ref(&ask));
        let event = stream::event("settled", &stream::settled(&ask, outcome, cause, surface));
        rig.event(event.clone());
        let screen = rig.screen();
        assert!(screen.contains(&format!("k7f  Bash: ls  {line}")), "{screen}");
        assert!(screen.contains("nothing waits"), "{screen}");
        // Told once, whatever is said of it again.
        rig.event(event);
        assert_eq!(rig.screen().matches("k7f").count(), 1);
    }
}

#[test]
fn t13_an_ask_that_was_over_before_it_could_be_shown_leaves_its_line_too() {
    let mut rig = Rig::with(100, 30, &[]);
    let ask = samples::child("k7f", "ls");
    let mut over = stream::settled(&ask, "denied", "overflow", None);
    over.outcome.as_mut().unwrap().text = "queue full: auto-denied".into();
    rig.event(stream::event("asked", &over));
    rig.event(stream::event("settled", &over));
    assert_eq!(rig.screen().matches("(queue full: auto-denied)").count(), 1);
}

#[test]
fn c11_an_overtaken_ask_is_corrected() {
    let ask = samples::bash("k7f", "ls");
    let mut rig = Rig::with(100, 30, std::slice::from_ref(&ask));
    rig.press('n');
    let mut done = stream::settled(&ask, "denied", "person", Some("the terminal"));
    rig.reply(askd_tui::Reply::Answered(Box::new(done.clone())));
    done.delivery = Delivery::Overtaken;
    rig.event(stream::event("overtaken", &done));
    rig.event(stream::event("overtaken", &done));
    let screen = rig.screen();
    let line = "k7f  Bash: ls  corrected: the agent had already gone on by another answer";
    assert_eq!(screen.matches(line).count(), 1, "{screen}");
}

#[test]
fn an_answer_that_came_second_says_who_was_first_whatever_arrives_first() {
    let ask = samples::bash("k7f", "ls");
    let other = stream::settled(&ask, "allowed", "person", Some("Telegram"));
    let line = "your answer came too late (answered elsewhere: allowed in Telegram)";
    for event_first in [true, false] {
        let mut rig = Rig::with(100, 30, std::slice::from_ref(&ask));
        rig.press('n');
        if event_first {
            rig.event(stream::event("settled", &other));
        }
        rig.reply(stream::refused(&ask.id, "already_settled", Some(other.clone()), None));
        rig.event(stream::event("settled", &other));
        let screen = rig.screen();
        assert_eq!(screen.matches(line).count(), 1, "{screen}");
        assert_eq!(screen.matches("k7f").count(), 1, "{screen}");
    }
}

#[test]
fn c5_an_answer_from_here_is_told_once_whatever_arrives_first() {
    let ask = samples::bash("k7f", "ls");
    let mut done = stream::settled(&ask, "denied", "person", Some("the terminal"));
    done.outcome.as_mut().unwrap().text = "denied by you in the terminal".into();
    for event_first in [true, false] {
        let mut rig = Rig::with(100, 30, std::slice::from_ref(&ask));
        rig.press('n');
        if event_first {
            rig.event(stream::event("settled", &done));
        }
        rig.reply(askd_tui::Reply::Answered(Box::new(done.clone())));
        rig.event(stream::event("settled", &done));
        let screen = rig.screen();
        assert_eq!(screen.matches("k7f  Bash: ls  denied by you in the terminal").count(), 1, "{screen}");
    }
}

#[test]
fn a_late_answer_that_is_kept_can_be_taken_back() {
    let ask = samples::bash("k7f", "ls");
    let mut gone = stream::settled(&ask, "withdrawn", "requester_gone", None);
    gone.late = Some(askd_wire::LateAnswer {
        decision: askd_wire::Decision::Allow,
        until: "2026-11-30T08:01:30.000Z".into(),
        by: Some("you".into()),
        surface: None,
    });
    let mut rig = Rig::with(120, 30, std::slice::from_ref(&ask));
    rig.press('y');
    rig.reply(stream::refused(&ask.id, "already_settled", Some(gone), Some("late")));
    assert!(rig.sees("it will be used if the same call asks again before 08:01:30 (u takes it back)"));
    let actions = rig.press('u');
    assert!(actions.iter().any(|it| matches!(it, Action::TakeBack { id } if *id == ask.id)));
    rig.reply(askd_tui::Reply::TakenBack { id: ask.id.clone(), failed: None });
    assert!(rig.sees("your late answer was taken back"));
    assert!(rig.press('u').is_empty());
}

#[test]
fn an_ask_missing_from_a_snapshot_is_looked_for() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::with(100, 30, &asks);
    let actions = rig.event(stream::snapshot(&asks[1..]));
    assert!(actions.iter().any(|it| matches!(it, Action::Look { id } if *id == asks[0].id)));
    let over = stream::settled(&asks[0], "denied", "timed", None);
    rig.reply(askd_tui::Reply::Seen { id: asks[0].id.clone(), ask: Some(Box::new(over)) });
    assert!(rig.sees("k7f  Bash: ls  (timed out: auto-denied)"));
    rig.event(stream::snapshot(&[]));
    rig.reply(askd_tui::Reply::Seen { id: asks[1].id.clone(), ask: None });
    assert!(rig.sees("q2m  Bash: pwd  (gone; how it ended is not kept)"));
    assert_eq!(rig.queue.waiting(), 0);
}

#[test]
fn a_refusal_that_leaves_the_ask_open_brings_it_back() {
    let ask = samples::bash("k7f", "ls");
    let mut rig = Rig::with(100, 30, std::slice::from_ref(&ask));
    rig.press('y');
    rig.reply(stream::refused(&ask.id, "not_recorded", None, None));
    assert!(rig.sees("refused: why not"));
    assert_eq!(rig.queue.waiting(), 1);
    rig.calmly(Key::Other);
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn identical_asks_stand_together_and_are_answered_one_by_one() {
    let asks = [samples::child("k7f", "ls"), samples::bash("q2m", "pwd"), samples::child("x9p", "ls")];
    let mut rig = Rig::with(100, 30, &asks);
    let screen = rig.screen();
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("{text} in\n{screen}"));
    assert!(at("k7f") < at("x9p") && at("x9p") < at("q2m"));
    assert!(screen.contains("1 of 2 alike") && screen.contains("2 of 2 alike"));
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
    assert!(!rig.sees("alike"));
    assert_eq!(rig.queue.waiting(), 2);
}

#[test]
fn t15_what_is_cut_of_an_action_is_counted_once() {
    let command = "x".repeat(1_800);
    for width in [60, 100, 200] {
        let ask = samples::bash("k7f", &command);
        let mut rig = Rig::with(width, 30, std::slice::from_ref(&ask));
        rig.event(stream::event("settled", &stream::settled(&ask, "withdrawn", "cancelled", None)));
        let screen = rig.screen();
        let line = screen.lines().find(|line| line.contains("(cancelled by the agent)")).unwrap();
        let shown = line.matches('x').count();
        assert!(line.contains(&format!("… (+{})", 1_800 - shown)), "{shown} shown: {line}");
    }
}
