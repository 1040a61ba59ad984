//! What can be made to go wrong for one handle of the in-memory engine.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contract::{Batch, JournalError, Reader};

/// What happens to one commit. Faults queue; each commit with a well-formed batch uses up one.
pub enum Fault {
    /// Nothing: the commit goes through. Puts distance between faults.
    Pass,
    /// The disk is full; nothing is written.
    Full,
    /// The disk became read-only; nothing is written.
    ReadOnly,
    /// Another failure, in these words; nothing is written.
    Broken(String),
    /// The batch is tried, and written unless it conflicts; the caller hears `Unknown` either way.
    UnknownWritten,
    /// The batch is not written; the caller hears `Unknown`.
    UnknownLost,
    /// The batch is not seen, and the caller hears `Unknown`; after a crash it is there, unless something was written
    /// before, or it was settled. Settling fails so many times.
    UnknownUnseen { settles: usize },
    /// Another daemon looks at the store between the caller's read and this commit, and commits the batch that it
    /// makes first.
    Rival(Rival),
}

/// Makes another daemon's batch from what is in the store.
pub type Rival = Box<dyn FnOnce(&dyn Reader) -> Batch + Send>;

impl Fault {
    /// A rival that commits this batch, whatever is in the store.
    pub fn rival(batch: Batch) -> Self {
        Self::Rival(Box::new(move |_| batch))
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "Pass",
            Self::Full => "Full",
            Self::ReadOnly => "ReadOnly",
            Self::Broken(_) => "Broken",
            Self::UnknownWritten => "UnknownWritten",
            Self::UnknownLost => "UnknownLost",
            Self::UnknownUnseen { .. } => "UnknownUnseen",
            Self::Rival(_) => "Rival",
        })
    }
}

/// What became of a fault whose effect is not in the caller's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// A rival's batch was committed, or conflicted itself.
    Rival { committed: bool },
    /// The caller heard `Unknown`; this is the truth.
    Unknown { written: bool },
}

/// The faults of one handle. Cloning gives the same queue again.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    commits: VecDeque<Fault>,
    broken_reads: usize,
    fired: Vec<Fired>,
}

impl Faults {
    /// Adds a fault to the queue: it meets the first commit that no earlier fault meets.
    pub fn inject(&self, fault: Fault) {
        self.lock().commits.push_back(fault);
    }

    /// Lets the next `count` reads of this handle and its readers fail.
    pub fn break_reads(&self, count: usize) {
        self.lock().broken_reads += count;
    }

    /// Commit faults that did not happen yet.
    pub fn waiting(&self) -> usize {
        self.lock().commits.len()
    }

    /// What became of the rivals and the unknown commits so far, in order.
    pub fn so_far(&self) -> Vec<Fired> {
        self.lock().fired.clone()
    }

    pub(super) fn next(&self) -> Option<Fault> {
        self.lock().commits.pop_front()
    }

    pub(super) fn fired(&self, fired: Fired) {
        self.lock().fired.push(fired);
    }

    pub(super) fn read(&self) -> Result<(), JournalError> {
        let mut plan = self.lock();
        if plan.broken_reads == 0 {
            return Ok(());
        }
        plan.broken_reads -= 1;
        Err(JournalError::Other("a read was made to fail".to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
