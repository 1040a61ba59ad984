//! Who asks: agent, session, subagent, whether a person is there.

use askd_wire::{Ask, SessionView};
use askd_words::{Part, Sessions};

/// What is known of the sessions around, seen from this person's place.
#[derive(Debug, Default)]
pub(crate) struct Who(Sessions);

impl Who {
    pub(crate) fn new(sessions: Vec<SessionView>) -> Self {
        let home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Self::at(home, host.map(|host| host.trim().to_owned()), sessions)
    }

    fn at(home: Option<String>, host: Option<String>, sessions: Vec<SessionView>) -> Self {
        let mut known = Sessions::new(home, host);
        known.set(sessions);
        Self(known)
    }

    /// Whether the ask's session is one of them.
    pub(crate) fn knows(&self, ask: &Ask) -> bool {
        self.0.knows(ask)
    }

    /// `claude-code "fix the tests"`, else `claude-code in ~/src/askd`.
    pub(crate) fn session(&self, ask: &Ask) -> String {
        self.0.session(ask)
    }

    /// The same for a session itself.
    pub(crate) fn session_view(&self, view: &SessionView) -> String {
        self.0.session_view(view)
    }

    /// A directory with `~` for the home directory.
    pub(crate) fn directory(&self, path: &str) -> String {
        self.0.directory(path)
    }

    /// All of it on one line: `claude-code in ~/src · subagent explore (general-purpose, depth 1) · background`.
    pub(crate) fn line(&self, ask: &Ask) -> String {
        self.0.who(ask).into_iter().map(Part::text).collect::<Vec<_>>().join(" · ")
    }

    /// The host of the agent, when it is not this one.
    pub(crate) fn other_host(&self, ask: &Ask) -> Option<String> {
        self.0.other_host(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn a_title_comes_before_the_directory() {
        let ask = samples::background();
        let who = Who::at(Some("/home/me".to_owned()), None, Vec::new());
        assert_eq!(
            who.line(&ask),
            "claude-code in ~/src/askd · subagent first child (general-purpose, depth 1) · background"
        );
        let titled = Who::at(None, None, vec![samples::session()]);
        assert_eq!(titled.session(&ask), "claude-code \"fix the tests\\u{1b}[2K\"");
    }
}
