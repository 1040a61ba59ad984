//! What goes wrong by itself: clocks that step, machines that sleep and start anew, connections that break.

use askd_core::command::Command;
use askd_core::{Cause, Decision, Hash256};

use crate::plan::SurfacePlan;
use crate::story::tell;
use crate::transport::{Conn, Sender};
use crate::world::{Happening, World};

impl World {
    pub(crate) fn weather(&mut self) {
        if !self.chaos {
            return;
        }
        let after = self.dice.span(1_000, 90_000);
        self.soon(after, Happening::Weather);
        let plan = self.plan.clone();
        if self.dice.percent(plan.steps) {
            let size = i64::try_from(self.dice.span(1_000, 28_800_000)).unwrap_or(1_000);
            let by = if self.dice.percent(50) { size } else { -size };
            tell!(self, None, "the wall clock is stepped by {by} ms");
            self.counts.add("clock stepped");
            self.clock.step_wall(by);
        }
        if self.dice.percent(plan.suspends) {
            self.suspend();
        } else if self.dice.percent(plan.reboots) {
            self.reboot();
        }
        if self.dice.percent(plan.stops) {
            let daemon = self.dice.index(self.daemons.len());
            self.stop(daemon);
        }
        if self.dice.percent(plan.broken_links) {
            self.break_some_link();
        }
        if self.dice.percent(plan.killed_agents) {
            let agent = self.dice.index(self.agents.len());
            self.kill_agent(agent);
        }
        if self.dice.percent(15) {
            let surface = self.dice.index(self.surfaces.len());
            self.leave(surface);
        }
        if self.dice.percent(plan.strangers) {
            self.stranger();
        }
        self.disturb_desks();
        // A world without overrides is what it was before there were any.
        if plan.overrides > 0 && self.dice.percent(plan.overrides) {
            self.override_something();
        }
    }

    fn suspend(&mut self) {
        if self.asleep_until.is_some() {
            return;
        }
        let time = self.dice.span(1_000, 3_600_000);
        tell!(self, None, "the machine sleeps for {time} ms");
        self.counts.add("suspend");
        let until = self.clock.now + time;
        self.asleep_until = Some(until);
        self.at(until, Happening::Wake);
    }

    pub(crate) fn wake(&mut self) {
        tell!(self, None, "the machine wakes");
        self.asleep_until = None;
        for daemon in 0..self.daemons.len() {
            if self.daemons[daemon].writer.is_some() {
                self.woke(daemon);
            }
        }
    }

    /// Every process ends without a word; what was committed is still there.
    fn reboot(&mut self) {
        tell!(self, None, "the machine reboots");
        self.counts.add("reboot");
        for agent in 0..self.agents.len() {
            self.kill_agent(agent);
        }
        for daemon in 0..self.daemons.len() {
            self.crash(daemon, &[]);
        }
        self.clock.now += self.dice.between(5_000, 60_000);
        self.clock.reboot();
    }

    fn break_some_link(&mut self) {
        let held: Vec<Conn> = (0..self.daemons.len())
            .flat_map(|daemon| {
                let life = self.daemons[daemon].life;
                self.daemons[daemon].links.keys().map(move |link| Conn { daemon, life, link: *link })
            })
            .collect();
        if !held.is_empty() {
            let conn = *self.dice.pick(&held);
            self.break_conn(conn);
        }
    }

    /// Somebody who holds no token of the ask.
    fn stranger(&mut self) {
        let asks: Vec<_> = self.ledger.files.keys().copied().collect();
        if asks.is_empty() {
            return;
        }
        let ask = *self.dice.pick(&asks);
        let token = Hash256::of(b"stranger");
        let command = match self.dice.below(5) {
            0 => Command::Handed { ask, token },
            1 => Command::Confirmed { ask, token },
            2 => Command::DeliveryRefused { ask, token, reason: "I say so".to_owned() },
            3 => {
                let by = Some("hook".to_owned());
                Command::DecidedByAgent { ask, token, decision: Decision::Allow, by, went_on: true }
            }
            _ => Command::Withdraw { ask, token, cause: Cause::Cancelled },
        };
        self.counts.add("stranger refused");
        let daemon = self.dice.index(self.daemons.len());
        self.send(daemon, None, Sender::Stranger(ask), command);
    }

    /// From here on nothing goes wrong, and one person more answers everything.
    pub(crate) fn calm(&mut self) {
        tell!(self, None, "nothing goes wrong any more");
        self.chaos = false;
        for daemon in 0..self.daemons.len() {
            let plan = SurfacePlan { remote: false, narrow: false, lies: false, daemon, queue: false };
            let surface = self.add_surface(plan, true);
            self.soon(0, Happening::Attach { surface });
        }
        self.settle_down();
    }

    fn disturb_desks(&mut self) {
        for s in 0..self.surfaces.len() {
            if self.surfaces[s].desk.is_some() && self.dice.percent(5) {
                self.desk_blind(s);
            }
        }
    }
}
