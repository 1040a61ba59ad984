//! Sessions: what a look at their directories means, and for how long they are served.

use askd_wire::RaiseAsk;

use super::item::{Item, Phase};
use super::{
    AWAY, Action, BEAT, GONE, IDLE, Id, Kept, LEFT, LOST_RESPONSE, Machine, Now, SETTLED, Seen, decoded,
};
use crate::spool::wire;

#[derive(Debug)]
pub(super) struct Session {
    /// When it last had anything to do.
    last: Now,
    /// What is open in it, at the last count and since.
    pub(super) open: usize,
    pub(super) beat_at: Option<Now>,
    /// A launcher chose its id: it is kept before anybody asks, and until askd stops.
    chosen: bool,
    had_request: bool,
    other_serves: bool,
    /// Its sentinels were taken away; the next request brings it back.
    left: bool,
    /// Its `requests/` when the sentinels were made.
    requests_dir: Option<(u64, u64)>,
    /// Its `requests/` at the last look.
    seen_dir: Option<(u64, u64)>,
    /// The sentinels were in place since it was taken up.
    was_kept: bool,
}

impl Session {
    fn new(now: Now) -> Self {
        Self {
            last: now,
            open: 0,
            beat_at: None,
            chosen: false,
            had_request: false,
            other_serves: false,
            left: false,
            requests_dir: None,
            seen_dir: None,
            was_kept: false,
        }
    }

    pub(super) fn active(&mut self, now: Now) {
        self.last = now;
        self.had_request = true;
        self.left = false;
    }
}

impl Session {
    /// Its `requests/` is the one that the sentinels were made in.
    pub(super) fn is_kept_in(&self, dir: Option<(u64, u64)>) -> bool {
        self.requests_dir == dir
    }
}

impl Machine {
    pub(super) fn session(&mut self, name: &str, now: Now) -> &mut Session {
        self.sessions.entry(name.to_owned()).or_insert_with(|| Session::new(now))
    }

    /// Serves a session whose id askd or its launcher chose: its directories are there before anybody asks.
    pub fn choose(&mut self, session: &str, now: Now) {
        let chosen = self.session(session, now);
        chosen.chosen = true;
        chosen.had_request = true;
        self.actions.push(Action::Keep(session.to_owned()));
    }

