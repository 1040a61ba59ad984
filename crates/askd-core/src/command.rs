//! What the outside asks of the core, and what it hears back.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::ask::{
    Action, Ask, Attendance, Choice, Class, Decision, OwnPrompt, Place, RequesterKind, Subagent,
};
use crate::digest::Digest;
use crate::event::{CallInfo, SpawnSeen, SurfaceInfo};
use crate::gate::Repeated;
use crate::id::{AskId, Instance, LinkId, Owner, SessionKey, SurfaceId, TokenHash};
use crate::outcome::Cause;
use crate::overrides::Overrides;
use crate::refusal::Refusal;

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A requester asks, or comes back to an ask of its own.
    Raise(Box<Raise>),
    Answer(Answer),
    /// The requester takes its ask back (or hands it to the agent's own prompt: cause `handed_back`).
    Withdraw {
        ask: AskId,
        token: TokenHash,
        cause: Cause,
    },
    /// A person takes an ask down without deciding it.
    Dismiss {
        ask: AskId,
        by: String,
    },
    Handed {
        ask: AskId,
        token: TokenHash,
    },
    Confirmed {
        ask: AskId,
        token: TokenHash,
    },
    /// The requester was told what became of its ask, which had nothing to hand over.
    Heard {
        ask: AskId,
    },
    /// The agent would not take the outcome.
    DeliveryRefused {
        ask: AskId,
        token: TokenHash,
        reason: String,
    },
    /// Something on the requester's own side, as a hook of its host, decided what this ask is about. It settles this ask
    /// and no other. An ask that has an answer for the agent already refuses it, unless the agent acted on it before
    /// that answer reached it (`went_on`): then the record is corrected.
    DecidedByAgent {
        ask: AskId,
        token: TokenHash,
        decision: Decision,
        /// What decided, for people: `hook`. `None`: the agent's own prompt.
        by: Option<String>,
        went_on: bool,
    },
    /// A requester's connection ended; whose asks hang on it is known here.
    LinkClosed {
        link: LinkId,
    },
    Observe(Box<Observe>),
    AttachSurface {
        surface: SurfaceId,
        info: SurfaceInfo,
    },
    DetachSurface {
        surface: SurfaceId,
    },
    Shown {
        ask: AskId,
        surface: String,
        remote: bool,
    },
    SurfaceFailed {
        ask: AskId,
        surface: String,
        reason: String,
    },
    /// A remote surface has fetched everything that waited at its server.
    RemotePolled {
        surface: SurfaceId,
    },
    /// An agent process ended.
    AgentGone {
        instance: Instance,
    },
    /// The person takes a kept late answer back.
    RevokeLate {
        ask: AskId,
        by: String,
    },
    AcceptLoosening {
        key: String,
        value: String,
        by: String,
    },
    DropLoosening {
        key: String,
        value: String,
    },
    /// A person changes settings for asks made from now on.
    SetOverrides {
        /// Any session of the tree; `None`: every session until the daemon stops.
        session: Option<SessionKey>,
        overrides: Overrides,
        by: String,
    },
    /// Keep a remote surface's own state.
    KeepSurfaceState {
        surface: String,
        state: Value,
    },
    /// Ends sessions that nobody says the end of: without an agent process, without asks, and nothing heard of them for
    /// `idle_ms` milliseconds; of the others like them all but the newest `most`.
    Tidy {
        idle_ms: u64,
        most: usize,
    },
    /// The daemon stops for good: whoever has a prompt of its own gets the ask back, who waits and does not come back is
    /// let go, the others wait for the next start.
    Stopping,
    /// So many surfaces were attached when the daemon before this one left: they come back, and until then nothing is
    /// decided or handed back because nobody can be asked.
    ExpectSurfaces {
        count: usize,
    },
    /// The machine woke from suspend, or the daemon started.
    Woke,
    /// Something of [`crate::State::poll_timeout`] is due.
    Tick,
}

impl Command {
    /// The asks that must be in memory before the command is handled.
    pub fn needs(&self) -> Option<AskId> {
        match self {
            Self::Answer(Answer { ask, .. })
            | Self::Withdraw { ask, .. }
            | Self::Dismiss { ask, .. }
            | Self::Handed { ask, .. }
            | Self::Confirmed { ask, .. }
            | Self::DeliveryRefused { ask, .. }
            | Self::DecidedByAgent { ask, .. }
            | Self::Shown { ask, .. }
            | Self::SurfaceFailed { ask, .. }
            | Self::RevokeLate { ask, .. } => Some(*ask),
            Self::Raise(raise) => raise.supersedes,
            Self::LinkClosed { .. }
            | Self::Heard { .. }
            | Self::Observe(_)
            | Self::AttachSurface { .. }
            | Self::DetachSurface { .. }
            | Self::RemotePolled { .. }
            | Self::AgentGone { .. }
            | Self::AcceptLoosening { .. }
            | Self::DropLoosening { .. }
            | Self::SetOverrides { .. }
            | Self::KeepSurfaceState { .. }
            | Self::Tidy { .. }
            | Self::Stopping
            | Self::ExpectSurfaces { .. }
            | Self::Woke
            | Self::Tick => None,
        }
    }

