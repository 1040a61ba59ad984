//! Countdowns, wake-ups, snoozing, the bell.

use std::time::Duration;

use askd_tui::{Action, Key, SNOOZE};

use crate::rig::Rig;
use crate::{samples, stream};

fn wake(rig: &Rig) -> Option<Duration> {
    rig.queue.poll_timeout(rig.now)
}

#[test]
fn t11_a_countdown_runs_each_second_and_says_the_timed_answer() {
    let mut rig = Rig::with(60, 15, &[samples::child("k7f", "ls")]);
    assert!(rig.sees("auto-deny in 5m12s"), "{}", rig.shown());
    for left in (300..312).rev() {
        let span = wake(&rig).unwrap();
        assert!(span <= Duration::from_millis(1001), "{span:?}");
        rig.pass(u64::try_from(span.as_millis()).unwrap());
        assert!(rig.sees(&format!("auto-deny in 5m{}s", left - 300)), "{left}\n{}", rig.shown());
    }
}

#[test]
fn t11_two_hundred_countdowns_are_one_wake_up_a_second() {
    let asks: Vec<_> = (0..200)
        .map(|n| {
            let mut ask = samples::child(&format!("h{n}"), &format!("echo {n}"));
            ask.deadline = Some(format!("2026-11-30T08:06:00.{n:03}Z"));
            ask
        })
        .collect();
    let mut rig = Rig::with(200, 50, &asks);
    let mut wakes = 0;
    let until = rig.now.tick + Duration::from_secs(10);
    while rig.now.tick < until {
        let span = wake(&rig).unwrap();
        rig.pass(u64::try_from(span.as_millis()).unwrap().max(1));
        rig.frame();
        wakes += 1;
    }
    assert!((9..=12).contains(&wakes), "{wakes}");
}

#[test]
fn without_a_countdown_on_the_screen_nothing_wakes() {
    let mut rig = Rig::with(60, 15, &[]);
    assert_eq!(wake(&rig), None);
    rig.event(stream::event("asked", &samples::bash("k7f", "ls")));
    rig.frame();
    // Once, when the allow begins to count.
    assert_eq!(wake(&rig), Some(Duration::from_millis(400)));
    rig.pass(400);
    rig.frame();
    assert_eq!(wake(&rig), None);
    rig.event(stream::event("asked", &samples::child("q2m", "pwd")));
    rig.frame();
    assert!(wake(&rig).is_some());
    // Help covers it.
    rig.calmly(Key::Char('?'));
    assert_eq!(wake(&rig), None);
    rig.calmly(Key::Esc);
    assert!(wake(&rig).is_some());
    // A countdown that has run out does not run.
    rig.pass(400_000);
    assert!(rig.sees("now"), "{}", rig.shown());
    assert_eq!(wake(&rig), None);
}

#[test]
fn t11_the_requesters_own_limit_has_a_countdown_of_its_own() {
    let mut ask = samples::child("k7f", "ls");
    ask.gives_up_at = Some("2026-11-30T08:01:43.000Z".into());
    let mut rig = Rig::with(100, 30, &[ask]);
    assert!(rig.sees("auto-deny in 5m12s"));
    assert!(rig.sees("its requester stops waiting in 55s (before the timed answer)"), "{}", rig.shown());
    let mut ask = samples::bash("k7f", "ls");
    ask.gives_up_at = Some("2026-12-07T08:01:43.000Z".into());
    let mut rig = Rig::with(100, 30, &[ask]);
    assert!(!rig.sees("stops waiting"));
    assert_eq!(wake(&rig), None);
    rig.calmly(Key::Enter);
    assert!(rig.sees("its requester stops waiting at 2026-12-07 08:01:43"));
}

