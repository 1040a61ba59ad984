//! Queries. Each is one statement, so each sees one state of the journal.

use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use askd_core::id::{AskId, StreamId};
use askd_core::time::{BootId, Stamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row as SqlRow, params};
use uuid::Uuid;

use super::error::At as _;
use super::recent::{Behind, Recent, Row, Shared, Stored, lock};
use crate::contract::{Entry, Head, JournalError, Position, Positioned, Version};
use crate::text;

/// How many of the newest entries are read at open.
const CHECKED_ENTRIES: i64 = 32;

/// Columns as [`View::entry_row`] reads them. The head says as well which stream an entry is of, once it is in its table.
macro_rules! columns {
    () => {
        "e.position, e.began, e.version, e.id, e.at_wall_ms, e.at_boot_ms, e.at_boot, e.sum, e.event, e.stream, e.after,
         h.stream, (SELECT position FROM mark WHERE name = 'indexed')"
    };
}

/// Entries, and what follows in the statement.
macro_rules! entries {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM entry e LEFT JOIN head h ON h.began = e.began ", $rest)
    };
}

/// Columns as [`View::head_row`] reads them, and what follows them in the statement.
macro_rules! heads {
    ($rest:literal) => {
        concat!(
            "SELECT stream, version, began, state, root, due_wall_ms, closed_wall_ms, sum, last, claims, live
             FROM head ",
            $rest
        )
    };
}

/// From a stream's newest entry back to its first. A chain that is broken ends early, and none goes forward.
macro_rules! chain {
    ($last:literal, $select:expr) => {
        concat!(
            "WITH RECURSIVE chain(position) AS (",
            $last,
            " UNION ALL SELECT b.previous FROM chain n CROSS JOIN entry b ON b.position = n.position
                WHERE b.previous < b.position
            ) ",
            $select
        )
    };
}

/// The newest first, and the version that the head has.
macro_rules! read {
    ($last:literal, $version:literal) => {
        chain!(
            $last,
            concat!(
                "SELECT ",
                columns!(),
                ", ",
                $version,
                " FROM chain n CROSS JOIN entry e ON e.position = n.position LEFT JOIN head h ON h.began = e.began"
            )
        )
    };
}

macro_rules! contains {
    ($last:literal) => {
        chain!(
            $last,
            "SELECT 1 FROM chain n CROSS JOIN entry e ON e.position = n.position WHERE e.id = ?2 LIMIT 1"
        )
    };
}

const HEAD: &str = heads!("WHERE stream = ?1");
/// By the name of a stream whose head is in its table.
const READ: &str = read!("SELECT last FROM head WHERE stream = ?1", "h.version");
/// By the position of the newest entry, and its version.
const READ_BACK: &str = read!("SELECT ?1", "?2");
const CONTAINS: &str = contains!("SELECT last FROM head WHERE stream = ?1");
const BACK_CONTAINS: &str = contains!("SELECT ?1");
const FEED: &str = entries!("WHERE e.position > ?1 ORDER BY e.position LIMIT ?2");
const NEWEST: &str = entries!("ORDER BY e.position DESC LIMIT ?1");
const OPEN_HEADS: &str = heads!("INDEXED BY head_live WHERE live IS NOT NULL ORDER BY began");
/// 'ask0' is what follows every 'ask/…'; the plus signs keep SQLite from going through all asks by name.
const DUE: &str = heads!(
    "INDEXED BY head_live WHERE live IS NOT NULL AND due_wall_ms <= ?1 AND +stream > 'ask/' AND +stream < 'ask0'"
);
const HOLDER: &str = "SELECT h.stream FROM claim c LEFT JOIN head h ON h.began = c.began WHERE c.name = ?1";
/// Up to where the tables of heads and claims go, and the newest position.
const MARKS: &str = "SELECT (SELECT position FROM mark WHERE name = 'indexed'),
                     max(coalesce((SELECT max(position) FROM entry), 0),
                     coalesce((SELECT position FROM mark WHERE name = 'pruned'), 0))";
/// Names of asks sort as their ids do.
const HIGHEST_ASK: &str =
    "SELECT stream FROM head WHERE stream > 'ask/' AND stream < 'ask0' ORDER BY stream DESC LIMIT 1";
const BEHIND: &str = entries!("WHERE e.position > ?1 ORDER BY e.position");

