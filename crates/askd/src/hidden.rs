//! A line that a person types and that is not shown. However it ends, the terminal shows again what is typed.

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

/// A line that is not shown while it is typed.
pub(crate) fn hidden_line() -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::unavailable(format!("standard input: {error}"));
    let before = tcgetattr(io::stdin()).map_err(|error| failed(error.into()))?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    tcsetattr(io::stdin(), OptionalActions::Flush, &quiet).map_err(|error| failed(error.into()))?;
    let mut line = String::new();
    let read = Interrupt::catch().and_then(|interrupt| {
        interrupt.wait()?;
        io::stdin().lock().read_line(&mut line)
    });
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    match read {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            out::print_line("")?;
            Err(Failure::new(INTERRUPTED, "stopped; nothing was changed"))
        }
        Err(error) => Err(failed(error)),
        Ok(0) => Err(Failure::wrong_use("nothing was typed; nothing was changed")),
        Ok(_) => Ok(line),
    }
}

/// Ctrl-C while a terminal shows nothing of what is typed: it must not be left so.
struct Interrupt {
    told: UnixStream,
    /// Signals do again what they usually do.
    over: Arc<AtomicBool>,
}

impl Interrupt {
    fn catch() -> io::Result<Self> {
        let (told, tell) = UnixStream::pair()?;
        let over = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&over))?;
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(Self { told, over })
    }

    /// Until there is a line to read.
    fn wait(&self) -> io::Result<()> {
        let stdin = io::stdin();
        loop {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.told, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if fds[1].revents().contains(PollFlags::IN) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Ok(_) if !fds[0].revents().is_empty() => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}
