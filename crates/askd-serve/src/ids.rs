//! New identities, of this moment and random beyond that.

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

fn at(wall_ms: i64, bits: [u8; 10]) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(u64::try_from(wall_ms).unwrap_or(0), &bits).into_uuid()
}
