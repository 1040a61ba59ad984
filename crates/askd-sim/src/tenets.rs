//! What must hold after every step and at the end, beside the journal itself.

use std::collections::BTreeMap;

use askd_core::ask::AtDeadline;
use askd_core::command::Reply;
use askd_core::event::Scope;
use askd_core::id::StreamId;
use askd_core::state::Link;
use askd_core::{AskId, Cause, Decision, Delivery, OutcomeKind, Refusal, SessionKey, Verdict};
use askd_journal::{HeadState, Reader};
use askd_writer::{Batched, Writer};

use crate::dice::EntryIds;
use crate::disk::Disk;
use crate::surface::Card;
use crate::transport::{Mail, Sender, Told};
use crate::world::World;

impl World {
    /// What the writer says was committed is what the journal has.
    pub(crate) fn check_batch(&mut self, d: usize, group: &[Mail], batched: &Batched, fresh: usize) {
        if batched.replies.len() != group.len() {
            self.broken(
                &[],
                format!("daemon {d}: {} commands, {} replies", group.len(), batched.replies.len()),
            );
        }
        // What could not be told at once, since nobody knew that it was written, is told with the next batch.
        let owed = self.daemons[d].owed + fresh;
        let refused = |r: &Result<Reply, Refusal>| matches!(r, Err(Refusal::NotRecorded(_)));
        let in_doubt = batched.committed.is_empty() && batched.replies.iter().all(refused);
        if batched.committed.len() != owed && !in_doubt {
            let told = batched.committed.len();
            self.broken(&[], format!("daemon {d}: {owed} entries were written, {told} were told"));
        }
        if in_doubt && fresh > 0 {
            self.counts.add("told only with the next batch");
        }
        self.daemons[d].owed = owed.saturating_sub(batched.committed.len());
        self.check_slots(d);
        let lost_race = |r: &Result<Reply, Refusal>| matches!(r, Err(Refusal::NotRecorded(why)) if why.contains("always first"));
        if self.plan.daemons == 1 && batched.replies.iter().any(lost_race) {
            self.broken(&[], format!("daemon {d} is alone and says that others were always first"));
        }
        for entry in &batched.committed {
            if self.ledger.ids.get(&entry.entry.id) != Some(&entry.position) {
                let what = entry.entry.event.name();
                self.broken(
                    &[],
                    format!("daemon {d}: {what} is told at {}, but is not there", entry.position),
                );
            }
        }
        for (mail, reply) in group.iter().zip(&batched.replies) {
            let (Sender::Ask(r, _), Ok(Reply::Raised(id) | Reply::Reattached(id))) = (mail.from, reply)
            else {
                continue;
            };
            let raise = &self.requesters[r].raise;
            let same = self.ledger.files.get(id).is_some_and(|file| {
                file.ask.requester.token == raise.token
                    && file.ask.key == raise.key
                    && file.ask.digest == raise.action.digest()
            });
            if !same {
                self.broken(
                    &[*id],
                    format!("requester {r} got an ask that is not in the journal as its own"),
                );
            }
        }
    }

    /// A surface with a capacity holds no more than that, only what can still be answered, and is never idle while
    /// something waits for it.
    fn check_slots(&mut self, d: usize) {
        let Some(state) = self.daemons[d].writer.as_ref().map(Writer::state) else { return };
        let mut wrong = Vec::new();
        let mut waited = 0;
        for (surface, info) in state.surfaces() {
            let (Some(capacity), Some(held)) = (info.capacity, state.slots(surface)) else { continue };
            let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
            let can_be_shown = |id: &AskId| {
                state.ask(*id).is_some_and(|a| {
                    a.is_open() && !a.is_handed_back() && info.scope.covers(&state.root_of(a.session()))
                })
            };
            let waiting = state
                .open()
                .filter(|(id, a)| can_be_shown(id) && !held.contains(id) && !a.failed.contains(&info.name))
                .count();
            if held.len() > capacity
                || !held.iter().all(can_be_shown)
                || (waiting > 0 && held.len() < capacity)
            {
                wrong.push(format!("daemon {d}: {surface:?} holds {held:?}, {waiting} wait"));
            }
            waited += waiting;
        }
        if waited > 0 {
            self.counts.add("waited for a slot");
        }
        for what in wrong {
            self.broken(&[], what);
        }
    }

