//! Lines from the agent.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::Action;
use super::super::message::Line;
use super::Machine;
use super::settle::Seen;
use crate::raw::Object;

/// A block of a message's content, as far as it matters.
#[derive(Debug, Deserialize)]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: String,
    /// Of a call.
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
    /// Of a result.
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
}

/// What newer versions tell of a result besides.
#[derive(Debug, Deserialize)]
struct Meta {
    id: String,
    #[serde(default)]
    permission_decision: Option<Decided>,
}

#[derive(Debug, Deserialize)]
struct Decided {
    decision: String,
    #[serde(default)]
    source: Option<String>,
}

impl Machine {
    pub(super) fn agent_said(&mut self, line: Vec<u8>) {
        let Some(read) = Line::read(&line) else { return self.tell_host(line) };
        if let Some(session) = &read.session {
            let init = read.subtype.as_deref() == Some("init");
            self.session_is(session.clone(), read.cwd.clone().filter(|_| init));
        }
        if !matches!(read.kind.as_str(), "control_response" | "keep_alive") {
            self.life.heard(self.now);
        }
        match (read.kind.as_str(), read.subtype.as_deref()) {
            ("control_request", _) => {
                let request = read.object("request");
                if request.text("subtype").as_deref() == Some("can_use_tool")
                    && let (Some(id), Some(request)) = (&read.request_id, read.get("request"))
                {
                    return self.asked(id.clone(), request, line);
                }
                if let Some(id) = &read.request_id
                    && self.wants_host(id, &request)
                {
                    return;
                }
            }
            ("control_cancel_request", _) => {
                if let Some(id) = &read.request_id {
                    self.host_has_replied(id);
                }
                if let Some(id) = &read.request_id
                    && let Some(no) = self.ids.get(id).copied()
                {
                    self.cancelled_by_agent(no);
                    if !self.host_answers() {
                        return;
                    }
                }
            }
            ("control_response", _) => {
                if let Some(id) = read.object("response").text("request_id") {
                    if self.replied(&id) {
                        return;
                    }
                    self.tell_host(line);
                    return self.stopped(&id);
                }
            }
            ("system", Some("session_state_changed")) => {
                if let Some(state) = read.text("state") {
                    self.life.told(state == "idle", self.now);
                }
                if !self.settings.state_lines.shows(read.get("sdk_host_only") == Some("true")) {
                    return;
                }
            }
            ("system", Some("init")) => self.life.began(self.now),
            ("system", Some("task_started")) => self.task_started(&read),
            ("system", Some("task_updated")) => self.task_updated(&read),
            ("system", Some("task_progress")) => {
                if let Some(id) = read.text("task_id") {
                    self.task_lives(&id, false);
                }
            }
            ("system", Some("task_notification")) => {
                if let Some(id) = read.text("task_id") {
                    let how = read.text("status");
                    self.task_notified(&id, how.as_deref().unwrap_or_default());
                }
            }
            ("assistant", _) => {
                if matches!(read.get("parent_tool_use_id"), None | Some("null")) {
                    self.life.goes_on(self.now);
                }
                self.calls(&read);
            }
            ("user", _) => self.results(&read),
            ("result", _) => {
                self.life.turn_ended(self.begins_turns(), self.now);
                self.tell_host(line);
                return self.turn_over();
            }
            _ => {}
        }
        self.tell_host(line);
    }

    /// Calls of a message that start something.
    fn calls(&mut self, line: &Line) {
        let message = line.object("message");
        let Some(blocks) = content(message.get("content")) else { return };
        for block in blocks {
            if block.kind == "tool_use"
                && let (Some(name), Some(id)) = (block.name, block.id)
                && let Some(input) = block.input.and_then(|raw| Object::parse(raw.get()))
            {
                self.calling(&name, id, &input);
            }
        }
    }

    /// Results of calls: what became of what was asked.
    fn results(&mut self, line: &Line) {
        let message = line.object("message");
        let Some(blocks) = content(message.get("content")) else { return };
        let meta: Vec<Meta> =
            line.get("tool_result_meta").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for block in blocks.into_iter().filter(|block| block.kind == "tool_result") {
            let Some(call) = block.tool_use_id else { continue };
            let decided = meta.iter().find(|meta| meta.id == call).and_then(|meta| {
                let decided = meta.permission_decision.as_ref()?;
                let allowed = match decided.decision.as_str() {
                    "accept" | "allow" => true,
                    "reject" | "deny" => false,
                    _ => return None,
                };
                Some((allowed, decided.source.clone()))
            });
            let failed = block.is_error == Some(true);
            self.call_over(&call, &Seen { failed, decided });
            self.spawned(&call);
            self.noted_over(&call, failed, block.content.map_or("", RawValue::get));
        }
    }

    pub(super) fn tell_host(&mut self, line: Vec<u8>) {
        self.out.push(Action::ToClient(line));
    }
}

/// The blocks of a content that is a list.
fn content(text: Option<&str>) -> Option<Vec<Block<'_>>> {
    let blocks: Vec<&RawValue> = serde_json::from_str(text?).ok()?;
    Some(blocks.into_iter().filter_map(|raw| serde_json::from_str(raw.get()).ok()).collect())
}
