//! What SQLite's errors mean to the person who must repair it.

use std::path::Path;

use rusqlite::{Error, ErrorCode, ffi};

use crate::contract::JournalError;

/// Adds the place to SQLite's errors, and sorts them.
pub(super) trait At<T> {
    fn at(self, path: &Path) -> Result<T, JournalError>;
}

impl<T> At<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T, JournalError> {
        self.map_err(|e| sort(path, &e))
    }
}

pub(super) fn sort(path: &Path, error: &Error) -> JournalError {
    let shown = || path.display().to_string();
    let corrupt = || JournalError::Corrupt { path: shown(), detail: error.to_string() };
    let other = || JournalError::Other(format!("{}: {error}", shown()));
    let read_only = || JournalError::ReadOnly { path: shown(), detail: error.to_string() };
    match error {
        // A column is not what the schema says: only a damaged file has that.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => corrupt(),
        // Our statements are fixed, so what is wrong with one is the schema that it meets.
        Error::SqlInputError { .. } => corrupt(),
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => corrupt(),
            Some(ErrorCode::DiskFull) => JournalError::Full { path: shown() },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                JournalError::Other(format!("another program holds a lock on {}: {error}", shown()))
            }
            Some(ErrorCode::SystemIoFailure) if extended(error) == Some(ffi::SQLITE_IOERR_CORRUPTFS) => {
                corrupt()
            }
            // SQLite does not say why the system refused: ask the file system.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => match disk(path) {
                Disk::Full => JournalError::Full { path: shown() },
                Disk::ReadOnly => read_only(),
                Disk::Fine => other(),
            },
            _ => other(),
        },
    }
}

/// True when SQLite found a row that a UNIQUE constraint or primary key forbids.
pub(super) fn is_taken(error: &Error) -> bool {
    matches!(extended(error), Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY))
}

/// True when a failed COMMIT certainly left nothing that a crash could bring back.
pub(super) fn is_certain(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn extended(error: &Error) -> Option<i32> {
    error.sqlite_error().map(|e| e.extended_code)
}

enum Disk {
    Full,
    ReadOnly,
    Fine,
}

fn disk(path: &Path) -> Disk {
    match rustix::fs::statvfs(path.parent().unwrap_or(path)) {
        Ok(found) if found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) => Disk::ReadOnly,
        Ok(found) if found.f_bavail == 0 => Disk::Full,
        _ => Disk::Fine,
    }
}
