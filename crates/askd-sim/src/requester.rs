//! Requesters: hook processes, library clients and scripts that wait for an outcome and live through what may happen.

use askd_core::ask::RequesterKind;
use askd_core::command::{Command, Raise};
use askd_core::{AskId, Cause, Decision, Refusal, Verdict};

use crate::flaw::Flaw;
use crate::story::tell;
use crate::transport::{Back, Conn, Sender, Told};
use crate::world::{Happening, Tell, World};

/// How often something that must arrive is said again.
const MOST_TRIES: u32 = 200;

pub(crate) struct Requester {
    pub(crate) kind: RequesterKind,
    pub(crate) call: usize,
    pub(crate) daemon: usize,
    /// Id and link are filled in by the daemon.
    pub(crate) raise: Raise,
    pub(crate) alive: bool,
    /// It wants an outcome and has none.
    pub(crate) waiting: bool,
    pub(crate) conn: Option<Conn>,
    /// A second connection, to the other daemon.
    second: Option<Conn>,
    pub(crate) ask: Option<AskId>,
    pause: u64,
    refusals: u32,
}

impl Requester {
    pub(crate) fn new(raise: Raise, call: usize, daemon: usize) -> Self {
        Self {
            kind: raise.kind,
            call,
            daemon,
            raise,
            alive: true,
            waiting: true,
            conn: None,
            second: None,
            ask: None,
            pause: 10,
            refusals: 0,
        }
    }

    /// It waits for an outcome on this connection.
    pub(crate) fn holds(&self, conn: Conn) -> bool {
        self.alive && self.waiting && (self.conn == Some(conn) || self.second == Some(conn))
    }

    pub(crate) fn is_hook(&self) -> bool {
        self.kind == RequesterKind::Hook
    }
}

impl World {
    /// A requester begins to ask.
    pub(crate) fn add_requester(&mut self, raise: Raise, call: usize) -> usize {
        let daemon = self.dice.index(self.daemons.len());
        let requester = self.requesters.len();
        if let Some(ms) = raise.gives_up_ms {
            self.soon(ms, Happening::GiveUp { requester });
        }
        if self.chaos && self.dice.percent(self.plan.killed_requesters) {
            let after = self.dice.span(5, 300_000);
            self.soon(after, Happening::Kill { requester });
        }
        self.requesters.push(Requester::new(raise, call, daemon));
        self.connect(requester);
        requester
    }

    pub(crate) fn connect(&mut self, r: usize) {
        let requester = &self.requesters[r];
        if !requester.alive || !requester.waiting || requester.conn.is_some() {
            return;
        }
        if self.daemons.len() > 1 && self.dice.percent(20) {
            self.requesters[r].daemon = self.dice.index(self.daemons.len());
            self.counts.add("requester went to another daemon");
        }
        let daemon = self.requesters[r].daemon;
        match self.open_conn(daemon, r) {
            None => {
                // A hook that finds no daemon may let the agent ask by itself.
                if self.requesters[r].is_hook() && self.requesters[r].ask.is_none() && self.dice.percent(30) {
                    self.without_outcome(r, "no daemon");
                } else {
                    self.reconnect(r);
                }
            }
            Some(conn) => {
                self.requesters[r].conn = Some(conn);
                let raise = self.requesters[r].raise.clone();
                if let Some(old) = raise.supersedes {
                    self.sent.superseded.insert(old);
                }
                self.send(daemon, Some(conn), Sender::Ask(r, conn), Command::Raise(Box::new(raise.clone())));
                if self.daemons.len() > 1 && self.dice.percent(20) {
                    self.raise_at_both(r, &raise);
                }
            }
        }
    }

    /// Two daemons read the same request at the same time.
    fn raise_at_both(&mut self, r: usize, raise: &Raise) {
        let other = (self.requesters[r].daemon + 1) % self.daemons.len();
        if let Some(conn) = self.open_conn(other, r) {
            self.counts.add("raised at two daemons");
            if let Some(old) = self.requesters[r].second.replace(conn) {
                self.close_conn(old);
            }
            self.send(other, Some(conn), Sender::Ask(r, conn), Command::Raise(Box::new(raise.clone())));
        }
    }

    fn reconnect(&mut self, r: usize) {
        let requester = &mut self.requesters[r];
        if requester.alive && requester.waiting {
            let pause = requester.pause;
            requester.pause = (pause * 2).min(2_000);
            self.soon(pause, Happening::Connect { requester: r });
        }
    }

