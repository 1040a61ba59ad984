//! Points in time as people read them, and as they type them.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;

/// Now, and where.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    now: Timestamp,
    zone: TimeZone,
    /// Whether what is due happens.
    records: bool,
}

impl Clock {
    pub(crate) fn system() -> Self {
        Self { now: Timestamp::now(), zone: TimeZone::system(), records: true }
    }

    #[cfg(test)]
    pub(crate) fn fixed(now: &str) -> Self {
        Self { now: now.parse().unwrap(), zone: TimeZone::UTC, records: true }
    }

    /// While the journal takes nothing, what is due does not happen.
    pub(crate) fn where_it_records(self, records: bool) -> Self {
        Self { records, ..self }
    }

    pub(crate) fn records(&self) -> bool {
        self.records
    }

    /// Time until a point; zero when it has passed, none when the text is no time.
    pub(crate) fn until(&self, time: &str) -> Option<Duration> {
        let span = time.parse::<Timestamp>().ok()?.duration_since(self.now);
        // A countdown shows the second that runs, so that a fresh one of 6m0s says so.
        let whole = (span.as_millis() + 500).div_euclid(1000);
        Some(Duration::from_secs(u64::try_from(whole).unwrap_or(0)))
    }

    /// `2m ago`, `just now`.
    pub(crate) fn ago(&self, time: &str) -> String {
        let Ok(time) = time.parse::<Timestamp>() else { return "at an unknown time".to_owned() };
        let span = self.now.duration_since(time);
        askd_text::ago(Duration::try_from(span).unwrap_or_default())
    }

    /// `10:31:05`, with the date when it is not today's.
    pub(crate) fn local(&self, time: &str) -> String {
        let Ok(time) = time.parse::<Timestamp>() else { return "at an unknown time".to_owned() };
        let time = time.to_zoned_datetime(self.zone.clone());
        let today = self.now.to_zoned_datetime(self.zone.clone()).date();
        let format = if time.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        time.strftime(format).to_string()
    }

    /// `2026-11-30 10:31:05`
    pub(crate) fn local_full(&self, time: &str) -> String {
        match time.parse::<Timestamp>() {
            Ok(time) => time.to_zoned_datetime(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            Err(_) => "at an unknown time".to_owned(),
        }
    }

    /// What was typed as a point in the past, in RFC 3339: `2h`, `2026-11-30`, `2026-11-30T08:00:00Z`.
    pub(crate) fn since(&self, typed: &str) -> Result<String, Failure> {
        let point = self.span_ago(typed).or_else(|| typed.parse().ok()).or_else(|| {
            let date: Date = typed.parse().ok()?;
            Some(date.to_zoned_datetime(self.zone.clone()).ok()?.timestamp())
        });
        match point {
            Some(point) => Ok(point.to_string()),
            None => Err(Failure::wrong_use(format!(
                "{} is no time; write 30m, 2h, 3d, a date like 2026-11-30, or 2026-11-30T08:00:00Z",
                crate::out::safe(typed)
            ))),
        }
    }

    fn span_ago(&self, typed: &str) -> Option<Timestamp> {
        let unit = typed.chars().last()?;
        let secs = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        let number: i64 = typed.strip_suffix(unit)?.parse().ok().filter(|number| *number >= 0)?;
        let span = SignedDuration::from_secs(number.checked_mul(secs)?);
        self.now.checked_sub(span).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_dates_and_times_are_understood() {
        let clock = Clock::fixed("2026-11-30T08:00:00Z");
        let since = |typed: &str| clock.since(typed).unwrap();
        assert_eq!(since("2h"), "2026-11-30T06:00:00Z");
        assert_eq!(since("0s"), "2026-11-30T08:00:00Z");
        assert_eq!(since("2026-11-29"), "2026-11-29T00:00:00Z");
        assert_eq!(since("2026-11-29T10:00:00+02:00"), "2026-11-29T08:00:00Z");
        for wrong in ["", "h", "-2h", "2", "yesterday", "2é", "99999999999999999w"] {
            assert!(clock.since(wrong).unwrap_err().text.contains("is no time"), "{wrong}");
        }
    }

    #[test]
    fn countdowns_end_at_zero() {
        let clock = Clock::fixed("2026-11-30T08:00:00.000Z");
        assert_eq!(clock.until("2026-11-30T08:05:12.000Z"), Some(Duration::from_secs(312)));
        assert_eq!(clock.until("2026-11-30T08:05:59.990Z"), Some(Duration::from_secs(360)));
        assert_eq!(clock.until("2026-11-30T07:00:00Z"), Some(Duration::ZERO));
        assert_eq!(clock.until("soon"), None);
    }

    #[test]
    fn the_date_is_told_when_it_is_another_day() {
        let clock = Clock::fixed("2026-11-30T08:00:00Z");
        assert_eq!(clock.local("2026-11-30T07:00:00Z"), "07:00:00");
        assert_eq!(clock.local("2026-11-29T23:00:00Z"), "2026-11-29 23:00:00");
        assert_eq!(clock.ago("2026-11-30T07:58:00Z"), "2m ago");
        assert_eq!(clock.ago("2026-11-30T08:00:01Z"), "just now");
    }
}
