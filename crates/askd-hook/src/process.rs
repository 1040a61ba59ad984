//! What `/proc` tells about a process. Where there is no `/proc`, nothing is known and nothing is assumed.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};

use crate::bytes;

/// A part of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Name of the program, cut to 15 bytes by the kernel.
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// Device number of the controlling terminal; 0: none.
    pub(crate) tty: u32,
    /// Clock ticks since boot.
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&read(&format!("/proc/{pid}/stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold anything, parentheses and spaces too.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let name = text.get(open + 1..close)?.to_owned();
        let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
        // Field 3 of proc(5) is the first here.
        let field = |number: usize| fields.get(number - 3);
        Some(Self {
            name,
            parent: field(4)?.parse().ok()?,
            tty: field(7)?.parse::<i64>().ok().and_then(|tty| u32::try_from(tty).ok()).unwrap_or(0),
            start: field(22)?.parse().ok()?,
        })
    }

    /// Path of the controlling terminal, where it is a pseudo terminal.
    pub(crate) fn tty_path(&self) -> Option<String> {
        let major = (self.tty >> 8) & 0xfff;
        let minor = (self.tty & 0xff) | ((self.tty >> 12) & 0xf_ff00);
        (136..144).contains(&major).then(|| format!("/dev/pts/{}", (major - 136) * 256 + minor))
    }
}

/// The arguments a process was started with; empty when unknown.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let Ok(bytes) = read(&format!("/proc/{pid}/cmdline")) else { return Vec::new() };
    let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    text.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    bytes::read_at_once(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 42 42 34821 42 4194304 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.start), ("a) b (c", 7, 987_654));
        assert_eq!(stat.tty_path().as_deref(), Some("/dev/pts/5"));
        assert_eq!(Stat::parse("42 (x"), None);
    }

    #[test]
    fn this_process_is_found() {
        let own = Stat::of(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(arguments(std::process::id())[0].contains("askd_hook"));
    }
}
