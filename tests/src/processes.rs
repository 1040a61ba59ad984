//! Looking at processes, and ending those that a test started.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};

/// The living children of a process, by id, with their command lines.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for pid in all() {
        if stat(pid).is_some_and(|(state, ppid)| ppid == parent && state != 'Z') {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()));
        }
    }
    found
}

/// Whether it runs; a process that nobody has waited for does not. One that was killed holds its files and locks until
/// the last of its threads has gone, which may be after the first.
pub fn alive(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok();
        stat.and_then(|stat| parse(&stat)).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
    })
}

/// Ends one process at once.
pub fn kill(pid: u32) -> Result<()> {
    signal(pid, Signal::KILL)
}

/// Stops one process where it is, until [`resume`].
pub fn pause(pid: u32) -> Result<()> {
    signal(pid, Signal::STOP)
}

/// Lets a stopped process go on.
pub fn resume(pid: u32) -> Result<()> {
    signal(pid, Signal::CONT)
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    let target = as_pid(pid).context("no such process id")?;
    rustix::process::kill_process(target, signal).with_context(|| format!("process {pid}"))
}

/// Ends every process of a group at once; that none is left is no fault.
pub(crate) fn kill_group(leader: u32) {
    if let Some(group) = as_pid(leader) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Ends what is left of a world: every process whose environment or command line names its directory, which is
/// unique to one test. One of them may start another while it is looked for (a requester its daemon), so that this ends
/// only when twice none was found.
pub fn sweep(dir: &Path) {
    let mut clean = 0;
    while clean < 2 {
        let found = of_world(dir);
        clean = if found.is_empty() { clean + 1 } else { 0 };
        for pid in found {
            drop(kill(pid));
        }
    }
}

/// Living processes that belong to the world with this directory.
pub fn of_world(dir: &Path) -> Vec<u32> {
    let name = dir.as_os_str().as_bytes();
    let mine = std::process::id();
    let names_it = |pid: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(name.len()).any(|window| window == name)
    };
    let others = all().into_iter().filter(|pid| *pid != mine);
    others.filter(|pid| (names_it(*pid, "environ") || names_it(*pid, "cmdline")) && alive(*pid)).collect()
}

fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// State and parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<(char, u32)> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
