//! Many tool calls of one session of Claude Code, through `askd claude`'s shipped machine and the shipped core, writer and
//! journal, between a scripted agent, its host and people that a seed determines: parallel calls, aborts, hooks of the
//! agent that are first, hosts that fail, repeat themselves and close, agents that are killed and resumed, a daemon that
//! dies for moments and for longer than an ask's deadline, children in the background, denials that stop a thread,
//! interrupts that the agent never replies to, asks that are refused for good, turns that begin long after the host has
//! closed; shells, monitors, scheduled turns, resumed children, and requests that only a host can reply to. It counts what
//! must never be, and runs the same against [`Kind::Old`], a broker with the faults that hosts of this kind are known for,
//! and against the shipped machine without what each of its rules goes by ([`Kind::Without`]): a soak that does not find
//! those would find none.
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is a fault of the world itself, told by its seed"
)]

mod broker;
mod old;
mod ours;
mod peer;

use std::collections::BTreeSet;

/// What the calls go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What ships.
    Askd,
    /// Race, delete in `finally`, and the last 1 000 calls remembered.
    Old,
    /// What ships, without what one of its rules goes by.
    Without(Rule),
}

/// What [`Kind::Without`] keeps from the machine, so that it does what it would do without that rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Children that a message resumes run again.
    Resumed,
    /// A scheduled turn comes.
    WakeUps,
    /// A turn may follow on a shell.
    Shells,
    /// A monitor begins turns.
    Monitors,
    /// Tasks end.
    Ends,
    /// Children run.
    Children,
    /// It is asked whether it has read everything.
    Question,
    /// It says that it works.
    Works,
    /// It says that it is idle.
    Idle,
    /// Only its host can reply to that.
    HostRequests,
}

impl Rule {
    pub const ALL: [Self; 10] = [
        Self::Resumed,
        Self::WakeUps,
        Self::Shells,
        Self::Monitors,
        Self::Ends,
        Self::Children,
        Self::Question,
        Self::Works,
        Self::Idle,
        Self::HostRequests,
    ];
}

/// What a soak saw.
#[derive(Debug, Default)]
pub struct Found {
    pub calls: u64,
    pub ran: u64,
    pub denied: u64,
    pub cancelled: u64,
    /// Denied by the documented default: in the background, with the deadline past.
    pub timed_out: u64,
    /// Denied with the words of what keeps asks, which would not take it, with nobody else to ask.
    pub refused: u64,
    /// Calls that the host would have checked, and that nobody has.
    pub unchecked: u64,
    /// Requests of agents to hosts that are gone, with nobody who replies.
    pub hung: u64,
    /// Agents whose input stayed open with nothing left to wait for.
    pub never_let_go: u64,
    /// Denied, and nobody had denied it; also by an agent whose input was closed under its asks.
    pub false_denies: u64,
    /// Allowed, and nobody had allowed it.
    pub false_allows: u64,
    /// A second response, or an allow for a call that was over.
    pub double_runs: u64,
    /// Answered, and the agent that waited for it never heard.
    pub lost_answers: u64,
    /// An allow with another input than was asked about.
    pub changed_inputs: u64,
    /// Most records that were held at once, and at the end.
    pub most_held: usize,
    pub held_at_the_end: usize,
    /// Which kinds of trouble happened.
    pub happened: BTreeSet<&'static str>,
    /// The first of what must never be, for looking at it.
    pub first: Option<String>,
}

impl Found {
    fn wrong(&mut self, what: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(what());
        }
    }
}

/// Lets `calls` tool calls happen, and everything come to its end.
pub fn run(kind: Kind, seed: u64, calls: u64) -> Found {
    run_watched(kind, seed, calls, |_| {})
}

/// The same; `watch` is told the number of calls so far, every thousand of them.
pub fn run_watched(kind: Kind, seed: u64, calls: u64, watch: impl FnMut(u64)) -> Found {
    match kind {
        Kind::Askd => peer::World::new(ours::Ours::new(seed, None), seed, calls).live(watch),
        Kind::Without(rule) => peer::World::new(ours::Ours::new(seed, Some(rule)), seed, calls).live(watch),
        Kind::Old => peer::World::new(old::Old::default(), seed, calls).live(watch),
    }
}
