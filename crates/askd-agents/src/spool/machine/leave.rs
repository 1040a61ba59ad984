//! How a machine lets go of what it serves: all of it when askd stops, one session that another askd has, and a tree that
//! its path does not lead to any more.

use super::item::{Item, Phase};
use super::{Action, Id, Machine, Now, Seen};

impl Machine {
    /// Nothing new is taken from here on, and nobody is told that this serves. What is open goes on.
    pub fn close(&mut self) {
        self.closing = true;
        for (name, session) in &mut self.sessions {
            if session.beat_at.take().is_some() {
                self.actions.push(Action::Unbeat(name.clone()));
            }
        }
    }

    /// Whether anything waits for its answer, or an answer for its place.
    pub fn has_open(&self) -> bool {
        self.items.values().any(Item::is_open)
    }

    /// The tree is gone for good, and everybody who waited in it.
    pub fn withdraw_all(&mut self, now: Now) {
        for id in self.items.keys().cloned().collect::<Vec<Id>>() {
            self.gone(&id, now);
        }
    }

    /// Another askd has this session, as it was `seen` now: what is open stays open for that one, and nothing of its is
    /// touched. A request that is not there any more that one can never see: until it is there again, what it asks stays
    /// with whoever saw it, and so does its answer.
    pub fn other_has(&mut self, session: &str, seen: Option<&Seen>) {
        let was_ours = self.sessions.remove(session).is_some();
        for id in self.of_session(session).map(|(id, _)| id.clone()).collect::<Vec<Id>>() {
            let is_there = seen.is_some_and(|seen| seen.requests.contains_key(&id.stem));
            let is_answered = seen.is_some_and(|seen| seen.responses.contains(&id.stem));
            let Some(item) = self.items.get_mut(&id) else { continue };
            item.look_at = None;
            if !is_there && item.goes_on_alone(is_answered) {
                (item.has_request, item.displaced, item.missing_since) = (false, true, None);
                continue;
            }
            let no = item.number();
            self.items.remove(&id);
            self.actions.extend(no.map(Action::Over));
        }
        if was_ours {
            self.waits_only(session, |_| false);
            // Only if it is that of this process.
            self.actions.push(Action::Unbeat(session.to_owned()));
        }
    }

    /// askd stops: nothing of it stays that would keep others waiting.
    pub fn stop(&mut self) {
        for (id, item) in &self.items {
            let left = item.has_response && !item.has_request && !item.displaced;
            if let (Phase::Placed { ours: true, bytes, .. }, true) = (&item.phase, left) {
                self.actions.push(Action::RemoveResponse(id.clone(), bytes.clone()));
            }
            // Fetched a moment ago: nobody is left who could still be putting it back.
            let gone = !item.has_response && !item.has_request;
            let taken = item.missing_since.is_some() && gone && !item.disturbed;
            if let (Phase::Placed { no: Some(no), .. }, true) = (&item.phase, taken) {
                self.actions.push(Action::Confirmed(*no));
            }
        }
        for name in std::mem::take(&mut self.sessions).into_keys() {
            self.actions.push(Action::Unbeat(name.clone()));
            self.actions.push(Action::Leave(name));
        }
    }
}
