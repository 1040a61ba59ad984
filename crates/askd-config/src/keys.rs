//! The list of what can be set, and what this version does not serve yet.

use std::ops::RangeInclusive;

use crate::error::NoSuchKey;
use crate::settings::Settings;
use crate::slot::Slot;

/// One key of the config.
pub struct Key {
    /// `section.key`
    pub name: &'static str,
    /// What it does, one sentence or two.
    pub meaning: &'static str,
    pub(crate) slot: fn(&mut Settings) -> Slot<'_>,
}

/// The bounds of every timeout, in seconds: nobody waits for more than a year.
pub(crate) const TIMEOUT: RangeInclusive<u64> = 1..=31_536_000;

/// Every key that is served, by section, in the order in which they are printed.
pub static KEYS: &[Key] = &[
    Key {
        name: "permissions.background_timeout_secs",
        meaning: "Seconds that a background ask waits for an answer before `background_default` settles it.",
        slot: |s| Slot::Number(&mut s.permissions.background_timeout_secs, TIMEOUT),
    },
    Key {
        name: "permissions.background_default",
        meaning: "What settles a background ask at its deadline.",
        slot: |s| Slot::Word(&mut s.permissions.background_default),
    },
    Key {
        name: "permissions.safety_timeout_secs",
        meaning: "Seconds that a background safety ask waits for an answer before `safety_default` settles it.",
        slot: |s| Slot::Number(&mut s.permissions.safety_timeout_secs, TIMEOUT),
    },
    Key {
        name: "permissions.safety_default",
        meaning: "What settles a background safety ask at its deadline.",
        slot: |s| Slot::Word(&mut s.permissions.safety_default),
    },
    Key {
        name: "permissions.background_deny",
        meaning: "What a timed deny of a background ask does to the turn: the agent goes on with the deny, or stops.",
        slot: |s| Slot::Word(&mut s.permissions.background_deny),
    },
    Key {
        name: "permissions.queue_cap",
        meaning: "Background tool asks of one root session that wait behind the one in front; the next is answered \
                  by its default at once. 0: no cap.",
        slot: |s| Slot::Number(&mut s.permissions.queue_cap, 0..=10_000),
    },
    Key {
        name: "permissions.dangerously_skip_permissions",
        meaning: "Allows every tool ask everywhere without asking anybody, and never a safety ask.",
        slot: |s| Slot::Switch(&mut s.permissions.dangerously_skip_permissions),
    },
    Key {
        name: "permissions.unreachable",
        meaning: "When an ask counts as unreachable and is denied at once: only when no surface can exist, or \
                  already when none is attached and no remote is configured.",
        slot: |s| Slot::Word(&mut s.permissions.unreachable),
    },
    Key {
        name: "permissions.late_answer_secs",
        meaning: "Seconds for which a person's answer that came too late may still settle one later ask for the \
                  same call; 0 keeps none.",
        slot: |s| Slot::Number(&mut s.permissions.late_answer_secs, 0..=600),
    },
    Key {
        name: "remote.timeout_secs",
        meaning: "Seconds after which a silence on a remote surface settles a foreground ask that it shows; 0: a \
                  silence decides nothing.",
        slot: |s| Slot::Number(&mut s.remote.timeout_secs, 0..=31_536_000),
    },
    Key {
        name: "remote.timeout_action",
        meaning: "What settles it then; a safety ask is only ever denied.",
        slot: |s| Slot::Word(&mut s.remote.timeout_action),
    },
    Key {
        name: "hook.hold_background",
        meaning: "Whether the hook holds the ask of a background subagent, whose dialog in the agent's terminal \
                  waits as long: auto holds it while a surface is attached or a remote is configured, never hands \
                  it back at once.",
        slot: |s| Slot::Word(&mut s.hook.hold_background),
    },
    Key {
        name: "acp.client_dismiss",
        meaning: "What a dialog means that the client closed without an answer and without cancelling the turn: \
                  ignore leaves the ask open while other surfaces are attached, cancel tells the agent that it was \
                  cancelled.",
        slot: |s| Slot::Word(&mut s.acp.client_dismiss),
    },
    Key {
        name: "acp.client_grace_secs",
        meaning: "Seconds for which asks stay open on other surfaces, and their agent runs, after the client is gone.",
        slot: |s| Slot::Number(&mut s.acp.client_grace_secs, 0..=31_536_000),
    },
    Key {
        name: "acp.subagents",
        meaning: "How a client without subagent sessions sees asks of subagents: auto as the agent sends them, \
                  translate asks the agent for subagent sessions and shows their asks on the parent's session.",
        slot: |s| Slot::Word(&mut s.acp.subagents),
    },
    Key {
        name: "claude.shell_patience_secs",
        meaning: "Seconds for which background shells may run on after the last turn when the host has closed its \
                  end; then Claude is told to stop them, and a turn that follows is still asked about. 0: as long as \
                  they run.",
        slot: |s| Slot::Number(&mut s.claude.shell_patience_secs, 0..=31_536_000),
    },
    Key {
        name: "notify.bell",
        meaning: "Whether the terminal queue rings the bell when an ask arrives.",
        slot: |s| Slot::Switch(&mut s.notify.bell),
    },
    Key {
        name: "notify.command",
        meaning: "A command that is run by the shell for every new ask, with the ask as JSON on its standard input, \
                  secrets covered.",
        slot: |s| Slot::Text(&mut s.notify.command),
    },
    Key {
        name: "telegram.token_file",
        meaning: "The file with the bot's token, readable by its owner only. Of the three ways to give a token the \
                  first that is set counts.",
        slot: |s| Slot::Path(&mut s.telegram.token_file),
    },
    Key {
        name: "telegram.token_env",
        meaning: "The name of the environment variable with the bot's token; it counts only for a daemon that you \
                  start by `askd daemon`.",
        slot: |s| Slot::Variable(&mut s.telegram.token_env),
    },
    Key {
        name: "telegram.token_cmd",
        meaning: "A command that is run by the shell and prints the bot's token.",
        slot: |s| Slot::Text(&mut s.telegram.token_cmd),
    },
    Key {
        name: "telegram.chat_ids",
        meaning: "Ids of the chats that asks are sent to; from other chats nothing is taken.",
        slot: |s| Slot::Ids(&mut s.telegram.chat_ids),
    },
    Key {
        name: "telegram.user_ids",
        meaning: "Ids of the people who may answer there; others are not heard.",
        slot: |s| Slot::Ids(&mut s.telegram.user_ids),
    },
    Key {
        name: "telegram.max_open",
        meaning: "Asks that are shown there at once; the others wait in order. 1: one after the other.",
        slot: |s| Slot::Number(&mut s.telegram.max_open, 1..=100),
    },
    Key {
        name: "telegram.api_url",
        meaning: "The Bot API server.",
        slot: |s| Slot::Url(&mut s.telegram.api_url),
    },
    Key {
        name: "telegram.proxy",
        meaning: "The proxy on the way to the Bot API server; without it there is none, whatever the environment says.",
        slot: |s| Slot::Proxy(&mut s.telegram.proxy),
    },
    Key {
        name: "journal.url",
        meaning: "The journal: `sqlite:` in its default place, or `sqlite:` and a path.",
        slot: |s| Slot::Journal(&mut s.journal.url),
    },
    Key {
        name: "journal.retention_days",
        meaning: "Days for which settled asks are kept.",
        slot: |s| Slot::Number(&mut s.journal.retention_days, 1..=36_500),
    },
    Key {
        name: "daemon.autostart",
        meaning: "Whether a requester starts the daemon when none runs.",
        slot: |s| Slot::Switch(&mut s.daemon.autostart),
    },
    Key {
        name: "spool.dirs",
        meaning: "Forwarding directories that the daemon serves, as absolute paths; for pi the directory \
                  sessions/permission-forwarding in its agent directory.",
        slot: |s| Slot::Paths(&mut s.spool.dirs),
    },
];

