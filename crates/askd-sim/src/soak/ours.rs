//! What ships: the control protocol's machine, with what stands between it and the daemon in every world of a proxy.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use askd_agents::claude::{Action, End, HostKind, Machine, Settings, StateLines};
use askd_core::Decision;
use serde_json::Value;

use super::Rule;
use super::broker::Broker;
use crate::dice::Dice;
use crate::proxy::base::{Base, Order};
use crate::proxy::daemon::{Daemon, Words};

/// Finished asks that are remembered; their threads have long heard of them.
const REMEMBERED: usize = 100;

pub(super) struct Ours {
    base: Base,
    machine: Option<Machine>,
    life: u32,
    to_agent: VecDeque<Value>,
    to_host: VecDeque<Value>,
    closed: bool,
    /// What the machine is not told.
    without: Option<Rule>,
    /// Calls and tasks that it has not heard of.
    hidden: BTreeSet<String>,
    started: BTreeSet<String>,
}

impl Ours {
    pub(super) fn new(seed: u64, without: Option<Rule>) -> Self {
        // A timed or overflow answer is nobody's word; here only people and the host speak.
        let settings = askd_core::Settings { queue_cap: 0, ..askd_core::Settings::default() };
        Self {
            base: Base::before(seed, Daemon::with(settings)),
            machine: None,
            life: 0,
            to_agent: VecDeque::new(),
            to_host: VecDeque::new(),
            closed: false,
            without,
            hidden: BTreeSet::new(),
            started: BTreeSet::new(),
        }
    }

    fn drive(&mut self, give: impl FnOnce(&mut Machine, Duration)) {
        let Some(machine) = &mut self.machine else { return };
        give(machine, self.base.now);
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
            Action::Handed { ask } => self.base.order(ask, Order::Handed),
            Action::Daemon(errand) => self.base.take(errand),
            Action::CloseAgent => self.closed = true,
            Action::Log(text) => self.base.say(&text),
            Action::HiddenReply { .. } | Action::HiddenForget { .. } => {}
        }
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
        self.base.daemon.next_life();
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
        self.base.has_told_all();
        self.machine = None;
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
        if !self.base.daemon.is_up() {
            return Vec::new();
        }
        let open = self.base.daemon.core().open().filter(|(_, state)| !state.is_handed_back());
        open.filter_map(|(_, state)| state.call().map(str::to_owned)).collect()
    }

    fn person(&mut self, call: &str, allow: bool, stop: bool) -> bool {
        let found = self.base.daemon.core().open().find(|(_, state)| state.call() == Some(call));
        let Some(id) = found.map(|(id, _)| id).filter(|_| self.base.daemon.is_up()) else { return false };
        let decision = if allow { Decision::Allow } else { Decision::Deny };
        let message = (!allow).then(|| "terminal says no".to_owned());
        let words = Words { message, stop, ..Words::default() };
        self.base.daemon.answer_with(id, decision, words, "terminal").is_ok()
    }

    fn work(&mut self, dice: &mut Dice) {
        match dice.below(8) {
            0..3 => self.base.thread_works(),
            3 => self.base.desk_works(),
            4 => self.base.observer_works(),
            _ => {
                if let Some(news) = self.base.news() {
                    self.drive(|machine, now| machine.news(news, now));
                }
            }
        }
        self.base.forget_over();
    }

    fn pass(&mut self, ms: u64) {
        self.base.pass(ms);
        self.drive(|machine, now| {
            if machine.next_tick().is_some_and(|at| at <= now) {
                machine.tick(now);
            }
        });
        self.base.daemon.prune(REMEMBERED);
    }

    fn die_or_come(&mut self) {
        self.base.daemon_dies_or_comes();
    }

    fn go_away(&mut self) {
        if self.base.daemon.is_up() {
            self.die_or_come();
        }
    }

    fn refuses(&mut self, refuses: bool) -> bool {
        self.base.refuses = refuses;
        true
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn come_back(&mut self) {
        self.base.daemon.start();
    }

    fn held(&self) -> usize {
        self.base.held() + self.machine.as_ref().map_or(0, |machine| machine.held().0)
    }
}
