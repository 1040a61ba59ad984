//! The world: virtual time, what is going to happen, and everybody who takes part.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::command::{Answer, Command};
use askd_core::{AskId, Overrides, SessionKey};
use askd_journal::MemoryStore;
use askd_tui::Key;

use crate::agent::{Agent, Call, Wanted};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::flaw::Flaw;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::report::{Counts, Report};
use crate::requester::Requester;
use crate::shell::Daemon;
use crate::story::{Story, tell};
use crate::surface::{News, Surface};
use crate::transport::{Back, Conn, Mail, Sender, Told};

/// A world that does not come to rest is broken too.
const MOST_STEPS: u64 = 200_000;
/// How long everybody has, once nothing goes wrong any more, until every ask is over: longer than any deadline, grace
/// and requester's limit.
const DRAIN_MS: u64 = 3 * 3_600_000;

/// Everything that can happen next.
pub(crate) enum Happening {
    // ---- transport
    Arrive { daemon: usize, life: u64, mail: Box<Mail> },
    Back { to: Sender, back: Back },
    Told { requester: usize, conn: Conn, told: Box<Told> },
    ConnLost { requester: usize, conn: Conn },
    Feed { surface: usize, connection: u64, news: Box<News> },
    // ---- daemon
    Start { daemon: usize },
    Batch { daemon: usize, life: u64 },
    Tick { daemon: usize, life: u64, plan: u64 },
    LookForDead { daemon: usize, life: u64 },
    Follow { daemon: usize, life: u64 },
    // ---- requesters
    Connect { requester: usize },
    GiveUp { requester: usize },
    Kill { requester: usize },
    TellAgain { requester: usize, tell: Tell, tries: u32 },
    // ---- agents
    Launch { agent: usize },
    Turn { agent: usize, life: u64 },
    CallBegins { agent: usize, life: u64, turn: u32, wanted: Wanted },
    OwnPrompt { call: usize },
    CallDone { call: usize },
    CancelTurn { agent: usize, life: u64, turn: u32 },
    TurnOver { agent: usize, life: u64, turn: u32 },
    CancelAgain { agent: usize, life: u64, tries: u32 },
    // ---- people
    Attach { surface: usize },
    Poll { surface: usize, connection: u64 },
    Say { surface: usize, answer: Box<Answer> },
    Act { surface: usize, command: Box<Command> },
    DeskPerson { surface: usize },
    Key { surface: usize, key: Key },
    DeskLoop { surface: usize },
    DeskWritten { surface: usize },
    // ---- the machine
    Weather,
    Wake,
    Calm,
}

/// What a requester says about an outcome that it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tell {
    Handed,
    Confirmed,
    Refused,
    HandBack,
    Cancel,
    /// Its own side decided, and the agent has gone on.
    Decided {
        allowed: bool,
    },
}

/// An answer that somebody really sent.
pub(crate) struct Said {
    pub(crate) answer: Answer,
    pub(crate) surface: usize,
    /// An outcome of this answer was acknowledged.
    pub(crate) settled: bool,
    /// Its person was told that it was not recorded.
    pub(crate) lost: bool,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) dice: Dice,
    pub(crate) clock: Clock,
    queue: BTreeMap<(u64, u64), Happening>,
    order: u64,
    steps: u64,
    pub(crate) plan: Plan,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) store: MemoryStore,
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) calls: Vec<Call>,
    pub(crate) requesters: Vec<Requester>,
    pub(crate) surfaces: Vec<Surface>,
    pub(crate) said: Vec<Said>,
    /// What is read now came back with a crash.
    pub(crate) reviving: bool,
    /// Who raised an ask, from the moment at which the daemon read the request.
    pub(crate) raised: BTreeMap<AskId, usize>,
    /// For which call an answer was used; by the ask at which the person gave it.
    pub(crate) justified: BTreeMap<AskId, BTreeSet<usize>>,
    /// Observations that somebody sent, by what they may cause.
    pub(crate) sent: Sent,
    pub(crate) ledger: Ledger,
    /// How many asks ended with the newest batch.
    pub(crate) fresh_ends: usize,
    pub(crate) counts: Counts,
    pub(crate) story: Story,
    /// Things go wrong.
    pub(crate) chaos: bool,
    pub(crate) asleep_until: Option<u64>,
    pub(crate) broken: Option<Broken>,
}

