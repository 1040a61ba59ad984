//! Several at once: frozen at the first key.

use askd_tui::Key;
use askd_wire::{Ask, Class, Decision};

use crate::rig::{Rig, answers, decided};
use crate::{samples, stream};

fn children(handles: &[&str]) -> Vec<Ask> {
    handles.iter().map(|handle| samples::child(handle, &format!("echo {handle}"))).collect()
}

#[test]
fn t12_bulk_settles_exactly_the_background_asks_on_the_screen() {
    let mut asks = children(&["b1", "b2", "b3"]);
    asks.insert(1, samples::bash("f1", "ls"));
    let mut rig = Rig::with(100, 30, &asks);
    assert!(decided(&rig.press('a')).is_empty());
    assert!(rig.sees("allow 3? y"));
    assert!(rig.sees("echo b2") && !rig.sees("f1"));
    rig.pass(500);
    let actions = rig.press('y');
    assert_eq!(decided(&actions), ["b1 allow", "b2 allow", "b3 allow"]);
    for (given, ask) in answers(&actions).iter().zip([&asks[0], &asks[2], &asks[3]]) {
        assert_eq!((&given.answer.digest, &given.answer.option), (&ask.digest, &None));
    }
    assert_eq!(rig.queue.focus(), Some("0193-f1"));
}

#[test]
fn t12_an_ask_that_came_after_the_first_key_is_not_among_them() {
    let mut rig = Rig::with(100, 30, &children(&["b1", "b2"]));
    rig.press('d');
    for ask in children(&["b3", "b4"]) {
        rig.event(stream::event("asked", &ask));
    }
    assert!(rig.sees("deny 2? y"));
    assert!(!rig.sees("echo b3"));
    assert_eq!(decided(&rig.press('y')), ["b1 deny", "b2 deny"]);
}

#[test]
fn t12_one_that_ended_meanwhile_is_left_out_and_none_takes_its_place() {
    let asks = children(&["b1", "b2", "b3"]);
    let mut rig = Rig::with(100, 30, &asks);
    rig.calmly(Key::Char('a'));
    rig.event(stream::event("settled", &stream::settled(&asks[1], "denied", "person", Some("Telegram"))));
    assert!(rig.sees("allow 2? y"));
    assert!(rig.sees("b2  over meanwhile"));
    rig.pass(500);
    assert_eq!(decided(&rig.press('y')), ["b1 allow", "b3 allow"]);
}

#[test]
fn t12_asks_that_are_not_on_the_screen_are_not_among_them() {
    let handles: Vec<String> = (0..200).map(|n| format!("h{n:03}")).collect();
    let handles: Vec<&str> = handles.iter().map(String::as_str).collect();
    let mut rig = Rig::with(60, 15, &children(&handles));
    rig.press('d');
    let answered = decided(&{
        rig.frame();
        rig.press('y')
    });
    assert!(answered.len() < 10, "{answered:?}");
    for (at, text) in answered.iter().enumerate() {
        assert_eq!(*text, format!("h{at:03} deny"));
    }
}

#[test]
fn t12_bulk_allow_skips_safety_asks_and_asks_not_fully_shown_and_says_so() {
    let mut asks = children(&["b1", "b2"]);
    let mut safety = samples::child("s1", "loop");
    safety.class = Class::Safety;
    let long: Vec<String> = (0..60).map(|n| format!("echo {n}")).collect();
    let mut cut = samples::child("c1", "echo cut");
    cut.display[0].complete = false;
    asks.extend([safety, samples::child("l1", &long.join("\n")), cut]);
    let mut rig = Rig::with(100, 30, &asks);
    rig.calmly(Key::Char('a'));
    let screen = rig.screen();
    assert!(screen.contains("allow 2? y"), "{screen}");
    assert!(screen.contains("not s1: a safety ask: answer it by itself"), "{screen}");
    assert!(screen.contains("not l1: not fully shown: read it first"), "{screen}");
    assert!(screen.contains("not c1: not fully shown"), "{screen}");
    assert_eq!(decided(&rig.press('y')), ["b1 allow", "b2 allow"]);
    // A deny needs no reading.
    rig.frame();
    rig.press('d');
    rig.frame();
    let mut denied = decided(&rig.press('y'));
    denied.sort();
    assert_eq!(denied, ["c1 deny", "l1 deny", "s1 deny"]);
}

