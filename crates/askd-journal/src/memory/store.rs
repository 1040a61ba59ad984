//! The committed data of the in-memory engine. Events are kept as the text that a disk would hold, so that an event
//! that does not survive being written shows itself here too.

use std::collections::BTreeMap;

use askd_core::id::{AskId, StreamId};
use askd_core::time::Stamp;
use uuid::Uuid;

use crate::contract::{
    Batch, Claim, CommitError, Committed, Entry, Head, HeadState, JournalError, Position, Positioned, Version,
};
use crate::{shape, text};

#[derive(Debug, Default)]
pub(super) struct Store {
    last: Position,
    entries: BTreeMap<Position, Row>,
    streams: BTreeMap<StreamId, Stream>,
    claims: BTreeMap<String, StreamId>,
}

#[derive(Debug)]
struct Row {
    stream: StreamId,
    version: Version,
    id: Uuid,
    at: Stamp,
    event: String,
}

#[derive(Debug)]
struct Stream {
    /// Positions of its entries; their number is its version.
    positions: Vec<Position>,
    head: Head,
}

impl Stream {
    fn version(&self) -> Version {
        self.positions.len() as Version
    }

    fn began(&self) -> Position {
        self.positions.first().copied().unwrap_or(0)
    }
}

impl Store {
    pub(super) fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError> {
        let streams: Vec<StreamId> = batch
            .appends
            .iter()
            .filter(|a| self.streams.get(&a.stream).map_or(0, Stream::version) != a.expected)
            .map(|a| a.stream.clone())
            .collect();
        let claims = self.contested(batch);
        if !streams.is_empty() || !claims.is_empty() {
            return Err(CommitError::Conflict { streams, claims });
        }
        let mut events = Vec::new();
        for entry in batch.appends.iter().flat_map(|a| &a.entries) {
            events.push(text::encode(&entry.event)?);
        }
        let begins = |stream: &StreamId| batch.appends.iter().any(|append| append.stream == *stream);
        if let Some(claim) = batch
            .take
            .iter()
            .find(|claim| !self.streams.contains_key(&claim.holder) && !begins(&claim.holder))
        {
            return Err(shape::orphaned(claim).into());
        }
        // Nothing below can fail.
        let first = self.last + 1;
        let mut events = events.into_iter();
        for append in &batch.appends {
            let mut positions =
                self.streams.remove(&append.stream).map_or_else(Vec::new, |stream| stream.positions);
            for (entry, event) in append.entries.iter().zip(events.by_ref()) {
                self.last += 1;
                positions.push(self.last);
                let (id, at) = (entry.id, entry.at);
                let version = positions.len() as Version;
                self.entries.insert(self.last, Row { stream: append.stream.clone(), version, id, at, event });
            }
            self.streams.insert(append.stream.clone(), Stream { positions, head: append.head.clone() });
        }
        for claim in &batch.release {
            if self.claims.get(&claim.name) == Some(&claim.holder) {
                self.claims.remove(&claim.name);
            }
        }
        for claim in &batch.take {
            self.claims.insert(claim.name.clone(), claim.holder.clone());
        }
        Ok(Committed { first, last: self.last })
    }

    /// Claims of the batch that another stream holds and that the batch does not release first.
    fn contested(&self, batch: &Batch) -> Vec<Claim> {
        batch
            .take
            .iter()
            .filter_map(|claim| {
                let holder = self.claims.get(&claim.name)?;
                let held = Claim { name: claim.name.clone(), holder: holder.clone() };
                (*holder != claim.holder && !batch.release.contains(&held)).then_some(held)
            })
            .collect()
    }

    pub(super) fn prune(&mut self, closed_before_wall_ms: i64, limit: usize) -> usize {
        let mut old: Vec<(i64, Position, StreamId)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.head.state == HeadState::Closed)
            .filter_map(|(id, stream)| Some((stream.head.closed_wall_ms?, stream.began(), id.clone())))
            .filter(|(closed, _, _)| *closed < closed_before_wall_ms)
            .collect();
        old.sort();
        old.truncate(limit);
        for (_, _, id) in &old {
            for position in self.streams.remove(id).map(|stream| stream.positions).unwrap_or_default() {
                self.entries.remove(&position);
            }
            self.claims.retain(|_, holder| holder != id);
        }
        old.len()
    }

    pub(super) fn head(&self, stream: &StreamId) -> Option<(Version, Head)> {
        self.streams.get(stream).map(|s| (s.version(), s.head.clone()))
    }

    pub(super) fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        let positions = self.streams.get(stream).map(|s| s.positions.as_slice()).unwrap_or_default();
        positions.iter().filter_map(|at| Some((*at, self.entries.get(at)?))).map(positioned).collect()
    }

    pub(super) fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
        let from = after.saturating_add(1);
        self.entries.range(from..).take(limit).map(|(at, row)| positioned((*at, row))).collect()
    }

    pub(super) fn last(&self) -> Position {
        self.last
    }

    pub(super) fn open_heads(&self) -> Vec<(StreamId, Version, Head)> {
        let mut open: Vec<(&StreamId, &Stream)> =
            self.streams.iter().filter(|(_, s)| s.head.state != HeadState::Closed).collect();
        open.sort_by_key(|(_, stream)| stream.began());
        open.into_iter().map(|(id, s)| (id.clone(), s.version(), s.head.clone())).collect()
    }

    pub(super) fn holder(&self, claim: &str) -> Option<StreamId> {
        self.claims.get(claim).cloned()
    }

    pub(super) fn due(&self, wall_ms: i64, limit: usize) -> Vec<AskId> {
        let mut due: Vec<(i64, Position, AskId)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.head.state != HeadState::Closed)
            .filter_map(|(id, stream)| match id {
                StreamId::Ask(ask) => Some((stream.head.due_wall_ms?, stream.began(), *ask)),
                _ => None,
            })
            .filter(|(due, _, _)| *due <= wall_ms)
            .collect();
        due.sort();
        due.into_iter().take(limit).map(|(_, _, ask)| ask).collect()
    }

    pub(super) fn contains(&self, stream: &StreamId, entry: Uuid) -> bool {
        let positions = self.streams.get(stream).map(|s| s.positions.as_slice()).unwrap_or_default();
        positions.iter().any(|at| self.entries.get(at).is_some_and(|row| row.id == entry))
    }
}

fn positioned((position, row): (Position, &Row)) -> Result<Positioned, JournalError> {
    let event = text::decode(&row.event).map_err(|e| JournalError::Corrupt {
        path: "memory".to_owned(),
        detail: format!("the entry at {position} does not read back: {e}"),
    })?;
    let entry = Entry { id: row.id, at: row.at, event };
    Ok(Positioned { position, stream: row.stream.clone(), version: row.version, entry })
}