    /// What became of [`Action::Keep`]; `None`: it failed.
    pub fn kept(&mut self, session: &str, kept: Option<Kept>) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let dir = kept.map(|kept| kept.requests_dir);
        let before = std::mem::replace(&mut known.requests_dir, dir);
        let Some(kept) = kept else { return };
        let was_kept = std::mem::replace(&mut known.was_kept, true);
        // At first only a directory that was just seen and is away says something.
        let undisturbed = if was_kept { !kept.anew && before == dir } else { !kept.requests_made };
        if undisturbed {
            return;
        }
        // Its directories were taken away between two looks: what is missing in the new ones was not fetched.
        // The number alone does not say that it is the directory that was seen: the next one may have the same.
        let is_another = kept.requests_made || was_kept && kept.requests_anew;
        let same = !is_another && known.seen_dir == dir;
        for (_, item) in self.items.iter_mut().filter(|(id, _)| id.session == session) {
            item.disturbed = true;
            item.missing_since = None;
            // One that was seen in this very directory went, if it went, by itself.
            item.displaced |= !(same && item.has_request);
        }
    }

    /// The directories of a session are made and kept, unless another has it by now: that one would take what is new in
    /// them for what it saw before.
    pub(super) fn keep(&mut self, session: &str) {
        if self.sessions.contains_key(session) {
            self.actions.push(Action::Keep(session.to_owned()));
        }
    }

    /// A look at one session is complete. `None`: its directory is not there.
    pub fn scanned(&mut self, name: &str, seen: Option<&Seen>, now: Now) {
        let nothing = Seen::default();
        let (is_there, seen) = (seen.is_some(), seen.unwrap_or(&nothing));
        let ids: Vec<Id> = self.of_session(name).map(|(id, _)| id.clone()).collect();
        self.waits_only(name, |stem| seen.requests.contains_key(stem));
        if !is_there && ids.is_empty() && !self.sessions.get(name).is_some_and(|session| session.chosen) {
            if self.sessions.remove(name).is_some() {
                self.actions.push(Action::Unbeat(name.to_owned()));
                self.actions.push(Action::Leave(name.to_owned()));
            }
            return;
        }
        let session = self.session(name, now);
        session.other_serves = seen.other_serves;
        session.seen_dir = seen.requests_dir;
        let was_kept = session.was_kept;
        let in_place = seen.kept && seen.requests_dir.is_some() && session.requests_dir == seen.requests_dir;
        let wants_keeping = (!ids.is_empty() || session.chosen || seen.requests_dir.is_some())
            && !session.left
            && !(seen.kept && session.requests_dir == seen.requests_dir);
        for id in &ids {
            self.look(id, seen, (in_place, was_kept), now);
        }
        if wants_keeping {
            self.actions.push(Action::Keep(name.to_owned()));
        }
        if !ids.is_empty() {
            self.session(name, now).active(now);
        }
    }

    /// When a look is wanted sooner than the usual one, and at which session.
    pub fn looks(&self) -> impl Iterator<Item = (Now, &str)> {
        self.items.iter().filter_map(|(id, item)| Some((item.look_at?, id.session.as_str())))
    }

    /// Requests of a session that are known.
    pub fn stems(&self, session: &str) -> Vec<String> {
        self.of_session(session).map(|(id, _)| id.stem.clone()).collect()
    }

    /// A session could not be looked at: what was to be looked at sooner waits for the usual look.
    pub fn not_seen(&mut self, session: &str) {
        for (_, item) in self.items.iter_mut().filter(|(id, _)| id.session == session) {
            item.look_at = None;
        }
    }

    fn look(&mut self, id: &Id, seen: &Seen, (in_place, was_kept): (bool, bool), now: Now) {
        let Some(item) = self.items.get_mut(id) else { return };
        let (request, mut response) =
            (seen.requests.contains_key(&id.stem), seen.responses.contains(&id.stem));
        response &= !std::mem::take(&mut item.cleared);
        (item.has_request, item.has_response) = (request, response);
        if request || in_place {
            // Away with its directories once: that those are there again does not bring it back.
            item.displaced &= !request;
        } else {
            item.displaced = true;
            item.missing_since = None;
        }
        // Before they were kept for the first time, that they are not says nothing.
        item.disturbed = !in_place && was_kept || (item.disturbed && !response);
        match &item.phase {
            Phase::Torn { .. } | Phase::Waiting { .. } | Phase::Ending { .. } if response => {
                self.answered_elsewhere(id);
            }
            // It was in place, and then everything went: it waits for its request.
            Phase::Holding { again: true, .. } if !request && item.displaced => {
                if item.missing(true, now).is_some_and(|span| span >= GONE) {
                    self.went(id, now);
                }
            }
            Phase::Torn { .. } | Phase::Waiting { .. } | Phase::Ending { .. } | Phase::Holding { .. } => {
                let is_away = !request && !item.displaced;
                if item.missing(is_away, now).is_some_and(|span| span >= SETTLED) {
                    self.gone(id, now);
                }
            }
            Phase::Placed { ours: false, no, .. } => {
                let no = no.or(item.recall);
                if item.missing(!request, now).is_some_and(|span| span >= SETTLED) {
                    // Both are away from directories that stayed: if it was ours, it was fetched.
                    let taken = !response && in_place && !item.disturbed;
                    let order = if taken { Action::Confirmed } else { Action::Over };
                    self.actions.extend(no.map(order));
                    self.forget(id, now);
                }
            }
            Phase::Placed { .. } => {
                // Its request was taken away beside it, and not with the directory: nobody comes for it.
                if response {
                    item.lost_since = None;
                } else if request {
                    item.lost_since.get_or_insert(now);
                }
                let lost = item.lost_since.map_or(Now::ZERO, |since| now.saturating_sub(since));
                let left = response && !request && in_place && !item.displaced;
                let patience = if left { LEFT } else { SETTLED };
                let span = item.missing_for(!response || left, patience, now);
                let for_long = |patience| span.is_some_and(|span| span >= patience);
                if left {
                    if for_long(LEFT) {
                        self.left(id, now);
                    }
                } else if request {
                    // Away beside its request it was taken from under its requester.
                    if lost >= LOST_RESPONSE || for_long(LOST_RESPONSE) {
                        self.again(id);
                    }
                } else if in_place && !item.disturbed {
                    // Both are away from their places: it was fetched.
                    if for_long(SETTLED) {
                        self.fetched(id, now);
                    }
                } else if for_long(GONE) {
                    // With everything: whether it was fetched before cannot be told.
                    self.went(id, now);
                }
            }
        }
    }

    /// Somebody else's response came while the ask was open.
    fn answered_elsewhere(&mut self, id: &Id) {
        let Some(item) = self.items.get_mut(id) else { return };
        let no = item.number();
        item.missing_since = None;
        item.phase = Phase::placed(None, Vec::new(), false);
        self.tell(format!("{id}: answered by somebody else"));
        self.actions.extend(no.map(|no| Action::AnsweredElsewhere(no, id.clone())));
    }

    /// The requester took its request away.
    pub(super) fn gone(&mut self, id: &Id, now: Now) {
        let Some(item) = self.items.get(id) else { return };
        let at_limit = item.limit_at.is_some_and(|limit| now + item.margin >= limit);
        let cause = if at_limit { "requester_limit" } else { "requester_gone" };
        match &item.phase {
            Phase::Torn { no: Some(no), .. } => self.actions.push(Action::Withdraw(*no, "cancelled")),
            Phase::Holding { no, .. } => {
                let no = *no;
                self.tell(format!("{id}: its requester left before its answer could be put in place"));
                self.actions.extend(no.map(Action::Over));
            }
            _ => self.withdraw(id, cause),
        }
        self.items.remove(id);
    }

    fn fetched(&mut self, id: &Id, now: Now) {
        let no = self.forget(id, now);
        self.actions.extend(no.map(Action::Confirmed));
    }

    /// Its requester left without it: an answer that lies there would be taken for that to the next of its name.
    fn left(&mut self, id: &Id, now: Now) {
        self.tell(format!("{id}: its requester left and did not fetch its answer"));
        if let Some(Item { phase: Phase::Placed { bytes, .. }, .. }) = self.items.get(id) {
            self.actions.push(Action::RemoveResponse(id.clone(), bytes.clone()));
        }
        let no = self.forget(id, now);
        self.actions.extend(no.map(Action::Over));
    }

    fn went(&mut self, id: &Id, now: Now) {
        self.tell(format!("{id}: its answer went with its directory; whether it was fetched is not known"));
        let no = self.forget(id, now);
        self.actions.extend(no.map(Action::Over));
    }

    /// It is over; the very same request later is asked again. Gives its number.
    fn forget(&mut self, id: &Id, now: Now) -> Option<super::AskNo> {
        let item = self.items.remove(id)?;
        self.remember(id, item.request.as_ref(), item.turn, now);
        item.number()
    }

    /// The response was removed under its requester.
    fn again(&mut self, id: &Id) {
        let Some(item) = self.items.get_mut(id) else { return };
        let Phase::Placed { no, bytes, .. } = &mut item.phase else { return };
        if bytes.is_empty() {
            return;
        }
        let (no, bytes) = (*no, std::mem::take(bytes));
        item.missing_since = None;
        item.phase = Phase::Holding { no, bytes: bytes.clone(), tries: 0, next: None, again: true };
        let beside = item.beside();
        self.actions.push(Action::Keep(id.session.clone()));
        self.actions.push(Action::Answer(id.clone(), bytes, beside));
    }

    /// An unreadable request that is unreadable for a while is shown.
    pub fn show_unreadable(&mut self, now: Now) {
        let torn: Vec<(Id, String)> = self
            .items
            .iter()
            .filter_map(|(id, item)| match &item.phase {
                Phase::Torn { why, since, no: None } if now >= *since + SETTLED => {
                    Some((id.clone(), why.clone()))
                }
                _ => None,
            })
            .collect();
        for (id, why) in torn {
            let Some(target) = decoded(&id.session) else { continue };
            let raise: RaiseAsk = wire::raise_unreadable(&id.stem, &target, &why);
            let number = self.number();
            if let Some(Item { phase: Phase::Torn { no, .. }, .. }) = self.items.get_mut(&id) {
                *no = Some(number);
            }
            self.tell(format!("{id}: {why}; it is kept"));
            self.actions.push(Action::Raise(number, Box::new(raise)));
        }
    }

    /// askd is there for its requesters.
    fn serves(&self, now: Now) -> bool {
        self.away.is_none_or(|since| now.saturating_sub(since) < AWAY)
    }

    pub(super) fn tick_sessions(&mut self, now: Now) {
        self.show_unreadable(now);
        self.count_open();
        self.forget_old(now);
        let serves = self.serves(now);
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in names {
            let busy = self.is_busy(&name);
            let Some(session) = self.sessions.get_mut(&name) else { continue };
            if busy {
                session.last = now;
            }
            let idle = !busy && !session.chosen && now.saturating_sub(session.last) >= IDLE;
            if idle && !session.other_serves && !session.left {
                session.left = true;
                session.beat_at = None;
                session.requests_dir = None;
                session.was_kept = false;
                self.actions.push(Action::Unbeat(name.clone()));
                self.actions.push(Action::Leave(name));
                continue;
            }
            if !session.had_request || session.left || session.other_serves || self.closing {
                continue;
            }
            if !serves {
                if session.beat_at.take().is_some() {
                    self.actions.push(Action::Unbeat(name));
                }
            } else if session.beat_at.is_none_or(|at| now.saturating_sub(at) >= BEAT) {
                session.beat_at = Some(now);
                self.actions.push(Action::Beat(name));
            }
        }
    }
}
