//! Durations as people read them.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `45s`, `5m12s`, `6m0s`, `1h0m`, `2d3h`: the two largest units, the rest cut off.
pub fn duration(time: Duration) -> String {
    let secs = time.as_secs();
    match secs {
        0..MINUTE => format!("{secs}s"),
        MINUTE..HOUR => format!("{}m{}s", secs / MINUTE, secs % MINUTE),
        HOUR..DAY => format!("{}h{}m", secs / HOUR, secs % HOUR / MINUTE),
        DAY.. => format!("{}d{}h", secs / DAY, secs % DAY / HOUR),
    }
}

/// How long ago something was, by the largest unit: `just now`, `45s ago`, `2m ago`, `3h ago`, `2d ago`.
pub fn ago(elapsed: Duration) -> String {
    let secs = elapsed.as_secs();
    match secs {
        0 => "just now".to_owned(),
        1..MINUTE => format!("{secs}s ago"),
        MINUTE..HOUR => format!("{}m ago", secs / MINUTE),
        HOUR..DAY => format!("{}h ago", secs / HOUR),
        DAY.. => format!("{}d ago", secs / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_documented() {
        for (secs, text) in [
            (0, "0s"),
            (45, "45s"),
            (59, "59s"),
            (60, "1m0s"),
            (312, "5m12s"),
            (360, "6m0s"),
            (3599, "59m59s"),
            (3600, "1h0m"),
            (3661, "1h1m"),
            (86_399, "23h59m"),
            (86_400, "1d0h"),
            (183_600, "2d3h"),
        ] {
            assert_eq!(duration(Duration::from_secs(secs)), text);
        }
        assert_eq!(duration(Duration::from_millis(5_999)), "5s");
        assert_eq!(duration(Duration::MAX), "213503982334601d7h");
    }

    #[test]
    fn ago_names_the_largest_unit() {
        for (secs, text) in
            [(0, "just now"), (1, "1s ago"), (125, "2m ago"), (7200, "2h ago"), (200_000, "2d ago")]
        {
            assert_eq!(ago(Duration::from_secs(secs)), text);
        }
    }
}
