//! Crash points for the tests: in debug builds, `ASKD_CRASH_AT=<point>:<n>` aborts the process at the n-th passing of a
//! named point of the writer. Release builds have none of it.

use askd_writer::{Point, Probe};

/// Aborts at the point that the environment names.
#[derive(Debug, Default)]
pub(crate) struct CrashPoint {
    at: Option<(Point, u32)>,
}

impl CrashPoint {
    pub(crate) fn from_env() -> Self {
        if !cfg!(debug_assertions) {
            return Self::default();
        }
        let at = std::env::var("ASKD_CRASH_AT").ok().and_then(|text| {
            let (name, count) = text.split_once(':')?;
            let point = Point::ALL.into_iter().find(|p| p.name() == name)?;
            Some((point, count.parse().ok()?))
        });
        Self { at }
    }
}

impl Probe for CrashPoint {
    fn dies_at(&mut self, point: Point) -> bool {
        if let Some((at, left)) = &mut self.at
            && *at == point
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                std::process::abort();
            }
        }
        false
    }
}
