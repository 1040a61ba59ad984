//! Time as the core is told it: a stamp that stays comparable within a boot and degrades to wall time across boots.

use serde::{Deserialize, Serialize};

/// Identity of one boot of one machine. Elapsed time is only comparable within a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootId(pub uuid::Uuid);

/// A point in time.
///
/// `boot_ms` counts milliseconds since boot *including suspend* (CLOCK_BOOTTIME or its like); `wall_ms` is
/// milliseconds since the Unix epoch and may be stepped at any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub boot: BootId,
    pub boot_ms: u64,
    pub wall_ms: i64,
}

/// The current time, given with every command.
pub type Now = Stamp;

impl Stamp {
    /// For who has only a wall clock, and only shows the time.
    pub fn of_wall(wall_ms: i64) -> Self {
        Self { boot: BootId(uuid::Uuid::nil()), boot_ms: 0, wall_ms }
    }

    /// Milliseconds from `self` to `now`; never negative. Wall time counts only across boots.
    pub fn elapsed(&self, now: Self) -> u64 {
        if self.boot == now.boot {
            now.boot_ms.saturating_sub(self.boot_ms)
        } else {
            u64::try_from(now.wall_ms.saturating_sub(self.wall_ms)).unwrap_or(0)
        }
    }

    /// The wall time of `self`, in milliseconds since the epoch, moved by `ms`.
    pub fn wall_plus(&self, ms: u64) -> i64 {
        self.wall_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// When a span of `ms` that began at `self` ends, on the boot clock of `now`.
    pub fn due(&self, ms: u64, now: Self) -> u64 {
        if self.boot == now.boot {
            self.boot_ms.saturating_add(ms)
        } else {
            now.boot_ms.saturating_add(ms.saturating_sub(self.elapsed(now)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u128, boot_ms: u64, wall_ms: i64) -> Stamp {
        Stamp { boot: BootId(uuid::Uuid::from_u128(boot)), boot_ms, wall_ms }
    }

    #[test]
    fn a_stepped_wall_clock_moves_nothing_within_a_boot() {
        let set = at(1, 1_000, 50_000);
        for step in [-28_800_000, 28_800_000] {
            let now = at(1, 4_000, 53_000 + step);
            assert_eq!(set.elapsed(now), 3_000);
            assert_eq!(set.due(10_000, now), 11_000);
        }
    }

    #[test]
    fn across_boots_wall_time_counts_and_never_runs_backwards() {
        let set = at(1, 900_000, 50_000);
        assert_eq!(set.elapsed(at(2, 10, 53_000)), 3_000);
        assert_eq!(set.due(10_000, at(2, 10, 53_000)), 10 + 7_000);
        assert_eq!(set.elapsed(at(2, 10, 40_000)), 0);
        assert_eq!(set.due(10_000, at(2, 10, 90_000)), 10);
    }
}
