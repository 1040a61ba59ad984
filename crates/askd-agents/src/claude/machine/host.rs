//! Lines from the host.

use std::time::Duration;

use askd_hook::claude::grants;
use askd_wire::{Decision, Observation};
use serde_json::value::RawValue;

use super::super::Action;
use super::super::message::{self, Line, Said, same_json};
use super::settle::{Fate, Proof};
use super::slot::{Askd, Dialog, Done, HostAnswer, Slot, State};
use super::{Errand, Machine, Stopping};
use crate::proxy::AskNo;

/// How long the agent takes to cancel what was stopped. After that it is asked again: nobody may wait for ever.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// How often a host that fails is shown a request that nobody else can answer, and the first pause between.
const MOST_SHOWN: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Machine {
    pub(super) fn host_said(&mut self, mut line: Vec<u8>) {
        if message::is_blank(&line) {
            if line.ends_with(b"\n") {
                self.tell_agent(line);
            }
            return;
        }
        let Some(read) = Line::read(&line) else {
            // The agent ends at such a line, and whatever it asks ends with it.
            return self.log(format!(
                "a line of the host that is no message is not passed on ({} bytes)",
                line.len()
            ));
        };
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        match read.kind.as_str() {
            "control_response" => {
                let response = read.object("response");
                let id = response.text("request_id");
                if let Some(id) = &id {
                    self.host_has_replied(id);
                }
                if let Some(no) = id.and_then(|id| self.ids.get(&id).copied()) {
                    return self.answered(no, Said::read(&response), line);
                }
            }
            "control_request" => {
                let request = read.object("request");
                match (request.text("subtype").as_deref(), &read.request_id) {
                    (Some("interrupt"), Some(id)) => self.stop(id.clone(), None),
                    (Some("stop_task"), Some(id)) => {
                        if let Some(task) = request.text("task_id") {
                            self.stop(id.clone(), Some(task));
                        }
                    }
                    _ => {}
                }
            }
            "user" => self.life.message_written(self.now),
            _ => {}
        }
        self.tell_agent(line);
    }

    /// The host stops the turn, or a task. The gate is closed and askd is told before the agent is: nothing of it is
    /// allowed from here on.
    fn stop(&mut self, request: String, task: Option<String>) {
        self.stopping.push(Stopping { request: Some(request), task: task.clone(), since: self.now });
        self.end_within(task.as_deref());
        self.observe(vec![Observation::TurnCancelled { subagent: task }]);
    }

    /// The agent gets a signal: the same for all that it asks.
    pub(super) fn stop_all(&mut self) {
        self.stopping.push(Stopping { request: None, task: None, since: self.now });
        self.end_within(None);
    }

    fn end_within(&mut self, task: Option<&str>) {
        // What crossed an earlier stop is void by this one, and what that one ended is waited for anew.
        for no in self.waiting.iter().copied().collect::<Vec<_>>() {
            let within = self.asks.get(&no).is_some_and(|slot| self.is_within(slot.work.as_deref(), task));
            if let Some(slot) = self.asks.get_mut(&no).filter(|_| within) {
                (slot.crossing, slot.ended_at) = (None, self.now);
            }
        }
        for no in self.open_asks() {
            let within = self.asks.get(&no).is_some_and(|slot| self.is_within(slot.work.as_deref(), task));
            if within {
                self.settle(no, Fate::Ended { cause: "cancelled", waits: true });
            }
        }
    }

    /// An ask of that subagent may belong to what is being stopped.
    pub(super) fn is_stopping(&self, work: Option<&str>) -> bool {
        self.stopping.iter().any(|stop| self.is_within(work, stop.task.as_deref()))
    }

    /// The agent replied to a request of the host: what it stopped by that, it has cancelled by now. Whatever it still
    /// asks is asked.
    pub(super) fn stopped(&mut self, request: &str) {
        let before = self.stopping.len();
        self.stopping.retain(|stop| stop.request.as_deref() != Some(request));
        if self.stopping.len() < before {
            self.go_on();
        }
    }

    /// Time passed: what the agent has not cancelled by now it still waits for, whether it replied or not.
    pub(super) fn stop_waiting(&mut self) {
        if self.ended {
            return;
        }
        let (now, before) = (self.now, self.stopping.len());
        self.stopping.retain(|stop| now < stop.since + CANCEL_PATIENCE);
        if self.stopping.len() < before {
            self.go_on();
        }
        let over = |no: &AskNo| {
            let slot = self.asks.get(no).filter(|slot| slot.waits_ended());
            slot.is_some_and(|slot| now >= slot.ended_at + CANCEL_PATIENCE)
        };
        let waiting: Vec<AskNo> = self.waiting.iter().copied().filter(over).collect();
        for no in waiting {
            self.ask_again(no);
        }
    }

    /// When that is next.
    pub(super) fn stop_waiting_at(&self) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let stops = self.stopping.iter().map(|stop| stop.since);
        let ended = self.waiting.iter().filter_map(|no| self.asks.get(no)).filter(|slot| slot.waits_ended());
        stops.chain(ended.map(|slot| slot.ended_at)).min().map(|since| since + CANCEL_PATIENCE)
    }

    fn go_on(&mut self) {
        let left: Vec<AskNo> = self.asks.keys().copied().collect();
        for no in left {
            let Some(slot) = self.asks.get(&no) else { continue };
            if self.is_stopping(slot.work.as_deref()) {
                continue;
            }
            match &slot.state {
                State::Done(Done::Ended { waits: true }) => self.ask_again(no),
                State::Done(_) => {}
                State::Open | State::Deciding { .. } if slot.askd == Askd::Parked => self.raise(no),
                State::Open | State::Deciding { .. } => {}
            }
        }
    }

    /// The agent still waits for something that was ended here: it is asked anew.
    fn ask_again(&mut self, no: AskNo) {
        self.waiting.remove(&no);
        let Some(mut old) = self.asks.remove(&no) else { return };
        let again = self.number();
        self.log(format!("ask {no} ({}): the agent still waits for it; it is asked again", old.tool));
        let state = match old.crossing.take() {
            Some(answer) => State::Deciding { answer, since: self.now, sent: false },
            None => State::Open,
        };
        let slot = Slot {
            state,
            again: true,
            askd: Askd::Parked,
            taken: false,
            limit: None,
            lost_since: None,
            ..old
        };
        self.ids.insert(slot.id.clone(), again);
        if let Some(call) = &slot.call {
            let asks = self.by_call.entry(call.clone()).or_default();
            asks.retain(|other| *other != no);
            asks.push(again);
        }
        let unanswerable =
            slot.needs_own && slot.dialog == Dialog::Closed && matches!(slot.state, State::Open);
        self.open.insert(again);
        self.asks.insert(again, slot);
        if unanswerable {
            let why = "it needs words of a person of its own, and the host can give none any more".to_owned();
            return self.settle(again, Fate::Nobody { why });
        }
        self.raise(again);
    }

    /// The host responded to a permission request, in whatever way.
    fn answered(&mut self, no: AskNo, said: Said, line: Vec<u8>) {
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| slot.dialog == Dialog::Open) else {
            return self.log("a late or doubled answer of the host is not passed on".to_owned());
        };
        slot.dialog = Dialog::Closed;
        let is_open = matches!(slot.state, State::Open);
        if slot.waits_ended() {
            // It counts if the agent turns out to wait still.
            slot.crossing = host_answer(slot, &said, line);
            return;
        }
        if !is_open {
            return self.log(format!("{}: the host's answer comes too late", self.named(no)));
        }
        let Some(answer) = host_answer(slot, &said, line) else {
            let Said::Failed(why) = said else { return };
            return self.host_failed(no, &why);
        };
        let alone = slot.askd == Askd::Off;
        slot.state = State::Deciding { answer, since: self.now, sent: false };
        if alone {
            return self.settle_by_host(no, Proof::None);
        }
        if slot.askd == Askd::Raised {
            self.send_answer(no);
        }
    }

    /// The host could not answer: that surface failed, and nobody was denied.
    fn host_failed(&mut self, no: AskNo, why: &str) {
        let now = self.now;
        let Some(slot) = self.asks.get_mut(&no) else { return };
        let (askd, needs_own) = (slot.askd, slot.needs_own);
        slot.failures += 1;
        // With nobody else who could answer it is shown to the host again.
        let alone = needs_own || askd == Askd::Off;
        let shows = alone && slot.failures < MOST_SHOWN && !self.host_gone;
        slot.again_at = shows.then(|| now + FIRST_PAUSE * 2_u32.pow(slot.failures - 1));
        let then = match (alone, shows) {
            (false, _) => "others still can",
            (true, true) => "it is shown again",
            (true, false) => "nobody else can",
        };
        self.log(format!("{}: the host could not answer ({}); {then}", self.named(no), one_line(why)));
        if askd == Askd::Raised {
            let root = self.session_name();
            self.errand(Errand::Unable { ask: no, root, reason: one_line(why) });
        }
        if shows {
            return;
        }
        if needs_own {
            let why =
                format!("it needs words of a person of its own, and the host failed: {}", one_line(why));
            self.settle(no, Fate::Nobody { why });
        } else if askd == Askd::Off {
            self.nobody_left(no);
        }
    }

    /// Shows the host a request once more that it failed at.
    pub(super) fn show_again(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        if slot.again_at.is_none_or(|at| at > self.now) {
            return;
        }
        slot.again_at = None;
        if self.host_gone || !matches!(slot.state, State::Open) {
            return;
        }
        slot.dialog = Dialog::Open;
        let line = slot.line.clone();
        self.tell_host(line);
    }

    pub(super) fn send_answer(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        if let State::Deciding { answer, sent, .. } = &mut slot.state
            && !*sent
        {
            *sent = true;
            let errand = Errand::Answer {
                ask: no,
                decision: answer.decision,
                option: answer.option.clone(),
                message: answer.message.clone(),
                stop: answer.stop,
                client: "host".to_owned(),
            };
            self.errand(errand);
        }
    }

    /// The host cannot answer this one any more.
    pub(super) fn dialog_gone(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.dialog = Dialog::Closed;
        if !matches!(slot.state, State::Open) {
            return;
        }
        if slot.needs_own {
            let why = "it needs words of a person of its own, and the host is gone".to_owned();
            self.settle(no, Fate::Nobody { why });
        } else if slot.askd == Askd::Off {
            self.nobody_left(no);
        }
    }

    /// Only askd could answer, and it is not there: it may come back.
    pub(super) fn nobody_left(&mut self, no: AskNo) {
        let now = self.now;
        if let Some(slot) = self.asks.get_mut(&no) {
            slot.lost_since.get_or_insert(now);
        }
    }

    pub(super) fn tell_agent(&mut self, line: Vec<u8>) {
        self.out.push(Action::ToAgent(line));
    }
}