/// Keys that belong to askd and that this version does not serve. A key moves up from here when what it sets is built.
const NOT_SERVED: &[&str] = &["answer.proof", "web.listen", "web.public_url", "journal.allow_unsafe"];

impl Key {
    /// The section and the key in it.
    pub fn split(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }

    /// The environment variable that sets it: `ASKD_PERMISSIONS__BACKGROUND_DEFAULT`.
    pub fn env(&self) -> String {
        env_name(self.name)
    }

    /// What may be written, in words.
    pub fn allowed(&self) -> String {
        (self.slot)(&mut Settings::default()).allowed()
    }

    /// Its value in `settings`, as it is written in the file: `360`, `"deny"`.
    pub fn literal(&self, settings: &Settings) -> String {
        (self.slot)(&mut settings.clone()).literal()
    }

    /// Its value in `settings` as plain text: `360`, `deny`.
    pub fn plain(&self, settings: &Settings) -> String {
        (self.slot)(&mut settings.clone()).plain()
    }
}

/// The key of that name, or why there is none.
pub fn find(name: &str) -> Result<&'static Key, NoSuchKey> {
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return Ok(key);
    }
    Err(if NOT_SERVED.contains(&name) {
        NoSuchKey::NotServed { key: name.to_owned() }
    } else {
        NoSuchKey::Unknown { key: name.to_owned(), suggestion: nearest(name, all()) }
    })
}

