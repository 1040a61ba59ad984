//! What the writer thread is asked, and what it replies.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::command::{Command, Reply};
use askd_core::state::Session;
use askd_core::{
    Answer, AskId, Digest, Handle, Instance, Overrides, Refusal, SessionKey, Settings, SurfaceId, TokenHash,
};
use askd_journal::Position;
use tokio::sync::oneshot;

use crate::common::CommonShot;
use crate::view::Shot;

/// A command's reply, with the ask that it was about as it is after the batch.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) reply: Result<Reply, Refusal>,
    pub(crate) shot: Option<CommonShot>,
}

/// Whose asks are wanted.
#[derive(Debug, Clone)]
pub(crate) enum Whose {
    Everybodys,
    Requesters(TokenHash),
    /// Of the tree of this root, `<agent>/<session>`.
    Roots(String),
    /// What a surface with a capacity holds.
    Surfaces(SurfaceId),
}

/// What is open at one position, by id: whoever reads slowly holds it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) position: Position,
    pub(crate) asks: Vec<AskId>,
}

/// A session with its number of open asks.
#[derive(Debug)]
pub(crate) struct SessionShot {
    pub(crate) session: Session,
    pub(crate) root: SessionKey,
}

/// Numbers for `/healthz`.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) open: u32,
    pub(crate) surfaces: u32,
    /// Why the journal takes nothing at present.
    pub(crate) not_recorded: Option<String>,
    pub(crate) skipping: askd_wire::Skipping,
    /// What a person changed over the config: for every session (`None`), and for single ones.
    pub(crate) overrides: Vec<(Option<SessionKey>, Overrides)>,
}

/// Settings for asks made now, and what a person changed over the config: for every session, for this one's tree.
#[derive(Debug)]
pub(crate) struct Permissions {
    pub(crate) settings: Settings,
    pub(crate) everywhere: Overrides,
    pub(crate) session: Overrides,
}

/// Who a session belongs to, and whose asks it and everything below it has.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    /// The agent process of a live session.
    pub(crate) agent: Option<Instance>,
    /// Tokens of its asks in memory, each with the agent process that it named.
    pub(crate) requesters: BTreeSet<(TokenHash, Option<Instance>)>,
    /// Agent processes that still wait for something.
    pub(crate) waiting: BTreeSet<Instance>,
}

/// Makes the answer once its ask is known, with the agents that are known then: whoever answers is judged by nothing
/// older than the ask. Last: the process that a file names as the one that asks, and the ask's handle.
pub(crate) type MakeAnswer =
    dyn FnOnce(AskId, &BTreeSet<Instance>, Option<(&Instance, &Handle)>) -> Answer + Send;

/// One answer of several.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) answer: Box<MakeAnswer>,
    pub(super) reply: oneshot::Sender<Result<Option<Done>, String>>,
}

pub(super) enum Message {
    Do {
        command: Command,
        reply: oneshot::Sender<Done>,
        /// Resolves like [`Message::Wait`] for the ask that the command is about; dropped when there is none, or when
        /// it is over already.
        over: Option<oneshot::Sender<CommonShot>>,
    },
    /// Answers to the asks that go by these names now, in this order and in one commit.
    Answers(Vec<Named>),
    /// Resolves when the ask needs no more waiting: settled, or handed back.
    Wait {
        ask: AskId,
        reply: oneshot::Sender<CommonShot>,
    },
    Look {
        name: String,
        reply: oneshot::Sender<Result<Option<Shot>, String>>,
    },
    Opened {
        whose: Whose,
        reply: oneshot::Sender<Opened>,
    },
    /// Those of these that are open still, in this order.
    StillOpen {
        asks: Vec<AskId>,
        reply: oneshot::Sender<Vec<Shot>>,
    },
    Position {
        reply: oneshot::Sender<Position>,
    },
    Sessions {
        reply: oneshot::Sender<Vec<SessionShot>>,
    },
    Counts {
        reply: oneshot::Sender<Counts>,
    },
    Loosenings {
        reply: oneshot::Sender<BTreeSet<(String, String)>>,
    },
    Forwarders {
        reply: oneshot::Sender<BTreeMap<Instance, Handle>>,
    },
    /// The handle of an open ask that names this process as its agent, or else a session that does.
    NamerOf {
        agent: Instance,
        reply: oneshot::Sender<Option<String>>,
    },
    SidesOf {
        session: SessionKey,
        reply: oneshot::Sender<Sides>,
    },
    OfRequester {
        token: TokenHash,
        key: String,
        reply: oneshot::Sender<Option<AskId>>,
    },
    ComesBack {
        token: TokenHash,
        key: String,
        digest: Digest,
        reply: oneshot::Sender<bool>,
    },
    Permissions {
        session: Option<SessionKey>,
        reply: oneshot::Sender<Permissions>,
    },
    Settings(Box<Settings>),
    Prune {
        closed_before_wall_ms: i64,
        reply: oneshot::Sender<usize>,
    },
    /// Commits what is queued, hands back what it must, and ends the thread.
    Leave {
        release: bool,
        reply: oneshot::Sender<()>,
    },
}

/// What a command is replied when nobody runs it any more.
pub(super) fn stopping() -> Done {
    Done { reply: Err(Refusal::NotRecorded("the daemon is stopping".to_owned())), shot: None }
}
