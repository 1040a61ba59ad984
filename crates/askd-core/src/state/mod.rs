//! The working state: everything that is not finished, folded from changes.

mod answer;
mod apply;
mod awaited;
mod brought;
mod decided;
mod delivery;
mod dispatch;
mod held;
mod idle;
mod let_go;
mod observe;
mod policy;
mod raise;
mod remembered;
mod session;
mod shares;
mod slots;
mod timeout;
mod weight;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ask::{Ask, Decision};
use crate::digest::Digest;
use crate::event::{CallInfo, Change, Event, LateAnswer, Note, Record, SurfaceInfo};
use crate::handle::Handle;
use crate::id::{AskId, Hash256, Instance, LinkId, Owner, SessionKey, StreamId, SurfaceId, TokenHash};
use crate::outcome::{Cause, Delivery, Outcome, OutcomeKind, Verdict};
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::time::{Now, Stamp};

pub use session::Session;
pub use timeout::Due;

/// Handles of asks that left memory which are avoided without asking the journal.
const REMEMBERED_HANDLES: usize = 65_536;
/// Sessions beyond which those that have ended are forgotten.
const REMEMBERED_SESSIONS: usize = 1024;

/// How long a requester whose connection stands may be between two requests that wait, at least and at most.
const BETWEEN_MS: u64 = 30_000;
const LONGEST_BETWEEN_MS: u64 = 600_000;

/// Open asks, unfinished deliveries, live sessions and attached surfaces. Finished asks are evicted and read back from
/// the journal when somebody names them.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub settings: Settings,
    asks: BTreeMap<AskId, AskState>,
    /// One requester may ask several things under one key, so the content is part of it.
    by_key: BTreeSet<(TokenHash, Hash256, Digest, AskId)>,
    handles: BTreeMap<Handle, AskId>,
    /// Handles that the journal said are taken by asks that are not in memory.
    handles_elsewhere: BTreeSet<Handle>,
    sessions: BTreeMap<SessionKey, Session>,
    /// When those are so many, they are looked through again for some to forget.
    forget_at: usize,
    surfaces: BTreeMap<SurfaceId, SurfaceInfo>,
    slots: slots::Slots,
    /// Asks that are attached, by their link.
    links: BTreeMap<LinkId, BTreeSet<AskId>>,
    loosenings: BTreeSet<(String, String)>,
    /// What a person set for every session; gone with the process.
    overrides: crate::overrides::Overrides,
    /// What of that was stricter; the journal has it, so that it outlives the process.
    kept: crate::overrides::Overrides,
    /// Open asks that are shown elsewhere now, with the root where they were shown.
    moved: Vec<(AskId, SessionKey)>,
    /// Surfaces that were attached to the daemon before this one.
    awaited: awaited::Awaited,
    /// Asks that hold an answer which a repeated call may use.
    late: BTreeSet<AskId>,
    timers: timeout::Timers,
    /// Asks in memory that are over, by whose they are: they make room for newer ones.
    over: BTreeMap<Option<Owner>, BTreeSet<AskId>>,
    /// Those that did.
    let_go: let_go::LetGo,
    /// Number of asks in memory.
    held: shares::Shares,
    /// Bytes that these hold.
    held_bytes: shares::Shares,
    /// Of these, what each owner's asks of each root hold.
    held_by_root: BTreeMap<(Option<Owner>, SessionKey), usize>,
    /// Bytes that live sessions and their subagents hold.
    brought: shares::Shares,
    /// Bytes that is remembered of calls, spawns and threads.
    remembered: shares::Shares,
    /// When this memory began.
    opened: Option<Stamp>,
    /// Asks that changed since the last sweep.
    touched: BTreeSet<AskId>,
}

/// What [`State::handle`] gives back: the changes to journal and apply, and the answer to whoever sent the command.
/// A refusal may come with changes (a late answer that is kept).
#[derive(Debug, Clone, PartialEq)]
pub struct Handled {
    pub changes: Vec<Change>,
    pub reply: Result<crate::command::Reply, Refusal>,
}

