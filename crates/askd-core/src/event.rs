//! What happened. Durable events go to the journal; notes live in memory only and are gone after a restart.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ask::{Ask, Decision, Place};
use crate::digest::Digest;
use crate::id::{AskId, Instance, LinkId, Owner, SessionKey, StreamId, SurfaceId};
use crate::outcome::Outcome;
use crate::time::Stamp;

/// One step of the state, in the order in which [`crate::State::apply`] takes them.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Journalled before any effect is released.
    Record(Record),
    /// In memory only.
    Note(Note),
}

/// An event with its stream and time, as it is journalled.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub stream: StreamId,
    pub at: Stamp,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    // ---- ask/<id>
    Asked {
        /// Shared with the state, which holds it as long as the ask is in memory.
        #[serde(with = "shared")]
        ask: Arc<Ask>,
    },
    Shown {
        surface: String,
        /// A silence there may mean something.
        #[serde(default)]
        remote: bool,
    },
    SurfaceFailed {
        surface: String,
        reason: String,
    },
    /// The one transition out of `open`, by a decision.
    Settled {
        outcome: Outcome,
    },
    /// The one transition out of `open`, without a decision.
    Withdrawn {
        outcome: Outcome,
    },
    /// An answer to an ask whose requester was lost, kept for the same call asking again.
    LateRecorded {
        answer: LateAnswer,
    },
    LateUsed {
        by: AskId,
    },
    LateRevoked {
        reason: String,
    },
    /// The requester's link is gone; the ask stays open for its grace.
    Detached,
    Reattached,
    HandedBack {
        #[serde(rename = "where")]
        at: String,
        why: String,
    },
    Handed,
    Confirmed,
    /// The agent had gone on before the outcome reached it.
    Overtaken {
        seen: String,
    },
    DeliveryRefused {
        reason: String,
    },
    Voided {
        why: String,
    },
    DeliveryExpired {
        why: String,
    },
    /// An agent tried to answer an ask itself.
    SelfAnswerRefused {
        surface: String,
        who: String,
    },

    // ---- session/<agent>/<id>
    SessionStarted {
        session: Box<SessionInfo>,
    },
    SessionEnded {
        why: String,
    },
    SubagentStarted {
        subagent: crate::ask::Subagent,
        #[serde(default)]
        background: bool,
        /// Whose share it takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
    },
    SubagentEnded {
        work_id: String,
    },
    /// A person changed the settings for this session's tree, or (in the daemon's stream) for every session. What loosens
    /// is gone when it ends.
    OverridesSet {
        overrides: crate::overrides::Overrides,
        by: String,
    },
    /// Something stricter was set for every session: what this one had looser counts no more.
    OverridesLifted {
        overrides: crate::overrides::Overrides,
        by: String,
    },
    /// A cancel: undelivered allows of the tree are void from here on.
    TurnCancelled {
        #[serde(default)]
        subagent: Option<String>,
    },

    // ---- daemon/<id>
    DaemonStarted {
        version: String,
    },
    /// A person confirmed a setting that loosens the rules.
    LooseningAccepted {
        key: String,
        value: String,
        by: String,
    },
    /// The config no longer asks for it; it must be confirmed again when it comes back.
    LooseningDropped {
        key: String,
        value: String,
    },

    // ---- surface/<id>
    /// State of one remote surface (poll offset, slots), opaque to the core.
    SurfaceState {
        state: serde_json::Value,
    },
}

impl Event {
    /// The event's name as in lifecycle.md, for streams and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Shown { .. } => "shown",
            Self::SurfaceFailed { .. } => "surface_failed",
            Self::Settled { .. } => "settled",
            Self::Withdrawn { .. } => "withdrawn",
            Self::LateRecorded { .. } => "late_recorded",
            Self::LateUsed { .. } => "late_used",
            Self::LateRevoked { .. } => "late_revoked",
            Self::Detached => "detached",
            Self::Reattached => "reattached",
            Self::HandedBack { .. } => "handed_back",
            Self::Handed => "handed",
            Self::Confirmed => "confirmed",
            Self::Overtaken { .. } => "overtaken",
            Self::DeliveryRefused { .. } => "delivery_refused",
            Self::Voided { .. } => "voided",
            Self::DeliveryExpired { .. } => "delivery_expired",
            Self::SelfAnswerRefused { .. } => "self_answer_refused",
            Self::SessionStarted { .. } => "session_started",
            Self::SessionEnded { .. } => "session_ended",
            Self::SubagentStarted { .. } => "subagent_started",
            Self::SubagentEnded { .. } => "subagent_ended",
            Self::OverridesSet { .. } => "overrides_set",
            Self::OverridesLifted { .. } => "overrides_lifted",
            Self::TurnCancelled { .. } => "turn_cancelled",
            Self::DaemonStarted { .. } => "daemon_started",
            Self::LooseningAccepted { .. } => "loosening_accepted",
            Self::LooseningDropped { .. } => "loosening_dropped",
            Self::SurfaceState { .. } => "surface_state",
        }
    }
}

