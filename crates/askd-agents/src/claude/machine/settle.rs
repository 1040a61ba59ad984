//! The one way out of an ask, and what askd says on the way there.

use std::time::Duration;

use askd_hook::claude::grants;
use askd_wire::{Decision, Observation, Outcome, Verdict};
use serde_json::value::RawValue;

use super::super::Action;
use super::super::message;
use super::slot::{Askd, Dialog, Done, HostAnswer, Limit, Slot, State};
use super::{Errand, Machine};
use crate::proxy::{Answered, AskLimit, AskNo, News, afterwards};

/// How an ask ends.
#[derive(Debug)]
pub(super) enum Fate {
    /// Nobody decided. `waits`: the agent has not cancelled it yet.
    Ended {
        cause: &'static str,
        waits: bool,
    },
    /// The agent cancelled it, and nothing is known that cancels: something in it decided.
    Elsewhere,
    Host {
        answer: HostAnswer,
        proof: Proof,
    },
    /// Another source's answer: an allow or a deny.
    Outcome {
        outcome: Box<Outcome>,
        decision: Decision,
    },
    /// Nobody is left who could answer; the agent is told as much.
    Nobody {
        why: String,
    },
    /// The time that the journal gives for an answer passed, with these words.
    Limit {
        words: String,
    },
}

/// What askd knows of the host's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// It is in the journal.
    Journal,
    /// askd was told and did not reply in time.
    Waiting,
    /// Nothing.
    None,
}

/// What the agent tells of a call's result.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) failed: bool,
    /// Whether it was allowed, and by what, where the agent tells.
    pub(super) decided: Option<(bool, Option<String>)>,
}