    /// What an answerer hears is true, for ever.
    pub(crate) fn check_reply(&mut self, from: Sender, reply: &Result<Reply, Refusal>) {
        let Sender::Answerer { said, .. } = from else { return };
        let answer = &self.said[said].answer;
        let ask = answer.ask;
        let file = self.ledger.files.get(&ask);
        let outcome = file.and_then(|f| f.outcome.as_ref());
        let holds = match reply {
            Ok(Reply::Settled(id)) => *id == ask && answer.refused.is_none() && self.is_settled_by(said),
            Ok(_) => false,
            Err(Refusal::UnknownAsk) => file.is_none(),
            Err(Refusal::AlreadySettled(id)) => *id == ask && outcome.is_some(),
            Err(Refusal::Late { ask: id, .. }) => {
                *id == ask && outcome.is_some_and(|o| o.cause == Cause::RequesterGone)
            }
            Err(Refusal::HandedBack { ask: id, .. }) => {
                *id == ask && file.is_some_and(|f| f.handed_back.is_some())
            }
            Err(Refusal::DigestMismatch(id)) => {
                *id == ask && file.is_some_and(|f| f.ask.digest != answer.digest)
            }
            Err(Refusal::NotPermitted(_)) => answer.refused.is_some(),
            Err(Refusal::OptionNotOffered { .. }) => file.is_some(),
            Err(Refusal::NotRecorded(_)) => true,
            Err(_) => false,
        };
        if !holds {
            self.broken(&[ask], format!("an answerer hears {reply:?}, which is not so"));
        }
    }

    fn is_settled_by(&self, said: usize) -> bool {
        let answer = &self.said[said].answer;
        let outcome = self.ledger.files.get(&answer.ask).and_then(|f| f.outcome.as_ref());
        outcome.is_some_and(|o| {
            o.cause == Cause::Person
                && o.late_of.is_none()
                && o.kind == OutcomeKind::from(answer.decision)
                && o.surface.as_ref() == Some(&answer.surface)
                && o.by == answer.by
        })
    }

    /// What a requester hears is committed, its own, and not cancelled.
    pub(crate) fn check_told(&mut self, r: usize, told: &Told) {
        let raise = &self.requesters[r].raise;
        match told {
            Told::Settled { ask, outcome, verdict } => {
                let Some(file) = self.ledger.files.get(ask) else {
                    return self
                        .broken(&[*ask], "an outcome of an ask that is not in the journal".to_owned());
                };
                let own = file.ask.requester.token == raise.token
                    && file.ask.key == raise.key
                    && file.ask.digest == raise.action.digest();
                if file.outcome.as_ref() != Some(&**outcome) {
                    let why = format!("requester {r} is told {}, which was not committed", outcome.text());
                    return self.broken(&[*ask], why);
                }
                if !own {
                    return self
                        .broken(&[*ask], format!("requester {r} is told of an ask that is not its own"));
                }
                if *verdict != Verdict::None && *verdict != outcome.verdict() {
                    return self.broken(&[*ask], format!("requester {r} is told {verdict:?}"));
                }
                let reason = outcome.reason_for_model();
                if reason.is_some() != (outcome.verdict() == Verdict::Deny)
                    || (outcome.cause != Cause::Person
                        && reason.is_some_and(|text| text.contains("The user")))
                {
                    return self.broken(&[*ask], "the model is not told the truth".to_owned());
                }
                let ended = self.ledger.ends.iter().find(|end| end.reached.contains(ask));
                if *verdict == Verdict::Allow
                    && self.plan.daemons == 1
                    && let Some(end) = ended
                {
                    let what = if end.cancel { "cancelled" } else { "ended" };
                    let why = format!("an allow is sent although its turn was {what} at {}", end.position);
                    self.broken(&[*ask], why);
                }
            }
            Told::HandedBack { ask } => {
                if self.ledger.files.get(ask).is_none_or(|f| f.handed_back.is_none()) {
                    self.broken(&[*ask], "told that it was handed back, which it was not".to_owned());
                }
            }
            Told::Refused(_) | Told::Released => {}
        }
    }

