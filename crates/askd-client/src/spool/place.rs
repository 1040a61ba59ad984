//! Directories of a forwarding tree, each reached from the one above by its name alone: no symlink is followed and no
//! path is built, so that neither a name nor a directory that was swapped leads anywhere else.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

/// Ends the names of files that are being written. Readers take only what ends in `.json`.
const UNFINISHED: &str = ".askd-tmp";
/// Names that are no text that are told of.
const MOST_NO_TEXT: usize = 100;

/// Why a directory or file was not used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Something of another sort has this name; symbolic links are not followed.
    #[error("{0} is a symbolic link or no directory")]
    NotADirectory(String),
    /// Another user's, or open to other users.
    #[error("{name} {why}")]
    NotOurs { name: String, why: String },
    #[error("{name}: {error}")]
    Io { name: String, error: io::Error },
}

impl PlaceError {
    fn io(name: &str, error: Errno) -> Self {
        match error {
            Errno::LOOP | Errno::NOTDIR => Self::NotADirectory(name.to_owned()),
            error => Self::Io { name: name.to_owned(), error: error.into() },
        }
    }

    /// The directory was removed while it was in use: everything is to be made again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == ErrorKind::NotFound)
    }
}

/// Which file it is and which content it has, as far as that can be told without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i128,
}

/// What became of a file that was to be put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Placed,
    /// Somebody else's has the name already, and stays.
    Taken,
}

/// Names in a directory, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub names: Vec<String>,
    /// There are more.
    pub left_out: bool,
    /// Those that are no text, as far as they can be shown.
    pub no_text: Vec<String>,
}

