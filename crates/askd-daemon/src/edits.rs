//! Sees an edit of the config when it is made, without looking now and then.
//!
//! The kernel tells about the directory, not the file: editors replace files by renaming, and a file that is taken away
//! may come back. Where the kernel tells nothing (other systems, some network file systems, a link far up in the path)
//! the daemon notices by itself before the next ask, so this only makes it sooner and is never relied on.

use crate::http::App;

/// Puts every edit into force until the daemon ends.
pub(crate) async fn follow(app: App) {
    loop {
        let eyes = match eyes::Eyes::open(app.live.file()) {
            Ok(eyes) => eyes,
            Err(error) => return unseen(&error),
        };
        // What happened before they were open.
        app.live.refresh(&app.engine, &app.hub).await;
        if let Err(error) = eyes.edited().await {
            return unseen(&error);
        }
        // The next round sees where the file is now: a directory or a link may be another one.
    }
}

fn unseen(error: &std::io::Error) {
    tracing::warn!("edits of the config are noticed at the next ask, not before: {error}");
}

#[cfg(target_os = "linux")]
mod eyes {
    use std::collections::{BTreeMap, BTreeSet};
    use std::ffi::{OsStr, OsString};
    use std::fs;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;
    use tokio::io::unix::AsyncFd;
    use tokio::time::{Instant, timeout};

    /// An edit is over when nothing more happens for this long: many editors take a file away before they write it.
    const QUIET: Duration = Duration::from_millis(100);
    /// A file that is written all the time is read all the same.
    const LONGEST: Duration = Duration::from_secs(2);

    /// A directory in the path of the config and the names in it that matter.
    struct Watched {
        dir: PathBuf,
        names: BTreeSet<OsString>,
    }

    pub(super) struct Eyes {
        fd: AsyncFd<OwnedFd>,
        watched: BTreeMap<i32, Watched>,
    }

    impl Eyes {
        pub(super) fn open(file: &Path) -> io::Result<Self> {
            let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let mut watched = BTreeMap::new();
            look(&fd, file, &mut watched)?;
            // The file may be a link to one that is edited where it is.
            if let Ok(real) = fs::canonicalize(file) {
                look(&fd, &real, &mut watched)?;
            }
            Ok(Self { fd: crate::fd::readable(fd)?, watched })
        }

        /// Waits for an edit, and for its end.
        pub(super) async fn edited(&self) -> io::Result<()> {
            while !self.told().await? {}
            let end = Instant::now() + LONGEST;
            while Instant::now() < end {
                match timeout(QUIET, self.told()).await {
                    Ok(told) => drop(told?),
                    Err(_quiet) => break,
                }
            }
            Ok(())
        }

        /// Waits for anything; whether it is about the config.
        pub(super) async fn told(&self) -> io::Result<bool> {
            loop {
                let mut ready = self.fd.readable().await?;
                match ready.try_io(|fd| self.read(fd.get_ref())) {
                    Ok(told) => return told,
                    Err(_would_block) => {}
                }
            }
        }

        fn read(&self, fd: &OwnedFd) -> io::Result<bool> {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(fd, &mut buffer);
            let event = reader.next()?;
            let mut matters = self.matters(event.wd(), event.events(), event.file_name());
            while !reader.is_buffer_empty() {
                let event = reader.next()?;
                matters |= self.matters(event.wd(), event.events(), event.file_name());
            }
            Ok(matters)
        }

        fn matters(&self, wd: i32, what: ReadFlags, name: Option<&std::ffi::CStr>) -> bool {
            let (Some(watched), Some(name)) = (self.watched.get(&wd), name) else {
                // About the directory itself, or more happened than could be told.
                return true;
            };
            let name = OsStr::from_bytes(name.to_bytes());
            if !watched.names.contains(name) {
                return false;
            }
            // A new file is empty: it is read when it was written. Links are there as a whole.
            let is_new_file = what.contains(ReadFlags::CREATE) && !what.contains(ReadFlags::ISDIR);
            let is_a_link = || {
                let meta = fs::symlink_metadata(watched.dir.join(name));
                meta.is_ok_and(|meta| meta.is_symlink() || meta.nlink() > 1)
            };
            !is_new_file || is_a_link()
        }
    }

    /// Watches the directory of the file; when it is not there the nearest one above it, for what leads there.
    fn look(fd: &OwnedFd, file: &Path, watched: &mut BTreeMap<i32, Watched>) -> io::Result<()> {
        let what = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut path = file;
        loop {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::ErrorKind::NotFound.into());
            };
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            match add_watch(fd, dir, what) {
                Ok(wd) => {
                    let new = || Watched { dir: dir.to_path_buf(), names: BTreeSet::new() };
                    watched.entry(wd).or_insert_with(new).names.insert(name.to_owned());
                    if path == file || !path.is_dir() {
                        return Ok(());
                    }
                    // It was made in between.
                    path = file;
                }
                Err(Errno::NOENT | Errno::NOTDIR) => path = dir,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing step ends the test")]

    use std::fs;
    use std::path::Path;

    use super::eyes::Eyes;

    fn run(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work);
    }

    fn told(file: &Path, edit: impl FnOnce()) -> bool {
        let mut told = None;
        run(async {
            let eyes = Eyes::open(file).unwrap();
            edit();
            told = Some(eyes.told().await.unwrap());
        });
        told.unwrap()
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_seen_to_come_whatever_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/config.toml");
        assert!(told(&file, || fs::create_dir(dir.path().join("a")).unwrap()));
        assert!(told(&file, || fs::create_dir(dir.path().join("a/b")).unwrap()));
        assert!(told(&file, || fs::write(&file, "x").unwrap()));
        assert!(told(&file, || fs::remove_file(&file).unwrap()));
        assert!(told(&file, || fs::remove_dir(dir.path().join("a/b")).unwrap()));
    }

    #[test]
    fn the_other_files_beside_it_are_not_its_edits_and_an_empty_new_one_is_none_yet() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        assert!(!told(&file, || fs::write(dir.path().join("config.toml~"), "x").unwrap()));
        assert!(!told(&file, || fs::create_dir(dir.path().join("state")).unwrap()));
        let mut open = None;
        assert!(!told(&file, || open = Some(fs::File::create(&file).unwrap())));
        assert!(told(&file, || drop(open)));
    }
}

#[cfg(not(target_os = "linux"))]
mod eyes {
    use std::io;
    use std::path::Path;

    /// Sees nothing.
    pub(super) struct Eyes;

    impl Eyes {
        #[expect(clippy::unnecessary_wraps, reason = "the same shape as where there is something to open")]
        pub(super) fn open(_file: &Path) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn edited(&self) -> io::Result<()> {
            std::future::pending().await
        }
    }
}
