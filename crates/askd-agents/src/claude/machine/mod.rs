//! The protocol as a pure state machine: lines, news and time in, [`Action`]s out.

mod agent;
mod ask;
mod closing;
mod host;
mod life;
mod requests;
mod settle;
mod slot;
mod tasks;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use askd_wire::{Observation, ObservationBatch};

use self::life::Life;
use self::requests::AtHost;
use self::settle::{Fate, Proof};
use self::slot::Slot;
use self::tasks::{Noted, Spawn, Task};
use super::act::{HostKind, JOURNAL_PATIENCE, Settings};
use crate::proxy::{Action, AskNo, End, Errand, News};

/// Name of this agent at askd.
pub const AGENT: &str = "claude-code";

/// See the table in [`super`].
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    /// The host is gone, or ends with what it has said.
    host_gone: bool,
    session: Option<String>,
    cwd: Option<String>,
    asks: BTreeMap<AskNo, Slot>,
    /// Those that are not over.
    open: BTreeSet<AskNo>,
    /// Every request id of the agent's permission requests, for as long as the agent lives: an answer to one that is
    /// over harms nothing, however late it comes.
    ids: HashMap<String, AskNo>,
    /// Asks of a call whose result has not come yet.
    by_call: HashMap<String, Vec<AskNo>>,
    tasks: BTreeMap<String, Task>,
    /// Calls that start a subagent, until they have a result.
    spawns: HashMap<String, Spawn>,
    /// Calls whose results say something of turns and tasks, until they have one.
    noted: HashMap<String, Noted>,
    /// A subagent that is not known was resumed, and has not ended since.
    resumed_unknown: bool,
    /// It has scheduled turns that begin by themselves, again and again or at some time.
    schedules: bool,
    /// What the agent asked its host besides permissions, by request id, until it is replied to.
    at_host: BTreeMap<String, AtHost>,
    /// It was said that the host's replies are missing.
    missed: bool,
    /// What stops something that the agent may not have stopped yet.
    stopping: Vec<Stopping>,
    /// Asks that were ended here while the agent may still wait for them.
    waiting: BTreeSet<AskNo>,
    /// Threads (`None`: the main one) that a denial stopped: what they cancel now is cancelled by that.
    winding: BTreeSet<Option<String>>,
    /// The agent got a signal, and the same.
    signalled: bool,
    life: Life,
    /// The agent's standard input was closed.
    closed: bool,
    ended: bool,
    next: AskNo,
    now: Duration,
    out: Vec<Action>,
}

/// Something that stops the agent, or a task of it.
#[derive(Debug)]
struct Stopping {
    /// The host's request; none: a signal.
    request: Option<String>,
    task: Option<String>,
    since: Duration,
}

impl Machine {
    pub fn new(settings: Settings) -> Self {
        Self {
            cwd: settings.cwd.clone(),
            life: Life::new(settings.resumes),
            settings,
            host_gone: false,
            session: None,
            asks: BTreeMap::new(),
            open: BTreeSet::new(),
            ids: HashMap::new(),
            by_call: HashMap::new(),
            tasks: BTreeMap::new(),
            spawns: HashMap::new(),
            noted: HashMap::new(),
            resumed_unknown: false,
            schedules: false,
            at_host: BTreeMap::new(),
            missed: false,
            stopping: Vec::new(),
            waiting: BTreeSet::new(),
            winding: BTreeSet::new(),
            signalled: false,
            closed: false,
            ended: false,
            next: 0,
            now: Duration::ZERO,
            out: Vec::new(),
        }
    }

