//! What asks hold in memory, and how much of it there may be. A limit is a refusal, never a decision.

use std::collections::BTreeSet;

use crate::ask::Ask;
use crate::command::Raise;
use crate::event::Change;
use crate::id::{Owner, SessionKey};
use crate::time::Now;

use super::shares::Full;
use super::weight::{of_ask, of_outcome, of_raise};
use super::{AskState, State};

const MIB: usize = 1024 * 1024;
/// Of what is over this part makes room at once, so that it is not looked for with every ask; no more of them than that,
/// so that a batch stays a batch.
const AT_ONCE: usize = 8;
const MOST_AT_ONCE: usize = 500;

/// What asks that make room give back.
#[derive(Default)]
struct Freed {
    asks: usize,
    bytes: usize,
    /// Of the tree that the new one is asked in.
    of_root: usize,
}

impl State {
    /// Whether one more ask may be held, with what makes room for it, or which limit is reached and what to do about it.
    /// What is another owner's counts for nothing but the whole, in whoever's name it was asked.
    pub(super) fn room_for(&self, raise: &Raise, now: Now) -> Result<Vec<Change>, String> {
        let (limits, owner) = (&self.settings, raise.owner.as_ref());
        let waiting = self.sessions.get(&raise.session).map_or(0, |s| s.waiting_of(owner));
        if usize::try_from(waiting).is_ok_and(|waiting| waiting >= limits.max_open_per_session) {
            return Err(format!(
                "session {} has {waiting} open asks{}, the limit is {}; answer or withdraw some of them first",
                raise.session,
                of(owner),
                limits.max_open_per_session
            ));
        }
        let root = raise.parent.as_ref().map_or_else(|| self.root_of(&raise.session), |p| self.root_of(p));
        let size = of_raise(raise);
        let mut freed = Freed::default();
        if self.fits(owner, &root, size, &freed).is_ok() {
            return Ok(Vec::new());
        }
        // What is over makes room, the oldest first; a consent that its requester may still come for after all others.
        let only_in_tree = self.fits_all(owner, size, &freed).is_ok();
        let over = self.over.get(&raise.owner);
        let enough =
            if only_in_tree { 0 } else { (over.map_or(0, BTreeSet::len) / AT_ONCE).min(MOST_AT_ONCE) };
        let over = || over.into_iter().flatten().filter_map(|id| Some((*id, self.asks.get(id)?)));
        let mut changes = Vec::new();
        for consents in [false, true] {
            for (id, ask) in over().filter(|(_, ask)| ask.is_undelivered_allow() == consents) {
                let in_tree = ask.ask.lineage.root == root;
                if only_in_tree && !in_tree {
                    continue;
                }
                let weight = ask.weight();
                freed.asks += 1;
                freed.bytes += weight;
                freed.of_root += if in_tree { weight } else { 0 };
                changes.extend(Self::let_go(id, ask, now));
                if freed.asks >= enough && self.fits(owner, &root, size, &freed).is_ok() {
                    return Ok(changes);
                }
            }
        }
        self.fits(owner, &root, size, &freed).map(|()| changes)
    }

    /// Whether an ask of `size` bytes fits in everything that is limited, once so much is freed.
    fn fits(
        &self,
        owner: Option<&Owner>,
        root: &SessionKey,
        size: usize,
        freed: &Freed,
    ) -> Result<(), String> {
        self.fits_all(owner, size, freed)?;
        let share = self.settings.max_held_bytes_per_session;
        let held = self.held_by_root.get(&(owner.cloned(), root.clone())).copied().unwrap_or(0);
        if held.saturating_sub(freed.of_root).saturating_add(size) > share {
            return Err(format!(
                "this ask has {size} bytes, and askd holds {held} of at most {} MiB for asks of {root} and its \
                 subagents{} that are open or not yet delivered; answer or withdraw some of them first, or ask with \
                 less",
                share / MIB,
                of(owner)
            ));
        }
        Ok(())
    }

    /// The same for what does not depend on its tree.
    fn fits_all(&self, owner: Option<&Owner>, size: usize, freed: &Freed) -> Result<(), String> {
        let limits = &self.settings;
        self.held.room(owner, (1, freed.asks), limits.max_held).map_err(|full| match full {
            Full::All { taken } => format!(
                "askd holds {taken} asks that are open or not yet delivered, the limit is {}; answer or withdraw some \
                 of them first",
                limits.max_held
            ),
            Full::Share { owner, has, left } => format!(
                "askd holds {has} asks{} that are open or not yet delivered, and keeps room for {left} more for \
                 others; answer or withdraw some of these first",
                of(Some(owner))
            ),
        })?;
        self.held_bytes.room(owner, (size, freed.bytes), limits.max_held_bytes).map_err(|full| match full {
            Full::All { taken } => format!(
                "this ask has {size} bytes, and askd holds {taken} of at most {} MiB for asks that are open or not yet \
                 delivered; answer or withdraw some of them first, or ask with less",
                limits.max_held_bytes / MIB
            ),
            Full::Share { owner, has, left } => format!(
                "this ask has {size} bytes, and askd holds {has} for asks{} that are open or not yet delivered; the \
                 {left} that are left are kept for others; answer or withdraw some of these first, or ask with less",
                of(Some(owner))
            ),
        })
    }

    /// Counted by the root that an ask was made under, which its record keeps: what is told of its session later moves
    /// nothing here.
    pub(super) fn hold(&mut self, ask: &Ask) {
        self.held.add(ask.requester.owner.as_ref(), 1);
        self.hold_bytes(ask, of_ask(ask));
    }

    /// It came to hold so much more.
    pub(super) fn hold_bytes(&mut self, ask: &Ask, size: usize) {
        let owner = &ask.requester.owner;
        self.held_bytes.add(owner.as_ref(), size);
        let of_root = self.held_by_root.entry((owner.clone(), ask.lineage.root.clone())).or_default();
        *of_root = of_root.saturating_add(size);
    }

    /// What counted of this ask does so no more.
    pub(super) fn release(&mut self, ask: &Ask, size: usize) {
        let owner = &ask.requester.owner;
        self.held.take_off(owner.as_ref(), 1);
        self.held_bytes.take_off(owner.as_ref(), size);
        let whose = (owner.clone(), ask.lineage.root.clone());
        if let Some(of_root) = self.held_by_root.get_mut(&whose) {
            *of_root = of_root.saturating_sub(size);
            if *of_root == 0 {
                self.held_by_root.remove(&whose);
            }
        }
    }
}

impl AskState {
    /// Bytes that it counts for: its record never changes, and its outcome comes once.
    pub(super) fn weight(&self) -> usize {
        of_ask(&self.ask) + self.outcome.as_ref().map_or(0, of_outcome)
    }
}

/// Whose, where it is somebody's.
pub(super) fn of(owner: Option<&Owner>) -> String {
    owner.map_or_else(String::new, |owner| format!(" from {owner}"))
}
