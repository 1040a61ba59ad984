//! Heads and claims of the newest entries, before the tables have them.
//!
//! What is durable is the entry: it carries the head of its stream from then on, and the claims that changed hands with
//! it. So a commit adds to one table at its end. The tables of heads and claims are an index over the entries, brought up
//! to date in bulk ([`super::index`]); until then what they lack is here, and after a crash it is made from the entries
//! behind the mark `indexed` again. Writer and readers share one [`Recent`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use askd_core::id::{AskId, StreamId};

use super::read::View;
use crate::contract::{Head, HeadState, JournalError, Position, Version};
use crate::text::{After, Also};

/// A head with what the engine knows of its stream besides.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) began: Position,
    pub(super) version: Version,
    /// Position of the newest entry.
    pub(super) last: Position,
    pub(super) head: Head,
    /// Names of the claims that the stream holds.
    pub(super) claims: Vec<String>,
    /// What the table of heads has of it; `None`: nothing yet.
    pub(super) stored: Option<Stored>,
}

/// How a head stands in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) live: bool,
}

impl Row {
    /// A stream that begins at this position.
    pub(super) fn beginning(at: Position, head: &Head) -> Self {
        Self { began: at, version: 0, last: 0, head: head.clone(), claims: Vec::new(), stored: None }
    }

    pub(super) fn is_live(&self) -> bool {
        self.head.state != HeadState::Closed
    }

    pub(super) fn release(&mut self, name: &str) {
        self.claims.retain(|held| held != name);
    }

    pub(super) fn take(&mut self, name: &str) {
        if !self.claims.iter().any(|held| held == name) {
            self.claims.push(name.to_owned());
        }
    }
}

/// So many heads may be ahead of their table, and so many entries behind the mark; with more the next commit writes all
/// into the tables.
const MOST_HEADS: usize = 2_048;
const MOST_ENTRIES: u64 = 8_192;

/// So many names that are free are remembered.
const MOST_FREE: usize = 1_024;

/// What is not in the tables yet.
#[derive(Debug, Default)]
pub(super) struct Recent {
    pub(super) heads: BTreeMap<StreamId, Row>,
    /// `None`: held by nobody any more.
    pub(super) claims: BTreeMap<String, Option<StreamId>>,
    /// The newest position, up to which everything is here or in the tables; `None` while that has to be found out.
    pub(super) known: Option<Position>,
    /// Up to where the tables go.
    pub(super) indexed: Position,
    /// The ask with the highest id in the table. Ids begin with the time, so a new ask is rarely below it, and above it
    /// there is nothing to look for.
    highest: Option<AskId>,
    /// Claims that were looked for in the table and are not there.
    free: BTreeSet<String>,
}

/// Shared by the writer and its readers.
pub(super) type Shared = Arc<Mutex<Recent>>;

/// Everything that a panicking thread left here was put in as a whole.
pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Recent> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a commit changes here once it is durable.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) heads: BTreeMap<StreamId, Row>,
    pub(super) claims: BTreeMap<String, Option<StreamId>>,
}

impl Recent {
    /// Finds out what is not in the tables yet, when that is not known.
    pub(super) fn refresh(&mut self, view: &View) -> Result<Position, JournalError> {
        if let Some(known) = self.known {
            return Ok(known);
        }
        self.heads.clear();
        self.claims.clear();
        let (indexed, last) = view.marks()?;
        if indexed > last {
            return Err(view.corrupt(format!("{indexed} entries are indexed of {last}")));
        }
        self.indexed = indexed;
        self.tables_changed(view)?;
        view.behind(indexed, |entry| self.replay(view, entry))?;
        self.known = Some(last);
        Ok(last)
    }

    /// The newest position; this must have been refreshed.
    pub(super) fn last(&self) -> Position {
        self.known.unwrap_or(0)
    }

    /// So much is ahead of the tables that a start would feel it.
    pub(super) fn is_far_ahead(&self, changes: &Changes, last: Position) -> bool {
        self.heads.len() + changes.heads.len() > MOST_HEADS
            || last.saturating_sub(self.indexed) > MOST_ENTRIES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.claims.is_empty()
    }