    pub(crate) fn conn_lost(&mut self, r: usize, conn: Conn) {
        if self.requesters[r].conn != Some(conn) {
            return;
        }
        self.requesters[r].conn = None;
        if !self.requesters[r].alive || !self.requesters[r].waiting {
            return;
        }
        tell!(self, self.requesters[r].ask, "requester {r} loses its connection");
        self.counts.add("requester lost its connection");
        match self.flaw {
            Some(Flaw::InventsAllow) if self.requesters[r].is_hook() => {
                self.requesters[r].waiting = false;
                self.verdict(self.requesters[r].call, Verdict::Allow, None);
            }
            Some(Flaw::InventsDeny) if self.requesters[r].is_hook() => {
                self.requesters[r].waiting = false;
                self.verdict(self.requesters[r].call, Verdict::Deny, None);
            }
            _ => {
                // A client may stay away for longer than its grace.
                if self.chaos && !self.requesters[r].is_hook() && self.dice.percent(10) {
                    self.requesters[r].pause = self.dice.span(1_000, 200_000);
                }
                self.reconnect(r);
            }
        }
    }

    /// The held request is answered.
    pub(crate) fn told(&mut self, r: usize, conn: Conn, told: Told) {
        let requester = &self.requesters[r];
        if !requester.alive || !requester.waiting {
            return;
        }
        if requester.conn != Some(conn) && requester.second != Some(conn) {
            return;
        }
        match told {
            Told::Refused(Refusal::NotRecorded(_)) => {
                self.requesters[r].refusals += 1;
                if self.requesters[r].is_hook() && self.requesters[r].refusals >= 5 {
                    self.without_outcome(r, "the daemon does not record it");
                } else {
                    self.hang_up(r);
                    self.reconnect(r);
                }
            }
            Told::Refused(refusal) => {
                tell!(self, None, "requester {r} is refused: {refusal}");
                self.counts.add("ask refused");
                self.without_outcome(r, "refused");
            }
            Told::Released => {
                if self.requesters[r].is_hook() {
                    self.without_outcome(r, "the daemon stops");
                } else {
                    self.hang_up(r);
                    self.reconnect(r);
                }
            }
            Told::HandedBack { ask } => {
                self.requesters[r].ask = Some(ask);
                self.counts.add("handed back told");
                self.without_outcome(r, "handed back");
            }
            Told::Settled { ask, outcome, verdict } => {
                self.requesters[r].ask = Some(ask);
                tell!(self, Some(ask), "requester {r} gets {:?}: {}", verdict, outcome.text());
                if verdict == Verdict::None {
                    self.counts.add("no opinion told");
                    self.without_outcome(r, "no opinion");
                    return;
                }
                self.deliver(r, ask, verdict);
            }
        }
    }

    /// Gives the outcome to the agent, unless the process ends before; says so, unless it ends after.
    fn deliver(&mut self, r: usize, ask: AskId, verdict: Verdict) {
        let dies = if self.chaos { self.dice.below(100) } else { 100 };
        if dies < 4 {
            self.counts.add("requester died before handing over");
            self.kill(r);
            return;
        }
        if dies < 7 && !self.requesters[r].is_hook() {
            self.counts.add("outcome not taken");
            self.requesters[r].waiting = false;
            self.verdict(self.requesters[r].call, Verdict::None, Some(ask));
            self.tell_daemon(r, Tell::Refused, 0);
            return;
        }
        self.requesters[r].waiting = false;
        self.verdict(self.requesters[r].call, verdict, Some(ask));
        let says_nothing = self.requesters[r].kind == RequesterKind::Script;
        if dies < 11 && (says_nothing || self.requesters[r].is_hook()) {
            self.counts.add("requester left after handing over and did not say so");
            self.kill(r);
            return;
        }
        self.tell_daemon(r, Tell::Handed, 0);
    }

