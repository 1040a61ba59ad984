//! The only randomness of the simulated world: a small generator that a seed fully determines.

use askd_core::AskId;
use askd_writer::Ids;
use uuid::Uuid;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds start far apart.
        Self(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0xA5A5_5A5A_1234_9876)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `n - 1`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    pub(crate) fn percent(&mut self, chance: u32) -> bool {
        self.below(100) < u64::from(chance)
    }

    pub(crate) fn permille(&mut self, chance: u32) -> bool {
        self.below(1000) < u64::from(chance)
    }

    /// A span of time whose magnitude is drawn first, so that moments and hours are both common.
    pub(crate) fn span(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1), high.max(2));
        let magnitudes = u64::from(high.ilog2() - low.ilog2().min(high.ilog2()));
        let top = low << self.between(0, magnitudes);
        self.between(top / 2, top).clamp(low, high)
    }

    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next())
    }

    /// Of version 7, as the daemon mints them.
    pub(crate) fn ask_id(&mut self, wall_ms: i64) -> AskId {
        let millis = u128::from(wall_ms.unsigned_abs()) & 0xFFFF_FFFF_FFFF;
        let random = u128::from(self.next() & 0x3FFF_FFFF_FFFF_FFFF) | (2 << 62);
        let high = u128::from(self.next() & 0xFFF) | (7 << 12);
        AskId(Uuid::from_u128(millis << 80 | high << 64 | random))
    }
}

/// Identities of journal entries.
pub(crate) struct EntryIds(pub(crate) Dice);

impl Ids for EntryIds {
    fn next(&mut self) -> Uuid {
        self.0.uuid()
    }
}
