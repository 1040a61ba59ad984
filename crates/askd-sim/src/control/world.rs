//! One world from its beginning to its end, and what must hold in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use askd_agents::claude::{Action, End, Errand, HostKind, Machine, Settings, StateLines};
use askd_core::{Cause, Decision, Delivery, OutcomeKind};
use serde_json::{Value, json};

use super::sides::{Dialog, Request};
use crate::proxy::base::{Base, Order};

pub(super) struct World {
    pub(super) base: Base,
    pub(super) machine: Option<Machine>,
    pub(super) to_host: VecDeque<Value>,
    pub(super) to_agent: VecDeque<Value>,
    pub(super) requests: BTreeMap<String, Request>,
    pub(super) dialogs: BTreeMap<String, Dialog>,
    pub(super) silent: bool,
    /// The agent tells whether it works.
    pub(super) tells: bool,
    pub(super) turn: bool,
    pub(super) task: bool,
    pub(super) ids: u64,
    pub(super) host_alive: bool,
    pub(super) agent_alive: bool,
    /// Something that stops everything was written and has no reply yet.
    pub(super) interrupts: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut base = Base::new(seed);
        let silent = base.dice.percent(20);
        let tells = base.dice.percent(60);
        let host =
            if silent { HostKind::Silent { attended: base.dice.percent(50) } } else { HostKind::Answers };
        let settings = Settings {
            mark: "m".to_owned(),
            host,
            instance: None,
            cwd: Some("/w".to_owned()),
            unreached: Duration::from_secs(360),
            shell_patience: None,
            state_lines: StateLines::None,
            resumes: false,
        };
        Self {
            base,
            machine: Some(Machine::new(settings)),
            to_host: VecDeque::new(),
            to_agent: VecDeque::new(),
            requests: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            silent,
            tells,
            turn: false,
            task: false,
            ids: 0,
            host_alive: true,
            agent_alive: true,
            interrupts: false,
        }
    }

    pub(super) fn live(&mut self) {
        for _ in 0..250 {
            self.step();
        }
        self.drain();
    }

    fn step(&mut self) {
        match self.base.dice.below(100) {
            0..12 => self.agent_asks(),
            12..22 => self.agent_reads(),
            22..25 => self.hook_decides(),
            25..27 => self.agent_goes_on(),
            27..37 => self.host_reads(),
            37..46 => self.host_answers(),
            46..49 => self.host_speaks(),
            49..64 => self.base.thread_works(),
            64..72 => self.base.desk_works(),
            72..80 => self.base.observer_works(),
            80..90 => self.news_arrives(),
            90..93 => self.base.person_answers("allow_once", "reject_once"),
            93..97 => {
                let ms = [5, 100, 700, 2500][self.base.dice.index(4)];
                self.pass(ms);
            }
            97 => self.base.daemon_dies_or_comes(),
            98 if self.base.dice.percent(20) => self.host_dies(),
            99 if self.base.dice.percent(6) => self.agent_dies(),
            99 if self.base.dice.percent(6) => self.wrapper_dies(),
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
    }

    pub(super) fn news_arrives(&mut self) {
        if let Some(news) = self.base.news() {
            self.drive(|machine, now| machine.news(news, now));
        }
    }

    pub(super) fn host(&mut self, message: &Value) {
        if self.host_alive {
            self.base.say(&format!("host: {message}"));
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.host_line(line, now));
        }
    }

    pub(super) fn agent(&mut self, message: &Value) {
        if self.agent_alive {
            self.base.say(&format!("agent: {message}"));
            let line = format!("{message}\n").into_bytes();
            self.drive(|machine, now| machine.agent_line(line, now));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ToAgent(line) => {
                let seed = self.base.seed;
                assert!(line.ends_with(b"\n"), "seed {seed}: a broken line");
                let message: Value = serde_json::from_slice(&line).unwrap();
                self.base.say(&format!("to the agent: {message}"));
                self.check(&message);
                self.to_agent.push_back(message);
            }
            Action::ToClient(line) => {
                let message: Value = serde_json::from_slice(&line).unwrap();
                let is_ask = message["request"]["subtype"] == "can_use_tool";
                assert!(
                    !(self.silent && is_ask),
                    "seed {}: a host that knows of no asks got one",
                    self.base.seed
                );
                self.to_host.push_back(message);
            }
            Action::Handed { ask } => self.base.order(ask, Order::Handed),
            Action::CloseAgent => self.closed(),
            Action::Log(text) => {
                self.base.say(&text);
                if text.contains("not write the answer down in time") {
                    self.base.happen("the journal was slow");
                } else if text.contains("late or doubled") || text.contains("too late") {
                    self.base.happen("a late answer of the host was dropped");
                }
            }
            Action::Daemon(errand) => self.errand(errand),
            Action::HiddenReply { .. } | Action::HiddenForget { .. } => unreachable!("it has no server"),
        }
    }

    fn errand(&mut self, errand: Errand) {
        self.base.say(&format!("errand: {}", told(&errand)));
        if let Errand::Raise { ask, raise } = &errand {
            let call = raise.tool_call.as_ref();
            let request = self.requests.values_mut().find(|request| Some(&request.call) == call).unwrap();
            request.asks.push(*ask);
        }
        self.base.take(errand);
    }

    /// The agent's input is closed: nothing may be waited for.
    fn closed(&mut self) {
        let seed = self.base.seed;
        for (id, request) in &self.requests {
            assert!(request.is_over(), "seed {seed}: the input is closed under request {id}");
        }
        assert!(!self.task, "seed {seed}: the input is closed under a task");
        assert!(!self.turn, "seed {seed}: the input is closed in a turn");
        let unread = self.to_agent.iter().any(|message| message["type"] == "user");
        assert!(!unread, "seed {seed}: the input is closed behind a message that has not been read");
        self.base.happen("the input was closed");
        self.agent_ends(End::Orderly);
    }

    pub(super) fn agent_ends(&mut self, end: End) {
        self.agent_alive = false;
        for request in self.requests.values_mut() {
            request.void = true;
        }
        let Some(machine) = &mut self.machine else { return };
        machine.agent_ended(end, self.base.now);
        for action in machine.take() {
            self.act(action);
        }
    }

    /// A line that leaves for the agent.
    fn check(&mut self, message: &Value) {
        let (seed, response) = (self.base.seed, &message["response"]);
        assert_ne!(response["subtype"], "error", "seed {seed}");
        let Some(id) = response["request_id"].as_str() else { return };
        let Some(request) = self.requests.get_mut(id) else { return };
        assert!(request.response.is_none(), "seed {seed}: request {id} is answered twice");
        request.response = Some(message.clone());
        let request = &self.requests[id];
        let answer = &response["response"];
        let decision = if answer["behavior"] == "allow" { Decision::Allow } else { Decision::Deny };
        let dialog = self.dialogs.get(id);
        let by_host = dialog.is_some_and(|dialog| dialog.chose == Some(decision));
        let keys: Vec<&String> = request.asks.iter().map(|no| &self.base.threads[no].raise.key).collect();
        let elsewhere = self.base.daemon.asks().any(|(_, state)| {
            keys.contains(&&state.ask.key)
                && state.outcome.as_ref().is_some_and(|outcome| outcome.kind == OutcomeKind::from(decision))
        });
        let words = answer["message"].as_str().unwrap_or_default();
        if decision == Decision::Allow {
            assert!(!request.void, "seed {seed}: request {id} is allowed although it is over");
            assert_eq!(answer["updatedInput"], request.input, "seed {seed}");
            assert!(by_host || elsewhere, "seed {seed}: nobody allowed request {id}");
        } else if words.contains("nobody could be asked") {
            let open = dialog.is_some_and(|dialog| dialog.open) && self.host_alive;
            assert!(!open, "seed {seed}: the host could still answer request {id}");
            self.base.happen("nobody was left");
            return;
        } else {
            assert!(by_host || elsewhere, "seed {seed}: nobody denied request {id}");
        }
        let own_bytes = answer.get("own").is_some();
        self.base.happen(if own_bytes { "the host's answer went on" } else { "another's answer went on" });
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
        for round in 0..600 {
            self.base.threads_work();
            self.base.observer_works();
            self.base.desk_works();
            self.news_arrives();
            self.news_arrives();
            self.host_reads();
            self.agent_reads();
            if round % 4 == 0 {
                self.host_answers();
                self.base.person_answers("allow_once", "reject_once");
                // A turn may follow on a message for minutes.
                self.pass(if round > 400 { 20_000 } else { 1_000 });
                self.agent_goes_on();
            }
            if round == 400 {
                self.host_dies();
            }
        }
        self.base.assert_all_over();
        let seed = self.base.seed;
        assert!(!self.agent_alive, "seed {seed}: the agent is not let go");
        if let Some(machine) = &self.machine {
            assert_eq!(machine.held().1, 0, "seed {seed}");
        }
        for (id, request) in &self.requests {
            assert!(request.is_over(), "seed {seed}: request {id} has no answer");
            self.check_record(id, request);
        }
    }

    /// What the journal says agrees with what the agent did, or says that the agent had gone on.
    fn check_record(&self, id: &str, request: &Request) {
        let Some(did) = request.did.filter(|_| self.machine.is_some()) else { return };
        let keys: Vec<&String> = request.asks.iter().map(|no| &self.base.threads[no].raise.key).collect();
        let records: Vec<_> = self
            .base
            .daemon
            .asks()
            .filter(|(_, state)| {
                keys.contains(&&state.ask.key.strip_suffix("-answered").unwrap_or(&state.ask.key).to_owned())
            })
            .map(|(_, state)| (state.outcome.as_ref().map(|o| (o.kind, o.cause)), state.delivery))
            .collect();
        let kind = OutcomeKind::from(did);
        let (seed, contrary) = (
            self.base.seed,
            match kind {
                OutcomeKind::Allowed => OutcomeKind::Denied,
                _ => OutcomeKind::Allowed,
            },
        );
        let corrected = records.iter().any(|(_, delivery)| *delivery == Delivery::Overtaken);
        let says = |kind| records.iter().any(|(outcome, _)| outcome.is_some_and(|(said, _)| said == kind));
        let ended = [Delivery::Voided, Delivery::Expired];
        let voided = records.iter().any(|(_, delivery)| ended.contains(delivery));
        // Written down as what the host said, with no daemon; that a hook crossed it came to the agent only.
        let hosts =
            records.iter().any(|(outcome, _)| outcome.is_some_and(|(_, cause)| cause == Cause::Agent));
        let voided =
            voided || (hosts && self.dialogs.get(id).is_some_and(|dialog| dialog.chose != Some(did)));
        assert!(
            !says(contrary) || says(kind) || corrected || voided,
            "seed {seed}: request {id} was {kind:?} at the agent, and the journal has {records:?}"
        );
        if request.ours {
            assert!(
                says(kind) || corrected,
                "seed {seed}: request {id} was {kind:?}, and the journal has {records:?}"
            );
        }
    }
}

pub(super) fn user() -> Value {
    json!({"type": "user", "message": {"role": "user", "content": "go"}})
}

fn told(errand: &Errand) -> String {
    match errand {
        Errand::Raise { ask, raise } => format!("raise {ask}: {:?}", raise.tool_call),
        Errand::Observe(batch) => format!("observe {:?}", batch.observations),
        other => format!("{other:?}"),
    }
}
