//! Short names for people. A handle is derived from the ask's id and grows when the short ones are used up.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{AskId, Hash256};

/// Letters and digits that are not taken for each other.
const ALPHABET: &[u8; 31] = b"abcdefghjkmnpqrstuvwxyz23456789";
const SHORTEST: usize = 3;
const TRIES_PER_LENGTH: u32 = 4;

/// Three or more characters, e.g. `k7f`; unique within the retention time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first handle for `id` that `taken` does not know. Longer ones are tried after a few short ones failed, so a
/// crowded retention time makes handles longer, never ambiguous.
pub(crate) fn choose(id: AskId, taken: impl Fn(&Handle) -> bool) -> Handle {
    for attempt in 0u32.. {
        let len = SHORTEST + (attempt / TRIES_PER_LENGTH) as usize;
        let handle = candidate(id, attempt, len);
        if len >= 32 || !taken(&handle) {
            return handle;
        }
    }
    candidate(id, 0, 32)
}

fn candidate(id: AskId, attempt: u32, len: usize) -> Handle {
    let mut seed = id.0.as_bytes().to_vec();
    seed.extend_from_slice(&attempt.to_be_bytes());
    let hash = Hash256::of(&seed);
    Handle(hash.0.iter().take(len).map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()])).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn handles_are_short_then_grow_and_stay_unique() {
        let mut taken = BTreeSet::new();
        for n in 0..60_000u128 {
            let h = choose(AskId(uuid::Uuid::from_u128(n)), |h| taken.contains(h));
            assert!(taken.insert(h), "given twice");
        }
        assert!(taken.iter().all(|h| h.0.len() <= 5));
        assert!(taken.iter().any(|h| h.0.len() == 3));
    }
}
