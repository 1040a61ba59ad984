//! What a person's surface sends.

use serde::{Deserialize, Serialize};

use crate::ask::Ask;
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Deny,
}

/// Body of `POST /v1/asks/{id}/answer`. `{id}` is a full id or a handle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    pub decision: Decision,
    /// Digest of the ask that was shown; a mismatch is refused with 412.
    pub digest: String,
    /// An option id; absent: the first `allow_once`, or the first `reject_once` (else `reject_always`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Deny and stop the agent's turn.
    #[serde(default)]
    pub stop: bool,
    /// Id from `POST /v1/surfaces`, or a plain name such as `command line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
}

/// Body of the same route from a remote surface: who answered there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NamedAnswer {
    #[serde(flatten)]
    pub answer: Answer,
    /// Their name, for people; counted only for a registered surface of kind remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One element of `POST /v1/answers`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BulkAnswer {
    pub id: String,
    #[serde(flatten)]
    pub answer: Answer,
}

/// Result of one answer: the ask as it now is, and the refusal when this call did not settle it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnswerReport {
    pub id: String,
    /// HTTP status that the single route would have given.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}
