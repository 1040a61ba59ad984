//! What a requester sends to raise an ask.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::Decision;
use crate::ask::{Action, Ask, Attendance, Choice, Class, Place, Subagent};

/// Body of `POST /v1/asks?wait=SECS` on the ask socket.
///
/// The requester mints its own token (at least 128 random bits, hex) *before* the first request and sends it as
/// `Authorization: Bearer <token>`; the same token, key and content re-attach to an ask that is open, or settled and
/// not yet delivered. Without a token the daemon mints one and returns it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RaiseAsk {
    /// The requester's own identity for this call; unique per call and requester.
    pub key: String,
    pub action: Action,
    #[serde(default)]
    pub class: Class,
    /// Absent: decided from what askd knows of the session (unknown is foreground).
    #[serde(default)]
    pub attendance: Option<Attendance>,
    pub agent: String,
    pub session: String,
    /// Parent session, where a subagent has a session of its own.
    #[serde(default)]
    pub parent: Option<String>,
    /// The top of the session's chain of parents, as far as the requester knows it. What a person set for that session
    /// holds for this ask; without it, what was set for `parent`, else for `session`. What others say of where a session
    /// belongs counts for what is shown, and not for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    #[serde(default)]
    pub subagent: Option<Subagent>,
    #[serde(default)]
    pub job: Option<String>,
    #[serde(default)]
    pub tool_call: Option<String>,
    /// The agent's id for the user prompt (turn) that this call belongs to.
    #[serde(default)]
    pub turn: Option<String>,
    /// Session title or first words, for people.
    #[serde(default)]
    pub session_title: Option<String>,
    /// Empty: `allow_once` and `reject_once`.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Timed answer asked for by the requester itself, in seconds; needs `attendance: background`.
    #[serde(default)]
    pub deadline_secs: Option<u64>,
    /// Seconds after which the requester stops waiting by itself.
    #[serde(default)]
    pub gives_up_secs: Option<u64>,
    pub requester: RequesterKind,
    /// Seconds that the ask stays open after the requester's connection was lost.
    #[serde(default)]
    pub grace_secs: u64,
    /// The agent process, for the rule that an agent cannot answer its own ask.
    #[serde(default)]
    pub instance: Option<Instance>,
    #[serde(default)]
    pub own_prompt: Option<OwnPrompt>,
    /// Only the agent's own prompt can answer (a question, a form): hand back at once.
    #[serde(default)]
    pub needs_own_prompt: bool,
    /// Id of an earlier ask of the same requester that this one replaces.
    #[serde(default)]
    pub supersedes: Option<String>,
    #[serde(default)]
    pub place: Option<Place>,
    #[serde(default, flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequesterKind {
    /// A hook process: end of file means that it is gone for good.
    Hook,
    Proxy,
    Library,
    Script,
    Spool,
}

/// A process, safe against reuse of its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/PID/stat` field 22); 0 when it cannot be read.
    #[serde(default)]
    pub start: u64,
}

/// The agent has a prompt of its own for the same call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPrompt {
    /// `terminal`, `host`, …
    #[serde(rename = "where")]
    pub at: String,
    /// It does not appear before the requester ends (Claude Code: background subagents).
    #[serde(default)]
    pub blocked: bool,
}

/// Reply to `POST /v1/asks`: 201 for a new ask, 200 when re-attached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Raised {
    pub ask: Ask,
    /// Only when the daemon minted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The daemon stops: give the agent no opinion and do not come back.
    #[serde(default)]
    pub released: bool,
}

/// Body of `POST /v1/asks/withdraw`, for a requester that has not heard the id of its ask yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WithdrawByKey {
    pub key: String,
    pub cause: String,
}

/// Body of `POST /v1/asks/{id}/withdraw`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WithdrawAsk {
    /// `cancelled`, `session_ended`, `superseded`, `requester_gone`, `requester_limit`, `handed_back`.
    pub cause: String,
}

/// Body of `POST /v1/asks/{id}/decided`: something on the requester's own side, as a hook of its host, decided this ask.
/// It is recorded as what the agent did by itself, and settles no other ask. Refused with `already_settled` when there is
/// an answer for the agent already (`ask` in the problem has it): that is to be used then.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecidedAsk {
    pub decision: Decision,
    /// What decided, for people: `hook`. Absent: the agent's own prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The agent has acted on it, so that an answer which was recorded meanwhile is corrected instead.
    #[serde(default)]
    pub went_on: bool,
}

/// Body of `POST /v1/asks/decided`, for a requester that has not heard the id of its ask yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecidedByKey {
    pub key: String,
    #[serde(flatten)]
    pub decided: DecidedAsk,
}