/// The host's response as an answer to the ask, and the line that carries it. `None`: it decides nothing.
fn host_answer(slot: &Slot, said: &Said, line: Vec<u8>) -> Option<HostAnswer> {
    Some(match said {
        Said::Failed(_) => return None,
        Said::Deny { message: Some(message), stop } => HostAnswer {
            line,
            decision: Decision::Deny,
            option: None,
            message: Some(message.clone()).filter(|text| !text.is_empty()),
            stop: *stop,
        },
        Said::Deny { message: None, stop } => {
            let words = "the host denied it and gave no reason";
            HostAnswer {
                line: message::deny(&slot.id, words, *stop, slot.call.as_deref()),
                decision: Decision::Deny,
                option: None,
                message: None,
                stop: *stop,
            }
        }
        Said::Allow { input, permissions } => {
            let suggestions: Vec<&RawValue> = slot.suggestions.iter().map(AsRef::as_ref).collect();
            let suggested = match permissions.as_slice() {
                [one] => suggestions.iter().position(|raw| same_json(raw.get(), one)),
                _ => None,
            };
            let option = suggested.map(grants::id);
            let changed = input.as_ref().is_some_and(|input| !same_json(input, slot.input.get()));
            let mut did = Vec::new();
            if changed {
                did.push("the host changed the input".to_owned());
            }
            if suggested.is_none() && !permissions.is_empty() {
                did.push(format!("the host changed permissions: {}", permissions.join(", ")));
            }
            let line = match input {
                Some(_) => line,
                // An allow without input is a deny to older versions.
                None => {
                    let list = (!permissions.is_empty()).then(|| format!("[{}]", permissions.join(",")));
                    message::allow(&slot.id, slot.input.get(), list.as_deref(), slot.call.as_deref())
                }
            };
            HostAnswer {
                line,
                decision: Decision::Allow,
                option,
                message: (!did.is_empty()).then(|| did.join("; ")),
                stop: false,
            }
        }
    })
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}
