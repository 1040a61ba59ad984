//! What goes into the machine besides lines, and what comes out of it.

use std::time::Duration;

use askd_wire::{Decision, Instance, ObservationBatch, Outcome, RaiseAsk};

use crate::hidden::HiddenReply;
use crate::proxy::{self, Errand};
pub use crate::proxy::{Answered, AskNo};

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

/// What the caller of the machine has to do, in order.
#[derive(Debug)]
pub enum Action {
    /// A whole line, as it came or as we wrote it.
    ToAgent(Vec<u8>),
    ToClient(Vec<u8>),
    /// Raise an ask at askd and wait for its outcome.
    Raise {
        ask: AskNo,
        raise: Box<RaiseAsk>,
    },
    /// The client answered: try to settle the ask by it.
    Answer {
        ask: AskNo,
        decision: Decision,
        option: String,
        client: String,
    },
    /// Take the ask back at askd.
    Withdraw {
        ask: AskNo,
        cause: &'static str,
    },
    /// The outcome was written to the agent.
    Handed {
        ask: AskNo,
    },
    /// The agent did what it was told.
    Confirmed {
        ask: AskNo,
    },
    /// The client's answer went through without askd: write it down as what the agent's own prompt said.
    Record {
        ask: AskNo,
        allowed: bool,
    },
    /// The client shows the ask, or cannot.
    Shown {
        ask: AskNo,
        root: String,
    },
    Unable {
        ask: AskNo,
        root: String,
        reason: String,
    },
    /// Whether surfaces that show this root's asks are attached besides this client: [`News::Others`].
    CountOthers {
        ask: AskNo,
        agent: String,
        root: String,
    },
    Observe(Box<ObservationBatch>),
    /// The client is a surface of this root session from now on, or no longer.
    Attach {
        agent: String,
        session: String,
        client: String,
    },
    Detach {
        session: String,
    },
    HiddenReply {
        ask: AskNo,
        id: String,
        reply: HiddenReply,
        message: Option<String>,
    },
    /// A `/permissions` line that the person typed in the client: [`News::Slash`].
    Slash {
        ticket: u64,
        text: String,
        agent: String,
        session: String,
    },
    /// Close the agent's standard input: the proxy ends with the agent.
    CloseAgent,
    /// One line for standard error.
    Log(String),
}

/// What askd said.
#[derive(Debug)]
pub enum News {
    /// The ask is in the journal. `timed`: what happens without an answer, e.g. `denied at 14:05 if nobody answers`.
    Raised {
        ask: AskNo,
        timed: Option<String>,
    },
    /// It is settled.
    Outcome {
        ask: AskNo,
        outcome: Box<Outcome>,
    },
    /// What became of [`Action::Answer`].
    Answered {
        ask: AskNo,
        how: Answered,
    },
    /// askd cannot be asked, now or at all.
    Unavailable {
        ask: AskNo,
        why: String,
    },
    Others {
        ask: AskNo,
        attached: bool,
    },
    HiddenReplied {
        ask: AskNo,
        delivered: bool,
    },
    Slash {
        ticket: u64,
        text: String,
    },
}

impl News {
    /// `None`: it is nothing to this protocol.
    pub(super) fn from_askd(news: proxy::News) -> Option<Self> {
        use proxy::News as P;
        Some(match news {
            P::Raised { ask, timed } => Self::Raised { ask, timed },
            P::Outcome { ask, outcome } => Self::Outcome { ask, outcome },
            P::Answered { ask, how } => Self::Answered { ask, how },
            P::Unavailable { ask, why } | P::Refused { ask, why } => Self::Unavailable { ask, why },
            P::Limit { .. } => return None,
            P::Others { ask, attached } => Self::Others { ask, attached },
            P::Slash { ticket, text } => Self::Slash { ticket, text },
        })
    }
}

impl Action {
    /// What concerns the daemon; everything else is given back.
    pub(super) fn into_errand(self) -> Result<Errand, Self> {
        Ok(match self {
            Self::Raise { ask, raise } => Errand::Raise { ask, raise },
            Self::Answer { ask, decision, option, client } => {
                let option = Some(option);
                Errand::Answer { ask, decision, option, message: None, stop: false, client }
            }
            Self::Withdraw { ask, cause } => Errand::Withdraw { ask, cause },
            Self::Confirmed { ask } => Errand::Confirmed { ask },
            Self::Record { ask, allowed } => Errand::Record { ask, allowed },
            Self::Shown { ask, root } => Errand::Shown { ask, root },
            Self::Unable { ask, root, reason } => Errand::Unable { ask, root, reason },
            Self::CountOthers { ask, agent, root } => Errand::CountOthers { ask, agent, root },
            Self::Observe(batch) => Errand::Observe(batch),
            Self::Attach { agent, session, client } => Errand::Attach { agent, session, client },
            Self::Detach { session } => Errand::Detach { session },
            Self::Slash { ticket, text, agent, session } => Errand::Slash { ticket, text, agent, session },
            other => return Err(other),
        })
    }
}
