//! Asks that the agent keeps to itself, shown in the client in its own words.

use askd_wire::{Decision, Observation, RaiseAsk};

use super::super::Errand;
use super::super::ask::{Call, Choosable, FxMark};
use super::super::message;
use super::super::raw::{Object, quote};
use super::Machine;
use super::permission::{ChildAsk, fx_meta};
use super::settle::{Fate, along};
use super::slot::{Askd, Dialog, Done, Form, Origin, Show, Slot, State};
use crate::hidden::{HiddenAsk, HiddenEnd, HiddenEvent, HiddenOption, unheard};

/// States of a child, as ACP writes them.
const REQUIRES_ACTION: &str = r#"{"state":"requires_action"}"#;
const RUNNING: &str = r#"{"state":"running"}"#;
const CANCELLED: &str = r#"{"state":"idle","stopReason":"cancelled"}"#;
/// opencode does not tell with what a child's turn ended.
const IDLE: &str = r#"{"state":"idle","stopReason":"end_turn"}"#;

/// The options in the agent's own words.
fn choosable(options: &[HiddenOption]) -> Vec<Choosable> {
    options
        .iter()
        .map(|option| Choosable {
            option_id: option.id.to_owned(),
            name: option.name.to_owned(),
            kind: option.kind.to_owned(),
        })
        .collect()
}

/// The dialog of a child's ask, made when its timed answer is known.
#[derive(Debug)]
struct Dialogue {
    id: String,
    session: String,
    call: Call,
    /// Set for a client without child sessions.
    mark: Option<(FxMark, String)>,
    options: String,
}

impl Show for Dialogue {
    fn lines(&self, timed: Option<&str>) -> Vec<Vec<u8>> {
        let mut title = self.call.title.clone().unwrap_or_default();
        if let Some((_, name)) = &self.mark {
            title = format!("[{name}] {title}");
        }
        if let Some(timed) = timed {
            title = format!("{title} ({timed})");
        }
        let mut call = Object::default();
        call.set_text("toolCallId", &self.call.id);
        call.set_text("title", &title);
        if let Some(kind) = &self.call.kind {
            call.set_text("kind", kind);
        }
        call.set_text("status", "pending");
        if let Some(input) = &self.call.input {
            call.set("rawInput", input.clone());
        }
        let mut params = Object::default();
        params.set_text("sessionId", &self.session);
        params.set("toolCall", call.to_string());
        params.set("options", self.options.clone());
        if let Some((mark, _)) = &self.mark {
            params.set("_meta", fx_meta(Object::default(), mark));
        }
        // The call is announced before it is asked about.
        let mut update = Object::default();
        update.set_text("sessionUpdate", "tool_call");
        let mut announced = call.to_string();
        announced.replace_range(..1, &format!("{},", update.to_string().trim_end_matches('}')));
        let announcement = format!("{{\"sessionId\":{},\"update\":{announced}}}", quote(&self.session));
        vec![
            message::notification("session/update", &announcement),
            message::request(&self.id, "session/request_permission", &params.to_string()),
        ]
    }
}

impl Machine {
    /// What may be answered to hidden asks, in the agent's words. Before the first of them.
    pub fn set_hidden_options(&mut self, options: &'static [HiddenOption]) {
        self.hidden_options = options;
    }

    /// News of an agent's hidden asks.
    pub fn hidden(&mut self, event: HiddenEvent, now: std::time::Duration) {
        self.now = now;
        match event {
            HiddenEvent::Asked(ask) => self.hidden_asked(*ask),
            HiddenEvent::Gone { id, how } => self.hidden_gone(&id, how),
            HiddenEvent::Unheard { address, why } => self.log(unheard(&address, &why)),
            HiddenEvent::CallEnded { session, call, ok } => self.hidden_call_over(&session, Some(&call), ok),
            HiddenEvent::ChildEnded { session } => {
                if self.is_child(&session) {
                    let cancelled = self.is_cancelling(&session);
                    self.child_ended(&session);
                    self.child_idle(&session, if cancelled { CANCELLED } else { IDLE });
                }
            }
        }
        self.consider_closing();
    }

