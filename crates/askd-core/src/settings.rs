//! The settings that the core needs; where they come from is not its affair.

use crate::ask::Decision;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub background_timeout_ms: u64,
    pub background_default: Decision,
    pub safety_timeout_ms: u64,
    pub safety_default: Decision,
    /// A timed deny of a background ask also stops the turn.
    pub background_deny_stops: bool,
    /// Most open background tool asks of a root session behind the one in front; 0: no cap.
    pub queue_cap: u32,
    /// A foreground ask settles with `remote_action` this long after a remote surface showed it; 0: never.
    pub remote_timeout_ms: u64,
    pub remote_action: Decision,
    /// Every tool ask is allowed, no safety ask ever.
    pub skip: bool,
    /// A late answer settles a repeated call within this span of the loss, in milliseconds.
    pub late_answer_ms: u64,
    /// The person set the background timeout themselves, so that an agent with a prompt of its own gets the answer too.
    pub background_timeout_is_set: bool,
    pub safety_timeout_is_set: bool,
    pub unreachable: Unreachable,
    /// Started without any surface: every ask that needs a person fails closed.
    pub no_surfaces: bool,
    /// Remote surfaces that are configured, attached or not.
    pub remotes: u32,
    pub hold_background: HoldBackground,
    /// At least this long everyone has to come back after a restart of the daemon.
    pub restart_grace_ms: u64,
    /// How long an overdue default waits for the remote surfaces after a start or a wake.
    pub wake_hold_ms: u64,
    /// Most open asks of one session.
    pub max_open_per_session: usize,
    /// Most asks in memory: open, or with something left to deliver or to see.
    pub max_held: usize,
    /// Most bytes that these hold together.
    pub max_held_bytes: usize,
    /// Most of these bytes that the asks of one session and of everything below it hold, so that none fills it alone.
    pub max_held_bytes_per_session: usize,
    /// Most bytes that live sessions and the subagents of these hold together.
    pub max_brought_bytes: usize,
    /// Most bytes that is remembered of the calls, spawns and threads of all sessions together.
    pub max_remembered_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            background_timeout_ms: 360_000,
            background_default: Decision::Deny,
            safety_timeout_ms: 360_000,
            safety_default: Decision::Deny,
            background_deny_stops: false,
            queue_cap: 5,
            remote_timeout_ms: 0,
            remote_action: Decision::Deny,
            skip: false,
            late_answer_ms: 60_000,
            background_timeout_is_set: false,
            safety_timeout_is_set: false,
            unreachable: Unreachable::WhenNoSurface,
            no_surfaces: false,
            remotes: 0,
            hold_background: HoldBackground::Auto,
            restart_grace_ms: 30_000,
            wake_hold_ms: 10_000,
            max_open_per_session: 10_000,
            max_held: 50_000,
            max_held_bytes: 128 * 1024 * 1024,
            max_held_bytes_per_session: 32 * 1024 * 1024,
            max_brought_bytes: 16 * 1024 * 1024,
            max_remembered_bytes: 16 * 1024 * 1024,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// A running daemon counts as reachable, since a person can attach.
    WhenNoSurface,
    WhenNoneAttached,
}

/// Whether to hold an agent's hook while its own prompt cannot appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldBackground {
    /// While a surface is attached or a remote is configured.
    Auto,
    Always,
    Never,
}
