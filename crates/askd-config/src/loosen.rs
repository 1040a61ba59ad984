//! Settings that let more happen without a person, and that wait until a person accepts them.
//!
//! A loosened value is known by itself, not by what stood in the file before: the file can be edited while nothing
//! runs. So a value waits, over every restart and wherever it was set, until the very pair of key and value was
//! accepted; until then the tight value is in force. Tight values are in force at once.
//!
//! What counts as loosened: skipping permissions, a default of allow (at a deadline or after a remote silence), and with a default of allow also a timeout shorter than askd's own
//! (an accepted "allow after six minutes" must not become "allow after one second").
//!
//! Who can answer is loosened too: a token, a chat and a person that askd listens to, each by itself, and the server
//! that speaks for them. So are commands that the daemon runs, as they run outside of the tree of whoever wrote them down.
//!
//! What does not: `unreachable`. Going from `when_none_attached` back to `when_no_surface` leaves asks open that
//! would have been denied at once, but only a person, or a default that a person accepted, can allow them.
//! `late_answer_secs` lets only a person's own answer settle, and its range is short. `journal.url` changes what is
//! remembered, accepted settings included: a new journal starts tight, and so does one that comes with the config and not
//! by a person's start (the daemon sees to that).

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::keys::KEYS;
use crate::secret;
use crate::settings::{Settings, TimedDefault};

/// A setting that is looser than askd's own default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loosening {
    /// `section.key`
    pub key: &'static str,
    /// The loose value as plain text, without quotes: `allow`. One with a secret in it goes by a name that does not
    /// tell it, for this is shown and kept.
    pub value: String,
    /// What is in force until a person accepts the loose one, as plain text.
    pub tight_value: String,
    /// What accepting it means.
    pub meaning: &'static str,
}

impl Loosening {
    /// What an acceptance of it is stored as.
    pub fn pair(&self) -> (String, String) {
        (self.key.to_owned(), self.value.clone())
    }
}

impl fmt::Display for Loosening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} = {} waits until a person accepts it (in force: {}): {}",
            self.key, self.value, self.tight_value, self.meaning
        )
    }
}

/// Settings in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// What the daemon acts on.
    pub settings: Settings,
    /// Loosened values that nobody accepted; each is replaced by its tight value in `settings`.
    pub waiting: Vec<Loosening>,
    /// Accepted pairs that the settings do not ask for any more. To be forgotten, so that loosening again asks again.
    pub obsolete: BTreeSet<(String, String)>,
    /// Telegram is set up, a person accepted it all, and only its token has not been read.
    pub awaits_token: bool,
}

struct Rule {
    key: &'static str,
    meaning: &'static str,
    is_loose: fn(set: &Settings, tight: &Settings) -> bool,
    tighten: fn(set: &mut Settings, tight: &Settings),
}

const RULES: &[Rule] = &[
    Rule {
        key: "permissions.background_default",
        meaning: "background actions run when nobody answers",
        is_loose: |set, _| set.permissions.background_default == TimedDefault::Allow,
        tighten: |set, tight| set.permissions.background_default = tight.permissions.background_default,
    },
    Rule {
        key: "permissions.background_timeout_secs",
        meaning: "background actions run before a person has had the usual time to answer",
        is_loose: |set, tight| {
            set.permissions.background_default == TimedDefault::Allow
                && set.permissions.background_timeout_secs < tight.permissions.background_timeout_secs
        },
        tighten: |set, tight| {
            set.permissions.background_timeout_secs = tight.permissions.background_timeout_secs;
        },
    },
    Rule {
        key: "permissions.dangerously_skip_permissions",
        meaning: "every tool runs without anybody being asked",
        is_loose: |set, _| set.permissions.dangerously_skip_permissions,
        tighten: |set, _| set.permissions.dangerously_skip_permissions = false,
    },
    Rule {
        key: "remote.timeout_action",
        meaning: "foreground actions run when nobody answers on a remote surface",
        is_loose: |set, _| set.remote.timeout_action == TimedDefault::Allow && set.remote.timeout_secs > 0,
        tighten: |set, tight| set.remote.timeout_action = tight.remote.timeout_action,
    },
    Rule {
        key: "remote.timeout_secs",
        meaning: "foreground actions run after this short a silence on a remote surface",
        is_loose: |set, _| set.remote.timeout_action == TimedDefault::Allow && set.remote.timeout_secs > 0,
        tighten: |set, tight| set.remote.timeout_secs = tight.remote.timeout_secs,
    },
    Rule {
        key: "permissions.safety_default",
        meaning: "unattended loops go on without anyone confirming",
        is_loose: |set, _| set.permissions.safety_default == TimedDefault::Allow,
        tighten: |set, tight| set.permissions.safety_default = tight.permissions.safety_default,
    },
    Rule {
        key: "permissions.safety_timeout_secs",
        meaning: "unattended loops go on before a person has had the usual time to answer",
        is_loose: |set, tight| {
            set.permissions.safety_default == TimedDefault::Allow
                && set.permissions.safety_timeout_secs < tight.permissions.safety_timeout_secs
        },
        tighten: |set, tight| set.permissions.safety_timeout_secs = tight.permissions.safety_timeout_secs,
    },
    Rule {
        key: "notify.command",
        meaning: "the daemon runs this command for every new ask",
        is_loose: |set, _| !set.notify.command.is_empty(),
        tighten: |set, _| set.notify.command.clear(),
    },
    Rule {
        key: "telegram.token_cmd",
        meaning: "the daemon runs this command for the bot's token",
        is_loose: |set, _| !set.telegram.token_cmd.is_empty(),
        tighten: |set, _| set.telegram.token_cmd.clear(),
    },
    Rule {
        key: "telegram.proxy",
        meaning: "the bot is reached through this proxy",
        is_loose: |set, _| !set.telegram.proxy.is_empty(),
        tighten: |set, _| {
            set.telegram.proxy.clear();
            // What was meant to go one way does not go another.
            set.telegram.chat_ids.clear();
        },
    },
    Rule {
        key: "telegram.api_url",
        meaning: "this server is believed when it says who answered",
        is_loose: |set, tight| set.telegram.api_url != tight.telegram.api_url,
        tighten: |set, tight| {
            set.telegram.api_url = tight.telegram.api_url.clone();
            // What was meant for one server is not sent to another.
            set.telegram.chat_ids.clear();
        },
    },
];

