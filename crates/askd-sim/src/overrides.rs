//! What people set over the config: who sent it, what it comes to, and that it holds exactly as long as it should. All of
//! it is worked out here by itself, from what was sent, acknowledged and committed.

use askd_core::ask::{AtDeadline, Attendance, ChoiceKind, Class};
use askd_core::command::{Command, Raise};
use askd_core::{Ask, Decision, Overrides, SessionKey, Settings};

use crate::transport::Mail;
use crate::world::World;

/// Overrides of one level, the newest last. For each setting the newest that says something counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack(Vec<Overrides>);

impl Stack {
    pub(crate) fn push(&mut self, overrides: &Overrides) {
        self.0.push(overrides.clone());
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What was set since counts, or something stricter for everybody.
    pub(crate) fn lift(&mut self, newer: &Overrides) {
        self.0.iter_mut().for_each(|set| forget(set, newer));
    }

    /// What remains in force when this ends, over what remained before.
    pub(crate) fn stricter(&self, before: &Overrides) -> Overrides {
        let deny = |d: Option<Decision>| d.filter(|d| *d == Decision::Deny);
        Overrides {
            background_default: deny(self.last(|s| s.background_default)).or(before.background_default),
            background_timeout_ms: self.last(|s| s.background_timeout_ms).or(before.background_timeout_ms),
            safety_default: deny(self.last(|s| s.safety_default)).or(before.safety_default),
            safety_timeout_ms: self.last(|s| s.safety_timeout_ms).or(before.safety_timeout_ms),
            skip: self.last(|s| s.skip).filter(|skip| !skip).or(before.skip),
        }
    }

    fn last<T>(&self, of: impl Fn(&Overrides) -> Option<T>) -> Option<T> {
        self.0.iter().rev().find_map(of)
    }

    /// Whether it comes to this.
    pub(crate) fn comes_to(&self, o: &Overrides) -> bool {
        self.last(|s| s.background_default) == o.background_default
            && self.last(|s| s.background_timeout_ms) == o.background_timeout_ms
            && self.last(|s| s.safety_default) == o.safety_default
            && self.last(|s| s.safety_timeout_ms) == o.safety_timeout_ms
            && self.last(|s| s.skip) == o.skip
    }
}

/// Takes out what was set anew.
pub(crate) fn forget(set: &mut Overrides, newer: &Overrides) {
    set.background_default = set.background_default.filter(|_| newer.background_default.is_none());
    set.background_timeout_ms = set.background_timeout_ms.filter(|_| newer.background_timeout_ms.is_none());
    set.safety_default = set.safety_default.filter(|_| newer.safety_default.is_none());
    set.safety_timeout_ms = set.safety_timeout_ms.filter(|_| newer.safety_timeout_ms.is_none());
    set.skip = set.skip.filter(|_| newer.skip.is_none());
}

/// Nothing could be allowed by it: a time-out counts as such only beside a denial.
pub(crate) fn only_stricter(set: &Overrides) -> bool {
    let denies = |default: Option<Decision>, timeout: Option<u64>| match default {
        Some(default) => default == Decision::Deny,
        None => timeout.is_none(),
    };
    denies(set.background_default, set.background_timeout_ms)
        && denies(set.safety_default, set.safety_timeout_ms)
        && set.skip != Some(true)
}

/// What is in force for one class of asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timed {
    timeout_ms: u64,
    default: Decision,
    /// A person set the timeout, here or in the config.
    is_set: bool,
}