    /// The ask that the command was about, now that its reply is known.
    pub fn about(&self, reply: &Result<Reply, Refusal>) -> Option<AskId> {
        match (reply, self) {
            (Ok(Reply::Raised(id) | Reply::Reattached(id) | Reply::Settled(id)), _) => Some(*id),
            // What a new ask needs is the one that it takes the place of.
            (_, Self::Raise(_)) => None,
            _ => self.needs(),
        }
    }
}

/// A new ask as its requester gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Raise {
    /// Used when this becomes a new ask.
    pub id: AskId,
    pub key: String,
    pub token: TokenHash,
    pub link: LinkId,
    pub kind: RequesterKind,
    pub action: Action,
    pub class: Class,
    /// `None`: derived from the session.
    pub attendance: Option<Attendance>,
    pub session: SessionKey,
    pub parent: Option<SessionKey>,
    /// The top of its chain of parents, as the requester says.
    pub root: Option<SessionKey>,
    pub subagent: Option<Subagent>,
    pub job: Option<String>,
    pub call: Option<String>,
    pub turn: Option<String>,
    pub title: Option<String>,
    pub options: Vec<Choice>,
    pub deadline_ms: Option<u64>,
    pub gives_up_ms: Option<u64>,
    pub grace_ms: u64,
    pub instance: Option<Instance>,
    /// Behind whom the requester stands, as whoever takes the ask found it.
    pub owner: Option<Owner>,
    pub own_prompt: Option<OwnPrompt>,
    pub needs_own_prompt: bool,
    pub supersedes: Option<AskId>,
    pub place: Option<Place>,
    pub extra: Map<String, Value>,
}

/// An answer from a surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub ask: AskId,
    pub digest: Digest,
    pub decision: Decision,
    pub option: Option<String>,
    pub message: Option<String>,
    pub stop: bool,
    /// `terminal`, `command line`, `Telegram`, …
    pub surface: String,
    pub remote: bool,
    pub by: Option<String>,
    /// Why this answerer may not answer (it is inside an agent's tree, or could not be checked).
    pub refused: Option<String>,
}

/// What an adapter saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observe {
    /// For whom it speaks.
    pub by: Voice,
    /// Behind whom it stands: what it brings is that one's.
    pub owner: Option<Owner>,
    pub session: SessionKey,
    pub parent: Option<SessionKey>,
    pub title: Option<String>,
    pub cwd: Option<String>,
    pub instance: Option<Instance>,
    pub place: Option<Place>,
    pub seen: Seen,
}

/// For which asks of a session whoever tells something of it may speak. An ask that names an agent process is spoken for
/// by that process's own side, whoever else asks in the session's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voice {
    /// Nobody else is there: the host of an embedded core.
    All,
    Of(Side),
}

/// Who it is that tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Side {
    /// It speaks for the session as such, for those of its asks that name no process, and for the sessions below.
    pub session: bool,
    /// Agent processes that it belongs to.
    pub instances: BTreeSet<Instance>,
    /// Requesters that it is, or that belong to it.
    pub tokens: BTreeSet<TokenHash>,
}

impl Voice {
    /// For this ask in the session that is told of.
    pub fn speaks_for(&self, ask: &Ask) -> bool {
        let Self::Of(side) = self else { return true };
        side.tokens.contains(&ask.requester.token)
            || match ask.agent_process() {
                Some(instance) => side.instances.contains(instance),
                None => side.session,
            }
    }

    /// It belongs to this agent process.
    pub fn is_of(&self, instance: &Instance) -> bool {
        match self {
            Self::All => true,
            Self::Of(side) => side.instances.contains(instance),
        }
    }

    /// For the session as such.
    pub fn is_sessions(&self) -> bool {
        match self {
            Self::All => true,
            Self::Of(side) => side.session,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    SessionStarted,
    SessionEnded,
    SubagentStarted {
        work_id: String,
        kind: Option<String>,
        name: Option<String>,
        parent: Option<String>,
        /// The call that started it, where the agent tells.
        call: Option<String>,
    },
    SubagentEnded {
        work_id: String,
    },
    CallStarted {
        call: String,
        info: CallInfo,
        /// The assistant message that it belongs to, where the adapter sees it.
        batch: Option<String>,
        /// The user prompt that is worked on.
        turn: Option<String>,
        spawn: Option<SpawnSeen>,
    },
    /// The call ran and ended, well or not. A call that was rejected did not run: that is `OwnPromptAnswered`.
    CallEnded {
        call: String,
        ok: bool,
        /// Work id of the thread that it ran in.
        subagent: Option<String>,
    },
    /// A cancel, of the whole session tree or of one subagent and its children.
    TurnCancelled {
        subagent: Option<String>,
    },
    /// One thread came to its end by itself; its children may go on.
    TurnEnded {
        subagent: Option<String>,
    },
    /// The agent's own prompt for this call was answered.
    OwnPromptAnswered {
        call: String,
        allowed: bool,
    },
    /// Something in the agent, and no prompt, decided this call. `by`: what, where the agent tells.
    DecidedByAgent {
        call: String,
        allowed: bool,
        by: Option<String>,
    },
}

/// What a command that was not refused did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A new ask, already settled or still open.
    Raised(AskId),
    /// An ask of the same requester, key and content.
    Reattached(AskId),
    /// This answer settled the ask.
    Settled(AskId),
    /// The command changed the ask, or had changed it before.
    Done,
    /// The call that was announced repeats the batches before it: a safety ask is to be raised before it runs.
    Loop(Repeated),
}
