//! What ships: the control protocol's machine, and core, writer and journal behind it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use askd_agents::claude::{
    Action, Answered, AskNo, End, Errand, HostKind, Machine, News, Settings, StateLines,
};
use askd_core::{
    Answer, AskId, BootId, Command, Decision, Hash256, Instance, LinkId, Observe, Refusal, Reply, SessionKey,
    Stamp,
};
use askd_journal::{Journal as _, MemoryJournal, MemoryStore};
use askd_serve::raise::{Arrival, raise, withdrawal};
use askd_serve::recall::recall;
use askd_serve::view::Shot;
use askd_wire::{Ask, ObservationBatch, RaiseAsk};
use askd_writer::{Ids, Writer};
use serde_json::Value;
use uuid::Uuid;

use super::Rule;
use super::broker::Broker;
use crate::dice::Dice;
use crate::proxy::seen;

const RETENTION_MS: i64 = 120_000;

struct Counted(u128);

impl Ids for Counted {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

/// An ask's thread of the wrapper.
struct Thread {
    raise: RaiseAsk,
    id: Option<AskId>,
    link: Option<LinkId>,
    orders: VecDeque<Order>,
    behind: u64,
    told_raised: bool,
    told_outcome: bool,
    /// askd will never take it.
    refused: bool,
}

enum Order {
    Withdraw(&'static str),
    Record(bool),
    Handed,
    Confirmed,
}

struct AnswerErrand {
    ask: AskNo,
    decision: Decision,
    option: Option<String>,
    stop: bool,
}

pub(super) struct Ours {
    machine: Option<Machine>,
    life: u32,
    store: MemoryStore,
    writer: Option<Writer<MemoryJournal>>,
    daemons: u128,
    now: Stamp,
    at: Duration,
    asked: u128,
    links: u64,
    threads: BTreeMap<AskNo, Thread>,
    answers: VecDeque<AnswerErrand>,
    observed: VecDeque<ObservationBatch>,
    made: u64,
    heard: u64,
    news: VecDeque<News>,
    to_agent: VecDeque<Value>,
    to_host: VecDeque<Value>,
    closed: bool,
    refuses: bool,
    /// What the machine is not told.
    without: Option<Rule>,
    /// Calls and tasks that it has not heard of.
    hidden: BTreeSet<String>,
    started: BTreeSet<String>,
}

impl Ours {
    pub(super) fn new(without: Option<Rule>) -> Self {
        let now = Stamp { boot: BootId(Uuid::from_u128(1)), boot_ms: 1_000_000, wall_ms: 1_800_000_000_000 };
        let mut ours = Self {
            machine: None,
            life: 0,
            store: MemoryStore::new(),
            writer: None,
            daemons: 0,
            now,
            at: Duration::ZERO,
            asked: 0,
            links: 0,
            threads: BTreeMap::new(),
            answers: VecDeque::new(),
            observed: VecDeque::new(),
            made: 0,
            heard: 0,
            news: VecDeque::new(),
            to_agent: VecDeque::new(),
            to_host: VecDeque::new(),
            closed: false,
            refuses: false,
            without,
            hidden: BTreeSet::new(),
            started: BTreeSet::new(),
        };
        ours.come_back();
        ours
    }

    fn token(&self) -> Hash256 {
        Hash256::of(format!("wrapper {}", self.life).as_bytes())
    }

    fn link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }

    fn run(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let Some(writer) = &mut self.writer else {
            return Err(Refusal::NotRecorded("the daemon is down".to_owned()));
        };
        let mut batched = writer.run(std::slice::from_ref(command), self.now).unwrap();
        writer.released().unwrap();
        batched.replies.pop().unwrap()
    }

    fn look(&self, id: AskId) -> Option<Ask> {
        let writer = self.writer.as_ref()?;
        let state = writer.state();
        let shot = match state.ask(id) {
            Some(ask) => Shot { root: state.root_of(ask.session()), ask: ask.clone() },
            None => recall(writer.journal(), id, self.now).ok()??,
        };
        Some(shot.view())
    }

