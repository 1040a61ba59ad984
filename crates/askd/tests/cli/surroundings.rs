//! What a daemon that a requester starts takes from whom.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{World, until};

/// Ends a daemon that is not in the world's own place, and whoever asks it.
struct Ends {
    state: std::path::PathBuf,
    asks: Vec<Child>,
}

impl Ends {
    fn daemon(&self) -> Option<Pid> {
        let file: Value = serde_json::from_slice(&fs::read(self.state.join("daemon.json")).ok()?).ok()?;
        Pid::from_raw(i32::try_from(file["pid"].as_u64()?).ok()?)
    }

    /// Without a trace, as a crash would.
    fn kill(&self) {
        let pid = until("the daemon says who it is", || self.daemon());
        fs::remove_file(self.state.join("daemon.json")).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for ask in &mut self.asks {
            let _ = ask.kill();
            let _ = ask.wait();
        }
        if let Some(pid) = self.daemon() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Variables of a process.
fn environment(pid: Pid) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
    String::from_utf8(bytes).unwrap().split('\0').map(str::to_owned).collect()
}

#[test]
fn s2_a_requester_chooses_neither_config_nor_home_nor_programs_of_the_daemon_it_starts() {
    let world = World::new();
    let (home, evil) = (world.home(), world.path("evil"));
    let with = |args: &[&str], vars: &[(&str, &OsStr)]| -> Command {
        let mut command = world.command(args);
        command.env_remove("ASKD_DIR").envs(vars.iter().copied());
        command
    };
    for (place, secs) in [(home.join(".config/askd"), 300), (evil.join("askd"), 1)] {
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("config.toml"), format!("[permissions]\nbackground_timeout_secs = {secs}\n"))
            .unwrap();
    }
    let mut ends = Ends { state: home.join(".local/state/askd"), asks: Vec::new() };
    // A person starts one, in a terminal with programs of their own.
    let person = ("PATH", OsStr::new("/home/of/nobody/bin:/usr/bin:/bin"));
    let mut first = with(&["daemon"], &[person]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the person's daemon", || ends.daemon());
    until("it serves", || with(&["status"], &[]).output().unwrap().status.success().then_some(()));
    ends.kill();
    first.wait().unwrap();

    let agents = [
        ("XDG_CONFIG_HOME", evil.as_os_str()),
        ("HOME", evil.as_os_str()),
        ("XDG_STATE_HOME", home.join(".local/state").into_os_string().leak()),
        ("PATH", OsStr::new("/evil:/usr/bin:/bin")),
    ];
    let ask = ["ask", "--tool", "T", "--background", "--input", r#"{"command":"ls"}"#];
    ends.asks.push(with(&ask, &agents).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let list = || -> Vec<Value> {
        serde_json::from_slice(&with(&["ls", "--json"], &[]).output().unwrap().stdout).unwrap_or_default()
    };
    let found = until("the ask", || list().into_iter().next());
    let at = |field: &str| found[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(at("deadline") - at("asked_at"), 300, "the person's config is in force");
    let vars = environment(until("the daemon says who it is", || ends.daemon()));
    assert!(vars.contains(&"PATH=/home/of/nobody/bin:/usr/bin:/bin".to_owned()), "{vars:?}");
    assert!(vars.contains(&format!("HOME={}", home.display())), "{vars:?}");
    assert!(!vars.iter().any(|var| var.contains("evil")), "{vars:?}");

    // An agent that starts one by hand is no person either.
    ends.kill();
    let mut marked = agents.to_vec();
    marked.push(("CLAUDECODE", OsStr::new("1")));
    let by_hand = with(&["daemon"], &marked).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    ends.asks.push(by_hand);
    let vars = environment(until("the daemon says who it is", || ends.daemon()));
    assert!(!vars.iter().any(|var| var.contains("evil")), "{vars:?}");
}

#[test]
fn s2_a_journal_that_the_config_brings_in_brings_no_acceptance_with_it() {
    let skips = "[permissions]\ndangerously_skip_permissions = true\n";
    let write = |world: &World, text: &str| {
        fs::create_dir_all(world.askd_dir()).unwrap();
        fs::write(world.askd_dir().join("config.toml"), text).unwrap();
    };
    // Somewhere else somebody accepted it.
    let other = World::new();
    write(&other, skips);
    other.start();
    other.must(&["config", "accept", "permissions.dangerously_skip_permissions"]);
    other.must(&["daemon", "stop"]);
    let journal = other.path("own");
    fs::DirBuilder::new().mode(0o700).create(&journal).unwrap();
    for part in ["", "-wal", "-shm"] {
        let name = format!("journal.sqlite{part}");
        let _ = fs::rename(other.askd_dir().join("state").join(&name), journal.join(&name));
    }
    let moved = |world: &World, file: &Path| {
        write(world, &format!("{skips}[journal]\nurl = \"sqlite:{}\"\n", file.display()));
    };

    let world = World::new();
    world.start();
    world.kill_daemon();
    moved(&world, &journal.join("journal.sqlite"));
    let asked = world.ask("rm -rf /", &[]);
    world.open("rm -rf /");
    assert!(world.must(&["status"]).contains("settings wait"));
    drop(asked);

    // It is this daemon's journal now, and what a person accepts in it holds.
    world.must(&["config", "accept", "permissions.dangerously_skip_permissions"]);
    world.kill_daemon();
    let (code, said) = world.ask("make", &[]).end();
    assert_eq!(code, Some(0), "{said}");
}
