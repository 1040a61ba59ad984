//! Sessions: lineage, the calls that were seen, the subagents that were announced.

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::{Ask, Subagent};
use crate::event::SessionInfo;
use crate::id::{AskId, Owner, TokenHash};
use crate::overrides::Overrides;
use crate::time::Stamp;

use super::remembered::Remembered;

/// Subagents of one session that have ended, beyond which they are forgotten.
const MOST_ENDED: usize = 1024;

/// One conversation. Calls and spawns are in memory only.
#[derive(Debug, Clone)]
pub struct Session {
    pub info: SessionInfo,
    pub started: Stamp,
    pub ended: bool,
    pub ended_at: Option<Stamp>,
    /// When something was heard of it last.
    pub(super) heard: Stamp,
    /// Made of one of its asks alone; the journal knows more of it.
    pub(super) stands_in: bool,
    /// Number of open asks.
    pub waiting: u32,
    /// The same by whose they are.
    waiting_of: BTreeMap<Option<Owner>, u32>,
    pub(super) subagents: BTreeMap<String, Child>,
    /// Of these, how many have ended, at the most.
    pub(super) ended_subagents: usize,
    /// When those are so many, they are looked through again.
    forget_at: usize,
    /// Its calls, spawns and threads.
    pub(super) seen: Remembered,
    /// What a person set for this session's tree; only looked at in its root.
    pub overrides: Overrides,
    /// What was stricter of that when the session ended before: it holds again when that one goes on.
    pub kept: Overrides,
    /// Asks in memory.
    pub(super) asks: BTreeSet<AskId>,
    /// Who asked them, with how many each, without those that were only recalled from history.
    askers: BTreeMap<TokenHash, u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Child {
    pub(super) subagent: Subagent,
    pub(super) background: bool,
    pub(super) ended: bool,
    pub(super) owner: Option<Owner>,
}

impl Session {
    pub(super) fn new(info: SessionInfo, started: Stamp) -> Self {
        Self {
            info,
            started,
            ended: false,
            ended_at: None,
            heard: started,
            stands_in: false,
            waiting: 0,
            waiting_of: BTreeMap::new(),
            subagents: BTreeMap::new(),
            ended_subagents: 0,
            forget_at: 0,
            seen: Remembered::default(),
            overrides: Overrides::default(),
            kept: Overrides::default(),
            asks: BTreeSet::new(),
            askers: BTreeMap::new(),
        }
    }

    /// Stands in for a session that had ended when this ask was read back.
    pub(super) fn closed_before(ask: &Ask) -> Self {
        let lineage = &ask.lineage;
        let info = SessionInfo {
            key: lineage.session.clone(),
            parent: lineage.parent.clone(),
            root: lineage.root.clone(),
            title: None,
            cwd: ask.action.cwd.clone(),
            instance: ask
                .requester
                .instance
                .clone()
                .filter(|_| ask.requester.kind != crate::ask::RequesterKind::Spool),
            place: lineage.place.clone(),
            owner: ask.requester.owner.clone(),
        };
        let mut session = Self::new(info, ask.asked_at);
        session.stands_in = true;
        session.end(ask.asked_at);
        session
    }

    /// One more ask is open.
    pub(super) fn opened(&mut self, owner: Option<&Owner>) {
        self.waiting += 1;
        *self.waiting_of.entry(owner.cloned()).or_default() += 1;
    }

    pub(super) fn closed(&mut self, owner: Option<&Owner>) {
        self.waiting = self.waiting.saturating_sub(1);
        let owner = owner.cloned();
        if let Some(waiting) = self.waiting_of.get_mut(&owner) {
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                self.waiting_of.remove(&owner);
            }
        }
    }

    /// Number of open asks of one owner.
    pub(super) fn waiting_of(&self, owner: Option<&Owner>) -> u32 {
        self.waiting_of.get(&owner.cloned()).copied().unwrap_or(0)
    }

    /// One more of its asks is in memory; false when it was there already.
    pub(super) fn hold(&mut self, ask: AskId, token: TokenHash) -> bool {
        let is_new = self.asks.insert(ask);
        if is_new {
            *self.askers.entry(token).or_default() += 1;
        }
        is_new
    }

    /// This ask left memory. `counted`: it was not only recalled.
    pub(super) fn let_go(&mut self, ask: AskId, token: TokenHash, counted: bool) {
        if self.asks.remove(&ask) && counted {
            self.discount(token);
        }
    }

