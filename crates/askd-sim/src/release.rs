//! What leaves the daemon after a batch: replies, outcomes to those who wait, news for surfaces.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::command::{Command, Observe, Reply, Seen};
use askd_core::event::Event;
use askd_core::id::StreamId;
use askd_core::state::AskState;
use askd_core::{AskId, Refusal};
use askd_writer::Batched;

use crate::agent::After;
use crate::flaw::Flaw;
use crate::story::tell;
use crate::surface::{Card, News};
use crate::transport::{Conn, Mail, Sender, Told};
use crate::world::{Happening, World};

/// One thing to be told.
enum Effect {
    Reply(usize),
    Waiters(AskId),
}

impl World {
    /// Tells everything that the batch allows to be told; false when the daemon died on the way.
    pub(crate) fn release(&mut self, d: usize, group: &[Mail], batched: Batched, fresh: usize) -> bool {
        self.count_conflicts();
        self.check_batch(d, group, &batched, fresh);
        let Batched { replies, committed, finished } = batched;
        let finished: BTreeMap<AskId, AskState> = finished.into_iter().collect();
        let mut touched: BTreeSet<AskId> = committed
            .iter()
            .filter_map(|entry| match entry.stream {
                StreamId::Ask(id) => Some(id),
                _ => None,
            })
            .collect();
        for (mail, reply) in group.iter().zip(&replies) {
            self.note_reply(d, mail, reply, &mut touched);
        }
        let mut effects: Vec<Effect> = (0..group.len()).map(Effect::Reply).collect();
        effects.extend(touched.into_iter().map(Effect::Waiters));
        for i in (1..effects.len()).rev() {
            let j = self.dice.index(i + 1);
            effects.swap(i, j);
        }
        let torn = self.chaos && self.dice.permille(self.plan.torn_release);
        let told = if torn { self.dice.index(effects.len() + 1) } else { effects.len() };
        for effect in effects.into_iter().take(told) {
            match effect {
                Effect::Reply(i) => self.send_reply(d, &group[i], replies[i].clone()),
                Effect::Waiters(id) => self.tell_waiters(d, id, &finished),
            }
        }
        if torn {
            self.counts.add("crash between replies");
            tell!(self, None, "daemon {d} dies between two replies");
            let lost: Vec<Mail> = group.to_vec();
            self.crash(d, &lost);
            return false;
        }
        self.publish(d);
        self.check_state(d, &replies);
        if let Some(writer) = self.daemons[d].writer.as_mut()
            && writer.released().is_err()
        {
            self.counts.add("crash when released");
            tell!(self, None, "daemon {d} dies: released");
            self.crash(d, &[]);
            return false;
        }
        let named = committed
            .iter()
            .any(|entry| matches!(entry.entry.event, Event::Asked { .. } | Event::SessionStarted { .. }));
        if named {
            // A process that is named is looked at: it may have ended before.
            let after = self.dice.between(100, 3_000);
            let life = self.daemons[d].life;
            self.soon(after, Happening::LookForDead { daemon: d, life });
        }
        true
    }

    /// What the shell itself remembers of a reply.
    fn note_reply(
        &mut self,
        d: usize,
        mail: &Mail,
        reply: &Result<Reply, Refusal>,
        touched: &mut BTreeSet<AskId>,
    ) {
        match (&mail.command, reply) {
            (Command::Raise(_), Ok(Reply::Raised(id) | Reply::Reattached(id))) => {
                let again = matches!(reply, Ok(Reply::Reattached(_)));
                self.counts.add(if again { "re-attached" } else { "raised" });
                if let Sender::Ask(_, conn) = mail.from
                    && self.daemons[d].links.contains_key(&conn.link)
                {
                    let waiting = self.daemons[d].waiters.entry(*id).or_default();
                    if !waiting.contains(&conn) {
                        waiting.push(conn);
                    }
                }
                touched.insert(*id);
            }
            (Command::Observe(seen), Ok(_)) => self.note_observed(seen, mail.from),
            (Command::SetOverrides { .. }, Err(_)) => self.counts.add("override refused"),
            (Command::SetOverrides { session: None, overrides, .. }, Ok(_)) => {
                self.daemons[d].everywhere.push(overrides);
            }
            (Command::RemotePolled { .. }, Err(_)) => self.hold_again(d),
            (Command::RemotePolled { surface }, Ok(_)) => {
                self.polled(d, surface);
            }
            _ => {}
        }
        if mail.from == Sender::Shell {
            self.shell_reply(d, &mail.command, reply.as_ref().err());
        }
    }

    /// What ends a thread makes the daemon forget which calls it had, also when it comes late.
    fn note_observed(&mut self, observe: &Observe, from: Sender) {
        if let Sender::Observer { after: After::Ask(call), .. } = from {
            self.calls[call].announced = Some(self.daemons[0].life);
        }
        let ends = matches!(
            observe.seen,
            Seen::SessionEnded
                | Seen::SubagentEnded { .. }
                | Seen::TurnCancelled { .. }
                | Seen::TurnEnded { .. }
        );
        for call in self.calls.iter_mut().filter(|_| ends) {
            if self.agents[call.agent].key == observe.session {
                call.announced = None;
            }
        }
    }

