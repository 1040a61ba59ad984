//! No input that began before an ask was drawn answers it.

use askd_tui::{Draft, Key};

use crate::rig::{Rig, decided};
use crate::{samples, stream};

#[test]
fn s4_nothing_answers_an_ask_that_is_not_on_the_screen() {
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&[samples::bash("k7f", "ls")]));
    rig.pass(5000);
    for c in ['y', 'n', 'm', 'A', 'a', 'd'] {
        assert!(decided(&rig.press(c)).is_empty(), "{c}");
    }
    // Drawn, but not known to be written.
    rig.render();
    rig.pass(5000);
    assert!(decided(&rig.press('n')).is_empty());
    assert!(decided(&rig.press('y')).is_empty());
    rig.frame();
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn deny_is_live_at_once_and_allow_after_a_while() {
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&[samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")]));
    rig.frame();
    assert!(decided(&rig.press('y')).is_empty());
    assert!(rig.sees("too soon after it appeared"));
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
    rig.frame();
    rig.pass(399);
    assert!(decided(&rig.press('y')).is_empty());
    // That key was absorbed, so it takes another while.
    rig.pass(399);
    assert!(decided(&rig.press('y')).is_empty());
    rig.pass(400);
    assert_eq!(decided(&rig.press('y')), ["q2m allow"]);
}

#[test]
fn why_a_key_did_nothing_is_not_shown_with_another_ask() {
    let mut rig = Rig::with(60, 15, &[]);
    rig.press('y');
    assert!(rig.sees("no ask is in focus"));
    rig.event(stream::event("asked", &samples::bash("k7f", "ls")));
    assert!(!rig.sees("no ask is in focus"));
    rig.press('y');
    assert!(rig.sees("too soon after it appeared"));
    // One that comes behind it does not take the word away, one that takes its place does.
    rig.event(stream::event("asked", &samples::bash("q2m", "pwd")));
    assert!(rig.sees("too soon after it appeared"));
    let over = stream::settled(&samples::bash("k7f", "ls"), "allowed", "person", Some("phone"));
    rig.event(stream::event("settled", &over));
    assert!(!rig.sees("too soon after it appeared"));
}

#[test]
fn every_absorbed_key_makes_an_allow_wait() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls")]);
    // Somebody types a word that has a y in it.
    for c in "why".chars() {
        assert!(decided(&rig.press(c)).is_empty());
        rig.pass(120);
    }
    rig.pass(400);
    for key in [Key::Other, Key::Ctrl('x'), Key::Backspace, Key::Paste("y".into()), Key::Esc] {
        assert!(decided(&rig.key(key.clone())).is_empty(), "{key:?}");
        rig.pass(399);
        assert!(decided(&rig.press('y')).is_empty(), "{key:?}");
        rig.pass(400);
    }
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn s4_keys_in_flight_do_not_answer_the_ask_that_takes_the_place() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd"), samples::bash("x9p", "id")];
    let mut rig = Rig::with(60, 15, &asks);
    // Three keys in one go: the first was meant for what is on the screen.
    assert_eq!(decided(&rig.type_in("nnn")), ["k7f deny"]);
    rig.frame();
    assert_eq!(decided(&rig.type_in("nyn")), ["q2m deny"]);
    rig.frame();
    assert!(decided(&rig.type_in("yyy")).is_empty());
    rig.pass(400);
    assert_eq!(decided(&rig.type_in("yyy")), ["x9p allow"]);
}

#[test]
fn s4_a_key_that_is_held_down_answers_one_ask_whatever_the_terminal_tells() {
    // Twenty of them, a frame after each: a held key comes first after 660 ms, then every 33 ms.
    let asks: Vec<_> = (0..20).map(|n| samples::bash(&format!("k{n}a"), &format!("ls {n}"))).collect();
    for (key, decision) in [('n', "deny"), ('y', "allow")] {
        let mut rig = Rig::with(60, 15, &asks);
        assert_eq!(decided(&rig.press(key)), [format!("k0a {decision}")]);
        for pause in [660].into_iter().chain([33; 100]) {
            rig.frame();
            rig.pass(pause);
            assert!(decided(&rig.press(key)).is_empty());
        }
        assert!(rig.sees("still held down?"));
        // Let go, and pressed for the next.
        rig.pass(400);
        assert_eq!(decided(&rig.press(key)), [format!("k1a {decision}")]);
    }
    // Deny stays live at once for who means another ask.
    let mut rig = Rig::with(60, 15, &asks);
    assert_eq!(decided(&rig.press('n')), ["k0a deny"]);
    rig.frame();
    rig.key(Key::Down);
    rig.frame();
    assert_eq!(decided(&rig.press('n')), ["k2a deny"]);
}

