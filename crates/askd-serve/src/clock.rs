//! The clocks of this machine, as the core wants them.

use askd_core::{BootId, Now};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

/// Reads the time; knows which boot it is.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    boot: BootId,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    pub fn new() -> Self {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self { boot: BootId(Uuid::parse_str(id.trim()).unwrap_or_else(|_| Uuid::nil())) }
    }

    pub fn now(self) -> Now {
        Now { boot: self.boot, boot_ms: boot_ms(), wall_ms: wall_ms() }
    }
}

/// Milliseconds since the epoch.
pub fn wall_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Milliseconds since boot, suspend included.
pub fn boot_ms() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // macOS: CLOCK_MONOTONIC counts suspend there.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    millis(clock)
}

/// How long the machine has been suspended since boot, in milliseconds.
pub fn suspended_ms() -> u64 {
    boot_ms().saturating_sub(millis(ClockId::Monotonic))
}

fn millis(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// RFC 3339 in UTC with milliseconds.
pub fn rfc3339(wall_ms: i64) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    PRINTER.timestamp_to_string(&Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Milliseconds since the epoch of an RFC 3339 time.
pub fn parse(text: &str) -> Result<i64, jiff::Error> {
    text.parse::<Timestamp>().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_with_milliseconds_and_parse_back() {
        assert_eq!(rfc3339(1_764_489_600_123), "2025-11-30T08:00:00.123Z");
        assert_eq!(rfc3339(1_764_489_600_000), "2025-11-30T08:00:00.000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(i64::MAX), "1970-01-01T00:00:00.000Z");
        assert_eq!(parse("2025-11-30T08:00:00.123Z").unwrap(), 1_764_489_600_123);
        assert!(parse("yesterday").is_err());
    }
}
