//! Observations: lineage, correlation of calls with asks, and what the agent did without askd. Never a decision.

use std::collections::BTreeSet;

use crate::ask::Subagent;
use crate::command::{Observe, Reply, Seen, Voice};
use crate::event::{CallInfo, Change, Event, Note, Record, SessionInfo, SpawnSeen};
use crate::gate::{CallPlace, Repeated};
use crate::id::{AskId, Instance, Owner, SessionKey, StreamId, TokenHash};
use crate::outcome::{Cause, Delivery};
use crate::refusal::Refusal;
use crate::time::Now;

use super::decided::gone_on;
use super::delivery::{cancel, revoke};
use super::raise::{around, name, texts};
use super::remembered::Call;
use super::timeout::{record, withdrawn};
use super::{AskState, Handled, Session, State};

/// Who tells something of a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Teller {
    /// A requester, in its own ask.
    Asks(TokenHash),
    /// An observation. `own`: of the session's own side.
    Tells { own: bool },
}

impl State {
    pub(super) fn observe(&self, seen: &Observe, now: Now) -> Handled {
        if let Err(wrong) = check(seen) {
            return Handled::refused(Refusal::Malformed(wrong));
        }
        let key = &seen.session;
        let mut changes = match self.room_to_bring(seen, now) {
            Ok(changes) => changes,
            Err(limit) => return Handled::refused(Refusal::CapReached(limit)),
        };
        let mut repeated = None;
        let voice = &seen.by;
        let own = self.is_own_side(key, voice);
        if !matches!(seen.seen, Seen::SessionEnded) {
            self.announce(seen, Teller::Tells { own }, now, &mut changes);
        }
        if let Seen::SessionEnded
        | Seen::SubagentEnded { .. }
        | Seen::TurnCancelled { .. }
        | Seen::TurnEnded { .. } = &seen.seen
        {
            changes.push(Change::Note(Note::CancelSeen { session: key.clone() }));
        }
        match &seen.seen {
            Seen::SessionStarted => {}
            Seen::SessionEnded => self.session_ended(key, (voice, own), now, &mut changes),
            Seen::SubagentStarted { work_id, kind, name, parent, call } => {
                let told = Subagent {
                    work_id: work_id.clone(),
                    name: name.clone(),
                    kind: kind.clone(),
                    depth: None,
                    parent: parent.clone(),
                };
                // Others name nobody's children.
                let known = self.sessions.get(key).and_then(|s| s.subagents.get(work_id));
                if own || known.is_none() {
                    let owner = seen.owner.as_ref();
                    let call = call.as_deref().filter(|_| own);
                    self.subagent_started((key, owner), told, call, own, now, &mut changes);
                }
            }
            Seen::SubagentEnded { work_id } => {
                self.subagent_ended(key, work_id, (voice, own), now, &mut changes);
            }
            Seen::CallStarted { call, info, batch, turn, .. } if !own => {
                let known = self.sessions.get(key).is_some_and(|s| s.seen.call(call).is_some());
                // Of a call that nobody's process announces nothing could be learned later.
                let side = seen.instance.clone().filter(|instance| voice.is_of(instance) && !known);
                changes.extend(side.map(|side| {
                    Change::Note(Note::CallStarted {
                        session: key.clone(),
                        call: call.clone(),
                        info: CallInfo { side: Some(side), ..info.clone() },
                        batch: batch.clone(),
                        turn: turn.clone(),
                    })
                }));
            }
            Seen::CallStarted { call, info, batch, turn, spawn } => {
                repeated = self.repetition(key, call, info, batch.as_deref(), turn.as_deref(), now);
                changes.push(Change::Note(Note::CallStarted {
                    session: key.clone(),
                    call: call.clone(),
                    info: info.clone(),
                    batch: batch.clone(),
                    turn: turn.clone(),
                }));
                if let Some(spawn) = spawn {
                    changes
                        .push(Change::Note(Note::SpawnSeen { session: key.clone(), spawn: spawn.clone() }));
                }
            }
            Seen::CallEnded { call, subagent, .. } => {
                self.own_prompt_answered((key, voice), call, true, None, now, &mut changes);
                let known = self.sessions.get(key).and_then(|session| session.seen.call(call));
                if own || known.is_some_and(|info| is_of_side(info, voice)) {
                    changes.push(Change::Note(Note::CallEnded {
                        session: key.clone(),
                        call: call.clone(),
                        subagent: subagent.clone(),
                    }));
                }
            }
            Seen::OwnPromptAnswered { call, allowed } => {
                // A call that asks several things at once: which of them was answered is not told.
                let asks_open = self.sessions.get(key).map_or(0, |session| {
                    let asks = session.asks.iter().filter_map(|id| self.asks.get(id));
                    let asks = asks.filter(|ask| ask.is_open() && voice.speaks_for(&ask.ask));
                    asks.filter(|ask| ask.call() == Some(call)).count()
                });
                if asks_open <= 1 {
                    self.own_prompt_answered((key, voice), call, *allowed, None, now, &mut changes);
                }
            }
            Seen::DecidedByAgent { call, allowed, by } => {
                let by = by.as_deref().or(Some("rules"));
                self.own_prompt_answered((key, voice), call, *allowed, by, now, &mut changes);
            }
            Seen::TurnCancelled { subagent } => {
                for (id, ask) in self.touched_by(key, subagent.as_deref(), (voice, own)) {
                    changes.extend(cancel(id, ask, Cause::Cancelled, None, now));
                }
                self.forget_calls(key, subagent.as_deref(), (voice, own), &mut changes);
                if own {
                    let event = Event::TurnCancelled { subagent: subagent.clone() };
                    changes.push(session_record(key, now, event));
                }
            }
            Seen::TurnEnded { subagent } => {
                self.turn_ended(key, subagent.as_deref(), (voice, own), now, &mut changes);
            }
        }
        match repeated {
            Some(repeated) => Handled { changes, reply: Ok(Reply::Loop(repeated)) },
            None => Handled::done(changes),
        }
    }

