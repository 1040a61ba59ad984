//! How an ask was settled, with its true cause, and what that means for the agent and its model.

use serde::{Deserialize, Serialize};

use crate::ask::Decision;
use crate::id::AskId;
use crate::time::Stamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub kind: OutcomeKind,
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
    /// Who, as the surface knows the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The person's words, or a note on a withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default)]
    pub stop: bool,
    pub at: Stamp,
    /// Time from asking to settling, in milliseconds; for a timed answer the deadline's span.
    pub after_ms: u64,
    /// The earlier ask whose late answer settled this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_of: Option<AskId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Allowed,
    Denied,
    Withdrawn,
}

impl From<Decision> for OutcomeKind {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allowed,
            Decision::Deny => Self::Denied,
        }
    }
}

/// The closed set of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A person answered at a surface.
    Person,
    /// The deadline's configured answer.
    Timed,
    /// The queue cap's configured answer.
    Overflow,
    /// Configured meaning of a remote silence (foreground only).
    RemoteTimeout,
    /// No surface exists.
    Unreachable,
    /// Decided in advance by a rule or by the host.
    Rule,
    /// dangerously_skip_permissions.
    Skip,
    /// Observed: the agent's own prompt was answered.
    Agent,
    Cancelled,
    SessionEnded,
    Superseded,
    RequesterGone,
    RequesterLimit,
    HandedBack,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Timed => "timed",
            Self::Overflow => "overflow",
            Self::RemoteTimeout => "remote_timeout",
            Self::Unreachable => "unreachable",
            Self::Rule => "rule",
            Self::Skip => "skip",
            Self::Agent => "agent",
            Self::Cancelled => "cancelled",
            Self::SessionEnded => "session_ended",
            Self::Superseded => "superseded",
            Self::RequesterGone => "requester_gone",
            Self::RequesterLimit => "requester_limit",
            Self::HandedBack => "handed_back",
        }
    }

    /// Nobody decided; goes with [`OutcomeKind::Withdrawn`] and with nothing else.
    pub fn is_withdrawal(self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::SessionEnded
                | Self::Superseded
                | Self::RequesterGone
                | Self::RequesterLimit
                | Self::HandedBack
        )
    }
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Direct,
    Remote,
    Timed,
    Policy,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Remote => "remote",
            Self::Timed => "timed",
            Self::Policy => "policy",
        }
    }
}

/// What the requester tells its agent. `None`: no opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny,
    None,
}

impl Outcome {
    /// A decision that was only observed is never sent back as one.
    pub fn verdict(&self) -> Verdict {
        match (self.kind, self.cause) {
            (OutcomeKind::Withdrawn, _) | (_, Cause::Agent) => Verdict::None,
            (OutcomeKind::Allowed, _) => Verdict::Allow,
            (OutcomeKind::Denied, _) => Verdict::Deny,
        }
    }

    /// True when a person or a policy decided for the agent, so that there is something to deliver.
    pub fn is_delivered(&self) -> bool {
        self.verdict() != Verdict::None
    }

    /// The true reason of a deny, for the model.
    pub fn reason_for_model(&self) -> Option<String> {
        if self.verdict() != Verdict::Deny {
            return None;
        }
        Some(match self.cause {
            Cause::Person => match self.message.as_deref().map(str::trim).filter(|m| !m.is_empty()) {
                Some(words) => words.to_owned(),
                None => "The user denied this action.".to_owned(),
            },
            Cause::Timed => {
                format!("no answer arrived within {}; nobody denied it", duration(self.after_ms))
            }
            Cause::Overflow => {
                "too many asks were waiting; the configured default denied it, no person did".to_owned()
            }
            Cause::RemoteTimeout => {
                format!("no remote answer arrived within {}; nobody denied it", duration(self.after_ms))
            }
            Cause::Unreachable => {
                "nobody can be asked in this context, so it was not allowed; no person denied it".to_owned()
            }
            Cause::Rule => "a configured rule denies it; no person was asked".to_owned(),
            Cause::Skip
            | Cause::Agent
            | Cause::Cancelled
            | Cause::SessionEnded
            | Cause::Superseded
            | Cause::RequesterGone
            | Cause::RequesterLimit
            | Cause::HandedBack => return None,
        })
    }

    /// One line for people.
    pub fn text(&self) -> String {
        let decided = match self.kind {
            OutcomeKind::Allowed => "allowed",
            OutcomeKind::Denied => "denied",
            OutcomeKind::Withdrawn => "withdrawn",
        };
        let after = || duration(self.after_ms);
        match self.cause {
            Cause::Person => {
                let by = self.by.as_deref().unwrap_or("you");
                let place = self.surface.as_deref().map(|s| format!(" in {s}")).unwrap_or_default();
                let always = match self.option.as_deref() {
                    Some(option) if option != "allow_once" && option != "reject_once" => {
                        format!(" ({option})")
                    }
                    _ => String::new(),
                };
                let late = if self.late_of.is_some() { ", by a late answer" } else { "" };
                format!("{decided}{always} by {by}{place}{late}")
            }
            Cause::Timed => format!("timed out: auto-{decided} after {}", after()),
            Cause::Overflow => format!("queue full: auto-{decided}"),
            Cause::RemoteTimeout => format!("no remote answer: auto-{decided} after {}", after()),
            Cause::Unreachable => "denied: nobody could be asked".to_owned(),
            Cause::Rule => format!("{decided} by a rule"),
            Cause::Skip => format!("{decided}: permissions are skipped"),
            Cause::Agent => match self.by.as_deref() {
                Some(by) => format!("{decided} by the agent's own {by}"),
                None => format!("{decided} in the agent's own prompt"),
            },
            Cause::Cancelled => match self.message.as_deref() {
                Some(note) => format!("withdrawn: {note}"),
                None => "cancelled by the agent".to_owned(),
            },
            Cause::SessionEnded => "withdrawn: the session ended".to_owned(),
            Cause::Superseded => "withdrawn: replaced by a newer ask".to_owned(),
            Cause::RequesterGone => "withdrawn: the requester is gone".to_owned(),
            Cause::RequesterLimit => format!("withdrawn: the requester stopped waiting after {}", after()),
            Cause::HandedBack => "handed back to the agent's own prompt".to_owned(),
        }
    }
}

/// `6m0s`, `5m12s`, `1h0m`, `45s`.
pub fn duration(ms: u64) -> String {
    let s = ms / 1000;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}

/// Delivery of the outcome to the requester; a state of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Nothing to deliver (yet).
    None,
    Pending,
    /// The adapter gave it to the agent.
    Handed,
    /// The agent was seen to act on it.
    Confirmed,
    Refused,
    /// The agent had already gone on by another answer.
    Overtaken,
    /// A cancel came before it was handed.
    Voided,
    /// The requester never came to fetch it.
    Expired,
}

impl Delivery {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Confirmed | Self::Refused | Self::Overtaken | Self::Voided | Self::Expired)
    }
}
