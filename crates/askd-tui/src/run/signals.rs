//! Signals as flags, and a byte that wakes the one who looks at them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::{flag, low_level};

/// What came since it was looked at last.
#[derive(Debug, Default)]
pub(super) struct Signals {
    leave: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    resize: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Signals {
    /// `bell`: written to when one comes.
    pub(super) fn catch(bell: impl Fn() -> io::Result<OwnedFd>) -> io::Result<Self> {
        let mut signals = Self::default();
        let flags = [
            (&[SIGTERM, SIGHUP, SIGINT, SIGQUIT][..], Arc::clone(&signals.leave)),
            (&[SIGTSTP][..], Arc::clone(&signals.stop)),
            (&[SIGWINCH, SIGCONT][..], Arc::clone(&signals.resize)),
        ];
        for (numbers, flag) in flags {
            for number in numbers {
                // The flag first: whoever is woken must find it.
                signals.ids.push(flag::register(*number, Arc::clone(&flag))?);
                signals.ids.push(low_level::pipe::register(*number, bell()?)?);
            }
        }
        Ok(signals)
    }

    /// The program is told to end.
    pub(super) fn told_to_leave(&self) -> bool {
        self.leave.load(Ordering::SeqCst)
    }

    /// The program is told to stop for a while.
    pub(super) fn told_to_stop(&self) -> bool {
        self.stop.swap(false, Ordering::SeqCst)
    }

    /// The size of the terminal may be another one.
    pub(super) fn resized(&self) -> bool {
        self.resize.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Stops the program as the shell expects it; returns when it goes on.
pub(super) fn stop_here() {
    let _ = low_level::emulate_default_handler(SIGTSTP);
}
