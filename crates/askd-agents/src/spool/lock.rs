//! Which askd serves a session: a lock outside the tree, which the kernel releases when its process ends however it
//! ends. No request is moved, and nothing is left in the tree that would have to be taken away.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use askd_client::{UnsafePlace, make_private_directory};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// The locks of one tree that this process holds.
#[derive(Debug)]
pub(super) struct Locks {
    dir: PathBuf,
    /// Part of every lock's name: the tree.
    tree: u64,
    held: BTreeMap<String, File>,
}

impl Locks {
    /// Locks for the tree at this real path. `dir` is the same for every askd of a user, whatever its places are.
    pub(super) fn open(dir: &Path, tree: &Path) -> Result<Self, UnsafePlace> {
        make_private_directory(dir)?;
        let tree = fnv1a(tree.as_os_str().as_encoded_bytes());
        Ok(Self { dir: dir.to_path_buf(), tree, held: BTreeMap::new() })
    }

    /// Takes the session, or has it. False: another process has.
    pub(super) fn take(&mut self, session: &str) -> io::Result<bool> {
        if self.held.contains_key(session) {
            return Ok(true);
        }
        let path = self.path(session);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default())
                .open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            // Whoever held it before may have removed its name in between.
            let same = path.symlink_metadata().is_ok_and(|named| {
                file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (named.dev(), named.ino()))
            });
            if same {
                self.held.insert(session.to_owned(), file);
                return Ok(true);
            }
        }
    }

    pub(super) fn holds(&self, session: &str) -> bool {
        self.held.contains_key(session)
    }

    /// Lets others have the session.
    pub(super) fn release(&mut self, session: &str) {
        if let Some(file) = self.held.remove(session) {
            // Its name goes while it is held: nobody can have locked another file of this name.
            let _ = std::fs::remove_file(self.path(session));
            drop(file);
        }
    }

    fn path(&self, session: &str) -> PathBuf {
        self.dir.join(format!("{:016x}-{:016x}.lock", self.tree, fnv1a(session.as_bytes())))
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        for session in self.held.keys().cloned().collect::<Vec<_>>() {
            self.release(&session);
        }
    }
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
        let open = || Locks::open(&dir, Path::new("/tree")).unwrap();
        let (mut one, mut two) = (open(), open());
        let mut other_tree = Locks::open(&dir, Path::new("/tree2")).unwrap();
        assert!(one.take("a").unwrap() && one.take("a").unwrap() && one.holds("a"));
        assert!(!two.take("a").unwrap() && two.take("b").unwrap());
        assert!(other_tree.take("a").unwrap(), "another tree's session of the same name");
        one.release("a");
        assert!(two.take("a").unwrap() && !one.take("a").unwrap());
        // As at a kill: the descriptor is closed, its name stays.
        two.held.remove("a");
        assert!(one.take("a").unwrap());
        drop(one);
        assert!(two.take("a").unwrap());
        drop((two, other_tree));
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
                        let mut locks = Locks::open(&temp.path().join("locks"), Path::new("/t")).unwrap();
                        let mut taken = 0;
                        for _ in 0..3000 {
                            if locks.take("a").unwrap() {
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