    /// Whoever tells this speaks for the session as such: as one of its agent's process, or because all that is asked in
    /// it is its own.
    fn is_own_side(&self, key: &SessionKey, voice: &Voice) -> bool {
        let has_process = || self.agent_of(key).is_some();
        let all_asks = || {
            let asks = self.within(key, None).filter(|(_, ask)| !ask.recalled);
            let mut its = asks.map(|(_, ask)| voice.speaks_for(&ask.ask)).peekable();
            its.peek().is_some() && its.all(|its| its)
        };
        voice.is_sessions() || !has_process() && all_asks()
    }

    /// The agent process of a live session. It is the first one that was told: another one's ask in the session's name
    /// takes nothing over, as long as that one lives and the session goes on.
    pub fn agent_of(&self, key: &SessionKey) -> Option<&Instance> {
        self.sessions.get(key).filter(|s| !s.ended)?.info.instance.as_ref()
    }

    /// Makes sure that a session is known, with what its own side tells of it now. Returns it as it is for whoever tells
    /// this.
    pub(super) fn announce(
        &self,
        seen: &Observe,
        by: Teller,
        now: Now,
        changes: &mut Vec<Change>,
    ) -> SessionInfo {
        let known = self.sessions.get(&seen.session);
        let live = known.filter(|s| !s.ended);
        let own = self.is_told_by_its_own(seen, by);
        let claimed = seen.parent.as_ref();
        let parent = claimed
            .filter(|parent| self.may_move(seen, parent, by))
            .or_else(|| known.and_then(|s| s.info.parent.as_ref()))
            .cloned();
        let root = match &parent {
            Some(parent) => self.root_of(parent),
            None => seen.session.clone(),
        };
        let mut info = SessionInfo {
            key: seen.session.clone(),
            parent,
            root,
            title: seen.title.clone().filter(|_| own).or_else(|| known.and_then(|s| s.info.title.clone())),
            // The first directory is the session's; a later `cd` does not rename it.
            cwd: known.and_then(|s| s.info.cwd.clone()).or_else(|| seen.cwd.clone()),
            // A session that goes on after its end may run in another process, at another place.
            instance: live
                .and_then(|s| s.info.instance.clone())
                .or_else(|| seen.instance.clone().filter(|_| own)),
            place: seen.place.clone().filter(|_| own).or_else(|| live.and_then(|s| s.info.place.clone())),
            owner: live.map_or(&seen.owner, |s| &s.info.owner).clone(),
        };
        if let Some(known) = live
            && !self.may_grow(&known.info, &info)
        {
            info.title.clone_from(&known.info.title);
            info.place.clone_from(&known.info.place);
        }
        if known.is_none_or(|s| s.ended || s.info != info) {
            let event = Event::SessionStarted { session: Box::new(info.clone()) };
            changes.push(session_record(&seen.session, now, event));
        }
        // What its requester says of it holds for its own ask.
        if let Some(parent) = claimed.filter(|parent| info.parent.as_ref() != Some(*parent)) {
            info.root = self.root_of(parent);
            info.parent = Some(parent.clone());
        }
        info
    }

