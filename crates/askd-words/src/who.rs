//! Who asks: agent, session, subagent, whether a person is there.

use std::collections::HashMap;
use std::path::Path;

use askd_text::cut;
use askd_wire::{Ask, Attendance, Class, SessionView, Subagent};

use crate::one;

/// Longest session title in a line about something else, in columns.
const TITLE_COLUMNS: usize = 40;

/// What is known of the sessions around, so that an ask can be told by its session's title, and of this person's place.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<(String, String), SessionView>,
    home: Option<String>,
    host: Option<String>,
}

/// One thing to say about who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Session(String),
    Subagent(String),
    Job(String),
    Background,
    Safety,
    /// Another host than this one.
    Host(String),
}

impl Part {
    pub fn text(self) -> String {
        match self {
            Self::Session(text) => text,
            Self::Subagent(child) => format!("subagent {child}"),
            Self::Job(job) => format!("job {job}"),
            Self::Background => "background".to_owned(),
            Self::Safety => "safety".to_owned(),
            Self::Host(host) => format!("on {host}"),
        }
    }
}

impl Sessions {
    /// `home`: the person's home directory, shown as `~`. `host`: the name of this machine; asks from another say so.
    pub fn new(home: Option<String>, host: Option<String>) -> Self {
        Self { sessions: HashMap::new(), home: home.filter(|home| home.len() > 1), host }
    }

    pub fn set(&mut self, sessions: Vec<SessionView>) {
        let sessions = sessions.into_iter().map(|view| ((view.agent.clone(), view.session.clone()), view));
        self.sessions = sessions.collect();
    }

    /// Whether the ask's session is one of them.
    pub fn knows(&self, ask: &Ask) -> bool {
        self.view(ask).is_some()
    }

    fn view(&self, ask: &Ask) -> Option<&SessionView> {
        self.sessions.get(&(ask.lineage.agent.clone(), ask.lineage.session.clone()))
    }

    fn title(&self, ask: &Ask) -> Option<&str> {
        self.view(ask)?.title.as_deref().filter(|title| !title.is_empty())
    }

    fn cwd<'a>(&'a self, ask: &'a Ask) -> Option<&'a str> {
        self.view(ask).and_then(|view| view.cwd.as_deref()).or(ask.action.cwd.as_deref())
    }

    /// `claude-code "fix the tests"`, else `claude-code in ~/src/askd`.
    pub fn session(&self, ask: &Ask) -> String {
        self.named(&ask.lineage.agent, self.title(ask), self.cwd(ask), &ask.lineage.session)
    }

    /// The same for a session itself.
    pub fn session_view(&self, view: &SessionView) -> String {
        let title = view.title.as_deref().filter(|title| !title.is_empty());
        self.named(&view.agent, title, view.cwd.as_deref(), &view.session)
    }

    fn named(&self, agent: &str, title: Option<&str>, cwd: Option<&str>, session: &str) -> String {
        let agent = one(agent);
        match (title, cwd) {
            (Some(title), _) => format!("{agent} \"{}\"", cut(&one(title), TITLE_COLUMNS)),
            (None, Some(cwd)) => format!("{agent} in {}", self.directory(cwd)),
            (None, None) => format!("{agent} session {}", one(session)),
        }
    }

    /// A directory with `~` for the home directory.
    pub fn directory(&self, path: &str) -> String {
        let below = self.home.as_deref().and_then(|home| Path::new(path).strip_prefix(home).ok());
        match below.and_then(Path::to_str) {
            Some("") => "~".to_owned(),
            Some(below) => one(&format!("~/{below}")),
            None => one(path),
        }
    }

    /// The host of the agent, when it is not this one.
    pub fn other_host(&self, ask: &Ask) -> Option<String> {
        let host = ask.lineage.host.as_deref().filter(|host| !host.is_empty())?;
        (self.host.as_deref() != Some(host)).then(|| one(host))
    }

    /// Everything about who asks, in order.
    pub fn who(&self, ask: &Ask) -> Vec<Part> {
        let lineage = &ask.lineage;
        let mut parts = vec![Part::Session(self.session(ask))];
        parts.extend(lineage.subagent.as_ref().map(|child| Part::Subagent(subagent(child))));
        parts.extend(lineage.job.as_deref().map(|job| Part::Job(one(job))));
        if ask.attendance == Attendance::Background {
            parts.push(Part::Background);
        }
        if ask.class == Class::Safety {
            parts.push(Part::Safety);
        }
        parts.extend(self.other_host(ask).map(Part::Host));
        parts
    }

    /// The one name that tells asks of a list apart best: subagent, job, session title, directory, session.
    pub fn short(&self, ask: &Ask) -> String {
        let lineage = &ask.lineage;
        if let Some(child) = &lineage.subagent {
            let name = child.name.as_deref().or(child.kind.as_deref()).filter(|name| !name.is_empty());
            return one(name.unwrap_or(&child.work_id));
        }
        match (&lineage.job, self.title(ask), self.cwd(ask)) {
            (Some(job), ..) => one(job),
            (None, Some(title), _) => one(title),
            (None, None, Some(cwd)) => self.directory(cwd),
            (None, None, None) => one(&lineage.session),
        }
    }
}

/// `explore (general-purpose, depth 1)`
pub fn subagent(child: &Subagent) -> String {
    let name = child.name.as_deref().filter(|name| !name.is_empty());
    let kind = child.kind.as_deref().filter(|kind| !kind.is_empty());
    let first = one(name.or(kind).unwrap_or(&child.work_id));
    let mut rest: Vec<String> = Vec::new();
    rest.extend(name.and(kind).map(one));
    rest.extend(child.depth.map(|depth| format!("depth {depth}")));
    if rest.is_empty() { first } else { format!("{first} ({})", rest.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_a_subagent_is_told_with_name_type_and_depth() {
        let child = |name: Option<&str>, kind: Option<&str>, depth| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            subagent(&Subagent { name: own(name), kind: own(kind), work_id: "a1".into(), depth })
        };
        assert_eq!(
            child(Some("explore"), Some("general-purpose"), Some(2)),
            "explore (general-purpose, depth 2)"
        );
        assert_eq!(child(None, Some("general-purpose"), None), "general-purpose");
        assert_eq!(child(Some(""), None, Some(1)), "a1 (depth 1)");
        assert_eq!(child(Some("\u{202e}x"), None, None), "\\u{202e}x");
    }

    #[test]
    fn home_is_short_and_other_homes_are_not() {
        let sessions = Sessions::new(Some("/home/me".to_owned()), None);
        assert_eq!(sessions.directory("/home/me"), "~");
        assert_eq!(sessions.directory("/home/me/a b"), "~/a b");
        assert_eq!(sessions.directory("/home/mean"), "/home/mean");
        assert_eq!(Sessions::new(Some("/".to_owned()), None).directory("/x"), "/x");
    }
}
