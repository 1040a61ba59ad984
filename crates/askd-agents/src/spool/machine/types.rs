//! What the machine is told of files, and what it wants done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askd_client::spool::Stamp;
use askd_wire::RaiseAsk;

use super::AskNo;
use crate::spool::wire::{Request, Unreadable};

/// Where one request is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Name of the session's directory.
    pub session: String,
    pub stem: String,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.session, self.stem)
    }
}

/// What one look at a session's directories saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Every request whose name is safe.
    pub requests: BTreeMap<String, Stamp>,
    /// Every response.
    pub responses: BTreeSet<String>,
    /// Which directory `requests/` is; `None`: there is none.
    pub requests_dir: Option<(u64, u64)>,
    /// Both directories are there, with their sentinels.
    pub kept: bool,
    /// Somebody else's fresh serving record of a live process.
    pub other_serves: bool,
}

/// Both directories of a session as [`Action::Keep`] left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Which directory `requests/` is.
    pub requests_dir: (u64, u64),
    /// `requests/` itself was away.
    pub requests_made: bool,
    /// Its sentinel was away, or all of it.
    pub requests_anew: bool,
    /// A directory or a sentinel was away: somebody had taken it. The number of a directory alone does not say so, as the
    /// next one may get the same.
    pub anew: bool,
}

/// What is known of a requester when its request is first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    Unknown,
    /// This process (its number and start) waits; it began before the request was made.
    Process {
        pid: u32,
        start: u64,
    },
    /// It is dead for certain.
    Gone,
}

/// A file that was read for the machine.
#[derive(Debug)]
pub struct Found {
    pub stamp: Stamp,
    pub request: Result<Request, Unreadable>,
    pub evidence: Evidence,
    /// How long ago it was written.
    pub age: Duration,
    /// The response that is there already.
    pub answered: Option<Vec<u8>>,
    /// That response was written before the request was.
    pub outdated: bool,
    /// Which directory the request is in, where both are in place with their sentinels.
    pub kept_in: Option<(u64, u64)>,
}

/// The request that an answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// Of its bytes; `None`: it could not be read, and its answer says no more than that.
    pub digest: Option<String>,
    /// It was taken away with its whole directory: its requester may wait all the same.
    pub or_none: bool,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Action {
    /// Make both directories and their sentinels; told by [`Machine::kept`](super::Machine::kept).
    Keep(String),
    Raise(AskNo, Box<RaiseAsk>),
    /// Find the ask that was raised as this in an earlier run, and that has the outcome which its response says; told by
    /// [`Machine::recalled`](super::Machine::recalled).
    Recall(AskNo, Box<RaiseAsk>, Option<bool>),
    /// Nobody decides it; told by [`Machine::outcome`](super::Machine::outcome) when somebody had already.
    Withdraw(AskNo, &'static str),
    /// The response is in place.
    Handed(AskNo),
    /// It was fetched.
    Confirmed(AskNo),
    /// Somebody else's response is in place: what it says is what became of the ask.
    AnsweredElsewhere(AskNo, Id),
    /// Nothing more comes for this ask.
    Over(AskNo),
    /// Put the response in place if the request that it is for is there, and never beside another one; told by
    /// [`Machine::placed`](super::Machine::placed), or by [`Machine::not_beside`](super::Machine::not_beside).
    Answer(Id, Vec<u8>, Beside),
    RemoveRequest(Id),
    /// Remove the response if it has these bytes; without any: whatever it has.
    RemoveResponse(Id, Vec<u8>),
    /// Rewrite the serving record.
    Beat(String),
    /// Take the serving record away.
    Unbeat(String),
    /// Take the sentinels and what is empty away, and let others have the session.
    Leave(String),
    /// For people.
    Tell(String),
}
