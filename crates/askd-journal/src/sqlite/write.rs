//! Commits and pruning: each one transaction, each all or nothing.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use rusqlite::{CachedStatement, OptionalExtension as _, params};

use super::error::{At as _, is_certain, is_taken, sort};
use super::read::View;
use crate::contract::{
    Append, Batch, Claim, CommitError, Committed, HeadState, JournalError, Position, Version,
};
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
        if found(view, &mut find, &append.stream)?.map_or(0, |found| found.version) != append.expected {
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

const FIND: &str = "SELECT began, version, live, last, claims FROM head WHERE stream = ?1";
const INSERT_ENTRY: &str =
    "INSERT INTO entry(position, began, version, previous, id, at_wall_ms, at_boot_ms, at_boot, sum, event)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const INSERT_HEAD: &str =
    "INSERT INTO head(began, stream, version, state, root, due_wall_ms, closed_wall_ms, sum, last, claims,
    live) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING";
const UPDATE_HEAD: &str =
    "UPDATE head SET version = ?2, state = ?3, root = ?4, due_wall_ms = ?5, closed_wall_ms = ?6, sum = ?7, last = ?8,
    claims = ?9 WHERE began = ?1 AND version = ?10";
/// For heads that are closed by it, or live again. Setting a column writes its indices, also where nothing changes.
const UPDATE_LIVE: &str = "UPDATE head SET live = ?2 WHERE began = ?1";
const UPDATE_CLAIMS: &str = "UPDATE head SET claims = ?2 WHERE began = ?1";
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

/// What a head says of its stream besides what the contract has.
struct Found {
    began: Position,
    version: Version,
    live: Option<i64>,
    /// Position of the newest entry.
    last: Position,
    /// Names of the claims that it holds.
    claims: Vec<String>,
}

fn found(
    view: &View,
    find: &mut CachedStatement<'_>,
    stream: &StreamId,
) -> Result<Option<Found>, JournalError> {
    let path = view.path();
    let mut rows = find.query([stream.to_string()]).at(path)?;
    let Some(row) = rows.next().at(path)? else { return Ok(None) };
    let number = |column: usize| view.count(row.get(column).at(path)?);
    let claims: Option<String> = row.get(4).at(path)?;
    Ok(Some(Found {
        began: number(0)?,
        version: number(1)?,
        live: row.get(2).at(path)?,
        last: number(3)?,
        claims: names(view, claims.as_deref())?,
    }))
}

/// Names of claims out of a head.
fn names(view: &View, text: Option<&str>) -> Result<Vec<String>, JournalError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    serde_json::from_str(text)
        .map_err(|e| view.corrupt(format!("the claims in a head do not read back: {e}")))
}

/// The same for a head; `None`: none.
fn written(names: &[String]) -> Result<Option<String>, JournalError> {
    let text = (!names.is_empty()).then(|| serde_json::to_string(names)).transpose();
    text.map_err(|e| JournalError::Other(format!("claims cannot be written: {e}")))
}

/// What a batch does with the claims of one stream.
#[derive(Default)]
struct Changed<'b> {
    release: Vec<&'b str>,
    take: Vec<&'b str>,
}