impl Machine {
    pub(super) fn settle(&mut self, no: AskNo, fate: Fate) {
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done()) else { return };
        let waits = matches!(fate, Fate::Ended { waits: true, .. });
        // One that the agent may still wait for keeps its dialog: the agent's own cancel closes that.
        let dialog = if waits { Dialog::Closed } else { std::mem::replace(&mut slot.dialog, Dialog::Closed) };
        let cancel = message::cancel(&slot.id);
        let mut stops = false;
        let (line, done, tell) = match fate {
            Fate::Ended { cause, waits } => {
                (None, Done::Ended { waits }, Some(Action::Daemon(Errand::Withdraw { ask: no, cause })))
            }
            Fate::Elsewhere => {
                let cause = "handed_back";
                (None, Done::Elsewhere, Some(Action::Daemon(Errand::Withdraw { ask: no, cause })))
            }
            Fate::Host { answer, proof } => {
                let decision = answer.decision;
                stops = answer.stop;
                let tell = match proof {
                    Proof::Waiting => None,
                    Proof::Journal => Some(Action::Handed { ask: no }),
                    Proof::None => {
                        Some(Action::Daemon(Errand::Record { ask: no, allowed: decision == Decision::Allow }))
                    }
                };
                let unsure = proof == Proof::Waiting;
                (Some(answer.line), Done::Answered { decision, unsure, crossed: false }, tell)
            }
            Fate::Outcome { outcome, decision } => {
                stops = outcome.stop && decision == Decision::Deny;
                let line = outcome_line(slot, &outcome, decision);
                let done = Done::Answered { decision, unsure: false, crossed: false };
                (Some(line), done, Some(Action::Handed { ask: no }))
            }
            Fate::Nobody { why } => {
                let line = message::deny(&slot.id, &nobody(&why), false, slot.call.as_deref());
                // Nobody cancelled it: this run is what cannot wait any longer.
                let cause = "requester_limit";
                let tell = Action::Daemon(Errand::Withdraw { ask: no, cause });
                (Some(line), Done::Ended { waits: false }, Some(tell))
            }
            Fate::Limit { words } => {
                let line = message::deny(&slot.id, &words, false, slot.call.as_deref());
                let tell = Action::Daemon(Errand::Withdraw { ask: no, cause: "requester_limit" });
                (Some(line), Done::Ended { waits: false }, Some(tell))
            }
        };
        let closes = line.is_some() && dialog == Dialog::Open;
        // Again only if the agent turns out to wait for it still.
        if waits {
            slot.ended_at = self.now;
            self.waiting.insert(no);
        } else {
            slot.input = nothing();
            slot.suggestions = Vec::new();
            slot.line = Vec::new();
        }
        slot.state = State::Done(done);
        let (keeps, work) = (slot.call.is_some() || waits || is_unsure(done), slot.work.clone());
        self.open.remove(&no);
        if !keeps {
            self.asks.remove(&no);
        }
        if let Some(line) = line {
            self.tell_agent(line);
        }
        if closes && !self.host_gone {
            self.tell_host(cancel);
        }
        self.out.extend(tell);
        if stops {
            self.stopped_with(work.as_deref());
        }
    }

    /// A denial that stops the turn: what else is asked in the same turn is cancelled by it. A child in the background
    /// has a turn of its own.
    fn stopped_with(&mut self, work: Option<&str>) {
        let group = self.group(work).map(str::to_owned);
        self.winding.insert(group.clone());
        for no in self.open_asks() {
            let Some(slot) = self.asks.get(&no) else { continue };
            if self.group(slot.work.as_deref()) == group.as_deref() {
                self.settle(no, Fate::Ended { cause: "cancelled", waits: true });
            }
        }
    }

    /// The host's answer counts.
    pub(super) fn settle_by_host(&mut self, no: AskNo, proof: Proof) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        let State::Deciding { answer, sent, .. } = &slot.state else { return };
        // What was never sent will not be replied to.
        let proof = if proof == Proof::Waiting && !*sent { Proof::None } else { proof };
        let answer = answer.clone();
        self.settle(no, Fate::Host { answer, proof });
    }

    pub(super) fn heard(&mut self, news: News) {
        match news {
            News::Raised { ask, .. } => self.raised(ask),
            News::Outcome { ask, outcome } => self.decided(ask, outcome),
            News::Answered { ask, how } => self.host_settled(ask, how),
            News::Unavailable { ask, why } => self.unavailable(ask, &why),
            News::Refused { ask, why } => self.refused(ask, &why),
            News::Limit { ask, limit } => self.limited(ask, limit),
            News::Others { .. } | News::Slash { .. } => {}
        }
    }

    fn raised(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done()) else { return };
        slot.askd = Askd::Raised;
        slot.taken = true;
        let back = slot.lost_since.take().is_some();
        let shown = slot.dialog == Dialog::Open;
        if back {
            self.log(format!("{}: askd is there, and others can answer it", self.named(no)));
        }
        if shown {
            let root = self.session_name();
            self.errand(Errand::Shown { ask: no, root });
        }
        self.send_answer(no);
    }

    fn limited(&mut self, no: AskNo, told: Option<AskLimit>) {
        let now = self.now;
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.limit = told.map(|told| Limit { at: now + told.left, whole: told.whole, default: told.default });
    }

    /// Nobody could be asked for so long that the agent is told: what the journal says of that counts, as far as it can
    /// without the daemon that writes it down.
    pub(super) fn limit_passed(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get(&no) else { return };
        let Some(limit) = slot.limit.filter(|_| slot.taken) else {
            let span = duration(self.settings.unreached);
            let why = format!("askd could not be reached for {span}");
            return self.settle(no, Fate::Nobody { why });
        };
        let away = slot.lost_since.map_or(Duration::ZERO, |since| self.now.saturating_sub(since));
        let (whole, away) = (duration(limit.whole), duration(away));
        let away = format!("no answer within {whole}; askd itself was away for the last {away} of it");
        // Allowing is for a daemon that can write it down.
        let fate = match limit.default {
            Some(Decision::Deny) => Fate::Limit { words: away },
            Some(Decision::Allow) | None => Fate::Nobody { why: away },
        };
        self.settle(no, fate);
    }

    /// An outcome that came from askd.
    fn decided(&mut self, no: AskNo, outcome: Box<Outcome>) {
        let Some(slot) = self.asks.get(&no).filter(|slot| !slot.is_done()) else { return };
        let deciding = match &slot.state {
            State::Deciding { answer, .. } => Some(answer.decision),
            State::Open | State::Done(_) => None,
        };
        // Nobody else can be asked here; the host can.
        let hosts = outcome.cause == "unreachable" && (slot.dialog == Dialog::Open || deciding.is_some());
        let decision = match outcome.verdict {
            Verdict::Allow => Decision::Allow,
            Verdict::Deny => Decision::Deny,
            Verdict::None => return self.without_askd(no, Some(&outcome.text)),
        };
        if hosts {
            return self.without_askd(no, None);
        }
        let by_host = outcome.surface.as_deref() == Some("host") && outcome.cause == "person";
        if by_host && deciding == Some(decision) {
            return self.settle_by_host(no, Proof::Journal);
        }
        self.settle(no, Fate::Outcome { outcome, decision });
    }

    fn host_settled(&mut self, no: AskNo, how: Answered) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        match (&mut slot.state, how) {
            (State::Deciding { .. }, Answered::Won) => self.settle_by_host(no, Proof::Journal),
            (State::Deciding { .. }, Answered::Lost(outcome)) => self.decided(no, outcome),
            (State::Deciding { .. }, Answered::Unreachable) => self.without_askd(no, None),
            (State::Deciding { .. }, Answered::NotPermitted(why)) => {
                slot.state = State::Open;
                let text = format!("{}: the host may not answer ({why}); others still can", self.named(no));
                self.log(text);
                let root = self.session_name();
                self.errand(Errand::Unable { ask: no, root, reason: format!("it may not answer: {why}") });
            }
            (State::Done(Done::Answered { decision, unsure, .. }), how) if *unsure => {
                *unsure = false;
                let decision = *decision;
                let done = slot.call.is_none();
                if done {
                    self.asks.remove(&no);
                }
                self.out.push(afterwards(no, decision, &how));
            }
            (State::Open | State::Done(_), _) => {}
        }
    }

    fn unavailable(&mut self, no: AskNo, why: &str) {
        let Some(slot) = self.asks.get(&no).filter(|slot| !slot.is_done()) else { return };
        if slot.askd != Askd::Off && !slot.needs_own {
            let then = match (slot.limit, slot.taken) {
                _ if slot.dialog == Dialog::Open => "the host decides alone".to_owned(),
                (Some(limit), true) => {
                    let left = duration(limit.at.saturating_sub(self.now));
                    format!("it waits for the daemon (`askd daemon` starts it), for {left} at most")
                }
                (None, true) => "it waits for the daemon (`askd daemon` starts it)".to_owned(),
                (_, false) => {
                    let left = duration(self.settings.unreached);
                    format!("it waits for a daemon (`askd daemon` starts one), for {left} at most")
                }
            };
            let text = format!("{}: {why}; {then}", self.named(no));
            self.log(text);
        }
        self.without_askd(no, None);
    }

    /// askd will not take it, however often it is asked.
    fn refused(&mut self, no: AskNo, why: &str) {
        let Some(slot) = self.asks.get(&no).filter(|slot| !slot.is_done()) else { return };
        // One that waits for the host to be shown it again is the host's all the same.
        let over = slot.again_at.is_none().then_some(why);
        if slot.dialog == Dialog::Open && !slot.needs_own {
            self.log(format!("{}: {why}; the host decides alone", self.named(no)));
        }
        self.without_askd(no, over);
    }

    /// askd has no opinion. `over`: it will have none later either, and says why.
    fn without_askd(&mut self, no: AskNo, over: Option<&str>) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.askd = Askd::Off;
        if matches!(slot.state, State::Deciding { .. }) {
            return self.settle_by_host(no, Proof::None);
        }
        if slot.dialog == Dialog::Open {
            return;
        }
        match over {
            Some(why) => self.settle(no, Fate::Nobody { why: why.to_owned() }),
            None => self.nobody_left(no),
        }
    }

    /// The agent does not wait for this one any more. Its line goes on behind this.
    pub(super) fn cancelled_by_agent(&mut self, no: AskNo) {
        let work = self.asks.get(&no).and_then(|slot| slot.work.clone());
        let group = self.group(work.as_deref()).map(str::to_owned);
        // One that is asked again after a stop is cancelled late by that stop.
        let again = self.asks.get(&no).is_some_and(|slot| slot.again);
        let explained =
            again || self.signalled || self.winding.contains(&group) || self.is_stopping(work.as_deref());
        self.waiting.remove(&no);
        let Some(slot) = self.asks.get_mut(&no) else { return };
        match &mut slot.state {
            State::Open | State::Deciding { .. } => {
                // The agent's line tells the host.
                slot.dialog = Dialog::Closed;
                let fate = if explained || slot.call.is_none() {
                    Fate::Ended { cause: "cancelled", waits: false }
                } else {
                    Fate::Elsewhere
                };
                self.settle(no, fate);
            }
            State::Done(Done::Answered { crossed, .. }) => *crossed = true,
            State::Done(Done::Ended { waits }) => {
                *waits = false;
                slot.dialog = Dialog::Closed;
                slot.input = nothing();
            }
            State::Done(Done::Elsewhere) => {}
        }
    }

    /// A call has its result.
    pub(super) fn call_over(&mut self, call: &str, seen: &Seen) {
        for no in self.by_call.remove(call).unwrap_or_default() {
            let Some(slot) = self.asks.get_mut(&no) else { continue };
            if !slot.is_done() {
                // It has a result and no answer of ours: it went on without us, and forgot to say so.
                self.settle(no, Fate::Elsewhere);
            }
            let Some(slot) = self.asks.get(&no) else { continue };
            let State::Done(done) = slot.state else { continue };
            let (named, work) = (self.named(no), slot.work.clone());
            self.forget(no, done);
            self.result_of(no, call, done, seen, &named, work);
        }
    }

    fn result_of(
        &mut self,
        no: AskNo,
        call: &str,
        done: Done,
        seen: &Seen,
        named: &str,
        subagent: Option<String>,
    ) {
        let call = call.to_owned();
        let ran = Observation::CallEnded { call: call.clone(), ok: !seen.failed, subagent };
        // What failed may have been refused as well as run; only newer versions tell which.
        let allowed = seen.decided.as_ref().map(|(allowed, _)| *allowed).or((!seen.failed).then_some(true));
        let by = seen.decided.as_ref().and_then(|(_, source)| source.clone());
        let own = |allowed| Observation::DecidedByAgent { call: call.clone(), allowed, by: by.clone() };
        match (done, allowed) {
            // It was allowed in the agent before that heard of the end.
            (Done::Ended { .. }, Some(true)) => self.observe(vec![own(true)]),
            (Done::Ended { .. }, _) => {}
            (Done::Elsewhere, Some(allowed)) => {
                let what = if allowed { "allowed" } else { "denied" };
                let by = by.as_deref().unwrap_or("the agent");
                self.log(format!("{named}: {what} by {by} before anybody answered"));
                self.observe(vec![own(allowed)]);
            }
            (Done::Elsewhere, None) => {
                let cause = "cancelled";
                self.errand(Errand::Withdraw { ask: no, cause });
            }
            (Done::Answered { decision: Decision::Allow, .. }, Some(false)) => {
                self.log(format!("{named}: denied by {} first", by.as_deref().unwrap_or("the agent")));
                self.observe(vec![own(false)]);
            }
            (Done::Answered { decision: Decision::Allow, crossed, .. }, None) if crossed => {
                self.observe(vec![own(false)]);
            }
            (Done::Answered { decision: Decision::Allow, .. }, _) => self.observe(vec![ran]),
            (Done::Answered { decision: Decision::Deny, .. }, Some(true)) => {
                self.log(format!("{named}: allowed by {} first", by.as_deref().unwrap_or("the agent")));
                self.observe(vec![own(true)]);
            }
            (Done::Answered { decision: Decision::Deny, unsure, .. }, _) => {
                if !unsure {
                    self.errand(Errand::Confirmed { ask: no });
                }
            }
        }
    }

    /// Nothing more comes of it; but what became of the host's answer may still be told.
    fn forget(&mut self, no: AskNo, done: Done) {
        match self.asks.get_mut(&no) {
            Some(slot) if is_unsure(done) => slot.call = None,
            _ => drop(self.asks.remove(&no)),
        }
    }

    /// The main thread's turn is over: it waits for nothing that it asked.
    pub(super) fn turn_over(&mut self) {
        self.signalled = false;
        self.winding.remove(&None);
        self.asks_over(None, "cancelled");
        self.observe(vec![Observation::TurnEnded { subagent: None }]);
    }

    /// A thread is over, and its asks with it.
    pub(super) fn asks_over(&mut self, work: Option<&str>, cause: &'static str) {
        let of = |(no, slot): (&AskNo, &Slot)| (slot.work.as_deref() == work).then_some(*no);
        let over: Vec<AskNo> = self.asks.iter().filter_map(of).collect();
        for no in over {
            self.settle(no, Fate::Ended { cause, waits: false });
            let Some(slot) = self.asks.get(&no) else { continue };
            if let State::Done(done) = slot.state {
                let call = slot.call.clone();
                self.forget(no, done);
                call.and_then(|call| self.by_call.remove(&call));
            }
        }
    }
}

