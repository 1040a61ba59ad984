//! Waits for the daemon and notices at once when the agent is gone or nobody reads what would be printed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use askd_client::{Wake, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Without a handle on the agent's process its death is noticed at this interval, as a change of our parent.
const TICK: Duration = Duration::from_secs(2);

/// The agent that called this hook.
pub(crate) struct AgentWatch<'a> {
    /// Readable once the agent has told this hook to end.
    told: Option<UnixStream>,
    /// Done once then, while the daemon still holds the connection.
    cancelled: Box<dyn FnMut() + 'a>,
    agent: Option<OwnedFd>,
    parent: u32,
    /// The agent was gone before anything could be watched.
    gone: bool,
    /// The wait is pointless after this, whatever the daemon does.
    limit: Option<Instant>,
}

impl<'a> AgentWatch<'a> {
    /// `cancelled` is called when the agent ends this hook by SIGTERM: a No or Esc in its own dialog, an interrupt.
    pub(crate) fn new(agent_pid: u32, limit: Option<Instant>, cancelled: impl FnMut() + 'a) -> Self {
        let pid = i32::try_from(agent_pid).ok().and_then(Pid::from_raw);
        let opened = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let gone = matches!(opened, Some(Err(Errno::SRCH)));
        let agent = opened.and_then(Result::ok);
        Self { told: told(), cancelled: Box::new(cancelled), agent, parent: parent_id(), gone, limit }
    }
}

/// The end that becomes readable at SIGTERM; without one the signal keeps its default action.
fn told() -> Option<UnixStream> {
    let (read, write) = UnixStream::pair().ok()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, write).ok()?;
    Some(read)
}

impl Watch for AgentWatch<'_> {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        let stdout = io::stdout();
        loop {
            let now = Instant::now();
            if self.gone || self.limit.is_some_and(|limit| now >= limit) {
                return Ok(Wake::Stop);
            }
            if now >= until {
                return Ok(Wake::TimedOut);
            }
            let mut wait = self.limit.map_or(until, |limit| until.min(limit)).saturating_duration_since(now);
            // Nothing is expected on stdout: error and hang-up are told without being asked for.
            let mut fds = vec![PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
            match &self.agent {
                Some(agent) => fds.push(PollFd::new(agent, PollFlags::IN)),
                None => wait = wait.min(TICK),
            }
            let told = fds.len();
            fds.extend(self.told.as_ref().map(|told| PollFd::new(told, PollFlags::IN)));
            if let Some(socket) = socket {
                fds.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
            }
            match poll(&mut fds, Some(&timespec(wait))) {
                Ok(0) | Err(Errno::INTR) => self.gone = self.agent.is_none() && parent_id() != self.parent,
                Ok(_) => {
                    let is_told = self.told.is_some() && !fds[told].revents().is_empty();
                    if is_told {
                        drop(fds);
                        (self.cancelled)();
                        return Ok(Wake::Stop);
                    }
                    let agents = fds.len() - usize::from(socket.is_some());
                    // A dead reader or agent comes before an outcome that nobody would get.
                    if fds[..agents].iter().any(|fd| !fd.revents().is_empty()) {
                        return Ok(Wake::Stop);
                    }
                    return Ok(Wake::Readable);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}
