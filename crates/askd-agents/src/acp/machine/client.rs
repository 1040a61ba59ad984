//! Lines of the client.

use askd_wire::Observation;

use super::super::act::Dismiss;
use super::super::ask::decision_of;
use super::super::message::{self, Id, Message};
use super::super::raw::Object;
use super::settle::Fate;
use super::slot::{Askd, ClientAnswer, Dialog, Form, Left, Origin, State};
use super::{ENDING_PATIENCE, Machine, Pending};
use crate::proxy::Action;

/// Methods of the client that are looked at.
const READ_METHODS: [&str; 10] = [
    "initialize",
    "session/new",
    "session/fork",
    "session/load",
    "session/resume",
    "session/prompt",
    "session/close",
    "session/delete",
    "session/cancel",
    "$/cancel_request",
];

impl Machine {
    pub(super) fn client_said(&mut self, line: Vec<u8>) {
        if self.passes_unread_from_client(&line) {
            return self.tell_agent(line);
        }
        match message::look(&line) {
            Message::Request { id, method, params } => match &*method {
                "initialize" => {
                    self.client_told(params);
                    self.pending.insert(id.key(), Pending::Initialize);
                    if let Some(changed) = self.with_subagents(&id, params) {
                        return self.tell_agent(changed);
                    }
                }
                "session/new" | "session/fork" => {
                    let cwd = Object::parse(params).and_then(|p| p.text("cwd"));
                    self.pending.insert(id.key(), Pending::New { cwd });
                }
                "session/load" | "session/resume" => {
                    let Some(params) = Object::parse(params) else { return self.tell_agent(line) };
                    if let Some(session) = params.text("sessionId") {
                        // Whatever was open belongs to the life before.
                        self.end_asks(&session, "superseded");
                        let cwd = params.text("cwd");
                        self.pending.insert(id.key(), Pending::Old { session, cwd });
                    }
                }
                "session/prompt" => {
                    let Some(params) = Object::parse(params) else { return self.tell_agent(line) };
                    if let Some(session) = params.text("sessionId") {
                        if let Some(text) = super::commands::typed(&params) {
                            return self.command(id, session, text);
                        }
                        self.prompted(&session, &id);
                        self.pending.insert(id.key(), Pending::Prompt { session });
                    }
                }
                "session/close" | "session/delete" => {
                    if let Some(session) = session_of(params) {
                        self.forget_replies(&session);
                        self.pending.insert(id.key(), Pending::Closed { session: session.clone() });
                        self.tell_agent(line);
                        // What was open ends at once; the session when the agent says that it has.
                        return self.end_asks(&session, "session_ended");
                    }
                }
                "session/cancel" => {
                    if let Some(session) = session_of(params) {
                        return self.cancelled(&session, line);
                    }
                }
                _ => {}
            },
            Message::Notification { method, params } => match &*method {
                "session/cancel" => {
                    if let Some(session) = session_of(params) {
                        return self.cancelled(&session, line);
                    }
                }
                "$/cancel_request" => {
                    let id = Object::parse(params).and_then(|p| Id::parse(p.get("requestId")?));
                    let Some(id) = id else { return self.tell_agent(line) };
                    if self.tickets.values().any(|ticket| ticket.id == id) {
                        return;
                    }
                    let key = id.key();
                    let running = self.sessions.iter().find(|(_, s)| s.prompts.contains(&key));
                    if let Some(session) = running.map(|(name, _)| name.clone()) {
                        return self.cancelled(&session, line);
                    }
                }
                _ => {}
            },
            Message::Response { id, result } => {
                let key = id.key();
                if self.paid(&key) {
                    return self
                        .log("a late answer of the client to an ask that is over is dropped".to_owned());
                }
                let own = self.by_own_id.get(&key).copied();
                if let Some(no) = own.or_else(|| self.by_agent_id.get(&key).copied()) {
                    let result = result.map(str::to_owned);
                    return self.dialog_answered(no, result.as_deref(), line);
                }
                if is_ours(&id, &self.settings.mark) {
                    return;
                }
            }
            Message::Other => {}
        }
        self.tell_agent(line);
    }

