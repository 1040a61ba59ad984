//! Messages between processes: delayed, lost, doubled, out of order between connections and in order on one.

use askd_core::command::{Command, Reply};
use askd_core::{AskId, LinkId, Outcome, Refusal, Verdict};

use crate::agent::After;
use crate::story::tell;
use crate::world::{Happening, Tell, World};

/// A requester's connection, as both ends know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Conn {
    pub(crate) daemon: usize,
    pub(crate) life: u64,
    pub(crate) link: LinkId,
}

/// Who hears what became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The daemon's own shell.
    Shell,
    /// A held request.
    Ask(usize, Conn),
    Tell {
        requester: usize,
        tell: Tell,
        tries: u32,
    },
    Observer {
        agent: usize,
        life: u64,
        after: After,
    },
    /// An answer, by its place in the list of those that were sent.
    Answerer {
        surface: usize,
        said: usize,
    },
    Surface(usize),
    /// Somebody who has no business here; what was tried must be refused.
    Stranger(AskId),
}

#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub(crate) command: Command,
    pub(crate) from: Sender,
}

/// What comes back.
#[derive(Debug, Clone)]
pub(crate) enum Back {
    /// No reply: nobody listened, or the connection broke before or after the command was taken.
    Lost,
    Reply(Result<Reply, Refusal>),
}

/// What a held request is answered with.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Settled {
        ask: AskId,
        outcome: Box<Outcome>,
        verdict: Verdict,
    },
    HandedBack {
        ask: AskId,
    },
    Refused(Refusal),
    /// The daemon stops for good.
    Released,
}

impl World {
    pub(crate) fn latency(&mut self) -> u64 {
        if self.chaos && self.dice.permille(self.plan.slow) {
            self.dice.span(50, 90_000)
        } else {
            self.dice.between(0, 20)
        }
    }

    pub(crate) fn is_up(&self, daemon: usize, life: u64) -> bool {
        self.daemons[daemon].life == life && self.daemons[daemon].writer.is_some()
    }

    /// Sends a command to whatever daemon runs at this place now.
    pub(crate) fn send(&mut self, daemon: usize, conn: Option<Conn>, from: Sender, command: Command) {
        let life = self.daemons[daemon].life;
        if self.daemons[daemon].writer.is_none() || conn.is_some_and(|c| c.life != life) {
            let after = self.dice.between(1, 30);
            self.soon(after, Happening::Back { to: from, back: Back::Lost });
            return;
        }
        let mail = Mail { command, from };
        if self.chaos && self.dice.permille(self.plan.lost) {
            self.counts.add("request lost");
            if let Some(conn) = conn {
                // A connection that lost something is broken.
                self.break_conn(conn);
            }
            let patience = self.dice.between(1_000, 5_000);
            self.soon(patience, Happening::Back { to: from, back: Back::Lost });
            return;
        }
        let copies = if self.chaos && self.dice.permille(self.plan.twice) { 2 } else { 1 };
        for copy in 0..copies {
            if copy > 0 {
                self.counts.add("request doubled");
            }
            let time = self.clock.now + self.latency();
            let time = self.in_order(conn, time);
            self.at(time, Happening::Arrive { daemon, life, mail: Box::new(mail.clone()) });
        }
    }

    /// Nothing overtakes what was sent before on the same connection.
    fn in_order(&mut self, conn: Option<Conn>, time: u64) -> u64 {
        let Some(conn) = conn else { return time };
        match self.daemons[conn.daemon].links.get_mut(&conn.link) {
            Some(link) => {
                link.front = link.front.max(time);
                link.front
            }
            None => time,
        }
    }

    pub(crate) fn arrive(&mut self, daemon: usize, life: u64, mut mail: Mail) {
        if !self.is_up(daemon, life) {
            self.soon(1, Happening::Back { to: mail.from, back: Back::Lost });
            return;
        }
        if let (Command::Raise(raise), Sender::Ask(requester, conn)) = (&mut mail.command, mail.from) {
            raise.id = self.dice.ask_id(self.clock.wall_ms());
            raise.link = conn.link;
            self.raised.insert(raise.id, requester);
            tell!(self, Some(raise.id), "daemon {daemon} reads a request of requester {requester}");
        }
        if let Command::LinkClosed { link } = mail.command {
            self.daemons[daemon].links.remove(&link);
            for waiting in self.daemons[daemon].waiters.values_mut() {
                waiting.retain(|c| c.link != link);
            }
        }
        self.enqueue(daemon, mail);
    }

    /// One end closes the connection; the daemon notices after what was sent before.
    pub(crate) fn close_conn(&mut self, conn: Conn) {
        let time = self.clock.now + self.latency();
        let time = self.in_order(Some(conn), time);
        let command = Command::LinkClosed { link: conn.link };
        let mail = Mail { command, from: Sender::Shell };
        self.at(time, Happening::Arrive { daemon: conn.daemon, life: conn.life, mail: Box::new(mail) });
    }

    /// The connection breaks; both ends notice, each in its own time.
    pub(crate) fn break_conn(&mut self, conn: Conn) {
        let Some(link) = self.daemons[conn.daemon].links.get(&conn.link) else { return };
        let requester = link.requester;
        self.counts.add("connection broken");
        tell!(self, self.requesters[requester].ask, "connection of requester {requester} breaks");
        self.close_conn(conn);
        let after = self.latency();
        self.soon(after, Happening::ConnLost { requester, conn });
    }

    pub(crate) fn reply(&mut self, to: Sender, reply: Result<Reply, Refusal>) {
        let lost = self.chaos && self.dice.permille(self.plan.lost);
        let (after, back) = if lost {
            self.counts.add("reply lost");
            (self.dice.between(1_000, 5_000), Back::Lost)
        } else {
            (self.latency(), Back::Reply(reply))
        };
        self.soon(after, Happening::Back { to, back });
    }

    pub(crate) fn back(&mut self, to: Sender, back: Back) {
        match to {
            Sender::Shell => {}
            Sender::Ask(requester, conn) => {
                // The held request itself was not taken.
                if let Back::Lost = back {
                    self.conn_lost(requester, conn);
                }
            }
            Sender::Tell { requester, tell, tries } => self.tell_came_back(requester, tell, tries, back),
            Sender::Observer { agent, life, after } => self.observed(agent, life, after, back),
            Sender::Answerer { surface, said } => self.answer_came_back(surface, said, back),
            Sender::Surface(_) => {}
            Sender::Stranger(ask) => {
                if let Back::Reply(Ok(reply)) = back {
                    self.broken(&[ask], format!("a stranger's command was not refused: {reply:?}"));
                }
            }
        }
    }
}
