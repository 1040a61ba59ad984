//! Line mode through a pipe: what is drawn, what answers, and what does not.

use crate::world::{Running, World, until};
use rustix::process::Signal;

/// A surface that is attached and has said so.
fn surface(world: &World) -> Running {
    let mut line = world.spawn(&[]);
    line.line("open ask");
    line
}

#[test]
fn asks_are_drawn_as_they_come_and_answered_by_line() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("waits for an answer");
    line.line("command     one");
    line.line("answer with:");
    let handle = world.handle("one");
    line.type_line(&format!("allow {handle}"));
    line.line(&format!("{handle}: allowed by you in the terminal"));
    assert_eq!(one.end().0, Some(0));

    let two = world.ask("two", &["--background"]);
    line.line("timed       auto-deny in");
    line.line("answer with:");
    let handle = world.handle("two");
    line.type_line(&format!("deny {handle} not  this folder"));
    line.line(&format!("{handle}: denied by you in the terminal: not  this folder"));
    let (code, out) = two.end();
    assert_eq!((code, out.contains("not  this folder")), (Some(1), true), "{out}");
    line.type_line("quit");
    let (code, out) = line.end();
    assert_eq!(code, Some(0));
    // The event of an own answer says nothing new.
    assert_eq!(out.matches("denied by you").count(), 1, "{out}");
    let log = world.must(&["log"]);
    assert!(log.contains("shown in the terminal"), "{log}");
}

#[test]
fn what_is_not_an_answer_answers_nothing() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let mut line = surface(&world);
    line.line("answer with:");
    for typed in
        ["", "   ", "y", "yes", "allow", "deny", &format!("Allow {handle}"), &format!("{handle} allow")]
    {
        line.type_line(typed);
    }
    line.type_line(&format!("allow {}", &handle[..2]));
    line.line("no ask of this handle was shown here");
    line.type_line("allow zzz");
    line.line("no ask of this handle was shown here");
    line.type_line("help");
    line.line("deny it and tell the agent why");
    line.type_line("ls");
    line.line("Bash: ls");
    assert_eq!(world.open("ls")["state"], "open");
    line.close_input();
    assert_eq!(line.end().0, Some(0));
    // Leaving decides nothing.
    assert_eq!(world.open("ls")["state"], "open");
    drop(asked);
}

#[test]
fn a_line_that_began_before_the_ask_was_drawn_does_not_answer_it() {
    let world = World::new();
    let mut line = surface(&world);
    line.type_raw("allow ");
    let asked = world.ask("ls", &[]);
    line.line("answer with:");
    let handle = world.handle("ls");
    line.type_line(&handle);
    line.line("that line began before the ask was shown");
    assert_eq!(world.open("ls")["state"], "open");
    line.type_line(&format!("deny {handle}"));
    line.line("denied by you");
    assert_eq!(asked.end().0, Some(1));
}

#[test]
fn a_last_line_without_its_end_does_not_answer() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    let mut line = surface(&world);
    line.line("answer with:");
    line.type_raw(&format!("allow {handle}"));
    line.close_input();
    assert_eq!(line.end().0, Some(0));
    assert_eq!(world.open("ls")["state"], "open");
    drop(asked);
}

#[test]
fn c6_what_is_settled_elsewhere_leaves_one_true_line() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("command     one");
    let handle = world.handle("one");
    world.must(&["deny", &handle, "-m", "no"]);
    line.line(&format!("{handle}: denied by you in the command line: no"));
    line.type_line(&format!("allow {handle}"));
    line.line("already settled: denied by you in the command line: no");
    assert_eq!(one.end().0, Some(1));

    let two = world.ask("two", &[]);
    line.line("command     two");
    two.signal(Signal::TERM);
    line.line("cancelled by the agent");
    let three = world.ask("three", &["--background", "--deadline", "1"]);
    line.line("timed out: auto-denied after 1s");
    drop((two, three));
}

#[test]
fn it_connects_again_and_shows_each_ask_once() {
    let world = World::new();
    let mut line = surface(&world);
    let one = world.ask("one", &[]);
    line.line("command     one");
    world.must(&["daemon", "restart"]);
    line.line("the daemon went away; connecting again");
    line.line("connected again");
    let two = world.ask("two", &[]);
    line.line("command     two");
    let (first, second) = (world.handle("one"), world.handle("two"));
    line.line("answer with:");
    line.type_line(&format!("allow {first} {second}"));
    line.line(&format!("{first}: allowed by you"));
    line.line(&format!("{second}: allowed by you"));
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
    let drawn = line.seen.iter().filter(|line| line.contains("command     one")).count();
    assert_eq!(drawn, 1, "{:#?}", line.seen);
    // Killed, nobody restarts it: the surface does.
    world.kill_daemon();
    line.line("connected again");
}

#[test]
fn a_stop_by_a_person_ends_it_and_starting_it_ends_the_stop() {
    let world = World::new();
    let mut line = surface(&world);
    world.must(&["daemon", "stop"]);
    line.line("askd was stopped");
    assert_eq!(line.end().0, Some(0));
    assert_eq!(world.run(&["status"]).out, "askd: stopped\n");
    let line = surface(&world);
    until("it runs", || (world.run(&["status"]).out == "askd: 0 waiting\n").then_some(()));
    drop(line);
}

#[test]
fn s4_hostile_text_is_inert_and_nothing_rings_in_a_pipe() {
    let world = World::new();
    let mut line = surface(&world);
    let asked =
        world.ask("\u{1b}[2Jls \u{202e}x\u{7}", &["--title", "\u{1b}]0;t\u{7}", "--subagent", "a\u{1b}[1mb"]);
    line.line("answer with:");
    let all = line.seen.join("\n");
    assert!(!all.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{all:?}");
    assert!(all.contains("\\u{1b}[2Jls \\u{202e}x\\u{7}"), "{all}");
    assert!(all.contains("subagent    a\\u{1b}[1mb"), "{all}");
    drop(asked);
}
