//! Surfaces that hold a limited number of asks at once. Asks for which no slot is free wait in order; they stay open
//! everywhere else and are looked at again before they are shown.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Change, Event, SurfaceInfo};
use crate::id::{AskId, SessionKey, SurfaceId};
use crate::time::Now;

use super::timeout::record;
use super::{AskState, State};

/// Asks by the surface that holds them.
pub(super) type Slots = BTreeMap<SurfaceId, BTreeSet<AskId>>;

impl State {
    /// Asks that a surface with a capacity shows now; `None`: it has no limit.
    pub fn slots(&self, surface: &SurfaceId) -> Option<&BTreeSet<AskId>> {
        self.slots.get(surface)
    }

    /// All surfaces with a capacity.
    pub fn limited_surfaces(&self) -> impl Iterator<Item = (&SurfaceId, &BTreeSet<AskId>)> {
        self.slots.iter()
    }

    /// Frees slots of asks that are over and gives them to those that wait longest.
    pub(super) fn fill_slots(&mut self) {
        if self.surfaces.values().all(|s| s.capacity.is_none()) {
            self.slots.clear();
            return;
        }
        let mut slots = Slots::new();
        for (id, surface) in self.surfaces.iter().filter(|(_, s)| s.capacity.is_some()) {
            let wants = |ask: &AskState| wants(ask, surface, &self.root_of(ask.session()));
            let mut held: BTreeSet<AskId> = self.slots.get(id).cloned().unwrap_or_default();
            held.retain(|ask| self.asks.get(ask).is_some_and(wants));
            for (ask, state) in &self.asks {
                if !has_room(surface, &held) {
                    break;
                }
                if wants(state) {
                    held.insert(*ask);
                }
            }
            slots.insert(id.clone(), held);
        }
        self.slots = slots;
    }

    /// Brings the slots up to date after this happened to an ask. Where a slot is free nobody waits for it, so that the
    /// others need not be looked at when one comes, nor when one goes that had none.
    pub(super) fn slots_after(&mut self, id: AskId, event: &Event) {
        match event {
            Event::Asked { .. } => {
                let Some(ask) = self.asks.get(&id) else { return };
                let root = self.root_of(ask.session());
                for (surface, held) in &mut self.slots {
                    let Some(info) = self.surfaces.get(surface) else { continue };
                    if has_room(info, held) && wants(ask, info, &root) {
                        held.insert(id);
                    }
                }
            }
            Event::Settled { .. }
            | Event::Withdrawn { .. }
            | Event::HandedBack { .. }
            | Event::SurfaceFailed { .. }
                if self.slots.values().any(|held| held.contains(&id)) =>
            {
                self.fill_slots();
            }
            _ => {}
        }
    }

    /// For the log: surfaces on which this ask, now settled by a timer, never had its turn.
    pub(super) fn never_shown(&self, id: AskId, ask: &AskState, now: Now) -> Vec<Change> {
        let root = self.root_of(ask.session());
        self.surfaces
            .iter()
            .filter(|(surface, info)| {
                self.slots.get(*surface).is_some_and(|held| !held.contains(&id))
                    && info.scope.covers(&root)
                    && !ask.shown.contains(&info.name)
                    && !ask.failed.contains(&info.name)
            })
            .map(|(_, info)| {
                let reason = "no slot was free before its deadline".to_owned();
                record(id, now, Event::SurfaceFailed { surface: info.name.clone(), reason })
            })
            .collect()
    }
}

fn has_room(surface: &SurfaceInfo, held: &BTreeSet<AskId>) -> bool {
    let capacity = surface.capacity.map_or(0, |capacity| usize::try_from(capacity).unwrap_or(usize::MAX));
    held.len() < capacity
}

/// This ask of a tree with this root is to be shown there, now or when there is room.
fn wants(ask: &AskState, surface: &SurfaceInfo, root: &SessionKey) -> bool {
    ask.is_open()
        && !ask.is_handed_back()
        && !ask.failed.contains(&surface.name)
        && surface.scope.covers(root)
}
