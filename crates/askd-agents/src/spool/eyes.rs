//! Hints of the kernel that something in a tree changed. They only make a look sooner: where the kernel tells nothing,
//! and for whatever it forgot, there is the look every second.

use std::collections::BTreeSet;

/// What is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) everything: bool,
    pub(super) sessions: BTreeSet<String>,
}

pub(super) use system::Eyes;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::BTreeMap;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::path::Path;

    use askd_client::spool::{REQUESTS, RESPONSES, SENTINEL, SESSIONS};
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
    use rustix::io::Errno;

    use super::Hints;

    /// Which directory a watch is on.
    #[derive(Debug)]
    enum Of {
        /// The root, or the directory of all sessions.
        Above,
        Session(String),
        /// A session's `requests/` or `responses/`.
        Files(String),
    }

    #[derive(Debug)]
    pub(crate) struct Eyes {
        fd: Option<OwnedFd>,
        watched: BTreeMap<i32, Of>,
        blind: Option<&'static str>,
    }

    /// Directories of one tree that are watched; what is in the others is found by looking.
    const MOST_WATCHED: usize = 4096;

    impl Eyes {
        /// `on` false: no hints at all.
        pub(crate) fn open(on: bool) -> Self {
            let flags = CreateFlags::NONBLOCK | CreateFlags::CLOEXEC;
            let fd = on.then(|| init(flags).ok()).flatten();
            let blind = (on && fd.is_none()).then_some("the kernel tells nothing (no inotify left)");
            Self { fd, watched: BTreeMap::new(), blind }
        }

        /// Why not everything is told, since the last time this was asked.
        pub(crate) fn blind(&mut self) -> Option<&'static str> {
            self.blind.take()
        }

        pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
            self.fd.as_ref().map(AsFd::as_fd)
        }

        /// Sees what happens to the sessions from here on, also in directories that were made again.
        pub(crate) fn watch_root(&mut self, root: &Path) {
            self.add(root, Of::Above);
            self.add(&root.join(SESSIONS), Of::Above);
        }

        pub(crate) fn watch_session(&mut self, root: &Path, session: &str) {
            let dir = root.join(SESSIONS).join(session);
            self.add(&dir, Of::Session(session.to_owned()));
            for files in [REQUESTS, RESPONSES] {
                self.add(&dir.join(files), Of::Files(session.to_owned()));
            }
        }

        fn add(&mut self, path: &Path, of: Of) {
            let what = WatchFlags::CREATE
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            let Some(fd) = &self.fd else { return };
            // What cannot be watched is looked at every second all the same.
            match add_watch(fd, path, what) {
                Ok(wd) if self.watched.len() >= MOST_WATCHED && !self.watched.contains_key(&wd) => {
                    let _ = remove_watch(fd, wd);
                    self.blind = Some("more directories are there than are watched");
                }
                Ok(wd) => drop(self.watched.insert(wd, of)),
                Err(Errno::NOSPC | Errno::NOMEM) => {
                    self.blind = Some("the kernel has no more watches (fs.inotify.max_user_watches)");
                }
                Err(_) => {}
            }
        }

        /// Everything that was told since the last time.
        pub(crate) fn read(&mut self) -> Hints {
            let mut hints = Hints::default();
            let Some(fd) = &self.fd else { return hints };
            let mut gone = Vec::new();
            let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
            let mut reader = Reader::new(fd, &mut buffer);
            while let Ok(event) = reader.next() {
                let what = event.events();
                if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                    hints.everything = true;
                    continue;
                }
                if what.contains(ReadFlags::IGNORED) {
                    gone.push(event.wd());
                }
                let name = event.file_name().map(|name| name.to_bytes());
                match self.watched.get(&event.wd()) {
                    // Half-written files, also those of our own, are nothing; no session has such a name.
                    Some(Of::Above) => hints.everything |= !name.is_some_and(|name| name.starts_with(b".")),
                    Some(Of::Session(session)) => {
                        hints.sessions.insert(session.clone());
                    }
                    Some(Of::Files(session)) => {
                        // Half-written files are nothing yet; a new empty one neither.
                        let hidden = name.is_some_and(|name| {
                            name.starts_with(b".")
                                && !(name == SENTINEL.as_bytes() && what.contains(ReadFlags::DELETE))
                        });
                        if !hidden && !what.contains(ReadFlags::CREATE) {
                            hints.sessions.insert(session.clone());
                        }
                    }
                    None => {}
                }
            }
            for wd in gone {
                self.watched.remove(&wd);
            }
            hints
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::os::fd::BorrowedFd;
    use std::path::Path;

    use super::Hints;

    /// Sees nothing.
    #[derive(Debug)]
    pub(crate) struct Eyes;

    impl Eyes {
        pub(crate) fn open(_on: bool) -> Self {
            Self
        }

        pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        pub(crate) fn blind(&mut self) -> Option<&'static str> {
            None
        }

        pub(crate) fn watch_root(&mut self, _root: &Path) {}

        pub(crate) fn watch_session(&mut self, _root: &Path, _session: &str) {}

        pub(crate) fn read(&mut self) -> Hints {
            Hints::default()
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn f7_files_that_are_hidden_make_nobody_look_and_what_matters_does() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let mut eyes = Eyes::open(true);
        std::fs::create_dir_all(at("sessions/s/requests")).unwrap();
        eyes.watch_root(temp.path());
        eyes.watch_session(temp.path(), "s");
        let mut write = |name: &str| {
            std::fs::write(at(name), "x").unwrap();
            std::fs::remove_file(at(name)).unwrap();
            let hints = eyes.read();
            (hints.everything, hints.sessions.len())
        };
        assert_eq!(
            write(".time.7.1.askd-tmp"),
            (false, 0),
            "a look that asks for the time is followed by none"
        );
        assert_eq!(write("sessions/.x"), (false, 0));
        assert_eq!(write("sessions/s/requests/.r.json.1"), (false, 0));
        assert_eq!(write("sessions/s/requests/r.json"), (false, 1));
        assert_eq!(write("sessions/s/requests/.askd-keep"), (false, 1));
        std::fs::create_dir(at("sessions/t")).unwrap();
        assert!(eyes.read().everything);
        std::fs::remove_dir_all(at("sessions")).unwrap();
        assert!(eyes.read().everything);
    }
}
