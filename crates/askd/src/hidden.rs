//! Lines that a person types and that are not shown. However it ends, the terminal shows again what is typed.

use std::io::{self, BufRead};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::out;

/// As a shell has it for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Lines that are not shown while they are typed.
pub(crate) struct Hidden {
    /// Of signals that would end this program.
    told: UnixStream,
    /// They do what they usually do.
    usual: Arc<AtomicBool>,
}

impl Hidden {
    /// Once for each program: signals cannot be let go again.
    pub(crate) fn begin() -> Result<Self, Failure> {
        let made = || -> io::Result<Self> {
            let (told, tell) = UnixStream::pair()?;
            told.set_nonblocking(true)?;
            let usual = Arc::new(AtomicBool::new(true));
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                signal_hook::flag::register_conditional_default(signal, Arc::clone(&usual))?;
                signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
            }
            Ok(Self { told, usual })
        };
        made().map_err(|error| Failure::unavailable(format!("signals: {error}")))
    }

    pub(crate) fn line(&mut self) -> Result<String, Failure> {
        let failed = |error: io::Error| Failure::unavailable(format!("standard input: {error}"));
        let before = tcgetattr(io::stdin()).map_err(|error| failed(error.into()))?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        self.usual.store(false, Ordering::SeqCst);
        let read = tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)
            .map_err(io::Error::from)
            .and_then(|()| self.read());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        self.usual.store(true, Ordering::SeqCst);
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                out::print_line("")?;
                Err(Failure::new(INTERRUPTED, "stopped; nothing was changed"))
            }
            Err(error) => Err(failed(error)),
            Ok(line) if line.is_empty() => Err(Failure::wrong_use("nothing was typed; nothing was changed")),
            Ok(line) => Ok(line),
        }
    }

    fn read(&self) -> io::Result<String> {
        let stdin = io::stdin();
        loop {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.told, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[1].revents().is_empty() => return Err(io::ErrorKind::Interrupted.into()),
                // The terminal gives whole lines.
                Ok(_) if !fds[0].revents().is_empty() => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut line = String::new();
        stdin.lock().read_line(&mut line)?;
        Ok(line)
    }
}