/// Written as what it holds.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(held: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        T::serialize(held, to)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(from).map(Arc::new)
    }
}

/// An answer to an ask whose requester was lost for a transient cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateAnswer {
    pub decision: Decision,
    pub source: crate::outcome::Source,
    pub surface: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default)]
    pub stop: bool,
    /// When the requester was lost; the span runs from here.
    pub lost_at: Stamp,
    pub for_ms: u64,
}

/// A session as it is first seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    pub key: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionKey>,
    pub root: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Who brought it: whose share it takes as long as it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// A change that is not worth a disk write: after a restart it is announced again or one ask is fewer, never wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    Attached {
        ask: AskId,
        link: LinkId,
    },
    LinkClosed {
        link: LinkId,
    },
    CallStarted {
        session: SessionKey,
        call: String,
        info: CallInfo,
        batch: Option<String>,
        turn: Option<String>,
    },
    CallEnded {
        session: SessionKey,
        call: String,
        subagent: Option<String>,
    },
    SpawnSeen {
        session: SessionKey,
        spawn: SpawnSeen,
    },
    SpawnUsed {
        session: SessionKey,
        call: String,
    },
    /// A thread begins anew as far as repetitions are concerned.
    GateReset {
        session: SessionKey,
        subagent: Option<String>,
    },
    /// Settings for every session until the daemon stops.
    OverridesSet {
        overrides: crate::overrides::Overrides,
    },
    /// Nothing more will be seen of the calls of these asks.
    TurnOver {
        asks: Vec<AskId>,
    },
    SurfaceAttached {
        surface: SurfaceId,
        info: SurfaceInfo,
    },
    SurfaceDetached {
        surface: SurfaceId,
    },
    /// Since the last start or wake every remote surface was polled, or the wait for it is over.
    RemotePolled {
        surface: SurfaceId,
    },
    /// Wait for the remote surfaces before any overdue default is applied.
    Woke,
    /// So many surfaces were attached to the daemon before this one.
    SurfacesExpected {
        count: usize,
    },
    /// It was seen what these asks, made before those were back, come to without them.
    SurfacesAwaited,
    LateForgotten {
        ask: AskId,
    },
    /// Its requester says that it went without having got the outcome.
    Unserved {
        ask: AskId,
    },
    /// It is over, and makes room. Until then, on the boot clock, its requester finds it by its key.
    LetGo {
        ask: AskId,
        until: Option<u64>,
    },
    /// A turn, subagent or session came to its end, whoever of its sides said so.
    CancelSeen {
        session: SessionKey,
    },
    /// The requester of an ask without anything to hand over heard so, or did not come back to hear it.
    NothingToTell {
        ask: AskId,
    },
}

/// A tool call that an observation announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    pub subagent: Option<String>,
    pub tool: String,
    pub digest: Digest,
    /// The process that announced it, when that is another one than the session's own.
    pub side: Option<Instance>,
}

/// A call that starts a subagent, waiting for the subagent to show itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnSeen {
    pub call: String,
    /// Work id of the subagent that made the call; `None`: the main thread.
    pub parent: Option<String>,
    pub name: Option<String>,
    pub kind: Option<String>,
    pub background: bool,
}

/// An attached surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceInfo {
    pub name: String,
    pub remote: bool,
    pub scope: Scope,
    /// How many asks it holds at once; `None`: any number.
    pub capacity: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    Roots(std::collections::BTreeSet<SessionKey>),
}

impl Scope {
    pub fn covers(&self, root: &SessionKey) -> bool {
        match self {
            Self::All => true,
            Self::Roots(roots) => roots.contains(root),
        }
    }
}
