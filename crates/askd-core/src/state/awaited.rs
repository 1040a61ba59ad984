//! After a restart: surfaces that were attached before come back within moments, and until then nothing is decided or
//! handed back because nobody can be asked.

use std::collections::BTreeSet;

use crate::ask::Ask;
use crate::event::{Change, Event, Note};
use crate::id::{AskId, SessionKey};
use crate::outcome::{Cause, OutcomeKind, Source};
use crate::time::Now;

use super::raise::by_policy;
use super::timeout::record;
use super::{AskState, State};

/// Whether surfaces are awaited, how many and until when.
#[derive(Debug, Clone, Default)]
pub(super) struct Awaited {
    count: usize,
    /// Boot time in milliseconds; `None`: nobody is awaited.
    until: Option<u64>,
    /// Asks that were made meanwhile.
    asks: BTreeSet<AskId>,
}

impl Awaited {
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn is_on_at(&self, now: Now) -> bool {
        self.until.is_some_and(|until| until > now.boot_ms)
    }

    pub(super) fn begin(&mut self, count: usize, until: u64) {
        if count > 0 {
            (self.count, self.until) = (count, Some(until));
        }
    }

    /// With the last of them back it is over at once.
    pub(super) fn attached(&mut self, now: usize, boot_ms: u64) {
        if now >= self.count {
            self.until = self.until.map(|until| until.min(boot_ms));
        }
    }

    pub(super) fn asked(&mut self, ask: AskId) {
        if self.is_on() {
            self.asks.insert(ask);
        }
    }

    pub(super) fn until(&self) -> Option<u64> {
        self.until
    }
}

impl State {
    /// What a new ask comes to when nobody can be asked, or when its agent's own prompt waits behind askd for nobody.
    /// `root`: of the tree in which it is shown.
    pub(super) fn without_surface(&self, ask: &Ask, root: &SessionKey, now: Now) -> Option<Event> {
        if self.awaited.is_on_at(now) {
            return None;
        }
        let own = ask.requester.own_prompt.as_ref();
        let hand_back =
            |why: &str| own.map(|own| Event::HandedBack { at: own.at.clone(), why: why.to_owned() });
        if self.is_unreachable(root) {
            return hand_back("nobody can be asked here").or_else(|| {
                let outcome = by_policy(OutcomeKind::Denied, Cause::Unreachable, Source::Policy, None, now);
                Some(Event::Settled { outcome })
            });
        }
        let waits = own.is_some_and(|own| own.blocked) && !self.holds_blocked_prompt(root);
        waits.then(|| hand_back("its own prompt waits behind askd and nobody is attached")).flatten()
    }

    /// The surfaces are back, or do not come: what was left open for them is judged as if it were made now.
    pub(super) fn surfaces_awaited(&self, now: Now) -> Vec<Change> {
        if self.awaited.is_on_at(now) || !self.awaited.is_on() {
            return Vec::new();
        }
        let open = |id: &&AskId| self.asks.get(id).is_some_and(|ask| ask.is_open() && !ask.is_handed_back());
        let asks = self.awaited.asks.iter().filter(open).filter_map(|id| self.asks.get(id));
        let fate = |ask: &AskState| {
            let root = self.root_of(ask.session());
            self.without_surface(&ask.ask, &root, now).map(|event| record(ask.ask.id, now, event))
        };
        asks.filter_map(fate).chain([Change::Note(Note::SurfacesAwaited)]).collect()
    }
}