/// An ask with everything that happened to it.
#[derive(Debug, Clone)]
pub struct AskState {
    pub ask: Arc<Ask>,
    /// Set once, by the one transition out of `open`.
    pub outcome: Option<Outcome>,
    pub delivery: Delivery,
    pub link: Link,
    /// When the requester was lost for a transient cause without having got an outcome.
    pub lost_at: Option<Stamp>,
    pub late: Late,
    /// Its requester was seen to go, and not to come back.
    left: bool,
    /// Its requester may have been there when it was settled, or since: what was decided may have served its call, whoever
    /// says so or not.
    reached: bool,
    /// When a remote surface first showed it.
    pub remote_shown_at: Option<Stamp>,
    /// Names of surfaces that could not show it.
    pub failed: Vec<String>,
    /// When it came to have nothing for its requester any more.
    over_at: Option<Stamp>,
    /// Its requester knows that.
    heard: bool,
    /// Names of surfaces that showed it.
    pub shown: Vec<String>,
    /// Nothing more will be seen of its call.
    turn_over: bool,
    /// It made room for others.
    let_go: bool,
    /// Read back from the journal after it was finished.
    recalled: bool,
    /// When it came into this memory. Spans that began in another boot are carried over to this boot's clock here,
    /// once, so that a later step of the wall clock moves nothing.
    anchor: Stamp,
    dues: Vec<(u64, Due)>,
}

/// The requester's link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Attached(LinkId),
    /// The ask stays open this long after `since`.
    Detached {
        since: Stamp,
        grace_ms: u64,
    },
    /// Only the agent's own prompt can answer it.
    HandedBack {
        at: String,
        why: String,
    },
}

/// Whether an answer is kept for the same call asking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Late {
    None,
    Recorded(LateAnswer),
    Used(AskId),
    /// Taken back, cancelled, or its span is over.
    Over,
}

impl AskState {
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// It came out of a forwarding directory.
    pub fn is_forwarded(&self) -> bool {
        self.ask.requester.kind == crate::ask::RequesterKind::Spool
    }

    pub fn is_handed_back(&self) -> bool {
        matches!(self.link, Link::HandedBack { .. })
    }

    pub fn is_attached(&self) -> bool {
        matches!(self.link, Link::Attached(_))
    }

    pub fn attached_link(&self) -> Option<LinkId> {
        match self.link {
            Link::Attached(link) => Some(link),
            Link::Detached { .. } | Link::HandedBack { .. } => None,
        }
    }

    pub fn session(&self) -> &SessionKey {
        &self.ask.lineage.session
    }

    /// The agent's call that this ask is about, where it is known.
    pub fn call(&self) -> Option<&str> {
        self.ask.lineage.call.as_deref()
    }

    /// An undelivered allow: a cancel voids it. One whose requester was lost may still be handed over by it.
    fn is_undelivered_allow(&self) -> bool {
        let undelivered = match self.delivery {
            Delivery::Pending => true,
            Delivery::Expired => self.late == Late::None && !self.recalled,
            _ => false,
        };
        undelivered && self.outcome.as_ref().is_some_and(|o| o.kind == OutcomeKind::Allowed)
    }

    /// An answer that comes now would be kept for the same call asking again.
    fn may_keep_answer(&self) -> bool {
        let gone = self.outcome.as_ref().is_some_and(|o| o.cause == Cause::RequesterGone);
        gone && self.lost_at.is_some() && self.late == Late::None && !self.recalled && !self.let_go
    }

    /// A requester that comes back gets this one.
    fn can_be_come_back_to(&self) -> bool {
        self.is_open() || self.delivery == Delivery::Pending || self.is_unheard()
    }

    /// Over without anything to deliver, while the requester was away or between two of its requests: when it comes back
    /// in time it hears so, and nobody is asked again.
    fn is_unheard(&self) -> bool {
        let Some(outcome) = &self.outcome else { return false };
        let over = match self.delivery {
            Delivery::None => matches!(
                outcome.cause,
                Cause::Agent | Cause::Cancelled | Cause::SessionEnded | Cause::RequesterLimit
            ),
            Delivery::Voided | Delivery::Refused | Delivery::Overtaken => true,
            Delivery::Pending | Delivery::Handed | Delivery::Confirmed | Delivery::Expired => false,
        };
        over && !self.heard && !self.recalled && !self.let_go && self.time_to_hear().is_some()
    }

    /// From when on and for how long its requester may still come and hear that it is over.
    fn time_to_hear(&self) -> Option<(Stamp, u64)> {
        match self.link {
            Link::Detached { since, grace_ms } if grace_ms > 0 => Some((since, grace_ms)),
            // It may be between two requests.
            Link::Attached(_) => {
                self.over_at.map(|at| (at, self.ask.requester.grace_ms.clamp(BETWEEN_MS, LONGEST_BETWEEN_MS)))
            }
            Link::Detached { .. } | Link::HandedBack { .. } => None,
        }
    }

