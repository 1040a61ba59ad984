//! One world from its beginning to its end, and what must hold in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use askd_agents::acp::{Action, Answered, AskNo, Dismiss, Machine, News, Settings};
use askd_core::{AskId, Command, Decision, Delivery, LinkId, OutcomeKind, Refusal};
use askd_wire::{Observation, ObservationBatch, RaiseAsk};
use serde_json::{Value, json};

use super::daemon::Daemon;
use crate::dice::Dice;

/// An ask's thread of the proxy.
struct Thread {
    raise: RaiseAsk,
    id: Option<AskId>,
    link: Option<LinkId>,
    orders: VecDeque<Order>,
    /// Observations that go first.
    behind: u64,
    told_raised: bool,
    told_outcome: bool,
    over: bool,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Withdraw(&'static str),
    Record(bool),
    Handed,
    Confirmed,
}

enum Job {
    Answer { ask: AskNo, decision: Decision, option: String },
    CountOthers { ask: AskNo },
}

/// A request of the agent.
#[derive(Default)]
struct Request {
    session: String,
    ask: Option<AskNo>,
    /// What the machine gave the agent.
    response: Option<Value>,
    /// Nothing may be allowed any more: the turn was cancelled, or the agent withdrew.
    void: bool,
    /// Nobody has to answer it.
    ended: bool,
}

/// The client's side of it.
#[derive(Default)]
struct Dialog {
    open: bool,
    /// The option that it chose.
    chose: Option<String>,
}

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    machine: Option<Machine>,
    daemon: Daemon,
    now: Duration,
    threads: BTreeMap<AskNo, Thread>,
    desk: VecDeque<Job>,
    observed: VecDeque<ObservationBatch>,
    made: u64,
    heard: u64,
    news: [VecDeque<News>; 2],
    to_client: VecDeque<Vec<u8>>,
    to_agent: VecDeque<Vec<u8>>,
    requests: BTreeMap<u64, Request>,
    dialogs: BTreeMap<u64, Dialog>,
    /// The agent's request that the machine looks at right now.
    asking: Option<u64>,
    prompt: Option<u64>,
    ids: u64,
    client_alive: bool,
    agent_alive: bool,
    pub(crate) happened: BTreeSet<&'static str>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let settings = Settings {
            dismiss: if dice.percent(30) { Dismiss::Cancel } else { Dismiss::Ignore },
            grace: Duration::from_secs(60),
            translate: false,
            mark: "m".to_owned(),
            agent: "agent".to_owned(),
            instance: None,
        };
        let mut world = Self {
            seed,
            dice,
            machine: Some(Machine::new(settings)),
            daemon: Daemon::new(),
            now: Duration::ZERO,
            threads: BTreeMap::new(),
            desk: VecDeque::new(),
            observed: VecDeque::new(),
            made: 0,
            heard: 0,
            news: Default::default(),
            to_client: VecDeque::new(),
            to_agent: VecDeque::new(),
            requests: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            asking: None,
            prompt: None,
            ids: 100,
            client_alive: true,
            agent_alive: true,
            happened: BTreeSet::new(),
        };
        world.client(&json!({"id":1,"method":"initialize","params":{"clientCapabilities":{"subagents":{}},"clientInfo":{"name":"client"}}}));
        world.agent(&json!({"id":1,"result":{"agentInfo":{"name":"agent"}}}));
        world.client(&json!({"id":2,"method":"session/new","params":{"cwd":"/w"}}));
        world.agent(&json!({"id":2,"result":{"sessionId":"s"}}));
        world.child("running", None);
        world
    }

    /// For looking at one world.
    fn say(&self, what: &str) {
        if std::env::var_os("TELL").is_some() {
            eprintln!("{:?} {what}", self.now);
        }
    }

    pub(crate) fn live(&mut self) {
        for _ in 0..250 {
            self.step();
        }
        self.drain();
    }

    fn happen(&mut self, what: &'static str) {
        self.happened.insert(what);
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..12 => self.agent_asks(),
            12..17 => self.agent_reads_or_withdraws(),
            17..30 => self.client_reads(),
            30..38 => self.client_answers(),
            38..41 => self.client_turns(),
            41..58 => self.thread_works(),
            58..68 => self.desk_works(),
            68..78 => self.observer_works(),
            78..90 => self.news_arrives(),
            90..93 => self.person_answers(),
            93..97 => {
                let ms = [5, 100, 700, 2500][self.dice.index(4)];
                self.pass(ms);
            }
            97 => self.daemon_dies_or_comes(),
            98 if self.dice.percent(15) => self.client_dies(),
            99 if self.dice.percent(8) => self.proxy_dies(),
            _ => {}
        }
    }

    // ---- lines

    fn drive(&mut self, give: impl FnOnce(&mut Machine, Duration)) {
        let Some(machine) = &mut self.machine else { return };
        give(machine, self.now);
        for action in machine.take() {
            self.act(action);
        }
        self.asking = None;
    }

    fn client(&mut self, message: &Value) {
        if self.client_alive {
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.client_line(line, now));
        }
    }

    fn agent(&mut self, message: &Value) {
        if self.agent_alive {
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.agent_line(line, now));
        }
    }

    fn child(&mut self, state: &str, reason: Option<&str>) {
        self.agent(&json!({"method":"session/update","params":{"sessionId":"s","update":
            {"sessionUpdate":"subagent_update","sessionId":"k","title":"child","state":{"state":state,"stopReason":reason}}}}));
    }

    fn act(&mut self, action: Action) {
        self.say(&format!("machine: {}", text(&action)));
        match action {
            Action::ToAgent(line) => {
                self.check(&line);
                self.to_agent.push_back(line);
            }
            Action::ToClient(line) => self.to_client.push_back(line),
            Action::Raise { ask, raise } => {
                let request = self.asking.and_then(|id| self.requests.get_mut(&id)).unwrap();
                request.ask = Some(ask);
                let thread = Thread {
                    raise: *raise,
                    id: None,
                    link: None,
                    orders: VecDeque::new(),
                    behind: self.made,
                    told_raised: false,
                    told_outcome: false,
                    over: false,
                };
                self.threads.insert(ask, thread);
            }
            Action::Answer { ask, decision, option, .. } => {
                let decision = match decision {
                    askd_wire::Decision::Allow => Decision::Allow,
                    askd_wire::Decision::Deny => Decision::Deny,
                };
                self.desk.push_back(Job::Answer { ask, decision, option });
            }
            Action::CountOthers { ask, .. } => self.desk.push_back(Job::CountOthers { ask }),
            Action::Withdraw { ask, cause } => self.order(ask, Order::Withdraw(cause)),
            Action::Record { ask, allowed } => self.order(ask, Order::Record(allowed)),
            Action::Handed { ask } => self.order(ask, Order::Handed),
            Action::Confirmed { ask } => self.order(ask, Order::Confirmed),
            Action::Observe(batch) => {
                self.made += 1;
                self.observed.push_back(*batch);
            }
            Action::Log(text) if text.contains("late answer") => {
                self.happen("the client's late answer was dropped")
            }
            Action::Log(text) if text.contains("in time") => self.happen("the journal was slow"),
            Action::CloseAgent => {
                self.agent_alive = false;
                for request in self.requests.values_mut() {
                    request.ended = true;
                }
                if let Some(machine) = &mut self.machine {
                    machine.agent_closed(self.now);
                    let actions = machine.take();
                    for action in actions {
                        self.act(action);
                    }
                }
            }
            _ => {}
        }
    }

    fn order(&mut self, ask: AskNo, order: Order) {
        self.threads.get_mut(&ask).unwrap().orders.push_back(order);
    }

    /// A response that leaves for the agent.
    fn check(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).unwrap();
        let Some(id) = message["id"].as_u64().filter(|_| message.get("method").is_none()) else { return };
        let Some(request) = self.requests.get_mut(&id) else { return };
        let seed = self.seed;
        assert!(request.response.is_none(), "seed {seed}: request {id} is answered twice");
        request.response = Some(message.clone());
        let Some(option) = message["result"]["outcome"]["optionId"].as_str() else { return };
        let decision = if option == "no" { Decision::Deny } else { Decision::Allow };
        assert!(!request.void, "seed {seed}: request {id} is answered {option} although its turn is over");
        let key = request.ask.map(|no| self.threads[&no].raise.key.clone());
        let by_client = self.dialogs.get(&id).is_some_and(|dialog| dialog.chose.as_deref() == Some(option));
        let elsewhere = self.daemon.asks().any(|(_, state)| {
            Some(&state.ask.key) == key.as_ref()
                && state.outcome.as_ref().is_some_and(|outcome| {
                    outcome.kind == OutcomeKind::from(decision) && outcome.option.as_deref() == Some(option)
                })
        });
        assert!(by_client || elsewhere, "seed {seed}: nobody answered request {id} with {option}");
        let own_bytes = message["result"].get("own").is_some();
        assert!(!own_bytes || by_client, "seed {seed}");
        self.happen(if own_bytes { "the client's answer went on" } else { "another's answer went on" });
    }

    // ---- the agent

    fn agent_asks(&mut self) {
        if !self.agent_alive || self.prompt.is_none() {
            return;
        }
        self.ids += 1;
        let id = self.ids;
        let session = if self.dice.percent(40) { "k" } else { "s" };
        if session == "k" {
            self.happen("a child's ask");
        }
        self.requests.insert(id, Request { session: session.to_owned(), ..Request::default() });
        self.asking = Some(id);
        self.agent(&json!({"id":id,"method":"session/request_permission","params":{"sessionId":session,
            "toolCall":{"toolCallId":format!("c{id}"),"title":format!("run {id}"),"rawInput":{"n":id}},
            "options":[{"optionId":"ok","name":"Yes","kind":"allow_once"},{"optionId":"ever","name":"Ever","kind":"allow_always"},
                {"optionId":"no","name":"No","kind":"reject_once"}]}}));
    }

    fn agent_reads_or_withdraws(&mut self) {
        if let Some(line) = self.to_agent.pop_front() {
            let message: Value = serde_json::from_slice(&line).unwrap();
            if message["method"] == "session/cancel" {
                if let Some(id) = self.prompt.take() {
                    self.agent(&json!({"id":id,"result":{"stopReason":"cancelled"}}));
                }
            } else if let Some(id) = message["id"].as_u64().filter(|_| message.get("method").is_none()) {
                let option = message["result"]["outcome"]["optionId"].as_str();
                let status = if matches!(option, Some("ok" | "ever")) { "completed" } else { "failed" };
                let session = self.requests.get(&id).map(|r| r.session.clone()).unwrap_or_default();
                self.agent(&json!({"method":"session/update","params":{"sessionId":session,"update":
                    {"sessionUpdate":"tool_call_update","toolCallId":format!("c{id}"),"status":status}}}));
            }
            return;
        }
        let open: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, r)| r.response.is_none() && !r.ended)
            .map(|(id, _)| *id)
            .collect();
        if open.is_empty() || !self.dice.percent(30) || !self.agent_alive {
            return;
        }
        if self.dice.percent(60) {
            let id = open[self.dice.index(open.len())];
            self.happen("withdrawn by the agent");
            self.agent(&json!({"method":"$/cancel_request","params":{"requestId":id}}));
            self.end(|_, at| at == id);
        } else {
            self.child("idle", Some("end_turn"));
            self.end(|request, _| request.session == "k");
            self.child("running", None);
        }
    }

    /// These are over: no answer of anybody runs anything any more.
    fn end(&mut self, which: impl Fn(&Request, u64) -> bool) {
        for (id, request) in &mut self.requests {
            if which(request, *id) {
                request.void = request.void || request.response.is_none();
                request.ended = true;
            }
        }
    }

    // ---- the client

    fn client_reads(&mut self) {
        if !self.client_alive {
            return;
        }
        let Some(line) = self.to_client.pop_front() else { return };
        let message: Value = serde_json::from_slice(&line).unwrap();
        match message["method"].as_str() {
            Some("session/request_permission") => {
                let id = message["id"].as_u64().unwrap();
                self.dialogs.insert(id, Dialog { open: true, chose: None });
            }
            Some("$/cancel_request") => {
                let id = message["params"]["requestId"].as_u64().unwrap();
                let Some(dialog) = self.dialogs.get_mut(&id).filter(|dialog| dialog.open) else { return };
                dialog.open = false;
                match self.dice.below(4) {
                    0 => self.client(&json!({"id":id,"result":{"outcome":{"outcome":"cancelled"}}})),
                    1 => self.client(&json!({"id":id,"error":{"code":-32800,"message":"Request cancelled"}})),
                    2 => self.choose(id, "ok"),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn choose(&mut self, id: u64, option: &str) {
        self.dialogs.get_mut(&id).unwrap().chose = Some(option.to_owned());
        self.client(
            &json!({"id":id,"result":{"outcome":{"outcome":"selected","optionId":option},"own":true}}),
        );
    }

    fn client_answers(&mut self) {
        let open: Vec<u64> = self.dialogs.iter().filter(|(_, d)| d.open).map(|(id, _)| *id).collect();
        if open.is_empty() || !self.client_alive {
            return;
        }
        let id = open[self.dice.index(open.len())];
        self.dialogs.get_mut(&id).unwrap().open = false;
        if !self.daemon.is_up() {
            self.happen("the answer came when the daemon was away");
        }
        match self.dice.below(10) {
            0..4 => self.choose(id, "ok"),
            4..5 => self.choose(id, "ever"),
            5..8 => self.choose(id, "no"),
            8 => {
                self.happen("dismissed");
                self.client(&json!({"id":id,"result":{"outcome":{"outcome":"cancelled"}}}));
            }
            _ => self.client(&json!({"id":id,"error":{"code":-32603,"message":"?"}})),
        }
    }

    fn client_turns(&mut self) {
        if !self.client_alive {
            return;
        }
        if self.prompt.is_none() {
            self.ids += 1;
            let id = self.ids;
            self.prompt = Some(id);
            self.client(&json!({"id":id,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}));
        } else if self.dice.percent(25) {
            self.happen("cancelled");
            // What was not answered before may not be allowed by anything that comes.
            self.end(|request, _| request.response.is_none());
            self.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
        }
    }

    // ---- the proxy's threads

    fn thread_works(&mut self) {
        let live: Vec<AskNo> = self.threads.iter().filter(|(_, t)| !t.over).map(|(no, _)| *no).collect();
        if live.is_empty() || self.machine.is_none() {
            return;
        }
        let no = live[self.dice.index(live.len())];
        self.work(no);
    }

    fn work(&mut self, no: AskNo) {
        let up = self.daemon.is_up();
        let thread = self.threads.get_mut(&no).unwrap();
        if let Some(order) = thread.orders.front().copied() {
            // What nobody there has heard of needs nobody there.
            let needs_nobody = matches!(order, Order::Withdraw(_)) && thread.id.is_none();
            if !up && !needs_nobody {
                return;
            }
            thread.orders.pop_front();
            let first = !thread.told_outcome;
            self.obey(no, order);
            let thread = self.threads.get_mut(&no).unwrap();
            thread.over = first || matches!(order, Order::Withdraw(_) | Order::Confirmed);
            if thread.over
                && let Some(link) = thread.link.take()
            {
                let _ = self.daemon.run(&Command::LinkClosed { link });
            }
            return;
        }
        if !up {
            if thread.id.is_none() || !thread.told_raised {
                self.news[0].push_back(News::Unavailable { ask: no, why: "no daemon".to_owned() });
            }
            return;
        }
        if thread.link.is_none() {
            if self.heard < thread.behind {
                return;
            }
            let raise = thread.raise.clone();
            let link = self.daemon.link();
            let raised = self.daemon.raise(&raise, link, false).unwrap();
            if self.dice.percent(5) {
                // Written down, and the reply is lost.
                let _ = self.daemon.run(&Command::LinkClosed { link });
                if !self.threads[&no].told_raised {
                    self.news[0].push_back(News::Unavailable { ask: no, why: "lost".to_owned() });
                }
                return;
            }
            let thread = self.threads.get_mut(&no).unwrap();
            (thread.id, thread.link) = (Some(raised), Some(link));
            if !std::mem::replace(&mut thread.told_raised, true) {
                self.news[0].push_back(News::Raised { ask: no, timed: None });
            }
            return;
        }
        if let Some(id) = thread.id.filter(|_| !thread.told_outcome)
            && let Some(outcome) = self.daemon.outcome(id)
        {
            thread.told_outcome = true;
            self.news[0].push_back(News::Outcome { ask: no, outcome: Box::new(outcome) });
        }
    }

    fn obey(&mut self, no: AskNo, order: Order) {
        let thread = &self.threads[&no];
        let (raise, token) = (thread.raise.clone(), Daemon::token());
        self.say(&format!("ask {no} obeys {order:?}"));
        match order {
            Order::Withdraw(cause) => {
                let known = thread.id.or_else(|| self.daemon.core().of_requester(token, &raise.key));
                let cause = match cause {
                    "cancelled" => askd_core::Cause::Cancelled,
                    "session_ended" => askd_core::Cause::SessionEnded,
                    "superseded" => askd_core::Cause::Superseded,
                    _ => askd_core::Cause::RequesterGone,
                };
                if let Some(ask) = known.filter(|_| self.daemon.is_up()) {
                    let _ = self.daemon.run(&Command::Withdraw { ask, token, cause });
                }
            }
            Order::Handed => {
                if let Some(ask) = thread.id {
                    let _ = self.daemon.run(&Command::Handed { ask, token });
                }
            }
            Order::Confirmed => {
                if let Some(ask) = thread.id {
                    let _ = self.daemon.run(&Command::Confirmed { ask, token });
                }
            }
            Order::Record(allowed) => {
                self.happen("recorded afterwards");
                let link = self.daemon.link();
                let ask = self.daemon.raise(&raise, link, true).unwrap();
                let undecided =
                    self.daemon.outcome(ask).is_some_and(|o| o.outcome == askd_wire::OutcomeKind::Withdrawn);
                if undecided {
                    let again = RaiseAsk { key: format!("{}-answered", raise.key), ..raise.clone() };
                    self.daemon.raise(&again, link, true).unwrap();
                }
                self.daemon.observe(&ObservationBatch {
                    agent: raise.agent.clone(),
                    session: raise.session.clone(),
                    parent: raise.parent.clone(),
                    session_title: None,
                    cwd: None,
                    instance: None,
                    place: None,
                    observations: vec![Observation::OwnPromptAnswered {
                        call: raise.tool_call.clone().unwrap(),
                        allowed,
                    }],
                });
                let _ = self.daemon.run(&Command::LinkClosed { link });
            }
        }
    }

    fn desk_works(&mut self) {
        if self.machine.is_none() {
            return;
        }
        match self.desk.pop_front() {
            Some(Job::Answer { ask, decision, option }) => {
                let id = self.threads[&ask].id.filter(|_| self.daemon.is_up());
                let how = match id.map(|id| (id, self.daemon.answer(id, &option, decision, "client"))) {
                    None => Answered::Unreachable,
                    Some(_) if self.dice.percent(10) => {
                        self.happen("the reply to an answer was lost");
                        Answered::Unreachable
                    }
                    Some((_, Ok(()))) => Answered::Won,
                    Some((id, Err(Refusal::AlreadySettled(_)))) => {
                        Answered::Lost(Box::new(self.daemon.outcome(id).unwrap()))
                    }
                    Some((_, Err(_))) => Answered::Unreachable,
                };
                self.news[1].push_back(News::Answered { ask, how });
            }
            Some(Job::CountOthers { ask }) => {
                let attached = self.dice.percent(50);
                self.news[1].push_back(News::Others { ask, attached });
            }
            None => {}
        }
    }

    fn observer_works(&mut self) {
        let Some(batch) = self.observed.pop_front() else { return };
        let cancels = batch.observations.iter().any(|o| matches!(o, Observation::TurnCancelled { .. }));
        let ends =
            cancels || batch.observations.iter().any(|o| matches!(o, Observation::SubagentEnded { .. }));
        if ends && self.daemon.is_up() {
            let recording = |t: &Thread| t.orders.iter().any(|order| matches!(order, Order::Record(_)));
            let first: Vec<AskNo> =
                self.threads.iter().filter(|(_, t)| !t.over && recording(t)).map(|(no, _)| *no).collect();
            for no in first {
                while !self.threads[&no].over && recording(&self.threads[&no]) {
                    self.work(no);
                }
            }
        }
        if self.daemon.is_up() {
            self.daemon.observe(&batch);
        } else if !cancels {
            self.observed.push_front(batch);
            self.heard = self.made;
            return;
        }
        self.heard = self.made - self.observed.len() as u64;
    }

    fn news_arrives(&mut self) {
        let which = self.dice.index(2);
        let news = match self.news[which].pop_front() {
            Some(news) => Some(news),
            None => self.news[1 - which].pop_front(),
        };
        if let Some(news) = news {
            self.say(&format!("news: {news:?}"));
            self.drive(|machine, now| machine.news(news, now));
        }
    }

    // ---- everybody else

    fn person_answers(&mut self) {
        let open: Vec<AskId> = self.daemon.core().open().map(|(id, _)| id).collect();
        if open.is_empty() || !self.daemon.is_up() {
            return;
        }
        let id = open[self.dice.index(open.len())];
        let (option, decision) =
            if self.dice.percent(60) { ("ok", Decision::Allow) } else { ("no", Decision::Deny) };
        // Only the agent's own prompt can answer some of them.
        let _ = self.daemon.answer(id, option, decision, "terminal");
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.daemon.pass(ms);
        self.drive(|machine, now| {
            if machine.next_tick().is_some_and(|at| at <= now) {
                machine.tick(now);
            }
        });
    }

    fn daemon_dies_or_comes(&mut self) {
        if !self.daemon.is_up() {
            self.daemon.start();
            return;
        }
        self.happen("the daemon died");
        self.daemon.die();
        self.threads.values_mut().for_each(|thread| thread.link = None);
    }

    fn client_dies(&mut self) {
        if !self.client_alive || self.machine.is_none() {
            return;
        }
        self.happen("the client died");
        self.drive(|machine, now| machine.client_closed(now));
        self.client_alive = false;
        self.dialogs.values_mut().for_each(|dialog| dialog.open = false);
    }

    fn proxy_dies(&mut self) {
        if self.machine.take().is_none() {
            return;
        }
        self.happen("the proxy died");
        (self.agent_alive, self.client_alive) = (false, false);
        for thread in self.threads.values_mut() {
            thread.over = true;
            if let Some(link) = thread.link.take() {
                let _ = self.daemon.run(&Command::LinkClosed { link });
            }
        }
        self.requests.values_mut().for_each(|request| request.ended = true);
    }

    /// Nothing goes wrong any more: everything comes to its end.
    fn drain(&mut self) {
        self.daemon.start();
        for round in 0..400 {
            for no in self.threads.iter().filter(|(_, t)| !t.over).map(|(no, _)| *no).collect::<Vec<_>>() {
                if self.machine.is_some() {
                    self.work(no);
                }
            }
            self.observer_works();
            self.desk_works();
            self.news_arrives();
            self.news_arrives();
            self.client_reads();
            if !self.to_agent.is_empty() {
                self.agent_reads_or_withdraws();
            }
            if round % 4 == 0 {
                self.client_answers();
                self.person_answers();
                self.pass(1_000);
            }
        }
        let seed = self.seed;
        let open: Vec<_> =
            self.daemon.core().open().map(|(_, state)| state.ask.action.title.clone()).collect();
        assert!(open.is_empty(), "seed {seed}: still open at askd: {open:?}");
        if self.client_alive {
            let open: Vec<_> =
                self.dialogs.iter().filter(|(_, dialog)| dialog.open).map(|(id, _)| id).collect();
            assert!(open.is_empty(), "seed {seed}: dialogs left open: {open:?}");
        }
        for (id, request) in &self.requests {
            assert!(request.ended || request.response.is_some(), "seed {seed}: request {id} has no answer");
            self.check_record(*id, request);
        }
    }

    /// What the journal says agrees with what the agent was told, or says that the agent had gone on.
    fn check_record(&self, id: u64, request: &Request) {
        let (Some(no), Some(response)) = (request.ask, &request.response) else { return };
        let Some(option) = response["result"]["outcome"]["optionId"].as_str() else { return };
        if self.machine.is_none() {
            return;
        }
        let kind = if option == "no" { OutcomeKind::Denied } else { OutcomeKind::Allowed };
        let key = &self.threads[&no].raise.key;
        let records: Vec<_> = self
            .daemon
            .asks()
            .filter(|(_, state)| state.ask.key.strip_suffix("-answered").unwrap_or(&state.ask.key) == key)
            .collect();
        let true_word = records.iter().any(|(_, state)| {
            state.outcome.as_ref().is_some_and(|outcome| outcome.kind == kind)
                || state.delivery == Delivery::Overtaken
        });
        let told: Vec<_> = records
            .iter()
            .map(|(_, state)| (state.outcome.as_ref().map(|o| (o.kind, o.cause)), state.delivery))
            .collect();
        let seed = self.seed;
        assert!(true_word, "seed {seed}: request {id} was answered {option}, and the journal has {told:?}");
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::ToAgent(line) => format!("to the agent {}", String::from_utf8_lossy(line).trim()),
        Action::ToClient(line) => format!("to the client {}", String::from_utf8_lossy(line).trim()),
        Action::Raise { ask, raise } => format!("raises {ask}: {:?}", raise.tool_call),
        Action::Observe(batch) => format!("observes {} {:?}", batch.session, batch.observations),
        other => format!("{other:?}"),
    }
}
