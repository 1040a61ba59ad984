//! Commits and pruning: each one transaction, each all or nothing.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use rusqlite::{CachedStatement, OptionalExtension as _, params};

use super::error::{At as _, is_certain, is_taken, sort};
use super::read::View;
use crate::contract::{Append, Batch, Claim, CommitError, Committed, JournalError, Position, Version};
use crate::{shape, text};

/// Free pages are kept for the entries to come; only what is more than this many, and more than a quarter of the file,
/// is given back to the disk, so many pages at a time.
const SPARE_PAGES: i64 = 1_024;

/// What may be pruned, oldest first.
pub(super) const OLD: &str = "SELECT began FROM head WHERE state = 'closed' AND closed_wall_ms < ?1
    ORDER BY closed_wall_ms, began LIMIT ?2";

pub(super) fn commit(view: &View, batch: &Batch) -> Result<Committed, CommitError> {
    shape::check(batch)?;
    // Before the transaction begins, which is to be short.
    let events = batch
        .appends
        .iter()
        .map(|append| append.entries.iter().map(|entry| text::encode(&entry.event)).collect())
        .collect::<Result<Vec<Vec<String>>, _>>()?;
    let transaction = Transaction::begin(view)?;
    match Writer::new(view)?.write(batch, &events) {
        Ok(committed) => {
            transaction.commit()?;
            Ok(committed)
        }
        Err(Stop::Stale) => {
            // Rolled back, so that the conflicts are looked for in what is committed.
            drop(transaction);
            let _again = Transaction::begin(view)?;
            Err(conflicts(view, batch)?)
        }
        Err(Stop::Failed(e)) => Err(e.into()),
    }
}

/// Every stream and claim in which the batch does not fit to what is committed.
fn conflicts(view: &View, batch: &Batch) -> Result<CommitError, JournalError> {
    let mut find = view.statement(FIND)?;
    let mut streams = Vec::new();
    for append in &batch.appends {
        if found(view, &mut find, &append.stream)?.map_or(0, |(_, version)| version) != append.expected {
            streams.push(append.stream.clone());
        }
    }
    let mut claims = Vec::new();
    for claim in &batch.take {
        let Some(holder) = view.holder(&claim.name)? else { continue };
        let held = Claim { name: claim.name.clone(), holder };
        if held.holder != claim.holder && !batch.release.contains(&held) {
            claims.push(held);
        }
    }
    if streams.is_empty() && claims.is_empty() {
        return Err(view.corrupt("its rows contradict each other".to_owned()));
    }
    Ok(CommitError::Conflict { streams, claims })
}

const FIND: &str = "SELECT began, version FROM head WHERE stream = ?1";
const INSERT_ENTRY: &str =
    "INSERT INTO entry(position, began, version, id, at_wall_ms, at_boot_ms, at_boot, sum, event)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const INSERT_HEAD: &str =
    "INSERT INTO head(began, stream, version, state, root, due_wall_ms, closed_wall_ms, sum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
const UPDATE_HEAD: &str =
    "UPDATE head SET version = ?2, state = ?3, root = ?4, due_wall_ms = ?5, closed_wall_ms = ?6, sum = ?7
    WHERE began = ?1 AND version = ?8";
const RELEASE: &str = "DELETE FROM claim WHERE name = ?1 AND began = ?2";
const TAKE: &str = "INSERT INTO claim(name, began) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const HOLDS: &str = "SELECT 1 FROM claim WHERE name = ?1 AND began = ?2";

/// Why writing stopped; what was written before is rolled back.
enum Stop {
    /// Somebody else wrote first.
    Stale,
    Failed(JournalError),
}

impl From<JournalError> for Stop {
    fn from(e: JournalError) -> Self {
        Self::Failed(e)
    }
}