    /// An ask of this requester counts no more, since it was only recalled.
    pub(super) fn discount(&mut self, token: TokenHash) {
        if let Some(count) = self.askers.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                self.askers.remove(&token);
            }
        }
    }

    /// Whether nobody else has asked in its name, as far as memory knows.
    pub(super) fn is_asked_by_only(&self, token: TokenHash) -> bool {
        self.askers.keys().all(|asker| *asker == token)
    }

    /// Nothing more will be seen of its calls and subagents.
    pub(super) fn end(&mut self, at: Stamp) {
        self.ended = true;
        self.ended_at = Some(at);
        self.subagents.clear();
        self.ended_subagents = 0;
        self.seen = Remembered::default();
        let strict = std::mem::take(&mut self.overrides).strict_part();
        self.kept.merge(&strict);
    }

    /// A person set this for its tree.
    pub(super) fn set(&mut self, overrides: &Overrides) {
        self.overrides.merge(overrides);
        self.kept.drop_what(overrides);
    }

    /// What holds here of what a person set for its tree.
    pub fn set_here(&self) -> Overrides {
        let mut set = self.kept.clone();
        set.merge(&self.overrides);
        set
    }

    /// Forgets what the journal can give back.
    pub(super) fn reset(&mut self) {
        self.subagents.clear();
        self.ended_subagents = 0;
        self.overrides = Overrides::default();
        self.kept = Overrides::default();
        self.ended = false;
        self.ended_at = None;
    }

    /// It has to be read back before anything is decided by what is known of it.
    pub fn stands_in(&self) -> bool {
        self.stands_in
    }

    /// Bytes that is remembered of its calls, spawns and threads.
    pub fn remembered(&self) -> usize {
        self.seen.weight()
    }

    /// Subagents that have not ended.
    pub fn live_subagents(&self) -> impl Iterator<Item = &Subagent> {
        self.subagents.values().filter(|c| !c.ended).map(|c| &c.subagent)
    }

    /// Where too many have ended, those that are not above a live one: a cancel of those reaches it.
    pub(super) fn forget_ended_subagents(&mut self) -> Vec<Child> {
        if self.ended_subagents <= self.forget_at.max(MOST_ENDED) {
            return Vec::new();
        }
        let mut needed = BTreeSet::new();
        for (work_id, child) in self.subagents.iter().filter(|(_, child)| !child.ended) {
            let mut at = Some((work_id, child));
            // A loop in what an agent tells ends at the first repetition.
            while let Some((_, child)) = at.filter(|(work_id, _)| needed.insert((*work_id).clone())) {
                at = child.subagent.parent.as_ref().and_then(|above| self.subagents.get_key_value(above));
            }
        }
        let gone = self.subagents.extract_if(.., |work_id, _| !needed.contains(work_id));
        let gone: Vec<Child> = gone.map(|(_, child)| child).collect();
        self.ended_subagents = self.subagents.values().filter(|child| child.ended).count();
        // Where all of them are needed they are not looked through with every new one.
        self.forget_at = 2 * self.ended_subagents;
        gone
    }

    /// `work_id` or one of its ancestors is `top`.
    pub(super) fn is_within(&self, work_id: Option<&str>, top: &str) -> bool {
        let mut at = work_id;
        // Bounded by the number of children, so that a loop in what an agent tells ends.
        for _ in 0..=self.subagents.len() {
            match at {
                Some(id) if id == top => return true,
                Some(id) => at = self.subagents.get(id).and_then(|c| c.subagent.parent.as_deref()),
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionKey;
    use crate::time::BootId;

    fn session(at: Stamp) -> Session {
        let key = SessionKey { agent: "agent".to_owned(), session: "s".to_owned() };
        let info = SessionInfo {
            root: key.clone(),
            key,
            parent: None,
            title: None,
            cwd: None,
            instance: None,
            place: None,
            owner: None,
        };
        Session::new(info, at)
    }

    #[test]
    fn s7_subagents_that_ended_are_forgotten_but_for_those_above_a_live_one() {
        let now = Stamp { boot: BootId(uuid::Uuid::nil()), boot_ms: 1, wall_ms: 1 };
        let mut session = session(now);
        for (work_id, parent, ended) in [
            ("top", None, true),
            ("middle", Some("top"), true),
            ("live", Some("middle"), false),
            ("loop", Some("loop"), false),
            ("gone", Some("top"), true),
        ] {
            let subagent = Subagent {
                work_id: work_id.to_owned(),
                name: None,
                kind: None,
                depth: None,
                parent: parent.map(str::to_owned),
            };
            let child = Child { subagent, background: false, ended, owner: None };
            session.subagents.insert(work_id.to_owned(), child);
        }
        assert!(session.forget_ended_subagents().is_empty(), "they are few");
        session.ended_subagents = MOST_ENDED + 1;
        let gone: Vec<_> = session.forget_ended_subagents().into_iter().map(|c| c.subagent.work_id).collect();
        assert_eq!(gone, ["gone"]);
        assert_eq!((session.ended_subagents, session.forget_at), (2, 4));
        assert!(session.is_within(Some("live"), "top"));
    }
}
