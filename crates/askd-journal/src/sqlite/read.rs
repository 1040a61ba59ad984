//! Queries. Each is one statement, so each sees one state of the journal.

use std::path::{Path, PathBuf};

use askd_core::id::{AskId, StreamId};
use askd_core::time::{BootId, Stamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row, params};
use uuid::Uuid;

use super::error::At as _;
use crate::contract::{Entry, Head, JournalError, Position, Positioned, Version};
use crate::text;

/// How many of the newest entries are read at open.
const CHECKED_ENTRIES: i64 = 32;

/// Columns as [`View::entry_row`] reads them, and what follows them in the statement.
macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT e.position, e.began, e.version, e.id, e.at_wall_ms, e.at_boot_ms, e.at_boot, e.sum, e.event,
             h.stream, h.version FROM entry e LEFT JOIN head h ON h.began = e.began ",
            $rest
        )
    };
}

/// Columns as [`View::head_row`] reads them, and what follows them in the statement.
macro_rules! heads {
    ($rest:literal) => {
        concat!(
            "SELECT stream, version, began, state, root, due_wall_ms, closed_wall_ms, sum FROM head ",
            $rest
        )
    };
}

const HEAD: &str = heads!("WHERE stream = ?1");
/// From a stream's newest entry back to its first. A chain that is broken ends early, and none goes forward.
macro_rules! chain {
    ($select:expr) => {
        concat!(
            "WITH RECURSIVE chain(position) AS (
                SELECT last FROM head WHERE stream = ?1
                UNION ALL SELECT b.previous FROM chain n CROSS JOIN entry b ON b.position = n.position
                WHERE b.previous < b.position
            ) ",
            $select
        )
    };
}

/// The newest first.
const READ: &str = chain!(
    "SELECT e.position, e.began, e.version, e.id, e.at_wall_ms, e.at_boot_ms, e.at_boot, e.sum, e.event,
     h.stream, h.version FROM chain n CROSS JOIN entry e ON e.position = n.position
     LEFT JOIN head h ON h.began = e.began"
);
const FEED: &str = entries!("WHERE e.position > ?1 ORDER BY e.position LIMIT ?2");
const NEWEST: &str = entries!("ORDER BY e.position DESC LIMIT ?1");
const OPEN_HEADS: &str = heads!("INDEXED BY head_live WHERE live IS NOT NULL ORDER BY began");
/// 'ask0' is what follows every 'ask/…'; the plus signs keep SQLite from going through all asks by name.
const DUE: &str = heads!(
    "INDEXED BY head_live WHERE live IS NOT NULL AND due_wall_ms <= ?1 AND +stream > 'ask/' AND +stream < 'ask0'"
);
const HOLDER: &str = "SELECT h.stream FROM claim c LEFT JOIN head h ON h.began = c.began WHERE c.name = ?1";
const CONTAINS: &str =
    chain!("SELECT 1 FROM chain n CROSS JOIN entry e ON e.position = n.position WHERE e.id = ?2 LIMIT 1");
const LAST: &str = "SELECT max(coalesce((SELECT max(position) FROM entry), 0),
                    coalesce((SELECT position FROM mark WHERE name = 'pruned'), 0))";

/// A connection that knows where it leads.
#[derive(Debug)]
pub(super) struct View {
    pub(super) connection: Connection,
    path: PathBuf,
}

impl View {
    pub(super) fn new(connection: Connection, path: PathBuf) -> Self {
        Self { connection, path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, JournalError> {
        self.connection.prepare_cached(sql).at(&self.path)
    }

    pub(super) fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
        Ok(self.row(HEAD, [stream.to_string()], |row| self.head_row(row))?.map(|found| (found.1, found.3)))
    }

    pub(super) fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
        let mut found = self.rows(READ, [stream.to_string()], |row| {
            Ok((self.entry_row(row)?, row.get(10).at(&self.path)?))
        })?;
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
        let last = self.statement(LAST)?.query_row([], |row| row.get(0)).at(&self.path)?;
        self.count(last)
    }