pub(crate) fn env_name(name: &str) -> String {
    format!("ASKD_{}", name.replacen('.', "__", 1).to_ascii_uppercase())
}

/// The names of all keys, served or not.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).chain(NOT_SERVED.iter().copied())
}

/// The names of all sections, and whether anything in them is served. Each once for every key in it.
fn sections() -> impl Iterator<Item = &'static str> {
    all().filter_map(|name| name.split_once('.')).map(|(section, _)| section)
}

pub(crate) fn is_section(name: &str) -> bool {
    sections().any(|section| section == name)
}

pub(crate) fn is_served_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.split().0 == name)
}

pub(crate) fn nearest_section(name: &str) -> Option<&'static str> {
    nearest(name, sections())
}

pub(crate) fn is_served(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name)
}

/// What somebody who wrote `name` may have meant: few letters away, or the right key in the wrong section.
fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let last = |name: &str| name.rsplit_once('.').map_or(0, |(section, _)| section.len() + 1);
    let distance = |other: &str| {
        let whole = strsim::damerau_levenshtein(name, other);
        // A key that is right but for its section is as good as one wrong letter.
        let key = strsim::damerau_levenshtein(&name[last(name)..], &other[last(other)..]) + 1;
        // So is one that stops too early.
        let cut = (name.len() > last(name) + 3 && other.starts_with(name)).then_some(2);
        whole.min(key).min(cut.unwrap_or(usize::MAX))
    };
    names
        .map(|other| (distance(other), other))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= (name.len() - last(name)).div_ceil(3).max(2))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_absent() {
        let suggestion = |name: &str| match find(name) {
            Err(NoSuchKey::Unknown { suggestion, .. }) => suggestion,
            _ => panic!("{name} is a key"),
        };
        assert_eq!(suggestion("permissions.backgroud_default"), Some("permissions.background_default"));
        assert_eq!(suggestion("permission.background_default"), Some("permissions.background_default"));
        assert_eq!(suggestion("background_default"), Some("permissions.background_default"));
        assert_eq!(suggestion("hook.autostart"), Some("daemon.autostart"));
        assert_eq!(suggestion("remote.timeout"), Some("remote.timeout_secs"));
        assert_eq!(suggestion("permissions.zzz"), None);
        assert_eq!(suggestion(""), None);
        assert_eq!(suggestion("日本.語"), None);
        assert_eq!(nearest_section("permission"), Some("permissions"));
        assert_eq!(nearest_section("colours"), None);
    }

    #[test]
    fn keys_are_unique_and_in_sections() {
        let mut names: Vec<_> = all().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        assert!(names.iter().all(|name| name.split('.').count() == 2));
    }
}
