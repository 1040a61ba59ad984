//! The wrapper as a process, over the threads of [`crate::proxy`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use askd_client::Places;

use super::state_lines::{ask_for_state, is_true};
use super::{HostKind, Machine, Settings};
use crate::proxy::{Action, CannotStart, End, News, Owner, Protocol, Start, serve};

/// What `askd claude` is started with.
pub struct Options {
    /// The agent's command line, not empty, with everything that makes it speak stream-json.
    pub command: Vec<OsString>,
    /// The agent's version where it is known, e.g. `2.1.332`.
    pub version: Option<String>,
    pub host: HostKind,
    pub places: Places,
    /// How long an ask waits for a daemon that never was there, with nobody else who could answer.
    pub unreached: Duration,
    /// How long background shells may run on when the host is gone; none: as long as they run.
    pub shell_patience: Option<Duration>,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    /// Takes one line for standard error; it may block.
    pub log: fn(&str),
}

/// Runs the agent behind the wrapper until it ends; gives its exit status, 128 and the signal's number when a signal
/// ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let Options { command, version, host, places, unreached, shell_patience, exe, log } = options;
    let (env, state_lines) = ask_for_state(version.as_deref(), |name| std::env::var(name).ok());
    let start = Start {
        name: "askd claude",
        client: "host",
        command,
        env,
        owner: Owner::Of("claude"),
        places,
        exe,
        adapter: None,
        log,
    };
    let cwd = std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned));
    serve(start, |mark, instance| {
        let resumes = is_true(std::env::var("CLAUDE_CODE_RESUME_INTERRUPTED_TURN").ok().as_deref());
        let instance = Some(instance);
        Machine::new(Settings { mark, host, instance, cwd, unreached, shell_patience, state_lines, resumes })
    })
}

impl Protocol for Machine {
    fn client_line(&mut self, line: Vec<u8>, now: Duration) {
        self.host_line(line, now);
    }

    fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        Self::agent_line(self, line, now);
    }

    fn news(&mut self, news: News, now: Duration) {
        Self::news(self, news, now);
    }

    fn client_closed(&mut self, now: Duration) {
        self.host_closed(now);
    }

    fn agent_ended(&mut self, end: End, now: Duration) {
        Self::agent_ended(self, end, now);
    }

    fn signalled(&mut self, now: Duration) {
        Self::signalled(self, now);
    }

    fn tick(&mut self, now: Duration) {
        Self::tick(self, now);
    }

    fn next_tick(&self) -> Option<Duration> {
        Self::next_tick(self)
    }

    fn take(&mut self) -> Vec<Action> {
        Self::take(self)
    }
}