    /// Tells the daemon what became of the ask; library clients insist.
    pub(crate) fn tell_daemon(&mut self, r: usize, what: Tell, tries: u32) {
        let requester = &self.requesters[r];
        let Some(ask) = requester.ask.filter(|_| requester.alive) else { return };
        let token = requester.raise.token;
        let command = match what {
            Tell::Handed => {
                self.sent.handed.insert(ask);
                Command::Handed { ask, token }
            }
            Tell::Confirmed => {
                self.sent.confirmed.insert(ask);
                Command::Confirmed { ask, token }
            }
            Tell::Refused => {
                self.sent.refused.insert(ask);
                Command::DeliveryRefused { ask, token, reason: "the agent would not take it".to_owned() }
            }
            Tell::HandBack => {
                self.sent.handed_back.insert(ask);
                Command::Withdraw { ask, token, cause: Cause::HandedBack }
            }
            Tell::Decided { allowed } => {
                self.sent.decided.insert(ask, allowed);
                let decision = if allowed { Decision::Allow } else { Decision::Deny };
                Command::DecidedByAgent { ask, token, decision, by: Some("hook".to_owned()), went_on: true }
            }
            Tell::Cancel => {
                self.sent.withdrawals.insert(ask);
                Command::Withdraw { ask, token, cause: Cause::Cancelled }
            }
        };
        let (daemon, conn) = (requester.daemon, requester.conn);
        let same_life = conn.filter(|c| self.is_up(c.daemon, c.life) && c.daemon == daemon);
        self.send(daemon, same_life, Sender::Tell { requester: r, tell: what, tries }, command);
    }

    pub(crate) fn tell_came_back(&mut self, r: usize, what: Tell, tries: u32, back: Back) {
        let lost = match back {
            Back::Lost | Back::Reply(Err(Refusal::NotRecorded(_))) => true,
            Back::Reply(_) => false,
        };
        let insists = !self.requesters[r].is_hook() && tries < MOST_TRIES;
        if lost && insists && self.requesters[r].alive {
            let after = self.dice.between(100, 2_000);
            self.soon(after, Happening::TellAgain { requester: r, tell: what, tries: tries + 1 });
        } else if matches!(what, Tell::Handed | Tell::HandBack | Tell::Cancel | Tell::Refused)
            && self.requesters[r].is_hook()
        {
            self.exit(r);
        } else if what != Tell::Handed || self.calls[self.requesters[r].call].is_over() {
            self.hang_up(r);
        }
    }

    /// Its own limit is over.
    pub(crate) fn give_up(&mut self, r: usize) {
        if !self.requesters[r].alive || !self.requesters[r].waiting {
            return;
        }
        self.counts.add("requester gave up");
        tell!(self, self.requesters[r].ask, "requester {r} stops waiting");
        self.requesters[r].waiting = false;
        if self.requesters[r].ask.is_none() {
            self.requesters[r].ask = self.own_newest(r);
        }
        self.tell_daemon(r, Tell::HandBack, 0);
        self.verdict(self.requesters[r].call, Verdict::None, None);
        if self.requesters[r].ask.is_none() {
            self.exit(r);
        }
    }

    /// Not known to it, but the world knows: the newest ask that it raised, as a reply to its request would name it.
    pub(crate) fn own_newest(&self, r: usize) -> Option<AskId> {
        let mine = self.ledger.files.values().filter(|file| self.raised.get(&file.ask.id) == Some(&r));
        mine.max_by_key(|file| file.asked_at).map(|file| file.ask.id)
    }

    /// Ends without an outcome: the agent is on its own.
    fn without_outcome(&mut self, r: usize, why: &str) {
        tell!(self, self.requesters[r].ask, "requester {r} has nothing to say: {why}");
        self.requesters[r].waiting = false;
        self.verdict(self.requesters[r].call, Verdict::None, None);
        self.exit(r);
    }

    pub(crate) fn hang_up(&mut self, r: usize) {
        let requester = &mut self.requesters[r];
        for conn in [requester.conn.take(), requester.second.take()].into_iter().flatten() {
            self.close_conn(conn);
        }
    }

    pub(crate) fn exit(&mut self, r: usize) {
        self.requesters[r].alive = false;
        self.requesters[r].waiting = false;
        self.hang_up(r);
    }

    /// The process ends at once.
    pub(crate) fn kill(&mut self, r: usize) {
        if !self.requesters[r].alive {
            return;
        }
        let waited = self.requesters[r].waiting;
        tell!(self, self.requesters[r].ask, "requester {r} dies");
        self.counts.add("requester died");
        self.exit(r);
        if waited {
            self.requester_died(self.requesters[r].call);
        }
    }
}
