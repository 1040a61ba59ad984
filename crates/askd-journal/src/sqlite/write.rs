//! Commits and pruning: each one transaction, each all or nothing.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use rusqlite::{OptionalExtension as _, params};

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
    // Before the transaction begins: a foreign reader of the file waits no longer than necessary.
    let events = batch
        .appends
        .iter()
        .map(|append| append.entries.iter().map(|entry| text::encode(&entry.event)).collect())
        .collect::<Result<Vec<Vec<String>>, _>>()?;
    let transaction = Transaction::begin(view)?;
    let mut began = check(view, batch)?;
    let first = view.last()? + 1;
    let mut next = first;
    for (append, events) in batch.appends.iter().zip(&events) {
        let began = *began.entry(&append.stream).or_insert(next);
        next = write_append(view, append, events, began, next)?;
    }
    write_claims(view, batch, &began)?;
    transaction.commit()?;
    Ok(Committed { first, last: next - 1 })
}

/// Where streams began that this batch has to do with.
type Began<'b> = BTreeMap<&'b StreamId, Position>;

/// Finds every conflict before anything is written, so that the loser of a race costs no disk access. Returns the
/// streams of the appends that are there already.
fn check<'b>(view: &View, batch: &'b Batch) -> Result<Began<'b>, CommitError> {
    let mut known = Began::new();
    let mut streams = Vec::new();
    for append in &batch.appends {
        let found = find(view, &append.stream)?;
        if found.map_or(0, |(_, version)| version) != append.expected {
            streams.push(append.stream.clone());
        }
        known.extend(found.map(|(began, _)| (&append.stream, began)));
    }
    let mut claims = Vec::new();
    for claim in &batch.take {
        // Mostly nobody holds it, so who it is, is asked separately.
        if !view.statement("SELECT 1 FROM claim WHERE name = ?1")?.exists([&claim.name]).at(view.path())? {
            continue;
        }
        let Some(holder) = view.holder(&claim.name)? else { continue };
        let held = Claim { name: claim.name.clone(), holder };
        if held.holder != claim.holder && !batch.release.contains(&held) {
            claims.push(held);
        }
    }
    if streams.is_empty() && claims.is_empty() {
        return Ok(known);
    }
    Err(CommitError::Conflict { streams, claims })
}

/// Where a stream began, and its version.
fn find(view: &View, stream: &StreamId) -> Result<Option<(Position, Version)>, JournalError> {
    let found = view
        .statement("SELECT began, version FROM head WHERE stream = ?1")?
        .query_row([stream.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .at(view.path())?;
    found.map(|(began, version)| Ok((view.count(began)?, view.count(version)?))).transpose()
}

/// Writes one append from position `next` on; returns the position after it.
fn write_append(
    view: &View,
    append: &Append,
    events: &[String],
    began: Position,
    mut next: Position,
) -> Result<Position, CommitError> {
    let stream = append.stream.to_string();
    let mut version = append.expected;
    for (entry, event) in append.entries.iter().zip(events) {
        version += 1;
        let at = entry.at;
        let inserted = view
            .statement(
                "INSERT INTO entry(position, began, version, id, at_wall_ms, at_boot_ms, at_boot, sum, event)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                next.cast_signed(),
                began.cast_signed(),
                version.cast_signed(),
                entry.id.as_bytes().as_slice(),
                at.wall_ms,
                at.boot_ms.cast_signed(),
                at.boot.0.as_bytes().as_slice(),
                text::entry_sum(next, &stream, version, entry.id, at, event),
                event,
            ]);
        match inserted {
            Ok(_) => next += 1,
            Err(e) if is_taken(&e) && view.contains(entry.id)? => {
                return Err(shape::repeated(entry.id).into());
            }
            // The head did not know of this version: the constraint is the second guard of the compare-and-set.
            Err(e) if is_taken(&e) => return Err(stale(&append.stream)),
            Err(e) => return Err(sort(view.path(), &e).into()),
        }
    }
    if write_head(view, append, &stream, began, version)? { Ok(next) } else { Err(stale(&append.stream)) }
}

/// False when the head is not at the expected version.
fn write_head(
    view: &View,
    append: &Append,
    stream: &str,
    began: Position,
    version: Version,
) -> Result<bool, JournalError> {
    let head = &append.head;
    let state = text::state_name(head.state);
    let sum = text::head_sum(stream, version, began, head);
    let (version, began) = (version.cast_signed(), began.cast_signed());
    let written = if append.expected == 0 {
        view.statement(
            "INSERT INTO head(began, stream, version, state, root, due_wall_ms, closed_wall_ms, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            began,
            stream,
            version,
            state,
            head.root,
            head.due_wall_ms,
            head.closed_wall_ms,
            sum
        ])
    } else {
        view.statement(
            "UPDATE head SET version = ?2, state = ?3, root = ?4, due_wall_ms = ?5, closed_wall_ms = ?6, sum = ?7
             WHERE began = ?1 AND version = ?8",
        )?
        .execute(params![
            began,
            version,
            state,
            head.root,
            head.due_wall_ms,
            head.closed_wall_ms,
            sum,
            append.expected.cast_signed()
        ])
    };
    written.map(|rows| rows == 1).at(view.path())
}

fn stale(stream: &StreamId) -> CommitError {
    CommitError::Conflict { streams: vec![stream.clone()], claims: Vec::new() }
}

fn write_claims(view: &View, batch: &Batch, known: &Began<'_>) -> Result<(), JournalError> {
    let began = |holder| match known.get(holder) {
        Some(began) => Ok(Some(*began)),
        None => Ok(find(view, holder)?.map(|(began, _)| began)),
    };
    for claim in &batch.release {
        let Some(began) = began(&claim.holder)? else { continue };
        view.statement("DELETE FROM claim WHERE name = ?1 AND began = ?2")?
            .execute(params![claim.name, began.cast_signed()])
            .at(view.path())?;
    }
    for claim in &batch.take {
        let Some(began) = began(&claim.holder)? else { return Err(shape::orphaned(claim)) };
        view.statement("INSERT INTO claim(name, began) VALUES (?1, ?2) ON CONFLICT(name) DO NOTHING")?
            .execute(params![claim.name, began.cast_signed()])
            .at(view.path())?;
    }
    Ok(())
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