    fn drive(&mut self, give: impl FnOnce(&mut Machine, Duration)) {
        let Some(machine) = &mut self.machine else { return };
        give(machine, self.at);
        for action in machine.take() {
            self.act(action);
        }
    }

    /// Whether the machine is to hear nothing of this line of the agent.
    fn hides(&mut self, line: &Value) -> bool {
        let Some(rule) = self.without else { return false };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let block = &line["message"]["content"][0];
        let (call, task) = (text(&line["tool_use_id"]), text(&line["task_id"]));
        let tool = |name: &str| block["name"] == name;
        let hides = match (rule, line["type"].as_str(), line["subtype"].as_str()) {
            (Rule::Resumed, Some("assistant"), _) => tool("SendMessage"),
            (Rule::WakeUps, Some("assistant"), _) => tool("ScheduleWakeup"),
            (Rule::Monitors, Some("assistant"), _) => tool("Monitor"),
            (Rule::Monitors, _, Some("task_started")) => self.hidden.contains(&call),
            (Rule::Shells, _, Some("task_started")) => task.starts_with("shell"),
            (Rule::Children, _, Some("task_started")) => task.starts_with("task"),
            (Rule::Resumed, _, Some("task_started")) => !self.started.insert(task),
            (Rule::Ends, _, Some("task_notification")) => true,
            (Rule::Works, _, Some("session_state_changed")) => line["state"] != "idle",
            (Rule::Idle, _, Some("session_state_changed")) => line["state"] == "idle",
            (Rule::HostRequests, Some("control_request"), _) => line["request"]["subtype"] != "can_use_tool",
            _ => false,
        };
        if hides && block["type"] == "tool_use" {
            self.hidden.insert(text(&block["id"]));
        }
        hides
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ToAgent(line) if self.without == Some(Rule::Question) && asks(&line).is_some() => {
                // As if it had replied.
                let id = asks(&line).unwrap();
                let line = serde_json::json!({"type": "control_response", "response": {
                    "subtype": "success", "request_id": id, "response": {}}});
                let line = format!("{line}\n").into_bytes();
                self.drive(|machine, now| machine.agent_line(line, now));
            }
            Action::ToAgent(line) => self.to_agent.push_back(serde_json::from_slice(&line).unwrap()),
            Action::ToClient(line) => self.to_host.push_back(serde_json::from_slice(&line).unwrap()),
            Action::Handed { ask } => self.order(ask, Order::Handed),
            Action::Daemon(errand) => self.take(errand),
            Action::CloseAgent => self.closed = true,
            Action::Log(text) => {
                // For looking at one seed.
                if std::env::var_os("TELL").is_some() {
                    eprintln!("{} log: {text}", self.life);
                }
            }
            Action::HiddenReply { .. } => {}
        }
    }

    fn order(&mut self, ask: AskNo, order: Order) {
        if let Some(thread) = self.threads.get_mut(&ask) {
            thread.orders.push_back(order);
        }
    }

    fn take(&mut self, errand: Errand) {
        match errand {
            Errand::Raise { ask, raise } => {
                let thread = Thread {
                    raise: *raise,
                    id: None,
                    link: None,
                    orders: VecDeque::new(),
                    behind: self.made,
                    told_raised: false,
                    told_outcome: false,
                    refused: false,
                };
                self.threads.insert(ask, thread);
            }
            Errand::Answer { ask, decision, option, stop, .. } => {
                let decision = match decision {
                    askd_wire::Decision::Allow => Decision::Allow,
                    askd_wire::Decision::Deny => Decision::Deny,
                };
                self.answers.push_back(AnswerErrand { ask, decision, option, stop });
            }
            Errand::Withdraw { ask, cause } => self.order(ask, Order::Withdraw(cause)),
            Errand::Confirmed { ask } => self.order(ask, Order::Confirmed),
            Errand::Record { ask, allowed } => self.order(ask, Order::Record(allowed)),
            Errand::Observe(batch) => {
                self.made += 1;
                self.observed.push_back(*batch);
            }
            Errand::Shown { .. }
            | Errand::Unable { .. }
            | Errand::CountOthers { .. }
            | Errand::Attach { .. }
            | Errand::Detach { .. }
            | Errand::Slash { .. } => {}
        }
    }

