//! How the machine is set up.

use std::time::Duration;

use askd_wire::Instance;

use super::StateLines;

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
    /// How long background shells may run on after the last turn when the host is gone; none: as long as they run.
    pub shell_patience: Option<Duration>,
    /// Which lines about the agent's state the host sees.
    pub state_lines: StateLines,
    /// The agent goes on with an interrupted turn by itself.
    pub resumes: bool,
}

/// What the host can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// It answers permission requests itself, so they reach it too.
    Answers,
    /// It knows of none; askd alone answers. `attended`: a person is at this run.
    Silent { attended: bool },
}

/// How long an answer of the host waits for the journal.
pub(super) const JOURNAL_PATIENCE: Duration = Duration::from_secs(2);
