//! A broker of the kind that has lost, doubled and invented answers, on purpose: it races hook against host in memory,
//! forgets a request in `finally` whatever came of it, takes the end of a stream for a no, and knows a response as a
//! duplicate only as long as its call is among the last 1 000.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::broker::Broker;
use crate::dice::Dice;

const REMEMBERED: usize = 1_000;

#[derive(Default)]
pub(super) struct Old {
    /// Request id → call and input.
    pending: BTreeMap<String, (String, Value)>,
    /// Call → request, for what people are shown. Nobody tells them what was forgotten.
    shown: BTreeMap<String, String>,
    /// The last calls that were answered.
    handled: VecDeque<String>,
    to_agent: VecDeque<Value>,
    to_host: VecDeque<Value>,
    closed: bool,
}

impl Old {
    fn respond(&mut self, request: &str, response: &Value) {
        // In `finally`: forgotten, whether or not anybody gets to hear of it.
        let Some((call, _)) = self.pending.remove(request) else { return };
        self.shown.remove(&call);
        self.handled.push_back(call);
        if self.handled.len() > REMEMBERED {
            self.handled.pop_front();
        }
        self.write(request, response);
    }

    fn write(&mut self, request: &str, response: &Value) {
        let response = json!({"subtype": "success", "request_id": request, "response": response});
        self.to_agent.push_back(json!({"type": "control_response", "response": response}));
    }

    fn deny_all(&mut self) {
        for request in self.pending.keys().cloned().collect::<Vec<_>>() {
            let why = "Tool permission request failed: stream closed before a response was received";
            self.respond(&request, &json!({"behavior": "deny", "message": why}));
        }
    }
}

impl Broker for Old {
    fn begin(&mut self, _life: u32, _resumes: bool) {
        self.closed = false;
    }

    fn agent_line(&mut self, line: &Value) {
        if line["type"] == "control_request" && line["request"]["subtype"] == "can_use_tool" {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let call = (text(&line["request"]["tool_use_id"]), line["request"]["input"].clone());
            self.shown.insert(call.0.clone(), text(&line["request_id"]));
            self.pending.insert(text(&line["request_id"]), call);
        } else if line["type"] == "control_cancel_request" {
            let gone = self.pending.remove(line["request_id"].as_str().unwrap_or_default());
            gone.map(|(call, _)| self.shown.remove(&call));
        }
        self.to_host.push_back(line.clone());
    }

    fn host_line(&mut self, line: &Value) {
        let response = &line["response"];
        let Some(request) = response["request_id"].as_str().filter(|_| line["type"] == "control_response")
        else {
            return self.to_agent.push_back(line.clone());
        };
        if response["subtype"] == "error" {
            let why = format!("Tool permission request failed: {}", response["error"]);
            return self.respond(request, &json!({"behavior": "deny", "message": why}));
        }
        if self.pending.contains_key(request) {
            return self.respond(request, &response["response"]);
        }
        // An orphan: nobody waits for it. Its call was handled, unless that is too long ago to be known.
        let call = response["response"]["toolUseID"].as_str().unwrap_or_default();
        if !self.handled.iter().any(|known| known == call) {
            self.write(request, &response["response"]);
        }
    }

    fn host_closed(&mut self) {
        self.closed = true;
        self.deny_all();
    }

    fn agent_ended(&mut self, _lost: bool) {
        self.pending.clear();
        self.shown.clear();
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
        self.shown.keys().cloned().collect()
    }

    fn person(&mut self, call: &str, allow: bool, _stop: bool) -> bool {
        let Some(request) = self.shown.remove(call) else { return false };
        // The loser of the race is told.
        self.to_host.push_back(json!({"type": "control_cancel_request", "request_id": request}));
        let input = self.pending.get(&request).map(|(_, input)| input.clone()).unwrap_or_default();
        let response = if allow {
            json!({"behavior": "allow", "updatedInput": input})
        } else {
            json!({"behavior": "deny", "message": "no"})
        };
        self.respond(&request, &response);
        true
    }

    fn work(&mut self, _dice: &mut Dice) {}

    fn pass(&mut self, _ms: u64) {}

    /// All of it was in memory.
    fn die_or_come(&mut self) {
        self.pending.clear();
    }

    fn go_away(&mut self) {
        self.die_or_come();
    }

    fn come_back(&mut self) {}

    fn refuses(&mut self, _refuses: bool) -> bool {
        false
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn held(&self) -> usize {
        self.pending.len() + self.handled.len()
    }
}