    fn raise(&mut self, from: &RaiseAsk, link: LinkId) -> Result<AskId, Refusal> {
        self.asked += 1;
        let instance = Instance { host: "here".to_owned(), pid: self.life, start: self.life.into() };
        let arrival = Arrival {
            id: AskId(Uuid::from_u128(self.asked)),
            token: self.token(),
            link,
            instance: Some(instance),
            place: None,
        };
        let command = raise(from.clone(), arrival).unwrap();
        match self.run(&Command::Raise(Box::new(command)))? {
            Reply::Raised(id) | Reply::Reattached(id) => Ok(id),
            other => panic!("a raise gives {other:?}"),
        }
    }

    fn observe(&mut self, batch: &ObservationBatch) {
        let session = SessionKey { agent: batch.agent.clone(), session: batch.session.clone() };
        for observation in &batch.observations {
            let observe = Observe {
                by: askd_core::Voice::All,
                session: session.clone(),
                parent: None,
                title: None,
                cwd: None,
                instance: None,
                place: None,
                seen: seen(observation.clone()),
            };
            self.run(&Command::Observe(Box::new(observe))).unwrap();
        }
    }

    fn thread_works(&mut self, no: AskNo, dice: &mut Dice) {
        let up = self.writer.is_some();
        let Some(thread) = self.threads.get_mut(&no) else { return };
        if let Some(order) = thread.orders.front() {
            let needs_nobody = matches!(order, Order::Withdraw(_)) && thread.id.is_none();
            if up || needs_nobody {
                let order = thread.orders.pop_front().unwrap();
                self.obey(no, order);
            }
            return;
        }
        if thread.refused {
            return;
        }
        if !up {
            if thread.id.is_none() || !thread.told_raised {
                self.news.push_back(News::Unavailable { ask: no, why: "no daemon".to_owned() });
            }
            return;
        }
        if thread.link.is_none() {
            if self.heard < thread.behind {
                return;
            }
            if self.refuses && thread.id.is_none() {
                thread.refused = true;
                return self.news.push_back(News::Refused { ask: no, why: "it is too large".to_owned() });
            }
            let from = thread.raise.clone();
            let link = self.link();
            let Ok(id) = self.raise(&from, link) else { return };
            if dice.percent(3) {
                // The reply is lost with its connection: it is raised, and the wrapper does not know.
                let _ = self.run(&Command::LinkClosed { link });
                return;
            }
            let thread = self.threads.get_mut(&no).unwrap();
            (thread.id, thread.link) = (Some(id), Some(link));
            if !std::mem::replace(&mut thread.told_raised, true) {
                self.news.push_back(News::Raised { ask: no, timed: None });
            }
            return;
        }
        if let Some(id) = thread.id.filter(|_| !thread.told_outcome)
            && let Some(outcome) = self.look(id).and_then(|ask| ask.outcome)
        {
            self.threads.get_mut(&no).unwrap().told_outcome = true;
            self.news.push_back(News::Outcome { ask: no, outcome: Box::new(outcome) });
        }
    }

