//! The contract that every engine satisfies; the conformance suite is its meaning in full.

use askd_core::event::Event;
use askd_core::id::{AskId, StreamId};
use askd_core::time::Stamp;
use uuid::Uuid;

/// Place in the one order of everything that was committed; starts at 1, no gaps.
pub type Position = u64;
/// Number of events in a stream; 0 for a stream that does not exist.
pub type Version = u64;

/// Written in one transaction, or not at all.
///
/// Claims are released before any is taken, so a name can change hands within a batch. A batch that gathers several
/// commands goes through [`Batch::claim`] and [`Batch::give_up`], which keep the order in which they came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    pub appends: Vec<Append>,
    pub take: Vec<Claim>,
    /// Claims that are given up. One that the named holder does not hold stays as it is: giving up never takes a name
    /// away from somebody else.
    pub release: Vec<Claim>,
}

impl Batch {
    /// Takes a claim after everything that the batch already does.
    pub fn claim(&mut self, claim: Claim) {
        if !self.take.contains(&claim) {
            self.take.push(claim);
        }
    }

    /// Gives a claim up after everything that the batch already does, also one that the batch itself took.
    pub fn give_up(&mut self, claim: Claim) {
        self.take.retain(|taken| *taken != claim);
        if !self.release.contains(&claim) {
            self.release.push(claim);
        }
    }
}

/// New events of one stream, and its head after them. A batch has at most one append per stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    pub stream: StreamId,
    /// Version that the writer believes the stream has.
    pub expected: Version,
    /// May be empty to change the head alone, of a stream that exists.
    pub entries: Vec<Entry>,
    pub head: Head,
}

/// One event with an identity of its own, by which a lost acknowledgement is resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub id: Uuid,
    pub at: Stamp,
    pub event: Event,
}

/// What can be known about a stream without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub state: HeadState,
    /// `<agent>/<session>` at the top, for asks and sessions.
    pub root: Option<String>,
    /// Wall time in milliseconds of the ask's next deadline.
    pub due_wall_ms: Option<i64>,
    /// Wall time in milliseconds at which it was closed; pruning goes by this, and never touches a stream without it.
    pub closed_wall_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadState {
    /// Open ask, live session, running daemon: loaded at start.
    Open,
    /// Settled ask with something left to do (delivery, late answer): loaded at start.
    Unfinished,
    /// Read only when somebody asks for it; pruned after the retention time.
    Closed,
}

/// A name that at most one stream holds: `key/…`, `handle/…`, `spool/…`. A claim of a closed ask's handle stays held
/// until the ask is pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub holder: StreamId,
}

/// An entry with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Positioned {
    pub position: Position,
    pub stream: StreamId,
    /// Version of the stream after this entry.
    pub version: Version,
    pub entry: Entry,
}

/// Places of the batch's entries, which follow each other in the batch's order. A batch without entries has the empty
/// range: `last` is the newest position and `first` the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub first: Position,
    pub last: Position,
}

/// Why a batch was not (known to be) committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else wrote first. Nothing was written; reload these streams and the claims' holders and handle the
    /// commands again. `streams` has every stream at another version than expected, `claims` every claim of the batch
    /// that another stream holds, with that holder.
    #[error("conflict on {streams:?} {claims:?}")]
    Conflict { streams: Vec<StreamId>, claims: Vec<Claim> },
    /// The engine cannot tell whether it was written: look for the entries' ids before anything else. What is not there
    /// may still come back with the next start, until [`Journal::settle`] says that it cannot.
    #[error("the journal cannot tell whether the batch was written: {0}")]
    Unknown(String),
    /// Nothing was written.
    #[error(transparent)]
    Failed(#[from] JournalError),
}

/// What is wrong with the journal, in words for the person who must repair it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {path} is corrupt: {detail}")]
    Corrupt { path: String, detail: String },
    #[error("the disk that holds the journal {path} is full")]
    Full { path: String },
    #[error("the journal {path} cannot be written: {detail}")]
    ReadOnly { path: String, detail: String },
    #[error("another daemon uses the journal {path}")]
    InUse { path: String },
    #[error(
        "the journal {path} has schema version {found}, newer than this askd knows ({known}); upgrade askd"
    )]
    Newer { path: String, found: i64, known: i64 },
    #[error("the journal {path} must belong to this user and be private: {detail}")]
    Unsafe { path: String, detail: String },
    #[error("journal: {0}")]
    Other(String),
}

/// Reading, from any thread.
pub trait Reader: Send {
    fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError>;
    /// All entries of a stream in order; empty for a stream that does not exist.
    fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError>;
    /// Entries after a position, in order and without gaps; at most `limit`. Only pruning takes entries out, and their
    /// positions are never given again.
    fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError>;
    /// The newest position, also of an entry that was pruned since; 0 when nothing was ever committed.
    fn last(&self) -> Result<Position, JournalError>;
    /// Streams whose head is not closed, in the order in which they began.
    fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError>;
    /// Who holds a claim.
    fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError>;
    /// The holders of many claims, in their order.
    fn holders(&self, claims: &[String]) -> Result<Vec<Option<StreamId>>, JournalError> {
        claims.iter().map(|claim| self.holder(claim)).collect()
    }
    /// Asks that are not closed, with a head deadline at or before this wall time, earliest first.
    fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError>;
    /// True when an entry with this id was committed to this stream.
    fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError>;
}

/// One writer.
pub trait Journal: Reader {
    /// All of the batch or nothing, durable when it returns. A batch that contradicts itself (two appends of one
    /// stream, two holders of one claim, a claim for a stream that does not exist, an entry's id twice, a stream that
    /// would begin without an entry) is refused with [`JournalError::Other`]. That an id was never given before is the
    /// writer's to know.
    fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError>;
    /// Deletes closed streams that were closed before this wall time, with their claims, at most `limit` of them;
    /// returns how many went.
    fn prune(&mut self, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError>;
    /// Writes something that leaves everything as it is, durably: whether a commit could succeed now.
    fn try_writing(&mut self) -> Result<(), JournalError>;
    /// After [`CommitError::Unknown`]: sees to it that what is not there now never will be. `Ok`: the batch is there, or
    /// nowhere. Otherwise everything that was in doubt is so still.
    fn settle(&mut self) -> Result<(), JournalError>;
    /// Other daemons may write to it at the same time, so that what only one may do has to be claimed here.
    fn is_shared(&self) -> bool;
    /// A second view for queries, usable on another thread, seeing everything that was committed.
    fn reader(&self) -> Result<Box<dyn Reader>, JournalError>;
    /// Where it is, for people.
    fn describe(&self) -> String;
}
