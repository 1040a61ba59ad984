//! Inside tmux.

use std::path::Path;
use std::process::Command;

use askd_wire::OutcomeKind;
use serde_json::json;

use crate::pty::{Pty, QUEUE, child_of};
use crate::world::{World, until};

struct Tmux {
    socket: String,
}

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        let done = Command::new("tmux").args(["-S", &self.socket]).args(args).output().unwrap();
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    fn sees(&self, pane: &str, text: &str) {
        until(text, || self.run(&["capture-pane", "-p", "-t", pane]).contains(text).then_some(()));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn t11_the_queue_works_inside_tmux_and_jumps_to_the_agents_pane() {
    let mut world = World::start();
    let tmux = Tmux { socket: world.dir().join("tmux.sock").to_str().unwrap().to_owned() };
    let start =
        ["tmux", "-S", &tmux.socket, "-f", "/dev/null", "new-session", "-x", "100", "-y", "30", QUEUE];
    let mut pty = Pty::run(&world, 100, 31, &start, &[]);
    pty.sees("no open asks");
    // The agent's pane, in a window of its own that nobody looks at.
    let agent = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", "cat"]);
    assert!(agent.starts_with('%'), "{agent}");
    let active = || tmux.run(&["display-message", "-p", "#{pane_id}"]);
    let queue = active();
    assert_ne!(queue, agent);
    let ask = world.ask_with("cargo test", &json!({"place": {"tty": null, "tmux_pane": agent}}));
    tmux.sees(&queue, &format!("─ {} ", ask.handle));
    // The title of the window is the title of the pane here.
    until("the title", || {
        (tmux.run(&["display-message", "-p", "-t", &queue, "#{pane_title}"]) == "askd: 1 waiting")
            .then_some(())
    });
    pty.keys("g");
    until("the agent's pane", || (active() == agent).then_some(()));
    tmux.run(&["select-window", "-t", &queue]);
    tmux.run(&["send-keys", "-t", &queue, "n"]);
    assert_eq!(world.decided(&ask), OutcomeKind::Denied);
    tmux.sees(&queue, "denied by you in the terminal");
    // The bell of an ask that comes while nobody looks.
    tmux.run(&["select-window", "-t", &agent]);
    until("the other window", || (active() == agent).then_some(()));
    let next = world.ask("ls");
    until("the bell", || {
        (tmux.run(&["display-message", "-p", "-t", &queue, "#{window_bell_flag}"]) == "1").then_some(())
    });
    assert!(world.is_open(&next));
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    // With and without the signal that says so.
    for command in [QUEUE.to_owned(), format!("trap '' HUP; {QUEUE}; echo")] {
        let world = World::start();
        let socket = world.dir().join("tmux.sock").to_str().unwrap().to_owned();
        let tmux = Tmux { socket };
        let pty =
            Pty::run(&world, 100, 31, &["tmux", "-S", &tmux.socket, "-f", "/dev/null", "new-session"], &[]);
        until("tmux", || (!tmux.run(&["list-panes"]).is_empty()).then_some(()));
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", &command]);
        tmux.sees(&pane, "no open asks");
        let shell: u32 = tmux.run(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]).parse().unwrap();
        let is_queue = |pid: u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(QUEUE))
        };
        let queue = if is_queue(shell) { shell } else { child_of(shell, QUEUE) };
        tmux.run(&["kill-pane", "-t", &pane]);
        until("the queue to end", || (!is_queue(queue)).then_some(()));
        drop(pty);
    }
}
