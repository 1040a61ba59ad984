//! Another process, watched without its number being mistaken for a later one's.

use std::os::fd::OwnedFd;

use rustix::process::Pid;

/// Becomes readable when the process has ended. None where there is no such thing, or no such process.
#[cfg(target_os = "linux")]
pub(crate) fn handle(process: Pid) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    pidfd_open(process, PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn handle(_process: Pid) -> Option<OwnedFd> {
    None
}

/// The process with this number, if it can be one.
pub(crate) fn of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

/// The parent of a process, where the system tells.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in front of it may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