    fn send_reply(&mut self, d: usize, mail: &Mail, reply: Result<Reply, Refusal>) {
        let about = match &reply {
            Ok(Reply::Raised(id) | Reply::Reattached(id) | Reply::Settled(id)) => Some(*id),
            _ => mail.command.needs(),
        };
        tell!(self, about, "daemon {d} replies {reply:?}");
        match (mail.from, reply) {
            (Sender::Shell, _) => {}
            // A held request is answered when there is something to tell.
            (Sender::Ask(..), Ok(_)) => {}
            (Sender::Ask(_, conn), Err(refusal)) => self.tell_waiter(conn, Told::Refused(refusal)),
            (from, reply) => {
                if let (Sender::Surface(surface), Command::AttachSurface { .. }, Ok(_)) =
                    (from, &mail.command, &reply)
                {
                    self.send_snapshot(d, surface);
                }
                self.check_reply(from, &reply);
                self.reply(from, reply);
            }
        }
    }

    /// Tells an outcome, or that only the agent's own prompt can answer now, to everybody who waits for it.
    fn tell_waiters(&mut self, d: usize, id: AskId, finished: &BTreeMap<AskId, AskState>) {
        let Some(writer) = &self.daemons[d].writer else { return };
        let Some(ask) = writer.state().ask(id).or_else(|| finished.get(&id)) else { return };
        let told = match &ask.outcome {
            Some(outcome) => {
                let flawed = self.flaw == Some(Flaw::SendsVoided);
                let verdict = if flawed { outcome.verdict() } else { ask.verdict() };
                Told::Settled { ask: id, outcome: Box::new(outcome.clone()), verdict }
            }
            None if ask.is_handed_back() => Told::HandedBack { ask: id },
            None => return,
        };
        self.tell_all(d, id, &told);
    }

    fn tell_all(&mut self, d: usize, id: AskId, told: &Told) {
        let waiting = self.daemons[d].waiters.remove(&id).unwrap_or_default();
        for mut conn in waiting {
            if self.flaw == Some(Flaw::ForgetsWaiter) && self.dice.percent(30) {
                continue;
            }
            if self.flaw == Some(Flaw::WrongRequester)
                && let Some(other) = self.daemons[d].waiters.values().flatten().next()
            {
                conn = *other;
            }
            self.tell_waiter(conn, told.clone());
        }
    }

    pub(crate) fn tell_waiter(&mut self, conn: Conn, told: Told) {
        let Some(requester) = self.daemons[conn.daemon].links.get(&conn.link).map(|l| l.requester) else {
            return;
        };
        self.check_told(requester, &told);
        if self.chaos && self.dice.permille(self.plan.lost) {
            self.counts.add("outcome lost");
            self.break_conn(conn);
            return;
        }
        let after = self.latency();
        self.soon(after, Happening::Told { requester, conn, told: Box::new(told) });
    }

    /// The journal wakes the other daemons, whatever becomes of the one that wrote.
    pub(crate) fn wake_others(&mut self, d: usize) {
        for other in (0..self.daemons.len()).filter(|other| *other != d) {
            let after = self.dice.span(1, 3_000);
            let life = self.daemons[other].life;
            self.soon(after, Happening::Follow { daemon: other, life });
        }
    }

    /// Reads what another daemon wrote: its outcomes are told too.
    pub(crate) fn follow(&mut self, d: usize, life: u64) {
        if !self.is_up(d, life) {
            return;
        }
        let waiting: Vec<AskId> = self.daemons[d].waiters.keys().copied().collect();
        for id in waiting {
            let Some(file) = self.ledger.files.get(&id) else { continue };
            let told = match &file.outcome {
                Some(outcome) => {
                    Told::Settled { ask: id, outcome: Box::new(outcome.clone()), verdict: file.verdict() }
                }
                None if file.handed_back.is_some() => Told::HandedBack { ask: id },
                None => continue,
            };
            tell!(self, Some(id), "daemon {d} reads the outcome from the journal");
            self.counts.add("outcome read from the journal");
            self.tell_all(d, id, &told);
        }
        self.publish(d);
    }

    /// New entries, in order, to every attached surface.
    fn publish(&mut self, d: usize) {
        let after = self.daemons[d].followed;
        let entries = self.ledger.feed(after);
        let Some(last) = entries.last().map(|entry| entry.position) else { return };
        self.daemons[d].followed = last;
        for surface in 0..self.surfaces.len() {
            if self.surfaces[surface].plan.daemon == d && self.surfaces[surface].attached.is_some() {
                self.send_news(surface, News::Entries(entries.clone()));
            }
        }
    }

    fn send_snapshot(&mut self, d: usize, surface: usize) {
        let cards: Vec<Card> = if self.plan.daemons == 1 {
            let Some(writer) = &self.daemons[d].writer else { return };
            writer.state().open().map(|(_, ask)| Card::of(&ask.ask, ask.is_handed_back())).collect()
        } else {
            let open = self.ledger.files.values().filter(|file| file.outcome.is_none());
            open.map(|file| Card::of(&file.ask, file.handed_back.is_some())).collect()
        };
        let position = self.ledger.last;
        self.surfaces[surface].connections += 1;
        self.surfaces[surface].attached = Some(self.surfaces[surface].connections);
        self.send_news(surface, News::Snapshot { cards, position });
    }

    fn send_news(&mut self, surface: usize, news: News) {
        let time = (self.clock.now + self.latency()).max(self.surfaces[surface].front);
        self.surfaces[surface].front = time;
        let connection = self.surfaces[surface].connections;
        self.at(time, Happening::Feed { surface, connection, news: Box::new(news) });
    }
}
