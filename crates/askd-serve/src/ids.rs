//! New identities: of this moment, in the order in which they were made, and random beyond that.

use std::sync::atomic::{AtomicU64, Ordering};

use askd_core::AskId;
use uuid::Uuid;

use crate::clock;

/// Id for a new ask, a UUIDv7.
pub fn new_ask(wall_ms: i64) -> Result<AskId, getrandom::Error> {
    let mut bits = [0; 10];
    getrandom::fill(&mut bits)?;
    Ok(AskId(at(wall_ms, bits)))
}

/// Ids for journal entries.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl askd_writer::Ids for RandomIds {
    fn next(&mut self) -> Uuid {
        // Of the same moment and random beyond that: neighbours in time are neighbours in the journal's index, which a
        // commit then touches in one place.
        let mut bits = [0; 10];
        // Without randomness from the system nothing else here works either; a repeated id is refused by the journal.
        let _ = getrandom::fill(&mut bits);
        at(clock::wall_ms(), bits)
    }
}

/// The moment of the newest id, and its number within it. Asks that wait are taken in the order of their ids, so these
/// have to be in order within one millisecond too, and when the wall clock steps back.
static NEWEST: AtomicU64 = AtomicU64::new(0);
/// Bits of the number: `rand_a` of RFC 9562.
const NUMBER_BITS: u32 = 12;

fn at(wall_ms: i64, mut bits: [u8; 10]) -> Uuid {
    let now = u64::try_from(wall_ms).unwrap_or(0) << NUMBER_BITS;
    let next = |newest: u64| now.max(newest + 1);
    let newest = match NEWEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |newest| Some(next(newest)))
    {
        Ok(newest) | Err(newest) => newest,
    };
    let place = next(newest);
    let [.., high, low] = place.to_be_bytes();
    // The builder puts the version over the upper four bits.
    (bits[0], bits[1]) = (high, low);
    uuid::Builder::from_unix_timestamp_millis(place >> NUMBER_BITS, &bits).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t16_ids_are_in_the_order_in_which_they_were_made() {
        let moments = [1_800_000_000_000; 5000].into_iter().chain([1_799_999_000_000, -1, 1_800_000_000_001]);
        let ids: Vec<AskId> = moments.map(|wall_ms| new_ask(wall_ms).unwrap()).collect();
        assert!(ids.is_sorted_by(|before, after| before < after));
        assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
        let apart: std::collections::BTreeSet<_> = ids.iter().map(|id| id.0.as_u64_pair().1).collect();
        assert_eq!(apart.len(), ids.len(), "the rest is random");
    }
}