/// Where a stream began, and its version.
fn found(
    view: &View,
    find: &mut CachedStatement<'_>,
    stream: &StreamId,
) -> Result<Option<(Position, Version)>, JournalError> {
    let row = find
        .query_row([stream.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .at(view.path())?;
    row.map(|(began, version)| Ok((view.count(began)?, view.count(version)?))).transpose()
}

/// Writes a batch into the open transaction, and looks for conflicts where it meets them.
struct Writer<'v> {
    view: &'v View,
    find: CachedStatement<'v>,
    insert_entry: CachedStatement<'v>,
    insert_head: CachedStatement<'v>,
    update_head: CachedStatement<'v>,
    /// Where the streams of the batch began.
    began: BTreeMap<StreamId, Position>,
    next: Position,
}

impl<'v> Writer<'v> {
    fn new(view: &'v View) -> Result<Self, JournalError> {
        Ok(Self {
            view,
            find: view.statement(FIND)?,
            insert_entry: view.statement(INSERT_ENTRY)?,
            insert_head: view.statement(INSERT_HEAD)?,
            update_head: view.statement(UPDATE_HEAD)?,
            began: BTreeMap::new(),
            next: view.last()? + 1,
        })
    }

    fn write(mut self, batch: &Batch, events: &[Vec<String>]) -> Result<Committed, Stop> {
        let first = self.next;
        for (append, events) in batch.appends.iter().zip(events) {
            self.append(append, events)?;
        }
        self.claims(batch)?;
        Ok(Committed { first, last: self.next - 1 })
    }

    fn append(&mut self, append: &Append, events: &[String]) -> Result<(), Stop> {
        let stream = append.stream.to_string();
        let began = match append.expected {
            0 => self.next,
            expected => match found(self.view, &mut self.find, &append.stream)? {
                Some((began, version)) if version == expected => began,
                _ => return Err(Stop::Stale),
            },
        };
        // The head comes first: a stale writer meets it before it has written anything.
        if !self.head(append, &stream, began).at(self.view.path())? {
            return Err(Stop::Stale);
        }
        self.began.insert(append.stream.clone(), began);
        for ((entry, event), version) in append.entries.iter().zip(events).zip(append.expected + 1..) {
            let at = entry.at;
            let inserted = self.insert_entry.execute(params![
                self.next.cast_signed(),
                began.cast_signed(),
                version.cast_signed(),
                entry.id.as_bytes().as_slice(),
                at.wall_ms,
                at.boot_ms.cast_signed(),
                at.boot.0.as_bytes().as_slice(),
                text::entry_sum(self.next, &stream, version, entry.id, at, event),
                event,
            ]);
            match inserted {
                Ok(_) => self.next += 1,
                Err(e) if is_taken(&e) && self.view.contains(entry.id)? => {
                    return Err(shape::repeated(entry.id).into());
                }
                // The head did not know of this version: the constraint is the second guard of the compare-and-set.
                Err(e) if is_taken(&e) => return Err(Stop::Stale),
                Err(e) => return Err(sort(self.view.path(), &e).into()),
            }
        }
        Ok(())
    }

    /// False when the head is not at the expected version.
    fn head(&mut self, append: &Append, stream: &str, began: Position) -> rusqlite::Result<bool> {
        let head = &append.head;
        let state = text::state_name(head.state);
        let version = append.expected + append.entries.len() as u64;
        let sum = text::head_sum(stream, version, began, head);
        let (began, version) = (began.cast_signed(), version.cast_signed());
        let (root, due, closed) = (&head.root, head.due_wall_ms, head.closed_wall_ms);
        let written = if append.expected == 0 {
            self.insert_head.execute(params![began, stream, version, state, root, due, closed, sum])
        } else {
            let expected = append.expected.cast_signed();
            self.update_head.execute(params![began, version, state, root, due, closed, sum, expected])
        };
        written.map(|rows| rows == 1)
    }

    fn claims(&mut self, batch: &Batch) -> Result<(), Stop> {
        let path = self.view.path();
        for claim in &batch.release {
            let Some(began) = self.holder(&claim.holder)? else { continue };
            self.view.statement(RELEASE)?.execute(params![claim.name, began]).at(path)?;
        }
        let mut orphaned = None;
        for claim in &batch.take {
            let began = self.holder(&claim.holder)?;
            let taken =
                self.view.statement(TAKE)?.execute(params![claim.name, began.unwrap_or(0)]).at(path)?;
            if taken == 0 && !self.view.statement(HOLDS)?.exists(params![claim.name, began]).at(path)? {
                return Err(Stop::Stale);
            }
            if began.is_none() {
                orphaned = orphaned.or(Some(claim));
            }
        }
        // Said last, because a conflict explains more.
        orphaned.map_or(Ok(()), |claim| Err(shape::orphaned(claim).into()))
    }

    /// Where a holder of claims began.
    fn holder(&mut self, stream: &StreamId) -> Result<Option<i64>, JournalError> {
        let began = match self.began.get(stream) {
            Some(began) => Some(*began),
            None => found(self.view, &mut self.find, stream)?.map(|(began, _)| began),
        };
        Ok(began.map(u64::cast_signed))
    }
}

pub(super) fn prune(view: &View, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let transaction = Transaction::begin(view)?;
    let old: Vec<i64> = view
        .statement(OLD)?
        .query_map([closed_before_wall_ms, limit], |row| row.get(0))
        .and_then(Iterator::collect)
        .at(view.path())?;
    if old.is_empty() {
        return Ok(0);
    }
    let last = view.last()?;
    view.statement("UPDATE mark SET position = ?1 WHERE name = 'pruned'")?
        .execute([last.cast_signed()])
        .at(view.path())?;
    for began in &old {
        for sql in [
            "DELETE FROM entry WHERE began = ?1",
            "DELETE FROM claim WHERE began = ?1",
            "DELETE FROM head WHERE began = ?1",
        ] {
            view.statement(sql)?.execute([began]).at(view.path())?;
        }
    }
    transaction.commit().map_err(|e| match e {
        CommitError::Failed(e) => e,
        // Pruning again does no harm, so whether it happened need not be known.
        other => JournalError::Other(other.to_string()),
    })?;
    give_back(view)?;
    Ok(old.len())
}

/// Shrinks the file when far more of it is free than the coming entries will need.
fn give_back(view: &View) -> Result<(), JournalError> {
    let number = |pragma: &str| {
        view.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).at(view.path())
    };
    if number("freelist_count")? <= SPARE_PAGES.max(number("page_count")? / 4) {
        return Ok(());
    }
    // A row comes per page, and the work is done by asking for it.
    let mut statement = view.statement(&format!("PRAGMA incremental_vacuum({SPARE_PAGES})"))?;
    let mut rows = statement.query([]).at(view.path())?;
    while rows.next().at(view.path())?.is_some() {}
    Ok(())
}

/// An open write transaction; rolled back when it is dropped before it was committed.
struct Transaction<'v> {
    view: &'v View,
}

impl<'v> Transaction<'v> {
    fn begin(view: &'v View) -> Result<Self, JournalError> {
        view.statement("BEGIN IMMEDIATE")?.execute([]).at(view.path())?;
        Ok(Self { view })
    }

    fn commit(self) -> Result<(), CommitError> {
        let view = self.view;
        let Err(error) = view.statement("COMMIT")?.execute([]) else { return Ok(()) };
        drop(self);
        let sorted = sort(view.path(), &error);
        // The log may hold the whole batch although its sync failed, and a restart would then find it. Emptying the log
        // settles that: after it, what is not in the file is nowhere.
        if is_certain(&error) || view.empty_log().is_ok_and(|emptied| emptied) {
            return Err(CommitError::Failed(sorted));
        }
        Err(CommitError::Unknown(sorted.to_string()))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // Some errors roll back by themselves, and then there is nothing left to do.
        if !self.view.connection.is_autocommit() {
            let _ = self.view.connection.execute_batch("ROLLBACK");
        }
    }
}
