//! The moment of a call: the queue reads no clock.

use std::time::Duration;

/// A moment, told by the host with every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since any fixed point of this boot; it never jumps and counts through suspend (`CLOCK_BOOTTIME` or its like).
    /// Guards and countdowns run on it.
    pub tick: Duration,
    /// Wall clock in milliseconds since 1970, only to place the times that the daemon tells.
    pub wall_ms: i64,
}

impl Now {
    pub(crate) fn tick_ms(self) -> i64 {
        i64::try_from(self.tick.as_millis()).unwrap_or(i64::MAX)
    }

    /// Where a wall time lies on the ticking clock; none when the text is no time.
    pub(crate) fn place(self, time: &str) -> Option<i64> {
        let at: jiff::Timestamp = time.parse().ok()?;
        Some(self.tick_ms().saturating_add(at.as_millisecond().saturating_sub(self.wall_ms)))
    }

    /// What is left until a moment on the ticking clock, as a countdown shows it: the second that runs, so that a fresh
    /// one of 6m0s says so. Zero when it has passed.
    pub(crate) fn left(self, due_ms: i64) -> Duration {
        let ms = due_ms.saturating_sub(self.tick_ms());
        Duration::from_secs(u64::try_from(ms.saturating_add(500).div_euclid(1000)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stepped_wall_clock_does_not_move_what_was_placed() {
        let first = Now { tick: Duration::from_secs(100), wall_ms: 1_000_000 };
        let due = first.place("1970-01-01T00:22:40.000Z").unwrap();
        assert_eq!(first.left(due), Duration::from_secs(360));
        let stepped = Now { tick: Duration::from_secs(148), wall_ms: 99_000_000 };
        assert_eq!(stepped.left(due), Duration::from_secs(312));
        assert_eq!(Now { tick: Duration::from_secs(999), wall_ms: 0 }.left(due), Duration::ZERO);
        assert_eq!(first.place("soon"), None);
    }
}