    fn replay(&mut self, view: &View, entry: Behind) -> Result<(), JournalError> {
        let Behind { position, began, version, stream, after } = entry;
        let broken = |why: &str| view.corrupt(format!("what is after position {position} {why}"));
        let mut after = After::decode(&after).map_err(|e| broken(&format!("does not read back: {e}")))?;
        let also = std::mem::take(&mut after.also);
        let head = after.head().ok_or_else(|| broken("is a head in no known state"))?;
        let row = match self.row(view, &stream)? {
            Some(row) if row.began != began => return Err(broken("belongs to another stream")),
            Some(row) => row,
            None => Row::beginning(began, &head),
        };
        self.follow(view, stream, Row { version, last: position, head, ..row }, after)?;
        for Also { stream, version, after } in also {
            let stream = view.stream(&stream)?;
            let head = after.head().ok_or_else(|| broken("is a head in no known state"))?;
            match self.row(view, &stream)? {
                Some(row) if row.version == version => {
                    self.follow(view, stream, Row { head, ..row }, after)?;
                }
                _ => return Err(broken("is of a stream at another version")),
            }
        }
        Ok(())
    }

    /// A stream as it was behind an entry.
    fn follow(
        &mut self,
        view: &View,
        stream: StreamId,
        mut row: Row,
        after: After,
    ) -> Result<(), JournalError> {
        for name in after.release {
            row.release(&name);
            if self.holder(view, &name)?.as_ref() == Some(&stream) {
                self.claims.insert(name, None);
            }
        }
        for name in after.take {
            row.take(&name);
            self.claims.insert(name, Some(stream.clone()));
        }
        self.heads.insert(stream, row);
        Ok(())
    }

    /// The head of a stream, from here or from the table.
    pub(super) fn row(&self, view: &View, stream: &StreamId) -> Result<Option<Row>, JournalError> {
        match (self.heads.get(stream), stream) {
            (Some(row), _) => Ok(Some(row.clone())),
            (None, StreamId::Ask(id)) if self.highest.is_none_or(|highest| highest < *id) => Ok(None),
            (None, _) => view.stored_row(stream),
        }
    }

    /// Who holds a claim, from here or from the table.
    pub(super) fn holder(&self, view: &View, name: &str) -> Result<Option<StreamId>, JournalError> {
        match self.claims.get(name) {
            Some(holder) => Ok(holder.clone()),
            None if self.free.contains(name) => Ok(None),
            None => view.stored_holder(name),
        }
    }

    /// The same, and remembers what is not there: whoever looks for a free name takes it next.
    pub(super) fn look_for(&mut self, view: &View, name: &str) -> Result<Option<StreamId>, JournalError> {
        let holder = self.holder(view, name)?;
        if holder.is_none() && self.free.len() < MOST_FREE {
            self.free.insert(name.to_owned());
        }
        Ok(holder)
    }

    /// What was seen in the tables may not hold any more.
    pub(super) fn tables_changed(&mut self, view: &View) -> Result<(), JournalError> {
        self.free.clear();
        self.highest = view.highest_ask()?;
        Ok(())
    }

    /// Takes in what became durable. `indexed`: the tables have everything now.
    pub(super) fn committed(&mut self, changes: Changes, last: Position, indexed: bool) {
        self.known = Some(last);
        if indexed {
            let highest = |stream: &StreamId| match stream {
                StreamId::Ask(id) => Some(*id),
                _ => None,
            };
            let written = self.heads.keys().chain(changes.heads.keys()).filter_map(highest).max();
            self.highest = self.highest.max(written);
            self.indexed = last;
            self.free.clear();
            self.heads.clear();
            self.claims.clear();
        } else {
            self.heads.extend(changes.heads);
            self.claims.extend(changes.claims);
        }
    }
}

/// The last entry of an append behind the mark.
pub(super) struct Behind {
    pub(super) position: Position,
    pub(super) began: Position,
    pub(super) version: Version,
    pub(super) stream: StreamId,
    pub(super) after: String,
}
