//! Agents: they run what they are told to run, ask by their own prompt when they are told nothing, and report.

use askd_core::ask::Action;
use askd_core::command::{Command, Observe, Seen};
use askd_core::{AskId, Digest, Instance, Owner, SessionKey};

use crate::plan::AgentKind;
use crate::story::tell;
use crate::transport::{Back, Sender};
use crate::world::{Happening, World};

/// One conversation and the process that leads it.
pub(crate) struct Agent {
    pub(crate) kind: AgentKind,
    pub(crate) key: SessionKey,
    pub(crate) parent: Option<SessionKey>,
    pub(crate) instance: Instance,
    pub(crate) alive: bool,
    /// Counts its processes.
    pub(crate) life: u64,
    pub(crate) turn: u32,
    /// It tells which user prompt a call belongs to.
    pub(crate) tells_turns: bool,
    /// It tells when a turn is cancelled.
    pub(crate) tells_cancels: bool,
    pub(crate) threads: Vec<Thread>,
    /// Calls of this turn that have not begun.
    pub(crate) planned: u32,
    turns_left: u32,
    /// Calls that a killed process leaves behind, for its successor.
    unfinished: Vec<Wanted>,
    /// The person left for good.
    pub(crate) ended: bool,
}

impl Agent {
    /// Scripts run in one shell, every other agent in its own, also after it was started again.
    pub(crate) fn owner(&self) -> Owner {
        match self.kind {
            AgentKind::Script => Owner { name: "shell of scripts".to_owned(), since: 1 },
            _ => Owner { name: format!("shell of {}", self.key), since: 1 },
        }
    }
}

/// A call that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) thread: Option<String>,
    pub(crate) action: usize,
    /// It goes on under the id that it had.
    pub(crate) id: Option<String>,
}

/// A subagent.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) work_id: String,
    pub(crate) background: bool,
    pub(crate) ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being announced.
    Announced,
    /// A requester asks for it, or the agent's own prompt does.
    Asking,
    Running,
    Ran,
    Denied,
    /// It does not run, and nobody denied it.
    Dropped,
}

/// One tool call.
pub(crate) struct Call {
    pub(crate) agent: usize,
    pub(crate) life: u64,
    pub(crate) turn: u32,
    pub(crate) thread: Option<String>,
    pub(crate) id: String,
    pub(crate) action: usize,
    pub(crate) digest: Digest,
    pub(crate) phase: Phase,
    pub(crate) requester: Option<usize>,
    /// The daemon's life in which the announcement was acknowledged.
    pub(crate) announced: Option<u64>,
    /// What the person said at the agent's own prompt.
    pub(crate) own: Option<bool>,
    /// The ask by whose outcome it ran.
    pub(crate) ran_by: Option<AskId>,
}

impl Call {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ran | Phase::Denied | Phase::Dropped)
    }
}

/// What an agent does when an observation was taken, or was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    /// Asks for the call, which it just announced.
    Ask(usize),
    /// Says the cancel again until it was taken.
    Cancel {
        tries: u32,
    },
}

