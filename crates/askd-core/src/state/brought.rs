//! What sessions and subagents hold in memory, by who brought them. Where there is no room for one more, those of the same
//! owner that are silent make room first; then it is a refusal.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::command::{Observe, Seen};
use crate::event::{Change, Event, Record, SessionInfo};
use crate::id::{Owner, SessionKey, StreamId};
use crate::time::Now;

use super::held::of;
use super::session::Child;
use super::shares::Full;
use super::weight::{of_instance, of_key, of_place, of_subagent, texts};
use super::{Session, State};

/// What each session and each subagent costs besides its texts, about.
const EACH_SESSION: usize = 2048;
const EACH_SUBAGENT: usize = 512;
/// Of what an owner has this part is given back at once, so that the silent ones are not looked for with every session.
const AT_ONCE: usize = 8;

impl State {
    /// Whether what this brings may stay, with the ends of sessions that make room for it, or which limit is reached and
    /// what to do about it.
    pub(super) fn room_to_bring(&self, seen: &Observe, now: Now) -> Result<Vec<Change>, String> {
        let live = self.sessions.get(&seen.session).filter(|s| !s.ended);
        let mut size = match &seen.seen {
            Seen::SubagentStarted { work_id, kind, name, parent, .. }
                if live.is_none_or(|s| !s.subagents.contains_key(work_id)) =>
            {
                EACH_SUBAGENT + work_id.len() + texts([kind, name, parent])
            }
            Seen::SessionEnded => return Ok(Vec::new()),
            _ => 0,
        };
        if live.is_none() {
            let root = seen.parent.as_ref().map_or_else(|| seen.session.clone(), |p| self.root_of(p));
            size += of_info(&SessionInfo {
                key: seen.session.clone(),
                root,
                parent: seen.parent.clone(),
                title: seen.title.clone(),
                cwd: seen.cwd.clone(),
                instance: seen.instance.clone(),
                place: seen.place.clone(),
                owner: None,
            });
        }
        let (owner, most) = (seen.owner.as_ref(), self.settings.max_brought_bytes);
        if size == 0 || self.brought.room(owner, (size, 0), most).is_ok() {
            return Ok(Vec::new());
        }
        let (mut freed, mut over) = (0, Vec::new());
        let enough = owner.map_or(0, |owner| self.brought.has(owner)) / AT_ONCE;
        for session in self.silent(seen, now) {
            freed += of_session(session, owner);
            over.push(session);
            if freed >= enough && self.brought.room(owner, (size, freed), most).is_ok() {
                break;
            }
        }
        self.brought.room(owner, (size, freed), most).map_err(|full| match full {
            Full::All { taken } => format!(
                "live sessions and their subagents hold {taken} bytes, the limit is {} KiB; end some of them first",
                most / 1024
            ),
            Full::Share { owner, has, left } => format!(
                "live sessions and subagents{} hold {has} bytes, and the {left} that are left are kept for others; \
                 end some of these first, or answer what they ask",
                of(Some(owner))
            ),
        })?;
        let ended = over.into_iter().map(|session| {
            let why = "its owner began others, and nothing was heard of it for longest".to_owned();
            let stream = StreamId::Session(session.info.key.clone());
            Change::Record(Record { stream, at: now, event: Event::SessionEnded { why } })
        });
        Ok(ended.collect())
    }

    /// Live sessions of whoever tells this that have no asks, and none below them that lives, the longest silent first.
    fn silent(&self, seen: &Observe, now: Now) -> Vec<&Session> {
        let its = |s: &&Session| !s.ended && s.info.owner == seen.owner && s.asks.is_empty();
        let mut silent: Vec<&Session> = self.sessions.values().filter(its).collect();
        if silent.is_empty() {
            return silent;
        }
        let mut needed: BTreeSet<&SessionKey> = BTreeSet::from([&seen.session]);
        let live = self.sessions.values().filter(|s| !s.ended);
        let above = live.filter_map(|s| s.info.parent.as_ref()).chain(&seen.parent);
        for key in above {
            let mut at = Some(key);
            // A loop in what agents tell ends at the first repetition.
            while let Some(key) = at.filter(|key| needed.insert(key)) {
                at = self.sessions.get(key).and_then(|s| s.info.parent.as_ref());
            }
        }
        silent.retain(|session| !needed.contains(&session.info.key));
        silent.sort_by_key(|session| Reverse(session.heard.elapsed(now)));
        silent
    }

    /// Whether a live session may hold what is told of it now.
    pub(super) fn may_grow(&self, known: &SessionInfo, told: &SessionInfo) -> bool {
        let (was, is) = (of_info(known), of_info(told));
        let most = self.settings.max_brought_bytes;
        is <= was || self.brought.room(known.owner.as_ref(), (is - was, 0), most).is_ok()
    }

    /// What this session itself holds counts anew once `change` was made. One that has ended counts nothing, and has no
    /// subagents.
    pub(super) fn recount(&mut self, key: &SessionKey, change: impl FnOnce(&mut Self)) {
        if let Some((owner, size, remembered)) = self.weight_of(key) {
            self.brought.take_off(owner.as_ref(), size);
            self.remembered.take_off(owner.as_ref(), remembered);
        }
        change(self);
        if let Some((owner, size, remembered)) = self.weight_of(key) {
            self.brought.add(owner.as_ref(), size);
            self.remembered.add(owner.as_ref(), remembered);
        }
    }

    fn weight_of(&self, key: &SessionKey) -> Option<(Option<Owner>, usize, usize)> {
        let session = self.sessions.get(key)?;
        let size = if session.ended { 0 } else { of_info(&session.info) };
        Some((session.info.owner.clone(), size, session.seen.weight()))
    }

    /// Its subagents are forgotten.
    pub(super) fn give_back_subagents(&mut self, key: &SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let counts = !session.ended;
        for child in std::mem::take(&mut session.subagents).into_values().filter(|_| counts) {
            self.brought.take_off(child.owner.as_ref(), of_child(&child));
        }
    }

    pub(super) fn bring(&mut self, key: &SessionKey, child: Child) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let counts = !session.ended;
        let (owner, size) = (child.owner.clone(), of_child(&child));
        let mut gone: Vec<Child> =
            session.subagents.insert(child.subagent.work_id.clone(), child).into_iter().collect();
        gone.extend(session.forget_ended_subagents());
        if counts {
            for child in gone {
                self.brought.take_off(child.owner.as_ref(), of_child(&child));
            }
            self.brought.add(owner.as_ref(), size);
        }
    }
}

/// What an owner gets back when this session ends.
fn of_session(session: &Session, owner: Option<&Owner>) -> usize {
    let children = session.subagents.values().filter(|child| child.owner.as_ref() == owner);
    of_info(&session.info) + children.map(of_child).sum::<usize>()
}

fn of_info(info: &SessionInfo) -> usize {
    let SessionInfo { key, root, parent, title, cwd, instance, place, owner: _ } = info;
    EACH_SESSION
        + of_key(key)
        + of_key(root)
        + parent.as_ref().map_or(0, of_key)
        + texts([title, cwd])
        + instance.as_ref().map_or(0, of_instance)
        + place.as_ref().map_or(0, of_place)
}

fn of_child(child: &Child) -> usize {
    let Child { subagent, background: _, ended: _, owner: _ } = child;
    EACH_SUBAGENT + of_subagent(subagent)
}