    /// Milliseconds from `since`, a stamp of this ask, to `now`.
    pub(crate) fn elapsed(&self, since: Stamp, now: Now) -> u64 {
        if since.boot == now.boot {
            since.elapsed(now)
        } else {
            since.elapsed(self.anchor).saturating_add(self.anchor.elapsed(now))
        }
    }

    /// When a span of `ms` that began at `since` ends, on the boot clock of `now`; below 0 when that was before this
    /// boot, so that what was due first stays first.
    fn due(&self, since: Stamp, ms: u64, now: Now) -> i64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let began = if since.boot == now.boot {
            signed(since.boot_ms)
        } else {
            signed(self.anchor.due(0, now)).saturating_sub(signed(since.elapsed(self.anchor)))
        };
        began.saturating_add(signed(ms))
    }

    /// The answer that a repeated call may use: one that came late, or one that never reached the requester.
    pub(crate) fn kept_answer(&self) -> Option<LateAnswer> {
        let lost_at = self.lost_at.filter(|_| !self.recalled && !self.let_go)?;
        match &self.late {
            Late::Recorded(answer) => Some(answer.clone()),
            Late::Used(_) | Late::Over => None,
            Late::None => {
                let outcome = self.outcome.as_ref()?;
                // A hook may have printed its decision before it was lost; only its call can tell.
                if self.ask.requester.kind == crate::ask::RequesterKind::Hook && self.call().is_none() {
                    return None;
                }
                let decision = match outcome.kind {
                    OutcomeKind::Allowed => Decision::Allow,
                    OutcomeKind::Denied => Decision::Deny,
                    OutcomeKind::Withdrawn => return None,
                };
                // Another call gets the plain yes or no, so nothing else may have been meant.
                let plain = crate::ask::plain(&self.ask.options, decision).map(|c| &c.id);
                // A late answer settles one later ask, and that was this one.
                if outcome.late_of.is_some() {
                    return None;
                }
                let is_plain = plain == outcome.option.as_ref();
                (self.delivery == Delivery::Expired && outcome.cause == Cause::Person && is_plain).then(
                    || LateAnswer {
                        decision,
                        source: outcome.source.unwrap_or(crate::outcome::Source::Direct),
                        surface: outcome.surface.clone().unwrap_or_default(),
                        by: outcome.by.clone(),
                        message: outcome.message.clone(),
                        stop: outcome.stop,
                        lost_at,
                        for_ms: 0,
                    },
                )
            }
        }
    }

    /// What its requester may be told now: the outcome's verdict, or no opinion when the outcome can no longer be
    /// given to the agent (voided by a cancel, overtaken, refused).
    pub fn verdict(&self) -> Verdict {
        match (&self.outcome, self.delivery) {
            (
                Some(outcome),
                Delivery::Pending | Delivery::Handed | Delivery::Confirmed | Delivery::Expired,
            ) => outcome.verdict(),
            _ => Verdict::None,
        }
    }

    /// Nothing is left to do: it may leave memory.
    pub fn is_finished(&self) -> bool {
        self.is_done() && !self.is_unheard()
    }

    /// Nothing is left but that its requester may hear so.
    fn is_done(&self) -> bool {
        if self.is_open() || self.recalled || self.let_go {
            return !self.is_open();
        }
        if self.lost_at.is_some() && matches!(self.late, Late::None | Late::Recorded(_)) {
            return false;
        }
        // The call may still be seen to run, or to run although it was denied.
        let watched = self.call().is_some() && !self.turn_over;
        match self.delivery {
            Delivery::Pending => false,
            // Without a call to watch, nothing more can be learned once the requester has let go.
            Delivery::Handed => self.turn_over || (self.call().is_none() && !self.is_attached()),
            Delivery::Refused | Delivery::Expired => !watched,
            Delivery::None | Delivery::Confirmed | Delivery::Overtaken | Delivery::Voided => true,
        }
    }
}

impl State {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub fn ask(&self, id: AskId) -> Option<&AskState> {
        self.asks.get(&id)
    }

    /// All asks in memory, oldest first.
    pub fn asks(&self) -> impl Iterator<Item = (AskId, &AskState)> {
        self.asks.iter().map(|(id, ask)| (*id, ask))
    }

    /// All open asks, oldest first.
    pub fn open(&self) -> impl Iterator<Item = (AskId, &AskState)> {
        self.asks().filter(|(_, ask)| ask.is_open())
    }

    pub fn by_handle(&self, handle: &Handle) -> Option<AskId> {
        self.handles.get(handle).copied()
    }

    /// The newest ask of this requester, key and content that its requester can still come back to.
    pub fn by_key(&self, token: TokenHash, key: &str, digest: Digest) -> Option<AskId> {
        self.asks_by_key(token, key, digest).find(|(_, ask)| ask.can_be_come_back_to()).map(|(id, _)| id)
    }