/// A few actions, so that equal ones are common.
pub(crate) fn action(n: usize) -> Action {
    let (tool, input) = match n % 4 {
        0 => ("Bash", r#"{"command":"make test"}"#),
        1 => ("Bash", r#"{"command":"rm -rf build"}"#),
        2 => ("Write", r#"{"file_path":"/w/a.txt","content":"a"}"#),
        _ => ("WebFetch", r#"{"url":"https://example.org/"}"#),
    };
    Action {
        tool: tool.to_owned(),
        kind: None,
        title: None,
        input: Some(input.to_owned()),
        cwd: Some("/w".to_owned()),
    }
}

impl World {
    pub(crate) fn add_agent(&mut self, kind: AgentKind) -> usize {
        let n = self.agents.len();
        let name = match kind {
            AgentKind::Terminal | AgentKind::Headless => "claude-code",
            AgentKind::Host => "host",
            AgentKind::Script => "script",
        };
        let hosts: Vec<SessionKey> =
            self.agents.iter().filter(|a| a.kind == AgentKind::Host).map(|a| a.key.clone()).collect();
        let child = kind == AgentKind::Host && !hosts.is_empty() && self.dice.percent(60);
        self.agents.push(Agent {
            kind,
            key: SessionKey { agent: name.to_owned(), session: format!("s{n}") },
            parent: child.then(|| self.dice.pick(&hosts).clone()),
            instance: Instance { host: "here".to_owned(), pid: 100, start: 0 },
            alive: false,
            life: 0,
            turn: 0,
            tells_turns: self.dice.percent(60),
            tells_cancels: kind == AgentKind::Host || self.dice.percent(50),
            threads: Vec::new(),
            planned: 0,
            turns_left: u32::try_from(self.dice.between(2, 8)).unwrap_or(2),
            unfinished: Vec::new(),
            ended: false,
        });
        n
    }

    /// A process of this agent starts, the first or one that resumes.
    pub(crate) fn launch(&mut self, a: usize) {
        let now = self.clock.now;
        let pid = u32::try_from(self.dice.between(100, 110)).unwrap_or(100);
        let agent = &mut self.agents[a];
        if agent.alive || agent.ended {
            return;
        }
        agent.alive = true;
        agent.life += 1;
        agent.planned = 0;
        agent.instance = Instance { host: "here".to_owned(), pid, start: now };
        let life = agent.life;
        if life > 1 {
            self.counts.add("agent resumed");
        }
        tell!(self, None, "agent {} starts, life {life}", self.agents[a].key);
        self.observe(a, Seen::SessionStarted, After::Nothing);
        let resumed = std::mem::take(&mut self.agents[a].unfinished);
        if resumed.is_empty() {
            let after = self.dice.span(10, 10_000);
            self.soon(after, Happening::Turn { agent: a, life });
            return;
        }
        // The same turn goes on, with new ids.
        let turn = self.agents[a].turn;
        for wanted in resumed {
            self.agents[a].planned += 1;
            let after = self.dice.span(10, 20_000);
            self.soon(after, Happening::CallBegins { agent: a, life, turn, wanted });
        }
    }

    pub(crate) fn turn(&mut self, a: usize, life: u64) {
        let agent = &mut self.agents[a];
        if !agent.alive || agent.life != life {
            return;
        }
        if agent.turns_left == 0 || !self.chaos {
            self.end_session(a);
            return;
        }
        agent.turns_left -= 1;
        agent.turn += 1;
        agent.threads.clear();
        let turn = agent.turn;
        let hooks = matches!(agent.kind, AgentKind::Terminal | AgentKind::Headless);
        let script = agent.kind == AgentKind::Script;
        tell!(self, None, "agent {} begins turn {turn}", self.agents[a].key);
        if hooks && self.dice.percent(40) {
            self.start_subagent(a);
        }
        let calls = if script { 1 } else { self.dice.between(1, 6) };
        for _ in 0..calls {
            let thread = match self.agents[a].threads.first() {
                Some(thread) if self.dice.percent(50) => Some(thread.work_id.clone()),
                _ => None,
            };
            let kinds = if self.dice.percent(60) { 1 } else { 4 };
            let action = self.dice.index(kinds);
            self.agents[a].planned += 1;
            let after = self.dice.span(1, 60_000);
            let wanted = Wanted { thread, action, id: None };
            self.soon(after, Happening::CallBegins { agent: a, life, turn, wanted });
        }
        if self.dice.percent(20) {
            let after = self.dice.span(100, 300_000);
            self.soon(after, Happening::CancelTurn { agent: a, life, turn });
        }
    }

    fn start_subagent(&mut self, a: usize) {
        let background = self.dice.percent(50);
        let (turn, key) = (self.agents[a].turn, self.agents[a].key.clone());
        let work_id = format!("w{turn}");
        let spawn = askd_core::event::SpawnSeen {
            call: format!("spawn{turn}"),
            parent: None,
            name: Some("helper".to_owned()),
            kind: Some("worker".to_owned()),
            background,
        };
        let info = askd_core::event::CallInfo {
            subagent: None,
            tool: "Task".to_owned(),
            digest: Digest::of("Task", None, None, &work_id),
            side: None,
        };
        let call = spawn.call.clone();
        let seen =
            Seen::CallStarted { call: call.clone(), info, batch: None, turn: None, spawn: Some(spawn) };
        self.observe(a, seen, After::Nothing);
        tell!(self, None, "agent {key} starts subagent {work_id}");
        let call = self.dice.percent(50).then_some(call);
        let seen = Seen::SubagentStarted {
            work_id: work_id.clone(),
            kind: Some("worker".to_owned()),
            name: None,
            parent: None,
            call,
        };
        self.observe(a, seen, After::Nothing);
        self.agents[a].threads.push(Thread { work_id, background, ended: false });
    }

    /// Sends an observation; it may be lost, as every message.
    pub(crate) fn observe(&mut self, a: usize, seen: Seen, after: After) {
        let agent = &self.agents[a];
        let observe = Observe {
            by: askd_core::Voice::All,
            owner: Some(agent.owner()),
            session: agent.key.clone(),
            parent: agent.parent.clone(),
            title: None,
            cwd: Some("/w".to_owned()),
            instance: Some(agent.instance.clone()),
            place: None,
            seen,
        };
        self.note_sent(a, &observe.seen);
        let from = Sender::Observer { agent: a, life: self.agents[a].life, after };
        self.send(0, None, from, Command::Observe(Box::new(observe)));
    }

    fn note_sent(&mut self, a: usize, seen: &Seen) {
        let key = self.agents[a].key.clone();
        match seen {
            Seen::TurnCancelled { .. } | Seen::TurnEnded { .. } => {
                self.sent.turn_ends.insert(key);
            }
            Seen::SessionEnded => {
                self.sent.session_ends.insert(key);
            }
            Seen::SubagentEnded { work_id } => {
                self.sent.subagent_ends.insert((key, work_id.clone()));
            }
            _ => {}
        }
    }

    pub(crate) fn observed(&mut self, a: usize, life: u64, after: After, back: Back) {
        let taken = matches!(back, Back::Reply(Ok(_)));
        match after {
            After::Nothing => {}
            After::Ask(call) => {
                if self.calls[call].phase == Phase::Announced {
                    self.ask_for(call);
                }
            }
            After::Cancel { tries } => {
                if !taken && self.agents[a].life == life && tries < 50 {
                    let wait = self.dice.between(100, 2_000);
                    self.soon(wait, Happening::CancelAgain { agent: a, life, tries: tries + 1 });
                }
            }
        }
    }

    pub(crate) fn cancel_again(&mut self, a: usize, life: u64, tries: u32) {
        if self.agents[a].life == life && self.agents[a].alive {
            self.observe(a, Seen::TurnCancelled { subagent: None }, After::Cancel { tries });
        }
    }

    /// The person interrupts the turn: nothing of it runs any more.
    pub(crate) fn cancel_turn(&mut self, a: usize, life: u64, turn: u32) {
        let agent = &self.agents[a];
        if !agent.alive || agent.life != life || agent.turn != turn {
            return;
        }
        let subagent = match agent.threads.iter().find(|t| !t.ended) {
            Some(thread) if self.dice.percent(30) => Some(thread.work_id.clone()),
            _ => None,
        };
        tell!(self, None, "agent {}: turn {turn} of {subagent:?} is cancelled", self.agents[a].key);
        self.counts.add("turn cancelled");
        if self.dice.percent(40) {
            self.allow_at_once(&self.agents[a].key.clone());
        }
        self.drop_calls(a, subagent.as_deref());
        if self.agents[a].tells_cancels {
            let after = if subagent.is_none() { After::Cancel { tries: 0 } } else { After::Nothing };
            self.observe(a, Seen::TurnCancelled { subagent: subagent.clone() }, after);
        }
        if subagent.is_none() {
            // What it still wanted to do in this turn is off too.
            self.agents[a].turn += 1;
            self.agents[a].planned = 0;
            let after = self.dice.span(200, 60_000);
            self.soon(after, Happening::Turn { agent: a, life });
        } else {
            self.maybe_turn_over(a);
        }
    }

    /// Ends the calls of a thread, or of the whole session, without running them.
    pub(crate) fn drop_calls(&mut self, a: usize, thread: Option<&str>) {
        let live: Vec<usize> = (0..self.calls.len())
            .filter(|c| {
                let call = &self.calls[*c];
                call.agent == a && !call.is_over() && (thread.is_none() || call.thread.as_deref() == thread)
            })
            .collect();
        for c in live {
            self.calls[c].phase = Phase::Dropped;
            let Some(r) = self.calls[c].requester else { continue };
            if !self.requesters[r].alive {
                continue;
            }
            if self.requesters[r].is_hook() {
                self.exit(r);
            } else {
                self.requesters[r].waiting = false;
                self.requesters[r].ask = self.own_newest(r);
                if self.dice.percent(50) && self.requesters[r].ask.is_some() {
                    self.tell_daemon(r, crate::world::Tell::Cancel, 0);
                } else {
                    self.exit(r);
                }
            }
        }
    }

    /// A call of this turn is over; with the last one the turn is.
    pub(crate) fn maybe_turn_over(&mut self, a: usize) {
        let agent = &self.agents[a];
        let (life, turn) = (agent.life, agent.turn);
        if !agent.alive || agent.planned > 0 {
            return;
        }
        let busy =
            self.calls.iter().any(|c| c.agent == a && c.life == life && c.turn == turn && !c.is_over());
        if !busy {
            let after = self.dice.between(10, 3_000);
            self.soon(after, Happening::TurnOver { agent: a, life, turn });
        }
    }

    pub(crate) fn turn_over(&mut self, a: usize, life: u64, turn: u32) {
        let agent = &self.agents[a];
        let current = agent.alive && agent.life == life && agent.turn == turn && agent.planned == 0;
        if !current {
            return;
        }
        let busy =
            self.calls.iter().any(|c| c.agent == a && c.life == life && c.turn == turn && !c.is_over());
        if busy {
            return;
        }
        tell!(self, None, "agent {}: turn {turn} ends", self.agents[a].key);
        for thread in &mut self.agents[a].threads {
            thread.ended = true;
        }
        for thread in self.agents[a].threads.clone() {
            self.observe(a, Seen::SubagentEnded { work_id: thread.work_id }, After::Nothing);
        }
        self.observe(a, Seen::TurnEnded { subagent: None }, After::Nothing);
        self.agents[a].turn += 1;
        let after = self.dice.span(100, 60_000);
        self.soon(after, Happening::Turn { agent: a, life });
    }

    fn end_session(&mut self, a: usize) {
        tell!(self, None, "agent {} ends its session", self.agents[a].key);
        self.drop_calls(a, None);
        self.observe(a, Seen::SessionEnded, After::Nothing);
        self.gone(a);
        self.agents[a].ended = true;
    }

    /// The process is killed, and everything in it; somebody may resume the session.
    pub(crate) fn kill_agent(&mut self, a: usize) {
        if !self.agents[a].alive {
            return;
        }
        tell!(self, None, "agent {} is killed", self.agents[a].key);
        self.counts.add("agent killed");
        // A host takes its calls up again by the ids that they had, or makes new ones; a hook's agent makes new ones.
        let keeps_ids = self.agents[a].kind == AgentKind::Host && self.dice.percent(50);
        let unfinished = self.calls.iter().filter(|c| c.agent == a && !c.is_over()).map(|c| Wanted {
            thread: c.thread.clone(),
            action: c.action,
            id: keeps_ids.then(|| c.id.clone()),
        });
        let unfinished: Vec<Wanted> = unfinished.collect();
        for c in 0..self.calls.len() {
            if self.calls[c].agent == a && !self.calls[c].is_over() {
                self.calls[c].phase = Phase::Dropped;
                if let Some(r) = self.calls[c].requester {
                    self.exit(r);
                }
            }
        }
        self.gone(a);
        self.agents[a].unfinished = unfinished;
        if self.dice.percent(70) {
            let after = self.dice.span(500, 120_000);
            self.soon(after, Happening::Launch { agent: a });
        } else {
            self.agents[a].ended = true;
        }
    }

    fn gone(&mut self, a: usize) {
        self.agents[a].alive = false;
        let mine: Vec<usize> =
            (0..self.requesters.len()).filter(|r| self.calls[self.requesters[*r].call].agent == a).collect();
        for r in mine {
            if self.requesters[r].alive {
                self.exit(r);
            }
        }
        for daemon in 0..self.daemons.len() {
            let after = self.dice.between(50, 3_000);
            let life = self.daemons[daemon].life;
            self.soon(after, Happening::LookForDead { daemon, life });
        }
    }

    pub(crate) fn call_of(&self, ask: AskId) -> Option<usize> {
        self.raised.get(&ask).map(|r| self.requesters[*r].call)
    }
}