fn timed(settings: &Settings, class: Class, levels: &[&Stack], kept: &[&Overrides]) -> Timed {
    fn first<T>(levels: &[&Stack], of: fn(&Overrides) -> Option<T>) -> Option<T> {
        levels.iter().find_map(|stack| stack.last(of))
    }
    let (timeout, default, config) = match class {
        Class::Tool => (
            first(levels, |o| o.background_timeout_ms),
            first(levels, |o| o.background_default),
            (settings.background_timeout_ms, settings.background_default, settings.background_timeout_is_set),
        ),
        Class::Safety => (
            first(levels, |o| o.safety_timeout_ms),
            first(levels, |o| o.safety_default),
            (settings.safety_timeout_ms, settings.safety_default, settings.safety_timeout_is_set),
        ),
    };
    let mut timed = Timed {
        timeout_ms: timeout.unwrap_or(config.0),
        default: default.unwrap_or(config.1),
        is_set: timeout.is_some() || config.2,
    };
    for kept in kept {
        let (timeout, default) = match class {
            Class::Tool => (kept.background_timeout_ms, kept.background_default),
            Class::Safety => (kept.safety_timeout_ms, kept.safety_default),
        };
        if default.is_some() {
            timed.default = Decision::Deny;
        }
        if let Some(ms) = timeout.filter(|ms| *ms > timed.timeout_ms) {
            (timed.timeout_ms, timed.is_set) = (ms, true);
        }
    }
    timed
}

/// The recorded policy is the one that these settings give.
fn fits(timed: Timed, raise: &Raise, ask: &Ask) -> bool {
    if ask.attendance == Attendance::Foreground {
        return ask.policy.deadline_ms.is_none();
    }
    let own = raise.own_prompt.is_some() && !timed.is_set && raise.deadline_ms.is_none();
    let can = ask.options.iter().any(|option| option.kind == ChoiceKind::AllowOnce);
    let answer = if can { timed.default } else { Decision::Deny };
    let at_deadline = if own { AtDeadline::HandBack } else { AtDeadline::Answer(answer) };
    ask.policy.deadline_ms == Some(raise.deadline_ms.unwrap_or(timed.timeout_ms))
        && ask.policy.at_deadline == at_deadline
}

impl World {
    /// A person changes what happens without them, for one conversation or for all.
    pub(crate) fn override_something(&mut self) {
        let decision = if self.dice.percent(50) { Decision::Allow } else { Decision::Deny };
        let ms = self.dice.span(1_000, 900_000);
        let none = Overrides::default();
        let overrides = match self.dice.below(10) {
            0 | 1 => Overrides { background_default: Some(decision), ..none },
            2..=4 => Overrides { background_timeout_ms: Some(ms), ..none },
            5 => Overrides { safety_default: Some(decision), ..none },
            6 => Overrides { safety_timeout_ms: Some(ms), ..none },
            7 => Overrides { skip: Some(true), ..none },
            _ => Overrides { skip: Some(false), ..none },
        };
        let session = self.dice.percent(70).then(|| {
            let agent = self.dice.index(self.agents.len());
            self.agents[agent].key.clone()
        });
        let surface = self.dice.index(self.surfaces.len());
        self.counts.add(if session.is_some() { "override for a session" } else { "override for all" });
        let by = format!("person {surface}");
        self.act(surface, Command::SetOverrides { session, overrides, by });
    }

    /// What may be in force for every session while this batch is handled, one after the other.
    pub(crate) fn may_be_in_force(&mut self, d: usize, group: &[Mail]) {
        let mut now = self.daemons[d].everywhere.clone();
        let mut all = vec![now.clone()];
        for mail in group {
            if let Command::SetOverrides { session: None, overrides, .. } = &mail.command {
                now.push(overrides);
                all.push(now.clone());
            }
        }
        self.daemons[d].perhaps = all;
    }

    /// Somebody sent this for the session's tree, the conversation lives, and no requester gives up before.
    pub(crate) fn judge_overrides(&self, root: &SessionKey, overrides: &Overrides) -> Result<(), String> {
        let sent = self.sent.overrides.iter().any(|(session, sent)| {
            sent == overrides && session.as_ref().is_some_and(|key| self.ledger.line(key).contains(root))
        });
        if !sent {
            return Err("nobody sent it".to_owned());
        }
        if self.plan.daemons > 1 {
            return Ok(());
        }
        if self.ledger.sessions.get(root).is_none_or(|session| session.ended) {
            return Err("the conversation is over".to_owned());
        }
        let timeout = overrides.background_timeout_ms.max(overrides.safety_timeout_ms);
        let before = self.ledger.files.values().any(|file| {
            let open = file.outcome.is_none() && file.ask.lineage.root == *root;
            open && file.ask.gives_up_ms.is_some_and(|limit| timeout.is_some_and(|ms| ms > limit))
        });
        if before { Err("a requester gives up before that".to_owned()) } else { Ok(()) }
    }

