//! What a protocol machine wants the daemon to do, and what it hears of it.

use std::time::Duration;

use askd_wire::{
    Action as WireAction, Class, Decision, ObservationBatch, Outcome, RaiseAsk, RequesterKind, Verdict,
};

use super::Action;

/// Number of an ask within one proxy.
pub type AskNo = u64;

/// One thing to do at the daemon. Nobody who reads a peer waits for it.
#[derive(Debug)]
pub enum Errand {
    /// Raise an ask and wait for its outcome.
    Raise {
        ask: AskNo,
        raise: Box<RaiseAsk>,
    },
    /// The peer's person answered: try to settle the ask by it.
    Answer {
        ask: AskNo,
        decision: Decision,
        option: Option<String>,
        message: Option<String>,
        stop: bool,
        client: String,
    },
    /// Take the ask back.
    Withdraw {
        ask: AskNo,
        cause: &'static str,
    },
    /// The agent did what it was told.
    Confirmed {
        ask: AskNo,
    },
    /// The peer's answer went through without askd: write it down as what the agent's own prompt said.
    Record {
        ask: AskNo,
        allowed: bool,
    },
    /// The peer shows the ask, or cannot.
    Shown {
        ask: AskNo,
        root: String,
    },
    Unable {
        ask: AskNo,
        root: String,
        reason: String,
    },
    /// Whether surfaces that show this root's asks are attached besides this peer: [`News::Others`].
    CountOthers {
        ask: AskNo,
        agent: String,
        root: String,
    },
    Observe(Box<ObservationBatch>),
    /// The peer is a surface of this root session from now on, or no longer.
    Attach {
        agent: String,
        session: String,
        client: String,
    },
    Detach {
        session: String,
    },
    /// A `/permissions` line that the person typed at the peer: [`News::Slash`].
    Slash {
        ticket: u64,
        text: String,
        agent: String,
        session: String,
    },
}

/// An ask about this call and nothing else; it goes at once when the requester's connection is lost.
pub(crate) fn plain_ask(key: String, agent: &str, session: &str, action: WireAction) -> RaiseAsk {
    RaiseAsk {
        key,
        action,
        class: Class::Tool,
        attendance: None,
        agent: agent.to_owned(),
        session: session.to_owned(),
        parent: None,
        root: None,
        subagent: None,
        job: None,
        tool_call: None,
        turn: None,
        session_title: None,
        options: Vec::new(),
        deadline_secs: None,
        gives_up_secs: None,
        requester: RequesterKind::Proxy,
        grace_secs: 0,
        instance: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: serde_json::Map::new(),
    }
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
    /// What became of [`Errand::Answer`].
    Answered {
        ask: AskNo,
        how: Answered,
    },
    /// askd cannot be asked, now or at all.
    Unavailable {
        ask: AskNo,
        why: String,
    },
    /// askd will not take it, however often it is asked.
    Refused {
        ask: AskNo,
        why: String,
    },
    /// How long the ask has according to the journal; comes before [`News::Raised`]. `None`: no limit.
    Limit {
        ask: AskNo,
        limit: Option<AskLimit>,
    },
    Others {
        ask: AskNo,
        attached: bool,
    },
    Slash {
        ticket: u64,
        text: String,
    },
}

/// The recorded deadline of an ask.
#[derive(Debug, Clone, Copy)]
pub struct AskLimit {
    /// From now on.
    pub left: Duration,
    /// From the ask on.
    pub whole: Duration,
    /// What is answered then; `None`: nothing.
    pub default: Option<Decision>,
}

/// What became of a peer's answer.
#[derive(Debug)]
pub enum Answered {
    /// It settled the ask.
    Won,
    /// Something else did before.
    Lost(Box<Outcome>),
    /// This peer may not answer.
    NotPermitted(String),
    /// The daemon did not take it, or could not be reached.
    Unreachable,
}

impl Answered {
    /// Whether the journal has this decision, whoever's it is.
    fn agrees_with(&self, decision: Decision) -> bool {
        match self {
            Self::Won => true,
            Self::Lost(outcome) => decision_in(outcome) == Some(decision),
            Self::NotPermitted(_) | Self::Unreachable => false,
        }
    }
}

/// What an outcome decides; none: nobody decided.
pub(crate) fn decision_in(outcome: &Outcome) -> Option<Decision> {
    match outcome.verdict {
        Verdict::Allow => Some(Decision::Allow),
        Verdict::Deny => Some(Decision::Deny),
        Verdict::None => None,
    }
}

/// What is left to tell of an answer that went on before the journal had it, once it is known what became of it there.
pub(crate) fn afterwards(ask: AskNo, decision: Decision, how: &Answered) -> Action {
    if how.agrees_with(decision) {
        Action::Handed { ask }
    } else {
        Action::Daemon(Errand::Record { ask, allowed: decision == Decision::Allow })
    }
}