    /// Whether title, process and place of the session are as whoever tells this says.
    fn is_told_by_its_own(&self, seen: &Observe, by: Teller) -> bool {
        let Some(known) = self.sessions.get(&seen.session).filter(|s| !s.ended) else { return true };
        match (by, &known.info.instance) {
            (Teller::Tells { own }, _) => own,
            (Teller::Asks(_), Some(its_own)) => seen.instance.as_ref() == Some(its_own),
            (Teller::Asks(token), None) => known.is_asked_by_only(token),
        }
    }

    /// Whether whoever tells this may say where the session belongs, for everybody: it is shown there, and ends with it.
    /// One of which nothing is known yet is placed by an observation; from then on it stays in its tree, unless its own
    /// side says otherwise: the process that it runs in, or whoever raised all of its asks.
    fn may_move(&self, seen: &Observe, parent: &SessionKey, by: Teller) -> bool {
        let Some(known) = self.sessions.get(&seen.session) else { return true };
        let is_placed = known.info.parent.is_some();
        let stays = || self.root_of(&seen.session) == self.root_of(parent);
        let is_believed = matches!(by, Teller::Tells { own: true });
        if !is_placed && is_believed || is_placed && stays() {
            return true;
        }
        match known.info.instance.as_ref().filter(|_| !known.ended) {
            Some(its_own) => seen.instance.as_ref() == Some(its_own),
            None => matches!(by, Teller::Asks(token) if known.is_asked_by_only(token)),
        }
    }

    fn subagent_started(
        &self,
        (key, owner): (&SessionKey, Option<&Owner>),
        mut told: Subagent,
        call: Option<&str>,
        own: bool,
        now: Now,
        changes: &mut Vec<Change>,
    ) {
        let session = self.sessions.get(key);
        let known = session.and_then(|s| s.subagents.get(&told.work_id));
        let mut background = false;
        // A child that shows itself again while it lives does not take the spawn of another.
        let is_new = own && (call.is_some() || known.is_none_or(|c| c.ended));
        if let Some(spawn) = session.filter(|_| is_new).and_then(|s| matching_spawn(s, &told, call)) {
            told.name = told.name.or_else(|| spawn.name.clone());
            told.kind = told.kind.or_else(|| spawn.kind.clone());
            told.parent = told.parent.or_else(|| spawn.parent.clone());
            background = spawn.background;
            changes.push(Change::Note(Note::SpawnUsed { session: key.clone(), call: spawn.call.clone() }));
            told.depth = self.depth_below(key, told.parent.as_deref());
        } else if told.parent.is_some() {
            told.depth = self.depth_below(key, told.parent.as_deref());
        }
        // Nor is it made poorer.
        if let Some(known) = known {
            told.name = told.name.or_else(|| known.subagent.name.clone());
            told.kind = told.kind.or_else(|| known.subagent.kind.clone());
            told.parent = told.parent.or_else(|| known.subagent.parent.clone());
            told.depth = told.depth.or(known.subagent.depth);
            background |= known.background;
        }
        if known.is_none_or(|c| c.ended || c.subagent != told || c.background != background) {
            let owner = known.map_or(owner, |known| known.owner.as_ref()).cloned();
            changes.push(session_record(
                key,
                now,
                Event::SubagentStarted { subagent: told, background, owner },
            ));
        }
    }

    fn depth_below(&self, key: &SessionKey, parent: Option<&str>) -> Option<u32> {
        match parent {
            None => Some(1),
            Some(parent) => {
                let above = self.sessions.get(key)?.subagents.get(parent)?.subagent.depth?;
                Some(above.saturating_add(1))
            }
        }
    }

