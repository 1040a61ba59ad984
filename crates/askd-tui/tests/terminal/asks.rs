//! Asks of a real daemon, answered in a real terminal.

use askd_wire::{Decision, OutcomeKind};
use serde_json::json;

use crate::pty::{Pty, is_bold, rows};
use crate::world::World;

#[test]
fn t11_an_ask_is_shown_with_its_countdown_and_answered() {
    let mut world = World::start();
    let mut pty = Pty::queue(&world, 60, 15);
    pty.sees("no open asks");
    let ask = world.ask_with(
        "cargo test",
        &json!({
            "attendance": "background", "deadline_secs": 360,
            "subagent": {"name": "explore", "type": "general-purpose", "work_id": "a1", "depth": 1},
        }),
    );
    pty.focuses(&ask.handle);
    pty.sees("auto-deny in 5m");
    pty.sees("subagent explore (general-purpose, depth 1) · background");
    pty.can_allow(&ask.handle);
    pty.keys("y");
    let outcome = world.outcome(&ask);
    assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Allowed, "person"));
    assert_eq!(outcome.surface.as_deref(), Some("the terminal"));
    pty.sees("allowed by you in the terminal");
    pty.sees("nothing waits");
    // The log knows that it was shown here.
    let log = world.person().log(None, None).unwrap();
    assert!(log.iter().any(|it| it.what == "shown" && it.stream.ends_with(&ask.id)), "{log:?}");
}

#[test]
fn t14_typing_while_asks_arrive_goes_on_and_answers_nothing() {
    let mut world = World::start();
    let mut pty = Pty::queue(&world, 100, 30);
    pty.sees("no open asks");
    pty.keys("/");
    let mut asks = Vec::new();
    let mut typed = "/".to_owned();
    for word in ["permissions", " yes", " nay", " allow", " deny"] {
        pty.keys(word);
        typed.push_str(word);
        asks.push(world.background(&format!("echo {word}")));
        pty.sees(&format!("› {typed}"));
    }
    pty.sees("5 waiting");
    pty.keys("\x1b[D\x1b[DX");
    pty.sees("› /permissions yes nay allow deXny");
    // Behind the X, wherever the frame was cut in two.
    let behind = |screen: &vt100::Screen| (screen.cursor_position() == (29, 33)).then_some(());
    pty.wait("the cursor", behind);
    pty.keys("\x1b");
    pty.sees_no_more("›");
    pty.keys("/");
    pty.sees("› /permissions yes nay allow deXny");
    pty.wait("the cursor again", behind);
    assert!(asks.iter().all(|ask| world.is_open(ask)));
}

#[test]
fn s4_keys_in_flight_when_the_focus_changes_answer_one_ask() {
    let mut world = World::start();
    let asks: Vec<_> = (0..3).map(|n| world.ask(&format!("echo {n}"))).collect();
    let mut pty = Pty::queue(&world, 100, 30);
    pty.focuses(&asks[0].handle);
    for (at, ask) in asks.iter().enumerate() {
        pty.focuses(&ask.handle);
        // Another key in between is a person who presses anew.
        pty.keys("xnnn");
        assert_eq!(world.decided(ask), OutcomeKind::Denied);
        // All were read: the last of them may be one that is held down, and is none for the next ask.
        match asks.get(at + 1) {
            Some(next) => {
                pty.sees("still held down?");
                assert!(world.is_open(next));
            }
            None => pty.sees("nothing waits"),
        }
    }
}

#[test]
fn t15_an_ask_answered_elsewhere_leaves_one_line() {
    let mut world = World::start();
    let mut pty = Pty::queue(&world, 100, 30);
    let (first, second) = (world.ask("echo one"), world.ask("echo two"));
    pty.focuses(&first.handle);
    world.answer(&first, Decision::Allow, "Telegram");
    pty.sees(&format!("{}  Bash: echo one  (answered elsewhere: allowed in Telegram)", first.handle));
    pty.focuses(&second.handle);
    world.person().withdraw(&second.id, "cancelled").unwrap();
    pty.sees(&format!("{}  Bash: echo two  (", second.handle));
    let timed = world.ask_with("echo three", &json!({"attendance": "background", "deadline_secs": 1}));
    pty.sees(&format!("{}  Bash: echo three  (timed out: auto-denied)", timed.handle));
    pty.keys("q");
    assert!(pty.ends().success());
}