    /// The policy of a new ask is that of the config, under what people had set by then and nothing else.
    pub(crate) fn judge_policy(&self, d: usize, raise: &Raise, ask: &Ask) -> Result<(), String> {
        let config = &self.plan.settings;
        let kept = self.kept(ask);
        let fits =
            |levels: &[&Stack], kept: &[&Overrides]| fits(timed(config, ask.class, levels, kept), raise, ask);
        let mut levels = self.levels(d, ask).into_iter();
        if levels.any(|(session, all)| kept.iter().any(|kept| fits(&[session, all], kept))) {
            return Ok(());
        }
        let policy = &ask.policy;
        Err(format!("its policy {:?} {:?} is nobody's", policy.deadline_ms, policy.at_deadline))
    }

    /// Whether the recorded policy needs an override to be explained.
    pub(crate) fn is_overridden(&self, raise: &Raise, ask: &Ask) -> bool {
        !fits(timed(&self.plan.settings, ask.class, &[], &[]), raise, ask)
    }

    /// Whether every tool ask was allowed when this one was made.
    pub(crate) fn may_skip(&self, d: usize, ask: &Ask) -> bool {
        let off = |kept: &Vec<&Overrides>| kept.iter().any(|kept| kept.skip == Some(false));
        if self.kept(ask).iter().all(off) {
            return false;
        }
        self.levels(d, ask).iter().any(|(session, all)| {
            let skip = |stack: &Stack| stack.last(|o| o.skip);
            skip(session).or_else(|| skip(all)).unwrap_or(self.plan.settings.skip)
        })
    }

    /// What may remain of what was set before: for the ask's conversation, and for all of them. In a batch several changes
    /// come one after the other; with more daemons than one each hears of the others' later.
    fn kept<'a>(&'a self, ask: &Ask) -> Vec<Vec<&'a Overrides>> {
        let session = self.ledger.sessions.get(&ask.lineage.root).map(|session| &session.kept);
        let several = if self.plan.daemons > 1 { usize::MAX } else { 4 };
        let all = self.ledger.kept.iter().rev().take(several).map(Some).chain([None]);
        all.map(|all| session.into_iter().chain(all).collect()).collect()
    }

    /// What may have been set for the ask's conversation, and for all of them.
    fn levels<'a>(&'a self, d: usize, ask: &Ask) -> Vec<(&'a Stack, &'a Stack)> {
        static NONE: Stack = Stack(Vec::new());
        let known = self.ledger.sessions.get(&ask.lineage.root);
        let mut sessions = vec![known.map_or(&NONE, |session| &session.overrides)];
        if self.plan.daemons > 1 {
            // Another daemon hears of it later.
            sessions.extend(known.iter().flat_map(|session| &session.before).chain([&NONE]));
        }
        let all = self.daemons[d].perhaps.iter();
        all.flat_map(|all| sessions.iter().map(move |session| (*session, all))).collect()
    }

    /// What was acknowledged is in force, and nothing else is.
    pub(crate) fn overrides_hold(&self, d: usize) -> Result<(), String> {
        let Some(writer) = &self.daemons[d].writer else { return Ok(()) };
        let state = writer.state();
        if !self.daemons[d].everywhere.comes_to(state.overrides()) {
            let (known, is) = (&self.daemons[d].everywhere, state.overrides());
            return Err(format!("{is:?} is in force for all, {known:?} was acknowledged"));
        }
        if self.plan.daemons > 1 {
            return Ok(());
        }
        for session in state.sessions() {
            let known = self.ledger.sessions.get(&session.info.key);
            if !known.map(|known| &known.overrides).unwrap_or(&Stack::default()).comes_to(&session.overrides)
            {
                let is = &session.overrides;
                return Err(format!(
                    "{is:?} is in force for {}, the journal has {known:?}",
                    session.info.key
                ));
            }
        }
        Ok(())
    }
}
