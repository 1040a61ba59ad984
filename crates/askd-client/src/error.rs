//! What can go wrong between a program and the daemon. None of it is a decision.

use std::io;
use std::path::{Path, PathBuf};

use askd_wire::{API_VERSION, Ask, Code, Problem};

/// A reply could not be had or understood.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The operating system refused; the text names the step.
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
    /// The deadline passed first.
    #[error("no reply in time")]
    TimedOut,
    /// End of file before a whole reply.
    #[error("the daemon closed the connection before it had replied")]
    Closed,
    /// Not the HTTP/1.1 that the daemon speaks.
    #[error("the reply is not valid HTTP: {0}")]
    Malformed(&'static str),
    /// A limit of this client.
    #[error("the reply is too large: {0}")]
    TooLarge(&'static str),
}

/// A request was answered with something else than what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The daemon refused, and says why.
    #[error("{}", describe(.0))]
    Refused(Box<Problem>),
    /// Client and daemon speak different versions; the text says which side to upgrade.
    #[error("{0}")]
    Skew(String),
    /// A status or body that this client does not know.
    #[error("unexpected reply {status}: {text}")]
    Unexpected { status: u16, text: String },
    /// The request could not be written as JSON.
    #[error("the request cannot be written as JSON: {0}")]
    Encode(serde_json::Error),
}

impl CallError {
    /// The daemon's own refusal, when that is what it is.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}

/// One line for people: what was wrong and what would be right.
fn describe(problem: &Problem) -> String {
    match &problem.detail {
        Some(detail) => format!("{}: {detail}", problem.title),
        None => problem.title.clone(),
    }
}

/// Which side to upgrade when a daemon of API `theirs` refused this client's version.
pub(crate) fn skew_text(theirs: Option<u32>) -> String {
    match theirs {
        Some(theirs) if theirs < API_VERSION => format!(
            "the daemon speaks API {theirs}, this program speaks {API_VERSION}: restart the daemon with the newer askd (askd daemon restart)"
        ),
        Some(theirs) => format!(
            "this program speaks API {API_VERSION}, the daemon speaks {theirs}: upgrade this program (an older askd is still installed here)"
        ),
        None => {
            format!("the daemon does not serve API {API_VERSION}: upgrade the older of the two askd programs")
        }
    }
}

/// A directory or socket that somebody else could have put there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct UnsafePlace {
    pub path: PathBuf,
    /// What is wrong and what would be right.
    pub why: String,
}

impl UnsafePlace {
    pub(crate) fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), why: why.into() }
    }
}

/// No outcome could be had. What that means is for the host to decide; it is never an allow or a deny by itself.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// No daemon listens, and starting one was not asked for.
    #[error("no askd daemon runs (no socket answers at {})", .0.display())]
    NotRunning(PathBuf),
    /// A person stopped the daemon; only a person starts it again.
    #[error("askd was stopped; run `askd` or `askd daemon` to start it again")]
    Stopped,
    /// The daemon goes away and told its requesters to have no opinion.
    #[error(
        "askd was stopped while this ask was open, and nobody decided it; start it with `askd` and ask again"
    )]
    Released,
    /// The daemon did not come up.
    #[error("the askd daemon cannot be started: {0}")]
    CannotStart(String),
    /// Somebody else's directory or socket is in the way.
    #[error("refused: {0}")]
    Unsafe(#[from] UnsafePlace),
    /// The daemon refused the ask.
    #[error("the daemon refused: {}", describe(.0))]
    Refused(Box<Problem>),
    /// Versions differ; the text says which side to upgrade.
    #[error("{0}")]
    Skew(String),
    /// A fault that does not pass by itself.
    #[error("{0}")]
    Fault(String),
    /// Nobody answers requests in this forwarding directory, or nobody did for too long.
    #[error("nobody serves {} (run `askd spool` for it, or add it to [spool] dirs)", .0.display())]
    Unserved(PathBuf),
    /// The asker's own limit passed. The ask, when it was raised, is still open.
    #[error("the asker's own time limit passed")]
    GaveUp(Option<Box<Ask>>),
    /// The asker's [`Watch`](crate::Watch) said that nobody wants the outcome any more.
    #[error("nobody waits for the outcome any more")]
    Abandoned,
}

impl Unavailable {
    /// The daemon refused, and would refuse the same again: it is neither full nor in trouble with its disk.
    pub fn is_final_refusal(&self) -> bool {
        matches!(self, Self::Refused(problem)
            if !matches!(problem.code, Code::NotRecorded | Code::CapReached))
    }
}

impl From<CallError> for Unavailable {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(problem) => Self::Refused(problem),
            CallError::Skew(text) => Self::Skew(text),
            other => Self::Fault(other.to_string()),
        }
    }
}
