//! `apply` is total: every change has an effect or none, never an error.

use std::sync::Arc;

use crate::ask::{Ask, Class};
use crate::event::{Change, Event, Note, Record};
use crate::gate::CallPlace;
use crate::id::{AskId, LinkId, SessionKey, StreamId};
use crate::outcome::{Cause, Delivery, Outcome, OutcomeKind};
use crate::time::{Now, Stamp};

use super::session::{Child, Session};
use super::{AskState, Late, Link, State};

impl State {
    /// Takes one change into the state.
    pub fn apply(&mut self, change: &Change, now: Now) {
        match change {
            Change::Record(record) => self.apply_record(record, now),
            Change::Note(note) => self.apply_note(note, now),
        }
    }

    fn apply_record(&mut self, record: &Record, now: Now) {
        match &record.stream {
            StreamId::Ask(id) => {
                self.apply_to_ask(*id, &record.event, record.at, now);
                self.index(*id, now);
                self.touched.insert(*id);
                self.slots_after(*id, &record.event);
            }
            StreamId::Session(key) => {
                self.apply_to_session(key, record);
                if let Some(session) = self.sessions.get_mut(key) {
                    session.heard = record.at;
                }
            }
            StreamId::Daemon(_) => match &record.event {
                Event::LooseningAccepted { key, value, .. } => {
                    self.loosenings.insert((key.clone(), value.clone()));
                }
                Event::LooseningDropped { key, value } => {
                    self.loosenings.remove(&(key.clone(), value.clone()));
                }
                Event::OverridesSet { overrides, .. } => {
                    self.kept.drop_what(overrides);
                    if overrides.is_strict() {
                        self.kept.merge(overrides);
                    }
                }
                _ => {}
            },
            StreamId::Surface(_) => {}
        }
    }

    fn apply_to_session(&mut self, key: &SessionKey, record: &Record) {
        match &record.event {
            Event::SessionStarted { session } => {
                let moves = self.sessions.get(key).is_some_and(|known| known.info.parent != session.parent);
                let before = moves.then(|| self.root_of(key));
                self.recount(key, |state| match state.sessions.get_mut(key) {
                    Some(known) => {
                        known.info = (**session).clone();
                        known.stands_in = false;
                        known.ended = false;
                        known.ended_at = None;
                    }
                    None => {
                        state.sessions.insert(key.clone(), Session::new((**session).clone(), record.at));
                    }
                });
                if let Some(before) = before {
                    self.note_moved(key, &before);
                }
            }
            Event::SessionEnded { .. } => {
                self.forget_let_go_of_tree(&self.root_of(key));
                self.give_back_subagents(key);
                self.recount(key, |state| {
                    if let Some(session) = state.sessions.get_mut(key) {
                        session.end(record.at);
                        let asks: Vec<_> = session.asks.iter().copied().collect();
                        state.turn_over(asks);
                    }
                });
            }
            Event::SubagentStarted { subagent, background, owner } => {
                let subagent = subagent.clone();
                let child = Child { subagent, background: *background, ended: false, owner: owner.clone() };
                self.bring(key, child);
            }
            Event::OverridesSet { overrides, .. } => {
                if let Some(session) = self.sessions.get_mut(key) {
                    session.set(overrides);
                }
            }
            Event::OverridesLifted { overrides, .. } => {
                if let Some(session) = self.sessions.get_mut(key) {
                    session.overrides.drop_what(overrides);
                }
            }
            Event::SubagentEnded { work_id } => {
                if let Some(session) = self.sessions.get_mut(key)
                    && let Some(child) = session.subagents.get_mut(work_id)
                    && !std::mem::replace(&mut child.ended, true)
                {
                    session.ended_subagents += 1;
                }
            }
            _ => {}
        }
    }

