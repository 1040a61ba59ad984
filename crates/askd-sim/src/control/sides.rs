//! The agent with its hooks and its task, the host, and everybody else.

use askd_agents::claude::End;
use askd_core::Decision;
use serde_json::{Value, json};

use super::world::{World, user};

/// A permission request of the agent.
pub(super) struct Request {
    pub(super) call: String,
    pub(super) input: Value,
    /// The task that asks; none: the main thread.
    task: bool,
    pub(super) asks: Vec<u64>,
    /// What the machine gave the agent.
    pub(super) response: Option<Value>,
    /// Nothing may be allowed any more, and nobody has to answer.
    pub(super) void: bool,
    /// What the agent did in the end.
    pub(super) did: Option<Decision>,
    /// It did so because of our response.
    pub(super) ours: bool,
}

impl Request {
    pub(super) fn is_over(&self) -> bool {
        self.response.is_some() || self.void
    }
}

/// The host's side of it.
#[derive(Default)]
pub(super) struct Dialog {
    pub(super) open: bool,
    pub(super) chose: Option<Decision>,
}

impl World {
    // ---- the agent

    pub(super) fn agent_asks(&mut self) {
        if !self.agent_alive || !(self.turn || self.task) {
            return;
        }
        self.ids += 1;
        let (id, call) = (format!("q{}", self.ids), format!("c{}", self.ids));
        let task = self.task && (!self.turn || self.base.dice.percent(40));
        let input = json!({"command": call, "n": self.ids});
        let mut asked =
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": call});
        if task {
            self.base.happen("a task's ask");
            asked["agent_id"] = "t".into();
        }
        let request = Request {
            call,
            input,
            task,
            asks: Vec::new(),
            response: None,
            void: false,
            did: None,
            ours: false,
        };
        self.requests.insert(id.clone(), request);
        self.agent(&json!({"type": "control_request", "request_id": id, "request": asked}));
    }

    pub(super) fn agent_reads(&mut self) {
        let Some(message) = self.to_agent.pop_front().filter(|_| self.agent_alive) else { return };
        match message["type"].as_str() {
            Some("user") => {
                self.turn = true;
                self.tell_state();
                self.agent(&json!({"type": "system", "subtype": "init", "session_id": "s"}));
                if !self.task && self.base.dice.percent(30) {
                    self.task = true;
                    self.agent(&json!({"type": "system", "subtype": "task_started", "task_id": "t", "session_id": "s",
                        "subagent_type": "k", "description": "task", "is_backgrounded": true}));
                }
            }
            Some("control_request") if message["request"]["subtype"] == "mcp_status" => {
                let response = json!({"subtype": "success", "request_id": message["request_id"]});
                self.agent(&json!({"type": "control_response", "response": response}));
            }
            Some("control_request") => {
                self.interrupts = false;
                let open: Vec<String> = self.open();
                for id in &open {
                    self.cancel(id);
                }
                self.end_task();
                self.agent(&json!({"type": "control_response", "response": {"subtype": "success", "request_id": message["request_id"]}}));
                for id in &open {
                    self.result(id, Decision::Deny, None);
                }
                if std::mem::take(&mut self.turn) {
                    self.agent(&json!({"type": "result", "session_id": "s"}));
                    self.tell_state();
                }
            }
            Some("control_response") => {
                let response = &message["response"];
                let id = response["request_id"].as_str().unwrap_or_default().to_owned();
                // What is over ignores it.
                if self.requests.get(&id).is_some_and(|request| request.did.is_none() && !request.void) {
                    let decision = if response["response"]["behavior"] == "allow" {
                        Decision::Allow
                    } else {
                        Decision::Deny
                    };
                    let request = self.requests.get_mut(&id).unwrap();
                    request.ours = !response["response"]["message"]
                        .as_str()
                        .is_some_and(|words| words.contains("nobody could be asked"));
                    self.result(&id, decision, Some("user"));
                }
            }
            _ => {}
        }
    }

    /// Some versions tell whether they work.
    pub(super) fn tell_state(&mut self) {
        if self.tells {
            let state = if self.turn || self.task { "running" } else { "idle" };
            self.agent(&json!({"type": "system", "subtype": "session_state_changed", "state": state,
                "session_id": "s"}));
        }
    }

    /// Requests that the agent waits for.
    fn open(&self) -> Vec<String> {
        let waits = |request: &Request| request.did.is_none() && !request.void;
        self.requests.iter().filter(|(_, r)| waits(r)).map(|(id, _)| id.clone()).collect()
    }

    /// From here on nothing may be allowed.
    fn cancel(&mut self, id: &str) {
        self.agent(&json!({"type": "control_cancel_request", "request_id": id}));
        self.requests.get_mut(id).unwrap().void = true;
    }

    fn result(&mut self, id: &str, did: Decision, source: Option<&str>) {
        let request = self.requests.get_mut(id).unwrap();
        request.did = Some(did);
        let (call, allowed) = (request.call.clone(), did == Decision::Allow);
        let block = json!({"type": "tool_result", "tool_use_id": call, "is_error": !allowed});
        let mut line = json!({"type": "user", "message": {"content": [block]}, "session_id": "s"});
        if let Some(source) = source {
            let decision = if allowed { "accept" } else { "reject" };
            line["tool_result_meta"] =
                json!([{"id": call, "permission_decision": {"decision": decision, "source": source}}]);
        }
        self.agent(&line);
    }