/// A connection that knows where it leads, and what its tables do not have yet.
#[derive(Debug)]
pub(super) struct View {
    pub(super) connection: Connection,
    pub(super) recent: Shared,
    path: PathBuf,
}

impl View {
    pub(super) fn new(connection: Connection, recent: Shared, path: PathBuf) -> Self {
        Self { connection, recent, path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, JournalError> {
        self.connection.prepare_cached(sql).at(&self.path)
    }

    /// What the tables do not have yet. As long as it is held, nothing of it goes into the tables, and from there.
    pub(super) fn recent(&self) -> Result<MutexGuard<'_, Recent>, JournalError> {
        let mut recent = lock(&self.recent);
        recent.refresh(self)?;
        Ok(recent)
    }

    pub(super) fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
        Ok(self.recent()?.row(self, stream)?.map(|row| (row.version, row.head)))
    }

    pub(super) fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        let recent = self.recent()?;
        if let Some(row) = recent.heads.get(stream) {
            return self.chain(stream, READ_BACK, [row.last.cast_signed(), row.version.cast_signed()]);
        }
        drop(recent);
        self.chain(stream, READ, [stream.to_string()])
    }

    fn chain(
        &self,
        stream: &StreamId,
        sql: &str,
        params: impl Params,
    ) -> Result<Vec<Positioned>, JournalError> {
        let mut found =
            self.rows(sql, params, |row| Ok((self.entry_row(row)?, row.get(13).at(&self.path)?)))?;
        found.reverse();
        let whole = found.iter().map(|(entry, _)| entry.version).eq(1..=found.len() as u64)
            && found.iter().all(|(entry, _)| entry.stream == *stream)
            && found.last().is_none_or(|(entry, version)| i64::try_from(entry.version) == Ok(*version));
        if !whole {
            return Err(self.corrupt(format!("{stream} has lost entries")));
        }
        Ok(found.into_iter().map(|(entry, _)| entry).collect())
    }

    pub(super) fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
        self.rows(FEED, [clamped(after), clamped(limit as u64)], |row| self.entry_row(row))
    }

    pub(super) fn last(&self) -> Result<Position, JournalError> {
        lock(&self.recent).refresh(self)
    }

    /// Up to where the tables of heads and claims go, and the newest position.
    pub(super) fn marks(&self) -> Result<(Position, Position), JournalError> {
        let (indexed, last): (Option<i64>, i64) =
            self.statement(MARKS)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).at(&self.path)?;
        let indexed = indexed.ok_or_else(|| self.corrupt("it does not say what is indexed".to_owned()))?;
        Ok((self.count(indexed)?, self.count(last)?))
    }

    /// The last entries of appends that the tables of heads and claims do not know of, in order.
    pub(super) fn behind(
        &self,
        indexed: Position,
        mut each: impl FnMut(Behind) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let found = self.rows(BEHIND, [clamped(indexed)], |row| {
            let after: Option<String> = row.get(10).at(&self.path)?;
            let began = self.count(row.get(1).at(&self.path)?)?;
            let entry = self.entry_row(row)?;
            let (position, version, stream) = (entry.position, entry.version, entry.stream);
            Ok(after.map(|after| Behind { position, began, version, stream, after }))
        })?;
        found.into_iter().flatten().try_for_each(&mut each)
    }

    pub(super) fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
        let open = self.live(OPEN_HEADS, [], Row::is_live)?;
        Ok(open.into_iter().map(|(stream, row)| (stream, row.version, row.head)).collect())
    }

    pub(super) fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
        self.recent()?.holder(self, claim)
    }

    pub(super) fn holders(&self, claims: &[String]) -> Result<Vec<Option<StreamId>>, JournalError> {
        let mut recent = self.recent()?;
        // One transaction around all: locks are taken once.
        let reading = self.connection.unchecked_transaction().at(&self.path)?;
        let found = claims.iter().map(|claim| recent.look_for(self, claim)).collect();
        reading.finish().at(&self.path)?;
        found
    }

    pub(super) fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
        let is_due = |row: &Row| {
            row.is_live() && row.head.due_wall_ms.is_some_and(|due_wall_ms| due_wall_ms <= wall_ms)
        };
        let mut due: Vec<_> = self
            .live(DUE, [wall_ms], is_due)?
            .into_iter()
            .filter_map(|(stream, row)| match stream {
                StreamId::Ask(ask) => Some((row.head.due_wall_ms, row.began, ask)),
                _ => None,
            })
            .collect();
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, _, ask)| ask).collect())
    }

    /// Heads out of the table, with what is more recent in place of them, in the order in which they began.
    fn live(
        &self,
        sql: &str,
        params: impl Params,
        is_one: impl Fn(&Row) -> bool,
    ) -> Result<Vec<(StreamId, Row)>, JournalError> {
        let recent = self.recent()?;
        let mut found = self.rows(sql, params, |row| self.head_row(row))?;
        found.retain(|(stream, _)| !recent.heads.contains_key(stream));
        let newer = recent.heads.iter().filter(|(_, row)| is_one(row));
        found.extend(newer.map(|(stream, row)| (stream.clone(), row.clone())));
        found.sort_by_key(|(_, row)| row.began);
        Ok(found)
    }

    pub(super) fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
        let id = entry.as_bytes().as_slice();
        let recent = self.recent()?;
        if let Some(row) = recent.heads.get(stream) {
            return self.statement(BACK_CONTAINS)?.exists(params![row.last.cast_signed(), id]).at(&self.path);
        }
        drop(recent);
        self.statement(CONTAINS)?.exists(params![stream.to_string(), id]).at(&self.path)
    }

    /// The head of a stream as its table has it.
    pub(super) fn stored_row(&self, stream: &StreamId) -> Result<Option<Row>, JournalError> {
        Ok(self.row(HEAD, [stream.to_string()], |row| self.head_row(row))?.map(|(_, row)| row))
    }

    /// The ask with the highest id whose head is in its table.
    pub(super) fn highest_ask(&self) -> Result<Option<AskId>, JournalError> {
        self.row(HIGHEST_ASK, [], |row| match self.stream(&row.get::<_, String>(0).at(&self.path)?)? {
            StreamId::Ask(id) => Ok(id),
            other => Err(self.corrupt(format!("{other} is no ask"))),
        })
    }

    /// Who holds a claim as its table has it.
    pub(super) fn stored_holder(&self, name: &str) -> Result<Option<StreamId>, JournalError> {
        self.row(HOLDER, [name], |row| self.stream(&row.get::<_, String>(0).at(&self.path)?))
    }

    /// Reads what the start will rely on: the newest entries, and that their streams' heads agree with them.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        for found in self.rows(NEWEST, [CHECKED_ENTRIES], |row| self.entry_row(row))? {
            // Without a head the entry would not have been read.
            let version = self.head(&found.stream)?.map_or(0, |(version, _)| version);
            if version < found.version {
                return Err(self.corrupt(format!(
                    "the head of {} says version {version}, an entry says {}",
                    found.stream, found.version
                )));
            }
        }
        Ok(())
    }

    /// Copies the log into the file and empties it. False when a reader was in the way.
    pub(super) fn empty_log(&self) -> Result<bool, JournalError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
            .map(|busy| busy == 0)
            .at(&self.path)
    }

    pub(super) fn corrupt(&self, detail: String) -> JournalError {
        JournalError::Corrupt { path: self.path.display().to_string(), detail }
    }

    /// A version or position out of the file.
    pub(super) fn count(&self, n: i64) -> Result<u64, JournalError> {
        u64::try_from(n).map_err(|_| self.corrupt(format!("{n} is no version or position")))
    }

    fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&SqlRow<'_>) -> Result<T, JournalError>,
    ) -> Result<Option<T>, JournalError> {
        let found = self.statement(sql)?.query_row(params, |row| Ok(read(row))).optional().at(&self.path)?;
        found.transpose()
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&SqlRow<'_>) -> Result<T, JournalError>,
    ) -> Result<Vec<T>, JournalError> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(params).at(&self.path)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().at(&self.path)? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    fn entry_row(&self, row: &SqlRow<'_>) -> Result<Positioned, JournalError> {
        let get = || -> rusqlite::Result<_> {
            let at = Stamp {
                wall_ms: row.get(4)?,
                boot_ms: row.get::<_, i64>(5)?.cast_unsigned(),
                boot: BootId(Uuid::from_bytes(row.get(6)?)),
            };
            let id = Uuid::from_bytes(row.get(3)?);
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, id, at, row.get(7)?))
        };
        let (position, began, version, id, at, sum): (i64, i64, i64, Uuid, Stamp, i64) =
            get().at(&self.path)?;
        let texts = || -> rusqlite::Result<_> {
            let after = row.get_ref(10)?.as_str_or_null()?;
            let headed = row.get_ref(11)?.as_str_or_null()?;
            Ok((row.get_ref(8)?.as_str()?, row.get_ref(9)?.as_str()?, after, headed, row.get(12)?))
        };
        let (event, name, after, headed, indexed): (&str, &str, Option<&str>, Option<&str>, Option<i64>) =
            texts().at(&self.path)?;
        let (position, version) = (self.count(position)?, self.count(version)?);
        if text::entry_sum(position, name, version, id, at, event, after) != sum {
            return Err(self.corrupt(format!("the entry at position {position} was changed")));
        }
        // A head that is not in its table yet says nothing.
        let is_headed = headed == Some(name) || headed.is_none() && indexed.is_none_or(|to| to < began);
        if !is_headed {
            return Err(self.corrupt(format!("the entry at position {position} is of no stream")));
        }
        let event = text::decode(event)
            .map_err(|e| self.corrupt(format!("the entry at position {position} does not read back: {e}")))?;
        Ok(Positioned { position, stream: self.stream(name)?, version, entry: Entry { id, at, event } })
    }

    fn head_row(&self, row: &SqlRow<'_>) -> Result<(StreamId, Row), JournalError> {
        let get = || -> rusqlite::Result<_> {
            let name = row.get_ref(0)?.as_str()?;
            let state = row.get_ref(3)?.as_str()?;
            Ok((name, row.get(1)?, row.get(2)?, state, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?))
        };
        let (name, version, began, state, root, due_wall_ms, closed_wall_ms, sum): (
            &str,
            i64,
            i64,
            &str,
            Option<String>,
            _,
            _,
            i64,
        ) = get().at(&self.path)?;
        let beside =
            || -> rusqlite::Result<_> { Ok((row.get(8)?, row.get_ref(9)?.as_str_or_null()?, row.get(10)?)) };
        let (last, claims, live): (i64, Option<&str>, Option<i64>) = beside().at(&self.path)?;
        let (version, began) = (self.count(version)?, self.count(began)?);
        let state = text::state_of(state)
            .ok_or_else(|| self.corrupt(format!("the head of {name} has the state {state:?}")))?;
        let head = Head { state, root, due_wall_ms, closed_wall_ms };
        if text::head_sum(name, version, began, &head) != sum {
            return Err(self.corrupt(format!("the head of {name} was changed")));
        }
        let claims = self.names(claims)?;
        let stored = Some(Stored { live: live.is_some() });
        Ok((self.stream(name)?, Row { began, version, last: self.count(last)?, head, claims, stored }))
    }

    /// Names of claims out of a head.
    pub(super) fn names(&self, text: Option<&str>) -> Result<Vec<String>, JournalError> {
        text::read_names(text)
            .map_err(|e| self.corrupt(format!("the claims in a head do not read back: {e}")))
    }

    pub(super) fn stream(&self, name: &str) -> Result<StreamId, JournalError> {
        name.parse().map_err(|e| self.corrupt(format!("{e}")))
    }
}

