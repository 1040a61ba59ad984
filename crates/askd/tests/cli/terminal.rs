//! What `askd` is in a terminal: the queue, or the line mode where that is wanted.

use std::fs;

use serde_json::Value;

use crate::pty::Pty;
use crate::world::{World, until};

#[test]
fn t11_in_a_terminal_the_queue_opens_and_answers() {
    let world = World::new();
    let mut pty = Pty::start(&world, &[]);
    pty.sees("no open asks");
    assert!(pty.is_full_screen());
    let one = world.ask("one", &["--background", "--subagent", "kid"]);
    let handle = world.handle("one");
    pty.sees(&format!("─ {handle} "));
    let seen = pty.sees("auto-deny in 5m");
    assert!(seen.contains("subagent kid"), "{seen}");
    let asked = pty.presses_until("y", || {
        let shown = world.run(&["show", &handle, "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).ok()?;
        (shown["state"] == "settled").then_some(shown)
    });
    assert_eq!(asked["outcome"]["text"], "allowed by you in the terminal");
    assert_eq!(one.end().0, Some(0));
    pty.sees("nothing waits");
    assert!(pty.raw().contains(&7), "the bell rings for a new ask");
    pty.keys("q");
    pty.sees("left; no ask is open");
    assert!(!pty.is_full_screen());
    assert_eq!(pty.end(), 0);
}

#[test]
fn t7_a_policy_line_typed_in_the_queue_holds() {
    let world = World::new();
    let mut pty = Pty::start(&world, &[]);
    pty.sees("no open asks");
    pty.keys("/permissions timeout 77\r");
    pty.sees("auto-deny in 1m17s");
    let view = world.json(&["permissions", "--json"]);
    assert_eq!(
        (&view["background"]["timeout_secs"], &view["safety"]["timeout_secs"]),
        (&77.into(), &360.into())
    );
    pty.keys("q");
}

#[test]
fn plain_and_a_dumb_terminal_get_the_line_mode() {
    let world = World::new();
    for (args, term) in [(&["--plain"][..], "xterm-256color"), (&[], "dumb")] {
        let mut pty = Pty::start_with(&world, args, term, "");
        pty.sees("no open asks; they are printed as they come");
        assert!(!pty.is_full_screen());
        pty.keys("quit\n");
        pty.sees("left; asks stay open");
        assert_eq!(pty.end(), 0);
    }
}

#[test]
fn the_bell_is_silent_when_the_config_says_so() {
    let world = World::new();
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), "[notify]\nbell = false\n").unwrap();
    for args in [&[][..], &["--plain"]] {
        let pty = Pty::start(&world, args);
        pty.sees("no open asks");
        let command = format!("silent {}", args.len());
        let asked = world.ask(&command, &[]);
        pty.sees(&command);
        // OSC sequences that set the title end with the same byte.
        let raw = String::from_utf8_lossy(&pty.raw()).into_owned();
        let outside: String = raw
            .split("\u{1b}]")
            .enumerate()
            .map(|(at, part)| match part.split_once('\u{7}') {
                Some((_, rest)) if at > 0 => rest.to_owned(),
                _ => part.to_owned(),
            })
            .collect();
        assert!(!outside.contains('\u{7}'), "{raw:?}");
        drop(asked);
        world.must(&["withdraw", &world.handle(&command)]);
    }
}

#[test]
fn t12_all_background_asks_back_with_what_it_will_do() {
    let world = World::new();
    let (one, two) = (world.ask("one", &["--background"]), world.ask("two", &["--background"]));
    let handles = [world.handle("one"), world.handle("two")];
    // What was typed before the question does not answer it.
    let mut pty = Pty::start_with(&world, &["allow", "--all-background"], "xterm-256color", "y\n");
    let seen = pty.sees("allow these 2 asks? (y/n)");
    assert!(handles.iter().all(|handle| seen.contains(handle.as_str())), "{seen}");
    let late = world.ask("late", &["--background"]);
    world.open("late");
    assert_eq!(world.open("one")["state"], "open");
    pty.keys("y\n");
    pty.sees(&format!("{}: allowed by you in the command line", handles[1]));
    assert_eq!(pty.end(), 0);
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
    assert_eq!(world.open("late")["state"], "open");

    for no in ["n\n", "\n", "yeah\n"] {
        let mut pty = Pty::start(&world, &["deny", "--all-background"]);
        pty.sees("deny this 1 ask? (y/n)");
        pty.keys(no);
        pty.sees("nothing was answered");
        assert_eq!(pty.end(), 1, "{no:?}");
    }
    assert_eq!(world.open("late")["state"], "open");
    drop(late);
}

#[test]
fn c6_leaving_the_demo_in_the_queue_takes_its_ask_back() {
    let world = World::new();
    let mut pty = Pty::start(&world, &["demo"]);
    pty.sees("1 of 6: I would like to write hello.txt");
    assert!(pty.is_full_screen());
    pty.sees("hello.txt");
    let ask = until("its ask", || {
        let asks: Vec<Value> = serde_json::from_str(&world.run(&["ls", "--json"]).out).ok()?;
        asks.into_iter().next()
    });
    let handle = ask["handle"].as_str().unwrap();
    pty.sees(&format!("─ {handle} "));
    pty.keys("q");
    pty.sees("hello.txt: not written");
    pty.sees("the directory is removed again");
    assert_eq!(pty.end(), 0);
    let shown = world.json(&["show", handle, "--json"]);
    assert_eq!(shown["outcome"]["cause"], "session_ended");
    assert!(world.must(&["ls"]).contains("no open asks"));
}
