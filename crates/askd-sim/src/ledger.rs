//! What the journal says, read independently of the core: one file per ask, folded from the committed entries.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::ask::{Ask, ChoiceKind, RequesterKind};
use askd_core::event::{Event, LateAnswer};
use askd_core::id::StreamId;
use askd_core::{
    AskId, Cause, Decision, Delivery, Handle, Hash256, Outcome, OutcomeKind, Overrides, SessionKey, Stamp,
    Verdict,
};
use askd_journal::{MemoryJournal, Position, Positioned, Reader, Version};
use uuid::Uuid;

use crate::overrides::{Stack, forget, only_stricter};

/// Everything that was committed about one ask.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) ask: std::sync::Arc<Ask>,
    pub(crate) position: Position,
    /// True time.
    pub(crate) asked_at: u64,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) delivery: Delivery,
    pub(crate) handed_back: Option<String>,
    /// True time at which a remote surface first said that it showed it.
    pub(crate) shown_far: Option<u64>,
    /// When its requester was lost, by true time and by the journal.
    pub(crate) lost: Option<(u64, Stamp)>,
    pub(crate) lost_position: Position,
    pub(crate) late: Kept,
    /// What the answer said that was used.
    pub(crate) used: Option<OutcomeKind>,
}

/// An answer that a repeated call may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    Recorded(LateAnswer),
    Used(AskId),
    Over,
}

impl File {
    /// What the requester may be told.
    pub(crate) fn verdict(&self) -> Verdict {
        match (&self.outcome, self.delivery) {
            (
                Some(outcome),
                Delivery::Pending | Delivery::Handed | Delivery::Confirmed | Delivery::Expired,
            ) => outcome.verdict(),
            _ => Verdict::None,
        }
    }

    /// The requester may still come back to it.
    pub(crate) fn is_reattachable(&self) -> bool {
        self.outcome.is_none() || self.delivery == Delivery::Pending
    }