    fn apply_to_ask(&mut self, id: AskId, event: &Event, at: Stamp, now: Now) {
        if let Event::Asked { ask } = event {
            self.insert(Arc::clone(ask), now);
            return;
        }
        if let Event::HandedBack { .. } | Event::Detached = event
            && let Some(link) = self.asks.get(&id).map(|ask| ask.link.clone())
        {
            self.unlink(id, &link);
        }
        let Some(state) = self.asks.get_mut(&id) else { return };
        match event {
            Event::Settled { outcome } | Event::Withdrawn { outcome } if state.outcome.is_none() => {
                settle(state, outcome.clone());
                let ask = Arc::clone(&state.ask);
                state.over_at = Some(at);
                let (key, thread) = (state.session().clone(), state.ask.lineage.work_id().map(str::to_owned));
                let (class, owner) = (state.ask.class, state.ask.requester.owner.clone());
                self.settled_by(owner.as_ref(), id, true);
                self.hold_bytes(&ask, super::weight::of_outcome(outcome));
                self.remember(&key, |session| {
                    session.closed(owner.as_ref());
                    match (class, outcome.kind) {
                        // A person, or a default that a person accepted, said that it may go on.
                        (Class::Safety, OutcomeKind::Allowed) => session.seen.forget_gate(&thread),
                        // A call that is refused is not seen to end.
                        (Class::Tool, OutcomeKind::Denied) => {
                            session.seen.call_ended(&thread);
                        }
                        _ => {}
                    }
                });
            }
            Event::Shown { surface, remote } if !state.shown.contains(surface) => {
                if *remote {
                    state.remote_shown_at.get_or_insert(at);
                }
                state.shown.push(surface.clone());
            }
            Event::SurfaceFailed { surface, .. } if !state.failed.contains(surface) => {
                state.failed.push(surface.clone());
            }
            Event::LateRecorded { answer } => state.late = Late::Recorded(answer.clone()),
            Event::LateUsed { by } => state.late = Late::Used(*by),
            Event::LateRevoked { .. } => state.late = Late::Over,
            Event::Detached => {
                let grace_ms = state.ask.requester.grace_ms;
                state.link = Link::Detached { since: at, grace_ms };
                state.left = true;
            }
            // To this daemon or to another one: the link itself is a note.
            Event::Reattached => state.left = false,
            Event::HandedBack { at, why } => {
                state.link = Link::HandedBack { at: at.clone(), why: why.clone() };
            }
            Event::Handed => {
                state.delivery = Delivery::Handed;
                state.heard = true;
            }
            Event::Confirmed => {
                state.delivery = Delivery::Confirmed;
                state.heard = true;
                // It did reach the agent, so no repeated call may use it.
                state.late = Late::Over;
            }
            Event::Overtaken { .. } => {
                state.delivery = Delivery::Overtaken;
                state.over_at = Some(at);
                state.late = Late::Over;
            }
            Event::DeliveryRefused { .. } => {
                state.delivery = Delivery::Refused;
                state.over_at = Some(at);
            }
            Event::Voided { .. } => {
                state.delivery = Delivery::Voided;
                state.over_at = Some(at);
                state.late = Late::Over;
            }
            Event::DeliveryExpired { .. } => {
                state.delivery = Delivery::Expired;
                state.lost_at = Some(at);
            }
            _ => {}
        }
    }

    fn insert(&mut self, ask: Arc<Ask>, now: Now) {
        let id = ask.id;
        // Read back over itself: it counts once.
        self.remove(id);
        self.hold(&ask);
        // Read back again after the wall clock was stepped, it is as old as it was before.
        let opened = *self.opened.get_or_insert(now);
        let known_then = opened.boot == now.boot && ask.asked_at.wall_ms <= opened.wall_ms;
        let anchor = if known_then { opened } else { now };
        self.by_key.insert((ask.requester.token, super::let_go::of_key(&ask.key), ask.digest, id));
        self.handles_elsewhere.remove(&ask.handle);
        self.handles.insert(ask.handle.clone(), id);
        // A session that the journal closed is not read back at a start; what is left of its asks still counts.
        let key = &ask.lineage.session;
        if !self.sessions.contains_key(key) {
            self.sessions.insert(key.clone(), Session::closed_before(&ask));
        }
        self.remember(key, |session| {
            if session.hold(id, ask.requester.token) {
                session.opened(ask.requester.owner.as_ref());
            }
            if session.heard.elapsed(ask.asked_at) > 0 {
                session.heard = ask.asked_at;
            }
            // One call asks once here; a call that ends unseen is no candidate for the next one like it.
            if let Some(call) = &ask.lineage.call {
                session.seen.forget_call(call);
            }
        });
        let state = AskState {
            link: Link::Detached { since: ask.asked_at, grace_ms: ask.requester.grace_ms },
            ask,
            outcome: None,
            delivery: Delivery::None,
            lost_at: None,
            late: Late::None,
            left: false,
            reached: false,
            remote_shown_at: None,
            failed: Vec::new(),
            over_at: None,
            heard: false,
            shown: Vec::new(),
            turn_over: false,
            let_go: false,
            recalled: false,
            anchor,
            dues: Vec::new(),
        };
        self.awaited.asked(id);
        self.asks.insert(id, state);
    }