    /// What is to be done now, in order.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// A line of the host, with its line end.
    pub fn host_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        self.host_said(line);
        self.consider_closing();
    }

    /// A line of the agent, with its line end.
    pub fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        self.agent_said(line);
        self.consider_closing();
    }

    /// askd said something.
    pub fn news(&mut self, news: News, now: Duration) {
        self.now = now;
        self.heard(news);
        self.consider_closing();
    }

    /// The host closed its end, or died. Nobody is denied by that: what is asked stays open elsewhere, and the agent's
    /// input stays open for the answers.
    pub fn host_closed(&mut self, now: Duration) {
        self.now = now;
        if std::mem::replace(&mut self.host_gone, true) {
            return;
        }
        if let Some(session) = self.session.clone().filter(|_| self.host_answers()) {
            self.errand(Errand::Detach { session });
        }
        for no in self.open_asks() {
            self.dialog_gone(no);
        }
        self.reply_for_host();
        self.consider_closing();
    }

    /// The agent was sent a signal that ends it, or its turn.
    pub fn signalled(&mut self, now: Duration) {
        self.now = now;
        self.signalled = true;
        self.stop_all();
    }

    /// The agent's process ended: whoever waits for it waits in vain.
    pub fn agent_ended(&mut self, end: End, now: Duration) {
        self.now = now;
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let orderly = end == End::Orderly || self.signalled || self.winding.contains(&None) || self.closed;
        let cause = if orderly { "session_ended" } else { "requester_gone" };
        for no in self.open_asks() {
            self.settle(no, Fate::Ended { cause, waits: false });
        }
        if orderly {
            self.observe(vec![Observation::SessionEnded {}]);
        }
        if let Some(session) = self.session.clone().filter(|_| self.host_answers()) {
            self.errand(Errand::Detach { session });
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        self.stop_waiting();
        for no in self.open_asks() {
            self.show_again(no);
            let Some(slot) = self.asks.get(&no) else { continue };
            let late = slot.askd != slot::Askd::Parked
                && slot.deciding_since().is_some_and(|since| now >= since + JOURNAL_PATIENCE);
            let lost = self.lost_until(slot).is_some_and(|until| now >= until);
            if late {
                self.log(format!(
                    "{}: askd did not write the answer down in time; it goes on",
                    self.named(no)
                ));
                self.settle_by_host(no, Proof::Waiting);
            } else if lost {
                self.limit_passed(no);
            }
        }
        self.consider_closing();
    }

    /// When [`Self::tick`] has something to do, on the clock of `now`.
    pub fn next_tick(&self) -> Option<Duration> {
        let slots = || self.open.iter().filter_map(|no| self.asks.get(no));
        let told = slots().filter(|slot| slot.askd != slot::Askd::Parked);
        let deciding = told.filter_map(Slot::deciding_since).min().map(|since| since + JOURNAL_PATIENCE);
        let lost = slots().filter_map(|slot| self.lost_until(slot)).min();
        let again = slots().filter_map(|slot| slot.again_at).min();
        let closing = self.closing_due().into_iter().chain(self.keeping_told_at()).min();
        [deciding, lost, again, self.stop_waiting_at(), closing].into_iter().flatten().min()
    }

    /// How many asks are remembered in full, and how many of them are open.
    pub fn held(&self) -> (usize, usize) {
        (self.asks.len(), self.open.len())
    }

    /// When an ask that only the daemon could answer waits no longer for one that is away. `None`: it waits. What the
    /// daemon took has the time that the journal gives it; without a deadline there is none.
    fn lost_until(&self, slot: &Slot) -> Option<Duration> {
        let since = slot.lost_since.filter(|_| slot.dialog == slot::Dialog::Closed)?;
        if slot.taken {
            slot.limit.map(|limit| limit.at.max(since))
        } else {
            Some(since + self.settings.unreached)
        }
    }

    fn host_answers(&self) -> bool {
        self.settings.host == HostKind::Answers
    }

    fn open_asks(&self) -> Vec<AskNo> {
        self.open.iter().copied().collect()
    }

    fn number(&mut self) -> AskNo {
        self.next += 1;
        self.next
    }

    fn errand(&mut self, errand: Errand) {
        self.out.push(Action::Daemon(errand));
    }

    fn log(&mut self, text: String) {
        self.out.push(Action::Log(text));
    }

    /// An ask for the log.
    fn named(&self, no: AskNo) -> String {
        match self.asks.get(&no) {
            Some(slot) => format!("ask {no} ({})", slot.tool),
            None => format!("ask {no}"),
        }
    }

    fn observe(&mut self, observations: Vec<Observation>) {
        let Some(session) = self.session.clone() else { return };
        let batch = ObservationBatch {
            agent: AGENT.to_owned(),
            session,
            parent: None,
            session_title: None,
            cwd: self.cwd.clone(),
            instance: self.settings.instance.clone(),
            place: None,
            observations,
        };
        self.errand(Errand::Observe(Box::new(batch)));
    }
}
