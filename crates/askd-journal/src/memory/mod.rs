//! The in-memory engine: one store, any number of handles on it, each of which plays a daemon.
//!
//! What a handle committed is in the store; nothing else survives the handle, so dropping one and opening another on
//! the same store is a crash and a restart. Deterministic: no clock, no randomness.

mod fault;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use askd_core::id::{AskId, StreamId};
use uuid::Uuid;

use crate::contract::{
    Batch, CommitError, Committed, Head, Journal, JournalError, Position, Positioned, Reader, Version,
};
use crate::shape;
pub use fault::{Fault, Faults, Fired, Rival};
use store::Store;

/// Where several [`MemoryJournal`]s write. Cloning gives the same store again.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Store>>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// One more daemon on this store.
    pub fn open(&self) -> MemoryJournal {
        MemoryJournal { view: MemoryReader { store: self.clone(), faults: Faults::default() }, unseen: None }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One daemon's handle on a [`MemoryStore`].
#[derive(Debug)]
pub struct MemoryJournal {
    view: MemoryReader,
    /// What a crash brings back, and how often settling that fails.
    unseen: Option<(Batch, usize)>,
}

impl MemoryJournal {
    /// A journal alone on a store of its own.
    pub fn new() -> Self {
        MemoryStore::new().open()
    }

    /// What is to go wrong for this handle; stays usable when the journal itself was given away.
    pub fn faults(&self) -> Faults {
        self.view.faults.clone()
    }

    /// The store, to open another handle on it.
    pub fn store(&self) -> MemoryStore {
        self.view.store.clone()
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

/// A view of a store; what was injected into its handle's reads happens here too.
#[derive(Debug, Clone)]
struct MemoryReader {
    store: MemoryStore,
    faults: Faults,
}

impl MemoryReader {
    fn look<T>(&self, f: impl FnOnce(&Store) -> Result<T, JournalError>) -> Result<T, JournalError> {
        self.faults.read()?;
        f(&self.store.lock())
    }
}

impl Reader for MemoryReader {
    fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
        self.look(|store| Ok(store.head(stream)))
    }

    fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        self.look(|store| store.read(stream))
    }

    fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
        self.look(|store| store.feed(after, limit))
    }

    fn last(&self) -> Result<Position, JournalError> {
        self.look(|store| Ok(store.last()))
    }

    fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
        self.look(|store| Ok(store.open_heads()))
    }

    fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
        self.look(|store| Ok(store.holder(claim)))
    }

    fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
        self.look(|store| Ok(store.due(wall_ms, limit)))
    }

    fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
        self.look(|store| Ok(store.contains(stream, entry)))
    }
}

impl Drop for MemoryJournal {
    /// The process ends, and whoever starts next finds what its log held.
    fn drop(&mut self) {
        if let Some((batch, _)) = self.unseen.take() {
            // What does not fit any more was overwritten by others.
            let _ = self.view.store.lock().commit(&batch);
        }
    }
}

impl Reader for MemoryJournal {
    fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
        self.view.head(stream)
    }

    fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        self.view.read(stream)
    }

    fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
        self.view.feed(after, limit)
    }

    fn last(&self) -> Result<Position, JournalError> {
        self.view.last()
    }

    fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
        self.view.open_heads()
    }

    fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
        self.view.holder(claim)
    }

    fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
        self.view.due(wall_ms, limit)
    }

    fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
        self.view.contains(stream, entry)
    }
}

impl Journal for MemoryJournal {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError> {
        shape::check(batch)?;
        let store = &self.view.store;
        let path = || self.describe();
        match self.view.faults.next() {
            None | Some(Fault::Pass) => {
                let done = store.lock().commit(batch);
                if done.is_ok() {
                    self.unseen = None;
                }
                done
            }
            Some(Fault::Full) => Err(JournalError::Full { path: path() }.into()),
            Some(Fault::ReadOnly) => {
                Err(JournalError::ReadOnly { path: path(), detail: "injected".to_owned() }.into())
            }
            Some(Fault::Broken(why)) => Err(JournalError::Other(why).into()),
            Some(Fault::UnknownWritten) => {
                let written = store.lock().commit(batch);
                self.view.faults.fired(Fired::Unknown { written: written.is_ok() });
                Err(CommitError::Unknown("the connection was lost after the commit".to_owned()))
            }
            Some(Fault::UnknownLost) => {
                self.view.faults.fired(Fired::Unknown { written: false });
                Err(CommitError::Unknown("the connection was lost before the commit".to_owned()))
            }
            Some(Fault::UnknownUnseen { settles }) => {
                self.unseen = Some((batch.clone(), settles));
                self.view.faults.fired(Fired::Unknown { written: false });
                Err(CommitError::Unknown("the log could not be synced".to_owned()))
            }
            Some(Fault::Rival(write)) => {
                // The store is not locked while the rival looks at it: it reads as every other daemon does.
                let rival = store.open();
                let theirs = write(&rival);
                let outcome = shape::check(&theirs)
                    .map_err(CommitError::from)
                    .and_then(|()| store.lock().commit(&theirs));
                self.view.faults.fired(Fired::Rival { committed: outcome.is_ok() });
                store.lock().commit(batch)
            }
        }
    }

    /// Takes none of the faults that wait for commits.
    fn try_writing(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), JournalError> {
        match &mut self.unseen {
            Some((_, settles)) if *settles > 0 => {
                *settles -= 1;
                Err(JournalError::Full { path: self.describe() })
            }
            _ => {
                self.unseen = None;
                Ok(())
            }
        }
    }

    fn prune(&mut self, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
        Ok(self.view.store.lock().prune(closed_before_wall_ms, limit))
    }

    /// It can play a second daemon.
    fn is_shared(&self) -> bool {
        true
    }

    fn reader(&self) -> Result<Box<dyn Reader>, JournalError> {
        Ok(Box::new(self.view.clone()))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