    fn obey(&mut self, no: AskNo, order: Order) {
        let token = self.token();
        let thread = &self.threads[&no];
        let (from, id) = (thread.raise.clone(), thread.id);
        let over = match order {
            Order::Withdraw(cause) => {
                let known = || self.writer.as_ref()?.state().of_requester(token, &from.key);
                if let Some(ask) = id.or_else(known) {
                    let cause = withdrawal(cause).unwrap();
                    let _ = self.run(&Command::Withdraw { ask, token, cause });
                }
                true
            }
            Order::Handed => {
                let _ = id.map(|ask| self.run(&Command::Handed { ask, token }));
                false
            }
            Order::Confirmed => {
                let _ = id.map(|ask| self.run(&Command::Confirmed { ask, token }));
                true
            }
            Order::Record(allowed) => {
                let link = self.link();
                let own = askd_wire::OwnPrompt { at: "host".to_owned(), blocked: false };
                let mut from = RaiseAsk { needs_own_prompt: true, own_prompt: Some(own), ..from };
                let raised = self.raise(&from, link).unwrap();
                let undecided =
                    |ask: Ask| ask.outcome.is_some_and(|o| o.outcome == askd_wire::OutcomeKind::Withdrawn);
                if self.look(raised).is_some_and(undecided) {
                    from.key.push_str("-answered");
                    self.raise(&from, link).unwrap();
                }
                self.observe(&ObservationBatch {
                    agent: from.agent.clone(),
                    session: from.session.clone(),
                    parent: None,
                    session_title: None,
                    cwd: None,
                    instance: None,
                    place: None,
                    observations: vec![askd_wire::Observation::OwnPromptAnswered {
                        call: from.tool_call.clone().unwrap(),
                        allowed,
                    }],
                });
                let _ = self.run(&Command::LinkClosed { link });
                true
            }
        };
        if over
            && let Some(thread) = self.threads.remove(&no)
            && let Some(link) = thread.link
        {
            let _ = self.run(&Command::LinkClosed { link });
        }
    }

    fn answer_works(&mut self) {
        let Some(AnswerErrand { ask: no, decision, option, stop }) = self.answers.pop_front() else { return };
        let id = self.threads.get(&no).and_then(|thread| thread.id).filter(|_| self.writer.is_some());
        let how = match id {
            None => Answered::Unreachable,
            Some(id) => match self.answer(id, decision, option, stop, "host") {
                Ok(_) => Answered::Won,
                Err(Refusal::AlreadySettled(_)) => {
                    Answered::Lost(Box::new(self.look(id).unwrap().outcome.unwrap()))
                }
                Err(_) => Answered::Unreachable,
            },
        };
        self.news.push_back(News::Answered { ask: no, how });
    }

    fn answer(
        &mut self,
        id: AskId,
        decision: Decision,
        option: Option<String>,
        stop: bool,
        surface: &str,
    ) -> Result<Reply, Refusal> {
        let digest = match self.look(id) {
            Some(ask) => ask.digest.parse().unwrap(),
            None => return Err(Refusal::UnknownAsk),
        };
        self.run(&Command::Answer(Answer {
            ask: id,
            digest,
            decision,
            option,
            message: (decision == Decision::Deny).then(|| format!("{surface} says no")),
            stop,
            surface: surface.to_owned(),
            remote: false,
            by: None,
            refused: None,
        }))
    }

    fn observer_works(&mut self) {
        if self.writer.is_none() {
            return;
        }
        if let Some(batch) = self.observed.pop_front() {
            self.observe(&batch);
        }
        self.heard = self.made - self.observed.len() as u64;
    }
}

/// The id of the machine's question whether everything was read.
fn asks(line: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let id = line["request_id"].as_str().filter(|_| line["request"]["subtype"] == "mcp_status");
    id.map(str::to_owned)
}

impl Broker for Ours {
    fn begin(&mut self, life: u32, resumes: bool) {
        self.life = life;
        self.closed = false;
        self.hidden.clear();
        self.started.clear();
        self.machine = Some(Machine::new(Settings {
            mark: format!("life-{life}"),
            host: HostKind::Answers,
            instance: None,
            cwd: Some("/w".to_owned()),
            unreached: Duration::from_secs(360),
            shell_patience: None,
            state_lines: StateLines::None,
            resumes,
        }));
    }

    fn agent_line(&mut self, line: &Value) {
        if self.hides(line) {
            return self.to_host.push_back(line.clone());
        }
        let line = format!("{line}\n").into_bytes();
        self.drive(|machine, now| machine.agent_line(line, now));
    }

    fn host_line(&mut self, line: &Value) {
        let line = format!("{line}\n").into_bytes();
        self.drive(|machine, now| machine.host_line(line, now));
    }

    fn host_closed(&mut self) {
        self.drive(|machine, now| machine.host_closed(now));
    }