/// A number as SQLite takes it; what is beyond its range is beyond every row as well.
fn clamped(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::prune::OLD;
    use crate::sqlite::{OpenOptions, SqliteJournal};

    /// Every query goes by an index, and none sorts, so that none grows with what it does not return.
    #[test]
    fn no_query_scans_or_sorts() {
        let place = tempfile::tempdir().unwrap();
        let journal = SqliteJournal::open(place.path().join("j/journal.db"), OpenOptions::default()).unwrap();
        for sql in [
            HEAD,
            READ,
            READ_BACK,
            FEED,
            NEWEST,
            OPEN_HEADS,
            DUE,
            HOLDER,
            CONTAINS,
            BACK_CONTAINS,
            MARKS,
            BEHIND,
            OLD,
        ] {
            let mut plan = journal.view.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            // The numbers do not matter to the plan.
            let nothing = vec![None::<i64>; plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap();
            assert!(!steps.is_empty(), "{sql}");
            for step in &steps {
                assert!(!step.contains("TEMP B-TREE"), "{sql}: {steps:?}");
                let of_one_stream = matches!(step.as_str(), "SCAN n" | "SCAN chain");
                let bounded = sql == NEWEST || of_one_stream || step.contains("head_live");
                let bounded = bounded || step.contains("CONSTANT ROW");
                assert!(bounded || !step.starts_with("SCAN"), "{sql}: {steps:?}");
            }
        }
    }
}
