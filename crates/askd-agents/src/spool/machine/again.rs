//! Answers that lie in place when a session is taken up: those of an earlier run are known again, so that they are
//! confirmed when they are fetched, and removed when nobody comes for them any more. And requests whose name, or whose
//! very content, was there before: each of them is an ask of its own.

use super::item::Phase;
use super::{Action, AskNo, Found, Id, Machine, Now};
use crate::spool::wire::{self, Request};

/// For how long it is known that a request had its answer; by then the daemon was told, and knows it itself.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(1200);
/// Requests of which that is known; the oldest are forgotten first.
const MOST_REMEMBERED: usize = 8192;

impl Machine {
    /// A request whose response was there at first sight. Some say by themselves that an askd wrote them; of the others
    /// the daemon knows it. Of all of them it knows which ask it was.
    pub(super) fn known_again(&mut self, id: &Id, now: Now) {
        let no = self.number();
        let Some(item) = self.items.get_mut(id) else { return };
        let Phase::Placed { bytes, ours, .. } = &mut item.phase else { return };
        *ours = wire::is_askds(bytes);
        if let Some(request) = &item.request {
            let raise = request.raise(None, std::time::Duration::ZERO, item.turn);
            self.actions.push(Action::Recall(no, Box::new(raise), wire::says(bytes)));
            item.recall = Some(no);
        }
        self.session(&id.session, now).active(now);
        self.end_if_over(id);
    }

    /// What became of [`Action::Recall`]. True: the ask is known, and its outcome is what the response says.
    pub fn recalled(&mut self, no: AskNo, is_ours: bool) {
        let Some((id, _)) = self.by_number(no) else {
            self.actions.push(Action::Over(no));
            return;
        };
        let Some(item) = self.items.get_mut(&id) else { return };
        item.recall = None;
        match &mut item.phase {
            Phase::Placed { no: known, ours, .. } if is_ours => (*known, *ours) = (Some(no), true),
            Phase::Holding { no: known, .. } if is_ours => *known = Some(no),
            _ => {}
        }
        self.end_if_over(&id);
    }

    /// Another request has the name of this one, or it was written anew after it had its answer: what was answered goes
    /// to nobody else, and is taken away where it still lies.
    pub(super) fn replaced(&mut self, id: &Id, found: &mut Found, in_place: bool, now: Now) {
        let Some(item) = self.items.remove(id) else { return };
        let no = item.number();
        match item.phase {
            Phase::Torn { .. } => self.actions.extend(no.map(|no| Action::Withdraw(no, "superseded"))),
            // They are told already that nobody waits.
            Phase::Waiting { .. } | Phase::Ending { .. } => {}
            Phase::Holding { .. } => {
                self.tell(format!("{id}: its requester left before its answer could be put in place"));
                self.actions.extend(no.map(Action::Over));
            }
            Phase::Placed { ours, bytes, .. } => {
                let there = found.answered.take();
                // Away from directories that stayed, with its request: it was fetched.
                let fetched = there.is_none() && in_place && !item.disturbed && !item.displaced;
                self.actions.extend(no.map(if fetched { Action::Confirmed } else { Action::Over }));
                match there {
                    Some(there) if ours && (bytes.is_empty() || there == bytes) => {
                        self.tell(format!(
                            "{id}: its requester left its answer; another request has its name"
                        ));
                        self.actions.push(Action::RemoveResponse(id.clone(), there));
                        found.outdated = true;
                    }
                    there => found.answered = there,
                }
                self.remember(id, item.request.as_ref(), item.turn, now);
            }
        }
    }

    /// How often this very request had its answer.
    pub(super) fn turn(&self, id: &Id, found: &Found) -> u32 {
        let Ok(request) = &found.request else { return 0 };
        self.had.get(&(id.clone(), request.digest.clone())).map_or(0, |(turn, _)| *turn)
    }

    pub(super) fn remember(&mut self, id: &Id, request: Option<&Request>, turn: u32, now: Now) {
        let Some(request) = request else { return };
        if self.had.len() >= MOST_REMEMBERED
            && let Some(oldest) = self.had.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone())
        {
            self.had.remove(&oldest);
        }
        self.had.insert((id.clone(), request.digest.clone()), (turn + 1, now));
    }

    pub(super) fn forget_old(&mut self, now: Now) {
        self.had.retain(|_, (_, at)| now.saturating_sub(*at) < REMEMBERED);
    }

    fn end_if_over(&mut self, id: &Id) {
        if let Some(over) = self.items.get(id).and_then(|item| item.over) {
            self.end(id, over);
        }
    }
}
