//! One world from its beginning to its end, and what must hold in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use askd_agents::acp::{Action, AskNo, Dismiss, Errand, Machine, Settings};
use askd_core::{Decision, Delivery, OutcomeKind};
use serde_json::{Value, json};

use super::base::{Base, Order};

/// A request of the agent.
#[derive(Default)]
pub(super) struct Request {
    pub(super) session: String,
    pub(super) ask: Option<AskNo>,
    /// What the machine gave the agent.
    pub(super) response: Option<Value>,
    /// Nothing may be allowed any more: the turn was cancelled, or the agent withdrew.
    pub(super) void: bool,
    /// Nobody has to answer it.
    pub(super) ended: bool,
}

/// The client's side of it.
#[derive(Default)]
pub(super) struct Dialog {
    pub(super) open: bool,
    /// The option that it chose.
    pub(super) chose: Option<String>,
}

pub(crate) struct World {
    pub(super) base: Base,
    pub(super) machine: Option<Machine>,
    pub(super) to_client: VecDeque<Vec<u8>>,
    pub(super) to_agent: VecDeque<Vec<u8>>,
    pub(super) requests: BTreeMap<u64, Request>,
    pub(super) dialogs: BTreeMap<u64, Dialog>,
    /// The agent's request that the machine looks at right now.
    pub(super) asking: Option<u64>,
    pub(super) prompt: Option<u64>,
    pub(super) ids: u64,
    pub(super) client_alive: bool,
    pub(super) agent_alive: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut base = Base::new(seed);
        let settings = Settings {
            dismiss: if base.dice.percent(30) { Dismiss::Cancel } else { Dismiss::Ignore },
            grace: Duration::from_secs(60),
            translate: false,
            mark: "m".to_owned(),
            agent: "agent".to_owned(),
            instance: None,
        };
        let mut world = Self {
            base,
            machine: Some(Machine::new(settings)),
            to_client: VecDeque::new(),
            to_agent: VecDeque::new(),
            requests: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            asking: None,
            prompt: None,
            ids: 100,
            client_alive: true,
            agent_alive: true,
        };
        world.client(&json!({"id":1,"method":"initialize","params":{"clientCapabilities":{"subagents":{}},"clientInfo":{"name":"client"}}}));
        world.agent(&json!({"id":1,"result":{"agentInfo":{"name":"agent"}}}));
        world.client(&json!({"id":2,"method":"session/new","params":{"cwd":"/w"}}));
        world.agent(&json!({"id":2,"result":{"sessionId":"s"}}));
        world.child("running", None);
        world
    }

    pub(crate) fn live(&mut self) {
        for _ in 0..250 {
            self.step();
        }
        self.drain();
    }

    fn step(&mut self) {
        match self.base.dice.below(100) {
            0..12 => self.agent_asks(),
            12..17 => self.agent_reads_or_withdraws(),
            17..30 => self.client_reads(),
            30..38 => self.client_answers(),
            38..41 => self.client_turns(),
            41..58 => self.base.thread_works(),
            58..68 => self.base.desk_works(),
            68..78 => self.base.observer_works(),
            78..90 => self.news_arrives(),
            90..93 => self.base.person_answers("ok", "no"),
            93..97 => {
                let ms = [5, 100, 700, 2500][self.base.dice.index(4)];
                self.pass(ms);
            }
            97 => self.base.daemon_dies_or_comes(),
            98 if self.base.dice.percent(15) => self.client_dies(),
            99 if self.base.dice.percent(8) => self.proxy_dies(),
            _ => {}
        }
    }

    // ---- lines

    pub(super) fn drive(&mut self, give: impl FnOnce(&mut Machine, Duration)) {
        let Some(machine) = &mut self.machine else { return };
        give(machine, self.base.now);
        for action in machine.take() {
            self.act(action);
        }
        self.asking = None;
    }

    pub(super) fn news_arrives(&mut self) {
        if let Some(news) = self.base.news() {
            self.drive(|machine, now| machine.news(news, now));
        }
    }

    pub(super) fn client(&mut self, message: &Value) {
        if self.client_alive {
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.client_line(line, now));
        }
    }

    pub(super) fn agent(&mut self, message: &Value) {
        if self.agent_alive {
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.agent_line(line, now));
        }
    }

    pub(super) fn child(&mut self, state: &str, reason: Option<&str>) {
        self.agent(&json!({"method":"session/update","params":{"sessionId":"s","update":
            {"sessionUpdate":"subagent_update","sessionId":"k","title":"child","state":{"state":state,"stopReason":reason}}}}));
    }

    fn act(&mut self, action: Action) {
        self.base.say(&format!("machine: {}", text(&action)));
        match action {
            Action::ToAgent(line) => {
                self.check(&line);
                self.to_agent.push_back(line);
            }
            Action::ToClient(line) => self.to_client.push_back(line),
            Action::Handed { ask } => self.base.order(ask, Order::Handed),
            Action::Daemon(errand) => {
                if let Errand::Raise { ask, .. } = &errand {
                    let request = self.asking.and_then(|id| self.requests.get_mut(&id)).unwrap();
                    request.ask = Some(*ask);
                }
                self.base.take(errand);
            }
            Action::Log(text) if text.contains("late answer") => {
                self.base.happen("the client's late answer was dropped")
            }
            Action::Log(text) if text.contains("in time") => self.base.happen("the journal was slow"),
            Action::CloseAgent => {
                self.agent_alive = false;
                for request in self.requests.values_mut() {
                    request.ended = true;
                }
                if let Some(machine) = &mut self.machine {
                    machine.agent_closed(self.base.now);
                    let actions = machine.take();
                    for action in actions {
                        self.act(action);
                    }
                }
            }
            _ => {}
        }
    }

    /// A response that leaves for the agent.
    fn check(&mut self, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).unwrap();
        let Some(id) = message["id"].as_u64().filter(|_| message.get("method").is_none()) else { return };
        let Some(request) = self.requests.get_mut(&id) else { return };
        let seed = self.base.seed;
        assert!(request.response.is_none(), "seed {seed}: request {id} is answered twice");
        request.response = Some(message.clone());
        let Some(option) = message["result"]["outcome"]["optionId"].as_str() else { return };
        let decision = if option == "no" { Decision::Deny } else { Decision::Allow };
        assert!(!request.void, "seed {seed}: request {id} is answered {option} although its turn is over");
        let key = request.ask.map(|no| self.base.threads[&no].raise.key.clone());
        let by_client = self.dialogs.get(&id).is_some_and(|dialog| dialog.chose.as_deref() == Some(option));
        let elsewhere = self.base.daemon.asks().any(|(_, state)| {
            Some(&state.ask.key) == key.as_ref()
                && state.outcome.as_ref().is_some_and(|outcome| {
                    outcome.kind == OutcomeKind::from(decision) && outcome.option.as_deref() == Some(option)
                })
        });
        assert!(by_client || elsewhere, "seed {seed}: nobody answered request {id} with {option}");
        let own_bytes = message["result"].get("own").is_some();
        assert!(!own_bytes || by_client, "seed {seed}");
        self.base.happen(if own_bytes { "the client's answer went on" } else { "another's answer went on" });
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.base.pass(ms);
        self.drive(|machine, now| {
            if machine.next_tick().is_some_and(|at| at <= now) {
                machine.tick(now);
            }
        });
    }

    /// Nothing goes wrong any more: everything comes to its end.
    fn drain(&mut self) {
        self.base.daemon.start();
        for round in 0..400 {
            self.base.threads_work();
            self.base.observer_works();
            self.base.desk_works();
            self.news_arrives();
            self.news_arrives();
            self.client_reads();
            if !self.to_agent.is_empty() {
                self.agent_reads_or_withdraws();
            }
            if round % 4 == 0 {
                self.client_answers();
                self.base.person_answers("ok", "no");
                self.pass(1_000);
            }
        }
        self.base.assert_all_over();
        let seed = self.base.seed;
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
        let key = &self.base.threads[&no].raise.key;
        let records: Vec<_> = self
            .base
            .daemon
            .asks()
            .filter(|(_, state)| state.ask.key.strip_suffix("-answered").unwrap_or(&state.ask.key) == key)
            .collect();
        let true_word = records.iter().any(|(_, state)| {
            state.outcome.as_ref().is_some_and(|outcome| outcome.kind == kind)
                || state.delivery == Delivery::Overtaken
                // A person's yes that the turn's end made void: it reached nobody, and the client's no did.
                || kind == OutcomeKind::Denied && state.delivery == Delivery::Voided
        });
        let told: Vec<_> = records
            .iter()
            .map(|(_, state)| (state.outcome.as_ref().map(|o| (o.kind, o.cause)), state.delivery))
            .collect();
        let seed = self.base.seed;
        assert!(true_word, "seed {seed}: request {id} was answered {option}, and the journal has {told:?}");
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::ToAgent(line) => format!("to the agent {}", String::from_utf8_lossy(line).trim()),
        Action::ToClient(line) => format!("to the client {}", String::from_utf8_lossy(line).trim()),
        Action::Daemon(Errand::Raise { ask, raise }) => format!("raises {ask}: {:?}", raise.tool_call),
        Action::Daemon(Errand::Observe(batch)) => {
            format!("observes {} {:?}", batch.session, batch.observations)
        }
        other => format!("{other:?}"),
    }
}
