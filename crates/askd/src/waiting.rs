//! Waiting for an outcome that somebody still wants: a signal, or the death of whoever called, ends the wait.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use askd_client::{Wake, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::process;

/// Where the caller cannot be watched, a change of our parent is looked for this often.
const TICK: Duration = Duration::from_secs(2);

/// Why the wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The calling process has ended, or nobody reads standard output any more.
    CallerGone,
}

/// Watches signals, the caller, and the daemon's socket.
#[derive(Debug)]
pub(crate) struct CallerWatch {
    signals: UnixStream,
    parent: u32,
    caller: Option<OwnedFd>,
    /// Standard output is a pipe whose reader may leave.
    output: bool,
    pub(crate) ended: Option<Ended>,
}

impl CallerWatch {
    /// From here on the three signals end the wait and not the process. `output`: also watch standard output.
    pub(crate) fn new(output: bool) -> io::Result<Self> {
        let (signals, told) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        told.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            pipe::register(signal, told.try_clone()?)?;
        }
        let parent = parent_id();
        Ok(Self { signals, parent, caller: caller(parent), output, ended: None })
    }

    fn caller_is_gone(&self) -> bool {
        self.caller.is_none() && parent_id() != self.parent
    }
}

/// A handle on the calling process. The first process of a machine or a container takes in orphans and calls nobody.
fn caller(parent: u32) -> Option<OwnedFd> {
    let handle = process::of(parent).filter(|_| parent > 1).and_then(process::handle)?;
    // It is the caller's only if that is still our parent.
    (parent_id() == parent).then_some(handle)
}

impl Watch for CallerWatch {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        let stdout = io::stdout();
        loop {
            if self.ended.is_some() {
                return Ok(Wake::Stop);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(Wake::TimedOut);
            }
            let mut wait = until.saturating_duration_since(now);
            if self.caller.is_none() && self.parent > 1 {
                wait = wait.min(TICK);
            }
            let wait = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            };
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            if let Some(socket) = socket {
                fds.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
            }
            let socket_at = socket.map(|_| 1);
            fds.extend(self.caller.as_ref().map(|caller| PollFd::new(caller, PollFlags::IN)));
            if self.output {
                // Error and hang-up are told without being asked for.
                fds.push(PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty()));
            }
            match poll(&mut fds, Some(&wait)) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let woke = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let signal = woke(0);
            let readable = socket_at.is_some_and(woke);
            let gone = (1..fds.len()).any(|at| Some(at) != socket_at && woke(at));
            if signal {
                let _ = self.signals.read(&mut [0; 16]);
                self.ended = Some(Ended::Signal);
            } else if readable {
                // An outcome that is there is told, also to a caller who is about to leave.
                return Ok(Wake::Readable);
            } else if gone || self.caller_is_gone() {
                self.ended = Some(Ended::CallerGone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_signal_ends_the_wait_and_a_readable_socket_does_not() {
        let mut watch = CallerWatch::new(false).unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        let soon = || Instant::now() + Duration::from_millis(1);
        assert_eq!(watch.wait(Some(near.as_fd()), soon()).unwrap(), Wake::TimedOut);
        far.write_all(b"x").unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(watch.wait(Some(near.as_fd()), later).unwrap(), Wake::Readable);
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(watch.wait(None, later).unwrap(), Wake::Stop);
        assert_eq!(watch.ended, Some(Ended::Signal));
    }
}
