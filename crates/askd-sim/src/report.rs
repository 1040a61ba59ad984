//! What a run shows: how often each thing happened, or which tenet was broken and how it came to that.

use std::collections::BTreeMap;
use std::fmt;

/// How often what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<&'static str, u64>);

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds another run's counts.
    pub fn merge(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// A run in which every tenet held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    /// Steps of the scheduler.
    pub steps: u64,
    /// Virtual milliseconds that passed.
    pub virtual_ms: u64,
    /// Journal entries at the end.
    pub entries: u64,
    pub counts: Counts,
}

/// A run in which a tenet was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    /// Virtual milliseconds at which it showed.
    pub at_ms: u64,
    /// What was broken.
    pub broken: String,
    /// Every step that touched the ask, with virtual times in seconds.
    pub story: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, ms) = (self.at_ms / 1000, self.at_ms % 1000);
        writeln!(f, "seed {} at {s}.{ms:03}: {}", self.seed, self.broken)?;
        f.write_str(&self.story)
    }
}

impl std::error::Error for Failure {}
