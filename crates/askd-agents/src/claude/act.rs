//! What goes into the machine besides lines, and what comes out of it.

use std::time::Duration;

use askd_wire::Instance;

use crate::proxy::{AskNo, Errand};

/// How one wrapper is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Random text in the keys of asks.
    pub mark: String,
    pub host: HostKind,
    /// The agent's process.
    pub instance: Option<Instance>,
    /// Where the agent was started.
    pub cwd: Option<String>,
    /// How long an ask that no daemon ever took, and that nobody else can answer, waits for one: the time that the
    /// daemon would give an ask in the background.
    pub unreached: Duration,
}

/// What the host can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// It answers permission requests itself, so they reach it too.
    Answers,
    /// It knows of none; askd alone answers. `attended`: a person is at this run.
    Silent { attended: bool },
}

/// What the caller of the machine has to do, in order.
#[derive(Debug)]
pub enum Action {
    /// A whole line, as it came or as we wrote it.
    ToAgent(Vec<u8>),
    ToHost(Vec<u8>),
    /// Something to do at the daemon. Nobody waits for it.
    Daemon(Errand),
    /// An outcome is in the lines so far: tell the daemon so when they are written.
    Handed {
        ask: AskNo,
    },
    /// Close the agent's standard input: it ends by itself then.
    CloseAgent,
    /// One line for standard error.
    Log(String),
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, or because somebody wanted it to.
    Orderly,
    /// It was killed, or crashed. The session may be resumed.
    Lost,
}

/// How long an answer of the host waits for the journal.
pub(super) const JOURNAL_PATIENCE: Duration = Duration::from_secs(2);
