//! Hints that something happened in directories, from the kernel where it tells. They are never relied on: whoever waits
//! looks for himself now and then.

use std::os::fd::BorrowedFd;

use super::place::Dir;

#[cfg(target_os = "linux")]
pub(super) use linux::Hints;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Hints;

#[cfg(target_os = "linux")]
pub use linux::is_shared;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::is_shared;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    use rustix::fs::fstatfs;
    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

    use super::{BorrowedFd, Dir};

    /// File systems whose other writers may be on another machine, or behind another kernel's back: NFS, SMB (three
    /// times), 9P, FUSE, Ceph, AFS.
    const DEAF: [u64; 8] =
        [0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6573_5546, 0x00C3_6400, 0x5346_414F];

    /// Whether a directory may have writers on another machine, whose processes are not to be seen here.
    pub fn is_shared(dir: &Dir) -> bool {
        fstatfs(dir).map_or(true, |stat| {
            DEAF.contains(&(u64::try_from(stat.f_type).unwrap_or_default() & 0xFFFF_FFFF))
        })
    }

    #[derive(Debug)]
    pub(in super::super) struct Hints(OwnedFd);

    impl Hints {
        /// `None`: none can be had, and looking is all there is.
        pub(in super::super) fn open() -> Option<Self> {
            init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok().map(Self)
        }

        /// Whether everything that happens in this directory will be told.
        pub(in super::super) fn watch(&self, dir: &Dir) -> bool {
            let deaf = is_shared(dir);
            let what = WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            // By its descriptor: the name may be another directory's by now.
            let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
            add_watch(&self.0, path, what).is_ok() && !deaf
        }

        /// Readable when something was told.
        pub(in super::super) fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        /// Forgets what was told so far.
        pub(in super::super) fn drain(&self) {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.0, &mut buffer);
            while reader.next().is_ok() {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{BorrowedFd, Dir};

    /// There are none here.
    #[derive(Debug)]
    pub(in super::super) enum Hints {}

    impl Hints {
        pub(in super::super) fn open() -> Option<Self> {
            None
        }

        pub(in super::super) fn watch(&self, _dir: &Dir) -> bool {
            match *self {}
        }

        pub(in super::super) fn fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }

        pub(in super::super) fn drain(&self) {
            match *self {}
        }
    }
}