    /// What is neither about a session's life nor an answer to an ask.
    fn passes_unread_from_client(&self, line: &[u8]) -> bool {
        let seen = message::glance(line);
        match seen.method {
            Some(method) => !READ_METHODS.contains(&method.as_str()),
            None if seen.responds => seen.id.is_some_and(|id| {
                let key = id.key();
                !self.by_own_id.contains_key(&key)
                    && !self.owed.contains_key(&key)
                    && !self.by_agent_id.contains_key(&key)
                    && !is_ours(&id, &self.settings.mark)
            }),
            None => false,
        }
    }

    /// Whether a response with this id was still owed for a request before the present one.
    fn paid(&mut self, key: &str) -> bool {
        let Some(owed) = self.owed.get_mut(key) else { return false };
        *owed -= 1;
        if *owed == 0 {
            self.owed.remove(key);
        }
        true
    }

    fn client_told(&mut self, params: &str) {
        let Some(params) = Object::parse(params) else { return };
        let info = params.object("clientInfo");
        if let Some(name) = info.text("title").or_else(|| info.text("name")).filter(|name| !name.is_empty()) {
            self.client.name = name.chars().filter(|c| !c.is_control()).take(100).collect();
        }
        let told = params.object("clientCapabilities").get("subagents").map(str::to_owned);
        self.client.subagents = told.is_some_and(|value| value != "null" && value != "false");
    }

    /// `initialize` with the `subagents` capability, where we turn it on.
    fn with_subagents(&self, id: &Id, params: &str) -> Option<Vec<u8>> {
        if !self.settings.translate || self.client.subagents {
            return None;
        }
        let mut params = Object::parse(params)?;
        let mut capabilities = params.object("clientCapabilities");
        capabilities.set("subagents", "{}".to_owned());
        let capabilities = capabilities.to_string();
        params.set("clientCapabilities", capabilities);
        Some(message::request(id.text(), "initialize", &params.to_string()))
    }

    fn prompted(&mut self, session: &str, id: &Id) {
        let within = self.within(session);
        for name in within {
            if let Some(known) = self.sessions.get_mut(&name) {
                known.cancelling = false;
            }
        }
        let known = self.sessions.entry(session.to_owned()).or_default();
        known.cancelling = false;
        // The gate of one that was cancelled stays until its result. From an agent that goes on with the next prompt and
        // never gives that one, nothing could be asked any more.
        if !known.ending.is_empty() {
            known.ending_until.get_or_insert(self.now + ENDING_PATIENCE);
        }
        known.prompts.push(id.key());
        known.turn += 1;
    }

    /// `session/cancel`. The gate is set before the line goes on; nothing allows anything of this turn afterwards.
    pub(super) fn cancelled(&mut self, session: &str, line: Vec<u8>) {
        let below = self.within(session);
        if let Some(known) = self.sessions.get_mut(session) {
            known.ending.clone_from(&known.prompts);
            known.ending_until = None;
            known.cancelling = known.parent.is_some();
        }
        self.forget_replies(session);
        self.tell_agent(line);
        if self.translates() {
            // The client does not know these children; the agent expects it to cancel them.
            for child in below.iter().filter(|child| *child != session) {
                if self.sessions.get(child).is_some_and(|s| s.can_cancel) {
                    let mut params = Object::default();
                    params.set_text("sessionId", child);
                    self.tell_agent(message::notification("session/cancel", &params.to_string()));
                }
            }
        }
        self.end_asks(session, "cancelled");
        self.observe(session, vec![Observation::TurnCancelled { subagent: None }]);
    }

    /// Every open ask of a session and its descendants is over; nobody decided. What the agent's own server still asks
    /// is not over because the client loads the session again: the server says when it is.
    pub(super) fn end_asks(&mut self, session: &str, cause: &'static str) {
        for no in self.open_within(session) {
            if cause == "superseded" && self.asks.get(&no).is_some_and(super::Slot::is_hidden) {
                continue;
            }
            self.settle(no, Fate::Ended { cause, tell_agent: true });
        }
    }