    /// The decision that a repeated call may use.
    pub(crate) fn kept(&self) -> Option<Decision> {
        self.lost?;
        match (&self.late, &self.outcome) {
            (Kept::Recorded(answer), _) => Some(answer.decision),
            (Kept::Nothing, Some(outcome)) if outcome.late_of.is_none() => {
                let hook = self.ask.requester.kind == RequesterKind::Hook && self.ask.lineage.call.is_none();
                let mine = self.delivery == Delivery::Expired && outcome.cause == Cause::Person && !hook;
                let once = |id: &String| {
                    self.ask.options.iter().any(|o| o.id == *id && o.kind == ChoiceKind::AllowOnce)
                };
                match outcome.kind {
                    OutcomeKind::Denied if mine => Some(Decision::Deny),
                    OutcomeKind::Allowed if mine && outcome.option.as_ref().is_some_and(once) => {
                        Some(Decision::Allow)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// A cancel or an end of a session, as it was committed, with the asks that it reached as lineage was known then.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) position: Position,
    pub(crate) cancel: bool,
    pub(crate) reached: BTreeSet<AskId>,
}

/// A session as it was committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionFile {
    pub(crate) parent: Option<SessionKey>,
    /// Work id and parent of each subagent.
    pub(crate) subagents: BTreeMap<String, Option<String>>,
    pub(crate) ended: bool,
    /// What was set for it over the config, and what that was before each change.
    pub(crate) overrides: Stack,
    /// What was stricter of that when it ended before.
    pub(crate) kept: Overrides,
    pub(crate) before: Vec<Stack>,
}

impl SessionFile {
    fn change(&mut self, change: impl FnOnce(&mut Stack)) {
        self.before.push(self.overrides.clone());
        change(&mut self.overrides);
    }
}

pub(crate) struct Ledger {
    /// What was stricter of what was set for every session, after each change.
    pub(crate) kept: Vec<Overrides>,
    reader: MemoryJournal,
    pub(crate) last: Position,
    pub(crate) versions: BTreeMap<StreamId, Version>,
    pub(crate) ids: BTreeMap<Uuid, Position>,
    pub(crate) files: BTreeMap<AskId, File>,
    pub(crate) handles: BTreeSet<Handle>,
    pub(crate) by_key: BTreeMap<(Hash256, String), Vec<AskId>>,
    pub(crate) sessions: BTreeMap<SessionKey, SessionFile>,
    pub(crate) ends: Vec<Ended>,
}

impl Ledger {
    pub(crate) fn new(reader: MemoryJournal) -> Self {
        Self {
            kept: Vec::new(),
            reader,
            last: 0,
            versions: BTreeMap::new(),
            ids: BTreeMap::new(),
            files: BTreeMap::new(),
            handles: BTreeSet::new(),
            by_key: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ends: Vec::new(),
        }
    }

    pub(crate) fn feed(&self, after: Position) -> Vec<Positioned> {
        self.reader.feed(after, usize::MAX).unwrap_or_default()
    }

    pub(crate) fn journal(&self) -> &MemoryJournal {
        &self.reader
    }

    /// A session and everything that it descends from.
    pub(crate) fn line(&self, key: &SessionKey) -> Vec<SessionKey> {
        let mut line = vec![key.clone()];
        while let Some(parent) = line.last().and_then(|k| self.sessions.get(k)).and_then(|s| s.parent.clone())
        {
            if line.contains(&parent) {
                break;
            }
            line.push(parent);
        }
        line
    }

    /// An end of this session, or of this subagent in it, reaches the ask.
    fn reaches(&self, session: &SessionKey, subagent: Option<&str>, ask: &Ask) -> bool {
        let Some(top) = subagent else {
            return self.line(&ask.lineage.session).contains(session);
        };
        if ask.lineage.session != *session {
            return false;
        }
        let parents = self.sessions.get(session).map(|s| &s.subagents);
        let mut at = ask.lineage.work_id();
        for _ in 0..100 {
            match at {
                Some(id) if id == top => return true,
                Some(id) => at = parents.and_then(|p| p.get(id)).and_then(|parent| parent.as_deref()),
                None => return false,
            }
        }
        false
    }

    fn end(&mut self, position: Position, session: &SessionKey, subagent: Option<&str>, cancel: bool) {
        let asks = self.files.values().map(|file| &file.ask);
        let reached = asks.filter(|ask| self.reaches(session, subagent, ask)).map(|ask| ask.id).collect();
        self.ends.push(Ended { position, cancel, reached });
    }

    /// Takes a committed entry in; it was judged before.
    pub(crate) fn fold(&mut self, entry: &Positioned, now: u64) {
        self.last = entry.position;
        self.versions.insert(entry.stream.clone(), entry.version);
        self.ids.insert(entry.entry.id, entry.position);
        match &entry.stream {
            StreamId::Ask(id) => self.fold_ask(*id, entry, now),
            StreamId::Session(key) => self.fold_session(key, entry),
            StreamId::Daemon(_) => {
                if let Event::OverridesSet { overrides, .. } = &entry.entry.event {
                    let mut kept = self.kept.last().cloned().unwrap_or_default();
                    forget(&mut kept, overrides);
                    // A time-out alone is none that is only stricter.
                    let mut stack = Stack::default();
                    if only_stricter(overrides) {
                        stack.push(overrides);
                    }
                    self.kept.push(stack.stricter(&kept));
                }
            }
            StreamId::Surface(_) => {}
        }
    }

    fn fold_session(&mut self, key: &SessionKey, entry: &Positioned) {
        let position = entry.position;
        match &entry.entry.event {
            Event::OverridesSet { overrides, .. } => {
                let known = self.sessions.entry(key.clone()).or_default();
                known.change(|stack| stack.push(overrides));
                forget(&mut known.kept, overrides);
            }
            Event::OverridesLifted { overrides, .. } => {
                let known = self.sessions.entry(key.clone()).or_default();
                known.change(|stack| stack.lift(overrides));
            }
            Event::SessionEnded { .. } => {
                let known = self.sessions.entry(key.clone()).or_default();
                known.ended = true;
                known.subagents.clear();
                known.kept = known.overrides.stricter(&known.kept);
                known.change(Stack::clear);
            }
            _ => {}
        }
        match &entry.entry.event {
            Event::SessionStarted { session } => {
                let known = self.sessions.entry(key.clone()).or_default();
                known.parent = session.parent.clone();
                known.ended = false;
            }
            Event::SubagentStarted { subagent, .. } => {
                let known = self.sessions.entry(key.clone()).or_default();
                known.subagents.insert(subagent.work_id.clone(), subagent.parent.clone());
            }
            Event::TurnCancelled { subagent } => self.end(position, key, subagent.as_deref(), true),
            // A process that ended may be resumed; a person who left is not.
            Event::SessionEnded { why } if why != "the agent process ended" => {
                self.end(position, key, None, false);
            }
            Event::SubagentEnded { work_id } => self.end(position, key, Some(work_id), false),
            _ => {}
        }
    }

    fn fold_ask(&mut self, id: AskId, entry: &Positioned, now: u64) {
        if let Event::Asked { ask } = &entry.entry.event {
            self.handles.insert(ask.handle.clone());
            self.by_key.entry((ask.requester.token, ask.key.clone())).or_default().push(id);
            self.files.insert(
                id,
                File {
                    ask: ask.clone(),
                    position: entry.position,
                    asked_at: now,
                    outcome: None,
                    delivery: Delivery::None,
                    handed_back: None,
                    shown_far: None,
                    lost: None,
                    lost_position: 0,
                    late: Kept::Nothing,
                    used: None,
                },
            );
            return;
        }
        let Some(file) = self.files.get_mut(&id) else { return };
        let at = entry.entry.at;
        match &entry.entry.event {
            Event::Settled { outcome } | Event::Withdrawn { outcome } => {
                file.delivery =
                    if outcome.verdict() == Verdict::None { Delivery::None } else { Delivery::Pending };
                if outcome.cause == Cause::RequesterGone {
                    file.lost = Some((now, at));
                    file.lost_position = entry.position;
                }
                file.outcome = Some(outcome.clone());
            }
            Event::Shown { remote: true, .. } => {
                file.shown_far.get_or_insert(now);
            }
            Event::HandedBack { at, .. } => file.handed_back = Some(at.clone()),
            Event::Handed => file.delivery = Delivery::Handed,
            Event::Confirmed => {
                file.delivery = Delivery::Confirmed;
                file.late = Kept::Over;
            }
            Event::Overtaken { .. } => {
                file.delivery = Delivery::Overtaken;
                file.late = Kept::Over;
            }
            Event::DeliveryRefused { .. } => file.delivery = Delivery::Refused,
            Event::Voided { .. } => {
                file.delivery = Delivery::Voided;
                file.late = Kept::Over;
            }
            Event::DeliveryExpired { .. } => {
                file.delivery = Delivery::Expired;
                file.lost = Some((now, at));
                file.lost_position = entry.position;
            }
            Event::LateRecorded { answer } => file.late = Kept::Recorded(answer.clone()),
            Event::LateUsed { by } => {
                file.used = file.kept().map(OutcomeKind::from);
                file.late = Kept::Used(*by);
            }
            Event::LateRevoked { .. } => file.late = Kept::Over,
            _ => {}
        }
    }
}
