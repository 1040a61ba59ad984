//! Who asks: agent, session, subagent, whether a person is there.

use std::collections::HashMap;
use std::path::Path;

use askd_wire::{Ask, Attendance, Class, SessionView, Subagent};

use crate::out::{safe, short};

/// Longest session title in a line about something else.
const TITLE_COLUMNS: usize = 40;

/// What is known of the sessions around, so that an ask can be told by its session's title.
#[derive(Debug, Default)]
pub(crate) struct Who {
    sessions: HashMap<(String, String), SessionView>,
    home: Option<String>,
    host: Option<String>,
}

impl Who {
    pub(crate) fn new(sessions: Vec<SessionView>) -> Self {
        let home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let sessions = sessions.into_iter().map(|view| ((view.agent.clone(), view.session.clone()), view));
        Self {
            sessions: sessions.collect(),
            home: home.filter(|home| home.len() > 1),
            host: host.map(|host| host.trim().to_owned()),
        }
    }

    /// Whether the ask's session is one of them.
    pub(crate) fn knows(&self, ask: &Ask) -> bool {
        self.sessions.contains_key(&(ask.lineage.agent.clone(), ask.lineage.session.clone()))
    }

    /// `claude-code "fix the tests"`, else `claude-code in ~/src/askd`.
    pub(crate) fn session(&self, ask: &Ask) -> String {
        let lineage = &ask.lineage;
        let known = self.sessions.get(&(lineage.agent.clone(), lineage.session.clone()));
        let title = known.and_then(|view| view.title.as_deref()).filter(|title| !title.is_empty());
        let cwd = known.and_then(|view| view.cwd.as_deref()).or(ask.action.cwd.as_deref());
        self.named(&lineage.agent, title, cwd, &lineage.session)
    }

    fn named(&self, agent: &str, title: Option<&str>, cwd: Option<&str>, session: &str) -> String {
        let agent = safe(agent);
        match (title, cwd) {
            (Some(title), _) => format!("{agent} \"{}\"", short(title, TITLE_COLUMNS)),
            (None, Some(cwd)) => format!("{agent} in {}", self.directory(cwd)),
            (None, None) => format!("{agent} session {}", safe(session)),
        }
    }

    /// The same for a session itself.
    pub(crate) fn session_view(&self, view: &SessionView) -> String {
        self.named(&view.agent, view.title.as_deref(), view.cwd.as_deref(), &view.session)
    }

    /// A directory with `~` for the home directory.
    pub(crate) fn directory(&self, path: &str) -> String {
        let below = self.home.as_deref().and_then(|home| Path::new(path).strip_prefix(home).ok());
        match below.and_then(Path::to_str) {
            Some("") => "~".to_owned(),
            Some(below) => safe(&format!("~/{below}")),
            None => safe(path),
        }
    }

    /// All of it on one line: `claude-code in ~/src · subagent explore (general-purpose, depth 1) · background`.
    pub(crate) fn line(&self, ask: &Ask) -> String {
        let mut parts = vec![self.session(ask)];
        parts.extend(ask.lineage.subagent.as_ref().map(|child| format!("subagent {}", subagent(child))));
        parts.extend(ask.lineage.job.as_deref().map(|job| format!("job {}", safe(job))));
        if ask.attendance == Attendance::Background {
            parts.push("background".to_owned());
        }
        if ask.class == Class::Safety {
            parts.push("safety".to_owned());
        }
        parts.extend(self.other_host(ask).map(|host| format!("on {host}")));
        parts.join(" · ")
    }

    /// The host of the agent, when it is not this one.
    pub(crate) fn other_host(&self, ask: &Ask) -> Option<String> {
        let host = ask.lineage.host.as_deref().filter(|host| !host.is_empty())?;
        (self.host.as_deref() != Some(host)).then(|| safe(host))
    }
}

/// `explore (general-purpose, depth 1)`
pub(crate) fn subagent(child: &Subagent) -> String {
    let name = child.name.as_deref().filter(|name| !name.is_empty());
    let kind = child.kind.as_deref().filter(|kind| !kind.is_empty());
    let first = name.or(kind).unwrap_or(&child.work_id);
    let mut rest: Vec<String> = Vec::new();
    rest.extend(name.and(kind).map(safe));
    rest.extend(child.depth.map(|depth| format!("depth {depth}")));
    let first = safe(first);
    if rest.is_empty() { first } else { format!("{first} ({})", rest.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn c14_a_subagent_is_told_with_name_type_and_depth() {
        let child = |name: Option<&str>, kind: Option<&str>, depth| {
            subagent(&Subagent {
                name: name.map(str::to_owned),
                kind: kind.map(str::to_owned),
                work_id: "a1".to_owned(),
                depth,
            })
        };
        assert_eq!(
            child(Some("explore"), Some("general-purpose"), Some(2)),
            "explore (general-purpose, depth 2)"
        );
        assert_eq!(child(None, Some("general-purpose"), None), "general-purpose");
        assert_eq!(child(None, None, Some(1)), "a1 (depth 1)");
        assert_eq!(child(Some("\u{202e}x"), None, None), "\\u{202e}x");
    }

    #[test]
    fn a_title_comes_before_the_directory() {
        let ask = samples::background();
        let who = Who { home: Some("/home/me".to_owned()), ..Who::default() };
        assert_eq!(
            who.line(&ask),
            "claude-code in ~/src/askd · subagent first child (general-purpose, depth 1) · background"
        );
        let mut titled = Who::new(vec![samples::session()]);
        titled.home = None;
        assert_eq!(titled.session(&ask), "claude-code \"fix the tests\\u{1b}[2K\"");
    }

    #[test]
    fn home_is_short_and_other_homes_are_not() {
        let who = Who { home: Some("/home/me".to_owned()), ..Who::default() };
        assert_eq!(who.directory("/home/me"), "~");
        assert_eq!(who.directory("/home/me/a b"), "~/a b");
        assert_eq!(who.directory("/home/mean"), "/home/mean");
    }
}
