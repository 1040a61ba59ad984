//! Waiting on conditions.

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long any condition may take; shared machines stall.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The same while the machine has far more to do than it can: real agents take minutes to start then.
const BUSY_PATIENCE: Duration = Duration::from_secs(150);

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks until `look` finds something, at most [`PATIENCE`], or longer on a machine that is far too busy. An error of
/// `look` counts as "not yet" and is told when the patience is over.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        let seen = look();
        if let Ok(Some(found)) = seen {
            return Ok(found);
        }
        let so_far = began.elapsed();
        if so_far >= PATIENCE && (so_far >= BUSY_PATIENCE || !is_too_busy()) {
            let waited = format!("waited {} s in vain for: {what}", so_far.as_secs());
            return match seen {
                Err(error) => Err(error).context(waited),
                Ok(_) => bail!(waited),
            };
        }
        thread::sleep(PAUSE);
    }
}

/// More than twice as many processes want to run as there are processors.
fn is_too_busy() -> bool {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let wanting: f64 = text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(processors).is_ok_and(|processors| wanting > 2.0 * f64::from(processors))
}
