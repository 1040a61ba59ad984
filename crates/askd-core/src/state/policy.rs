//! What happens to an ask without a person: resolved once, when it is made.

use std::collections::BTreeSet;

use crate::ask::{AtDeadline, Attendance, Choice, Class, Decision, Policy, RemoteSilence, plain};
use crate::command::Raise;
use crate::event::{Change, Event, Note, Record};
use crate::id::{AskId, Owner, SessionKey, StreamId};
use crate::outcome::duration;
use crate::overrides::Overrides;
use crate::refusal::Refusal;
use crate::settings::{HoldBackground, Settings, Unreachable};
use crate::time::Now;

use super::dispatch::daemon_record;
use super::{Handled, State};

impl State {
    /// `s`: the settings for the ask's root.
    pub(super) fn resolve_policy(
        s: &Settings,
        raise: &Raise,
        attendance: Attendance,
        options: &[Choice],
    ) -> Policy {
        if attendance == Attendance::Foreground {
            let remote_silence = (s.remote_timeout_ms > 0).then(|| RemoteSilence {
                after_ms: s.remote_timeout_ms,
                answer: silent_answer(s.remote_action, raise.class, options),
            });
            return Policy { remote_silence, ..Policy::WAIT };
        }
        let (timeout_ms, default, is_set) = match raise.class {
            Class::Tool => (s.background_timeout_ms, s.background_default, s.background_timeout_is_set),
            Class::Safety => (s.safety_timeout_ms, s.safety_default, s.safety_timeout_is_set),
        };
        // An agent that can ask by itself is not denied by a timer that nobody set.
        let hand_back = raise.own_prompt.is_some() && !is_set && raise.deadline_ms.is_none();
        let at_deadline =
            if hand_back { AtDeadline::HandBack } else { AtDeadline::Answer(timed_answer(default, options)) };
        Policy {
            deadline_ms: Some(raise.deadline_ms.unwrap_or(timeout_ms)),
            at_deadline,
            deny_stops: raise.class == Class::Tool && s.background_deny_stops,
            remote_silence: None,
        }
    }

    /// The settings for asks of a session's tree: the config, then what was set for every session, then for this one.
    pub fn settings_for(&self, session: &SessionKey) -> Settings {
        self.settings_of_root(&self.root_of(session))
    }

    /// The same by the root; a session that is announced just now is not known by itself yet.
    pub(super) fn settings_of_root(&self, root: &SessionKey) -> Settings {
        let base = self.settings_for_all();
        let Some(root) = self.sessions.get(root) else { return base };
        let mut settings = if root.ended { base } else { root.overrides.over(&base) };
        root.kept.tighten(&mut settings);
        settings
    }

    /// The settings where nothing was set for a session.
    pub fn settings_for_all(&self) -> Settings {
        let mut settings = self.overrides.over(&self.settings);
        self.kept.tighten(&mut settings);
        settings
    }

    /// The settings for an ask: those of the session where its own side says that it belongs, since what others tell of
    /// its session would put it under what a person set for somebody else. What is stricter in a tree where it is shown
    /// holds too, whoever told so. `root`: of the tree in which it is made.
    pub(super) fn settings_of_ask(&self, raise: &Raise, root: &SessionKey) -> Settings {
        let own = raise.root.as_ref().or(raise.parent.as_ref()).unwrap_or(&raise.session);
        let mut settings = self.settings_of_root(own);
        let named = [Some(&raise.session), raise.parent.as_ref(), raise.root.as_ref()];
        let trees = named.into_iter().flatten().map(|key| self.root_of(key)).chain([root.clone()]);
        for tree in trees.collect::<BTreeSet<_>>() {
            if let Some(session) = self.sessions.get(&tree) {
                session.overrides.tighten(&mut settings);
                session.kept.tighten(&mut settings);
            }
        }
        settings
    }

    /// What a person set for every session.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// What holds of what a person set for every session, now or (what is stricter) while a daemon before this one ran.
    pub fn set_for_all(&self) -> Overrides {
        let mut set = self.kept.clone();
        set.merge(&self.overrides);
        set
    }

    /// Takes back what was set for every session by commands that were refused after all: the journal does not have it.
    pub fn take_overrides_back(&mut self, before: Overrides) {
        self.overrides = before;
    }