    fn apply_note(&mut self, note: &Note, now: Now) {
        match note {
            Note::Attached { ask, link } => self.attach(*ask, *link, now),
            Note::LinkClosed { link } => {
                for id in self.links.remove(link).unwrap_or_default() {
                    if let Some(state) = self.asks.get_mut(&id)
                        && state.link == Link::Attached(*link)
                    {
                        let grace_ms = state.ask.requester.grace_ms;
                        state.link = Link::Detached { since: now, grace_ms };
                    }
                    self.index(id, now);
                    self.touched.insert(id);
                }
            }
            Note::CallStarted { session, call, info, batch, turn } => {
                self.remember(session, |session| {
                    session.heard = now;
                    let is_new = session.seen.remember_call(call, info.clone());
                    if is_new && info.side.is_none() {
                        let place = CallPlace { batch: batch.as_deref(), turn: turn.as_deref() };
                        session.seen.call_started(info.subagent.as_ref(), info.digest, place, now);
                    }
                });
            }
            Note::CallEnded { session, call, subagent } => {
                self.remember(session, |session| {
                    let anothers = session.seen.call(call).is_some_and(|info| info.side.is_some());
                    session.seen.forget_call(call);
                    if !anothers {
                        session.seen.call_ended(subagent);
                    }
                });
            }
            Note::GateReset { session, subagent } => {
                self.remember(session, |session| session.seen.forget_gate(subagent));
            }
            Note::OverridesSet { overrides } => self.overrides.merge(overrides),
            Note::SpawnSeen { session, spawn } => {
                self.remember(session, |session| session.seen.remember_spawn(spawn.clone()));
            }
            Note::SpawnUsed { session, call } => {
                self.remember(session, |session| session.seen.forget_spawn(call));
            }
            Note::TurnOver { asks } => self.turn_over(asks.iter().copied()),
            Note::SurfaceAttached { surface, info } => {
                self.surfaces.insert(surface.clone(), info.clone());
                self.awaited.attached(self.surfaces.len(), now.boot_ms);
                self.fill_slots();
            }
            Note::SurfaceDetached { surface } => {
                self.surfaces.remove(surface);
                self.fill_slots();
            }
            Note::RemotePolled { surface } => self.remote_polled(surface),
            Note::Woke => self.hold_for_remotes(now),
            Note::SurfacesExpected { count } => {
                self.awaited.begin(*count, now.boot_ms.saturating_add(self.settings.wake_hold_ms));
            }
            Note::SurfacesAwaited => self.awaited = super::awaited::Awaited::default(),
            Note::LateForgotten { ask } => {
                if let Some(state) = self.asks.get_mut(ask) {
                    state.late = Late::Over;
                }
                self.index(*ask, now);
                self.touched.insert(*ask);
            }
            Note::Unserved { ask } => {
                if let Some(state) = self.asks.get_mut(ask) {
                    state.reached = false;
                }
            }
            Note::LetGo { ask, until } => self.apply_let_go(*ask, *until),
            Note::CancelSeen { session } => self.forget_let_go_of_tree(&self.root_of(session)),
            Note::NothingToTell { ask } => {
                self.forget_let_go(*ask);
                if let Some(state) = self.asks.get_mut(ask) {
                    state.heard = true;
                }
                self.index(*ask, now);
                self.touched.insert(*ask);
            }
        }
    }

    fn attach(&mut self, id: AskId, link: LinkId, now: Now) {
        let Some(state) = self.asks.get_mut(&id) else { return };
        // A request that was read late, from a connection that its requester has replaced since, takes nothing over.
        let replaced = matches!(state.link, Link::Attached(newer) if newer > link);
        if !state.is_handed_back() && !replaced {
            if state.is_unheard() {
                state.over_at = Some(now);
            }
            state.left = false;
            state.reached |= state.outcome.is_some();
            let old = std::mem::replace(&mut state.link, Link::Attached(link));
            self.unlink(id, &old);
            self.links.entry(link).or_default().insert(id);
        }
        self.index(id, now);
        self.touched.insert(id);
    }

    fn turn_over(&mut self, asks: impl IntoIterator<Item = AskId>) {
        for id in asks {
            if let Some(state) = self.asks.get_mut(&id) {
                state.turn_over = true;
                self.touched.insert(id);
            }
        }
    }
}

fn settle(state: &mut AskState, outcome: Outcome) {
    state.delivery = if outcome.is_delivered() { Delivery::Pending } else { Delivery::None };
    if outcome.cause == Cause::RequesterGone {
        state.lost_at = Some(outcome.at);
    }
    state.reached = !state.left;
    state.outcome = Some(outcome);
}