/// An open directory of ours.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    name: String,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens a tree's root; `None`: it is not there. `path` must not lead through a link at its end.
    pub fn root(path: &Path) -> Result<Option<Self>, PlaceError> {
        let name = path.display().to_string();
        let fd = match rustix::fs::open(path, directory_flags(), Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(PlaceError::io(&name, error)),
        };
        Self::checked(fd, name).map(Some)
    }

    /// Opens a tree's root, making it and what is missing above it (0700).
    pub fn make_root(path: &Path) -> Result<Self, PlaceError> {
        Self::make_or_open_root(path).map(|(root, _)| root)
    }

    /// The same; true: it was made by this call.
    pub fn make_or_open_root(path: &Path) -> Result<(Self, bool), PlaceError> {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        let failed = |error| PlaceError::Io { name: path.display().to_string(), error };
        let mut made = false;
        // Somebody may remove it, or what is above it, at any moment.
        for _ in 0..100 {
            if let Some(root) = Self::root(path)? {
                return Ok((root, made));
            }
            match builder.recursive(false).create(path) {
                Ok(()) => made = true,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => made = false,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let Some(above) = path.parent() else { return Err(failed(error)) };
                    match builder.recursive(true).create(above) {
                        Ok(()) => {}
                        Err(error)
                            if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
                        Err(error) => return Err(failed(error)),
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Err(PlaceError::io(&path.display().to_string(), Errno::NOENT))
    }

    /// Opens a directory in this one; `None`: it is not there.
    pub fn open(&self, name: &str) -> Result<Option<Self>, PlaceError> {
        let full = self.named(name)?;
        match openat(&self.fd, name, directory_flags(), Mode::empty()) {
            Ok(fd) => Self::checked(fd, full).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PlaceError::io(&full, error)),
        }
    }

    /// Opens a directory in this one, making it (0700) when it is not there.
    pub fn make(&self, name: &str) -> Result<Self, PlaceError> {
        self.make_or_open(name).map(|(dir, _)| dir)
    }

    /// The same; true: it was made by this call.
    pub fn make_or_open(&self, name: &str) -> Result<(Self, bool), PlaceError> {
        let full = self.named(name)?;
        let mut made = false;
        // Somebody may remove it between the two steps.
        for _ in 0..100 {
            if let Some(dir) = self.open(name)? {
                return Ok((dir, made));
            }
            match mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
                Ok(()) => made = true,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(PlaceError::io(&full, error)),
            }
        }
        Err(PlaceError::io(&full, Errno::NOENT))
    }

    /// Another handle on the same directory, if it is still ours alone.
    pub fn again(&self) -> Result<Self, PlaceError> {
        let fd = self.fd.try_clone().map_err(|error| PlaceError::Io { name: self.name.clone(), error })?;
        Self::checked(fd, self.name.clone())
    }

    /// At most `most` names, without `.` and `..`.
    pub fn list(&self, most: usize) -> Result<Listing, PlaceError> {
        self.list_of(most, |_| true)
    }

    /// At most `most` of the names that are `wanted`; all others count for nothing.
    pub fn list_of(&self, most: usize, wanted: impl Fn(&str) -> bool) -> Result<Listing, PlaceError> {
        let failed = |error| PlaceError::io(&self.name, error);
        let mut listing = Listing::default();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() == c"." || entry.file_name() == c".." {
                continue;
            }
            match entry.file_name().to_str() {
                Ok(name) if !wanted(name) => {}
                Err(_) => {
                    if listing.no_text.len() < MOST_NO_TEXT {
                        listing.no_text.push(entry.file_name().to_string_lossy().into_owned());
                    }
                }
                Ok(_) if listing.names.len() >= most => {
                    listing.left_out = true;
                    break;
                }
                Ok(name) => listing.names.push(name.to_owned()),
            }
        }
        listing.names.sort_unstable();
        Ok(listing)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> Result<bool, PlaceError> {
        Ok(self.list(1)? == Listing::default())
    }

    /// The file of this name; `None`: it is not there, or no regular file of ours.
    pub fn stamp(&self, name: &str) -> Result<Option<Stamp>, PlaceError> {
        let full = self.named(name)?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(is_our_file(&stat).then(|| stamp(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PlaceError::io(&full, error)),
        }
    }

    /// Whether anything at all has this name.
    pub fn has(&self, name: &str) -> Result<bool, PlaceError> {
        let full = self.named(name)?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(PlaceError::io(&full, error)),
        }
    }

    /// At most `most` bytes of a regular file of ours, with the stamp of what was read; `None`: it is not there.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<(Stamp, Vec<u8>)>, PlaceError> {
        self.read_then(name, most, || Ok(()))
    }

    /// The same, and removes the file before it is read; `None`: it is not there, and nothing was removed. So nothing is
    /// removed that is not given.
    pub fn take(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, PlaceError> {
        let read = self.read_then(name, most, || self.remove_file(name).map(drop))?;
        Ok(read.map(|(_, bytes)| bytes))
    }

    fn read_then(
        &self,
        name: &str,
        most: u64,
        opened: impl FnOnce() -> Result<(), PlaceError>,
    ) -> Result<Option<(Stamp, Vec<u8>)>, PlaceError> {
        let full = self.named(name)?;
        // A pipe of this name must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(not_ours(full, "is a symbolic link")),
            Err(error) => return Err(PlaceError::io(&full, error)),
        };
        let stat = fstat(&fd).map_err(|error| PlaceError::io(&full, error))?;
        if !is_our_file(&stat) {
            return Err(not_ours(full, "is another user's or no regular file"));
        }
        opened()?;
        let mut bytes = Vec::new();
        let read = File::from(fd).take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| PlaceError::Io { name: full.clone(), error })?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
            return Err(not_ours(full, &format!("has more than {most} bytes")));
        }
        Ok(Some((stamp(&stat), bytes)))
    }

    /// Writes a file (0600) that is complete at its first appearance and never takes another one's place.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, PlaceError> {
        let full = self.named(name)?;
        if self.has(name)? {
            return Ok(Put::Taken);
        }
        let unfinished = self.write_unfinished(name, bytes)?;
        let put = match self.name_once(&unfinished, name) {
            Ok(()) => Ok(Put::Placed),
            Err(Errno::EXIST) => Ok(Put::Taken),
            Err(error) => Err(PlaceError::io(&full, error)),
        };
        if !matches!(put, Ok(Put::Placed)) {
            let _ = unlinkat(&self.fd, &*unfinished, AtFlags::empty());
        }
        put
    }

    /// Writes a file (0600) that is complete at its first appearance, in the place of an older one.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), PlaceError> {
        let full = self.named(name)?;
        let unfinished = self.write_unfinished(name, bytes)?;
        renameat(&self.fd, &*unfinished, &self.fd, name).map_err(|error| {
            let _ = unlinkat(&self.fd, &*unfinished, AtFlags::empty());
            PlaceError::io(&full, error)
        })
    }

    /// Makes an empty file (0600) of this name, or leaves the one that is there. True: there was none.
    pub fn touch(&self, name: &str) -> Result<bool, PlaceError> {
        let full = self.named(name)?;
        let open = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        match openat(&self.fd, name, open | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(_) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(PlaceError::io(&full, error)),
        }
        match openat(&self.fd, name, open | OFlags::CREATE, mode) {
            Ok(_) => Ok(false),
            Err(error) => Err(PlaceError::io(&full, error)),
        }
    }

    /// What a file that is written in this directory now would have as its time, in nanoseconds since 1970: the clock of
    /// whoever keeps the file system.
    pub fn time(&self) -> Result<i128, PlaceError> {
        let unfinished = self.write_unfinished("time", b"")?;
        let seen = self.stamp(&unfinished);
        let _ = unlinkat(&self.fd, &*unfinished, AtFlags::empty());
        seen?.map(|stamp| stamp.modified_ns).ok_or_else(|| PlaceError::io(&unfinished, Errno::NOENT))
    }

    /// Removes a file; false: it was not there.
    pub fn remove_file(&self, name: &str) -> Result<bool, PlaceError> {
        let full = self.named(name)?;
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(PlaceError::io(&full, error)),
        }
    }

    /// Removes a directory if it is empty, as the system says it.
    pub(super) fn remove_dir(&self, name: &str) -> Result<(), Errno> {
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
    }

    /// Removes files whose writer died before they had their names.
    pub fn remove_unfinished(&self) -> Result<(), PlaceError> {
        for name in self.list(10_000)?.names {
            if name.starts_with('.') && name.ends_with(UNFINISHED) {
                self.remove_file(&name)?;
            }
        }
        Ok(())
    }

    /// What tells this directory from another one that has its name later.
    pub fn identity(&self) -> Result<(u64, u64), PlaceError> {
        let stat = fstat(&self.fd).map_err(|error| PlaceError::io(&self.name, error))?;
        Ok((number(stat.st_dev), stat.st_ino))
    }

    /// It was not removed: it is at its path, or was moved away from there.
    pub fn is_there(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| stat.st_nlink > 0)
    }

    fn write_unfinished(&self, name: &str, bytes: &[u8]) -> Result<String, PlaceError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!(".{name}.{}.{count}{UNFINISHED}", std::process::id());
        let full = self.named(&unfinished)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, &*unfinished, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| PlaceError::io(&full, error))?;
        File::from(fd).write_all(bytes).map_err(|error| {
            let _ = unlinkat(&self.fd, &*unfinished, AtFlags::empty());
            PlaceError::Io { name: full, error }
        })?;
        Ok(unfinished)
    }

    /// Gives a finished file its name, which nobody has: one step where the system can, else by a second link.
    fn name_once(&self, unfinished: &str, name: &str) -> Result<(), Errno> {
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.fd, unfinished, &self.fd, name, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                done => return done,
            }
        }
        rustix::fs::linkat(&self.fd, unfinished, &self.fd, name, AtFlags::empty())?;
        let _ = unlinkat(&self.fd, unfinished, AtFlags::empty());
        Ok(())
    }

    /// Full name for messages; refuses what is not one plain name.
    fn named(&self, name: &str) -> Result<String, PlaceError> {
        let full = format!("{}/{name}", self.name);
        if name.is_empty() || name == "." || name == ".." || name.contains('/') || name.contains('\0') {
            return Err(not_ours(full, "is not a plain name"));
        }
        Ok(full)
    }

    fn checked(fd: OwnedFd, name: String) -> Result<Self, PlaceError> {
        let stat = fstat(fd.as_fd()).map_err(|error| PlaceError::io(&name, error))?;
        let ours = rustix::process::geteuid().as_raw();
        if stat.st_uid != ours {
            return Err(not_ours(name, &format!("belongs to user {}, not to {ours}", stat.st_uid)));
        }
        // A requester's umask may leave it to its own group, as where every user has a group of his own.
        let mode = Mode::from_raw_mode(stat.st_mode);
        let group = stat.st_gid == rustix::process::getegid().as_raw();
        if mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && !group) {
            return Err(not_ours(name, "can be changed by other users (chmod 700)"));
        }
        Ok(Self { fd, name })
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn not_ours(name: String, why: &str) -> PlaceError {
    PlaceError::NotOurs { name, why: why.to_owned() }
}

