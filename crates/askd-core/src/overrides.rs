//! Settings that a person changes for a while: for a session's whole tree, or for every session until the daemon stops.
//! They are never written to the config and hold for asks made afterwards. What is stricter outlives the end of a session
//! that is resumed, and that of the daemon.

use serde::{Deserialize, Serialize};

use crate::ask::Decision;
use crate::settings::Settings;

/// What is set; `None` leaves it to the level below (session over daemon over config).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_default: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_default: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<bool>,
}

impl Overrides {
    /// Takes over what `newer` sets.
    pub fn merge(&mut self, newer: &Self) {
        let Self { background_default, background_timeout_ms, safety_default, safety_timeout_ms, skip } =
            newer;
        self.background_default = background_default.or(self.background_default);
        self.background_timeout_ms = background_timeout_ms.or(self.background_timeout_ms);
        self.safety_default = safety_default.or(self.safety_default);
        self.safety_timeout_ms = safety_timeout_ms.or(self.safety_timeout_ms);
        self.skip = skip.or(self.skip);
    }

    /// Leaves to the level below what `newer` sets.
    pub fn drop_what(&mut self, newer: &Self) {
        let Self { background_default, background_timeout_ms, safety_default, safety_timeout_ms, skip } =
            newer;
        self.background_default = self.background_default.filter(|_| background_default.is_none());
        self.background_timeout_ms = self.background_timeout_ms.filter(|_| background_timeout_ms.is_none());
        self.safety_default = self.safety_default.filter(|_| safety_default.is_none());
        self.safety_timeout_ms = self.safety_timeout_ms.filter(|_| safety_timeout_ms.is_none());
        self.skip = self.skip.filter(|_| skip.is_none());
    }

    /// What of it may be stricter than what it is put over: it outlives the session, and for every session the daemon.
    /// Only ever to be applied by [`Self::tighten`].
    pub fn strict_part(&self) -> Self {
        let deny = |default: &Decision| *default == Decision::Deny;
        Self {
            background_default: self.background_default.filter(deny),
            background_timeout_ms: self.background_timeout_ms,
            safety_default: self.safety_default.filter(deny),
            safety_timeout_ms: self.safety_timeout_ms,
            skip: self.skip.filter(|skip| !skip),
        }
    }

    /// It only makes things stricter; so it is not undone by the end of the daemon, which an agent could bring about.
    pub fn is_strict(&self) -> bool {
        !self.may_loosen() && *self == self.strict_part()
    }

    /// What this sets looser than `strict`, as set for everybody later: no skipping, no timed allow.
    pub fn looser_than(&self, strict: &Self) -> Self {
        let loose = |mine: Option<Decision>, theirs: Option<Decision>| {
            mine.filter(|mine| *mine == Decision::Allow && theirs == Some(Decision::Deny))
        };
        Self {
            background_default: loose(self.background_default, strict.background_default),
            safety_default: loose(self.safety_default, strict.safety_default),
            skip: self.skip.filter(|skip| *skip && strict.skip == Some(false)),
            ..Self::default()
        }
    }

    /// The longest timeout that is set, in milliseconds.
    pub fn longest_timeout_ms(&self) -> Option<u64> {
        self.background_timeout_ms.max(self.safety_timeout_ms)
    }

    /// Settings as they are under these overrides. A timeout that a person set here is as good as one in the config.
    pub fn over(&self, settings: &Settings) -> Settings {
        let mut s = settings.clone();
        s.background_default = self.background_default.unwrap_or(s.background_default);
        s.safety_default = self.safety_default.unwrap_or(s.safety_default);
        if let Some(ms) = self.background_timeout_ms {
            (s.background_timeout_ms, s.background_timeout_is_set) = (ms, true);
        }
        if let Some(ms) = self.safety_timeout_ms {
            (s.safety_timeout_ms, s.safety_timeout_is_set) = (ms, true);
        }
        s.skip = self.skip.unwrap_or(s.skip);
        s
    }

    /// Whether something could be allowed by this that was not before. Of a time-out it depends on what it ends with.
    pub fn may_loosen(&self) -> bool {
        let Self { background_default, background_timeout_ms, safety_default, safety_timeout_ms, skip } =
            self;
        let loose = |default: &Option<Decision>, timeout: &Option<u64>| match default {
            Some(default) => *default == Decision::Allow,
            None => timeout.is_some(),
        };
        loose(background_default, background_timeout_ms)
            || loose(safety_default, safety_timeout_ms)
            || *skip == Some(true)
    }

    /// Only what is stricter here than in `settings`: no skipping, no timed allow, more time for a person.
    pub fn tighten(&self, settings: &mut Settings) {
        let stricter = |set: Option<Decision>| set == Some(Decision::Deny);
        if stricter(self.background_default) {
            settings.background_default = Decision::Deny;
        }
        if stricter(self.safety_default) {
            settings.safety_default = Decision::Deny;
        }
        if let Some(ms) = self.background_timeout_ms.filter(|ms| *ms > settings.background_timeout_ms) {
            (settings.background_timeout_ms, settings.background_timeout_is_set) = (ms, true);
        }
        if let Some(ms) = self.safety_timeout_ms.filter(|ms| *ms > settings.safety_timeout_ms) {
            (settings.safety_timeout_ms, settings.safety_timeout_is_set) = (ms, true);
        }
        settings.skip &= self.skip != Some(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t5_one_pair_never_changes_the_other() {
        let config = Settings::default();
        let tool = Overrides {
            background_default: Some(Decision::Allow),
            background_timeout_ms: Some(1),
            ..Overrides::default()
        };
        let s = tool.over(&config);
        assert_eq!(
            (s.safety_default, s.safety_timeout_ms),
            (config.safety_default, config.safety_timeout_ms)
        );
        let safety = Overrides {
            safety_default: Some(Decision::Allow),
            safety_timeout_ms: Some(1),
            ..Overrides::default()
        };
        let s = safety.over(&config);
        assert_eq!(
            (s.background_default, s.background_timeout_ms),
            (config.background_default, config.background_timeout_ms)
        );
        assert!(!s.background_timeout_is_set && s.safety_timeout_is_set);
    }

    #[test]
    fn s1_only_what_could_allow_something_loosens() {
        let none = Overrides::default();
        let deny = Some(Decision::Deny);
        let tight = [
            none.clone(),
            Overrides { skip: Some(false), ..none.clone() },
            Overrides { background_default: deny, background_timeout_ms: Some(1), ..none.clone() },
            Overrides { safety_default: deny, ..none.clone() },
        ];
        assert!(!tight.iter().any(Overrides::may_loosen));
        let allow = Some(Decision::Allow);
        let loose = [
            Overrides { skip: Some(true), ..none.clone() },
            Overrides { background_default: allow, skip: Some(false), ..none.clone() },
            Overrides { safety_default: allow, ..none.clone() },
            Overrides { safety_timeout_ms: Some(1), ..none },
        ];
        assert!(loose.iter().all(Overrides::may_loosen));
    }

    #[test]
    fn the_newer_one_counts_where_it_says_something() {
        let mut o = Overrides { skip: Some(true), background_timeout_ms: Some(5), ..Overrides::default() };
        o.merge(&Overrides { skip: Some(false), ..Overrides::default() });
        assert_eq!(
            o,
            Overrides { skip: Some(false), background_timeout_ms: Some(5), ..Overrides::default() }
        );
    }
}
