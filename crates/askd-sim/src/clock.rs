//! Virtual time: true time that only runs forward, and what the machine shows of it.

use askd_core::{BootId, Now};
use uuid::Uuid;

/// Wall time at which the world begins, in milliseconds since the epoch.
const BEGINNING: i64 = 1_800_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// True milliseconds since the world began.
    pub(crate) now: u64,
    boot: u64,
    booted: u64,
    /// How far the wall clock was set off from the truth.
    wall_off: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        // The machine has been up for a while.
        Self { now: 1_000_000, boot: 1, booted: 0, wall_off: 0 }
    }

    /// What the shell would read from the system.
    pub(crate) fn stamp(&self) -> Now {
        Now {
            boot: BootId(Uuid::from_u128(u128::from(self.boot))),
            boot_ms: self.now - self.booted,
            wall_ms: self.wall_ms(),
        }
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        BEGINNING + i64::try_from(self.now).unwrap_or(i64::MAX / 2) + self.wall_off
    }

    pub(crate) fn step_wall(&mut self, by_ms: i64) {
        self.wall_off += by_ms;
    }

    pub(crate) fn reboot(&mut self) {
        self.boot += 1;
        self.booted = self.now;
    }
}
