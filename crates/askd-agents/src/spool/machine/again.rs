//! Answers that lie in place when a session is taken up: those of an earlier run are known again, so that they are
//! confirmed when they are fetched, and removed when nobody comes for them any more.

use super::item::Phase;
use super::{Action, AskNo, Id, Machine, Now};
use crate::spool::wire;

impl Machine {
    /// A request whose response was there at first sight. Some say by themselves that an askd wrote them; of the others
    /// the daemon knows it. Of all of them it knows which ask it was.
    pub(super) fn known_again(&mut self, id: &Id, now: Now) {
        let no = self.number();
        let Some(item) = self.items.get_mut(id) else { return };
        let Phase::Placed { bytes, ours, .. } = &mut item.phase else { return };
        *ours = wire::is_askds(bytes);
        if let Some(request) = &item.request {
            let raise = request.raise(None, std::time::Duration::ZERO);
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

    fn end_if_over(&mut self, id: &Id) {
        if let Some(over) = self.items.get(id).and_then(|item| item.over) {
            self.end(id, over);
        }
    }
}
