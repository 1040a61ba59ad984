//! One ask between the agent, the host and askd.

use std::time::Duration;

use askd_wire::Decision;
use serde_json::value::RawValue;

/// The host's dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialog {
    Open,
    /// Answered or failed, the host is gone, or it knows of no permission requests.
    Closed,
}

/// What askd knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Askd {
    /// It came while something was being stopped: it may belong to that.
    Parked,
    Raising,
    Raised,
    /// Not to be had, or without an opinion: the host's answer counts alone.
    Off,
}

#[derive(Debug)]
pub(super) enum State {
    Open,
    /// The host answered, and the journal does not know yet.
    Deciding {
        answer: HostAnswer,
        since: Duration,
        sent: bool,
    },
    Done(Done),
}

#[derive(Debug, Clone)]
pub(super) struct HostAnswer {
    /// The host's own bytes, but for what was left out in them.
    pub(super) line: Vec<u8>,
    pub(super) decision: Decision,
    pub(super) option: Option<String>,
    /// The host's words, or what it did besides.
    pub(super) message: Option<String>,
    pub(super) stop: bool,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// The agent was told. `unsure`: the journal may have another answer. `crossed`: the agent cancelled the request
    /// after that, so something in it was first.
    Answered { decision: Decision, unsure: bool, crossed: bool },
    /// The agent went on by itself; its result tells which way.
    Elsewhere,
    /// Nobody decided. `waits`: the agent has not said yet that it does not wait for it any more.
    Ended { waits: bool },
}

#[derive(Debug)]
pub(super) struct Slot {
    /// The agent's id of the request.
    pub(super) id: String,
    /// Its id of the tool call.
    pub(super) call: Option<String>,
    /// The subagent that asks.
    pub(super) work: Option<String>,
    pub(super) tool: String,
    /// What was shown; an allow carries nothing else. Dropped when it is over.
    pub(super) input: Box<RawValue>,
    pub(super) suggestions: Vec<Box<RawValue>>,
    pub(super) reason: Option<String>,
    pub(super) title: Option<String>,
    /// Only the host's person can answer it.
    pub(super) needs_own: bool,
    pub(super) dialog: Dialog,
    pub(super) askd: Askd,
    pub(super) state: State,
    /// Nobody can answer it since then: askd is away, and the host is out.
    pub(super) lost_since: Option<Duration>,
    /// askd took it at some time: it is in the journal.
    pub(super) taken: bool,
    /// What the journal says of the time for an answer, on the clock of the machine.
    pub(super) limit: Option<Limit>,
    /// It was ended here then, and the agent has not cancelled it.
    pub(super) ended_at: Duration,
    /// The host's answer that came after that.
    pub(super) crossing: Option<HostAnswer>,
    /// The agent's line, as long as the host may be shown it again.
    pub(super) line: Vec<u8>,
    /// It was ended by a stop, and is asked once more because the agent did not cancel it in time.
    pub(super) again: bool,
    /// How often the host failed, and when it is shown the request again.
    pub(super) failures: u32,
    pub(super) again_at: Option<Duration>,
}

/// The recorded end of an ask.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) at: Duration,
    /// From the ask to that.
    pub(super) whole: Duration,
    /// What is recorded for it; `None`: no decision.
    pub(super) default: Option<Decision>,
}

impl Slot {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    pub(super) fn waits_ended(&self) -> bool {
        matches!(self.state, State::Done(Done::Ended { waits: true }))
    }

    pub(super) fn deciding_since(&self) -> Option<Duration> {
        match &self.state {
            State::Deciding { since, .. } => Some(*since),
            State::Open | State::Done(_) => None,
        }
    }
}