/// The key under which a bot's token is accepted: by its fingerprint, wherever it was read from.
pub const TOKEN: &str = "telegram.token";

/// Every chat, person and token is a value of its own, so that one that is taken out is out at once.
fn listed(settings: &Settings) -> Vec<Loosening> {
    let from = &settings.telegram;
    let one = |key, value: String, meaning| Loosening { key, value, tight_value: "none".to_owned(), meaning };
    let chats = from.chat_ids.iter().map(|id| {
        one("telegram.chat_ids", id.to_string(), "asks are sent to this chat, and answers are taken there")
    });
    let users = from.user_ids.iter().map(|id| {
        one("telegram.user_ids", id.to_string(), "this person may answer asks and change settings")
    });
    let token = from
        .token
        .iter()
        .map(|print| one(TOKEN, print.clone(), "asks go out, and answers come in, through this bot"));
    chats.chain(users).chain(token).collect()
}

fn keep_listed(in_force: &mut Settings, is_accepted: impl Fn(&str, &str) -> bool) {
    let telegram = &mut in_force.telegram;
    telegram.chat_ids.retain(|id| is_accepted("telegram.chat_ids", &id.to_string()));
    telegram.user_ids.retain(|id| is_accepted("telegram.user_ids", &id.to_string()));
    telegram.token = telegram.token.take().filter(|print| is_accepted(TOKEN, print));
}

/// Every loosened value in `settings`, accepted or not.
pub fn loosenings(settings: &Settings) -> Vec<Loosening> {
    let tight = Settings::default();
    RULES.iter().filter_map(|rule| rule.applies_to(settings, &tight)).chain(listed(settings)).collect()
}

/// What is in force when a person has accepted the pairs of key and value in `accepted`.
pub fn effective(settings: &Settings, accepted: &BTreeSet<(String, String)>) -> Effective {
    let tight = Settings::default();
    let mut in_force = settings.clone();
    let mut waiting = Vec::new();
    let mut obsolete = accepted.clone();
    for rule in RULES {
        let Some(loosening) = rule.applies_to(settings, &tight) else { continue };
        if !obsolete.remove(&loosening.pair()) {
            (rule.tighten)(&mut in_force, &tight);
            waiting.push(loosening);
        }
    }
    keep_listed(&mut in_force, |key, value| accepted.contains(&(key.to_owned(), value.to_owned())));
    waiting.extend(listed(settings).into_iter().filter(|loosening| !obsolete.remove(&loosening.pair())));
    let unread = settings.telegram.token.is_none() && settings.telegram.is_wanted();
    if unread {
        // A token that was not read is not known to be another one.
        obsolete.retain(|(key, _)| key != TOKEN);
    }
    let to_come = &in_force.telegram;
    let awaits_token = unread
        && accepted.iter().any(|(key, _)| key == TOKEN)
        && to_come.is_wanted()
        && !to_come.chat_ids.is_empty()
        && !to_come.user_ids.is_empty();
    Effective { settings: in_force, waiting, obsolete, awaits_token }
}

impl Rule {
    fn applies_to(&self, settings: &Settings, tight: &Settings) -> Option<Loosening> {
        let key = KEYS.iter().find(|key| key.name == self.key)?;
        (self.is_loose)(settings, tight).then(|| Loosening {
            key: key.name,
            value: secret::named(&key.plain(settings)),
            tight_value: key.plain(tight),
            meaning: self.meaning,
        })
    }
}

/// What a person should know about settings that are allowed and risky, one safe line each, wherever settings are shown.
pub fn warnings(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    if settings.permissions.dangerously_skip_permissions {
        lines.push(
            "permissions.dangerously_skip_permissions = true: every tool runs without anybody being asked"
                .to_owned(),
        );
    }
    if settings.permissions.safety_default == TimedDefault::Allow {
        lines.push(
            "permissions.safety_default = \"allow\": unattended loops go on without anyone confirming"
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests;
