//! The program and its terminal: how it looks for the daemon, how it ends, what it leaves behind.

use std::time::Duration;

use askd_wire::OutcomeKind;
use rustix::process::Signal;

use crate::pty::{Pty, QUEUE, child_of, signal};
use crate::world::{World, until};

/// Runs the queue between two looks at the terminal's settings.
fn wrapped(world: &World, args: &str) -> (Pty, u32) {
    let script = format!(
        "echo hello; stty -a > before; {QUEUE} {args}; echo \"status $?\"; stty -a > after; echo done"
    );
    let pty = Pty::run(world, 60, 15, &["sh", "-c", &script], &[]);
    let queue = child_of(pty.pid(), QUEUE);
    pty.sees("no open asks");
    (pty, queue)
}

/// The screen that was there before, the terminal as it was.
fn assert_restored(world: &World, pty: &mut Pty, says: &str) {
    pty.sees("done");
    pty.sees("hello");
    pty.sees(says);
    pty.ends();
    let look = |name: &str| std::fs::read_to_string(world.dir().join(name)).unwrap();
    assert_eq!(look("before"), look("after"));
    pty.with_screen(|screen| {
        assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
        assert!(!screen.contents().contains("no open asks"));
    });
}

#[test]
fn the_terminal_is_given_back_when_the_person_leaves() {
    let world = World::start();
    let (mut pty, _) = wrapped(&world, "");
    pty.with_screen(|screen| assert!(screen.alternate_screen() && screen.bracketed_paste()));
    pty.keys("q");
    assert_restored(&world, &mut pty, "left; no ask is open");
    assert!(pty.raw().contains("\x1b[23;2t"));
}

#[test]
fn leaving_leaves_asks_open() {
    let mut world = World::start();
    let (mut pty, _) = wrapped(&world, "");
    let ask = world.ask("ls");
    pty.focuses(&ask.handle);
    pty.keys("\x03");
    assert_restored(&world, &mut pty, "left; 1 ask stays open");
    assert!(world.is_open(&ask));
}

#[test]
fn the_terminal_is_given_back_on_signals() {
    for number in [Signal::TERM, Signal::HUP, Signal::INT] {
        let world = World::start();
        let (mut pty, queue) = wrapped(&world, "");
        signal(queue, number);
        assert_restored(&world, &mut pty, "status 0");
    }
}

#[test]
fn the_terminal_is_given_back_after_a_panic() {
    let world = World::start();
    let script = format!(
        "echo hello; stty -a > before; {QUEUE} --broken-feed; echo \"status $?\"; stty -a > after; echo done"
    );
    let mut pty = Pty::run(&world, 60, 15, &["sh", "-c", &script], &[]);
    assert_restored(&world, &mut pty, "status 101");
    assert!(pty.screen().contains("broken on purpose"));
}

#[test]
fn a_stopped_queue_gives_the_terminal_back_and_takes_it_again() {
    let mut world = World::start();
    let (mut pty, queue) = wrapped(&world, "");
    let ask = world.ask("ls");
    pty.focuses(&ask.handle);
    for how in ["key", "signal"] {
        match how {
            "key" => pty.keys("\x1a"),
            _ => signal(queue, Signal::TSTP),
        }
        pty.wait("the plain screen", |screen| (!screen.alternate_screen()).then_some(()));
        until("the program to stop", || {
            let stat = std::fs::read_to_string(format!("/proc/{queue}/stat")).unwrap();
            stat.rsplit(')').next()?.trim_start().starts_with('T').then_some(())
        });
        signal(queue, Signal::CONT);
        pty.wait("the queue again", |screen| screen.alternate_screen().then_some(()));
        pty.focuses(&ask.handle);
    }
    pty.can_allow(&ask.handle);
    pty.keys("y");
    assert_eq!(world.decided(&ask), OutcomeKind::Allowed);
    pty.keys("q");
    assert_restored(&world, &mut pty, "left");
}

#[test]
fn a_restarted_daemon_is_found_again_and_nothing_is_lost() {
    let mut world = World::start();
    let asks = [world.ask("echo one"), world.ask("echo two")];
    let mut pty = Pty::queue(&world, 100, 30);
    pty.focuses(&asks[0].handle);
    world.leave("restart");
    pty.sees("offline: ");
    // Nothing is answered by a key that cannot reach anybody.
    pty.keys("n");
    pty.sees("the daemon is away: nothing was answered");
    world.up();
    pty.sees_no_more("offline: ");
    world.answer(&asks[1], askd_wire::Decision::Deny, "Telegram");
    pty.sees("(answered elsewhere: denied in Telegram)");
    pty.can_allow(&asks[0].handle);
    pty.keys("y");
    assert_eq!(world.decided(&asks[0]), OutcomeKind::Allowed);
}

#[test]
fn a_daemon_that_a_person_stopped_ends_it() {
    let mut world = World::start();
    let mut pty = Pty::queue(&world, 60, 15);
    pty.sees("no open asks");
    world.leave("stop");
    assert!(pty.ends().success());
    pty.sees("askd was stopped");
}

#[test]
fn without_a_daemon_it_says_so_on_the_plain_screen() {
    let mut world = World::start();
    world.leave("restart");
    let mut pty = Pty::queue(&world, 100, 15);
    assert!(!pty.ends().success());
    pty.sees("no askd daemon runs");
    assert!(!pty.raw().contains("\x1b[?1049h"));
}

#[test]
fn without_a_terminal_it_does_not_run() {
    let world = World::start();
    let done = std::process::Command::new(QUEUE)
        .env("ASKD_DIR", world.dir())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("must be a terminal"));
}

#[test]
fn no_colour_where_nobody_wants_it() {
    let mut world = World::start();
    let ask =
        world.ask_with("ls \u{202e}", &serde_json::json!({"attendance": "background", "deadline_secs": 30}));
    for (env, wanted) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let pty = Pty::run(&world, 60, 15, &[QUEUE], env);
        pty.sees("\\u{202e}");
        pty.can_allow(&ask.handle);
        let coloured = pty.with_screen(|screen| {
            let (lines, columns) = screen.size();
            let places = (0..lines.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
            let mut cells = places.map(|(row, column)| screen.cell(row, column).unwrap());
            cells.any(|cell| {
                (cell.fgcolor(), cell.bgcolor()) != (vt100::Color::Default, vt100::Color::Default)
            })
        });
        assert_eq!(coloured, wanted, "{env:?}");
    }
}

#[test]
fn the_bell_rings_and_a_notification_is_sent() {
    let mut world = World::start();
    let pty = Pty::run(&world, 60, 15, &[QUEUE, "--osc9"], &[]);
    pty.sees("no open asks");
    assert!(!pty.raw().contains("\x1b]9;"));
    let first = world.ask("cargo \u{7} test");
    pty.focuses(&first.handle);
    until("the notification", || {
        pty.raw().contains("\x07\x1b]9;askd: Bash: cargo \\u{7} test\x07").then_some(())
    });
}

#[test]
fn with_nothing_to_count_down_nothing_wakes() {
    let mut world = World::start();
    let ask = world.ask("ls");
    let pty = Pty::queue(&world, 60, 15);
    pty.can_allow(&ask.handle);
    let pid = pty.pid();
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks
            .map(|task| {
                let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
                let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
                line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
            })
            .sum()
    };
    // Reports and the like come to rest first.
    let mut before = switches();
    until("it to come to rest", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches();
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    std::thread::sleep(Duration::from_secs(2));
    // The daemon's sign of life on the stream is allowed one.
    assert!(switches() <= before + 1, "{} wake-ups", switches() - before);
}
