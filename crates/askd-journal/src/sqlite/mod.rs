//! The embedded engine: one SQLite file in WAL mode, durable at every commit, used by one daemon at a time.

mod error;
mod files;
mod health;
mod index;
mod prune;
mod read;
mod recent;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use askd_core::id::{AskId, StreamId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::contract::{
    Batch, CommitError, Committed, Head, Journal, JournalError, Position, Positioned, Reader, Version,
};
use error::At as _;
use files::{Lock, Place};
use read::View;
use recent::Shared;

/// How long a foreign program (a person with a sqlite3 shell) may hold the file before a commit gives up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pages in the write-ahead log after which it is copied into the file.
const CHECKPOINT_PAGES: i64 = 4_000;
/// Page cache of the writer, in KiB; it fills as far as the journal has pages.
const CACHE_KIB: i64 = 8_000;
/// The write-ahead log shrinks to this many bytes after something large went through it.
const LOG_BYTES: i64 = 16 << 20;

/// How a journal is opened.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    max_bytes: Option<u64>,
}

impl OpenOptions {
    /// Largest size of the file in bytes, rounded down to whole pages; reaching it is the same as a full disk. A file
    /// that is larger already is read, and grows no more.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }
}

/// The one daemon's journal on a file. Another one on the same file is refused for as long as this one lives.
#[derive(Debug)]
pub struct SqliteJournal {
    // Fields drop in this order: the connection is closed before the lock is given up.
    view: View,
    _lock: Lock,
}

impl SqliteJournal {
    /// Opens the journal, creating it and its directory (0700) when they are missing, and migrates an older one after
    /// leaving a backup beside it as `<path>.v<N>.bak`.
    ///
    /// Besides `path` itself, `<path>-wal`, `<path>-shm` and `<path>.lock` are used.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, JournalError> {
        let place = Place::prepare(path.as_ref())?;
        // Also while another daemon has it: who asks whether it could be opened hears what is wrong with it.
        place.check_files()?;
        let lock = place.lock()?;
        place.check_files()?;
        if !place.exists()? {
            create(&place)?;
        }
        health::check_start(&place)?;
        let connection = connect(&place, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let at = place.path();
        if connection.is_readonly(rusqlite::MAIN_DB).at(at)? {
            return Err(place.read_only("the file or its file system does not let this user write"));
        }
        schema::check_identity(&connection, &place)?;
        make_durable(&connection, &place)?;
        if let Some(bytes) = options.max_bytes {
            limit(&connection, bytes).at(at)?;
        }
        health::check_pages(&connection, &place)?;
        schema::migrate(&connection, &place)?;
        let view = View::new(connection, Shared::default(), at.to_owned());
        view.check()?;
        match write::index_all(&view) {
            // The tables can wait for room; entries and readers do not need them.
            Ok(()) | Err(JournalError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { view, _lock: lock })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.view.path()
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        // Leaves everything in the file itself, and in every table. Without it nothing is lost either: the log and the
        // entries are read at the next start.
        let _ = write::index_all(&self.view);
        let _ = self.view.empty_log();
    }
}

/// Makes a new journal under another name first, so that a crash never leaves half a one in its place.
fn create(place: &Place) -> Result<(), JournalError> {
    let new = place.begin_new()?;
    let connection = connect(&new, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::create(&connection, &new)?;
    connection.close().map_err(|(_, e)| e).at(new.path())?;
    place.finish_new(&new)
}

fn connect(place: &Place, access: OpenFlags) -> Result<Connection, JournalError> {
    // No URI names, no links on the way: the path is used as it is, and was resolved before.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = || {
        let connection = Connection::open_with_flags(place.path(), flags)?;
        connection.busy_timeout(PATIENCE)?;
        // Plans that do not depend on the values: otherwise SQLite prepares some statements anew at every use.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(connection)
    };
    open().at(place.path())
}

fn make_durable(connection: &Connection, place: &Place) -> Result<(), JournalError> {
    let set = || {
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Only macOS knows the difference between fsync and fullfsync; elsewhere this changes nothing.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        Ok(mode)
    };
    let mode = set().at(place.path())?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(JournalError::Other(format!(
        "{} cannot have a write-ahead log (a network file system?): journal mode is {mode}",
        place.path().display()
    )))
}

fn limit(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = (i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1)).clamp(1, i64::from(u32::MAX - 1));
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

/// A connection that only reads, for queries beside the writer.
#[derive(Debug)]
struct SqliteReader {
    view: View,
}

impl Journal for SqliteJournal {
    fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError> {
        write::commit(&self.view, batch)
    }

    fn try_writing(&mut self) -> Result<(), JournalError> {
        write::try_writing(&self.view)
    }

    fn settle(&mut self) -> Result<(), JournalError> {
        write::settle(&self.view)
    }

    fn prune(&mut self, closed_before_wall_ms: i64, limit: usize) -> Result<usize, JournalError> {
        prune::prune(&self.view, closed_before_wall_ms, limit)
    }

    /// The file is locked.
    fn is_shared(&self) -> bool {
        false
    }

    fn reader(&self) -> Result<Box<dyn Reader>, JournalError> {
        let place = Place::known(self.view.path());
        let connection = connect(&place, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let recent = self.view.recent.clone();
        Ok(Box::new(SqliteReader { view: View::new(connection, recent, self.view.path().to_owned()) }))
    }

    fn describe(&self) -> String {
        format!("sqlite {}", self.view.path().display())
    }
}

/// Both kinds of handle read through the same view.
macro_rules! read_through_view {
    ($handle:ty) => {
        impl Reader for $handle {
            fn head(&self, stream: &StreamId) -> Result<Option<(Version, Head)>, JournalError> {
                self.view.head(stream)
            }

            fn read(&self, stream: &StreamId) -> Result<Vec<Positioned>, JournalError> {
                self.view.read(stream)
            }

            fn feed(&self, after: Position, limit: usize) -> Result<Vec<Positioned>, JournalError> {
                self.view.feed(after, limit)
            }

            fn last(&self) -> Result<Position, JournalError> {
                self.view.last()
            }

            fn open_heads(&self) -> Result<Vec<(StreamId, Version, Head)>, JournalError> {
                self.view.open_heads()
            }

            fn holder(&self, claim: &str) -> Result<Option<StreamId>, JournalError> {
                self.view.holder(claim)
            }

            fn holders(&self, claims: &[String]) -> Result<Vec<Option<StreamId>>, JournalError> {
                self.view.holders(claims)
            }

            fn due(&self, wall_ms: i64, limit: usize) -> Result<Vec<AskId>, JournalError> {
                self.view.due(wall_ms, limit)
            }

            fn contains(&self, stream: &StreamId, entry: Uuid) -> Result<bool, JournalError> {
                self.view.contains(stream, entry)
            }
        }
    };
}

read_through_view!(SqliteJournal);
read_through_view!(SqliteReader);

/// `<path><suffix>`; the suffix is appended, not an extension.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