    /// A subagent's run is over. What it started in the background may outlive it, so only its own asks end.
    fn subagent_ended(
        &self,
        key: &SessionKey,
        work_id: &str,
        (voice, own): (&Voice, bool),
        now: Now,
        changes: &mut Vec<Change>,
    ) {
        let Some(session) = self.sessions.get(key) else { return };
        let mut over = Vec::new();
        for id in &session.asks {
            let Some(ask) = self.asks.get(id).filter(|a| a.ask.lineage.work_id() == Some(work_id)) else {
                continue;
            };
            if !voice.speaks_for(&ask.ask) {
                continue;
            }
            let note = Some("the subagent ended".to_owned());
            changes.extend(cancel(*id, ask, Cause::SessionEnded, note, now));
            over.push(*id);
        }
        changes.push(Change::Note(Note::TurnOver { asks: over }));
        for (call, info) in session.seen.calls() {
            if info.subagent.as_deref() == Some(work_id) && (own || is_of_side(info, voice)) {
                changes.push(call_ended(key, call, info));
            }
        }
        if !own {
            return;
        }
        let (session, subagent) = (key.clone(), Some(work_id.to_owned()));
        changes.push(Change::Note(Note::GateReset { session, subagent }));
        if self.sessions.get(key).and_then(|s| s.subagents.get(work_id)).is_some_and(|c| !c.ended) {
            changes.push(session_record(key, now, Event::SubagentEnded { work_id: work_id.to_owned() }));
        }
    }

    /// The turn of one thread ended by itself. What is still open was settled by the agent's own prompt, or dropped:
    /// which of the two cannot be known, so nobody is said to have decided.
    fn turn_ended(
        &self,
        key: &SessionKey,
        subagent: Option<&str>,
        (voice, own): (&Voice, bool),
        now: Now,
        changes: &mut Vec<Change>,
    ) {
        let mut over = Vec::new();
        let Some(session) = self.sessions.get(key) else { return };
        for id in &session.asks {
            let Some(ask) = self.asks.get(id) else { continue };
            if ask.ask.lineage.work_id() != subagent || !voice.speaks_for(&ask.ask) {
                continue;
            }
            if ask.is_open() {
                let note = "the agent's turn ended without it".to_owned();
                changes.push(withdrawn(*id, ask, Cause::Cancelled, Some(note), now));
            } else if ask.delivery != Delivery::Pending {
                // The same call will not ask again; the next one belongs to another user prompt.
                let why = "the agent's turn ended without it".to_owned();
                changes.extend(revoke(ask, why).map(|event| record(*id, now, event)));
            }
            over.push(*id);
        }
        for (call, info) in session.seen.calls() {
            if info.subagent.as_deref() == subagent && (own || is_of_side(info, voice)) {
                changes.push(call_ended(key, call, info));
            }
        }
        if own {
            let (session, subagent) = (key.clone(), subagent.map(str::to_owned));
            changes.push(Change::Note(Note::GateReset { session, subagent }));
        }
        if !over.is_empty() {
            changes.push(Change::Note(Note::TurnOver { asks: over }));
        }
    }

    /// Calls of a cancelled thread will not be seen to end.
    fn forget_calls(
        &self,
        key: &SessionKey,
        subagent: Option<&str>,
        (voice, own): (&Voice, bool),
        changes: &mut Vec<Change>,
    ) {
        let Some(session) = self.sessions.get(key) else { return };
        for (call, info) in session.seen.calls().filter(|(_, info)| own || is_of_side(info, voice)) {
            if subagent.is_none_or(|top| session.is_within(info.subagent.as_deref(), top)) {
                changes.push(call_ended(key, call, info));
            }
        }
        if !own {
            return;
        }
        for thread in session.seen.threads() {
            if subagent.is_none_or(|top| session.is_within(thread.as_deref(), top)) {
                let (session, subagent) = (key.clone(), thread.clone());
                changes.push(Change::Note(Note::GateReset { session, subagent }));
            }
        }
    }

    /// Whether this call makes its thread repeat itself. A call that was announced before is not counted again.
    fn repetition(
        &self,
        key: &SessionKey,
        call: &str,
        info: &CallInfo,
        batch: Option<&str>,
        turn: Option<&str>,
        now: Now,
    ) -> Option<Repeated> {
        let session = self.sessions.get(key)?;
        if session.seen.call(call).is_some() {
            return None;
        }
        let mut gate = session.seen.gate(&info.subagent)?.clone();
        gate.call_started(info.digest, CallPlace { batch, turn }, now)
    }

    fn session_ended(
        &self,
        key: &SessionKey,
        (voice, own): (&Voice, bool),
        now: Now,
        changes: &mut Vec<Change>,
    ) {
        for (id, ask) in self.touched_by(key, None, (voice, own)) {
            changes.extend(cancel(id, ask, Cause::SessionEnded, None, now));
        }
        let tree: Vec<_> = self.tree(key).filter(|_| own).collect();
        for key in tree {
            if self.sessions.get(&key).is_some_and(|s| !s.ended) {
                let why = "the agent said so".to_owned();
                changes.push(session_record(&key, now, Event::SessionEnded { why }));
            }
        }
    }