    /// An agent is about to run a call because askd allowed it.
    pub(crate) fn check_allowed(&mut self, c: usize, ask: Option<AskId>) {
        let Some((id, outcome)) = self.decided(c, ask, OutcomeKind::Allowed) else {
            return self
                .broken(ask.as_slice(), format!("call {} runs and nobody allowed it", self.calls[c].id));
        };
        if !matches!(
            outcome,
            (Cause::Person | Cause::Timed | Cause::Overflow | Cause::Skip | Cause::RemoteTimeout, _)
        ) {
            self.broken(&[id], format!("call {} runs because of {:?}", self.calls[c].id, outcome.0));
        }
        if outcome.0 != Cause::Person {
            return;
        }
        let given_at = outcome.1.unwrap_or(id);
        let used = self.justified.entry(given_at).or_default();
        used.insert(c);
        let (agent, life) = (self.calls[c].agent, self.calls[c].life);
        let twice =
            used.iter().any(|o| *o != c && self.calls[*o].agent == agent && self.calls[*o].life == life);
        // Two daemons that do not hear of each other cannot know it yet.
        if twice && self.plan.daemons == 1 {
            self.broken(&[id, given_at], "one answer let two calls of one process run".to_owned());
        }
    }

    /// An agent tells its model that the call was denied.
    pub(crate) fn check_denied(&mut self, c: usize, ask: Option<AskId>) {
        let cause = self.decided(c, ask, OutcomeKind::Denied).map(|(_, (cause, _))| cause);
        if !matches!(
            cause,
            Some(Cause::Person | Cause::Timed | Cause::Overflow | Cause::RemoteTimeout | Cause::Unreachable)
        ) {
            let why = format!("call {} is denied because of {cause:?}", self.calls[c].id);
            self.broken(ask.as_slice(), why);
        }
    }

    /// The committed decision of this kind that belongs to the call, with its cause and the ask it was given at.
    fn decided(
        &self,
        c: usize,
        ask: Option<AskId>,
        kind: OutcomeKind,
    ) -> Option<(AskId, (Cause, Option<AskId>))> {
        let id = ask?;
        let file = self.ledger.files.get(&id)?;
        let outcome = file.outcome.as_ref().filter(|o| o.kind == kind)?;
        let call = &self.calls[c];
        let own = self.call_of(id) == Some(c)
            && file.ask.digest == call.digest
            && file.ask.lineage.session == self.agents[call.agent].key
            && file.ask.lineage.work_id() == call.thread.as_deref();
        own.then_some((id, (outcome.cause, outcome.late_of)))
    }

    /// Scopes of the surfaces that the daemon knows.
    pub(crate) fn reach(&self, d: usize) -> Vec<Scope> {
        let writer = self.daemons[d].writer.as_ref();
        writer.map(|w| w.state().surfaces().map(|(_, s)| s.scope.clone()).collect()).unwrap_or_default()
    }

    /// Everything that is not over was read back at the start.
    pub(crate) fn check_loaded(&mut self, d: usize) {
        if let Err(why) = self.overrides_hold(d) {
            self.broken(&[], format!("daemon {d} started: {why}"));
        }
        let Some(writer) = &self.daemons[d].writer else { return };
        let lost = self
            .ledger
            .files
            .iter()
            .find(|(id, file)| file.is_reattachable() && writer.state().ask(**id).is_none())
            .map(|(id, _)| *id);
        if let Some(id) = lost {
            self.broken(&[id], format!("daemon {d} started without an ask that is not over"));
        }
    }

