//! Which askd serves a session: a lock outside the tree, which the kernel releases when its process ends however it
//! ends. No request is moved, and nothing is left in the tree that would have to be taken away.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use askd_client::{UnsafePlace, make_private_directory};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Those who tidy the place take away what nobody has touched for days.
const TOUCH: Duration = Duration::from_secs(3600);

/// The locks of one tree that this process holds.
#[derive(Debug)]
pub(super) struct Locks {
    dir: PathBuf,
    /// The root of the tree by what it is, whatever way leads to it; `None`: it is not there yet.
    tree: Option<(u64, u64)>,
    held: BTreeMap<String, File>,
}

/// What became of an attempt to take a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Now,
    /// It was taken before.
    Before,
    /// Another process has it; its number where it could be read.
    Other(Option<u32>),
}

impl Locks {
    /// `dir` is the same for every askd of a user, whatever its places are.
    pub(super) fn open(dir: &Path) -> Result<Self, UnsafePlace> {
        make_private_directory(dir)?;
        Ok(Self { dir: dir.to_path_buf(), tree: None, held: BTreeMap::new() })
    }

    /// From here on locks are those of this directory; those of another one are let go.
    pub(super) fn of(&mut self, tree: (u64, u64)) {
        if self.tree != Some(tree) {
            self.release_all();
            self.tree = Some(tree);
        }
    }

    /// Which directory the locks are of.
    pub(super) fn tree(&self) -> Option<(u64, u64)> {
        self.tree
    }

    /// Takes the session, or has it.
    pub(super) fn take(&mut self, session: &str) -> io::Result<Taken> {
        let Some(path) = self.path(session) else { return Ok(Taken::Other(None)) };
        if let Some(file) = self.held.get(session) {
            // Whoever tidies the place may have taken its name, and then another process may have it by that.
            if is_named(file, &path) {
                touch(file);
                return Ok(Taken::Before);
            }
            self.held.remove(session);
        }
        loop {
            let file = match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_private_directory(&self.dir).map_err(io::Error::other)?;
                    open(&path)?
                }
                file => file?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Taken::Other(holder(&file))),
                Err(error) => return Err(error.into()),
            }
            // Whoever held it before may have removed its name in between.
            if is_named(&file, &path) {
                // For people only.
                let _ = file.set_len(0).and_then(|()| write!(&file, "{}", std::process::id()));
                self.held.insert(session.to_owned(), file);
                return Ok(Taken::Now);
            }
        }
    }

    /// Lets others have the session.
    pub(super) fn release(&mut self, session: &str) {
        if let Some(file) = self.held.remove(session) {
            // Its name goes while it is held: nobody can have locked another file of this name.
            if let Some(path) = self.path(session).filter(|path| is_named(&file, path)) {
                let _ = std::fs::remove_file(path);
            }
            drop(file);
        }
    }

    fn release_all(&mut self) {
        for session in self.held.keys().cloned().collect::<Vec<_>>() {
            self.release(&session);
        }
    }

    fn path(&self, session: &str) -> Option<PathBuf> {
        Some(self.dir.join(name(self.tree?, session)))
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// Who serves a session now: `None`: nobody; `Some(None)`: somebody whose number cannot be read.
pub(super) fn server_of(dir: &Path, tree: (u64, u64), session: &str) -> Option<Option<u32>> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(dir.join(name(tree, session))).ok()?;
    // Shared, so that two who only look do not take each other for a server.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(holder(&file)),
        _ => None,
    }
}

fn name(tree: (u64, u64), session: &str) -> String {
    format!("{:x}-{:x}-{:016x}.lock", tree.0, tree.1, fnv1a(session.as_bytes()))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default())
        .open(path)
}

/// It is in use, also for those who go by its age.
fn touch(file: &File) {
    let age = file.metadata().and_then(|meta| meta.modified()).map(|modified| modified.elapsed());
    if !age.is_ok_and(|age| age.is_ok_and(|age| age < TOUCH)) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn is_named(file: &File, path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|named| {
        file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (named.dev(), named.ino()))
    })
}

/// What its holder wrote into it.
fn holder(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The directory for the locks of this user.
pub(super) fn default_dir() -> PathBuf {
    PathBuf::from(format!("/tmp/askd-{}-spool", rustix::process::geteuid().as_raw()))
}

/// Names a tree or session; two of one name share a lock, which makes one wait for the other and harms nobody.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f14_a_session_has_one_server_and_a_dead_one_has_none() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("locks");
        let open = |tree: u64| {
            let mut locks = Locks::open(&dir).unwrap();
            locks.of((1, tree));
            locks
        };
        let (mut one, mut two) = (open(1), open(1));
        let mut other_tree = open(2);
        let other = Taken::Other(Some(std::process::id()));
        assert_eq!(Locks::open(&dir).unwrap().take("a").unwrap(), Taken::Other(None), "no tree yet");
        assert_eq!(one.take("a").unwrap(), Taken::Now);
        assert_eq!(one.take("a").unwrap(), Taken::Before);
        assert_eq!(server_of(&dir, (1, 1), "a"), Some(Some(std::process::id())));
        assert_eq!(server_of(&dir, (1, 1), "b"), None);
        assert_eq!(two.take("a").unwrap(), other);
        assert_eq!(two.take("b").unwrap(), Taken::Now);
        assert_eq!(other_tree.take("a").unwrap(), Taken::Now, "another tree's session of the same name");
        one.release("a");
        assert_eq!(server_of(&dir, (1, 1), "a"), None);
        assert_eq!(two.take("a").unwrap(), Taken::Now);
        assert_eq!(one.take("a").unwrap(), other);
        // As at a kill: the descriptor is closed, its name stays.
        two.held.remove("a");
        assert_eq!(one.take("a").unwrap(), Taken::Now);
        // Its name is taken away: whoever comes next has it, and who had it knows.
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(two.take("a").unwrap(), Taken::Now);
        assert_eq!(one.take("a").unwrap(), other);
        // It is touched now and then, for those who take away what is old.
        let path = two.path("a").unwrap();
        let old = SystemTime::now() - 2 * TOUCH;
        File::open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(two.take("a").unwrap(), Taken::Before);
        assert!(path.metadata().unwrap().modified().unwrap() > old + TOUCH);
        // Only its name went, and nobody has it: it is taken again.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(two.take("a").unwrap(), Taken::Now);
        assert_eq!(one.take("a").unwrap(), other);
        // The root is another directory now.
        one.of((1, 3));
        assert_eq!(one.take("a").unwrap(), Taken::Now);
        drop((one, two, other_tree));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn f14_of_many_that_take_and_release_at_the_same_time_never_two_have_it() {
        let temp = tempfile::tempdir().unwrap();
        let having = std::sync::atomic::AtomicU32::new(0);
        let taken: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut locks = Locks::open(&temp.path().join("locks")).unwrap();
                        locks.of((1, 1));
                        let mut taken = 0;
                        for _ in 0..3000 {
                            if locks.take("a").unwrap() == Taken::Now {
                                taken += 1;
                                let before = having.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                                assert_eq!(before, 0, "two have it");
                                having.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                                locks.release("a");
                            }
                        }
                        taken
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(taken > 0);
    }
}
