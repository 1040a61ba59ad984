//! Makes batches for the cases and for the engines' own tests, and looks at everything that a failed commit could have changed.

use std::sync::atomic::{AtomicU64, Ordering};

use askd_core::event::Event;
use askd_core::id::{AskId, SessionKey, StreamId};
use askd_core::time::{BootId, Stamp};
use uuid::Uuid;

use crate::contract::{
    Append, Batch, Claim, CommitError, Entry, Head, HeadState, Journal, JournalError, Positioned, Reader,
    Version,
};

/// A head with nothing in it.
pub const OPEN: Head = Head { state: HeadState::Open, root: None, due_wall_ms: None, closed_wall_ms: None };

/// A head that was closed at this wall time.
pub fn closed(at_wall_ms: i64) -> Head {
    Head { state: HeadState::Closed, closed_wall_ms: Some(at_wall_ms), ..OPEN }
}

/// An open head with a deadline.
pub fn due(at_wall_ms: i64) -> Head {
    Head { due_wall_ms: Some(at_wall_ms), ..OPEN }
}

/// The stream of the ask with this id.
pub fn ask(n: u128) -> StreamId {
    StreamId::Ask(AskId(Uuid::from_u128(n)))
}

/// The stream of a session of Claude Code.
pub fn session(name: &str) -> StreamId {
    StreamId::Session(SessionKey { agent: "claude-code".to_owned(), session: name.to_owned() })
}

/// A second after boot 7, at this wall time.
pub fn stamp(wall_ms: i64) -> Stamp {
    Stamp { boot: BootId(Uuid::from_u128(7)), boot_ms: 1_000, wall_ms }
}

/// An entry with an id that no other has.
pub fn entry(event: Event) -> Entry {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 64);
    Entry { id, at: stamp(50_000), event }
}

/// A small entry that names a surface.
pub fn small(surface: impl Into<String>) -> Entry {
    entry(Event::SurfaceFailed { surface: surface.into(), reason: String::new() })
}

/// One entry for a stream at a version.
pub fn one(stream: &StreamId, expected: Version, head: Head) -> Append {
    some(stream, expected, 1, head)
}

/// So many entries for a stream at a version.
pub fn some(stream: &StreamId, expected: Version, count: usize, head: Head) -> Append {
    let entries = (0..count).map(|n| small(format!("surface {n}"))).collect();
    Append { stream: stream.clone(), expected, entries, head }
}

/// A batch without claims.
pub fn batch(appends: impl IntoIterator<Item = Append>) -> Batch {
    Batch { appends: appends.into_iter().collect(), ..Batch::default() }
}

/// A name and who holds it.
pub fn claim(name: &str, holder: &StreamId) -> Claim {
    Claim { name: name.to_owned(), holder: holder.clone() }
}

/// The conflict of a commit that must conflict, in a fixed order.
pub fn conflict(journal: &mut dyn Journal, batch: &Batch) -> (Vec<StreamId>, Vec<Claim>) {
    match journal.commit(batch) {
        Err(CommitError::Conflict { mut streams, mut claims }) => {
            streams.sort();
            claims.sort_by(|a, b| a.name.cmp(&b.name));
            (streams, claims)
        }
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// The words in which a batch is refused that must be refused.
pub fn refused(journal: &mut dyn Journal, batch: &Batch) -> String {
    match journal.commit(batch) {
        Err(CommitError::Failed(JournalError::Other(why))) => why,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Everything that can be seen, of which nothing may change when a batch was not written.
#[derive(Debug, PartialEq)]
pub struct Picture {
    pub entries: Vec<Positioned>,
    pub last: u64,
    pub open: Vec<(StreamId, Version, Head)>,
    pub holders: Vec<Option<StreamId>>,
}

/// What can be seen now; `claims` are the names to look up.
pub fn picture(reader: &dyn Reader, claims: &[&str]) -> Picture {
    Picture {
        entries: reader.feed(0, usize::MAX).unwrap(),
        last: reader.last().unwrap(),
        open: reader.open_heads().unwrap(),
        holders: claims.iter().map(|name| reader.holder(name).unwrap()).collect(),
    }
}
