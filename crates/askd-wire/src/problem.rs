//! Errors as RFC 9457 problem JSON (`application/problem+json`) with a `code`.

use serde::{Deserialize, Serialize};

use crate::ask::Ask;

/// Why a request was refused. The closed set of lifecycle.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 404: no ask has this id or handle.
    UnknownAsk,
    /// 409: somebody was first; `ask.outcome` says who.
    AlreadySettled,
    /// 409: only the agent's own prompt can answer it now.
    HandedBack,
    /// 412: the answer was given to other content than the ask holds.
    DigestMismatch,
    /// 422: the ask does not offer this option.
    OptionNotOffered,
    /// 403: an agent's own process tree, or a wrong requester token.
    NotPermitted,
    /// 409: a part of the action was not shown yet.
    NotFullyShown,
    /// 429: a resource limit; never a decision.
    CapReached,
    /// 400, 413, 426: the request itself is wrong.
    Malformed,
    /// 503: the journal did not take it; nothing happened.
    NotRecorded,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// Always `about:blank`.
    #[serde(rename = "type", default = "about_blank")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What was wrong and what would be right.
    #[serde(default)]
    pub detail: Option<String>,
    pub code: Code,
    /// `late`: the answer was kept for the same call asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The ask as it now is, for `already_settled`, `handed_back`, `digest_mismatch`. Boxed: most problems have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Box<Ask>>,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// The daemon has no such route: it is older than what is asked of it.
    pub fn is_unknown_route(&self) -> bool {
        matches!(self.status, 404 | 405) && self.code == Code::Malformed
    }
}