/// Which causes of withdrawals and settlements were truly sent, whether or not they arrived.
#[derive(Default)]
pub(crate) struct Sent {
    /// A turn was cancelled or ended in this session or one of its parents.
    pub(crate) turn_ends: BTreeSet<SessionKey>,
    pub(crate) session_ends: BTreeSet<SessionKey>,
    pub(crate) subagent_ends: BTreeSet<(SessionKey, String)>,
    pub(crate) withdrawals: BTreeSet<AskId>,
    pub(crate) dismissals: BTreeSet<AskId>,
    pub(crate) revocations: BTreeSet<AskId>,
    pub(crate) superseded: BTreeSet<AskId>,
    pub(crate) handed: BTreeSet<AskId>,
    pub(crate) confirmed: BTreeSet<AskId>,
    pub(crate) refused: BTreeSet<AskId>,
    pub(crate) handed_back: BTreeSet<AskId>,
    /// What the requester's own side decided.
    pub(crate) decided: BTreeMap<AskId, bool>,
    pub(crate) stops: u64,
    pub(crate) overrides: Vec<(Option<SessionKey>, Overrides)>,
}

/// The first tenet that did not hold.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub(crate) at: u64,
    pub(crate) why: String,
    pub(crate) asks: Vec<AskId>,
}

