//! What sessions and subagents hold in memory, by who brought them. Where there is no room for one more, those of the same
//! owner that are silent make room first; then it is a refusal.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::ask::Place;
use crate::command::{Observe, Seen};
use crate::event::{Change, Event, Record, SessionInfo};
use crate::id::{Owner, SessionKey, StreamId};
use crate::time::Now;

use super::held::of;
use super::session::{Child, MOST_SUBAGENTS};
use super::shares::Full;
use super::{Session, State};

/// What each session and each subagent costs besides its texts, about.
const EACH: usize = 512;

impl State {
    /// Whether what this brings may stay, with the ends of sessions that make room for it, or which limit is reached and
    /// what to do about it.
    pub(super) fn room_to_bring(&self, seen: &Observe, now: Now) -> Result<Vec<Change>, String> {
        let live = self.sessions.get(&seen.session).filter(|s| !s.ended);
        let mut size = match &seen.seen {
            Seen::SubagentStarted { work_id, kind, name, parent, .. }
                if live.is_none_or(|s| !s.subagents.contains_key(work_id)) =>
            {
                EACH + work_id.len() + long([kind, name, parent])
            }
            Seen::SessionEnded => return Ok(Vec::new()),
            _ => 0,
        };
        if live.is_none() {
            size += EACH + of_key(&seen.session) + around(&seen.title, &seen.cwd, seen.place.as_ref());
        }
        let (owner, most) = (seen.owner.as_ref(), self.settings.max_brought_bytes);
        if size == 0 || self.brought.room(owner, (size, 0), most).is_ok() {
            return Ok(Vec::new());
        }
        let (mut freed, mut over) = (0, Vec::new());
        for session in self.silent(seen, now) {
            freed += of_session(session, owner);
            over.push(session);
            if self.brought.room(owner, (size, freed), most).is_ok() {
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
        let its = |s: &&Session| !s.ended && s.info.owner == seen.owner && s.asks.is_empty();
        let mut silent: Vec<&Session> =
            self.sessions.values().filter(its).filter(|s| !needed.contains(&s.info.key)).collect();
        silent.sort_by_key(|session| Reverse(session.heard.elapsed(now)));
        silent
    }

    /// Whether a live session may hold what is told of it now.
    pub(super) fn may_grow(&self, known: &SessionInfo, told: &SessionInfo) -> bool {
        let (was, is) = (of_info(known), of_info(told));
        let most = self.settings.max_brought_bytes;
        is <= was || self.brought.room(known.owner.as_ref(), (is - was, 0), most).is_ok()
    }

    /// What this session holds, with its subagents, is not counted any more.
    pub(super) fn give_back(&mut self, key: &SessionKey) {
        for (owner, size) in self.weights(key) {
            self.brought.take_off(owner.as_ref(), size);
        }
    }

    pub(super) fn take_in(&mut self, key: &SessionKey) {
        for (owner, size) in self.weights(key) {
            self.brought.add(owner.as_ref(), size);
        }
    }

    /// Those that have ended are few, and count nothing.
    fn weights(&self, key: &SessionKey) -> Vec<(Option<Owner>, usize)> {
        let Some(session) = self.sessions.get(key).filter(|s| !s.ended) else { return Vec::new() };
        let own = (session.info.owner.clone(), of_info(&session.info));
        let children = session.subagents.values().map(|child| (child.owner.clone(), of_child(child)));
        std::iter::once(own).chain(children).collect()
    }

    pub(super) fn bring(&mut self, key: &SessionKey, child: Child) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let counts = !session.ended;
        let (owner, size) = (child.owner.clone(), of_child(&child));
        let mut gone: Vec<Child> =
            session.subagents.insert(child.subagent.work_id.clone(), child).into_iter().collect();
        if session.subagents.len() > MOST_SUBAGENTS {
            gone.extend(session.forget_ended_subagents());
        }
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
    EACH + of_key(&info.key) + around(&info.title, &info.cwd, info.place.as_ref())
}

fn of_child(child: &Child) -> usize {
    let told = &child.subagent;
    EACH + told.work_id.len() + long([&told.kind, &told.name, &told.parent])
}

fn of_key(key: &SessionKey) -> usize {
    key.agent.len() + key.session.len()
}

fn around(title: &Option<String>, cwd: &Option<String>, place: Option<&Place>) -> usize {
    long([title, cwd]) + place.map_or(0, |place| long([&place.tty, &place.tmux_pane]))
}

fn long<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}
