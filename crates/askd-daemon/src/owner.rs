//! Behind whom a requester stands, so that what one holds never takes another one's places (`askd-core`, `state/shares`).
//!
//! It is the shell that a person started it from: the topmost one of its parents that somebody types into, since whatever
//! is below that may open terminals of its own. Without such a shell it is the control group, in which a process stays
//! that its parent let go of. Nothing that a requester sends counts here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use askd_core::{Hash256, Owner};

use crate::peer;

/// Processes whose owner is remembered.
const MOST_KNOWN: usize = 4096;
/// Longest part of a control group's name that is told, in characters.
const LONGEST_NAME: usize = 80;

/// What was found for processes that started requesters, by number and start. Whose parents end afterwards keeps it.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<BTreeMap<(u32, u64), Owner>>);

impl Owners {
    /// Behind whom this process stands. `pid` 0: the kernel did not say which it is.
    pub(crate) fn of(&self, pid: u32) -> Owner {
        if pid == 0 {
            return named("whoever cannot be told apart (forwarding directories, containers)", 0);
        }
        let Some(parent) = peer::parent_of(pid) else { return find(pid) };
        // The process itself may be a shell that somebody types into: it is of no use to remember its parent's then.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&parent).cloned();
        if let Some(owner) = known {
            return owner;
        }
        let owner = find(pid);
        if owner == find(parent.0) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(parent, owner.clone());
        }
        owner
    }
}

fn find(pid: u32) -> Owner {
    if let Some((shell, start)) = peer::top_shell(pid) {
        return named(&format!("shell {shell}"), start);
    }
    match peer::cgroup(pid) {
        Some(group) => {
            let group = group.trim_end();
            // The last line is the one of the unified hierarchy, where there is one.
            let path = group.lines().last().and_then(|line| line.rsplit(':').next()).unwrap_or(group);
            let end = path.char_indices().rev().nth(LONGEST_NAME - 1).map_or(0, |(at, _)| at);
            let cut = if end > 0 { "…" } else { "" };
            let Hash256(hash) = Hash256::of(group.as_bytes());
            let [a, b, c, d, e, f, g, h, ..] = hash;
            named(
                &format!("control group {cut}{}", &path[end..]),
                u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            )
        }
        None => named("processes that were gone before they could be looked at", 0),
    }
}

fn named(name: &str, since: u64) -> Owner {
    // Whoever may make control groups names them.
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' || c == '…' { c } else { '?' };
    Owner { name: name.chars().map(plain).collect(), since }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, ChildStdin, Command, Stdio};

    use super::*;

    /// A process that its parent let go of, in a POSIX session of its own. It ends when this is dropped.
    fn let_go(way: &str) -> (u32, ChildStdin, Child) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 3<&0; {way} cat <&3 >/dev/null & echo $!")]);
        let mut child = shell.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        child.wait().unwrap();
        (line.trim().parse().unwrap(), stdin, child)
    }

    #[test]
    fn s7_a_process_does_not_choose_its_owner_by_letting_go_of_what_it_starts() {
        let owners = Owners::default();
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for way in ["", "setsid", "setsid", "exec setsid"] {
            let (pid, stdin, _child) = let_go(way);
            found.push(owners.of(pid));
            held.push(stdin);
        }
        // In one POSIX session with a terminal's shell it is that one's still.
        assert!(found[1..].iter().all(|owner| *owner == found[1]), "{found:?}");
        let group = owners.of(std::process::id());
        if !group.name.starts_with("shell ") {
            assert!(found.iter().all(|owner| *owner == group), "{group:?}: {found:?}");
        }
    }

    #[test]
    fn s7_who_was_started_by_one_process_has_one_owner_and_memory_stays_flat() {
        let owners = Owners::default();
        let (mut all, mut held) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut child = Command::new("cat");
            let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            all.push(owners.of(child.id()));
            held.push((child.stdin.take(), child));
        }
        assert!(all.iter().all(|owner| *owner == owners.of(std::process::id())), "{all:?}");
        assert_eq!(owners.0.lock().unwrap().len(), 2, "this process, and what started it");
        let far = (1..=2 * MOST_KNOWN as u64).map(|n| ((7, n), named("x", n)));
        owners.0.lock().unwrap().extend(far);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        owners.0.lock().unwrap().remove(&(std::process::id(), peer::start_of(std::process::id()).unwrap()));
        owners.of(child.id());
        assert!(owners.0.lock().unwrap().len() <= MOST_KNOWN);
        assert_eq!(owners.of(0), owners.of(0));
        assert_eq!(named("group \u{1b}[2J\u{202e}x", 1).name, "group ?[2J?x");
        drop(child.stdin.take());
        child.wait().unwrap();
        for (stdin, mut child) in held {
            drop(stdin);
            child.wait().unwrap();
        }
    }
}
