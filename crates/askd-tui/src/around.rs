//! What is known around the asks: sessions by their titles, this person's home, host and time zone.

use std::collections::HashMap;
use std::path::Path;

use askd_text::cut;
use askd_wire::{Ask, Attendance, Class, SessionView};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::now::Now;
use crate::rows::Look;
use crate::words::{one, subagent};

/// Longest session title in a line about something else.
const TITLE_COLUMNS: usize = 40;

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
    sessions: HashMap<(String, String), SessionView>,
    place: Place,
}

impl Around {
    pub(crate) fn new(place: Place) -> Self {
        Self { sessions: HashMap::new(), place }
    }

    pub(crate) fn set_sessions(&mut self, sessions: Vec<SessionView>) {
        let sessions = sessions.into_iter().map(|view| ((view.agent.clone(), view.session.clone()), view));
        self.sessions = sessions.collect();
    }

    pub(crate) fn knows(&self, ask: &Ask) -> bool {
        self.view(ask).is_some()
    }

    fn view(&self, ask: &Ask) -> Option<&SessionView> {
        self.sessions.get(&(ask.lineage.agent.clone(), ask.lineage.session.clone()))
    }

    fn title(&self, ask: &Ask) -> Option<&str> {
        self.view(ask)?.title.as_deref().filter(|title| !title.is_empty())
    }

    /// `claude-code "fix the tests"`, else `claude-code in ~/src/askd`.
    pub(crate) fn session(&self, ask: &Ask) -> String {
        let agent = one(&ask.lineage.agent);
        let cwd = self.view(ask).and_then(|view| view.cwd.as_deref()).or(ask.action.cwd.as_deref());
        match (self.title(ask), cwd) {
            (Some(title), _) => format!("{agent} \"{}\"", cut(&one(title), TITLE_COLUMNS)),
            (None, Some(cwd)) => format!("{agent} in {}", self.directory(cwd)),
            (None, None) => format!("{agent} session {}", one(&ask.lineage.session)),
        }
    }

    /// A directory with `~` for the home directory.
    pub(crate) fn directory(&self, path: &str) -> String {
        let home = self.place.home.as_deref().filter(|home| home.len() > 1);
        let below = home.and_then(|home| Path::new(path).strip_prefix(home).ok());
        match below.and_then(Path::to_str) {
            Some("") => "~".to_owned(),
            Some(below) => one(&format!("~/{below}")),
            None => one(path),
        }
    }

    /// Who asks, part by part: session, subagent, job, background, safety, host.
    pub(crate) fn who(&self, ask: &Ask) -> Vec<(String, Look)> {
        let mut parts = vec![(self.session(ask), Look::Plain)];
        let lineage = &ask.lineage;
        parts.extend(lineage.subagent.as_ref().map(|it| (format!("subagent {}", subagent(it)), Look::Plain)));
        parts.extend(lineage.job.as_deref().map(|job| (format!("job {}", one(job)), Look::Plain)));
        if ask.attendance == Attendance::Background {
            parts.push(("background".to_owned(), Look::Plain));
        }
        if ask.class == Class::Safety {
            parts.push(("safety".to_owned(), Look::Danger));
        }
        parts.extend(self.other_host(ask).map(|host| (format!("on {host}"), Look::Warn)));
        parts
    }

    /// The one name that tells asks of a list apart best: subagent, job, session title, directory, session.
    pub(crate) fn short(&self, ask: &Ask) -> String {
        let lineage = &ask.lineage;
        if let Some(child) = &lineage.subagent {
            let name = child.name.as_deref().or(child.kind.as_deref()).filter(|name| !name.is_empty());
            return one(name.unwrap_or(&child.work_id));
        }
        if let Some(job) = &lineage.job {
            return one(job);
        }
        if let Some(title) = self.title(ask) {
            return one(title);
        }
        match self.view(ask).and_then(|view| view.cwd.as_deref()).or(ask.action.cwd.as_deref()) {
            Some(cwd) => self.directory(cwd),
            None => one(&lineage.session),
        }
    }

    /// The host of the agent, when it is not this one.
    pub(crate) fn other_host(&self, ask: &Ask) -> Option<String> {
        let host = ask.lineage.host.as_deref().filter(|host| !host.is_empty())?;
        (self.place.host.as_deref() != Some(host)).then(|| one(host))
    }

    /// `10:31:05`, with the date when it is not today's.
    pub(crate) fn local(&self, time: &str, now: Now) -> String {
        let (Ok(time), Ok(now)) = (time.parse::<Timestamp>(), Timestamp::from_millisecond(now.wall_ms))
        else {
            return "an unknown time".to_owned();
        };
        let time = time.to_zoned_datetime(self.place.zone.clone());
        let today = now.to_zoned_datetime(self.place.zone.clone()).date();
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
        ask.class = Class::Safety;
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
