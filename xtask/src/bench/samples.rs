//! Durations of one thing, many times.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Microseconds, in the order measured.
#[derive(Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds one duration.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e6);
    }

    /// Adds one figure in microseconds.
    pub(crate) fn push_micros(&mut self, micros: f64) {
        self.0.push(micros);
    }

    /// Times one run of `what`; a failed run is not a sample.
    pub(crate) fn time<T, E>(&mut self, what: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let value = what()?;
        self.push(start.elapsed());
        Ok(value)
    }

    /// Adds all of another's.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The nearest-rank percentile in microseconds; 0 without samples.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// The median in microseconds.
    pub(crate) fn p50(&self) -> f64 {
        self.percentile(50)
    }

    /// Count and percentiles.
    pub(crate) fn json(&self) -> Value {
        json!({
            "n": self.0.len(),
            "p50_us": self.p50(),
            "p90_us": self.percentile(90),
            "p99_us": self.percentile(99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut samples = Samples::default();
        assert_eq!(samples.p50(), 0.0);
        for micros in [5.0, 1.0, 4.0, 2.0, 3.0] {
            samples.push_micros(micros);
        }
        assert_eq!(samples.p50(), 3.0);
        assert_eq!(samples.percentile(90), 5.0);
        assert_eq!(samples.percentile(1), 1.0);
    }
}