    /// A background tool ask more than the queue takes: `cap + 1` of this owner are open already in this session's tree.
    /// What somebody else asks in its name takes no place in its queue.
    pub(super) fn queue_is_full(&self, root: &SessionKey, owner: Option<&Owner>, cap: u32) -> bool {
        let room = usize::try_from(cap).unwrap_or(usize::MAX).saturating_add(1);
        let in_queue = |id: &AskId| {
            self.asks.get(id).is_some_and(|a| {
                a.is_open()
                    && !a.is_handed_back()
                    && a.ask.class == Class::Tool
                    && a.ask.attendance == Attendance::Background
                    && a.ask.requester.owner.as_ref() == owner
            })
        };
        let open = self
            .sessions
            .values()
            .filter(|s| s.waiting > 0 && self.root_of(&s.info.key) == *root)
            .flat_map(|s| s.asks.iter())
            .filter(|id| in_queue(id));
        cap > 0 && open.take(room).count() == room
    }

    pub(super) fn set_overrides(
        &self,
        session: Option<&SessionKey>,
        overrides: &Overrides,
        by: &str,
        now: Now,
    ) -> Handled {
        let Some(session) = session else {
            // What is stricter holds for every session, also for one that had it looser before.
            let lifted = self.sessions.values().filter(|s| !s.ended).filter_map(|session| {
                let loose = session.overrides.looser_than(overrides);
                (loose != Overrides::default()).then_some((session, loose))
            });
            let lifted = lifted.map(|(session, overrides)| {
                let event = Event::OverridesLifted { overrides, by: by.to_owned() };
                let stream = StreamId::Session(session.info.key.clone());
                Change::Record(Record { stream, at: now, event })
            });
            let event = Event::OverridesSet { overrides: overrides.clone(), by: by.to_owned() };
            let mut changes = vec![daemon_record(now, event)];
            changes.extend(lifted);
            changes.push(Change::Note(Note::OverridesSet { overrides: overrides.clone() }));
            return Handled::done(changes);
        };
        let root = self.root_of(session);
        if self.sessions.get(&root).is_none_or(|s| s.ended) {
            return Handled::refused(Refusal::Malformed(format!("there is no live session {root}")));
        }
        // A deadline behind the point where the requester itself gives up would never apply.
        let limit = self
            .open()
            .filter(|(_, a)| a.ask.lineage.root == root)
            .filter_map(|(_, a)| a.ask.gives_up_ms)
            .min();
        if let (Some(limit), Some(timeout)) = (limit, overrides.longest_timeout_ms())
            && timeout > limit
        {
            return Handled::refused(Refusal::Malformed(format!(
                "the agent itself stops waiting after {}: a timeout of {} would never apply",
                duration(limit),
                duration(timeout)
            )));
        }
        let event = Event::OverridesSet { overrides: overrides.clone(), by: by.to_owned() };
        Handled::done(vec![Change::Record(Record { stream: StreamId::Session(root), at: now, event })])
    }

    /// Nobody can be asked at all: fail closed at once.
    pub(super) fn is_unreachable(&self, root: &SessionKey) -> bool {
        match self.settings.unreachable {
            _ if self.settings.no_surfaces => true,
            Unreachable::WhenNoSurface => false,
            Unreachable::WhenNoneAttached => !self.is_reachable(root),
        }
    }

    /// Holding the requester is worth it although the agent's own prompt cannot appear meanwhile.
    pub(super) fn holds_blocked_prompt(&self, root: &SessionKey) -> bool {
        match self.settings.hold_background {
            HoldBackground::Always => true,
            HoldBackground::Never => false,
            HoldBackground::Auto => self.is_reachable(root),
        }
    }
}

/// An allow without a person is a plain `allow_once`, or it is a deny.
fn timed_answer(wanted: Decision, options: &[Choice]) -> Decision {
    if plain(options, Decision::Allow).is_some() { wanted } else { Decision::Deny }
}

/// A remote silence never approves a safety ask.
fn silent_answer(wanted: Decision, class: Class, options: &[Choice]) -> Decision {
    match class {
        Class::Tool => timed_answer(wanted, options),
        Class::Safety => Decision::Deny,
    }
}
