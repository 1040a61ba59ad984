//! Lines of the agent.

use std::borrow::Cow;

use serde::Deserialize;

use super::super::ask::Call;
use super::super::message::{self, Id, Message};
use super::super::raw::Object;
use super::elicitation::Approval;
use super::session::Child;
use super::settle::Fate;
use super::{Dialect, Machine, Pending, agent_name};

/// What is looked at of every `session/update`, in one pass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: Tag<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tag<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
}

/// Updates that say something about sessions, calls or commands.
const READ_UPDATES: [&str; 8] = [
    "tool_call",
    "tool_call_update",
    "subagent_update",
    "subagent_spawned",
    "subagent_state_update",
    "session_message",
    "session_message_chunk",
    "available_commands_update",
];

/// What a request gets that its requester cancelled.
fn cancelled_response(id: &Id) -> Vec<u8> {
    let error = r#"{"code":-32800,"message":"Request cancelled"}"#;
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", id.text()).into_bytes()
}

impl Machine {
    pub(super) fn agent_said(&mut self, line: Vec<u8>) {
        if self.passes_unread_from_agent(&line) {
            return self.tell_client(line);
        }
        match message::look(&line) {
            Message::Request { id, method, params } => {
                self.id_given(&id);
                if method == "session/request_permission" {
                    let params = params.to_owned();
                    return self.asked(id, &params, line);
                }
                if method == "elicitation/create"
                    && let Some(approval) = Approval::read(params)
                {
                    return self.approval_asked(id, approval, line);
                }
            }
            Message::Notification { method, params } => match &*method {
                "session/update" => {
                    if let Some(instead) = self.updated(params) {
                        return if let Some(changed) = instead {
                            self.tell_client(changed)
                        };
                    }
                }
                "$/cancel_request" => {
                    let id = Object::parse(params).and_then(|p| Id::parse(p.get("requestId")?));
                    if let Some(id) = id
                        && let Some(no) = self.by_agent_id.get(&id.key()).copied()
                        && let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done())
                    {
                        // The line itself tells the client; what it responds is dropped.
                        slot.dialog_gone();
                        self.tell_agent(cancelled_response(&id));
                        self.settle(no, Fate::Ended { cause: "cancelled", tell_agent: false });
                    }
                }
                _ => {}
            },
            Message::Response { id, result } => {
                if let Some(pending) = self.pending.remove(&id.key()) {
                    let result = result.map(str::to_owned);
                    return self.answered_client(pending, &id, result.as_deref(), line);
                }
            }
            Message::Other => {}
        }
        self.tell_client(line);
    }

    /// Most of what an agent says is long and nobody's business.
    fn passes_unread_from_agent(&self, line: &[u8]) -> bool {
        let seen = message::glance(line);
        match (seen.method.as_deref(), seen.update.as_deref()) {
            (Some("session/update"), Some(kind)) => {
                let translated =
                    self.translates() && seen.session.is_none_or(|session| self.is_child(&session));
                !READ_UPDATES.contains(&kind) && !translated
            }
            (
                Some(
                    "session/update"
                    | "session/request_permission"
                    | "elicitation/create"
                    | "$/cancel_request",
                ),
                _,
            ) => false,
            // Any request may have an id that an ask had before.
            (Some(_), _) => match &seen.id {
                Some(id) => !self.by_agent_id.contains_key(&id.key()),
                None => self.by_agent_id.is_empty(),
            },
            (None, _) => seen.responds && seen.id.is_some_and(|id| !self.pending.contains_key(&id.key())),
        }
    }

    /// The agent's answer to a request that we remember. The line goes on before what we add to it.
    fn answered_client(&mut self, pending: Pending, id: &Id, result: Option<&str>, line: Vec<u8>) {
        match pending {
            Pending::Initialize => {
                let info = result.and_then(Object::parse).map(|r| r.object("agentInfo").text("name"));
                if let Some(name) = info.flatten().filter(|name| !name.is_empty()) {
                    self.agent = agent_name(&name);
                    self.dialect = Dialect::of(&name);
                }
                self.tell_client(line);
            }
            Pending::New { cwd } => {
                self.tell_client(line);
                if let Some(session) = result.and_then(Object::parse).and_then(|r| r.text("sessionId")) {
                    self.root_session(&session, cwd);
                }
            }
            Pending::Old { session, cwd } => {
                self.tell_client(line);
                if result.is_some() {
                    self.root_session(&session, cwd);
                }
            }
            Pending::Closed { session } => {
                self.tell_client(line);
                if result.is_some() {
                    self.closed(&session);
                }
            }
            Pending::Prompt { session } => {
                self.turn_over(&session, id);
                self.tell_client(line);
            }
        }
    }

    fn turn_over(&mut self, session: &str, id: &Id) {
        let key = id.key();
        let Some(known) = self.sessions.get_mut(session) else { return };
        known.ending.retain(|ending| *ending != key);
        let before = known.prompts.len();
        known.prompts.retain(|running| *running != key);
        if known.prompts.len() == before || !known.prompts.is_empty() {
            return;
        }
        self.forget_unknown_answers(session);
        // Children of other agents outlive the turn.
        if self.dialect == Dialect::OpenCode {
            self.forget_replies(session);
            self.end_asks(session, "cancelled");
        }
    }

    /// Learns from an update. `Some(None)`: it does not go on; `Some(Some(line))`: this line goes on in its place.
    #[expect(clippy::option_option, reason = "three ways to go on")]
    fn updated(&mut self, params: &str) -> Option<Option<Vec<u8>>> {
        let head: Head<'_> = serde_json::from_str(params).ok()?;
        let session = head.session_id.into_owned();
        let swallow = self.translates() && self.is_child(&session);
        match &*head.update.session_update {
            "tool_call" | "tool_call_update" => {
                let params = Object::parse(params)?;
                if let Some(call) = Call::read(&params.object("update")) {
                    self.call_told(&session, call);
                }
            }
            "subagent_update" | "subagent_spawned" | "subagent_state_update" => {
                let params = Object::parse(params)?;
                if let Some(child) = Child::read(&params.object("update")) {
                    self.child_told(&session, child);
                }
                return self.translates().then_some(None);
            }
            "session_message" | "session_message_chunk" if self.translates() => return Some(None),
            "available_commands_update" if !swallow && !self.is_child(&session) => {
                self.sessions.entry(session).or_default().has_commands = true;
                return super::commands::with_ours(params).map(Some);
            }
            _ => {}
        }
        swallow.then_some(None)
    }

    /// Children are shown to a client that does not know of child sessions.
    pub(super) fn translates(&self) -> bool {
        self.settings.translate && !self.client.subagents
    }
}
