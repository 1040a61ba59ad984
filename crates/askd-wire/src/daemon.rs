//! Sessions, log entries, health and the file by which programs find the daemon.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::Place;

/// Version of this build, as `askd --version` prints it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `state/daemon.json`, mode 0600: written by a daemon that is ready, removed when it stops.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DaemonFile {
    pub pid: u32,
    pub version: String,
    pub api: u32,
    /// Absolute paths of the two sockets.
    pub ask_sock: String,
    pub answer_sock: String,
}

/// `GET /healthz`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Health {
    /// Asks can be recorded and answered.
    pub ok: bool,
    pub pid: u32,
    pub version: String,
    pub api: u32,
    pub open: u32,
    /// Attached surfaces.
    pub surfaces: u32,
    pub journal: String,
    /// Why the journal takes nothing at present; null: it does. Not safe to print as it is.
    #[serde(default)]
    pub not_recorded: Option<String>,
    /// The config file has an error, and what was read before is in force.
    #[serde(default)]
    pub config_is_broken: bool,
    /// Settings in the config that would loosen the rules and wait for `askd config accept`.
    #[serde(default)]
    pub waiting_loosenings: Vec<Loosening>,
    /// More may wait in a moment: what the config leads to is being read.
    #[serde(default)]
    pub reading: bool,
    /// Where tool asks are allowed without anybody. Not told to requesters.
    #[serde(default)]
    pub skipping: Skipping,
    /// What else a person should know of the settings: a config that is broken, dangerous values, what was changed over
    /// the config. Not safe to print as they are.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Remote surfaces that are configured or attached.
    #[serde(default)]
    pub remotes: Vec<RemoteHealth>,
}

/// Where permissions are skipped at present.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipping {
    /// In every session, but for those of `off`.
    #[serde(default)]
    pub everywhere: bool,
    /// Root sessions, as `<agent>/<session>`, where it is on by itself.
    #[serde(default)]
    pub on: Vec<String>,
    /// Root sessions where it is off although it is on everywhere.
    #[serde(default)]
    pub off: Vec<String>,
}

impl Skipping {
    /// For people: `skip-permissions is on in claude-code/1f3a and 2 more`. `None`: everybody is asked. Not safe to print
    /// as it is.
    pub fn text(&self) -> Option<String> {
        let named = |some: &[String]| match some {
            [] => None,
            [one] => Some(one.clone()),
            [one, more @ ..] => Some(format!("{one} and {} more", more.len())),
        };
        match (self.everywhere, named(&self.on), named(&self.off)) {
            (true, _, None) => Some("skip-permissions is on everywhere".to_owned()),
            (true, _, Some(off)) => Some(format!("skip-permissions is on everywhere but in {off}")),
            (false, Some(on), _) => Some(format!("skip-permissions is on in {on}")),
            (false, None, _) => None,
        }
    }
}

/// Whether a remote surface works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteHealth {
    /// For people: `Telegram`.
    pub name: String,
    /// It gets asks now.
    pub attached: bool,
    /// Why it does not work; null: it does. Not safe to print as it is.
    #[serde(default)]
    pub trouble: Option<String>,
}

impl Health {
    /// Everything that a person should know of the settings before the first ask. Not safe to print as it is.
    pub fn warnings(&self) -> Vec<String> {
        let waiting = self.waiting_loosenings.iter().map(|Loosening { key, value, meaning }| {
            let meaning = meaning.as_deref().map(|meaning| format!(" ({meaning})")).unwrap_or_default();
            format!("{key} = {value} waits for you: askd config accept {key}{meaning}")
        });
        let remotes = self.remotes.iter().filter_map(|remote| {
            Some(format!("{} does not work: {}", remote.name, remote.trouble.as_deref()?))
        });
        let not_recorded = self.not_recorded.iter().map(|why| format!("nothing can be recorded: {why}"));
        not_recorded.chain(self.notices.iter().cloned()).chain(waiting).chain(remotes).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loosening {
    pub key: String,
    pub value: String,
    /// For people: what is in force meanwhile, and what it would mean. Told by the daemon, not needed to accept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// One element of `GET /v1/sessions` and `askd sessions --json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionView {
    pub agent: String,
    pub session: String,
    pub root: String,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub instance: Option<String>,
    #[serde(default)]
    pub place: Option<Place>,
    /// Number of its open asks.
    pub waiting: u32,
    /// Live subagents, by work id.
    #[serde(default)]
    pub subagents: Vec<crate::ask::Subagent>,
    pub started_at: String,
    #[serde(default)]
    pub ended_at: Option<String>,
}

/// One element of `GET /v1/log` and one line of `askd log --json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogEntry {
    pub position: u64,
    pub at: String,
    /// `ask/<id>`, `session/<agent>/<id>`, `daemon/<id>`.
    pub stream: String,
    /// The event's name.
    pub what: String,
    /// The ask's handle, where it is one.
    #[serde(default)]
    pub handle: Option<String>,
    /// One line for people.
    pub text: String,
    /// The event as journalled.
    pub event: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t9_where_permissions_are_skipped_is_said_in_one_line() {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let text = |everywhere, on: &[&str], off: &[&str]| {
            Skipping { everywhere, on: named(on), off: named(off) }.text().unwrap_or_default()
        };
        assert_eq!(text(false, &[], &[]), "");
        assert_eq!(text(true, &[], &[]), "skip-permissions is on everywhere");
        assert_eq!(text(true, &[], &["a/1"]), "skip-permissions is on everywhere but in a/1");
        assert_eq!(text(false, &["a/1"], &[]), "skip-permissions is on in a/1");
        assert_eq!(text(false, &["a/1", "b/2", "c/3"], &[]), "skip-permissions is on in a/1 and 2 more");
    }
}
