//! Asks that are over and made room for others of their owner before their requester was done with them. The journal has
//! all of them; here is only what leads a requester that comes back by its key to its own.

use std::collections::BTreeMap;

use crate::command::Raise;
use crate::digest::Digest;
use crate::event::{Change, Event, Note};
use crate::id::{AskId, Hash256, SessionKey, TokenHash};
use crate::outcome::Delivery;
use crate::time::Now;

use super::raise::restarted;
use super::timeout::record;
use super::{AskState, BETWEEN_MS, LONGEST_BETWEEN_MS, Link, State};

/// Most of them that are found by their key; of the oldest beyond it the same call is asked anew.
const REMEMBERED: usize = 16_384;

/// Where one leads to, and until when.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    token: TokenHash,
    key: Hash256,
    digest: Digest,
    /// Of the tree that it was asked in: a cancel there leaves nothing to come back to.
    root: Hash256,
    /// On the boot clock, as long as its requester had anyway.
    until: u64,
}

pub(super) type LetGo = BTreeMap<AskId, Gone>;

/// A key may be long, and there is no more to do with it than to find it again.
pub(super) fn of_key(key: &str) -> Hash256 {
    Hash256::of(key.as_bytes())
}

fn of_session(key: &SessionKey) -> Hash256 {
    Hash256::of(key.to_string().as_bytes())
}

impl State {
    /// What lets this ask leave memory although its requester may still want to know of it. It is told so as one that
    /// did not come back; when it does it is believed.
    pub(super) fn let_go(id: AskId, ask: &AskState, now: Now) -> Vec<Change> {
        let why = "it made room for newer ones of its owner".to_owned();
        let expires = ask.delivery == Delivery::Pending;
        let mut changes: Vec<_> =
            expires.then(|| record(id, now, Event::DeliveryExpired { why })).into_iter().collect();
        changes.push(Change::Note(Note::LetGo { ask: id, until: ask.comes_back_until(now) }));
        changes
    }

    pub(super) fn apply_let_go(&mut self, id: AskId, until: Option<u64>) {
        let Some(ask) = self.asks.get_mut(&id).filter(|ask| !ask.is_open() && !ask.let_go) else { return };
        ask.let_go = true;
        let (ask, weight) = (std::sync::Arc::clone(&ask.ask), ask.weight());
        // Before the sweep, so that what comes in the same batch finds the room.
        self.release(&ask, weight);
        self.settled_by(ask.requester.owner.as_ref(), id, false);
        self.touched.insert(id);
        let Some(until) = until else { return };
        let root = of_session(&self.root_of(&ask.lineage.session));
        let (token, key, digest) = (ask.requester.token, of_key(&ask.key), ask.digest);
        // One for each key, so that no more than one has to be read back.
        if let Some(before) = self.let_go_under(token, key, digest) {
            self.forget_let_go(before);
        }
        self.let_go.insert(id, Gone { token, key, digest, root, until });
        while self.let_go.len() > REMEMBERED
            && let Some((oldest, _)) = self.let_go.first_key_value()
        {
            self.forget_let_go(*oldest);
        }
    }

    /// The ask that made room and to which this requester comes back now; it has to be read from the journal first.
    pub fn let_go_of(&self, raise: &Raise) -> Option<AskId> {
        // Most of the time there are none, and the content need not be hashed for it.
        (!self.let_go.is_empty())
            .then(|| self.let_go_under(raise.token, of_key(&raise.key), raise.action.digest()))?
    }

    fn let_go_under(&self, token: TokenHash, key: Hash256, digest: Digest) -> Option<AskId> {
        let at = |id| (token, key, digest, id);
        let mut ids = self.by_key.range(at(AskId::MIN)..=at(AskId::MAX)).rev().map(|(.., id)| *id);
        ids.find(|id| self.let_go.contains_key(id))
    }

    /// Whether its requester comes back in time to what it never got.
    pub(super) fn comes_back_to_let_go(&self, id: AskId, ask: &AskState, raise: &Raise, now: Now) -> bool {
        let in_time = self.let_go.get(&id).is_some_and(|gone| gone.until > now.boot_ms);
        let got = matches!(ask.delivery, Delivery::Handed | Delivery::Confirmed);
        in_time && !got && !restarted(ask.ask.requester.instance.as_ref(), raise.instance.as_ref())
    }

    pub(super) fn forget_let_go(&mut self, id: AskId) {
        let Some(gone) = self.let_go.remove(&id) else { return };
        if !self.asks.contains_key(&id) {
            self.by_key.remove(&(gone.token, gone.key, gone.digest, id));
        }
    }

    /// Something was cancelled, ended or moved in the tree of this root: a consent that was let go there is not come back
    /// to.
    pub(super) fn forget_let_go_of_tree(&mut self, root: &SessionKey) {
        if self.let_go.is_empty() {
            return;
        }
        let root = of_session(root);
        let gone: Vec<_> = self.let_go.iter().filter(|(_, g)| g.root == root).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.forget_let_go(id));
    }

    /// Keeps what is over in memory by whose it is.
    pub(super) fn settled_by(&mut self, owner: Option<&crate::Owner>, id: AskId, is_there: bool) {
        let owner = owner.cloned();
        if is_there {
            self.over.entry(owner).or_default().insert(id);
        } else if let Some(ids) = self.over.get_mut(&owner) {
            ids.remove(&id);
            if ids.is_empty() {
                self.over.remove(&owner);
            }
        }
    }
}

impl AskState {
    /// Until when its requester would find it by its key; `None`: it would not, as with one that was told.
    fn comes_back_until(&self, now: Now) -> Option<u64> {
        if !self.can_be_come_back_to() {
            return None;
        }
        let (since, ms) = match self.link {
            Link::Detached { since, grace_ms } => (since, grace_ms),
            Link::Attached(_) => (now, self.ask.requester.grace_ms.clamp(BETWEEN_MS, LONGEST_BETWEEN_MS)),
            Link::HandedBack { .. } => return None,
        };
        u64::try_from(self.due(since, ms, now)).ok().filter(|until| *until > now.boot_ms)
    }
}
