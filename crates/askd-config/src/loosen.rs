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
//! remembered, accepted settings included, so a new journal starts tight.

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
mod tests {
    use super::*;

    fn settings(default: TimedDefault, secs: u64) -> Settings {
        let mut settings = Settings::default();
        settings.permissions.background_default = default;
        settings.permissions.background_timeout_secs = secs;
        settings
    }

    fn accepted(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    const DEFAULT: &str = "permissions.background_default";
    const TIMEOUT: &str = "permissions.background_timeout_secs";

    #[test]
    fn every_rule_names_a_key_and_tightens_what_it_finds_loose() {
        let tight = Settings::default();
        assert_eq!(loosenings(&tight), []);
        let mut loose = settings(TimedDefault::Allow, 1);
        loose.permissions.safety_default = TimedDefault::Allow;
        loose.permissions.safety_timeout_secs = 1;
        loose.permissions.dangerously_skip_permissions = true;
        loose.remote = crate::Remote { timeout_secs: 1, timeout_action: TimedDefault::Allow };
        loose.notify.command = "notify-send".to_owned();
        loose.telegram = crate::Telegram {
            token_cmd: "pass".to_owned(),
            api_url: "http://127.0.0.1:1".to_owned(),
            proxy: "http://127.0.0.1:2".to_owned(),
            chat_ids: vec![1],
            user_ids: vec![2],
            token: Some("bot 1 (0)".to_owned()),
            ..crate::Telegram::default()
        };
        assert_eq!(loosenings(&loose).len(), RULES.len() + 3);
        let found = effective(&loose, &BTreeSet::new());
        assert_eq!(found.settings, tight);
        assert_eq!(found.waiting, loosenings(&loose));
    }

    #[test]
    fn s2_a_default_of_allow_waits_until_it_was_accepted() {
        let set = settings(TimedDefault::Allow, 360);
        let before = effective(&set, &BTreeSet::new());
        assert_eq!(before.settings, Settings::default());
        assert_eq!(before.waiting.len(), 1);
        assert_eq!(before.waiting[0].pair(), (DEFAULT.to_owned(), "allow".to_owned()));
        assert_eq!(before.waiting[0].tight_value, "deny");
        let after = effective(&set, &before.waiting.iter().map(Loosening::pair).collect());
        assert_eq!((after.settings, after.waiting), (set, vec![]));
    }

    #[test]
    fn s2_an_accepted_allow_cannot_be_hurried() {
        let allow = accepted(&[(DEFAULT, "allow")]);
        let hurried = effective(&settings(TimedDefault::Allow, 1), &allow);
        assert_eq!(hurried.settings, settings(TimedDefault::Allow, 360));
        assert_eq!(hurried.waiting[0].pair(), (TIMEOUT.to_owned(), "1".to_owned()));
        let both = accepted(&[(DEFAULT, "allow"), (TIMEOUT, "1")]);
        assert_eq!(
            effective(&settings(TimedDefault::Allow, 1), &both).settings,
            settings(TimedDefault::Allow, 1)
        );
        // Another hurry is another question.
        assert_eq!(effective(&settings(TimedDefault::Allow, 2), &both).waiting.len(), 1);
    }

    #[test]
    fn s2_tightening_is_in_force_at_once() {
        let mut set = settings(TimedDefault::Deny, 1);
        set.permissions.unreachable = crate::Unreachable::WhenNoneAttached;
        set.permissions.late_answer_secs = 0;
        let found = effective(&set, &BTreeSet::new());
        assert_eq!((found.settings, found.waiting), (set, vec![]));
    }

    #[test]
    fn s2_an_acceptance_ends_with_what_it_was_for() {
        let found = effective(&Settings::default(), &accepted(&[(DEFAULT, "allow")]));
        assert_eq!(found.obsolete, accepted(&[(DEFAULT, "allow")]));
        let found = effective(&settings(TimedDefault::Allow, 360), &accepted(&[(DEFAULT, "allow")]));
        assert_eq!(found.obsolete, BTreeSet::new());
    }

    #[test]
    fn s2_one_allow_does_not_touch_safety() {
        let mut set = settings(TimedDefault::Allow, 360);
        set.permissions.safety_default = TimedDefault::Allow;
        let found = effective(&set, &accepted(&[(DEFAULT, "allow")]));
        assert_eq!(found.settings.permissions.safety_default, TimedDefault::Deny);
        assert_eq!(found.settings.permissions.background_default, TimedDefault::Allow);
    }

    #[test]
    fn s2_each_chat_person_and_token_waits_for_itself_and_goes_at_once() {
        let mut set = Settings::default();
        set.telegram.chat_ids = vec![10, 11];
        set.telegram.user_ids = vec![7];
        set.telegram.token_file = "/t".to_owned();
        set.telegram.token = Some("bot 1 (aa)".to_owned());
        let some = accepted(&[("telegram.chat_ids", "10"), ("telegram.user_ids", "7")]);
        let found = effective(&set, &some);
        assert_eq!(found.settings.telegram.chat_ids, [10]);
        assert!(!found.settings.telegram.is_complete());
        let waits: Vec<_> = found.waiting.iter().map(|w| (w.key, w.value.as_str())).collect();
        assert_eq!(waits, [("telegram.chat_ids", "11"), (TOKEN, "bot 1 (aa)")]);
        let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
        assert_eq!(effective(&set, &all).settings, set);
        // Another token, be it in the same file, is another question; who is taken out is forgotten.
        set.telegram.token = Some("bot 1 (bb)".to_owned());
        set.telegram.chat_ids = vec![11];
        let found = effective(&set, &all);
        assert_eq!(found.settings.telegram.token, None);
        assert_eq!(found.settings.telegram.chat_ids, [11]);
        assert_eq!(found.obsolete, accepted(&[("telegram.chat_ids", "10"), (TOKEN, "bot 1 (aa)")]));
    }

    #[test]
    fn s2_a_token_that_cannot_be_read_is_not_in_force_and_stays_accepted() {
        let mut set = Settings::default();
        set.telegram.chat_ids = vec![10];
        set.telegram.user_ids = vec![7];
        set.telegram.token_cmd = "pass".to_owned();
        set.telegram.token = Some("bot 1 (aa)".to_owned());
        let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
        set.telegram.token = None;
        let found = effective(&set, &all);
        assert_eq!(found.obsolete, BTreeSet::new());
        assert!(found.awaits_token && !found.settings.telegram.is_complete());
        // Nothing is awaited of a command that was not accepted, nor for nobody; the token stays accepted.
        for change in [
            |set: &mut Settings| set.telegram.token_cmd = "evil".to_owned(),
            |set: &mut Settings| set.telegram.user_ids.clear(),
            |set: &mut Settings| set.telegram.api_url = "https://evil.example".to_owned(),
        ] {
            let mut set = set.clone();
            change(&mut set);
            let found = effective(&set, &all);
            assert!(!found.awaits_token);
            assert!(!found.obsolete.iter().any(|(key, _)| key == TOKEN), "{:?}", found.obsolete);
        }
        // No way at all: it is not wanted any more.
        set.telegram.token_cmd.clear();
        let found = effective(&set, &all);
        assert!(found.obsolete.contains(&(TOKEN.to_owned(), "bot 1 (aa)".to_owned())));
    }

    #[test]
    fn s2_another_server_gets_nothing_until_it_was_accepted() {
        let mut set = Settings::default();
        set.telegram.chat_ids = vec![10];
        set.telegram.user_ids = vec![7];
        set.telegram.token = Some("bot 1 (aa)".to_owned());
        let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
        set.telegram.api_url = "https://evil.example".to_owned();
        let found = effective(&set, &all);
        assert_eq!(found.waiting.len(), 1);
        assert!(!found.settings.telegram.is_complete());
        assert_eq!(found.settings.telegram.api_url, Settings::default().telegram.api_url);
    }

    #[test]
    fn s2_another_proxy_gets_nothing_until_it_was_accepted() {
        let mut set = Settings::default();
        set.telegram.chat_ids = vec![10];
        set.telegram.user_ids = vec![7];
        set.telegram.token = Some("bot 1 (aa)".to_owned());
        let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
        set.telegram.proxy = "http://evil.example:3128".to_owned();
        let found = effective(&set, &all);
        assert_eq!(found.waiting.len(), 1);
        assert!(!found.settings.telegram.is_complete() && found.settings.telegram.proxy.is_empty());
    }

    #[test]
    fn s2_a_command_with_a_secret_waits_by_a_name_that_tells_no_secret_and_fits_no_other() {
        let by = |last: char| {
            let mut set = Settings::default();
            set.notify.command = format!("curl https://x.example/bot123456789:AA{}{last}", "b".repeat(32));
            set
        };
        let (one, other) = (by('1'), by('2'));
        let waits = effective(&one, &BTreeSet::new()).waiting;
        assert!(!format!("{waits:?} {}", waits[0]).contains("bbbb"), "{waits:?}");
        let accepted = BTreeSet::from([waits[0].pair()]);
        assert_eq!(effective(&one, &accepted).settings, one);
        assert_eq!(effective(&other, &accepted).settings.notify.command, "");
    }

    #[test]
    fn t6_a_safety_default_of_allow_warns() {
        let mut set = Settings::default();
        assert_eq!(warnings(&set), Vec::<String>::new());
        set.permissions.safety_default = TimedDefault::Allow;
        assert!(warnings(&set)[0].contains("unattended loops go on without anyone confirming"));
    }
}
