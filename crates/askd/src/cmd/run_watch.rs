//! Beside a headless agent of `askd run`: says on standard error what it waits for, as long as no surface is attached.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use askd_client::{Answers, CallError, Events, HttpError, daemon};
use askd_wire::{Ask, StreamEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, test_kill_process};

use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out;
use crate::process;
use crate::view::{self, Clock, list};

/// How often a daemon that is away is looked for, and an agent that cannot be watched is.
const TICK: Duration = Duration::from_secs(1);
/// Columns of what would run.
const COLUMNS: usize = 80;

pub(crate) fn watch(desk: &Desk, pid: u32, root: Option<String>, detached: bool) -> Done {
    if !detached {
        let exe = daemon::own_exe().ok_or_else(|| Failure::quiet(status::UNAVAILABLE))?;
        let mut command = Command::new(exe);
        command.args(["run-watch", &pid.to_string(), "--detached"]);
        command.args(root.map(|root| format!("--root={root}")));
        // Its end is nobody's affair.
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        return spawned.map(|_| status::OK).map_err(|_| Failure::quiet(status::UNAVAILABLE));
    }
    let Some(agent) = Agent::of(pid, root) else { return Ok(status::OK) };
    let mut told: Vec<String> = Vec::new();
    while agent.lives() {
        let Some(mut events) = open(desk) else {
            agent.wait(None, Some(TICK));
            continue;
        };
        while agent.wait(Some(&events), None) {
            let Some(asks) = read(&mut events) else { break };
            for ask in asks.iter().filter(|ask| agent.asks(ask)) {
                if !told.contains(&ask.id) && nobody_else(desk) {
                    told.push(ask.id.clone());
                    out::tell(&line(ask));
                }
            }
        }
    }
    Ok(status::OK)
}

/// What is waited for, and what to type: `waiting: askd allow k7f  (Bash: cargo test; auto-deny in 5m12s)`.
pub(super) fn line(ask: &Ask) -> String {
    let what = list::summary(ask, COLUMNS);
    let timed = view::timed(ask, &Clock::system()).map(|timed| format!("; {timed}")).unwrap_or_default();
    format!("waiting: askd allow {}  ({what}{timed})", out::safe(&ask.handle))
}

/// A surface that is attached shows the ask itself.
fn nobody_else(desk: &Desk) -> bool {
    let health = Answers::connect(&desk.places).ok().and_then(|mut answers| answers.health().ok());
    health.is_some_and(|health| health.surfaces == 0)
}

fn open(desk: &Desk) -> Option<Events> {
    Answers::connect(&desk.places).ok()?.events(None, None).ok()
}

/// The open asks that the stream tells of now; none when it is gone.
fn read(events: &mut Events) -> Option<Vec<Ask>> {
    events.set_deadline(Some(Instant::now()));
    let mut asks = Vec::new();
    loop {
        match events.receive() {
            Ok(Some(event)) => match event.event {
                StreamEvent::Snapshot { asks: all, .. } => asks.extend(all),
                StreamEvent::Ask { ask, .. } => asks.push(*ask),
                StreamEvent::Bye { .. } => return None,
                _ => {}
            },
            Err(CallError::Http(HttpError::TimedOut)) => break,
            Ok(None) | Err(_) => return None,
        }
    }
    asks.retain(askd_words::is_answerable);
    Some(asks)
}

/// The process that became the agent, or stays between it and its host.
struct Agent {
    pid: u32,
    process: Pid,
    handle: Option<OwnedFd>,
    /// The session that its subagents ask, where those are processes of their own.
    root: Option<String>,
}

impl Agent {
    fn of(pid: u32, root: Option<String>) -> Option<Self> {
        let process = process::of(pid)?;
        Some(Self { pid, process, handle: process::handle(process), root })
    }

    fn lives(&self) -> bool {
        match &self.handle {
            Some(handle) => !is_ready(&[PollFd::new(handle, PollFlags::IN)]),
            None => test_kill_process(self.process).is_ok(),
        }
    }

    /// Itself, or what it has started as the agent. The instance is `host:pid@start`.
    fn asks(&self, ask: &Ask) -> bool {
        if self.root.as_ref() == Some(&ask.lineage.root) {
            return true;
        }
        let instance = ask.lineage.instance.as_deref().unwrap_or_default();
        let pid = instance.rsplit_once(':').map(|(_, rest)| rest.split('@').next().unwrap_or_default());
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else { return false };
        pid == self.pid || process::parent(pid) == Some(self.pid)
    }

    /// Waits for the stream or the agent's end, at most for `limit`; false when the agent has ended.
    fn wait(&self, events: Option<&Events>, limit: Option<Duration>) -> bool {
        let limit = if self.handle.is_none() { Some(limit.unwrap_or(TICK)) } else { limit };
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        fds.extend(self.handle.as_ref().map(|handle| PollFd::new(handle, PollFlags::IN)));
        fds.extend(events.map(|events| PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN)));
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(1),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let _ = poll(&mut fds, limit.as_ref());
        self.lives()
    }
}

fn is_ready(fds: &[PollFd<'_>]) -> bool {
    let mut fds = fds.to_vec();
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn asks_of_this_process_are_told_with_what_to_type() {
        let ask = samples::background();
        assert!(Agent::of(42, None).unwrap().asks(&ask));
        assert!(!Agent::of(7, None).unwrap().asks(&ask));
        assert!(Agent::of(7, Some(ask.lineage.root.clone())).unwrap().asks(&ask));
        let line = line(&ask);
        assert!(line.starts_with("waiting: askd allow k7f  (Bash: cargo test↵rm x"), "{line}");
    }
}
