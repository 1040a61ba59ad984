//! How a command ends: its exit status, and one sentence when something was wrong.

use std::fmt;

use askd_client::{CallError, HttpError, PlacesError, Unavailable, UnsafePlace};
use askd_wire::{Code, Problem};

use crate::out::one_line;

/// Exit statuses; the contract with scripts.
pub(crate) mod status {
    /// Done; allowed; this call settled the ask.
    pub(crate) const OK: u8 = 0;
    /// Denied by a person, a policy or a deadline; a check that found something.
    pub(crate) const DENIED: u8 = 1;
    /// The command was used wrongly.
    pub(crate) const WRONG_USE: u8 = 2;
    /// The ask was withdrawn: nobody decided.
    pub(crate) const WITHDRAWN: u8 = 3;
    /// No daemon, or nobody who could be asked.
    pub(crate) const UNAVAILABLE: u8 = 4;
    /// Somebody settled it first, or it was handed back.
    pub(crate) const ALREADY: u8 = 5;
    /// No ask has this id or handle.
    pub(crate) const UNKNOWN: u8 = 6;
    /// An agent may not do this.
    pub(crate) const NOT_PERMITTED: u8 = 7;
    // 9, of `askd daemon` alone: a daemon already runs here (`askd_client::daemon::ALREADY_RUNNING_STATUS`).
    /// Nobody reads what is printed any more; what a shell shows for it.
    pub(crate) const BROKEN_PIPE: u8 = 141;
}

/// The exit status of a command that did what it was for.
pub(crate) type Done = Result<u8, Failure>;

/// What goes to standard error, and the exit status. An empty text is not printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: u8, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// The text says what was wrong and what would be right.
    pub(crate) fn wrong_use(text: impl Into<String>) -> Self {
        Self::new(status::WRONG_USE, text)
    }

    pub(crate) fn unavailable(text: impl fmt::Display) -> Self {
        Self::new(status::UNAVAILABLE, text.to_string())
    }

    pub(crate) fn quiet(status: u8) -> Self {
        Self::new(status, "")
    }

    /// The same, with what was being done in front of it.
    #[must_use]
    pub(crate) fn while_doing(self, what: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

/// The exit status for a refusal of the daemon.
pub(crate) fn status_of(problem: &Problem) -> u8 {
    match problem.code {
        Code::UnknownAsk => status::UNKNOWN,
        Code::NotPermitted => status::NOT_PERMITTED,
        Code::AlreadySettled | Code::HandedBack => status::ALREADY,
        Code::OptionNotOffered | Code::Malformed => status::WRONG_USE,
        Code::DigestMismatch | Code::NotFullyShown | Code::CapReached | Code::NotRecorded => {
            status::UNAVAILABLE
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let status = error.problem().map_or(status::UNAVAILABLE, status_of);
        let hangs = matches!(error, CallError::Http(HttpError::TimedOut));
        let hint = if hangs {
            "the daemon does not answer, it hangs or was suspended (state/daemon.json names its process): "
        } else {
            ""
        };
        Self::new(status, format!("{hint}{}", one_line(&error.to_string())))
    }
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        let status = match &error {
            Unavailable::Refused(problem) => status_of(problem),
            _ => status::UNAVAILABLE,
        };
        Self::new(status, one_line(&error.to_string()))
    }
}

impl From<UnsafePlace> for Failure {
    fn from(error: UnsafePlace) -> Self {
        Unavailable::from(error).into()
    }
}

impl From<PlacesError> for Failure {
    fn from(error: PlacesError) -> Self {
        Self::wrong_use(error.to_string())
    }
}