#[test]
fn s4_a_held_key_does_not_choose_in_the_panel_that_it_opened() {
    let mut rig = Rig::with(60, 30, &[samples::bash("e5t", "ls")]);
    rig.press('A');
    for pause in [660].into_iter().chain([33; 100]) {
        rig.frame();
        rig.pass(pause);
        assert!(decided(&rig.press('A')).is_empty());
    }
    rig.pass(400);
    assert_eq!(decided(&rig.press('A')), ["e5t allow"]);
}

#[test]
fn s4_an_answer_elsewhere_does_not_turn_a_key_in_flight_to_the_next() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::with(60, 15, &asks);
    rig.event(stream::event("settled", &stream::settled(&asks[0], "allowed", "person", Some("Telegram"))));
    assert!(decided(&rig.type_in("yn")).is_empty());
    rig.frame();
    assert!(decided(&rig.press('y')).is_empty());
    assert_eq!(decided(&rig.press('n')), ["q2m deny"]);
}

#[test]
fn moving_to_another_ask_is_seeing_it_first() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")]);
    rig.key(Key::Down);
    assert!(decided(&rig.type_in("yn")).is_empty());
    rig.frame();
    assert_eq!(decided(&rig.press('n')), ["q2m deny"]);
}

#[test]
fn s4_pasted_text_never_answers() {
    let mut rig = Rig::with(60, 15, &[samples::child("k7f", "ls")]);
    for text in ["y", "n", "a", "y\n", "Ay", "m no\n", "/skip-permissions on\n"] {
        assert!(rig.key(Key::Paste(text.into())).is_empty(), "{text}");
        rig.pass(500);
    }
    rig.calmly(Key::Char('a'));
    assert!(decided(&rig.key(Key::Paste("y".into()))).is_empty());
    rig.pass(500);
    rig.frame();
    assert_eq!(decided(&rig.press('y')), ["k7f allow"]);
}

#[test]
fn blank_is_never_allow() {
    let mut rig = Rig::with(60, 15, &[samples::child("k7f", "ls")]);
    for key in [Key::Enter, Key::Enter, Key::Char(' '), Key::Tab] {
        assert!(decided(&rig.calmly(key.clone())).is_empty(), "{key:?}");
    }
    for first in ['m', '/', 'a', 'd', 'A', '?'] {
        rig.calmly(Key::Char(first));
        assert!(decided(&rig.calmly(Key::Enter)).is_empty(), "{first}");
        rig.calmly(Key::Esc);
    }
}

#[test]
fn s4_a_stopped_program_has_shown_nothing() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls")]);
    rig.queue.blind();
    assert!(decided(&rig.type_in("ny")).is_empty());
    rig.frame();
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn s4_a_closed_panel_does_not_pass_its_keys_on() {
    let mut rig = Rig::with(60, 15, &[samples::child("k7f", "ls")]);
    rig.calmly(Key::Char('d'));
    // n closes the question; a second one in flight must not deny the ask behind it.
    assert!(decided(&rig.type_in("nn")).is_empty());
    rig.frame();
    assert!(decided(&rig.press('y')).is_empty());
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}

#[test]
fn t14_keys_meant_for_a_hosts_own_line_answer_nothing() {
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&[]));
    rig.frame();
    rig.event(stream::event("asked", &samples::bash("k7f", "ls")));
    rig.queue.stash(Draft::new("please do not"), rig.now);
    rig.frame();
    // The person goes on typing into a line that has lost the keyboard.
    for c in "deny any /q s?".chars() {
        assert!(rig.press(c).is_empty(), "{c}");
        rig.pass(150);
        rig.frame();
    }
    rig.pass(400);
    assert_eq!(decided(&rig.press('n')), ["k7f deny"]);
}