    /// The working state is what was committed; counts are right; whoever waits is attached.
    pub(crate) fn check_state(&mut self, d: usize, replies: &[Result<Reply, Refusal>]) {
        if replies.iter().any(|r| matches!(r, Err(Refusal::NotRecorded(_)))) {
            // What is unloaded is read back before anything else is done.
            return;
        }
        if let Err((ask, why)) = self.state_holds(d) {
            self.broken(ask.as_slice(), format!("daemon {d}: {why}"));
        }
    }

    fn state_holds(&self, d: usize) -> Result<(), (Option<AskId>, String)> {
        let Some(writer) = &self.daemons[d].writer else { return Ok(()) };
        let state = writer.state();
        let mut waiting: BTreeMap<&SessionKey, u32> = BTreeMap::new();
        for (_, ask) in state.open() {
            *waiting.entry(ask.session()).or_default() += 1;
        }
        for session in state.sessions() {
            let open = waiting.get(&session.info.key).copied().unwrap_or(0);
            if session.waiting != open {
                return Err((
                    None,
                    format!("{} has {open} open asks, says {}", session.info.key, session.waiting),
                ));
            }
        }
        self.overrides_hold(d).map_err(|why| (None, why))?;
        if self.plan.daemons > 1 {
            return Ok(());
        }
        for (id, file) in &self.ledger.files {
            match state.ask(*id) {
                None if file.outcome.is_none() => {
                    return Err((Some(*id), "an open ask is not listed".to_owned()));
                }
                None => {}
                Some(ask) => {
                    if ask.outcome != file.outcome || ask.delivery != file.delivery {
                        let why = format!(
                            "memory has {:?} {:?}, the journal {:?} {:?}",
                            ask.outcome.as_ref().map(|o| o.text()),
                            ask.delivery,
                            file.outcome.as_ref().map(|o| o.text()),
                            file.delivery
                        );
                        return Err((Some(*id), why));
                    }
                    if file.outcome.is_none() && ask.is_handed_back() != file.handed_back.is_some() {
                        return Err((Some(*id), "handed back in one place only".to_owned()));
                    }
                }
            }
        }
        self.wakes_in_time(d)?;
        for (id, conns) in &self.daemons[d].waiters {
            let held = conns.iter().any(|conn| {
                let link = self.daemons[d].links.get(&conn.link);
                link.is_some_and(|link| self.requesters[link.requester].holds(*conn))
            });
            let open = state.ask(*id).filter(|ask| ask.is_open() && !ask.is_handed_back());
            if held && open.is_some_and(|ask| !ask.is_attached()) {
                return Err((Some(*id), "its requester waits, but it is not attached".to_owned()));
            }
        }
        Ok(())
    }

    /// The daemon wants to be called before anything of an ask is due.
    fn wakes_in_time(&self, d: usize) -> Result<(), (Option<AskId>, String)> {
        let Some(writer) = &self.daemons[d].writer else { return Ok(()) };
        let now = self.clock.stamp();
        let next = writer.poll_timeout(now).map_or(u64::MAX, |(after, _)| after);
        let hold = self.daemons[d].hold_at_most.map_or(0, |until| until.saturating_sub(self.clock.now));
        for (id, ask) in writer.state().asks() {
            let Some(file) = self.ledger.files.get(&id) else { continue };
            let mut due: Vec<(u64, &str)> = Vec::new();
            if ask.is_open() && !ask.is_handed_back() && file.ask.asked_at.boot == now.boot {
                let left = |ms: u64| ms.saturating_sub(self.clock.now - file.asked_at);
                let allows = file.ask.policy.at_deadline == AtDeadline::Answer(Decision::Allow);
                let deadline = file.ask.policy.deadline_ms.filter(|_| !allows || ask.is_attached());
                due.extend(deadline.map(|ms| (left(ms).max(hold), "deadline")));
                due.extend(file.ask.gives_up_ms.map(|ms| (left(ms).max(hold), "limit")));
            }
            if let Link::Detached { since, grace_ms } = ask.link
                && (ask.is_open() || ask.delivery == Delivery::Pending)
            {
                let grace = grace_ms.saturating_sub(since.elapsed(now));
                due.push((grace.max(hold), "grace"));
            }
            if let Some((left, what)) = due.into_iter().min()
                && next > left
            {
                let why = format!("its {what} is due in {left} ms, the daemon wakes in {next} ms");
                return Err((Some(id), why));
            }
        }
        Ok(())
    }

