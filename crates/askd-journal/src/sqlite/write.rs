//! Commits: each one transaction, all or nothing, and as a rule nothing but entries at the end of their table.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use rusqlite::params;

use super::error::{At as _, is_certain, is_taken, sort};
use super::index;
use super::read::View;
use super::recent::{Changes, Recent, Row, lock};
use crate::contract::{Batch, Claim, CommitError, Committed, JournalError, Position};
use crate::text::{After, Also};
use crate::{shape, text};

pub(super) fn commit(view: &View, batch: &Batch) -> Result<Committed, CommitError> {
    shape::check(batch)?;
    // Before the transaction begins, which is to be short.
    let events = batch
        .appends
        .iter()
        .map(|append| append.entries.iter().map(|entry| text::encode(&entry.event)).collect())
        .collect::<Result<Vec<Vec<String>>, _>>()?;
    let mut attempted = attempt(view, batch, &events, true);
    if matches!(attempted, Err(Stop::Failed(JournalError::Full { .. }))) {
        // The entries may have a place where the tables that follow them have none.
        attempted = attempt(view, batch, &events, false);
    }
    match attempted {
        Ok(committed) => Ok(committed),
        Err(Stop::Stale) => {
            // Rolled back, so that the conflicts are looked for in what is committed.
            let _again = Transaction::begin(view)?;
            Err(conflicts(view, batch)?)
        }
        Err(Stop::Failed(e)) => Err(e.into()),
        Err(Stop::Unknown(why)) => Err(CommitError::Unknown(why)),
    }
}

/// Everything that the batch does, or nothing. `index`: the tables may be brought up to date with it when that is due.
fn attempt(view: &View, batch: &Batch, events: &[Vec<String>], index: bool) -> Result<Committed, Stop> {
    let transaction = Transaction::begin(view)?;
    let mut plan = Plan::of(view, batch)?;
    let last = plan.write(view, batch, events)?;
    let indexed = plan.needs_index || index && plan.is_far_ahead;
    if indexed {
        index::write(view, &*view.recent()?, &plan.changes, last)?;
    }
    transaction.commit().inspect_err(|_| lock(&view.recent).known = None)?;
    lock(&view.recent).committed(plan.changes, last, indexed);
    Ok(Committed { first: plan.first, last })
}

