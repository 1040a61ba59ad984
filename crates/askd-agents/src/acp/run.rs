//! The proxy as a process, over the threads of [`crate::proxy`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use askd_client::Places;

use super::{Dismiss, Machine, Settings};
use crate::hidden::{HiddenAdapter, HiddenEvent, HiddenOption, HiddenTold};
use crate::proxy::{Action, AskNo, CannotStart, End, News, Owner, Protocol, Start, serve};

/// What its lines on standard error begin with.
const NAME: &str = "askd acp";

/// Whether another `askd acp` stands before this one and would ask the same. True: it also watches the agent's server.
pub fn behind_another() -> Option<bool> {
    crate::proxy::behind_another(NAME)
}

/// What `askd acp` is started with.
pub struct Options {
    /// The agent's command line, not empty.
    pub command: Vec<OsString>,
    pub places: Places,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    pub dismiss: Dismiss,
    pub grace: Duration,
    pub translate: bool,
    /// For agents that keep asks to themselves.
    pub adapter: Option<Box<dyn HiddenAdapter>>,
    /// Takes one line for standard error; it may block.
    pub log: fn(&str),
}

/// Runs the agent behind the proxy until it ends; gives its exit status, 128 and the signal's number when a signal
/// ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let Options { command, places, exe, dismiss, grace, translate, adapter, log } = options;
    let program = command.first().map(PathBuf::from).unwrap_or_default();
    let agent = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let start = Start {
        name: NAME,
        client: "client",
        command,
        env: Vec::new(),
        owner: Owner::Of("acp"),
        places,
        exe,
        adapter,
        log,
    };
    serve(start, |mark, instance| {
        Machine::new(Settings { dismiss, grace, translate, mark, agent, instance: Some(instance) })
    })
}

impl Protocol for Machine {
    fn client_line(&mut self, line: Vec<u8>, now: Duration) {
        Self::client_line(self, line, now);
    }

    fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        Self::agent_line(self, line, now);
    }

    fn news(&mut self, news: News, now: Duration) {
        Self::news(self, news, now);
    }

    fn client_closed(&mut self, now: Duration) {
        Self::client_closed(self, now);
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

    fn hidden(&mut self, event: HiddenEvent, now: Duration) {
        Self::hidden(self, event, now);
    }

    fn hidden_replied(&mut self, ask: AskNo, told: Option<HiddenTold>, now: Duration) {
        Self::hidden_replied(self, ask, told, now);
    }

    fn set_hidden_options(&mut self, options: &'static [HiddenOption]) {
        Self::set_hidden_options(self, options);
    }
}