    /// A call ran, or the agent's own prompt answered it. Only an exact match says anything.
    fn own_prompt_answered(
        &self,
        (key, voice): (&SessionKey, &Voice),
        call: &str,
        allowed: bool,
        by: Option<&str>,
        now: Now,
        changes: &mut Vec<Change>,
    ) {
        let Some(session) = self.sessions.get(key) else { return };
        for id in &session.asks {
            let of_call = |ask: &&AskState| ask.call() == Some(call) && voice.speaks_for(&ask.ask);
            let Some(ask) = self.asks.get(id).filter(of_call) else { continue };
            let Some(event) = gone_on(ask, allowed, by, now) else { continue };
            changes.push(record(*id, now, event));
        }
    }

    /// An agent process ended: its asks lost their requester, which is transient (the session may be resumed).
    pub(super) fn agent_gone(&self, instance: &Instance, now: Now) -> Handled {
        let mut changes = Vec::new();
        let mut over = Vec::new();
        for (id, ask) in &self.asks {
            if ask.ask.requester.instance.as_ref() != Some(instance) {
                continue;
            }
            over.push(*id);
            if ask.is_open() {
                let note = Some("the agent process ended".to_owned());
                changes.push(withdrawn(*id, ask, Cause::RequesterGone, note, now));
            } else if ask.delivery == Delivery::Pending {
                let why = "the agent process ended".to_owned();
                changes.push(record(*id, now, Event::DeliveryExpired { why }));
            }
        }
        if !over.is_empty() {
            changes.push(Change::Note(Note::TurnOver { asks: over }));
        }
        for (key, session) in &self.sessions {
            if !session.ended && session.info.instance.as_ref() == Some(instance) {
                let why = "the agent process ended".to_owned();
                changes.push(session_record(key, now, Event::SessionEnded { why }));
            }
        }
        Handled::done(changes)
    }

    /// Whose asks a session and everything below it has in memory: tokens, each with the agent process that it named.
    pub fn requesters_of(&self, key: &SessionKey) -> BTreeSet<(TokenHash, Option<Instance>)> {
        let of = |ask: &AskState| (ask.ask.requester.token, ask.ask.agent_process().cloned());
        self.within(key, None).map(|(_, ask)| of(ask)).collect()
    }

    /// Agent processes that wait for what becomes of their asks in a session and below it.
    pub fn processes_waiting(&self, key: &SessionKey) -> BTreeSet<Instance> {
        let waits = |ask: &AskState| ask.is_open() || ask.delivery == Delivery::Pending;
        let asks = self.within(key, None).filter(|(_, ask)| waits(ask));
        asks.filter_map(|(_, ask)| ask.ask.agent_process().cloned()).collect()
    }

    /// What ends or is cancelled with a session or one of its subagents, when this side says so. What is below a session
    /// ends with it.
    fn touched_by<'a>(
        &'a self,
        key: &'a SessionKey,
        subagent: Option<&'a str>,
        (voice, own): (&'a Voice, bool),
    ) -> impl Iterator<Item = (AskId, &'a AskState)> {
        self.within(key, subagent)
            .filter(move |(_, ask)| voice.speaks_for(&ask.ask) || own && ask.session() != key)
    }