    fn agent_ended(&mut self, lost: bool) {
        self.drive(|machine, now| machine.agent_ended(if lost { End::Lost } else { End::Orderly }, now));
        // The wrapper tells what it knows before it ends; it waits for a daemon that is away.
        self.come_back();
        for _ in 0..3 {
            while !self.observed.is_empty() {
                self.observer_works();
            }
            while !self.answers.is_empty() {
                self.answer_works();
            }
            for no in self.threads.keys().copied().collect::<Vec<_>>() {
                while let Some(order) = self.threads.get_mut(&no).and_then(|thread| thread.orders.pop_front())
                {
                    self.obey(no, order);
                }
            }
        }
        for (_, thread) in std::mem::take(&mut self.threads) {
            if let Some(link) = thread.link {
                let _ = self.run(&Command::LinkClosed { link });
            }
        }
        self.machine = None;
        self.news.clear();
        self.to_agent.clear();
        self.to_host.clear();
    }

    fn to_agent(&mut self) -> Option<Value> {
        self.to_agent.pop_front()
    }

    fn to_host(&mut self) -> Option<Value> {
        self.to_host.pop_front()
    }

    fn open(&self) -> Vec<String> {
        let Some(writer) = &self.writer else { return Vec::new() };
        let open = writer.state().open().filter(|(_, state)| !state.is_handed_back());
        open.filter_map(|(_, state)| state.call().map(str::to_owned)).collect()
    }

    fn person(&mut self, call: &str, allow: bool, stop: bool) -> bool {
        let Some(writer) = &self.writer else { return false };
        let found = writer.state().open().find(|(_, state)| state.call() == Some(call));
        let Some(id) = found.map(|(id, _)| id) else { return false };
        let decision = if allow { Decision::Allow } else { Decision::Deny };
        self.answer(id, decision, None, stop, "terminal").is_ok()
    }

    fn work(&mut self, dice: &mut Dice) {
        match dice.below(8) {
            0..3 if !self.threads.is_empty() => {
                let live: Vec<AskNo> = self.threads.keys().copied().collect();
                let no = *dice.pick(&live);
                self.thread_works(no, dice);
            }
            3 => self.answer_works(),
            4 => self.observer_works(),
            _ => {
                if let Some(news) = self.news.pop_front() {
                    self.drive(|machine, now| machine.news(news, now));
                }
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.at += Duration::from_millis(ms);
        self.now.boot_ms += ms;
        self.now.wall_ms += i64::try_from(ms).unwrap();
        if self.writer.is_some() {
            let _ = self.run(&Command::Tick);
        }
        self.drive(|machine, now| {
            if machine.next_tick().is_some_and(|at| at <= now) {
                machine.tick(now);
            }
        });
        // As a daemon does once a day. The journal is in memory here, and is not what must stay flat.
        let before = self.now.wall_ms - RETENTION_MS;
        if let Some(writer) = &mut self.writer {
            let _ = writer.journal_mut().prune(before, 1000);
        }
    }

    fn die_or_come(&mut self) {
        if self.writer.take().is_some() {
            self.threads.values_mut().for_each(|thread| thread.link = None);
        } else {
            self.come_back();
        }
    }

    fn go_away(&mut self) {
        if self.writer.is_some() {
            self.die_or_come();
        }
    }

    fn refuses(&mut self, refuses: bool) -> bool {
        self.refuses = refuses;
        true
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn come_back(&mut self) {
        if self.writer.is_none() {
            self.daemons += 1;
            // A timed or overflow answer is nobody's word; here only people and the host speak.
            let settings = askd_core::Settings { queue_cap: 0, ..askd_core::Settings::default() };
            let ids = Box::new(Counted(self.daemons << 64));
            self.writer =
                Some(Writer::open(self.store.open(), settings, ids, Box::new(()), self.now).unwrap());
        }
    }

    fn held(&self) -> usize {
        let asks = self.writer.as_ref().map_or(0, |writer| writer.state().asks().count());
        let machine = self.machine.as_ref().map_or(0, |machine| machine.held().0);
        asks + machine + self.threads.len() + self.news.len() + self.observed.len()
    }
}
