//! The wrapper as a process, over the threads of [`crate::proxy`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use askd_client::Places;

use super::{HostKind, Machine, Settings};
use crate::proxy::{Action, CannotStart, End, News, Owner, Protocol, Start, serve};

/// What `askd claude` is started with.
pub struct Options {
    /// The agent's command line, not empty, with everything that makes it speak stream-json.
    pub command: Vec<OsString>,
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

/// Variables by which a host has the agent say whether it works; the first works in every version.
const TELLS_STATE: [&str; 2] =
    ["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "CLAUDE_CODE_SDK_READS_SESSION_STATE"];

/// Runs the agent behind the wrapper until it ends; gives its exit status, 128 and the signal's number when a signal
/// ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let Options { command, host, places, unreached, shell_patience, exe, log } = options;
    let hides_state = !TELLS_STATE.iter().any(|name| is_set(name));
    let env = if hides_state { vec![(TELLS_STATE[0].into(), "1".into())] } else { Vec::new() };
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
        let resumes = is_set("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
        let instance = Some(instance);
        Machine::new(Settings { mark, host, instance, cwd, unreached, shell_patience, hides_state, resumes })
    })
}

fn is_set(name: &str) -> bool {
    let value = std::env::var(name).unwrap_or_default();
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
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
