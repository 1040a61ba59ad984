//! A permission request of the agent as an ask.
//!
//! | host | thread | attendance |
//! |---|---|---|
//! | answers, and is there | main, child in the foreground or not known | foreground |
//! | answers, and is there | child in the background | background |
//! | answers, and is gone | any | background |
//! | knows of none, a person is at the run | main, child in the foreground or not known | foreground |
//! | knows of none, a person is at the run | child in the background | background |
//! | knows of none, nobody is there | any | background |

use std::time::Duration;

use askd_hook::claude::{grants, kind};
use askd_wire::{Action as WireAction, Attendance, Observation, OwnPrompt, RaiseAsk, Subagent};
use serde_json::Map;
use serde_json::value::RawValue;

use super::super::act::HostKind;
use super::super::message::{self, CanUseTool};
use super::settle::Fate;
use super::slot::{Askd, Dialog, Slot, State};
use super::{AGENT, Errand, Machine};
use crate::proxy::{AskNo, plain_ask};

/// How long an ask of ours waits for this wrapper to come back after its connection broke.
const LINK_GRACE_SECS: u64 = 60;
/// What people read at an ask whose call they may have seen before.
const ASKED_AGAIN: &str = "the same call once more: it was stopped, and the agent still waits for it";

impl Machine {
    /// The agent asks. Its line goes on to a host that can answer it.
    pub(super) fn asked(&mut self, id: String, request: &str, line: Vec<u8>) {
        let shown = self.host_answers() && !self.host_gone;
        let Some(asked) = CanUseTool::read(request) else {
            if shown {
                self.log("a permission request that askd cannot read goes on as it is".to_owned());
                return self.tell_host(line);
            }
            self.log("a permission request names no tool or no input: nobody can be asked".to_owned());
            let why = "the request could not be read by askd, so nobody could be asked";
            return self.tell_agent(message::deny(&id, why, false, None));
        };
        let kept = if shown { line.clone() } else { Vec::new() };
        if shown {
            self.tell_host(line);
        }
        if let Some(work) = &asked.agent_id {
            self.task_lives(work, true);
        }
        let no = self.number();
        let parked = self.is_stopping(asked.agent_id.as_deref());
        let slot = Slot {
            needs_own: asked.needs_own_prompt(),
            reason: asked.reason(),
            title: asked.title,
            call: asked.tool_use_id,
            work: asked.agent_id,
            tool: asked.tool_name,
            input: asked.input,
            suggestions: asked.permission_suggestions,
            dialog: if shown { Dialog::Open } else { Dialog::Closed },
            askd: Askd::Parked,
            state: State::Open,
            lost_since: None,
            taken: false,
            limit: None,
            ended_at: Duration::ZERO,
            crossing: None,
            line: kept,
            again: false,
            failures: 0,
            again_at: None,
            id: id.clone(),
        };
        if let Some(old) = self.ids.insert(id, no) {
            // The agent gave an id twice: the old request waits for nothing any more.
            self.settle(old, Fate::Ended { cause: "superseded", waits: false });
        }
        if let Some(call) = &slot.call {
            self.by_call.entry(call.clone()).or_default().push(no);
        }
        let unanswerable = slot.needs_own && !shown;
        self.open.insert(no);
        self.asks.insert(no, slot);
        if unanswerable {
            let why = "it needs words of a person of its own, and nobody is at this run to give them";
            return self.settle(no, Fate::Nobody { why: why.to_owned() });
        }
        if !parked {
            self.raise(no);
        }
    }

    /// Puts an ask before askd.
    pub(super) fn raise(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get(&no) else { return };
        let (raise, now) = (Box::new(self.question(no, slot)), self.now);
        if let Some(slot) = self.asks.get_mut(&no) {
            slot.askd = Askd::Raising;
            if let State::Deciding { since, .. } = &mut slot.state {
                *since = now;
            }
        }
        self.errand(Errand::Raise { ask: no, raise });
    }

    fn question(&self, no: AskNo, slot: &Slot) -> RaiseAsk {
        let task = slot.work.as_ref().map(|work| (work, self.tasks.get(work)));
        let suggestions: Vec<&RawValue> = slot.suggestions.iter().map(AsRef::as_ref).collect();
        let mut extra = Map::new();
        let again = slot.again.then(|| ASKED_AGAIN.to_owned());
        let reason: Vec<String> = again.into_iter().chain(slot.reason.clone()).collect();
        if !reason.is_empty() {
            extra.insert("reason".to_owned(), reason.join("; ").into());
        }
        let action = WireAction {
            kind: kind(&slot.tool).map(str::to_owned),
            tool: slot.tool.clone(),
            title: slot.title.clone(),
            input: Some(slot.input.clone()),
            cwd: self.cwd.clone(),
        };
        RaiseAsk {
            attendance: Some(self.attendance(slot)),
            subagent: task.map(|(work, task)| Subagent {
                name: task.and_then(|task| task.name.clone()),
                kind: task.and_then(|task| task.kind.clone()),
                work_id: work.clone(),
                depth: task.and_then(|task| task.depth),
            }),
            tool_call: slot.call.clone(),
            turn: self.life.turn().map(|turn| format!("{}-{turn}", self.settings.mark)),
            options: grants::options(&suggestions),
            grace_secs: LINK_GRACE_SECS,
            instance: self.settings.instance.clone(),
            own_prompt: slot.needs_own.then(|| OwnPrompt { at: "host".to_owned(), blocked: false }),
            needs_own_prompt: slot.needs_own,
            extra,
            ..plain_ask(format!("{}-{no}", self.settings.mark), AGENT, &self.session_name(), action)
        }
    }

    fn attendance(&self, slot: &Slot) -> Attendance {
        let attended = match self.settings.host {
            HostKind::Answers => !self.host_gone,
            HostKind::Silent { attended } => attended,
        };
        if !attended || self.is_in_background(slot.work.as_deref()) {
            Attendance::Background
        } else {
            Attendance::Foreground
        }
    }

    /// The session as askd knows it.
    pub(super) fn session_name(&self) -> String {
        self.session.clone().unwrap_or_else(|| self.settings.mark.clone())
    }

    /// The agent told its session.
    pub(super) fn session_is(&mut self, session: String, cwd: Option<String>) {
        if cwd.is_some() {
            self.cwd = cwd;
        }
        if self.session.as_ref() == Some(&session) {
            return;
        }
        let old = self.session.replace(session.clone());
        self.observe(vec![Observation::SessionStarted {}]);
        if self.host_answers() && !self.host_gone {
            if let Some(session) = old {
                self.errand(Errand::Detach { session });
            }
            let (agent, client) = (AGENT.to_owned(), "host".to_owned());
            self.errand(Errand::Attach { agent, session, client });
        }
    }
}