    /// A yes of this tree that the agent's own server does not have yet counts no more.
    pub(super) fn forget_replies(&mut self, session: &str) {
        let void: Vec<String> = self
            .asks
            .values()
            .filter(|slot| slot.on_its_way && (slot.root == session || self.descends(&slot.session, session)))
            .filter_map(|slot| match &slot.origin {
                Origin::Hidden { id, .. } => Some(id.clone()),
                Origin::Request(_) => None,
            })
            .collect();
        self.out.extend(void.into_iter().map(|id| Action::HiddenForget { id }));
    }

    pub(super) fn closed(&mut self, session: &str) {
        self.end_asks(session, "session_ended");
        self.observe(session, vec![Observation::SessionEnded {}]);
        for name in self.within(session) {
            self.detach(&name);
            self.sessions.remove(&name);
        }
    }

    /// The client answered a request for permission, in whatever way.
    fn dialog_answered(&mut self, no: u64, result: Option<&str>, line: Vec<u8>) {
        let now = self.now;
        let dismiss = self.settings.dismiss;
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.responded = true;
        if slot.dialog != Dialog::Open || !matches!(slot.state, State::Open) {
            slot.dialog = Dialog::Closed;
            let text = format!("{}: a late answer of the client is dropped", self.named(no));
            return self.log(text);
        }
        slot.dialog = Dialog::Closed;
        match Reply::read(slot.form, result) {
            Reply::Selected(option) if slot.options.iter().any(|o| o.option_id == option) => {
                let decision = decision_of(&slot.options, &option);
                let answer = ClientAnswer { line, option, decision };
                slot.state = State::Deciding { answer, since: now, sent: false };
                match (slot.askd, decision) {
                    (Askd::Raising, Some(_)) => {}
                    (Askd::Raised, Some(_)) => self.send_answer(no),
                    // Nothing that askd has a word for, or nobody to tell.
                    (Askd::Off, _) | (_, None) => self.settle_by_client(no, super::settle::Proof::None),
                }
            }
            Reply::Dismissed => {
                slot.left = Some(Left::Said(line));
                match (dismiss, slot.askd) {
                    (Dismiss::Cancel, _) | (_, Askd::Off) => self.settle_as_left(no),
                    (Dismiss::Ignore, Askd::Raised) => self.count_others(no),
                    // Asked when it is known.
                    (Dismiss::Ignore, Askd::Raising) => {}
                }
            }
            Reply::Selected(_) | Reply::Wrong => {
                slot.left = Some(Left::Said(line));
                slot.failed = true;
                match slot.askd {
                    Askd::Off => self.settle_as_left(no),
                    Askd::Raised => self.unable(no),
                    Askd::Raising => {}
                }
            }
        }
    }
}

/// What a client's response means.
enum Reply {
    Selected(String),
    /// The dialog was closed without an answer.
    Dismissed,
    /// An error, or nothing that is a response to this request.
    Wrong,
}

impl Reply {
    fn read(form: Form, result: Option<&str>) -> Self {
        let Some(result) = result.and_then(Object::parse) else { return Self::Wrong };
        if form == Form::Elicitation {
            return match result.text("action") {
                Some(action) if action == "cancel" => Self::Dismissed,
                Some(action) => Self::Selected(action),
                None => Self::Wrong,
            };
        }
        let outcome = result.object("outcome");
        match outcome.text("outcome").as_deref() {
            Some("selected") => outcome.text("optionId").map_or(Self::Wrong, Self::Selected),
            Some("cancelled") => Self::Dismissed,
            _ => Self::Wrong,
        }
    }
}

fn session_of(params: &str) -> Option<String> {
    Object::parse(params)?.text("sessionId")
}

/// An id that only we give.
fn is_ours(id: &Id, mark: &str) -> bool {
    id.text().contains(&format!("\"askd-{mark}-"))
}
