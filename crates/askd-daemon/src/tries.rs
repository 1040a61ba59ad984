//! How often refused attempts are told and written down. An agent that tries again and again must fill neither the journal
//! nor anybody's screen.

use std::collections::BTreeSet;

/// Within this, the same attempt is told once, and no more than so many.
const SPAN_MS: u64 = 60_000;
const MOST: usize = 60;
/// Longest part of a text that attempts are told apart by, in bytes.
const LONGEST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Tries {
    /// Milliseconds since boot.
    began: u64,
    told: BTreeSet<(String, String)>,
    untold: u64,
}

impl Tries {
    /// An attempt at `what`, refused because of `why`: what is to be told, or `None` when it was told a short while ago.
    pub(crate) fn tell(&mut self, what: &str, why: &str, now_ms: u64) -> Option<String> {
        if now_ms.saturating_sub(self.began) >= SPAN_MS {
            self.began = now_ms;
            self.told.clear();
        }
        let key = (cut(what), cut(why));
        if self.told.contains(&key) || self.told.len() >= MOST {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.told.insert(key);
        Some(match std::mem::take(&mut self.untold) {
            0 => why.to_owned(),
            1 => format!("{why} (and 1 refused attempt before that was not written down)"),
            more => format!("{why} (and {more} refused attempts before that were not written down)"),
        })
    }
}

fn cut(text: &str) -> String {
    text.get(..LONGEST).map_or_else(|| text.chars().take(LONGEST).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_refused_attempts_are_counted_and_not_told_one_by_one() {
        let mut tries = Tries::default();
        assert_eq!(tries.tell("k7f", "process 1", 5).as_deref(), Some("process 1"));
        assert_eq!(tries.tell("k7f", "process 1", 6), None);
        assert_eq!(tries.tell("k7f", "process 1", 59_000), None);
        // Another ask, another process.
        let other = tries.tell("q2m", "process 1", 59_000).unwrap();
        assert!(other.starts_with("process 1 (and 2 "), "{other}");
        assert_eq!(tries.tell("q2m", "process 2", 59_000).as_deref(), Some("process 2"));
        assert_eq!(tries.tell("k7f", "process 1", 61_000).as_deref(), Some("process 1"));
        let told = (0..1000).filter(|n| tries.tell("k7f", &format!("process {n}"), 62_000).is_some()).count();
        assert_eq!(told, MOST - 1);
        let next = tries.tell("k7f", "process 1", 200_000).unwrap();
        assert!(next.contains("and 940 refused attempts"), "{next}");
    }
}
