//! How the machine is set up.

use std::time::Duration;

use askd_wire::Instance;

/// How one proxy is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a dialog closed without `session/cancel` means.
    pub dismiss: Dismiss,
    /// How long asks stay open elsewhere after the client is gone.
    pub grace: Duration,
    /// Turn the `subagents` capability on towards the agent for a client that lacks it, and translate back.
    pub translate: bool,
    /// Random text in the ids of our own requests.
    pub mark: String,
    /// Name of the agent until it says one itself.
    pub agent: String,
    /// The agent's process.
    pub instance: Option<Instance>,
}

/// What a dialog means that the client closed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dismiss {
    /// The client leaves the race while other surfaces are attached.
    Ignore,
    /// The agent is told so: the ask is over.
    Cancel,
}
