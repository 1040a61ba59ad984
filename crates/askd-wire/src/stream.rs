//! Surfaces and the event stream (`GET /v1/events`, server-sent events).

use serde::{Deserialize, Serialize};

use crate::ask::Ask;

/// Body of `POST /v1/surfaces`. The surface is attached while its event stream
/// (`GET /v1/events?surface=<id>`) is open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegisterSurface {
    /// For people: `terminal`, `editor`, …
    pub name: String,
    pub kind: SurfaceKind,
    #[serde(default)]
    pub scope: Scope,
    /// How many asks it can hold at once; absent: any number.
    #[serde(default)]
    pub capacity: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registered {
    pub surface: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceKind {
    Direct,
    Remote,
}

/// `"all"` or `{"roots": ["<agent>/<session>", …]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    #[default]
    All,
    Roots(Vec<String>),
}

/// Body of `POST /v1/surfaces/{id}/report`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SurfaceReport {
    Shown { ask: String },
    Failed { ask: String, reason: String },
}

/// One server-sent event. The SSE `id` is the journal position, the SSE `event` is the tag.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// First event of every stream that does not resume: all open asks at `position`.
    Snapshot { position: u64, asks: Vec<Ask> },
    /// Positions in between were not kept for you: a new snapshot follows.
    Gap { after: u64 },
    /// Something happened to an ask: `what` is the journal event's name (`asked`, `settled`, `withdrawn`, `handed_back`, …).
    Ask { position: u64, what: String, ask: Box<Ask> },
    /// A session's number of open asks changed.
    Waiting { session: String, agent: String, root: String, waiting: u32 },
    /// Something that every surface should tell the person, e.g. that an agent tried to answer its own ask.
    Notice { text: String },
    /// The daemon is going away: `restart` true means come back.
    Bye { restart: bool },
}
