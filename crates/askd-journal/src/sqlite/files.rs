//! The journal's files: private from their first moment, ours, never reached through a link, used by one daemon.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::beside;
use crate::contract::JournalError;

const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const PRIVATE_DIR: u32 = 0o700;
/// Bits that let anybody but the owner at a file.
const OTHERS: u32 = 0o077;

/// An absolute path to a journal in a directory that was found, or made, private.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
}

/// The kernel's lock on `<path>.lock`, gone with this process whatever happens to it.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Place {
    pub(super) fn prepare(path: &Path) -> Result<Self, JournalError> {
        let refuse = |detail: &str| JournalError::Other(format!("{}: {detail}", path.display()));
        let name = path.file_name().ok_or_else(|| refuse("not the path of a file"))?;
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        if let Err(e) = DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir) {
            return Err(io_error(path, &format!("cannot make the directory {}", dir.display()), &e));
        }
        let found = fs::symlink_metadata(dir).map_err(|e| io_error(path, "cannot see its directory", &e))?;
        let of = format!("the directory {}", dir.display());
        if !found.is_dir() {
            return Err(unsafe_at(path, &format!("{of} is a symbolic link or not a directory")));
        }
        check_private(path, &of, &found, "700")?;
        let dir = fs::canonicalize(dir).map_err(|e| io_error(path, "cannot resolve its directory", &e))?;
        Ok(Self { path: dir.join(name) })
    }

    /// A journal that is open already.
    pub(super) fn known(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn lock(&self) -> Result<Lock, JournalError> {
        let path = beside(&self.path, ".lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&path, flags, PRIVATE_FILE) {
            Ok(fd) => File::from(fd),
            Err(Errno::LOOP) => return Err(self.unsafe_here(&named(&path, "is a symbolic link"))),
            Err(e) => return Err(io_error(&self.path, &named(&path, "cannot be opened"), &e.into())),
        };
        let found = file.metadata().map_err(|e| io_error(&self.path, "cannot see its lock", &e))?;
        if !found.is_file() {
            return Err(self.unsafe_here(&named(&path, "is not a plain file")));
        }
        check_private(&self.path, &path.display().to_string(), &found, "600")?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(JournalError::InUse { path: self.shown() }),
            Err(e) => Err(io_error(&self.path, "cannot be locked", &e.into())),
        }
    }

    /// Whatever is there already is a plain file of this user that nobody else can open, and can be written.
    pub(super) fn check_files(&self) -> Result<(), JournalError> {
        if let Err(e) = rustix::fs::access(self.dir(), Access::WRITE_OK) {
            return Err(io_error(&self.path, "its directory cannot be written", &e.into()));
        }
        for suffix in ["", "-wal", "-shm"] {
            let path = beside(&self.path, suffix);
            let found = match fs::symlink_metadata(&path) {
                Ok(found) => found,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(io_error(&self.path, &named(&path, "cannot be seen"), &e)),
            };
            if !found.is_file() {
                return Err(self.unsafe_here(&named(&path, "is a symbolic link or not a plain file")));
            }
            check_private(&self.path, &path.display().to_string(), &found, "600")?;
            // Lock and log are found by name: by its other name a second daemon would write the same file.
            if found.nlink() > 1 {
                let what = format!(
                    "has another name too ({} hard links), by which a second daemon could write it; \
                     remove the others, or copy it to a file of its own",
                    found.nlink()
                );
                return Err(self.unsafe_here(&named(&path, &what)));
            }
            if let Err(e) = rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK) {
                return Err(io_error(&self.path, &named(&path, "is not writable"), &e.into()));
            }
        }
        Ok(())
    }

    /// Whether there is a journal. A log without its file means that somebody deleted half of it.
    pub(super) fn exists(&self) -> Result<bool, JournalError> {
        if self.path.exists() {
            return Ok(true);
        }
        if self.has_log() {
            return Err(self.corrupt(&format!(
                "the file is gone but its log {} is there; put the file back, or move the log away to begin anew",
                beside(&self.path, "-wal").display()
            )));
        }
        Ok(false)
    }

    /// Whether there is a write-ahead log with something in it.
    pub(super) fn has_log(&self) -> bool {
        fs::symlink_metadata(beside(&self.path, "-wal")).is_ok_and(|found| found.len() > 0)
    }

    /// An empty private file beside this one, to be filled and put in its place. Left-overs of a crash are removed.
    pub(super) fn begin_new(&self) -> Result<Self, JournalError> {
        self.begin(".new")
    }

    /// The same for a backup of schema version `version`.
    pub(super) fn begin_backup(&self, version: i64) -> Result<(Self, PathBuf), JournalError> {
        let suffix = format!(".v{version}.bak");
        Ok((self.begin(&format!("{suffix}.new"))?, beside(&self.path, &suffix)))
    }

    fn begin(&self, suffix: &str) -> Result<Self, JournalError> {
        let new = beside(&self.path, suffix);
        for path in [new.clone(), beside(&new, "-journal"), beside(&new, "-wal"), beside(&new, "-shm")] {
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error(&self.path, &named(&path, "cannot be removed"), &e)),
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The mode is set once more because a umask may have taken bits away from the owner too.
        rustix::fs::open(&new, flags, PRIVATE_FILE)
            .and_then(|fd| rustix::fs::fchmod(&fd, PRIVATE_FILE))
            .map_err(|e| io_error(&self.path, &named(&new, "cannot be made"), &e.into()))?;
        Ok(Self { path: new })
    }

    pub(super) fn finish_new(&self, new: &Self) -> Result<(), JournalError> {
        self.finish(new, &self.path)
    }

    /// Puts a finished file in its place, durably.
    pub(super) fn finish(&self, new: &Self, place: &Path) -> Result<(), JournalError> {
        File::open(&new.path)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&new.path, place))
            .and_then(|()| File::open(self.dir()))
            .and_then(|dir| dir.sync_all())
            .map_err(|e| io_error(&self.path, &named(place, "cannot be put in place"), &e))
    }

    pub(super) fn corrupt(&self, detail: &str) -> JournalError {
        JournalError::Corrupt { path: self.shown(), detail: detail.to_owned() }
    }

    pub(super) fn read_only(&self, detail: &str) -> JournalError {
        JournalError::ReadOnly { path: self.shown(), detail: detail.to_owned() }
    }

    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn unsafe_here(&self, detail: &str) -> JournalError {
        unsafe_at(&self.path, detail)
    }
}

fn check_private(journal: &Path, of: &str, found: &Metadata, mode: &str) -> Result<(), JournalError> {
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(unsafe_at(journal, &format!("{of} belongs to user {}, not to user {us}", found.uid())));
    }
    let bits = found.permissions().mode() & 0o7777;
    if bits & OTHERS != 0 {
        return Err(unsafe_at(journal, &format!("{of} has mode {bits:o}; chmod {mode} it")));
    }
    Ok(())
}

fn unsafe_at(journal: &Path, detail: &str) -> JournalError {
    JournalError::Unsafe { path: journal.display().to_string(), detail: detail.to_owned() }
}

fn named(path: &Path, what: &str) -> String {
    format!("{} {what}", path.display())
}

fn io_error(journal: &Path, what: &str, error: &io::Error) -> JournalError {
    let path = journal.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full { path },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            JournalError::ReadOnly { path, detail: format!("{what}: {error}") }
        }
        _ => JournalError::Other(format!("{path}: {what}: {error}")),
    }
}
