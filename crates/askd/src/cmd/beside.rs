//! A process that stays beside the agent it started: it has the same terminal, hands termination signals on and ends
//! as the agent ends.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::thread;

use askd_agents::foreground::terminal_has_sent_it;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::failure::{Failure, status};

const SIGKILL: i32 = Signal::KILL.as_raw();
const SIGABRT: i32 = Signal::ABORT.as_raw();
const SIGSEGV: i32 = Signal::SEGV.as_raw();
const SIGBUS: i32 = Signal::BUS.as_raw();

/// By a signal that no program ends itself with.
pub(super) fn was_killed(ended: ExitStatus) -> bool {
    matches!(ended.signal(), Some(SIGKILL | SIGABRT | SIGSEGV | SIGBUS))
}

/// As a shell tells it.
pub(super) fn status_of(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(status::DENIED)
}

/// Signals that end a program. Those that the terminal sends reach the agent by themselves; the others are handed on.
pub(super) struct Signals(Vec<(UnixStream, Signal)>);

impl Signals {
    pub(super) fn catch() -> Result<Self, Failure> {
        let catch = |(number, signal): (i32, Signal)| -> io::Result<(UnixStream, Signal)> {
            let (read, write) = UnixStream::pair()?;
            pipe::register(number, write)?;
            Ok((read, signal))
        };
        let all =
            [(SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP), (SIGINT, Signal::INT), (SIGQUIT, Signal::QUIT)];
        let caught: io::Result<Vec<_>> = all.into_iter().map(catch).collect();
        caught.map(Self).map_err(|error| Failure::unavailable(format!("signals: {error}")))
    }

    pub(super) fn hand_on_to(self, child: &Child) -> Result<(), Failure> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        for (mut stream, signal) in self.0 {
            let hand_on = move || {
                let mut one = [0];
                while stream.read(&mut one).is_ok_and(|count| count > 0) {
                    if matches!(signal, Signal::INT | Signal::QUIT) && terminal_has_sent_it() {
                        continue;
                    }
                    if let Some(pid) = pid {
                        // Gone already: then this process ends too.
                        let _ = kill_process(pid, signal);
                    }
                }
            };
            let started = thread::Builder::new().name("signals".to_owned()).spawn(hand_on);
            started.map_err(|error| Failure::unavailable(format!("signals: {error}")))?;
        }
        Ok(())
    }
}
