//! Waiting on conditions.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long any condition may take; shared machines stall.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks until `look` finds something, at most [`PATIENCE`]. An error of `look` counts as "not yet" and is told
/// when the patience is over.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = look();
        if let Ok(Some(found)) = seen {
            return Ok(found);
        }
        if Instant::now() >= end {
            let waited = format!("waited {} s in vain for: {what}", PATIENCE.as_secs());
            return match seen {
                Err(error) => Err(error).context(waited),
                Ok(_) => bail!(waited),
            };
        }
        thread::sleep(PAUSE);
    }
}
