//! Short names for people. A handle is derived from the ask's id and grows when the short ones are used up.

use std::borrow::Borrow;
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

/// Looked up by its text.
impl Borrow<str> for Handle {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The first handle for `id` that `taken` does not know. Longer ones are tried after a few short ones failed, so a
/// crowded retention time makes handles longer, never ambiguous.
pub(crate) fn choose(id: AskId, taken: impl Fn(&str) -> bool) -> Handle {
    for attempt in 0u32.. {
        let len = SHORTEST + (attempt / TRIES_PER_LENGTH) as usize;
        let letters = candidate(id, attempt);
        let handle: String = letters.iter().take(len).map(|letter| char::from(*letter)).collect();
        if len >= letters.len() || !taken(&handle) {
            return Handle(handle);
        }
    }
    Handle(candidate(id, 0).iter().map(|letter| char::from(*letter)).collect())
}

/// Of which a handle is as many as it needs.
fn candidate(id: AskId, attempt: u32) -> [u8; 32] {
    let mut seed = [0; 20];
    let (own, count) = seed.split_at_mut(16);
    own.copy_from_slice(id.0.as_bytes());
    count.copy_from_slice(&attempt.to_be_bytes());
    Hash256::of(&seed).0.map(|b| ALPHABET[usize::from(b) % ALPHABET.len()])
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