    /// Asks in memory of this requester, key and content, newest first.
    fn asks_by_key(
        &self,
        token: TokenHash,
        key: &str,
        digest: Digest,
    ) -> impl Iterator<Item = (AskId, &AskState)> {
        let key = let_go::of_key(key);
        let at = |id| (token, key, digest, id);
        let ids = self.by_key.range(at(AskId::MIN)..=at(AskId::MAX)).rev().map(|(.., id)| *id);
        ids.filter_map(|id| Some((id, self.asks.get(&id)?)))
    }

    /// The newest ask of this requester and key, whatever it is about.
    pub fn of_requester(&self, token: TokenHash, key: &str) -> Option<AskId> {
        let key = let_go::of_key(key);
        self.by_key
            .range((token, key, Digest::MIN, AskId::MIN)..)
            .take_while(|(t, k, ..)| *t == token && *k == key)
            .map(|(.., id)| *id)
            .max()
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    pub fn session(&self, key: &SessionKey) -> Option<&Session> {
        self.sessions.get(key)
    }

    /// Number of open asks of a session.
    pub fn waiting(&self, key: &SessionKey) -> u32 {
        self.sessions.get(key).map_or(0, |s| s.waiting)
    }

    pub fn surfaces(&self) -> impl Iterator<Item = (&SurfaceId, &SurfaceInfo)> {
        self.surfaces.iter()
    }

    /// Agent processes that live sessions or unfinished asks belong to.
    pub fn instances(&self) -> BTreeSet<Instance> {
        let of_sessions = self.sessions.values().filter(|s| !s.ended).filter_map(|s| s.info.instance.clone());
        let of_asks = self.asks.values().filter(|a| !a.is_forwarded() && !a.is_done());
        of_sessions.chain(of_asks.filter_map(|a| a.ask.requester.instance.clone())).collect()
    }

    /// Processes that open asks out of forwarding directories name as theirs. Nothing but a file says so: they may not
    /// allow what they asked, nor loosen anything, and are no reason to keep anybody from anything else. With the handle
    /// of the ask that names each.
    pub fn forwarders(&self) -> BTreeMap<Instance, Handle> {
        let forwarded = self.asks.values().filter(|a| a.is_forwarded() && a.is_open());
        forwarded.filter_map(|a| Some((a.ask.requester.instance.clone()?, a.ask.handle.clone()))).collect()
    }

    pub fn loosenings(&self) -> &BTreeSet<(String, String)> {
        &self.loosenings
    }

    /// The top of a session's chain of parents, as far as it is known now.
    pub fn root_of(&self, key: &SessionKey) -> SessionKey {
        let mut at = key;
        // Bounded, so that a loop in what agents tell ends.
        for _ in 0..=self.sessions.len() {
            match self.sessions.get(at).and_then(|s| s.info.parent.as_ref()) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at.clone()
    }

    /// A surface is attached that shows asks of this root, or a remote one is configured.
    pub fn is_reachable(&self, root: &SessionKey) -> bool {
        self.settings.remotes > 0 || self.surfaces.values().any(|s| s.scope.covers(root))
    }

    /// The handle that a new ask would get, as far as memory knows.
    pub fn next_handle(&self, id: AskId) -> Handle {
        crate::handle::choose(id, |h| self.handles.contains_key(h) || self.handles_elsewhere.contains(h))
    }

    /// The journal holds this handle for an ask that is not in memory.
    pub fn handle_is_taken(&mut self, handle: Handle) {
        self.handles_elsewhere.insert(handle);
    }

    /// Folds a stream that the journal keeps; sessions come before their asks. Links do not survive a restart: whoever waited has to come back.
    pub fn load<'a>(
        &mut self,
        stream: &StreamId,
        events: impl IntoIterator<Item = (&'a Event, Stamp)>,
        closed: bool,
        now: Now,
    ) {
        for (event, at) in events {
            self.apply(&Change::Record(Record { stream: stream.clone(), at, event: event.clone() }), now);
        }
        if let StreamId::Ask(id) = stream {
            let restart_grace = self.settings.restart_grace_ms;
            if let Some(ask) = self.asks.get_mut(id) {
                if closed
                    && !ask.recalled
                    && let Some(session) = self.sessions.get_mut(ask.session())
                {
                    session.discount(ask.ask.requester.token);
                }
                ask.recalled = closed;
                // Whom the life before told is not known.
                ask.reached |= ask.outcome.is_some();
                // Nobody gives a new late answer across boots, whose clock cannot be trusted that far.
                let long_lost = ask.lost_at.is_some_and(|lost| lost.boot != now.boot);
                if long_lost && ask.late == Late::None && ask.kept_answer().is_none() {
                    ask.late = Late::Over;
                }
                // Notes are gone; that its session has ended is not.
                ask.turn_over |= self.sessions.get(ask.session()).is_none_or(|s| s.ended);
                if !closed && !ask.is_handed_back() {
                    let grace_ms = ask.ask.requester.grace_ms.max(restart_grace);
                    ask.link = Link::Detached { since: now, grace_ms };
                }
            }
            self.index(*id, now);
        }
    }

    /// Forgets an ask so that it can be loaded again after a failed commit; its link is kept for [`State::relink`].
    pub fn forget(&mut self, id: AskId) -> Option<LinkId> {
        let link = self.asks.get(&id)?.attached_link();
        let ask = self.remove(id)?.ask;
        // An ask that was never recorded has not used its call up.
        if let Some(call) = &ask.lineage.call {
            let subagent = ask.lineage.work_id().map(str::to_owned);
            let (tool, digest) = (ask.action.tool.clone(), ask.digest);
            let info = CallInfo { subagent, tool, digest, side: None };
            self.remember(&ask.lineage.session, |session| session.seen.remember_call(call, info));
        }
        self.fill_slots();
        link
    }

    /// Gives a reloaded ask the link that it had.
    pub fn relink(&mut self, id: AskId, link: LinkId, now: Now) {
        self.apply(&Change::Note(Note::Attached { ask: id, link }), now);
    }

    /// Forgets what a failed commit may have left of a session; the journal's events of it are loaded next. `exists`:
    /// the journal knows the session at all.
    pub fn forget_session(&mut self, key: &SessionKey, exists: bool) {
        self.give_back_subagents(key);
        self.recount(key, |state| {
            if !exists {
                state.sessions.remove(key);
            } else if let Some(session) = state.sessions.get_mut(key) {
                session.reset();
            }
        });
    }

    /// Forgets what a failed commit may have left of the daemon's own stream.
    pub fn forget_daemon(&mut self) {
        self.loosenings.clear();
        self.kept = crate::overrides::Overrides::default();
    }

    /// Takes finished asks out of memory and returns them as they were.
    pub fn sweep(&mut self) -> Vec<(AskId, AskState)> {
        let touched = std::mem::take(&mut self.touched);
        let mut finished = Vec::new();
        for id in touched {
            if self.asks.get(&id).is_some_and(AskState::is_finished)
                && let Some(ask) = self.remove(id)
            {
                finished.push((id, ask));
            }
        }
        self.forget_old();
        finished
    }

    /// Keeps memory flat: the journal's claims know every handle, and ended sessions without asks are history.
    fn forget_old(&mut self) {
        if self.handles_elsewhere.len() > REMEMBERED_HANDLES {
            self.handles_elsewhere.clear();
        }
        if self.sessions.len() > REMEMBERED_SESSIONS.max(self.forget_at) {
            self.sessions.retain(|_, session| !session.ended || !session.asks.is_empty());
            // Where most of them live they are not looked through with every batch.
            self.forget_at = self.sessions.len() + self.sessions.len() / 8;
        }
    }

    fn remove(&mut self, id: AskId) -> Option<AskState> {
        let ask = self.asks.remove(&id)?;
        if !ask.let_go {
            self.release(&ask.ask, ask.weight());
        }
        self.settled_by(ask.ask.requester.owner.as_ref(), id, false);
        self.timers.clear(id, &ask.dues);
        self.late.remove(&id);
        if self.handles.get(&ask.ask.handle) == Some(&id) {
            self.handles.remove(&ask.ask.handle);
            self.handles_elsewhere.insert(ask.ask.handle.clone());
        }
        if !self.let_go.contains_key(&id) {
            let key = let_go::of_key(&ask.ask.key);
            self.by_key.remove(&(ask.ask.requester.token, key, ask.ask.digest, id));
        }
        if let Some(session) = self.sessions.get_mut(ask.session()) {
            session.let_go(id, ask.ask.requester.token, !ask.recalled);
            if ask.is_open() {
                session.closed(ask.ask.requester.owner.as_ref());
            }
        }
        self.unlink(id, &ask.link);
        Some(ask)
    }

    fn unlink(&mut self, id: AskId, link: &Link) {
        if let Link::Attached(link) = link
            && let Some(asks) = self.links.get_mut(link)
        {
            asks.remove(&id);
        }
    }
}