    pub(super) fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
        let open = self.rows(OPEN_HEADS, [], |row| self.head_row(row))?;
        Ok(open.into_iter().map(|(stream, version, _, head)| (stream, version, head)).collect())
    }

    pub(super) fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
        self.row(HOLDER, [claim], |row| self.stream(&row.get::<_, String>(0).at(&self.path)?))
    }

    pub(super) fn holders(&self, claims: &[String]) -> Result<Vec<Option<StreamId>>, JournalError> {
        // One transaction around all: locks are taken once.
        let reading = self.connection.unchecked_transaction().at(&self.path)?;
        let found = claims.iter().map(|claim| self.holder(claim)).collect();
        reading.finish().at(&self.path)?;
        found
    }

    pub(super) fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
        let mut due = self.rows(DUE, [wall_ms], |row| match self.head_row(row)? {
            (StreamId::Ask(ask), _, began, head) => Ok((head.due_wall_ms, began, ask)),
            (other, ..) => Err(self.corrupt(format!("{other} is no ask"))),
        })?;
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, _, ask)| ask).collect())
    }

    pub(super) fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
        let id = entry.as_bytes().as_slice();
        self.statement(CONTAINS)?.exists(params![stream.to_string(), id]).at(&self.path)
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
        read: impl FnOnce(&Row<'_>) -> Result<T, JournalError>,
    ) -> Result<Option<T>, JournalError> {
        let found = self.statement(sql)?.query_row(params, |row| Ok(read(row))).optional().at(&self.path)?;
        found.transpose()
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, JournalError>,
    ) -> Result<Vec<T>, JournalError> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(params).at(&self.path)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().at(&self.path)? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    fn entry_row(&self, row: &Row<'_>) -> Result<Positioned, JournalError> {
        let get = || -> rusqlite::Result<_> {
            let at = Stamp {
                wall_ms: row.get(4)?,
                boot_ms: row.get::<_, i64>(5)?.cast_unsigned(),
                boot: BootId(Uuid::from_bytes(row.get(6)?)),
            };
            let id = Uuid::from_bytes(row.get(3)?);
            let name = row.get_ref(9)?.as_str_or_null()?;
            Ok((row.get(0)?, row.get(2)?, id, at, row.get(7)?, row.get_ref(8)?.as_str()?, name))
        };
        let (position, version, id, at, sum, event, name): (i64, i64, Uuid, Stamp, i64, &str, Option<&str>) =
            get().at(&self.path)?;
        let (position, version) = (self.count(position)?, self.count(version)?);
        let Some(name) = name else {
            return Err(self.corrupt(format!("the entry at position {position} is of no stream")));
        };
        if text::entry_sum(position, name, version, id, at, event) != sum {
            return Err(self.corrupt(format!("the entry at position {position} was changed")));
        }
        let event = text::decode(event)
            .map_err(|e| self.corrupt(format!("the entry at position {position} does not read back: {e}")))?;
        Ok(Positioned { position, stream: self.stream(name)?, version, entry: Entry { id, at, event } })
    }

    fn head_row(&self, row: &Row<'_>) -> Result<(StreamId, Version, Position, Head), JournalError> {
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
        let (version, began) = (self.count(version)?, self.count(began)?);
        let state = text::state_of(state)
            .ok_or_else(|| self.corrupt(format!("the head of {name} has the state {state:?}")))?;
        let head = Head { state, root, due_wall_ms, closed_wall_ms };
        if text::head_sum(name, version, began, &head) != sum {
            return Err(self.corrupt(format!("the head of {name} was changed")));
        }
        Ok((self.stream(name)?, version, began, head))
    }

    fn stream(&self, name: &str) -> Result<StreamId, JournalError> {
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
    use crate::sqlite::write::OLD;
    use crate::sqlite::{OpenOptions, SqliteJournal};

    /// Every query goes by an index, and none sorts, so that none grows with what it does not return.
    #[test]
    fn no_query_scans_or_sorts() {
        let place = tempfile::tempdir().unwrap();
        let journal = SqliteJournal::open(place.path().join("j/journal.db"), OpenOptions::default()).unwrap();
        for sql in [HEAD, READ, FEED, NEWEST, OPEN_HEADS, DUE, HOLDER, CONTAINS, LAST, OLD] {
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