    /// Nothing went wrong for hours and somebody answered everything.
    pub(crate) fn finally(&mut self) {
        for d in 0..self.daemons.len() {
            // A fault that is left over meets the first tries.
            for _ in 0..5 {
                if let Some(writer) = self.daemons[d].writer.as_mut()
                    && writer.flush().is_ok()
                {
                    break;
                }
            }
            self.absorb(d);
        }
        if let Err((ask, why)) = self.rests() {
            self.broken(ask.as_slice(), format!("at the end: {why}"));
        }
        self.reopen();
    }

    fn rests(&self) -> Result<(), (Option<AskId>, String)> {
        for (r, requester) in self.requesters.iter().enumerate() {
            if requester.alive && requester.waiting {
                let ask = self.own_newest(r);
                return Err((ask, format!("requester {r} lives and never got an outcome")));
            }
        }
        for (id, file) in &self.ledger.files {
            if file.outcome.is_none() {
                return Err((Some(*id), "it is still open".to_owned()));
            }
        }
        for (n, said) in self.said.iter().enumerate() {
            if said.settled && !self.is_settled_by(n) {
                let who = said.surface;
                return Err((
                    Some(said.answer.ask),
                    format!("an answer of surface {who} was acknowledged and is gone"),
                ));
            }
        }
        for (d, daemon) in self.daemons.iter().enumerate() {
            let Some(writer) = &daemon.writer else { return Err((None, format!("daemon {d} is down"))) };
            if self.plan.daemons > 1 {
                continue;
            }
            if let Some((id, ask)) = writer.state().asks().next() {
                let why = format!(
                    "daemon {d} keeps {:?} {:?} in memory",
                    ask.outcome.as_ref().map(|o| o.text()),
                    ask.delivery
                );
                return Err((Some(id), why));
            }
            if let Some((after, why)) = writer.poll_timeout(self.clock.stamp()) {
                return Err((None, format!("daemon {d} idles, but wants to be called in {after} ms: {why}")));
            }
        }
        for (n, surface) in self.surfaces.iter().enumerate() {
            if surface.diligent && surface.attached.is_none() {
                return Err((None, format!("surface {n} could not attach")));
            }
            if let (Some(desk), Some(_)) = (&surface.desk, surface.attached)
                && desk.waiting() > 0
            {
                return Err((None, format!("the queue of surface {n} still offers {} asks", desk.waiting())));
            }
            let shown: Option<&Card> = surface.cards.values().next();
            if let (Some(_), Some(card)) = (surface.attached, shown) {
                return Err((Some(card.id), format!("surface {n} still shows it")));
            }
        }
        Ok(())
    }

    /// A last daemon reads what all the others left.
    fn reopen(&mut self) {
        let heads = self.ledger.journal().open_heads().unwrap_or_default();
        let open = heads
            .iter()
            .find(|(stream, _, head)| matches!(stream, StreamId::Ask(_)) && head.state != HeadState::Closed);
        if let (Some((stream, ..)), 1) = (open, self.plan.daemons) {
            self.broken(&[], format!("at the end: the head of {stream} is not closed"));
        }
        let disk = Disk { inner: self.store.open(), met: Default::default(), flaw: None };
        let ids = Box::new(EntryIds(self.dice.fork()));
        let now = self.clock.stamp();
        match Writer::open(disk, self.plan.settings.clone(), ids, Box::new(()), now) {
            Err(error) => self.broken(&[], format!("at the end: the journal cannot be read: {error}")),
            Ok(writer) => {
                if let Some((id, _)) = writer.state().open().next() {
                    self.broken(&[id], "at the end: open again after a restart".to_owned());
                }
            }
        }
    }
}