    fn hidden_asked(&mut self, ask: HiddenAsk) {
        if self.by_hidden.contains_key(&ask.id) || self.linked.contains_key(&ask.id) {
            return;
        }
        let call_id = ask.call.clone().unwrap_or_else(|| ask.id.clone());
        let is_root = self.sessions.get(&ask.session).is_some_and(|s| s.root);
        let forwarded = self
            .asks
            .values()
            .any(|s| matches!(s.origin, Origin::Request(_)) && s.session == ask.session && s.call == call_id);
        if is_root || forwarded {
            // The agent forwards it; its server tells when it is settled some other way.
            self.linked.insert(ask.id, (ask.session, call_id));
            return;
        }
        let (title, kind, parent, work) = match &ask.subagent {
            Some(child) => {
                (child.title.clone(), child.agent_type.clone(), child.parent.clone(), child.work.clone())
            }
            None => ("subagent".to_owned(), None, ask.root.clone(), None),
        };
        if parent != ask.session && !self.descends(&parent, &ask.session) {
            let known = self.sessions.entry(ask.session.clone()).or_default();
            known.parent = Some(parent.clone());
            known.title = Some(title.clone());
            known.kind.clone_from(&kind);
        }
        if parent != ask.root && !self.sessions.contains_key(&parent) {
            self.sessions.entry(parent).or_default().parent = Some(ask.root.clone());
        }
        let work = work.unwrap_or_else(|| ask.session.clone());
        let child = ChildAsk {
            name: Some(title.clone()),
            kind,
            work: work.clone(),
            depth: Some(self.depth(&ask.session)),
            background: false,
        };
        let root = self.root_of(&ask.session);
        let (shown_on, shown_call, mark) = if self.client.subagents {
            (ask.session.clone(), call_id.clone(), None)
        } else {
            let mark = FxMark { session: ask.session.clone(), work: work.clone(), call: call_id.clone() };
            (root.clone(), format!("{}/{call_id}", ask.session), Some((mark, title)))
        };
        let id_at_client = self.own_id();
        let no = self.number();
        let told = RaiseAsk {
            tool_call: Some(call_id.clone()),
            ..ask.question(self.key(no), &self.agent, self.hidden_options)
        };
        let raise = self.placed(told, &root, Some(&child));
        let options = choosable(self.hidden_options);
        let shown = Dialogue {
            id: id_at_client.text().to_owned(),
            session: shown_on.clone(),
            call: Call {
                id: shown_call.clone(),
                title: Some(ask.title.clone()),
                name: Some(ask.tool.clone()),
                kind: Some(ask.kind.clone()),
                input: Some(ask.input.to_string()),
                ..Call::default()
            },
            mark,
            options: options_json(&options),
        };
        let known_to_client = !self.client.gone && self.sessions.get(&root).is_some_and(|s| s.attached);
        self.by_own_id.insert(id_at_client.key(), no);
        self.by_hidden.insert(ask.id.clone(), no);
        let slot = Slot {
            origin: Origin::Hidden { id: ask.id, id_at_client },
            form: Form::Permission,
            session: ask.session.clone(),
            root,
            shown_on,
            shown_call,
            call: call_id,
            work: Some(work),
            title: ask.title,
            options,
            dialog: if known_to_client { Dialog::Waiting } else { Dialog::Closed },
            askd: Askd::Raising,
            state: State::Open,
            left: None,
            failed: false,
            shown: false,
            responded: false,
            look_at: None,
            runs: false,
            elsewhere: None,
            on_its_way: false,
            lost_since: None,
            tell_shown: known_to_client,
            show: Some(Box::new(shown)),
        };
        let cancelling = self.is_cancelling(&slot.session);
        self.put(no, slot);
        if cancelling {
            // Its turn is over: nobody is asked, and nothing may be allowed.
            return self.settle(no, Fate::Ended { cause: "cancelled", tell_agent: true });
        }
        self.errand(Errand::Raise { ask: no, raise: Box::new(raise) });
    }

    fn hidden_gone(&mut self, id: &str, how: HiddenEnd) {
        let no = match self.linked.remove(id) {
            Some(about) => {
                let about = self.by_call.get(&about).map(Vec::as_slice).unwrap_or_default();
                about.iter().find(|no| self.open.contains(no)).or(about.last()).copied()
            }
            None => self.by_hidden.get(id).copied(),
        };
        if let Some(no) = no {
            self.over_at_server(no, how);
        }
    }

    /// The agent's own server no longer asks.
    fn over_at_server(&mut self, no: u64, how: HiddenEnd) {
        let allowed = match how {
            HiddenEnd::Allowed | HiddenEnd::AllowedAlong => Some(true),
            HiddenEnd::Rejected => Some(false),
            HiddenEnd::Vanished => None,
        };
        let went_along = how == HiddenEnd::AllowedAlong;
        let Some(slot) = self.asks.get(&no) else { return };
        match (&slot.state, allowed) {
            (State::Open | State::Deciding { .. }, _) if went_along => self.settle(no, Fate::Along),
            (State::Open | State::Deciding { .. }, _) => self.settle(no, Fate::Seen { allowed }),
            (State::Done(Done::Answered { decision: Some(decision), unsure: false }), Some(allowed))
                if allowed == (*decision == Decision::Allow) =>
            {
                self.errand(Errand::Confirmed { ask: no });
            }
            // It went on otherwise than was decided, or otherwise than the journal may have it.
            (State::Done(Done::Answered { .. }), Some(allowed)) => {
                let (session, call) = (slot.session.clone(), slot.call.clone());
                let seen = match went_along {
                    true => along(call),
                    false => Observation::OwnPromptAnswered { call, allowed },
                };
                self.observe(&session, vec![seen]);
            }
            // It died with its turn: what was not given to the agent by then does not count any more.
            (State::Done(Done::Answered { decision: Some(_), unsure: false }), None) if slot.is_hidden() => {
                self.errand(Errand::Withdraw { ask: no, cause: "cancelled" });
            }
            (State::Done(_), _) => {}
        }
    }