#[test]
fn a_snooze_hides_and_moves_no_deadline() {
    let asks = [samples::child("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::with(60, 15, &asks);
    let actions = rig.press('s');
    assert!(matches!(&actions[..], [Action::Snooze { id, .. }] if *id == asks[0].id), "{actions:?}");
    assert!(rig.sees("1 snoozed") && !rig.sees("k7f"));
    assert_eq!(rig.queue.waiting(), 2);
    // It comes back before it is lost: a minute before 08:06:00.
    rig.pass(252_000 - 600);
    assert!(rig.queue.handle_timeout(rig.now).is_empty());
    let span = wake(&rig).unwrap();
    assert!(span <= Duration::from_millis(600), "{span:?}");
    rig.pass(600);
    let actions = rig.queue.handle_timeout(rig.now);
    assert!(matches!(&actions[..], [Action::Alert(text)] if text.contains("Bash: ls")), "{actions:?}");
    assert!(rig.sees("k7f"));
    // Less than a minute: it is not hidden any more.
    rig.key(Key::Home);
    rig.press('s');
    assert!(rig.sees("not hidden"), "{}", rig.shown());
    // One without a deadline comes back by itself, or when asked for.
    let mut rig = Rig::with(60, 15, &asks[1..]);
    rig.press('s');
    rig.frame();
    rig.pass(1000);
    assert_eq!(wake(&rig), Some(SNOOZE - Duration::from_secs(1)));
    assert!(rig.sees("no open asks"), "{}", rig.shown());
    rig.press('S');
    assert!(rig.sees("q2m"));
}

#[test]
fn the_bell_rings_once_for_a_burst() {
    let mut rig = Rig::new(60, 15);
    let rings = |actions: Vec<Action>| actions.iter().filter(|it| matches!(it, Action::Alert(_))).count();
    // What was open before is no news.
    assert_eq!(rings(rig.event(stream::snapshot(&[samples::bash("a", "ls")]))), 0);
    let mut count = 0;
    for n in 0..50 {
        count += rings(rig.event(stream::event("asked", &samples::bash(&format!("b{n}"), "ls"))));
        rig.pass(10);
    }
    assert_eq!(count, 1);
    rig.pass(2000);
    assert_eq!(rings(rig.event(stream::event("asked", &samples::bash("c", "ls")))), 1);
}

#[test]
fn the_title_carries_the_count() {
    let mut rig = Rig::new(60, 15);
    let titles = |actions: Vec<Action>| -> Vec<String> {
        actions
            .into_iter()
            .filter_map(|it| if let Action::Title(text) = it { Some(text) } else { None })
            .collect()
    };
    let ask = samples::bash("k7f", "ls");
    assert_eq!(titles(rig.event(stream::snapshot(std::slice::from_ref(&ask)))), ["askd: 1 waiting"]);
    let more = samples::bash("q2m", "pwd");
    assert_eq!(titles(rig.event(stream::event("asked", &more))), ["askd: 2 waiting"]);
    assert!(titles(rig.event(stream::event("shown", &more))).is_empty());
    rig.event(stream::event("settled", &stream::settled(&more, "denied", "timed", None)));
    let last = stream::event("settled", &stream::settled(&ask, "denied", "timed", None));
    assert_eq!(titles(rig.event(last)), ["askd"]);
}

#[test]
fn t11_a_timed_answer_that_cannot_be_recorded_is_told_as_that() {
    let health = |why: serde_json::Value| {
        let health = serde_json::json!({
            "ok": false, "pid": 1, "version": "0", "api": 1, "open": 1, "surfaces": 1, "journal": "x",
            "not_recorded": why,
        });
        serde_json::from_value(health).unwrap()
    };
    for (width, height) in [(60, 15), (100, 30)] {
        let mut rig = Rig::with(width, height, &[samples::child("k7f", "ls")]);
        rig.queue.handle_health(&health("the disk is \u{1b}[2Jfull".into()));
        let screen = rig.screen();
        let head = screen.lines().next().unwrap();
        assert!(head.contains("1 waiting · nothing can be recorded: the disk is "), "{head}");
        assert!(head.contains(if width > 60 { r"is \u{1b}[2Jfull" } else { "… (+" }), "{head}");
        assert!(screen.contains("auto-deny in 5m1"), "it runs on: {screen}");
        rig.pass(400_000);
        let screen = rig.screen();
        assert!(screen.contains("auto-deny as soon as it can be recorded"), "{screen}");
        assert!(!screen.contains("auto-deny now"), "{screen}");
        rig.queue.handle_health(&health(serde_json::Value::Null));
        assert!(rig.sees("auto-deny now") && !rig.sees("recorded"), "{}", rig.shown());
    }
}
