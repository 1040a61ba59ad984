//! Types of askd's HTTP API and of its `--json` output: serde shapes only, no I/O and no decisions.
//!
//! Read [`Ask`] (what every surface and script sees) and [`RaiseAsk`] (what a requester sends) first.
//! Times are RFC 3339 strings in UTC with milliseconds; spans are whole seconds unless a name ends in `_ms`.
//! Unknown fields are ignored on input, so that an older program can read a newer one.

mod answer;
mod ask;
mod daemon;
mod observe;
mod permissions;
mod problem;
mod raise;
mod spool;
mod stream;

pub use answer::{Answer, AnswerReport, BulkAnswer, Decision, NamedAnswer};
pub use ask::{
    Action, Ask, AskState, Attendance, Choice, ChoiceKind, Class, Delivery, DisplayField, LateAnswer,
    Lineage, Outcome, OutcomeKind, Place, Requester, Subagent, Verdict,
};
pub use daemon::{DaemonFile, Health, LogEntry, Loosening, RemoteHealth, SessionView, Skipping, VERSION};
pub use observe::{LoopSeen, Observation, ObservationBatch, Spawn};
pub use permissions::{PermissionsChange, PermissionsCommand, PermissionsText, PermissionsView, TimedPolicy};
pub use problem::{Code, Problem};
pub use raise::{
    DecidedAsk, DecidedByKey, Instance, OwnPrompt, RaiseAsk, Raised, RequesterKind, WithdrawAsk,
    WithdrawByKey,
};
pub use spool::{SPOOL_VERSION, SpoolOutcome, SpoolRequest, SpoolResponse};
pub use stream::{RegisterSurface, Registered, Scope, StreamEvent, SurfaceKind, SurfaceReport};

/// Header with the API version of the sender, a whole number (`x-askd-version: 1`).
pub const VERSION_HEADER: &str = "x-askd-version";
/// Version of the API that this build speaks. A daemon answers `426` with code `malformed` only when it
/// cannot serve the sender's version, and says which side to upgrade.
pub const API_VERSION: u32 = 1;
