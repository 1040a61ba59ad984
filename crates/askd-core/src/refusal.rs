//! Typed refusals. A refusal changes nothing in the ask that it names.

use crate::ask::Decision;
use crate::id::AskId;
use crate::time::Stamp;

/// Why a command did not do what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no ask has this id or handle")]
    UnknownAsk,
    /// Somebody was first; the ask's outcome says who.
    #[error("already settled")]
    AlreadySettled(AskId),
    /// The requester was lost, the answer is kept for the same call asking again within the span.
    #[error("too late for this call; kept as {decision:?} until the same call asks again")]
    ///
    /// The span of `for_ms` milliseconds runs from `recorded_at`, the moment in which the requester was lost.
    Late { ask: AskId, decision: Decision, recorded_at: Stamp, for_ms: u64 },
    #[error("handed back: only the agent's own prompt, in the {at}, can answer it now")]
    HandedBack { ask: AskId, at: String },
    #[error("the answer was given to other content than the ask holds")]
    DigestMismatch(AskId),
    #[error("this ask offers no such option; it offers {offered}")]
    OptionNotOffered { ask: AskId, offered: String },
    #[error("not permitted: {0}")]
    NotPermitted(String),
    #[error("a part of the action was not shown yet")]
    NotFullyShown(AskId),
    #[error("limit reached: {0}")]
    CapReached(String),
    #[error("malformed: {0}")]
    Malformed(String),
    /// The journal did not take it: nothing happened.
    #[error("not recorded: {0}")]
    NotRecorded(String),
}