#[test]
fn t12_a_bulk_answer_meets_new_arrivals() {
    let mut world = World::start();
    let asks = [world.background("echo one"), world.background("echo two")];
    let foreground = world.ask("echo foreground");
    let mut pty = Pty::queue(&world, 100, 30);
    pty.sees("3 waiting");
    pty.sees("echo two");
    pty.keys("a");
    pty.sees("allow 2? y");
    let late: Vec<_> = (0..3).map(|n| world.background(&format!("echo late {n}"))).collect();
    pty.sees("6 waiting");
    pty.wait("the second key to count", |screen| is_bold(screen, " allow 2? y", 10)?.then_some(()));
    pty.sees("allow 2? y");
    pty.keys("y");
    for ask in &asks {
        assert_eq!(world.decided(ask), OutcomeKind::Allowed);
    }
    pty.sees("4 waiting");
    assert!(late.iter().chain([&foreground]).all(|ask| world.is_open(ask)));
    pty.focuses(&foreground.handle);
    pty.keys("d");
    pty.sees("deny 3? y");
    pty.keys("y");
    for ask in &late {
        assert_eq!(world.decided(ask), OutcomeKind::Denied);
    }
    assert!(world.is_open(&foreground));
}

#[test]
fn resizing_while_asking_keeps_the_ask_answerable() {
    let mut world = World::start();
    let ask = world.ask("cargo test --workspace --all-features --no-fail-fast");
    let mut pty = Pty::queue(&world, 60, 15);
    pty.focuses(&ask.handle);
    for (columns, lines) in [(200, 50), (100, 30), (60, 15), (45, 12), (120, 40)] {
        pty.resize(columns, lines);
        let title = format!("─ {} ", ask.handle);
        pty.wait("the new size", |screen| {
            let title_row = rows(screen).find(|row| row.starts_with(&title))?;
            (title_row.chars().count() == usize::from(columns)).then_some(())
        });
    }
    // Too small to read is too small to answer.
    pty.resize(30, 8);
    pty.sees("needs 40×10");
    pty.keys("ny");
    pty.resize(60, 15);
    pty.focuses(&ask.handle);
    pty.can_allow(&ask.handle);
    pty.keys("y");
    assert_eq!(world.decided(&ask), OutcomeKind::Allowed);
}

#[test]
fn s4_pasted_text_answers_nothing() {
    let mut world = World::start();
    let ask = world.background("echo one");
    let mut pty = Pty::queue(&world, 60, 15);
    pty.can_allow(&ask.handle);
    // With and without the marks of a paste.
    pty.keys("\x1b[200~yna\ry\x1b[201~");
    pty.cannot_allow();
    pty.can_allow(&ask.handle);
    pty.keys("yes, not now\r");
    pty.cannot_allow();
    pty.can_allow(&ask.handle);
    assert!(world.is_open(&ask));
    pty.keys("y");
    assert_eq!(world.decided(&ask), OutcomeKind::Allowed);
}

#[test]
fn s4_a_click_answers_nothing() {
    let mut world = World::start();
    let ask = world.ask("echo one");
    let mut pty = Pty::queue(&world, 120, 30);
    pty.can_allow(&ask.handle);
    // Switched off, whoever left it on.
    for mode in ["9", "1000", "1002", "1003", "1006"] {
        assert!(pty.raw().contains(&format!("\x1b[?{mode}l")), "{mode}");
    }
    // At columns 78 and 89, and where a terminal tells more than one byte.
    pty.keys("\x1b[M n!\x1b[M#n!\x1b[M y!\x1b[M#y!\x1b[M \u{6e0}n");
    pty.cannot_allow();
    pty.keys("m");
    pty.sees("saying");
    pty.keys("half a sen\x1b[M 0!tence");
    pty.sees("half a sentence");
    assert!(world.is_open(&ask));
    pty.keys("\r");
    assert_eq!(world.outcome(&ask).message.as_deref(), Some("half a sentence"));
}

#[test]
fn s4_several_lines_pasted_into_a_line_are_sent_by_the_person() {
    let mut world = World::start();
    let (first, second) = (world.ask("echo one"), world.ask("echo two"));
    let mut pty = Pty::queue(&world, 100, 30);
    pty.focuses(&first.handle);
    pty.keys("m");
    pty.sees("saying");
    // Without the marks of a paste.
    pty.keys("why would you\rsee above\rquit");
    pty.sees("› why would you see above quit");
    pty.sees("nothing was sent");
    assert!(world.is_open(&first) && world.is_open(&second));
    // What came with the end of the line is no key.
    pty.keys("\rn");
    assert_eq!(world.outcome(&first).message.as_deref(), Some("why would you see above quit"));
    pty.focuses(&second.handle);
    assert!(world.is_open(&second));
}

