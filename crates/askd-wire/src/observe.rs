//! What an adapter saw an agent do. Never a decision.

use serde::{Deserialize, Serialize};

use crate::ask::Place;
use crate::raise::Instance;

/// Body of `POST /v1/observations`; applied in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObservationBatch {
    pub agent: String,
    pub session: String,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub session_title: Option<String>,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub instance: Option<Instance>,
    #[serde(default)]
    pub place: Option<Place>,
    pub observations: Vec<Observation>,
}

/// `subagent` is the work id of the child that it happened in; absent: the session's main thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Observation {
    SessionStarted {},
    SessionEnded {},
    SubagentStarted {
        work_id: String,
        #[serde(default)]
        kind: Option<String>,
        #[serde(default)]
        name: Option<String>,
        /// Work id of the parent child, where the agent tells; absent: derived from the spawning call.
        #[serde(default)]
        parent: Option<String>,
        /// The call of the parent that started it, where the agent tells.
        #[serde(default)]
        call: Option<String>,
    },
    SubagentEnded {
        work_id: String,
    },
    CallStarted {
        call: String,
        tool: String,
        /// Digest of tool, input and working directory as for an ask: the daemon computes it from these when absent.
        #[serde(default)]
        input_digest: Option<String>,
        /// The input as JSON text, byte for byte as the agent gave it.
        #[serde(default)]
        input_json: Option<String>,
        #[serde(default)]
        batch: Option<String>,
        #[serde(default)]
        subagent: Option<String>,
        #[serde(default)]
        turn: Option<String>,
        /// Set when this call starts a subagent.
        #[serde(default)]
        spawn: Option<Spawn>,
    },
    CallEnded {
        call: String,
        /// The tool ran; `false`: it ran and failed. A call that was refused has not ended.
        ok: bool,
        #[serde(default)]
        subagent: Option<String>,
    },
    /// The turn was interrupted: open asks of it are withdrawn and undelivered allows voided.
    TurnCancelled {
        #[serde(default)]
        subagent: Option<String>,
    },
    /// The turn ended by itself: its asks that are still open were settled by the agent's own prompt or dropped.
    TurnEnded {
        #[serde(default)]
        subagent: Option<String>,
    },
    OwnPromptAnswered {
        call: String,
        allowed: bool,
    },
    /// Something in the agent, and no prompt, decided this call: a hook, a rule. `by`: what, where the agent tells.
    DecidedByAgent {
        call: String,
        allowed: bool,
        #[serde(default)]
        by: Option<String>,
    },
}

/// Reply to `POST /v1/observations` when a call that was announced makes its thread repeat itself: 200 with this body
/// instead of 204. Before the call runs a safety ask named `doom_loop` is to be raised.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoopSeen {
    /// The repeated call.
    pub call: String,
    /// How often its batch was made in a row, this time included.
    pub times: u32,
    /// When the first of them began.
    pub since: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spawn {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub background: bool,
}
