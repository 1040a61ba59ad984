//! What somebody has begun to type is theirs.

use askd_tui::{Action, Draft, Key};

use crate::rig::Rig;
use crate::{samples, stream};

#[test]
fn t14_a_command_being_typed_is_kept_when_an_ask_arrives() {
    let mut rig = Rig::new(60, 15);
    rig.event(stream::snapshot(&[]));
    rig.calmly(Key::Char('/'));
    rig.type_in("permissions timeout 600");
    for _ in 0..3 {
        rig.key(Key::Left);
    }
    rig.frame();
    let cursor = rig.cursor.unwrap();
    rig.event(stream::event("asked", &samples::bash("k7f", "ls")));
    rig.pass(1000);
    assert!(rig.sees("› /permissions timeout 600"));
    assert!(rig.sees("k7f"));
    assert_eq!(rig.cursor, Some(cursor));
    // Letters go into the line, not to the ask.
    assert!(rig.type_in("yn").is_empty());
    assert!(rig.sees("timeout yn600"));
}

#[test]
fn t14_a_line_that_is_left_comes_back_with_its_cursor() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls")]);
    rig.calmly(Key::Char('m'));
    rig.type_in("not this folder");
    rig.key(Key::Home);
    rig.key(Key::Right);
    rig.frame();
    let cursor = rig.cursor;
    rig.calmly(Key::Esc);
    assert_eq!(rig.cursor, None);
    rig.calmly(Key::Char('m'));
    assert!(rig.sees("› not this folder"));
    assert_eq!(rig.cursor, cursor);
    // The command line has a draft of its own.
    rig.calmly(Key::Esc);
    rig.calmly(Key::Char('/'));
    assert!(!rig.sees("not this folder"));
}

#[test]
fn t14_a_hosts_draft_is_stashed_once_and_given_back_when_nothing_waits() {
    let asks = [samples::bash("k7f", "ls"), samples::bash("q2m", "pwd")];
    let mut rig = Rig::new(60, 15);
    let first = rig.event(stream::snapshot(&[]));
    assert!(!first.iter().any(|it| matches!(it, Action::TakeKeys | Action::GiveKeys(_))));
    assert!(!rig.queue.wants_keys());
    let actions = rig.event(stream::event("asked", &asks[0]));
    assert!(actions.iter().any(|it| matches!(it, Action::TakeKeys)));
    let draft = Draft { text: "fix the häuser".into(), cursor: 4 };
    rig.queue.stash(draft.clone(), rig.now);
    let actions = rig.event(stream::event("asked", &asks[1]));
    assert!(!actions.iter().any(|it| matches!(it, Action::TakeKeys)));
    // Only the first counts: later ones are what the queue itself had on the line.
    rig.queue.stash(Draft::new("other"), rig.now);
    let gone = |ask| stream::event("withdrawn", &stream::settled(ask, "withdrawn", "cancelled", None));
    let given = |actions: Vec<Action>| {
        actions.into_iter().find_map(|it| if let Action::GiveKeys(draft) = it { Some(draft) } else { None })
    };
    assert_eq!(given(rig.event(gone(&asks[0]))), None);
    assert_eq!(given(rig.event(gone(&asks[1]))), Some(Some(draft)));
    assert!(!rig.queue.wants_keys());
}

#[test]
fn t7_a_command_goes_to_the_daemon_unparsed_and_says_for_whom() {
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls")]);
    let sent = |actions: Vec<Action>| {
        actions.into_iter().find_map(|it| match it {
            Action::Command { text, session } => Some((text, session)),
            _ => None,
        })
    };
    rig.press('/');
    rig.type_in("permissions  default allow");
    assert!(rig.sees("for claude-code \"fix the tests\""));
    let own = Some("claude-code/5c1e".to_owned());
    assert_eq!(sent(rig.key(Key::Enter)), Some(("/permissions  default allow".into(), own)));
    rig.press('/');
    rig.type_in("skip-permissions on");
    rig.key(Key::Tab);
    assert!(rig.sees("for every session"));
    assert_eq!(sent(rig.key(Key::Enter)), Some(("/skip-permissions on".into(), None)));
    rig.press('/');
    rig.type_in("permission");
    assert_eq!(sent(rig.key(Key::Enter)), None);
    assert!(rig.sees("not understood: /permission"));
    // Without an ask in focus it is for all.
    let mut rig = Rig::with(60, 15, &[]);
    rig.press('/');
    rig.type_in("permissions");
    assert_eq!(sent(rig.key(Key::Enter)), Some(("/permissions".into(), None)));
}

#[test]
fn t7_the_reply_to_a_command_is_shown_and_takes_no_line_away() {
    let text = "permission asks\nbackground asks: auto-deny in 6m0s\nhostile \u{1b}[2J line";
    let mut rig = Rig::with(60, 15, &[samples::bash("k7f", "ls")]);
    rig.reply(askd_tui::Reply::Command(Ok(text.into())));
    assert!(rig.sees("background asks: auto-deny in 6m0s"));
    assert!(rig.sees("hostile \\u{1b}[2J line"));
    assert!(crate::rig::decided(&rig.type_in("yn")).is_empty());
    rig.calmly(Key::Esc);
    rig.calmly(Key::Char('m'));
    rig.type_in("words");
    rig.reply(askd_tui::Reply::Command(Ok(text.into())));
    assert!(rig.sees("› words"));
}