fn is_our_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
}

fn stamp(stat: &Stat) -> Stamp {
    let modified_ns = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    Stamp { inode: stat.st_ino, size: u64::try_from(stat.st_size).unwrap_or(0), modified_ns }
}

/// Device numbers have another width on other systems.
fn number(device: impl TryInto<u64>) -> u64 {
    device.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn tree() -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::make_root(&temp.path().join("tree")).unwrap();
        (temp, root)
    }

    #[test]
    fn s6_no_name_and_no_link_leads_out_of_a_directory() {
        let (temp, root) = tree();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a.json"), "theirs").unwrap();
        for name in ["", ".", "..", "../outside", "../outside/a.json", "/tmp", "a/b", "a\0b"] {
            let name = name.replace("\\0", "\0");
            assert!(root.open(&name).is_err() && root.make(&name).is_err(), "{name:?}");
            assert!(root.put_new(&name, b"x").is_err() && root.replace(&name, b"x").is_err());
            assert!(root.read(&name, 10).is_err() && root.remove_file(&name).is_err());
            assert!(root.touch(&name).is_err() && root.stamp(&name).is_err() && root.has(&name).is_err());
        }
        symlink(&outside, temp.path().join("tree/link")).unwrap();
        symlink(outside.join("a.json"), temp.path().join("tree/a.json")).unwrap();
        symlink(outside.join("none.json"), temp.path().join("tree/none.json")).unwrap();
        assert!(matches!(root.open("link"), Err(PlaceError::NotADirectory(_))));
        assert!(matches!(root.make("link"), Err(PlaceError::NotADirectory(_))));
        assert!(root.read("a.json", 10).is_err() && root.touch("a.json").is_err());
        assert!(root.touch("none.json").is_err());
        assert_eq!(root.stamp("a.json").unwrap(), None);
        assert_eq!(root.put_new("a.json", b"ours").unwrap(), Put::Taken);
        assert_eq!(root.put_new("none.json", b"ours").unwrap(), Put::Taken);
        root.replace("a.json", b"ours").unwrap();
        assert!(root.remove_file("none.json").unwrap());
        assert_eq!(fs::read(outside.join("a.json")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        symlink(temp.path().join("tree"), temp.path().join("tree2")).unwrap();
        assert!(Dir::root(&temp.path().join("tree2")).is_err());
    }

    #[test]
    fn s6_a_directory_that_was_swapped_for_a_link_is_not_written_through() {
        let (temp, root) = tree();
        root.make("responses").unwrap();
        fs::create_dir(temp.path().join("outside")).unwrap();
        fs::remove_dir(temp.path().join("tree/responses")).unwrap();
        symlink(temp.path().join("outside"), temp.path().join("tree/responses")).unwrap();
        assert!(root.make("responses").is_err());
        assert_eq!(fs::read_dir(temp.path().join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn f1_a_file_appears_whole_and_never_over_another() {
        let (temp, root) = tree();
        let path = temp.path().join("tree/a.json");
        assert_eq!(root.put_new("a.json", b"first").unwrap(), Put::Placed);
        assert_eq!(root.put_new("a.json", b"second").unwrap(), Put::Taken);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(root.list(10).unwrap().names, ["a.json"], "nothing unfinished is left");
        root.replace("a.json", b"third").unwrap();
        assert_eq!(root.read("a.json", 5).unwrap().unwrap().1, b"third");
        assert!(root.read("a.json", 4).is_err(), "more than may be read");
        // Many at once: exactly one is placed.
        let placed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let dir = root.again().unwrap();
                    scope.spawn(move || dir.put_new("b.json", format!("{n}").as_bytes()).unwrap())
                })
                .collect();
            threads
                .into_iter()
                .filter(|_| true)
                .map(|t| t.join().unwrap())
                .filter(|p| *p == Put::Placed)
                .count()
        });
        assert_eq!(placed, 1);
        assert_eq!(root.list(10).unwrap().names, ["a.json", "b.json"]);
    }

    #[test]
    fn s7_a_name_that_is_no_text_leaves_nothing_else_out() {
        use std::os::unix::ffi::OsStrExt;
        let (temp, root) = tree();
        let odd = std::ffi::OsStr::from_bytes(b"\xff.json");
        fs::write(temp.path().join("tree").join(odd), "{}").unwrap();
        fs::write(temp.path().join("tree/a.json"), "{}").unwrap();
        let listing = root.list(1).unwrap();
        assert_eq!(
            (&*listing.names, listing.left_out, listing.no_text.len()),
            (&["a.json".to_owned()][..], false, 1)
        );
        fs::remove_file(temp.path().join("tree/a.json")).unwrap();
        assert!(!root.is_empty().unwrap());
    }

    #[test]
    fn f6_whoever_makes_a_directory_or_a_sentinel_knows_that_it_was_away() {
        let (temp, root) = tree();
        assert!(root.make_or_open("a").unwrap().1 && !root.make_or_open("a").unwrap().1);
        assert!(root.touch("k").unwrap() && !root.touch("k").unwrap());
        fs::remove_file(temp.path().join("tree/k")).unwrap();
        assert!(root.touch("k").unwrap());
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let before =
            i128::try_from(before.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()).unwrap();
        assert!(root.time().unwrap() > before);
        assert_eq!(root.list(10).unwrap().names, ["a", "k"]);
    }

    #[test]
    fn s6_what_others_own_or_can_change_is_refused_and_odd_files_do_not_block() {
        let (temp, root) = tree();
        let open = temp.path().join("tree/open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(root.open("open"), Err(PlaceError::NotOurs { .. })));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(root.open("open").unwrap().is_some());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&open, Some(4242), None).unwrap();
            assert!(matches!(root.open("open"), Err(PlaceError::NotOurs { .. })));
            fs::write(temp.path().join("tree/f.json"), "{}").unwrap();
            std::os::unix::fs::chown(temp.path().join("tree/f.json"), Some(4242), None).unwrap();
            assert!(root.read("f.json", 10).is_err());
            assert_eq!(root.stamp("f.json").unwrap(), None);
        }
        let pipe = temp.path().join("tree/p.json");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(root.read("p.json", 10).is_err());
        fs::create_dir(temp.path().join("tree/d.json")).unwrap();
        assert!(root.read("d.json", 10).is_err());
        assert_eq!(root.put_new("d.json", b"x").unwrap(), Put::Taken);
    }

    #[test]
    fn a_directory_that_is_gone_says_so_and_unfinished_files_are_swept() {
        let (temp, root) = tree();
        let dir = root.make("responses").unwrap();
        fs::write(temp.path().join("tree/responses/.a.json.1.2.askd-tmp"), "half").unwrap();
        fs::write(temp.path().join("tree/responses/b.json"), "whole").unwrap();
        dir.remove_unfinished().unwrap();
        assert_eq!(dir.list(10).unwrap().names, ["b.json"]);
        let listing = dir.list(0).unwrap();
        assert!(listing.names.is_empty() && listing.left_out);
        fs::remove_dir_all(temp.path().join("tree/responses")).unwrap();
        assert!(dir.put_new("a.json", b"x").unwrap_err().is_gone());
        let first = dir.identity().unwrap();
        assert_ne!(root.make("responses").unwrap().identity().unwrap(), first);
    }

    #[test]
    fn f5_what_is_taken_was_read_whatever_comes_in_between() {
        let (temp, root) = tree();
        assert_eq!(root.take("a.json", 100).unwrap(), None);
        // What is not ours to read stays.
        symlink(temp.path(), temp.path().join("tree/a.json")).unwrap();
        assert!(root.take("a.json", 100).is_err() && root.has("a.json").unwrap());
        root.remove_file("a.json").unwrap();
        // Whatever was put there is given to whoever takes it, and never removed unread.
        let many = 2000_u32;
        let taken = std::thread::scope(|scope| {
            let root = &root;
            scope.spawn(move || {
                for n in 0..many {
                    while root.put_new("a.json", n.to_string().as_bytes()).unwrap() == Put::Taken {
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = Vec::new();
            while taken.len() < many as usize {
                taken.extend(root.take("a.json", 100).unwrap());
            }
            taken
        });
        let expected: Vec<Vec<u8>> = (0..many).map(|n| n.to_string().into_bytes()).collect();
        assert_eq!(taken, expected);
        assert!(root.is_empty().unwrap());
    }
}
