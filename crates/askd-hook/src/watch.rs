//! Waits for the daemon and notices at once when the agent is gone or nobody reads what would be printed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use askd_client::{Wake, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Without a handle on the agent's process its death is noticed at this interval, as a change of our parent.
const TICK: Duration = Duration::from_secs(2);

/// The agent that called this hook.
#[derive(Debug)]
pub(crate) struct AgentWatch {
    agent: Option<OwnedFd>,
    parent: u32,
    /// The agent was gone before anything could be watched.
    gone: bool,
    /// The wait is pointless after this, whatever the daemon does.
    limit: Option<Instant>,
}

impl AgentWatch {
    pub(crate) fn new(agent_pid: u32, limit: Option<Instant>) -> Self {
        let pid = i32::try_from(agent_pid).ok().and_then(Pid::from_raw);
        let opened = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let gone = matches!(opened, Some(Err(Errno::SRCH)));
        Self { agent: opened.and_then(Result::ok), parent: parent_id(), gone, limit }
    }
}

impl Watch for AgentWatch {
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
            if let Some(socket) = socket {
                fds.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
            }
            match poll(&mut fds, Some(&timespec(wait))) {
                Ok(0) | Err(Errno::INTR) => self.gone = self.agent.is_none() && parent_id() != self.parent,
                Ok(_) => {
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
