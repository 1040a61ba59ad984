//! Settings that let more happen without a person, and that wait until a person accepts them.
//!
//! A loosened value is known by itself, not by what stood in the file before: the file can be edited while nothing
//! runs. So a value waits, over every restart and wherever it was set, until the very pair of key and value was
//! accepted; until then the tight value is in force. Tight values are in force at once.
//!
//! What counts as loosened: skipping permissions, a default of allow (at a deadline or after a remote silence), and with a default of allow also a timeout shorter than askd's own
//! (an accepted "allow after six minutes" must not become "allow after one second").
//!
//! What does not: `unreachable`. Going from `when_none_attached` back to `when_no_surface` leaves asks open that
//! would have been denied at once, but only a person, or a default that a person accepted, can allow them.
//! `late_answer_secs` lets only a person's own answer settle, and its range is short. `journal.url` changes what is
//! remembered, accepted settings included, so a new journal starts tight.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::keys::KEYS;
use crate::settings::{Settings, TimedDefault};

/// A setting that is looser than askd's own default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loosening {
    /// `section.key`
    pub key: &'static str,
    /// The loose value as plain text, without quotes: `allow`.
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
];

/// Every loosened value in `settings`, accepted or not.
pub fn loosenings(settings: &Settings) -> Vec<Loosening> {
    let tight = Settings::default();
    RULES.iter().filter_map(|rule| rule.applies_to(settings, &tight)).collect()
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
    Effective { settings: in_force, waiting, obsolete }
}

impl Rule {
    fn applies_to(&self, settings: &Settings, tight: &Settings) -> Option<Loosening> {
        let key = KEYS.iter().find(|key| key.name == self.key)?;
        (self.is_loose)(settings, tight).then(|| Loosening {
            key: key.name,
            value: key.plain(settings),
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
        assert_eq!(loosenings(&loose).len(), RULES.len());
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
    fn t6_a_safety_default_of_allow_warns() {
        let mut set = Settings::default();
        assert_eq!(warnings(&set), Vec::<String>::new());
        set.permissions.safety_default = TimedDefault::Allow;
        assert!(warnings(&set)[0].contains("unattended loops go on without anyone confirming"));
    }
}
