//! A private directory for a journal, gone after the test.

use std::fs;
use std::path::{Path, PathBuf};

use askd_journal::{JournalError, OpenOptions, SqliteJournal};
use tempfile::TempDir;

pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().join("askd")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir().join("journal.db")
    }

    pub(crate) fn open(&self) -> SqliteJournal {
        open(&self.path()).unwrap()
    }

    /// A second place with the same files.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        drop(copy.open());
        for file in files(&copy.dir()) {
            fs::remove_file(file).unwrap();
        }
        for file in files(&self.dir()) {
            fs::copy(&file, copy.dir().join(file.file_name().unwrap())).unwrap();
        }
        copy
    }
}

pub(crate) fn open(path: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(path, OpenOptions::default())
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Makes a path as private as a journal's file must be.
pub(crate) fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
