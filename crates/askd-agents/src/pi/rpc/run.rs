//! The proxy as a process, over the threads of [`crate::proxy`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use askd_client::Places;

use super::{Machine, Settings};
use crate::acp::Dismiss;
use crate::proxy::{Action, CannotStart, End, News, Owner, Protocol, Start, serve};

/// What the proxy is started with.
pub struct Options {
    /// pi's command line, not empty.
    pub command: Vec<OsString>,
    /// What pi and its children find in their environment besides ours.
    pub env: Vec<(String, OsString)>,
    pub places: Places,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    pub dismiss: Dismiss,
    pub grace: Duration,
    /// Subagents' requests are asks without this proxy: the daemon serves their directory.
    pub served: bool,
    /// The mark of what this starts: nothing below it may answer.
    pub owner: String,
    /// Takes one line for standard error; it may block.
    pub log: fn(&str),
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Runs pi behind the proxy until it ends; gives its exit status, 128 and the signal's number when a signal ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let Options { command, env, places, exe, dismiss, grace, served, owner, log } = options;
    let start = Start {
        name: "askd run",
        client: "host",
        command,
        env,
        owner: Owner::Named(owner),
        places,
        exe,
        adapter: None,
        log,
    };
    let cwd = std::env::current_dir().ok().map(|dir| dir.to_string_lossy().into_owned());
    let host = "the RPC host".to_owned();
    serve(start, |mark, instance| {
        Machine::new(Settings { dismiss, grace, mark, cwd, host, instance: Some(instance), served })
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

    fn agent_closed(&mut self, now: Duration) {
        Self::agent_closed(self, now);
    }

    fn agent_ended(&mut self, _: End, now: Duration) {
        Self::agent_closed(self, now);
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
