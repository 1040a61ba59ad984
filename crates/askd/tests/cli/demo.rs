//! `askd demo`: the file is written on an allow and on nothing else.

use std::fs;
use std::path::PathBuf;

use crate::world::{Running, World, until};

/// The demo, its files going into the test's own directory.
fn demo(world: &World) -> Running {
    demo_with(world, &["demo"])
}

fn demo_with(world: &World, args: &[&str]) -> Running {
    let mut command = world.command(args);
    command.env("TMPDIR", world.home());
    Running::start(command)
}

/// Reads on to the next ask: its handle.
fn asked(demo: &mut Running) -> String {
    let line = demo.line("answer with: allow ");
    let rest = line.split("allow ").nth(1).unwrap();
    rest.split(',').next().unwrap().to_owned()
}

fn directory(demo: &Running) -> PathBuf {
    let line = demo.seen.iter().find(|line| line.contains("works in ")).unwrap();
    line.split("works in ").nth(1).unwrap().trim_end_matches('.').into()
}

#[test]
fn a_person_allows_one_and_denies_the_other() {
    let world = World::new();
    let mut demo = demo(&world);
    let first = asked(&mut demo);
    let dir = directory(&demo);
    assert!(!dir.join("hello.txt").exists());
    demo.type_line("y");
    demo.line("nothing was answered");
    assert!(!dir.join("hello.txt").exists());
    demo.type_line(&format!("allow {first}"));
    demo.line("I was allowed and have written hello.txt");
    assert!(dir.join("hello.txt").exists());
    let second = asked(&mut demo);
    demo.type_line(&format!("deny {second} not this folder"));
    demo.line("I was told: not this folder");
    let (code, out) = demo.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("hello.txt: written") && out.contains("second.txt: not written"), "{out}");
    assert!(out.contains("askd demo --all"), "{out}");
    assert!(dir.join("hello.txt").exists() && !dir.join("second.txt").exists());
}

#[test]
fn another_terminal_answers_it_and_a_demo_of_denies_leaves_nothing() {
    let world = World::new();
    let mut demo = demo(&world);
    // Without any input of its own.
    demo.close_input();
    let first = asked(&mut demo);
    let dir = directory(&demo);
    world.must(&["deny", &first]);
    demo.line("denied by you in the command line");
    let second = asked(&mut demo);
    world.must(&["deny", &second]);
    let (code, out) = demo.end();
    assert_eq!(code, Some(0), "{out}");
    assert!(!dir.exists(), "{out}");
}

#[test]
fn c6_leaving_the_demo_takes_its_ask_back() {
    let world = World::new();
    let mut demo = demo(&world);
    let first = asked(&mut demo);
    demo.type_line("quit");
    let (code, out) = demo.end();
    assert_eq!(code, Some(0), "{out}");
    let shown = world.json(&["show", &first, "--json"]);
    assert_eq!(shown["outcome"]["outcome"], "withdrawn");
}

#[test]
fn t4_t8_t13_all_of_it_shows_every_kind_of_ask_and_leaves_none() {
    let world = World::new();
    // Slow, so that a busy machine answers in time what is to be answered.
    let mut demo = demo_with(&world, &["demo", "--all", "--slow"]);
    let first = asked(&mut demo);
    let dir = directory(&demo);
    demo.type_line(&format!("allow {first}"));
    demo.line("I was allowed and have written hello.txt");

    demo.line("subagent    editor (writer, depth 1)");
    demo.line("1. Split the slow test into three.");
    let edit = asked(&mut demo);
    demo.line("subagent    builder (general-purpose, depth 1)");
    demo.line("make -C core all");
    let long = asked(&mut demo);
    assert!(!fs::read_to_string(dir.join("notes.md")).unwrap().contains("three"));
    demo.type_line(&format!("allow {edit}"));
    demo.line("I was allowed and have edited notes.md");
    assert!(fs::read_to_string(dir.join("notes.md")).unwrap().contains("three"));
    demo.type_line(&format!("deny {long} too long"));
    demo.line("I was told: too long");

    let hostile = asked(&mut demo);
    assert!(demo.seen.iter().any(|line| line.contains("\\u{202e}")), "{:#?}", demo.seen);
    assert!(!demo.seen.iter().any(|line| line.contains(['\u{1b}', '\u{202e}'])), "{:#?}", demo.seen);
    demo.type_line(&format!("deny {hostile}"));

    demo.line("job         nightly");
    demo.line("timed       auto-deny in");
    demo.line("timed out: auto-denied after 36s");
    demo.has_said("no answer arrived within 36s; nobody denied it");
    assert!(!dir.join("report.txt").exists());

    for _ in 0..6 {
        asked(&mut demo);
    }
    for _ in 0..2 {
        demo.line("queue full: auto-denied");
    }
    let ran = world.run(&["allow", "--all-background", "--yes"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 6), "{ran:?}");
    demo.line("6 of 8 were allowed; the queue was full for 2; a person answered 6.");

    demo.line("safety: doom_loop");
    demo.line("make test");
    let repeated = asked(&mut demo);
    assert!(world.must(&["allow", "--all-background", "--yes"]).contains("nothing else is open"));
    demo.type_line(&format!("deny {repeated}"));
    demo.line("the subagent's turn ends. I was told: the user declined to let it continue");
    let (code, out) = demo.end();
    assert_eq!(code, Some(0), "{out}");
    for line in ["hello.txt: written", "notes.md: edited", "report.txt: not written"] {
        assert!(out.contains(line), "{line} in {out}");
    }
    assert!(world.must(&["ls"]).contains("no open asks"));
    assert!(world.must(&["sessions"]).contains("ended"));
}

#[test]
fn c6_a_deny_with_stop_ends_it_and_a_killed_demo_leaves_no_ask() {
    let world = World::new();
    let mut demo = demo_with(&world, &["demo", "--all"]);
    let first = asked(&mut demo);
    demo.type_line(&format!("deny {first} --stop enough"));
    demo.line("I was told: enough I was told to stop, so I stop.");
    let (code, out) = demo.end();
    assert_eq!((code, out.contains("the directory is removed again")), (Some(0), true), "{out}");

    let mut demo = demo_with(&world, &["demo"]);
    asked(&mut demo);
    demo.signal(rustix::process::Signal::KILL);
    assert_eq!(demo.end().0, None);
    until("its ask is withdrawn", || world.must(&["ls"]).contains("no open asks").then_some(()));
}
