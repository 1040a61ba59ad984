//! The agent, the client, the person at another surface, and how each of them dies.

use serde_json::{Value, json};

use super::world::{Dialog, Request, World};

impl World {
    pub(super) fn agent_asks(&mut self) {
        if !self.agent_alive || self.prompt.is_none() {
            return;
        }
        self.ids += 1;
        let id = self.ids;
        let session = if self.base.dice.percent(40) { "k" } else { "s" };
        if session == "k" {
            self.base.happen("a child's ask");
        }
        self.requests.insert(id, Request { session: session.to_owned(), ..Request::default() });
        self.asking = Some(id);
        self.agent(&json!({"id":id,"method":"session/request_permission","params":{"sessionId":session,
            "toolCall":{"toolCallId":format!("c{id}"),"title":format!("run {id}"),"rawInput":{"n":id}},
            "options":[{"optionId":"ok","name":"Yes","kind":"allow_once"},{"optionId":"ever","name":"Ever","kind":"allow_always"},
                {"optionId":"no","name":"No","kind":"reject_once"}]}}));
    }

    pub(super) fn agent_reads_or_withdraws(&mut self) {
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
        if open.is_empty() || !self.base.dice.percent(30) || !self.agent_alive {
            return;
        }
        if self.base.dice.percent(60) {
            let id = open[self.base.dice.index(open.len())];
            self.base.happen("withdrawn by the agent");
            self.agent(&json!({"method":"$/cancel_request","params":{"requestId":id}}));
            self.end(|_, at| at == id);
        } else {
            self.child("idle", Some("end_turn"));
            self.end(|request, _| request.session == "k");
            self.child("running", None);
        }
    }

    /// These are over: no answer of anybody runs anything any more.
    pub(super) fn end(&mut self, which: impl Fn(&Request, u64) -> bool) {
        for (id, request) in &mut self.requests {
            if which(request, *id) {
                request.void = request.void || request.response.is_none();
                request.ended = true;
            }
        }
    }

    pub(super) fn client_reads(&mut self) {
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
                match self.base.dice.below(4) {
                    0 => self.client(&json!({"id":id,"result":{"outcome":{"outcome":"cancelled"}}})),
                    1 => self.client(&json!({"id":id,"error":{"code":-32800,"message":"Request cancelled"}})),
                    2 => self.choose(id, "ok"),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    pub(super) fn choose(&mut self, id: u64, option: &str) {
        self.dialogs.get_mut(&id).unwrap().chose = Some(option.to_owned());
        self.client(
            &json!({"id":id,"result":{"outcome":{"outcome":"selected","optionId":option},"own":true}}),
        );
    }

    pub(super) fn client_answers(&mut self) {
        let open: Vec<u64> = self.dialogs.iter().filter(|(_, d)| d.open).map(|(id, _)| *id).collect();
        if open.is_empty() || !self.client_alive {
            return;
        }
        let id = open[self.base.dice.index(open.len())];
        self.dialogs.get_mut(&id).unwrap().open = false;
        if !self.base.daemon.is_up() {
            self.base.happen("the answer came when the daemon was away");
        }
        match self.base.dice.below(10) {
            0..4 => self.choose(id, "ok"),
            4..5 => self.choose(id, "ever"),
            5..8 => self.choose(id, "no"),
            8 => {
                self.base.happen("dismissed");
                self.client(&json!({"id":id,"result":{"outcome":{"outcome":"cancelled"}}}));
            }
            _ => self.client(&json!({"id":id,"error":{"code":-32603,"message":"?"}})),
        }
    }

    pub(super) fn client_turns(&mut self) {
        if !self.client_alive {
            return;
        }
        if self.prompt.is_none() {
            self.ids += 1;
            let id = self.ids;
            self.prompt = Some(id);
            self.client(&json!({"id":id,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}));
        } else if self.base.dice.percent(25) {
            self.base.happen("cancelled");
            // What was not answered before may not be allowed by anything that comes.
            self.end(|request, _| request.response.is_none());
            self.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
        }
    }

    pub(super) fn client_dies(&mut self) {
        if !self.client_alive || self.machine.is_none() {
            return;
        }
        self.base.happen("the client died");
        self.drive(|machine, now| machine.client_closed(now));
        self.client_alive = false;
        self.dialogs.values_mut().for_each(|dialog| dialog.open = false);
    }

    pub(super) fn proxy_dies(&mut self) {
        if self.machine.take().is_none() {
            return;
        }
        self.base.happen("the proxy died");
        (self.agent_alive, self.client_alive) = (false, false);
        self.base.dies();
        self.requests.values_mut().for_each(|request| request.ended = true);
    }
}