impl Changed<'_> {
    /// The names that the stream holds afterwards.
    fn apply(&self, names: &mut Vec<String>) {
        names.retain(|name| !self.release.contains(&name.as_str()));
        for name in &self.take {
            if !names.iter().any(|held| held == name) {
                names.push((*name).to_owned());
            }
        }
    }
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
        let mut changed = changed(batch);
        for (append, events) in batch.appends.iter().zip(events) {
            self.append(append, events, changed.remove(&append.stream).unwrap_or_default())?;
        }
        self.claims(batch)?;
        // Streams that change nothing else.
        for (stream, changed) in changed {
            let Some(mut head) = found(self.view, &mut self.find, stream)? else { continue };
            changed.apply(&mut head.claims);
            let (began, claims) = (head.began.cast_signed(), written(&head.claims)?);
            self.view.statement(UPDATE_CLAIMS)?.execute(params![began, claims]).at(self.view.path())?;
        }
        Ok(Committed { first, last: self.next - 1 })
    }

    fn append(&mut self, append: &Append, events: &[String], changed: Changed<'_>) -> Result<(), Stop> {
        let stream = append.stream.to_string();
        let mut before = match append.expected {
            0 => Found { began: self.next, version: 0, live: None, last: 0, claims: Vec::new() },
            expected => match found(self.view, &mut self.find, &append.stream)? {
                Some(found) if found.version == expected => found,
                _ => return Err(Stop::Stale),
            },
        };
        changed.apply(&mut before.claims);
        let claims = written(&before.claims)?;
        // The head comes first: a stale writer meets it before it has written anything.
        if !self.head(append, &stream, &before, claims.as_deref()).at(self.view.path())? {
            return Err(Stop::Stale);
        }
        let began = before.began;
        let mut previous = (append.expected > 0).then_some(before.last);
        self.began.insert(append.stream.clone(), began);
        for ((entry, event), version) in append.entries.iter().zip(events).zip(append.expected + 1..) {
            let at = entry.at;
            let inserted = self.insert_entry.execute(params![
                self.next.cast_signed(),
                began.cast_signed(),
                version.cast_signed(),
                previous.map(u64::cast_signed),
                entry.id.as_bytes().as_slice(),
                at.wall_ms,
                at.boot_ms.cast_signed(),
                at.boot.0.as_bytes().as_slice(),
                text::entry_sum(self.next, &stream, version, entry.id, at, event),
                event,
            ]);
            match inserted {
                Ok(_) => {
                    previous = Some(self.next);
                    self.next += 1;
                }
                // Somebody else took this position, which no head told.
                Err(e) if is_taken(&e) => return Err(Stop::Stale),
                Err(e) => return Err(sort(self.view.path(), &e).into()),
            }
        }
        Ok(())
    }

    /// False when the head is not at the expected version.
    fn head(
        &mut self,
        append: &Append,
        stream: &str,
        before: &Found,
        claims: Option<&str>,
    ) -> rusqlite::Result<bool> {
        let head = &append.head;
        let state = text::state_name(head.state);
        let count = append.entries.len() as u64;
        let version = append.expected + count;
        let sum = text::head_sum(stream, version, before.began, head);
        let last = if count == 0 { before.last } else { self.next + count - 1 };
        let (began, version, last) = (before.began.cast_signed(), version.cast_signed(), last.cast_signed());
        let (root, due, closed) = (&head.root, head.due_wall_ms, head.closed_wall_ms);
        let live = (head.state != HeadState::Closed).then_some(1);
        if append.expected == 0 {
            let insert = &mut self.insert_head;
            return insert
                .execute(params![began, stream, version, state, root, due, closed, sum, last, claims, live])
                .map(|rows| rows == 1);
        }
        let expected = append.expected.cast_signed();
        let is_there = self
            .update_head
            .execute(params![began, version, state, root, due, closed, sum, last, claims, expected])?
            == 1;
        if is_there && live != before.live {
            self.view.connection.prepare_cached(UPDATE_LIVE)?.execute(params![began, live])?;
        }
        Ok(is_there)
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
            None => found(self.view, &mut self.find, stream)?.map(|found| found.began),
        };
        Ok(began.map(u64::cast_signed))
    }
}

/// With less room than this in bytes a disk that was full counts as full still.
const LEAST_ROOM: u64 = 1 << 20;

/// A page is changed and changed back: SQLite writes nothing for a value that stays the same.
pub(super) fn try_writing(view: &View) -> Result<(), JournalError> {
    let transaction = Transaction::begin(view)?;
    for change in ["+", "-"] {
        let change = format!("UPDATE mark SET position = position {change} 1 WHERE name = 'pruned'");
        view.statement(&change)?.execute([]).at(view.path())?;
    }
    transaction.commit().map_err(|error| match error {
        CommitError::Failed(error) => error,
        // Whether it was written makes no difference.
        other => JournalError::Other(other.to_string()),
    })?;
    // A single page may find a place in the log where a whole commit does not.
    match rustix::fs::statvfs(view.path()) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_ROOM => {
            Err(JournalError::Full { path: view.path().display().to_string() })
        }
        _ => Ok(()),
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
    for began in old.iter().copied() {
        forget(view, began)?;
    }
    transaction.commit().map_err(|e| match e {
        CommitError::Failed(e) => e,
        // Pruning again does no harm, so whether it happened need not be known.
        other => JournalError::Other(other.to_string()),
    })?;
    give_back(view)?;
    Ok(old.len())
}

/// A stream, its entries from the newest back, and its claims.
fn forget(view: &View, began: i64) -> Result<(), JournalError> {
    let (last, claims): (Option<i64>, Option<String>) = view
        .statement("DELETE FROM head WHERE began = ?1 RETURNING last, claims")?
        .query_row([began], |row| Ok((row.get(0)?, row.get(1)?)))
        .at(view.path())?;
    for name in names(view, claims.as_deref())? {
        view.statement(RELEASE)?.execute(params![name, began]).at(view.path())?;
    }
    let mut next = last;
    while let Some(position) = next {
        // One that another stream's head leads to by mistake stays; `began` is in the sum of what is read.
        next = view
            .statement("DELETE FROM entry WHERE position = ?1 AND began = ?2 RETURNING previous")?
            .query_row([position, began], |row| row.get(0))
            .optional()
            .at(view.path())?
            .flatten();
    }
    Ok(())
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
