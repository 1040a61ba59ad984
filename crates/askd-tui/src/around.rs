//! What is known around the asks: sessions by their titles, this person's home, host and time zone.

use askd_wire::{Ask, SessionView};
use askd_words::{Part, Sessions};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::now::Now;
use crate::rows::Look;

/// This person's place, told by the host.
#[derive(Debug, Clone)]
pub struct Place {
    /// Home directory, shown as `~`.
    pub home: Option<String>,
    /// Name of this machine: asks from another one say so.
    pub host: Option<String>,
    /// For the times of day.
    pub zone: TimeZone,
}

impl Default for Place {
    /// Nowhere, in UTC.
    fn default() -> Self {
        Self { home: None, host: None, zone: TimeZone::UTC }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Around {
    sessions: Sessions,
    zone: Option<TimeZone>,
}

impl Around {
    pub(crate) fn new(place: Place) -> Self {
        Self { sessions: Sessions::new(place.home, place.host), zone: Some(place.zone) }
    }

    pub(crate) fn set_sessions(&mut self, sessions: Vec<SessionView>) {
        self.sessions.set(sessions);
    }

    pub(crate) fn knows(&self, ask: &Ask) -> bool {
        self.sessions.knows(ask)
    }

    pub(crate) fn session(&self, ask: &Ask) -> String {
        self.sessions.session(ask)
    }

    /// Who asks, part by part.
    pub(crate) fn who(&self, ask: &Ask) -> Vec<(String, Look)> {
        let looks = |part: Part| {
            let look = match part {
                Part::Safety => Look::Danger,
                Part::Host(_) => Look::Warn,
                _ => Look::Plain,
            };
            (part.text(), look)
        };
        self.sessions.who(ask).into_iter().map(looks).collect()
    }

    pub(crate) fn short(&self, ask: &Ask) -> String {
        self.sessions.short(ask)
    }

    pub(crate) fn other_host(&self, ask: &Ask) -> Option<String> {
        self.sessions.other_host(ask)
    }

    /// `10:31:05`, with the date when it is not today's.
    pub(crate) fn local(&self, time: &str, now: Now) -> String {
        let (Ok(time), Ok(now)) = (time.parse::<Timestamp>(), Timestamp::from_millisecond(now.wall_ms))
        else {
            return "an unknown time".to_owned();
        };
        let zone = self.zone.clone().unwrap_or(TimeZone::UTC);
        let time = time.to_zoned_datetime(zone.clone());
        let today = now.to_zoned_datetime(zone.clone()).date();
        let format = if time.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        time.strftime(format).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn texts(parts: &[(String, Look)]) -> Vec<&str> {
        parts.iter().map(|(text, _)| text.as_str()).collect()
    }

    #[test]
    fn t11_the_queue_says_who_asks() {
        let mut around = Around::new(Place {
            home: Some("/home/me".into()),
            host: Some("box".into()),
            zone: TimeZone::UTC,
        });
        let mut ask = samples::child("k7f", "ls");
        assert_eq!(
            texts(&around.who(&ask)),
            ["claude-code in ~/src/askd", "subagent explore (general-purpose, depth 1)", "background"]
        );
        assert_eq!(around.short(&ask), "explore");
        around.set_sessions(vec![samples::session("fix the tests\u{1b}[2K")]);
        ask.lineage.subagent = None;
        ask.lineage.job = Some("nightly".into());
        ask.lineage.host = Some("far\u{202e}".into());
        ask.class = askd_wire::Class::Safety;
        assert_eq!(
            texts(&around.who(&ask)),
            [
                "claude-code \"fix the tests\\u{1b}[2K\"",
                "job nightly",
                "background",
                "safety",
                "on far\\u{202e}"
            ]
        );
        assert_eq!(around.short(&ask), "nightly");
    }

    #[test]
    fn times_are_local_and_have_a_date_when_they_need_one() {
        let around = Around::new(Place { zone: TimeZone::fixed(jiff::tz::offset(2)), ..Place::default() });
        let now = Now { tick: std::time::Duration::ZERO, wall_ms: samples::WALL_MS };
        assert_eq!(around.local("2026-11-30T08:00:00.000Z", now), "10:00:00");
        assert_eq!(around.local("2026-11-29T08:00:00.000Z", now), "2026-11-29 10:00:00");
        assert_eq!(around.local("yesterday", now), "an unknown time");
    }
}