fn is_unsure(done: Done) -> bool {
    matches!(done, Done::Answered { unsure: true, .. })
}

/// The true text for the model where nobody decided.
fn nobody(why: &str) -> String {
    format!("nobody could be asked: {why}. Nobody denied it, and nobody allowed it")
}

fn duration(span: Duration) -> String {
    match (span.as_secs() / 60, span.as_secs() % 60) {
        (0, secs) => format!("{secs}s"),
        (mins, secs) => format!("{mins}m{secs}s"),
    }
}

/// In place of an input that is not needed any more.
fn nothing() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

/// The line that carries another source's answer: an allow has exactly the input that was shown.
fn outcome_line(slot: &Slot, outcome: &Outcome, decision: Decision) -> Vec<u8> {
    let call = slot.call.as_deref();
    match decision {
        Decision::Deny => message::deny(&slot.id, message::words(outcome), outcome.stop, call),
        Decision::Allow => {
            let suggestions: Vec<&RawValue> = slot.suggestions.iter().map(AsRef::as_ref).collect();
            let chosen = grants::chosen(outcome.option.as_deref(), &suggestions);
            let permissions = chosen.map(|raw| format!("[{}]", raw.get()));
            message::allow(&slot.id, slot.input.get(), permissions.as_deref(), call)
        }
    }
}
