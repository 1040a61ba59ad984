//! The record of an ask: what was asked, by whom, what may be answered, and under which policy. Never changes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::handle::Handle;
use crate::id::{AskId, Instance, Owner, SessionKey, TokenHash};
use crate::time::Stamp;

/// One question "may this action run?". Everything that changes later is in [`crate::state::AskState`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub id: AskId,
    pub handle: Handle,
    /// The requester's own identity for this call; together with its token it re-attaches.
    pub key: String,
    pub digest: Digest,
    pub action: Action,
    pub class: Class,
    pub attendance: Attendance,
    pub lineage: Lineage,
    pub options: Vec<Choice>,
    pub policy: Policy,
    pub requester: Requester,
    pub asked_at: Stamp,
    /// The requester itself stops waiting this long after `asked_at`, in milliseconds.
    pub gives_up_ms: Option<u64>,
    /// What the requester sent that askd does not know.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// What would run. `input` is the raw JSON text, kept byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

impl Action {
    pub fn digest(&self) -> Digest {
        Digest::of(
            &self.tool,
            self.input.as_deref(),
            self.cwd.as_deref(),
            self.title.as_deref().unwrap_or_default(),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Tool,
    /// A doom-loop confirmation.
    Safety,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    /// A person is at this turn.
    Foreground,
    /// Job, workflow step, detached child, or nobody attached.
    Background,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Deny,
}

/// One possible answer, mirrored from the agent word for word where it gives any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: String,
    pub label: String,
    pub kind: ChoiceKind,
    /// In words, exactly what an "always" would grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<String>,
    /// The adapter's own data, sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl ChoiceKind {
    pub fn decision(self) -> Decision {
        match self {
            Self::AllowOnce | Self::AllowAlways => Decision::Allow,
            Self::RejectOnce | Self::RejectAlways => Decision::Deny,
        }
    }
}

/// The option of a plain yes or no: never an index, and never "always" unless nothing else rejects.
pub fn plain(options: &[Choice], decision: Decision) -> Option<&Choice> {
    let first = |kind| options.iter().find(|c| c.kind == kind);
    match decision {
        Decision::Allow => first(ChoiceKind::AllowOnce),
        Decision::Deny => first(ChoiceKind::RejectOnce).or_else(|| first(ChoiceKind::RejectAlways)),
    }
}

/// Who asks, from the root of the conversation down to the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    pub session: SessionKey,
    pub root: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Subagent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The agent's id of the call, given or found by observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The agent's id of the user prompt that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

impl Lineage {
    /// Work id of the subagent that asks; `None` for the session's main thread.
    pub fn work_id(&self) -> Option<&str> {
        self.subagent.as_ref().map(|s| s.work_id.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    pub work_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// 1 for a child of the main thread; unknown when the agent does not tell and it cannot be derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Work id of the parent subagent; `None` for a child of the main thread or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Where a person finds the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_pane: Option<String>,
}

/// What happens without a person, resolved when the ask is made; later settings do not change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Span of the timed answer from `asked_at`, in milliseconds; `None`: no deadline.
    pub deadline_ms: Option<u64>,
    pub at_deadline: AtDeadline,
    /// A timed deny also stops the turn.
    #[serde(default)]
    pub deny_stops: bool,
    /// What it means that a remote surface shows the ask and nobody answers there; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_silence: Option<RemoteSilence>,
}

/// A silence on a remote surface, counted from the moment in which the ask was shown there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSilence {
    pub after_ms: u64,
    pub answer: Decision,
}

impl Policy {
    /// No deadline: waits for a person.
    pub const WAIT: Self = Self {
        deadline_ms: None,
        at_deadline: AtDeadline::HandBack,
        deny_stops: false,
        remote_silence: None,
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtDeadline {
    Answer(Decision),
    /// The agent's own prompt takes over.
    HandBack,
}

/// Who waits for the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    pub kind: RequesterKind,
    pub token: TokenHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
    /// Whose share of what is limited it takes; `None`: of a host that has everything to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// How long the ask outlives a lost link, in milliseconds.
    pub grace_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_prompt: Option<OwnPrompt>,
}

impl Ask {
    /// The agent process that asks. A file that names one in a forwarding directory makes it no agent.
    pub fn agent_process(&self) -> Option<&Instance> {
        self.requester.instance.as_ref().filter(|_| self.requester.kind != RequesterKind::Spool)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequesterKind {
    Hook,
    Proxy,
    Library,
    Script,
    Spool,
}

impl RequesterKind {
    /// What it asks for waits when a person stops askd: an agent that is wrapped has nobody else to ask, and a request in
    /// a file lies there. The others are told to go on without an answer.
    pub fn outlasts_a_stop(self) -> bool {
        match self {
            Self::Proxy | Self::Spool => true,
            Self::Hook | Self::Library | Self::Script => false,
        }
    }
}

/// The agent has a prompt of its own for the same call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPrompt {
    /// `terminal`, `host`, …
    pub at: String,
    /// It does not appear before the requester ends.
    #[serde(default)]
    pub blocked: bool,
}