    /// Asks of a session's thread and of everything below it; `None`: the whole session and its descendants.
    fn within<'a>(
        &'a self,
        key: &'a SessionKey,
        subagent: Option<&'a str>,
    ) -> impl Iterator<Item = (AskId, &'a AskState)> {
        let sessions: Vec<_> = match subagent {
            // A subagent has no sessions below it other than those that name the session itself.
            Some(_) => vec![key.clone()],
            None => self.tree(key).collect(),
        };
        sessions
            .into_iter()
            .filter_map(|key| self.sessions.get(&key))
            .flat_map(|session| session.asks.iter().map(move |id| (session, *id)))
            .filter_map(|(session, id)| self.asks.get(&id).map(|ask| (session, id, ask)))
            .filter(move |(session, _, ask)| {
                subagent.is_none_or(|top| session.is_within(ask.ask.lineage.work_id(), top))
            })
            .map(|(_, id, ask)| (id, ask))
    }

    /// A session and all sessions that descend from it.
    fn tree<'a>(&'a self, top: &'a SessionKey) -> impl Iterator<Item = SessionKey> + 'a {
        self.sessions.keys().filter(move |key| self.descends(key, top)).cloned()
    }

    /// Where the open asks of this session and below it were shown until now.
    pub(super) fn note_moved(&mut self, key: &SessionKey, before: &SessionKey) {
        if self.root_of(key) == *before {
            return;
        }
        self.forget_let_go_of_tree(before);
        let open = self.within(key, None).filter(|(_, ask)| ask.is_open());
        let moved: Vec<_> = open.map(|(id, _)| (id, before.clone())).collect();
        self.moved.extend(moved);
        self.fill_slots();
    }

    /// Open asks whose session was linked to another tree since this was asked last, each with the root where it was
    /// shown before.
    pub fn take_moved(&mut self) -> Vec<(AskId, SessionKey)> {
        std::mem::take(&mut self.moved)
    }

    fn descends(&self, key: &SessionKey, top: &SessionKey) -> bool {
        let mut at = Some(key);
        // Bounded, so that a loop in what agents tell ends.
        for _ in 0..=self.sessions.len() {
            match at {
                Some(key) if key == top => return true,
                Some(key) => at = self.sessions.get(key).and_then(|s| s.info.parent.as_ref()),
                None => return false,
            }
        }
        false
    }
}

fn check(seen: &Observe) -> Result<(), String> {
    super::raise::session_key(&seen.session)?;
    if let Some(parent) = &seen.parent {
        super::raise::session_key(parent)?;
        if *parent == seen.session {
            return Err("parent is the session itself".to_owned());
        }
    }
    around(&seen.title, &seen.cwd, seen.place.as_ref())?;
    match &seen.seen {
        Seen::SessionStarted | Seen::SessionEnded => Ok(()),
        Seen::SubagentStarted { work_id, kind, name: called, parent, call } => {
            texts([("kind", kind), ("name", called), ("parent", parent), ("call", call)])?;
            name("work_id", work_id)
        }
        Seen::SubagentEnded { work_id } => name("work_id", work_id),
        Seen::CallStarted { call, info, batch, turn, spawn } => {
            name("call", call)?;
            name("tool", &info.tool)?;
            // A name as long as no subagent has is that of none.
            let thread = info.subagent.as_deref().filter(|work_id| !work_id.is_empty());
            thread.map_or(Ok(()), |work_id| name("subagent", work_id))?;
            texts([("batch", batch), ("turn", turn)])?;
            spawn.as_ref().map_or(Ok(()), |spawn| {
                name("spawn.call", &spawn.call)?;
                let parent = spawn.parent.as_deref().filter(|work_id| !work_id.is_empty());
                parent.map_or(Ok(()), |work_id| name("spawn.parent", work_id))?;
                texts([("spawn.name", &spawn.name), ("spawn.kind", &spawn.kind)])
            })
        }
        Seen::CallEnded { call, .. } | Seen::OwnPromptAnswered { call, .. } => name("call", call),
        Seen::DecidedByAgent { call, by, .. } => {
            texts([("by", by)])?;
            name("call", call)
        }
        Seen::TurnCancelled { subagent } | Seen::TurnEnded { subagent } => {
            subagent.as_deref().map_or(Ok(()), |work_id| name("subagent", work_id))
        }
    }
}

/// The spawning call of a child: named by the agent, or the only one that it can be.
fn matching_spawn<'a>(session: &'a Session, told: &Subagent, call: Option<&str>) -> Option<&'a SpawnSeen> {
    if let Some(call) = call {
        return session.seen.spawn_of(call);
    }
    let mut fitting =
        session.seen.spawns().filter(|s| told.kind.is_none() || s.kind.is_none() || s.kind == told.kind);
    match (fitting.next(), fitting.next()) {
        (Some(spawn), None) => Some(spawn),
        _ => None,
    }
}

/// Announced by a process that this side speaks for.
fn is_of_side(info: &Call, voice: &Voice) -> bool {
    info.side.as_ref().is_some_and(|side| voice.is_of(side))
}

fn call_ended(session: &SessionKey, call: &str, info: &Call) -> Change {
    let (session, call, subagent) = (session.clone(), call.to_owned(), info.subagent.clone());
    Change::Note(Note::CallEnded { session, call, subagent })
}

fn session_record(key: &SessionKey, now: Now, event: Event) -> Change {
    Change::Record(Record { stream: StreamId::Session(key.clone()), at: now, event })
}