    /// Tells a client with child sessions of the child before anything carries its id.
    pub(super) fn announce_child(&mut self, no: u64) {
        let Some(slot) = self.asks.get(&no) else { return };
        if !self.client.subagents || slot.shown_on == slot.root {
            return;
        }
        let (child, root) = (slot.session.clone(), slot.root.clone());
        let mut chain = vec![child.clone()];
        while let Some(parent) =
            self.sessions.get(chain.last().unwrap_or(&root)).and_then(|s| s.parent.clone())
        {
            if parent == root || chain.len() > 64 {
                break;
            }
            chain.push(parent);
        }
        let mut outer = root;
        for session in chain.into_iter().rev() {
            let state = if session == child { REQUIRES_ACTION } else { RUNNING };
            self.tell_child(&outer, &session, state, true);
            outer = session;
        }
    }

    /// `subagent_update` in its final shape.
    fn tell_child(&mut self, outer: &str, session: &str, state: &str, first_only_whole: bool) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let is_new = !std::mem::replace(&mut known.announced, true);
        known.idle = state == IDLE || state == CANCELLED;
        let mut update = Object::default();
        update.set_text("sessionUpdate", "subagent_update");
        update.set_text("sessionId", session);
        if is_new && first_only_whole {
            update.set_text("title", known.title.as_deref().unwrap_or("subagent"));
            if let Some(kind) = &known.kind {
                update.set_text("description", kind);
            }
        }
        update.set("state", state.to_owned());
        let line = self.update(outer, &update.to_string());
        self.tell_client(line);
    }

    /// The client is told that a child of which we told it works no more.
    fn child_idle(&mut self, session: &str, state: &str) {
        // What it did when it ended is not told of each call.
        self.hidden_call_over(session, None, false);
        let Some(known) = self.sessions.get_mut(session).filter(|known| known.announced && !known.idle)
        else {
            return;
        };
        let Some(parent) = known.parent.clone() else { return };
        if !self.client.gone {
            self.tell_child(&parent, session, state, false);
        }
    }

    /// A call that was asked about is over; without its id, each of the session.
    fn hidden_call_over(&mut self, session: &str, call: Option<&str>, ok: bool) {
        let over: Vec<u64> = self
            .asks
            .iter()
            .filter(|(_, slot)| {
                slot.runs && slot.session == session && call.is_none_or(|call| slot.call == call)
            })
            .map(|(no, _)| *no)
            .collect();
        for no in over {
            let Some(slot) = self.asks.get_mut(&no) else { continue };
            slot.runs = false;
            let (on, call) = (slot.shown_on.clone(), slot.shown_call.clone());
            if !self.client.gone {
                self.tell_call(&on, &call, if ok { "completed" } else { "failed" });
            }
        }
    }

    fn tell_call(&mut self, on: &str, call: &str, status: &str) {
        let mut update = Object::default();
        update.set_text("sessionUpdate", "tool_call_update");
        update.set_text("toolCallId", call);
        update.set_text("status", status);
        let line = self.update(on, &update.to_string());
        self.tell_client(line);
    }

    /// The card of an ask that we showed does not stay pending: its call runs now, or will not.
    pub(super) fn close_card(&mut self, no: u64, allowed: bool) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        if self.client.gone {
            return;
        }
        slot.runs = allowed;
        let (on, session) = (slot.shown_on.clone(), slot.session.clone());
        let call = slot.shown_call.clone();
        self.tell_call(&on, &call, if allowed { "in_progress" } else { "failed" });
        if self.client.subagents
            && let Some(parent) = self.sessions.get(&session).and_then(|s| s.parent.clone())
        {
            self.tell_child(&parent, &session, RUNNING, false);
        }
    }
}

fn options_json(options: &[Choosable]) -> String {
    let each: Vec<String> = options
        .iter()
        .map(|o| {
            let mut option = Object::default();
            option.set_text("optionId", &o.option_id);
            option.set_text("name", &o.name);
            option.set_text("kind", &o.kind);
            option.to_string()
        })
        .collect();
    format!("[{}]", each.join(","))
}
