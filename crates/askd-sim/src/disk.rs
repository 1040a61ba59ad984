//! The journal as a daemon of the simulated world has it: the shipped in-memory engine, watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use askd_core::AskId;
use askd_core::StreamId;
use askd_journal::{
    Batch, CommitError, Committed, Head, Journal, JournalError, MemoryJournal, Position, Positioned, Reader,
    Version,
};
use uuid::Uuid;

use crate::flaw::Flaw;

/// What a daemon's commits met.
#[derive(Debug, Default)]
pub(crate) struct Met {
    pub(crate) stream_conflicts: AtomicU64,
    pub(crate) claim_conflicts: AtomicU64,
    commits: AtomicU64,
}

pub(crate) struct Disk {
    pub(crate) inner: MemoryJournal,
    pub(crate) met: Arc<Met>,
    pub(crate) flaw: Option<Flaw>,
}

impl Disk {
    fn flawed_commit(&mut self, batch: &Batch) -> Option<Result<Committed, CommitError>> {
        let count = self.met.commits.fetch_add(1, Ordering::Relaxed);
        match self.flaw? {
            // Now and then, as a disk that lies about having written.
            Flaw::KeepsNothing if count % 7 == 3 => {
                let entries = batch.appends.iter().map(|a| a.entries.len() as u64).sum::<u64>();
                let last = self.inner.last().ok()?;
                Some(Ok(Committed { first: last + 1, last: last + entries }))
            }
            Flaw::Overwrites => {
                let mut forced = batch.clone();
                for append in &mut forced.appends {
                    append.expected = self.inner.head(&append.stream).ok()?.map_or(0, |(version, _)| version);
                }
                Some(self.inner.commit(&forced))
            }
            _ => None,
        }
    }
}

impl Reader for Disk {
    fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
        self.inner.head(stream)
    }

    fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        self.inner.read(stream)
    }

    fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
        self.inner.feed(after, limit)
    }

    fn last(&self) -> Result<Position, JournalError> {
        self.inner.last()
    }

    fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
        let mut heads = self.inner.open_heads()?;
        if self.flaw == Some(Flaw::ForgetsHeads)
            && let Some(at) = heads.iter().rposition(|(stream, ..)| matches!(stream, StreamId::Ask(_)))
        {
            heads.remove(at);
        }
        Ok(heads)
    }

    fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
        self.inner.holder(claim)
    }

    fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
        self.inner.due(wall_ms, limit)
    }

    fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
        if self.flaw == Some(Flaw::GuessesWritten) { Ok(true) } else { self.inner.contains(stream, entry) }
    }
}

impl Journal for Disk {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError> {
        let result = match self.flawed_commit(batch) {
            Some(result) => result,
            None => self.inner.commit(batch),
        };
        if let Err(CommitError::Conflict { streams, claims }) = &result {
            if !streams.is_empty() {
                self.met.stream_conflicts.fetch_add(1, Ordering::Relaxed);
            }
            if !claims.is_empty() {
                self.met.claim_conflicts.fetch_add(1, Ordering::Relaxed);
            }
        }
        result
    }

    fn try_writing(&mut self) -> Result<(), JournalError> {
        self.inner.try_writing()
    }

    fn settle(&mut self) -> Result<(), JournalError> {
        self.inner.settle()
    }

    fn prune(&mut self, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
        self.inner.prune(closed_before_wall_ms, limit)
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn reader(&self) -> Result<Box<dyn Reader>, JournalError> {
        self.inner.reader()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
