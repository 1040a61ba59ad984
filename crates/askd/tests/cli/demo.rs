//! `askd demo`: the file is written on an allow and on nothing else.

use std::path::PathBuf;

use crate::world::{Running, World};

/// The demo, its files going into the test's own directory.
fn demo(world: &World) -> Running {
    let mut command = world.command(&["demo"]);
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
