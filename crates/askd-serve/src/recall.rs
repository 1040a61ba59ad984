//! An ask that only the journal still has.

use askd_core::id::StreamId;
use askd_core::{AskId, Now, Settings, State};
use askd_journal::{JournalError, Reader};

use crate::view::Shot;

/// An ask read back from its stream; `None` when the journal does not know it.
pub fn recall(reader: &(impl Reader + ?Sized), id: AskId, now: Now) -> Result<Option<Shot>, JournalError> {
    let stream = StreamId::Ask(id);
    let entries = reader.read(&stream)?;
    let mut scratch = State::new(Settings::default());
    scratch.load(&stream, entries.iter().map(|e| (&e.entry.event, e.entry.at)), true, now);
    Ok(scratch.ask(id).map(|ask| Shot { root: ask.ask.lineage.root.clone(), ask: ask.clone() }))
}
