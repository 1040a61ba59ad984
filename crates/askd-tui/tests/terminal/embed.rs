//! The example that embeds the queue, as the person who types into it sees it.

use std::path::PathBuf;
use std::process::Command;

use crate::pty::Pty;
use crate::world::World;

/// The example's program, built now if it is not there.
fn example() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "askd-tui", "--example", "embed", "--message-format", "json"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let program = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "embed").then_some(())?;
        message["executable"].as_str().map(PathBuf::from)
    });
    program.unwrap()
}

#[test]
fn t14_a_host_gets_its_draft_back_with_the_cursor() {
    let program = example();
    let world = World::start();
    let mut pty = Pty::run(&world, 80, 30, &[program.to_str().unwrap()], &[]);
    pty.sees("what shall I do?");
    pty.keys("rm -rf build\r");
    pty.sees("you: rm -rf build");
    pty.keys("and then push\x1b[D\x1b[D\x1b[D\x1b[D");
    pty.sees("> and then push");
    pty.focuses("a1");
    pty.sees_no_more("> and then push");
    // Keys meant for the line answer nothing; the draft is not touched either.
    pty.keys("yes now");
    pty.can_allow("a1");
    pty.keys("y");
    pty.sees("that was allowed");
    pty.sees("> and then push");
    pty.keys("X");
    pty.sees("> and then Xpush");
    pty.keys("\x03");
    assert!(pty.ends().success());
}