#[test]
fn c12_a_message_reaches_the_requester() {
    let mut world = World::start();
    let ask = world.ask("rm -rf build");
    let mut pty = Pty::queue(&world, 60, 15);
    pty.focuses(&ask.handle);
    pty.keys("m");
    pty.sees("saying");
    pty.keys("keep the build, it is large\t\r");
    let outcome = world.outcome(&ask);
    assert_eq!(outcome.outcome, OutcomeKind::Denied);
    assert_eq!(outcome.message.as_deref(), Some("keep the build, it is large"));
    assert!(outcome.stop);
    pty.sees("(and stop)");
}

#[test]
fn s4_a_long_action_is_allowed_only_after_its_end() {
    let mut world = World::start();
    let lines: Vec<String> = (0..30).map(|n| format!("echo {n}")).collect();
    let ask = world.ask(&format!("{}\nrm -rf ~", lines.join("\n")));
    let mut pty = Pty::queue(&world, 60, 15);
    pty.sees("allow after the last");
    pty.keys("y");
    pty.sees("read it to its end first: space");
    assert!(world.is_open(&ask));
    while !pty.screen().contains("rm -rf ~") {
        let before = pty.screen();
        pty.keys(" ");
        pty.wait("the next page", |screen| (screen.contents() != before).then_some(()));
    }
    while pty.screen().contains("for more") {
        let before = pty.screen();
        pty.keys(" ");
        pty.wait("the next page", |screen| (screen.contents() != before).then_some(()));
    }
    pty.can_allow(&ask.handle);
    pty.keys("y");
    assert_eq!(world.decided(&ask), OutcomeKind::Allowed);
}

#[test]
fn s4_hostile_text_moves_no_cursor_and_sets_no_title() {
    let mut world = World::start();
    let ask = world.ask_with(
        "ls \u{1b}[2J\u{1b}[H\u{1b}]2;owned\u{7}\r\u{202e}txt",
        &json!({"agent": "a\u{1b}]0;owned\u{7}", "session_title": "t\u{9b}2J"}),
    );
    let pty = Pty::queue(&world, 100, 30);
    pty.focuses(&ask.handle);
    pty.sees("ls \\u{1b}[2J\\u{1b}[H\\u{1b}]2;owned\\u{7}\\u{d}\\u{202e}txt");
    pty.sees("1 waiting");
    let raw = pty.raw();
    assert!(!raw.contains("\u{1b}]2;owned") && !raw.contains("\u{1b}]0;owned") && !raw.contains('\u{202e}'));
    assert!(raw.contains("\u{1b}]2;askd: 1 waiting\u{7}"));
}

#[test]
fn t11_two_hundred_open_asks_fit_on_a_small_screen() {
    let mut world = World::start();
    let asks: Vec<_> = (0..200).map(|n| world.ask(&format!("echo {n}"))).collect();
    let mut pty = Pty::queue(&world, 60, 15);
    pty.sees("200 waiting");
    pty.keys("\x1b[F");
    pty.sees("200 of 200");
    let focused = pty.with_screen(|screen| {
        let title = rows(screen).find_map(|row| row.strip_prefix("─ ")?.split(' ').next().map(str::to_owned));
        title.unwrap()
    });
    pty.keys("n");
    let ask = asks.iter().find(|ask| ask.handle == focused).unwrap();
    assert_eq!(world.decided(ask), OutcomeKind::Denied);
    pty.sees("199 waiting");
    pty.sees("199 of 199");
}

#[test]
fn t7_a_command_line_changes_what_happens_without_a_person() {
    let mut world = World::start();
    let mut pty = Pty::queue(&world, 100, 30);
    pty.sees("no open asks");
    pty.keys("/permissions timeout 90\r");
    pty.sees("auto-deny in 1m30s");
    pty.keys("\x1b");
    let ask = world.background("echo one");
    pty.focuses(&ask.handle);
    pty.sees("auto-deny in 1m");
    // With an ask in focus it is for its session.
    pty.keys("/skip-permissions on\r");
    pty.sees("reply");
    let skipped = world.ask("echo two");
    assert_eq!(world.outcome(&skipped).cause, "skip");
    let other = world.ask_with("echo three", &json!({"session": "s2"}));
    assert!(world.is_open(&other) && world.is_open(&ask));
}