    /// A hook is first, as the agent sees it.
    pub(super) fn hook_decides(&mut self) {
        let open = self.open();
        if open.is_empty() || !self.agent_alive {
            return;
        }
        let id = open[self.base.dice.index(open.len())].clone();
        let did = if self.base.dice.percent(60) { Decision::Allow } else { Decision::Deny };
        self.base.happen(if self.requests[&id].response.is_some() {
            "a hook crossed an answer"
        } else {
            "a hook was first"
        });
        self.cancel(&id);
        self.result(&id, did, Some("hook"));
    }

    /// A turn, or the task, ends when nothing in it is asked.
    pub(super) fn agent_goes_on(&mut self) {
        let open = self.open();
        let asks = |task: bool| open.iter().any(|id| self.requests[id].task == task);
        if self.turn && !asks(false) {
            self.turn = false;
            self.agent(&json!({"type": "result", "session_id": "s"}));
            self.tell_state();
        } else if self.task && !asks(true) && !self.interrupts {
            self.end_task();
        }
    }

    fn end_task(&mut self) {
        if std::mem::take(&mut self.task) {
            self.agent(
                &json!({"type": "system", "subtype": "task_notification", "task_id": "t", "session_id": "s"}),
            );
            self.tell_state();
        }
    }

    // ---- the host

    pub(super) fn host_reads(&mut self) {
        let Some(message) = self.to_host.pop_front().filter(|_| self.host_alive) else { return };
        let id = message["request_id"].as_str().unwrap_or_default().to_owned();
        match message["type"].as_str() {
            Some("control_request") => {
                self.dialogs.insert(id, Dialog { open: true, chose: None });
            }
            Some("control_cancel_request") => {
                let Some(dialog) = self.dialogs.get_mut(&id).filter(|dialog| dialog.open) else { return };
                dialog.open = false;
                // It may have been on its way.
                if self.base.dice.percent(30) {
                    self.choose(&id, Decision::Allow);
                }
            }
            _ => {}
        }
    }

    fn choose(&mut self, id: &str, decision: Decision) {
        self.dialogs.get_mut(id).unwrap().chose = Some(decision);
        let answer = match decision {
            Decision::Allow if self.base.dice.percent(20) => json!({"behavior": "allow"}),
            Decision::Allow => {
                json!({"behavior": "allow", "updatedInput": self.requests[id].input, "own": true})
            }
            Decision::Deny => json!({"behavior": "deny", "message": "no", "own": true}),
        };
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        self.host(&json!({"type": "control_response", "response": response}));
        if self.base.dice.percent(5) {
            let other = json!({"behavior": "allow", "updatedInput": {"other": 1}});
            let response = json!({"subtype": "success", "request_id": id, "response": other});
            self.host(&json!({"type": "control_response", "response": response}));
        }
    }

    pub(super) fn host_answers(&mut self) {
        let open: Vec<String> =
            self.dialogs.iter().filter(|(_, d)| d.open).map(|(id, _)| id.clone()).collect();
        if open.is_empty() || !self.host_alive {
            return;
        }
        let id = open[self.base.dice.index(open.len())].clone();
        self.dialogs.get_mut(&id).unwrap().open = false;
        if !self.base.daemon.is_up() {
            self.base.happen("the answer came when the daemon was away");
        }
        match self.base.dice.below(10) {
            0..5 => self.choose(&id, Decision::Allow),
            5..8 => self.choose(&id, Decision::Deny),
            _ => {
                self.base.happen("the host failed");
                let response = json!({"subtype": "error", "request_id": id, "error": "?"});
                self.host(&json!({"type": "control_response", "response": response}));
            }
        }
    }

    pub(super) fn host_speaks(&mut self) {
        if !self.host_alive {
            return;
        }
        if self.turn && self.base.dice.percent(30) && !self.interrupts {
            self.base.happen("interrupted");
            self.interrupts = true;
            // What was not answered before may not be allowed by anything that comes.
            let open: Vec<String> =
                self.requests.iter().filter(|(_, r)| !r.is_over()).map(|(id, _)| id.clone()).collect();
            self.host(
                &json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}),
            );
            for id in open {
                assert!(self.requests[&id].response.is_none(), "seed {}", self.base.seed);
                self.requests.get_mut(&id).unwrap().asks.sort_unstable();
            }
        } else {
            self.host(&user());
        }
    }

    // ---- everybody else

    pub(super) fn host_dies(&mut self) {
        if !std::mem::take(&mut self.host_alive) {
            return;
        }
        self.base.happen("the host died");
        self.drive(|machine, now| machine.host_closed(now));
        self.dialogs.values_mut().for_each(|dialog| dialog.open = false);
    }

    pub(super) fn agent_dies(&mut self) {
        if self.agent_alive && self.machine.is_some() {
            self.base.happen("the agent died");
            self.agent_ends(End::Lost);
        }
    }

    pub(super) fn wrapper_dies(&mut self) {
        if self.machine.take().is_none() {
            return;
        }
        self.base.happen("the wrapper died");
        (self.agent_alive, self.host_alive) = (false, false);
        self.base.dies();
        self.requests.values_mut().for_each(|request| request.void = true);
    }
}
