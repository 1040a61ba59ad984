//! What each command does to the reference, and what its sender hears.

use askd_core::ask::{RequesterKind, plain};
use askd_core::{
    Answer, Ask, AskId, Cause, Command, Decision, Delivery, Raise, Seen, SessionKey, TokenHash, Voice,
};

use super::{Late, Link, MAsk, Model, When, ms};

/// Whoever tells something speaks for its own asks, for those of processes that it belongs to, and for those that name no
/// process when it speaks for the session.
fn speaks_for(voice: &Voice, ask: &Ask) -> bool {
    let Voice::Of(side) = voice else { return true };
    let process = ask.requester.instance.as_ref();
    side.tokens.contains(&ask.requester.token)
        || process.map_or(side.session, |process| side.instances.contains(process))
}

/// The same requester, key and content.
fn is_same(ask: &Ask, raise: &Raise) -> bool {
    (ask.requester.token, &ask.key, ask.digest) == (raise.token, &raise.key, raise.action.digest())
}

impl Model {
    pub fn stamp(&self) -> When {
        When { at: self.now, wall: self.wall, boot: self.boot }
    }

    fn hold(&self) -> Option<i64> {
        self.hold.filter(|until| *until > self.now)
    }

    pub fn next_due(&self) -> Option<i64> {
        let due = |a: &MAsk| a.due(self.hold(), self.settings.late_answer_ms);
        self.asks.values().filter_map(due).map(|(at, _)| at).min()
    }

    /// Everything that is due now, for each ask in the order in which it fell due.
    pub fn run_due(&mut self) {
        let (now, hold, late_ms) = (self.stamp(), self.hold(), self.settings.late_answer_ms);
        for ask in self.asks.values_mut() {
            while let Some((_, due)) = ask.due(hold, late_ms).filter(|(at, _)| *at <= now.at) {
                ask.fall_due(due, now);
            }
        }
    }

    pub fn woke(&mut self) {
        let wait = self.settings.remotes > 0 || !self.remotes.is_empty();
        self.hold = wait.then(|| self.now + ms(self.settings.wake_hold_ms));
        self.polled.clear();
    }

    /// The daemon starts again, in the same boot or in another.
    pub fn restart(&mut self) {
        self.remotes.clear();
        self.asks.values_mut().for_each(|ask| ask.finds = None);
        self.woke();
        let (now, min) = (self.stamp(), ms(self.settings.restart_grace_ms));
        for ask in self.asks.values_mut().filter(|a| !a.is_finished()) {
            for when in [Some(&mut ask.asked), ask.lost.as_mut(), ask.remote.as_mut()].into_iter().flatten() {
                if when.boot != now.boot {
                    when.at = now.at - (now.wall - when.wall).max(0);
                }
            }
            // A kept answer lives on for its span; a new one is not taken across boots.
            let long_lost = ask.lost.is_some_and(|lost| lost.boot != now.boot);
            if long_lost && ask.late == Late::No && ask.kept().is_none() {
                ask.late = Late::Over;
            }
            ask.heard = ask.told;
            ask.near |= !ask.is_open();
            ask.turn_over = !self.live.contains_key(&ask.ask.lineage.session);
            if ask.link != Link::Back {
                let grace = ms(ask.ask.requester.grace_ms).max(min);
                ask.link = Link::Off { since: now.at, grace };
            }
        }
    }

    fn tree(&self, top: &SessionKey, of: &SessionKey) -> bool {
        top == of || self.parents.get(of).is_some_and(|parent| self.tree(top, parent))
    }

    fn below(&self, session: &SessionKey, top: &str, work: Option<&str>) -> bool {
        work.is_some_and(|work| {
            let parent = self.children.get(&(session.clone(), work.to_owned())).cloned().flatten();
            work == top || self.below(session, top, parent.as_deref())
        })
    }

