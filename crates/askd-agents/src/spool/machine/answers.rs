//! What the daemon says of an ask, and what becomes of its answer until it is in place.

use askd_client::spool::Put;
use askd_wire::Outcome;

use super::item::{Item, Phase};
use super::{Action, AskNo, FIRST_PAUSE, Id, LONGEST_PAUSE, Machine, Now, SETTLED};
use crate::spool::wire;

impl Machine {
    /// The daemon took an ask: it is there.
    pub fn raised(&mut self) {
        self.away = None;
    }

    /// The daemon could not be reached; the ask is tried again by whoever raises it.
    pub fn lost(&mut self, now: Now) {
        self.away.get_or_insert(now);
    }

    /// The daemon has no room for this ask now: it is there, and the ask is tried again by whoever raises it.
    pub fn no_room(&mut self, no: AskNo, why: &str) {
        self.away = None;
        let Some((id, _)) = self.by_number(no) else { return };
        self.tell(format!("{id}: it waits, the daemon has no room for it now: {why}"));
    }

    /// An ask was settled or withdrawn.
    pub fn outcome(&mut self, no: AskNo, outcome: &Outcome, now: Now, wall_ms: i64) {
        self.away = None;
        let Some((id, item)) = self.by_number(no) else {
            // Its requester left meanwhile.
            self.actions.push(Action::Over(no));
            return;
        };
        let (Phase::Waiting { .. } | Phase::Ending { .. }, Some(request)) = (&item.phase, &item.request)
        else {
            return;
        };
        let bytes = request.answer(outcome, wall_ms);
        let decided = outcome.verdict != askd_wire::Verdict::None;
        self.hold(id, decided.then_some(no), bytes, now);
        if !decided {
            self.actions.push(Action::Over(no));
        }
    }

    /// The daemon will not take this ask.
    pub fn refused(&mut self, no: AskNo, why: &str, now: Now, wall_ms: i64) {
        self.away = None;
        self.actions.push(Action::Over(no));
        let Some((id, item)) = self.by_number(no) else { return };
        match (&item.phase, &item.request) {
            (Phase::Waiting { .. } | Phase::Ending { .. }, Some(request)) => {
                let bytes = request.unavailable(&format!("askd could not take this request: {why}"), wall_ms);
                self.tell(format!("{id}: {why}"));
                self.hold(id, None, bytes, now);
            }
            _ => self.tell(format!("{id}: {why}")),
        }
    }

    /// What became of [`Action::Answer`].
    /// `there`: where one was there already, what it says.
    pub fn placed(&mut self, id: &Id, result: Result<Put, String>, there: Option<&[u8]>, now: Now) {
        let Some(item) = self.items.get_mut(id) else { return };
        let Phase::Holding { no, bytes, tries, again, .. } = &mut item.phase else { return };
        match result {
            Ok(Put::Placed) => {
                let (no, again) = (*no, *again);
                if *tries > 0 {
                    self.actions.push(Action::Tell(format!("{id}: the answer is in place now")));
                }
                item.phase = Phase::placed(no, std::mem::take(bytes), true);
                (item.missing_since, item.lost_since, item.disturbed) = (None, None, false);
                if let (Some(no), false) = (no, again) {
                    self.actions.push(Action::Handed(no));
                }
            }
            Ok(Put::Taken) => {
                let (no, again) = (*no, *again);
                let (said, says) = (wire::says(bytes), there.and_then(wire::says));
                let is_ours = again || there == Some(&**bytes);
                let there = there.map(<[u8]>::to_vec).unwrap_or_default();
                item.phase = Phase::placed(None, Vec::new(), again);
                match no {
                    // What we put there ourselves came back, or never was away.
                    Some(no) if again => item.phase = Phase::placed(Some(no), there, true),
                    // Another server put it there, with the outcome that the ask has.
                    Some(no) if is_ours || said.is_some() && said == says => {
                        item.phase = Phase::placed(Some(no), there, is_ours);
                        self.actions.push(Action::Handed(no));
                    }
                    Some(no) => {
                        let text = "somebody else answered it first; the answer given here came too late";
                        self.actions.push(Action::Tell(format!("{id}: {text}")));
                        self.actions.push(Action::AnsweredElsewhere(no, id.clone()));
                    }
                    None => {}
                }
            }
            Err(why) => {
                if *tries == 0 {
                    let text = "the answer cannot be put in place and is kept";
                    self.actions.push(Action::Tell(format!("{id}: {text}: {why}")));
                }
                let pause = FIRST_PAUSE * 2_u32.pow((*tries).min(6));
                *tries += 1;
                if let Phase::Holding { next, .. } = &mut item.phase {
                    *next = Some(now + pause.min(LONGEST_PAUSE));
                }
            }
        }
    }

    /// The request that an answer is for is not there, or is another one by now: nothing was put in place.
    pub fn not_beside(&mut self, id: &Id, now: Now) {
        let Some(item) = self.items.get_mut(id) else { return };
        if let Phase::Holding { next, .. } = &mut item.phase {
            // What became of it is seen at the next look, which is before that.
            *next = Some(now + SETTLED);
            (item.reread, item.look_at) = (true, Some(now));
        }
    }

    /// From here on there is an answer, and it is put in place until it is there.
    pub(super) fn hold(&mut self, id: Id, no: Option<AskNo>, bytes: Vec<u8>, now: Now) {
        let Some(item) = self.items.get_mut(&id) else { return };
        item.phase = Phase::Holding { no, bytes: bytes.clone(), tries: 0, next: None, again: false };
        if let Some(session) = self.sessions.get_mut(&id.session) {
            session.active(now);
        }
        let beside = self.items.get(&id).map(Item::beside);
        self.keep(&id.session);
        self.actions.extend(beside.map(|beside| Action::Answer(id, bytes, beside)));
    }
}
