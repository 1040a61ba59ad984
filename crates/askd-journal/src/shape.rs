//! What every engine refuses before it looks at its store: batches that contradict themselves.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::{Batch, Claim, JournalError};

pub(crate) fn check(batch: &Batch) -> Result<(), JournalError> {
    let mut streams = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for append in &batch.appends {
        if !streams.insert(&append.stream) {
            return refuse(format!("a batch has two appends of {}", append.stream));
        }
        if append.expected == 0 && append.entries.is_empty() {
            return refuse(format!("{} would begin without an entry", append.stream));
        }
        for entry in &append.entries {
            if !ids.insert(entry.id) {
                return refuse(format!("a batch has the entry {} twice", entry.id));
            }
        }
    }
    let mut holders = BTreeMap::new();
    for claim in &batch.take {
        if holders.insert(&claim.name, &claim.holder).is_some_and(|other| *other != claim.holder) {
            return refuse(format!("a batch gives the claim {} to two streams", claim.name));
        }
    }
    Ok(())
}

/// A claim for a stream that does not exist, also after the batch; nothing would ever prune it.
pub(crate) fn orphaned(claim: &Claim) -> JournalError {
    JournalError::Other(format!("the claim {} is for {}, which does not exist", claim.name, claim.holder))
}

fn refuse(why: String) -> Result<(), JournalError> {
    Err(JournalError::Other(why))
}