    /// A cancel of a session with all below it, or of one subagent with all below that.
    fn cancel_all(&mut self, top: &SessionKey, sub: Option<&str>, cause: Cause, by: (&Voice, bool)) {
        let hit = |ask: &Ask| {
            let of = &ask.lineage.session;
            sub.map_or_else(
                || self.tree(top, of),
                |sub| top == of && self.below(top, sub, ask.lineage.work_id()),
            )
        };
        let (voice, own) = by;
        let ids: Vec<_> = self.asks.values().filter(|a| hit(&a.ask)).map(|a| a.ask.id).collect();
        let now = self.stamp();
        for id in ids {
            let ask = self.asks.get_mut(&id).unwrap();
            // What is below a session ends with it; beside it others may ask in its name.
            if speaks_for(voice, &ask.ask) || own && ask.ask.lineage.session != *top {
                ask.cancel(cause, now);
            }
            ask.turn_over |= own && cause == Cause::SessionEnded;
        }
    }

    /// Runs a command. `asked` is the record of the ask that a raise made, where it made one.
    pub fn step(&mut self, command: &Command, asked: Option<&Ask>) -> &'static str {
        let now = self.stamp();
        match command {
            Command::Raise(raise) => return self.raise(raise, asked),
            Command::Answer(answer) => return self.answer(answer),
            Command::Withdraw { ask, token, cause } => return self.withdraw(*ask, *token, *cause),
            Command::Heard { ask } => {
                let ask = self.asks.get_mut(ask).filter(|a| a.unheard().is_some());
                ask.into_iter().for_each(|a| a.heard = true);
            }
            Command::Handed { ask, token } => {
                use Delivery::{Confirmed, Expired, Handed, Overtaken, Pending};
                return self.deliver(
                    *ask,
                    *token,
                    &[Pending, Expired],
                    Handed,
                    &[Handed, Confirmed, Overtaken],
                );
            }
            Command::Confirmed { ask, token } => {
                use Delivery::{Confirmed, Expired, Handed, Pending};
                return self.deliver(*ask, *token, &[Pending, Expired, Handed], Confirmed, &[Confirmed]);
            }
            Command::DeliveryRefused { ask, token, .. } => {
                use Delivery::{Expired, Handed, Pending, Refused};
                return self.deliver(*ask, *token, &[Pending, Expired, Handed], Refused, &[Refused]);
            }
            Command::DecidedByAgent { ask, token, decision, went_on, .. } => {
                match self.asks.get_mut(ask).filter(|a| a.ask.requester.token == *token) {
                    None => return "unknown",
                    Some(ask) => {
                        if !ask.decided(*decision, *went_on, now) {
                            return "settled already";
                        }
                    }
                }
            }
            Command::Dismiss { ask, .. } => match self.asks.get_mut(ask) {
                None => return "unknown",
                Some(ask) if !ask.is_open() => return "settled already",
                Some(ask) => ask.withdraw(Cause::Cancelled, now),
            },
            Command::RevokeLate { ask, .. } => match self.asks.get_mut(ask) {
                None => return "unknown",
                Some(ask) if ask.kept().is_none() => return "settled already",
                Some(ask) => ask.revoke(now),
            },
            Command::Shown { ask, .. } | Command::SurfaceFailed { ask, .. } => match self.asks.get_mut(ask) {
                None => return "unknown",
                Some(ask) if !ask.is_open() => return "settled already",
                Some(ask) if matches!(command, Command::Shown { remote: true, .. }) => {
                    ask.remote = ask.remote.or(Some(now));
                }
                Some(_) => {}
            },
            Command::LinkClosed { link } => {
                for ask in self.asks.values_mut().filter(|a| a.link == Link::On(*link)) {
                    let grace = ms(ask.ask.requester.grace_ms);
                    ask.link = Link::Off { since: now.at, grace };
                    if grace == 0 {
                        ask.lose(now);
                    }
                    ask.left |= ask.is_open();
                }
            }
            Command::AgentGone { instance } => {
                let of = |a: &&mut MAsk| a.ask.requester.instance.as_ref() == Some(instance);
                for ask in self.asks.values_mut().filter(of) {
                    ask.turn_over |= !ask.is_finished();
                    ask.lose(now);
                }
                let ended = self.live.extract_if(.., |_, of| of.as_ref() == Some(instance));
                let ended: Vec<_> = ended.map(|(key, _)| key).collect();
                self.children.retain(|(key, _), _| !ended.contains(key));
                ended.iter().for_each(|key| self.lose_tree(key));
                for ask in self.asks.values_mut().filter(|a| ended.contains(&a.ask.lineage.session)) {
                    ask.turn_over = true;
                }
            }
            Command::Observe(o) => {
                let own = self.speaks_for_the_session(&o.session, &o.by);
                if o.seen != Seen::SessionEnded {
                    let known = self.live.get(&o.session).cloned().flatten();
                    let told = o.instance.clone().filter(|_| own);
                    self.live.insert(o.session.clone(), known.or(told));
                }
                self.observe(&o.session, &o.seen, &o.by, own);
            }
            Command::AttachSurface { surface, info } => {
                self.remotes.remove(surface);
                self.remotes.extend(info.remote.then(|| surface.clone()));
            }
            Command::DetachSurface { surface } => {
                self.remotes.remove(surface);
            }
            Command::RemotePolled { surface } => {
                self.polled.insert(surface.clone());
                let expected = self.remotes.len().max(self.settings.remotes as usize);
                if self.remotes.is_subset(&self.polled) && self.polled.len() >= expected {
                    self.hold = None;
                }
            }
            Command::Stopping => {
                for ask in self.asks.values_mut().filter(|a| a.is_open()) {
                    let stays = matches!(ask.ask.requester.kind, RequesterKind::Proxy | RequesterKind::Spool);
                    if ask.ask.requester.own_prompt.is_some() {
                        ask.link = Link::Back;
                    } else if matches!(ask.link, Link::On(_)) && !stays {
                        ask.withdraw(Cause::RequesterGone, now);
                    }
                }
            }
            Command::Woke => self.woke(),
            _ => {}
        }
        "done"
    }

    fn raise(&mut self, raise: &Raise, asked: Option<&Ask>) -> &'static str {
        let (now, digest) = (self.stamp(), raise.action.digest());
        let other =
            |a: &Ask| a.requester.instance.as_ref().zip(raise.instance.as_ref()).is_some_and(|(a, b)| a != b);
        let mine = |a: &&mut MAsk| {
            let same = is_same(&a.ask, raise);
            let waits = a.is_open() || a.delivery == Delivery::Pending || a.unheard().is_some();
            same && (waits || a.is_found(now.at))
        };
        if let Some(ask) = self.asks.values_mut().rev().find(|a| mine(a) && !other(&a.ask)) {
            ask.over = ask.over.map(|_| now.at);
            if ask.link != Link::Back {
                ask.link = Link::On(raise.link);
                ask.near |= !ask.is_open();
                ask.left = false;
            }
            return "reattached";
        }
        let Some(gone) = self.makes_room(raise) else { return "cap" };
        let named = raise.supersedes.and_then(|id| self.asks.get_mut(&id));
        if let Some(old) = named.filter(|a| a.ask.requester.token == raise.token) {
            old.cancel(Cause::Superseded, now);
        }
        // The process of a live session stays the one that was told first; one that goes on without any is that of
        // whoever asked everything in it.
        let live = self.live.get(&raise.session).cloned();
        let of_another = |a: &MAsk| {
            let here = a.ask.lineage.session == raise.session && !a.is_finished();
            here && a.ask.requester.token != raise.token
        };
        let mine = live.is_none() || !self.asks.values().any(of_another);
        let told = raise.instance.clone().filter(|_| mine);
        self.live.insert(raise.session.clone(), live.flatten().or(told));
        let Some(ask) = asked else { return "no ask was recorded" };
        let mut new = MAsk {
            ask: ask.clone(),
            asked: now,
            remote: None,
            link: if raise.needs_own_prompt { Link::Back } else { Link::On(raise.link) },
            outcome: None,
            delivery: Delivery::None,
            lost: None,
            late: Late::No,
            by_late: false,
            over: None,
            heard: false,
            told: false,
            left: false,
            near: false,
            turn_over: false,
            finds: None,
        };
        let fits = |old: &&mut MAsk| {
            let (was, is) = (&old.ask.lineage, &ask.lineage);
            let same_turn = was.turn.is_none() || is.turn.is_none() || was.turn == is.turn;
            let same =
                was.session == is.session && was.work_id() == is.work_id() && old.ask.class == ask.class;
            let may = |d| d == Decision::Deny || plain(&ask.options, d).is_some();
            let in_time = old.lost.is_some_and(|lost| now.at - lost.at < ms(self.settings.late_answer_ms));
            let named = Some(old.ask.id) == raise.supersedes;
            let (then, comes) = (&old.ask.requester, &ask.requester);
            let of_kind = |kind| then.kind == kind || comes.kind == kind;
            let processes = then.instance.as_ref().zip(comes.instance.as_ref()).filter(|(a, b)| a != b);
            let anew = processes.is_some() && !of_kind(RequesterKind::Script);
            let request = then.kind != RequesterKind::Hook && then.token == comes.token;
            let calls = was.call.as_ref().zip(is.call.as_ref());
            let same_call = calls.is_some_and(|(a, b)| a == b) || request && old.ask.key == ask.key;
            // It may have heard it, and done what it was allowed to do.
            if old.near && !matches!(old.late, Late::Kept(_)) && !same_call && !anew {
                return false;
            }
            same && same_turn && in_time && !named && old.ask.digest == digest && old.kept().is_some_and(may)
        };
        let mut fitting: Vec<_> = self.asks.values_mut().filter(fits).collect();
        if let ([old], Link::On(_)) = (&mut fitting[..], &new.link) {
            new.answer(old.kept().unwrap(), Cause::Person, None, now);
            new.by_late = true;
            old.late = Late::Used;
        }
        // What is kept for this very call serves it all the same.
        gone.into_iter().for_each(|id| self.let_go(id));
        self.asks.insert(ask.id, new);
        "raised"
    }

    /// Asks that are over and make room for this one, the oldest first, and consents that a cancel would void last; none
    /// when there is no room. So many are open in the session, or so many are in memory. Of its own owner's, and of all:
    /// what one owner has, as a part of all there may be, is at most the square of what is left then.
    fn makes_room(&self, raise: &Raise) -> Option<Vec<AskId>> {
        let its = |a: &&MAsk| a.ask.requester.owner == raise.owner;
        let here = |a: &&MAsk| a.is_open() && a.ask.lineage.session == raise.session;
        // What it is to take the place of is read back, and what it may be about.
        let found = |a: &MAsk| a.finds.is_some() && is_same(&a.ask, raise);
        let read_back = |a: &MAsk| found(a) || Some(a.ask.id) == raise.supersedes;
        let held = |a: &&MAsk| self.held.contains(&a.ask.id) || read_back(a);
        let most = self.settings.max_held;
        let all = self.asks.values().filter(held).count() + 1;
        let own = self.asks.values().filter(held).filter(its).count() + 1;
        let fits = |freed: usize| {
            let Some(left) = most.checked_sub(all - freed) else { return false };
            raise.owner.is_none() || (own - freed) * most <= left * left
        };
        let waiting = self.asks.values().filter(here).filter(its).count();
        if waiting >= self.settings.max_open_per_session {
            return None;
        }
        let mut over: Vec<_> = self.asks.values().filter(held).filter(its).filter(|a| !a.is_open()).collect();
        over.sort_by_key(|a| (self.held.contains(&a.ask.id) && a.is_undelivered_allow(), a.ask.id));
        let enough = (0..=over.len()).find(|freed| fits(*freed))?;
        Some(over[..enough].iter().map(|a| a.ask.id).collect())
    }

    fn let_go(&mut self, id: AskId) {
        let now = self.stamp();
        let Some(ask) = self.asks.get_mut(&id) else { return };
        let before = ask.finds;
        ask.let_go(now);
        // One is found by its key, the last that made room.
        if ask.finds != before {
            let ask = ask.ask.clone();
            let of_key = |a: &Ask| {
                (a.requester.token, &a.key, a.digest) == (ask.requester.token, &ask.key, ask.digest)
            };
            for other in self.asks.values_mut().filter(|a| a.ask.id != id && of_key(&a.ask)) {
                other.finds = None;
            }
        }
    }

    /// Something ended or was cancelled in this session: nothing of its tree is found any more.
    fn lose_tree(&mut self, session: &SessionKey) {
        let roots: Vec<_> = [session]
            .into_iter()
            .chain(self.parents.get(session))
            .filter(|key| !self.parents.contains_key(*key))
            .cloned()
            .collect();
        let hit: Vec<_> = self
            .asks
            .values()
            .filter(|a| roots.iter().any(|root| self.tree(root, &a.ask.lineage.session)))
            .map(|a| a.ask.id)
            .collect();
        hit.iter().filter_map(|id| self.asks.get_mut(id).map(|a| a.finds = None)).for_each(drop);
    }

    fn answer(&mut self, answer: &Answer) -> &'static str {
        let now = self.stamp();
        let Some(ask) = self.asks.get_mut(&answer.ask) else { return "unknown" };
        let fits =
            |id: &str| ask.ask.options.iter().any(|c| c.id == id && c.kind.decision() == answer.decision);
        let plain = plain(&ask.ask.options, answer.decision).map(|c| c.id.clone());
        let option = answer.option.clone().or_else(|| plain.clone()).filter(|id| fits(id));
        let in_time = ask.lost.is_some_and(|lost| now.at - lost.at < ms(self.settings.late_answer_ms));
        if answer.refused.is_some() {
            return "not permitted";
        } else if answer.digest != ask.ask.digest {
            return "mismatch";
        } else if !ask.is_open() {
            let keep = ask.is(Cause::RequesterGone) && ask.late == Late::No && in_time;
            if !keep || option.is_none() || option != plain {
                return "settled already";
            }
            ask.late = Late::Kept(answer.decision);
            return "late";
        } else if ask.link == Link::Back {
            return "handed back";
        } else if option.is_none() {
            return "not offered";
        }
        ask.answer(answer.decision, Cause::Person, option, now);
        "settled"
    }

    fn withdraw(&mut self, id: AskId, token: TokenHash, cause: Cause) -> &'static str {
        let now = self.stamp();
        let ask = self.asks.get_mut(&id).filter(|a| a.ask.requester.token == token);
        match (ask, cause) {
            (None, _) => return "unknown",
            (Some(ask), Cause::HandedBack) if !ask.is_open() => return "settled already",
            (Some(ask), Cause::HandedBack) => ask.link = Link::Back,
            (Some(ask), Cause::RequesterGone | Cause::RequesterLimit) if !ask.is_open() => {
                // It has not got it, and says so.
                ask.near &= ask.delivery != Delivery::Pending;
                ask.lose(now);
            }
            (Some(ask), cause) => {
                ask.cancel(cause, now);
                // It says so itself.
                ask.heard = true;
                ask.finds = None;
            }
        }
        "done"
    }

    fn deliver(
        &mut self,
        id: AskId,
        token: TokenHash,
        from: &[Delivery],
        to: Delivery,
        same: &[Delivery],
    ) -> &'static str {
        let now = self.stamp();
        match self.asks.get_mut(&id).filter(|a| a.ask.requester.token == token) {
            None => "unknown",
            Some(ask) if ask.is_open() => "malformed",
            Some(ask) if from.contains(&ask.delivery) => {
                ask.delivery = to;
                if to == Delivery::Confirmed {
                    ask.late = Late::Over;
                }
                ask.heard = true;
                ask.told |= to != Delivery::Refused;
                ask.finds = ask.finds.filter(|_| to != Delivery::Refused);
                ask.over = ask.over.or((to == Delivery::Refused).then_some(now.at));
                "done"
            }
            Some(ask) if same.contains(&ask.delivery) => {
                ask.heard |= to == Delivery::Refused;
                ask.finds = ask.finds.filter(|_| to != Delivery::Refused);
                "done"
            }
            Some(_) => "settled already",
        }
    }

    /// By its own word, or because nobody else asks in a session of which no process is known.
    fn speaks_for_the_session(&self, session: &SessionKey, voice: &Voice) -> bool {
        let Voice::Of(side) = voice else { return true };
        let mut asks = self.asks.values().filter(|a| self.tree(session, &a.ask.lineage.session));
        let has_process = self.live.get(session).is_some_and(Option::is_some);
        let mut live = asks.by_ref().filter(|a| !a.is_finished()).peekable();
        side.session || !has_process && live.peek().is_some() && live.all(|a| speaks_for(voice, &a.ask))
    }

    fn observe(&mut self, session: &SessionKey, seen: &Seen, voice: &Voice, own: bool) {
        let now = self.stamp();
        if let Seen::SessionEnded
        | Seen::SubagentEnded { .. }
        | Seen::TurnCancelled { .. }
        | Seen::TurnEnded { .. } = seen
        {
            self.lose_tree(session);
        }
        let is_its = |a: &Ask| a.lineage.session == *session && speaks_for(voice, a);
        let of_call =
            |a: &&mut MAsk, call: &str| is_its(&a.ask) && a.ask.lineage.call.as_deref() == Some(call);
        match seen {
            Seen::SessionEnded => {
                self.cancel_all(session, None, Cause::SessionEnded, (voice, own));
                let ended = self.live.keys().filter(|key| own && self.tree(session, key));
                let ended: Vec<_> = ended.cloned().collect();
                self.live.retain(|key, _| !ended.contains(key));
                self.children.retain(|(key, _), _| !ended.contains(key));
            }
            Seen::SubagentStarted { work_id, parent, .. } => {
                let key = (session.clone(), work_id.clone());
                if own || !self.children.contains_key(&key) {
                    let child = self.children.entry(key).or_default();
                    *child = parent.clone().or(child.take());
                }
            }
            // What a subagent started may outlive it.
            Seen::SubagentEnded { work_id } => {
                let of = |a: &&mut MAsk| is_its(&a.ask) && a.ask.lineage.work_id() == Some(work_id);
                for ask in self.asks.values_mut().filter(of) {
                    ask.cancel(Cause::SessionEnded, now);
                    ask.turn_over = true;
                }
            }
            Seen::TurnCancelled { subagent } => {
                self.cancel_all(session, subagent.as_deref(), Cause::Cancelled, (voice, own))
            }
            Seen::TurnEnded { subagent } => {
                let of = |a: &&mut MAsk| is_its(&a.ask) && a.ask.lineage.work_id() == subagent.as_deref();
                for ask in self.asks.values_mut().filter(of) {
                    if ask.is_open() {
                        ask.withdraw(Cause::Cancelled, now);
                    } else if ask.delivery != Delivery::Pending {
                        ask.revoke(now);
                    }
                    ask.turn_over = true;
                }
            }
            Seen::CallEnded { call, .. } => {
                self.asks.values_mut().filter(|a| of_call(a, call)).for_each(|a| a.own_prompt(true, now));
            }
            Seen::OwnPromptAnswered { call, allowed } => {
                // Which of several open questions of one call was answered is not told.
                if self.asks.values_mut().filter(|a| of_call(a, call) && a.is_open()).count() <= 1 {
                    let asks = self.asks.values_mut().filter(|a| of_call(a, call));
                    asks.for_each(|a| a.own_prompt(*allowed, now));
                }
            }
            Seen::DecidedByAgent { call, allowed, .. } => {
                self.asks.values_mut().filter(|a| of_call(a, call)).for_each(|a| a.own_prompt(*allowed, now));
            }
            Seen::SessionStarted | Seen::CallStarted { .. } => {}
        }
    }
}