/// Every stream and claim in which the batch does not fit to what is committed.
fn conflicts(view: &View, batch: &Batch) -> Result<CommitError, JournalError> {
    let recent = view.recent()?;
    let mut streams = Vec::new();
    for append in &batch.appends {
        if recent.row(view, &append.stream)?.map_or(0, |row| row.version) != append.expected {
            streams.push(append.stream.clone());
        }
    }
    let mut claims = Vec::new();
    for claim in &batch.take {
        let Some(holder) = recent.holder(view, &claim.name)? else { continue };
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

const INSERT_ENTRY: &str =
    "INSERT INTO entry(position, began, version, previous, id, at_wall_ms, at_boot_ms, at_boot,
    sum, stream, after, event) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

/// Why writing stopped; what was written before is rolled back.
enum Stop {
    /// Somebody else wrote first.
    Stale,
    Failed(JournalError),
    /// It may have been written.
    Unknown(String),
}

impl From<JournalError> for Stop {
    fn from(e: JournalError) -> Self {
        Self::Failed(e)
    }
}

impl From<CommitError> for Stop {
    fn from(e: CommitError) -> Self {
        match e {
            CommitError::Conflict { .. } => Self::Stale,
            CommitError::Failed(e) => Self::Failed(e),
            CommitError::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// What a batch does with the claims of one stream.
#[derive(Default)]
struct Changed<'b> {
    release: Vec<&'b str>,
    take: Vec<&'b str>,
}

fn changed(batch: &Batch) -> BTreeMap<&StreamId, Changed<'_>> {
    let mut all: BTreeMap<&StreamId, Changed<'_>> = BTreeMap::new();
    for claim in &batch.release {
        all.entry(&claim.holder).or_default().release.push(&claim.name);
    }
    for claim in &batch.take {
        all.entry(&claim.holder).or_default().take.push(&claim.name);
    }
    all
}

fn also(stream: &StreamId, row: &Row, claims: &Changed<'_>) -> Also {
    let after = After::new(&row.head, &claims.take, &claims.release);
    Also { stream: stream.to_string(), version: row.version, after }
}

/// What a batch comes to, and where it meets what is committed.
struct Plan<'b> {
    first: Position,
    changes: Changes,
    /// Claims that change with each append, in the batch's order.
    changed: Vec<Changed<'b>>,
    /// Positions of the newest entries that the streams of the appends had.
    before: Vec<Option<Position>>,
    /// Streams that change without an entry of their own; the batch's last entry tells of them.
    also: Vec<Also>,
    /// There is no entry to tell of them, so the tables must.
    needs_index: bool,
    is_far_ahead: bool,
}

impl<'b> Plan<'b> {
    fn of(view: &View, batch: &'b Batch) -> Result<Self, Stop> {
        let recent = view.recent()?;
        let first = recent.last() + 1;
        let mut changed = changed(batch);
        let mut plan = Self {
            first,
            changes: Changes::default(),
            changed: Vec::with_capacity(batch.appends.len()),
            before: Vec::with_capacity(batch.appends.len()),
            also: Vec::new(),
            needs_index: batch.appends.iter().all(|append| append.entries.is_empty()),
            is_far_ahead: false,
        };
        let mut next = first;
        for append in &batch.appends {
            let found = recent.row(view, &append.stream)?;
            if found.as_ref().map_or(0, |row| row.version) != append.expected {
                return Err(Stop::Stale);
            }
            plan.before.push(found.as_ref().map(|row| row.last));
            let mut row = found.unwrap_or_else(|| Row::beginning(next, &append.head));
            let count = append.entries.len() as u64;
            let claims = changed.remove(&append.stream).unwrap_or_default();
            claims.release.iter().for_each(|name| row.release(name));
            claims.take.iter().for_each(|name| row.take(name));
            next += count;
            row.version += count;
            row.head = append.head.clone();
            if count == 0 {
                plan.also.push(also(&append.stream, &row, &claims));
            } else {
                row.last = next - 1;
            }
            plan.changed.push(claims);
            plan.changes.heads.insert(append.stream.clone(), row);
        }
        // Streams of which nothing else changes.
        for (stream, claims) in changed {
            let Some(mut row) = recent.row(view, stream)? else { continue };
            claims.release.iter().for_each(|name| row.release(name));
            claims.take.iter().for_each(|name| row.take(name));
            plan.also.push(also(stream, &row, &claims));
            plan.changes.heads.insert(stream.clone(), row);
        }
        plan.claims(view, &recent, batch)?;
        plan.is_far_ahead = recent.is_far_ahead(&plan.changes, next - 1);
        Ok(plan)
    }

    fn claims(&mut self, view: &View, recent: &Recent, batch: &Batch) -> Result<(), Stop> {
        for claim in &batch.release {
            if recent.holder(view, &claim.name)?.as_ref() == Some(&claim.holder) {
                self.changes.claims.insert(claim.name.clone(), None);
            }
        }
        let mut orphaned = None;
        for claim in &batch.take {
            let holder = match self.changes.claims.get(&claim.name) {
                Some(holder) => holder.clone(),
                None => recent.holder(view, &claim.name)?,
            };
            match holder {
                Some(holder) if holder != claim.holder => return Err(Stop::Stale),
                Some(_) => {}
                None => {
                    self.changes.claims.insert(claim.name.clone(), Some(claim.holder.clone()));
                }
            }
            if !self.changes.heads.contains_key(&claim.holder) {
                orphaned = orphaned.or(Some(claim));
            }
        }
        // Said last, because a conflict explains more.
        orphaned.map_or(Ok(()), |claim| Err(shape::orphaned(claim).into()))
    }

    /// Writes the entries; returns the newest position.
    fn write(&mut self, view: &View, batch: &Batch, events: &[Vec<String>]) -> Result<Position, Stop> {
        let newest = self.first + events.iter().map(Vec::len).sum::<usize>() as u64 - 1;
        let mut also = std::mem::take(&mut self.also);
        let mut insert = view.statement(INSERT_ENTRY)?;
        let mut next = self.first;
        let planned = self.changed.iter().zip(&self.before);
        for ((append, events), (changed, before)) in batch.appends.iter().zip(events).zip(planned) {
            let stream = append.stream.to_string();
            let mut after = After::new(&append.head, &changed.take, &changed.release);
            if next + append.entries.len() as u64 > newest {
                after.also = std::mem::take(&mut also);
            }
            let after = after.encode()?;
            let began = self.changes.heads.get(&append.stream).map_or(next, |row| row.began);
            let mut previous = *before;
            for ((entry, event), version) in append.entries.iter().zip(events).zip(append.expected + 1..) {
                let at = entry.at;
                let is_last = version == append.expected + append.entries.len() as u64;
                let after = is_last.then_some(after.as_str());
                let inserted = insert.execute(params![
                    next.cast_signed(),
                    began.cast_signed(),
                    version.cast_signed(),
                    previous.map(u64::cast_signed),
                    entry.id.as_bytes().as_slice(),
                    at.wall_ms,
                    at.boot_ms.cast_signed(),
                    at.boot.0.as_bytes().as_slice(),
                    text::entry_sum(next, &stream, version, entry.id, at, event, after),
                    stream,
                    after,
                    event,
                ]);
                match inserted {
                    Ok(_) => {
                        previous = Some(next);
                        next += 1;
                    }
                    // Somebody else took this position, and what is known here is old.
                    Err(e) if is_taken(&e) => {
                        lock(&view.recent).known = None;
                        return Err(Stop::Stale);
                    }
                    Err(e) => return Err(sort(view.path(), &e).into()),
                }
            }
        }
        Ok(next - 1)
    }
}

/// Brings the tables of heads and claims up to date by itself.
pub(super) fn index_all(view: &View) -> Result<(), JournalError> {
    if view.recent()?.is_empty() {
        return Ok(());
    }
    let transaction = Transaction::begin(view)?;
    // Held until the tables have it: whoever reads now sees it here or there, and whole.
    let mut recent = view.recent()?;
    let last = recent.refresh(view)?;
    index::write(view, &recent, &Changes::default(), last)?;
    transaction.commit().map_err(failed)?;
    recent.committed(Changes::default(), last, true);
    Ok(())
}

/// With less room than this in bytes a disk that was full counts as full still.
const LEAST_ROOM: u64 = 1 << 20;

/// A page is changed and changed back: SQLite writes nothing for a value that stays the same.
fn write_nothing_new(view: &View) -> Result<(), JournalError> {
    let transaction = Transaction::begin(view)?;
    for change in ["+", "-"] {
        let change = format!("UPDATE mark SET position = position {change} 1 WHERE name = 'pruned'");
        view.statement(&change)?.execute([]).at(view.path())?;
    }
    transaction.commit().map_err(failed)
}

/// A commit that failed may have left its pages in the log, behind what is known to be in it, where a start would find
/// them. With the log emptied they are gone; the next commit that succeeds takes their place, and what of them is longer
/// than it does not fit to it.
pub(super) fn settle(view: &View) -> Result<(), JournalError> {
    if matches!(view.empty_log(), Ok(true)) {
        return Ok(());
    }
    write_nothing_new(view)
}

pub(super) fn try_writing(view: &View) -> Result<(), JournalError> {
    write_nothing_new(view)?;
    // A single page may find a place in the log where a whole commit does not.
    match rustix::fs::statvfs(view.path()) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_ROOM => {
            Err(JournalError::Full { path: view.path().display().to_string() })
        }
        _ => Ok(()),
    }
}

/// An error of a commit that can be done again without harm, so that whether it happened need not be known.
pub(super) fn failed(error: CommitError) -> JournalError {
    match error {
        CommitError::Failed(e) => e,
        other => JournalError::Other(other.to_string()),
    }
}

/// An open write transaction; rolled back when it is dropped before it was committed.
pub(super) struct Transaction<'v> {
    view: &'v View,
}

impl<'v> Transaction<'v> {
    pub(super) fn begin(view: &'v View) -> Result<Self, JournalError> {
        view.statement("BEGIN IMMEDIATE")?.execute([]).at(view.path())?;
        Ok(Self { view })
    }

    pub(super) fn commit(self) -> Result<(), CommitError> {
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
