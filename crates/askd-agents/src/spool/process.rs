//! Evidence that a requester lives or died. A process number says something only among the processes that it was
//! given among, and only when that process began before the request was made.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::machine::Evidence;

/// `/proc/self/ns/pid` of the machine itself.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// Ticks a second in `/proc`: the same on every Linux that Rust is built for, whatever the kernel's own.
const HERTZ: u64 = 100;

/// Start time of a process in clock ticks since boot; `None`: it does not exist, or has ended and waits for its parent.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The name is in parentheses and may hold anything.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    (!matches!(*fields.first()?, "Z" | "X")).then(|| fields.get(19)?.parse().ok())?
}

/// What the process number in a request tells. `age_ms`: how long ago the request was made.
pub(super) fn evidence(pid: u32, age_ms: u64, root: &Path) -> Evidence {
    // A number from elsewhere names nothing here, or a process that has nothing to do with it.
    if !numbers_are_ours(root) {
        return Evidence::Unknown;
    }
    let Some(start) = start_of(pid) else { return Evidence::Gone };
    let Some(up_ms) = uptime_ms() else { return Evidence::Unknown };
    let made_ms = up_ms.saturating_sub(age_ms);
    let began_ms = start.saturating_mul(1000) / HERTZ;
    let ours = fs::read_link("/proc/self/ns/pid").ok();
    let same = ours.is_some() && fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == ours;
    // Ticks are coarse.
    if same && began_ms <= made_ms + 1000 / HERTZ {
        Evidence::Process { pid, start }
    } else {
        Evidence::Unknown
    }
}

/// Nobody of another numbering can have written here: neither from inside a container that is seen from here, nor from
/// outside of the one that this is, nor from another machine.
fn numbers_are_ours(root: &Path) -> bool {
    let Ok(ours) = fs::read_link("/proc/self/ns/pid") else { return false };
    let shared = || {
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
        device(root).is_none() || device(root) != device(Path::new("/"))
    };
    if ours.as_os_str() != FIRST_NAMESPACE && shared() {
        return false;
    }
    if !askd_client::spool::Dir::root(root)
        .is_ok_and(|dir| dir.is_some_and(|dir| !askd_client::spool::is_shared(&dir)))
    {
        return false;
    }
    let us = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().all(|entry| {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        // What may not be looked at is another user's, and its files would be refused; or it ended meanwhile.
        let unseen = || fs::metadata(entry.path()).map_or(true, |meta| meta.uid() != us);
        // The first one of a numbering is in it.
        pid.is_none_or(|pid| pid == 1)
            || fs::read_link(entry.path().join("ns/pid")).map_or_else(|_| unseen(), |theirs| theirs == ours)
    })
}

fn uptime_ms() -> Option<u64> {
    u64::try_from(now().as_millis()).ok()
}

/// Time since the machine started, with the time that it slept.
pub(super) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn f10_a_number_is_evidence_only_of_a_process_that_began_before_the_request() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let root = Path::new("/");
        let seen = evidence(child.id(), 0, root);
        assert_eq!(seen, Evidence::Process { pid: child.id(), start: start_of(child.id()).unwrap() });
        // A request of an hour ago was not made by a process of today.
        assert_eq!(evidence(child.id(), 3_600_000, root), Evidence::Unknown);
        child.kill().unwrap();
        // It has ended, also before its parent looks.
        while start_of(child.id()).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(matches!(evidence(child.id(), 0, root), Evidence::Gone | Evidence::Unknown));
        // On a file system that others may share from outside, a number that names nothing says nothing.
        if fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() != FIRST_NAMESPACE {
            assert_eq!(evidence(child.id(), 0, Path::new("/proc")), Evidence::Unknown);
        }
    }
}