impl World {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>, story: Story) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice);
        let store = MemoryStore::new();
        let mut world = Self {
            seed,
            clock: Clock::new(),
            queue: BTreeMap::new(),
            order: 0,
            steps: 0,
            flaw,
            daemons: (0..plan.daemons).map(|_| Daemon::new()).collect(),
            agents: Vec::new(),
            calls: Vec::new(),
            requesters: Vec::new(),
            surfaces: Vec::new(),
            said: Vec::new(),
            reviving: false,
            raised: BTreeMap::new(),
            justified: BTreeMap::new(),
            sent: Sent::default(),
            ledger: Ledger::new(store.open()),
            fresh_ends: 0,
            store,
            counts: Counts::default(),
            story,
            chaos: true,
            asleep_until: None,
            broken: None,
            plan,
            dice,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        tell!(self, None, "the world: {:?}", self.plan);
        for daemon in 0..self.plan.daemons {
            self.soon(0, Happening::Start { daemon });
        }
        for kind in self.plan.agents.clone() {
            let agent = self.add_agent(kind);
            let after = self.dice.span(10, 30_000);
            self.soon(after, Happening::Launch { agent });
        }
        for plan in self.plan.surfaces.clone() {
            let surface = self.add_surface(plan, false);
            let after = self.dice.span(10, 120_000);
            self.soon(after, Happening::Attach { surface });
            if plan.queue {
                self.counts.add("world with a queue");
                self.soon(after + 1_000, Happening::DeskPerson { surface });
            }
        }
        let after = self.dice.span(1_000, 60_000);
        self.soon(after, Happening::Weather);
        self.soon(self.plan.chaos_ms, Happening::Calm);
        if self.plan.daemons > 1 {
            self.counts.add("world with two daemons");
        }
    }

    pub(crate) fn soon(&mut self, after: u64, happening: Happening) {
        self.at(self.clock.now + after, happening);
    }

    pub(crate) fn at(&mut self, time: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((time.max(self.clock.now), self.order), happening);
    }

    /// Says what does not hold; the first one counts.
    pub(crate) fn broken(&mut self, asks: &[AskId], why: String) {
        if self.broken.is_none() {
            tell!(self, asks.first().copied(), "BROKEN: {why}");
            self.broken = Some(Broken { at: self.clock.now, why, asks: asks.to_vec() });
        }
    }

    /// Lives until nothing goes wrong any more and every ask is over.
    pub(crate) fn play(&mut self) -> Result<Report, Broken> {
        let end = self.clock.now + self.plan.chaos_ms + DRAIN_MS;
        while let Some(((time, _), happening)) = self.queue.pop_first() {
            if time > end {
                break;
            }
            self.clock.now = self.clock.now.max(time);
            if let Some(until) = self.asleep_until
                && time < until
                && !self.happens_asleep(&happening)
            {
                self.at(until, happening);
                continue;
            }
            self.steps += 1;
            self.happen(happening);
            if self.steps > MOST_STEPS {
                self.broken(&[], format!("the world did not come to rest in {MOST_STEPS} steps"));
            }
            if let Some(broken) = &self.broken {
                return Err(broken.clone());
            }
        }
        self.finally();
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        Ok(Report {
            seed: self.seed,
            steps: self.steps,
            virtual_ms: self.clock.now,
            entries: self.ledger.last,
            counts: std::mem::take(&mut self.counts),
        })
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { daemon, life, mail } => self.arrive(daemon, life, *mail),
            Happening::Back { to, back } => self.back(to, back),
            Happening::Told { requester, conn, told } => self.told(requester, conn, *told),
            Happening::ConnLost { requester, conn } => self.conn_lost(requester, conn),
            Happening::Feed { surface, connection, news } => self.hear(surface, connection, *news),
            Happening::Start { daemon } => self.start(daemon),
            Happening::Batch { daemon, life } => self.batch(daemon, life),
            Happening::Tick { daemon, life, plan } => self.tick(daemon, life, plan),
            Happening::LookForDead { daemon, life } => self.look_for_dead(daemon, life),
            Happening::Follow { daemon, life } => self.follow(daemon, life),
            Happening::Connect { requester } => self.connect(requester),
            Happening::GiveUp { requester } => self.give_up(requester),
            Happening::Kill { requester } => self.kill(requester),
            Happening::TellAgain { requester, tell, tries } => self.tell_daemon(requester, tell, tries),
            Happening::Launch { agent } => self.launch(agent),
            Happening::Turn { agent, life } => self.turn(agent, life),
            Happening::CallBegins { agent, life, turn, wanted } => {
                self.call_begins(agent, life, turn, wanted);
            }
            Happening::OwnPrompt { call } => self.own_prompt(call),
            Happening::CallDone { call } => self.call_done(call),
            Happening::CancelTurn { agent, life, turn } => self.cancel_turn(agent, life, turn),
            Happening::TurnOver { agent, life, turn } => self.turn_over(agent, life, turn),
            Happening::CancelAgain { agent, life, tries } => self.cancel_again(agent, life, tries),
            Happening::Attach { surface } => self.attach(surface),
            Happening::Poll { surface, connection } => self.poll(surface, connection),
            Happening::Say { surface, answer } => self.say(surface, *answer),
            Happening::Act { surface, command } => self.act(surface, *command),
            Happening::DeskPerson { surface } => self.desk_person(surface),
            Happening::Key { surface, key } => self.key(surface, key),
            Happening::DeskLoop { surface } => self.desk_loop(surface),
            Happening::DeskWritten { surface } => self.desk_written(surface),
            Happening::Weather => self.weather(),
            Happening::Wake => self.wake(),
            Happening::Calm => self.calm(),
        }
    }

    /// People far away go on while the machine sleeps.
    fn happens_asleep(&self, happening: &Happening) -> bool {
        match happening {
            Happening::Say { surface, .. } => self.surfaces[*surface].plan.remote,
            Happening::Wake => true,
            _ => false,
        }
    }
}