#[test]
fn s4_a_question_longer_than_the_screen_is_read_to_its_end_first() {
    let script = |handle: &str| samples::child(handle, &format!("echo {handle}\none\ntwo\nthree\nfour"));
    let mut rig = Rig::with(80, 15, &[script("b1"), script("b2"), script("b3")]);
    rig.calmly(Key::Char('a'));
    let mut pages = 0;
    while rig.sees("for more") {
        assert!(decided(&rig.calmly(Key::Char('y'))).is_empty());
        assert!(rig.sees("read the list to its end first: space"));
        rig.calmly(Key::Char(' '));
        pages += 1;
        assert!(pages < 20);
    }
    assert!(pages > 0, "{}", rig.shown());
    assert_eq!(decided(&rig.press('y')), ["b1 allow", "b2 allow", "b3 allow"]);
}

#[test]
fn s4_the_second_key_must_have_seen_the_question() {
    let mut rig = Rig::with(100, 30, &children(&["b1", "b2"]));
    assert!(decided(&rig.type_in("ay")).is_empty());
    rig.frame();
    assert!(decided(&rig.press('y')).is_empty());
    rig.pass(400);
    assert_eq!(decided(&rig.press('y')).len(), 2);
    // A deny is live as soon as its question is on the screen, and not before.
    let mut rig = Rig::with(100, 30, &children(&["b1", "b2"]));
    assert!(decided(&rig.type_in("dy")).is_empty());
    rig.frame();
    assert_eq!(decided(&rig.press('y')).len(), 2);
}

#[test]
fn anything_but_yes_leaves_them_open() {
    for key in
        [Key::Enter, Key::Esc, Key::Char('n'), Key::Char('a'), Key::Char('d'), Key::Char('Y'), Key::Tab]
    {
        let mut rig = Rig::with(100, 30, &children(&["b1", "b2"]));
        rig.calmly(Key::Char('a'));
        assert!(decided(&rig.calmly(key.clone())).is_empty(), "{key:?}");
        assert_eq!(rig.queue.waiting(), 2);
    }
}

#[test]
fn a_question_about_nothing_is_not_asked() {
    let mut rig = Rig::with(60, 15, &[samples::bash("f1", "ls")]);
    rig.press('a');
    assert!(rig.sees("no background ask is on the screen"));
    let mut safety = samples::child("s1", "loop");
    safety.class = Class::Safety;
    let mut rig = Rig::with(60, 15, &[safety]);
    rig.press('a');
    assert!(rig.sees("nothing to allow at once: s1 is a safety ask"), "{}", rig.shown());
}

#[test]
fn t12_each_of_them_hears_its_own_reply() {
    let asks = children(&["b1", "b2"]);
    let mut rig = Rig::with(100, 30, &asks);
    rig.calmly(Key::Char('d'));
    let given = answers(&rig.press('y'));
    assert!(given.iter().all(|it| it.answer.decision == Decision::Deny));
    let mut done = stream::settled(&asks[0], "denied", "person", Some("the terminal"));
    done.outcome.as_mut().unwrap().text = "denied by you in the terminal".into();
    rig.reply(askd_tui::Reply::Answered(Box::new(done)));
    let other = stream::settled(&asks[1], "allowed", "person", Some("Telegram"));
    rig.reply(stream::refused(&asks[1].id, "already_settled", Some(other), None));
    let screen = rig.screen();
    assert!(screen.contains("b1  Bash: echo b1  denied by you in the terminal"), "{screen}");
    assert!(
        screen.contains("your answer came too late (answered elsewhere: allowed in Telegram)"),
        "{screen}"
    );
    assert_eq!(rig.queue.waiting(), 0);
}
