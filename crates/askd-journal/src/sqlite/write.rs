//! Commits and pruning: each one transaction, each all or nothing.

use askd_core::id::StreamId;
use rusqlite::{OptionalExtension as _, params};

use super::error::{At as _, is_certain, is_taken};
use super::read::View;
use crate::contract::{Append, Batch, Claim, CommitError, Committed, JournalError, Position};
use crate::{shape, text};

/// Free pages are kept for the entries to come; only what is more than this many, and more than a quarter of the file,
/// is given back to the disk, so many pages at a time.
const SPARE_PAGES: i64 = 1_024;

/// What may be pruned, oldest first.
pub(super) const OLD: &str = "SELECT stream FROM head WHERE state = 'closed' AND closed_wall_ms < ?1
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
    check(view, batch)?;
    let first = view.last()? + 1;
    let mut next = first;
    for (append, events) in batch.appends.iter().zip(&events) {
        next = write_append(view, append, events, next)?;
    }
    write_claims(view, batch)?;
    transaction.commit()?;
    Ok(Committed { first, last: next - 1 })
}

/// Finds every conflict before anything is written, so that the loser of a race costs no disk access.
fn check(view: &View, batch: &Batch) -> Result<(), CommitError> {
    let mut streams = Vec::new();
    for append in &batch.appends {
        if view.head(&append.stream)?.map_or(0, |(version, _)| version) != append.expected {
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
        return Ok(());
    }
    Err(CommitError::Conflict { streams, claims })
}

/// Writes one append from position `next` on; returns the position after it.
fn write_append(
    view: &View,
    append: &Append,
    events: &[String],
    mut next: Position,
) -> Result<Position, CommitError> {
    let stream = append.stream.to_string();
    let first = next;
    let mut version = append.expected;
    let mut insert = view.statement(
        "INSERT INTO entry(position, stream, version, id, at_wall_ms, at_boot_ms, at_boot, sum, event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for (entry, event) in append.entries.iter().zip(events) {
        version += 1;
        let at = entry.at;
        let inserted = insert.execute(params![
            next.cast_signed(),
            stream,
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
            Err(e) => return Err(super::error::sort(view.path(), &e).into()),
        }
    }
    let began = match append.expected {
        0 => first,
        _ => began(view, &stream)?,
    };
    let head = &append.head;
    let written = view
        .statement(
            "INSERT INTO head(stream, version, began, state, root, due_wall_ms, closed_wall_ms, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT(stream) DO UPDATE SET version = ?2, state = ?4, root = ?5, due_wall_ms = ?6,
                 closed_wall_ms = ?7, sum = ?8
             WHERE version = ?9",
        )?
        .execute(params![
            stream,
            version.cast_signed(),
            began.cast_signed(),
            text::state_name(head.state),
            head.root,
            head.due_wall_ms,
            head.closed_wall_ms,
            text::head_sum(&stream, version, began, head),
            append.expected.cast_signed(),
        ])
        .at(view.path())?;
    if written == 1 { Ok(next) } else { Err(stale(&append.stream)) }
}

fn began(view: &View, stream: &str) -> Result<Position, JournalError> {
    let began = view
        .statement("SELECT began FROM head WHERE stream = ?1")?
        .query_row([stream], |row| row.get(0))
        .optional()
        .at(view.path())?;
    began.map_or(Ok(0), |began| view.count(began))
}

fn stale(stream: &StreamId) -> CommitError {
    CommitError::Conflict { streams: vec![stream.clone()], claims: Vec::new() }
}

fn write_claims(view: &View, batch: &Batch) -> Result<(), JournalError> {
    for Claim { name, holder } in &batch.release {
        view.statement("DELETE FROM claim WHERE name = ?1 AND holder = ?2")?
            .execute([name, &holder.to_string()])
            .at(view.path())?;
    }
    for Claim { name, holder } in &batch.take {
        view.statement("INSERT INTO claim(name, holder) VALUES (?1, ?2) ON CONFLICT(name) DO NOTHING")?
            .execute([name, &holder.to_string()])
            .at(view.path())?;
    }
    Ok(())
}

pub(super) fn prune(view: &View, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let transaction = Transaction::begin(view)?;
    let old: Vec<String> = view
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
    for stream in &old {
        for sql in [
            "DELETE FROM entry WHERE stream = ?1",
            "DELETE FROM claim WHERE holder = ?1",
            "DELETE FROM head WHERE stream = ?1",
        ] {
            view.statement(sql)?.execute([stream]).at(view.path())?;
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
        let sorted = super::error::sort(view.path(), &error);
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
