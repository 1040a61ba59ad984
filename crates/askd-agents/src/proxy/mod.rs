//! What every proxy between two peers has besides its protocol: the agent as a child, ways out that never block a
//! reader, a clock, a log, and the way to the daemon. It knows no protocol, and never decides.
//!
//! Read [`Protocol`] (a machine as [`serve()`] runs it), [`Action`] (what it wants done), [`Errand`] (what of that the
//! daemon has to do) and [`News`] (what comes back) first.

mod act;
mod asks;
pub(crate) mod clock;
mod desk;
mod errand;
mod fit;
mod late;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod outlet;
pub(crate) mod pipe;
mod presence;
mod reply;
mod serve;

use std::io::{self, BufRead, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use act::{Action, End};
pub use errand::{Answered, AskLimit, AskNo, Errand, News};
pub(crate) use errand::{afterwards, decision_in, plain_ask};
pub(crate) use fit::{fitted, only_there};
pub(crate) use serve::{Owner, Protocol, Start, behind_another, serve};

/// Bytes that are read at once, and that a pipe is made to hold: long lines pass in few steps.
pub(crate) const CHUNK: usize = 512 * 1024;
/// What is still to be told to the daemon and to a peer when the agent has ended.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long an agent may live on after its input was closed and nobody reads it.
pub(crate) const LINGER: Duration = Duration::from_secs(10);
/// How often it is looked at whether anybody reads it, once its input was closed.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// Longest line that is taken; a peer that sends more speaks no protocol of lines.
const LONGEST_LINE: u64 = 1024 * 1024 * 1024;

/// The agent could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{program}: {source}")]
pub struct CannotStart {
    pub program: String,
    pub source: io::Error,
}

/// A line with its end, or what is left before the end of file.
pub(crate) fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.len() as u64 == LONGEST_LINE {
        return Err(io::Error::other("a line of more than 1 GiB"));
    }
    Ok(Some(line))
}

/// A descriptor of our own that no program we start inherits.
pub(crate) fn private(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

/// What is no pipe, or may not be wider, stays as it is.
#[cfg(target_os = "linux")]
pub(crate) fn widen(pipe: BorrowedFd<'_>) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, CHUNK);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn widen(_pipe: BorrowedFd<'_>) {}

/// The exit status of a process that ends as this one did; 128 and the signal's number when a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
