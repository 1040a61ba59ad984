//! A command that leads a process group of its own, and its end: the one place that waits for such a command. Whatever
//! way it ends, nothing that it started is left, unless it ended well and somebody says so.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

const LOOK: Duration = Duration::from_millis(20);

/// Why a command did not end well. It is ended by then, with everything it started.
#[derive(Debug, thiserror::Error)]
pub enum NotWell {
    #[error("ended with {0}")]
    Status(ExitStatus),
    #[error("was ended: it is not wanted any more")]
    Stopped,
    /// In seconds.
    #[error("did not end within {0} s and was ended")]
    TooLong(u64),
    #[error("cannot be waited for: {0}")]
    Unknown(io::Error),
}

/// A running command. When it is dropped it is ended with everything it started.
#[derive(Debug)]
pub struct Group {
    child: Child,
    /// It was waited for: its number may be somebody else's.
    over: bool,
}

impl Group {
    /// Runs a line for the shell. `set`: gives it its streams and its environment.
    pub fn run(line: &str, set: impl FnOnce(&mut Command)) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).process_group(0);
        set(&mut shell);
        Ok(Self { child: shell.spawn()?, over: false })
    }

    /// The shell, for its streams. Not to be waited for.
    pub fn shell(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until it ends well. What it left running goes on until this is dropped, or let go by [`Group::leave`].
    pub fn wait(&mut self, patience: Duration, stop: &AtomicBool) -> Result<(), NotWell> {
        let end = Instant::now() + patience;
        loop {
            match self.ended_well() {
                Ok(Some(true)) => return Ok(()),
                Ok(Some(false)) => return Err(self.end().map_or_else(NotWell::Unknown, NotWell::Status)),
                Ok(None) if stop.load(Ordering::SeqCst) => {
                    let _ = self.end();
                    return Err(NotWell::Stopped);
                }
                Ok(None) if Instant::now() < end => thread::sleep(LOOK),
                Ok(None) => {
                    let _ = self.end();
                    return Err(NotWell::TooLong(patience.as_secs()));
                }
                Err(error) => return Err(NotWell::Unknown(error)),
            }
        }
    }

    /// Lets what it left running be, after it ended well.
    pub fn leave(mut self) {
        self.over = true;
        let _ = self.child.wait();
    }

    /// `None`: it runs. Its number stays its own: it is looked at, and not waited for.
    fn ended_well(&self) -> io::Result<Option<bool>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), look) {
            Ok(status) => Ok(status.map(|status| status.exit_status() == Some(0))),
            Err(rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        // Before it is waited for: until then its number is nobody else's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.over = true;
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::process::Stdio;

    use super::*;

    /// What a line came to, when nothing of it is left: this would never come back otherwise.
    fn ends(line: &str, patience: Duration, stop: bool) -> String {
        // Everything that it starts holds the pipe until it ends.
        let (mut held, keep) = io::pipe().unwrap();
        rustix::io::fcntl_setfd(&keep, rustix::io::FdFlags::empty()).unwrap();
        let mut group = Group::run(line, |shell| {
            shell.stdout(Stdio::null());
        })
        .unwrap();
        drop(keep);
        let ended = group.wait(patience, &AtomicBool::new(stop));
        if ended.is_ok() {
            drop(group);
        }
        assert_eq!(held.read_to_end(&mut Vec::new()).unwrap(), 0);
        ended.map_or_else(|why| why.to_string(), |()| "well".to_owned())
    }

    #[test]
    fn whatever_way_a_command_ends_nothing_of_it_is_left() {
        const LONG: Duration = Duration::from_secs(3600);
        let rest = "(sleep 3600; sleep 3600) | cat &";
        assert!(ends(&format!("{rest} exit 3"), LONG, false).contains("exit status: 3"));
        assert!(ends(&format!("{rest} kill $$"), LONG, false).contains("signal: 15"));
        assert_eq!(ends(&format!("{rest} exit 0"), LONG, false), "well");
        assert!(ends(&format!("{rest} cat"), LONG, true).contains("not wanted"));
        let late = ends(&format!("{rest} sleep 3600"), Duration::from_millis(100), false);
        assert_eq!(late, "did not end within 0 s and was ended");
    }

    #[test]
    fn what_a_command_that_ended_well_leaves_goes_on_when_it_is_let_go() {
        let (mut held, keep) = io::pipe().unwrap();
        rustix::io::fcntl_setfd(&keep, rustix::io::FdFlags::empty()).unwrap();
        let (go, mut told) = io::pipe().unwrap();
        rustix::io::fcntl_setfd(&go, rustix::io::FdFlags::empty()).unwrap();
        let line = format!("(cat <&{}; echo on >&{}) & exit 0", go.as_raw_fd(), keep.as_raw_fd());
        let mut group = Group::run(&line, |_| {}).unwrap();
        group.wait(Duration::from_secs(3600), &AtomicBool::new(false)).unwrap();
        group.leave();
        drop((keep, go));
        io::Write::write_all(&mut told, b"x").unwrap();
        drop(told);
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, "on\n");
    }
}
