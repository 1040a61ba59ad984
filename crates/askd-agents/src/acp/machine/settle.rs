//! The one way out of an ask, and what askd says on the way there.

use askd_wire::{Decision, Observation, Outcome};

use super::super::ask::{decision_of, plain};
use super::super::message;
use super::super::raw::Object;
use super::elicitation::ACCEPT;
use super::slot::{Askd, ClientAnswer, Dialog, Done, Form, Left, Origin, Slot, State};
use super::{LOOK_AGAIN, LOOKS, Machine};
use crate::hidden::{ALONG, HiddenOption, HiddenReply};
use crate::proxy::{Action, Answered, AskNo, Errand, News, afterwards, decision_in};

/// How an ask ends.
#[derive(Debug)]
pub(super) enum Fate {
    /// Nobody decided. `tell_agent`: it still waits for a response.
    Ended { cause: &'static str, tell_agent: bool },
    /// The client left, and nobody else can answer: what it said goes on.
    Left,
    /// The client's answer.
    Client { answer: ClientAnswer, proof: Proof },
    /// Another source's, which decides.
    Outcome { decision: Decision, outcome: Box<Outcome> },
    /// The agent went on by itself. `None`: nobody knows which way.
    Seen { allowed: Option<bool> },
    /// The agent allowed it along with another one.
    Along,
}

/// What askd knows of a client's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// It is in the journal.
    Journal,
    /// askd was told and did not reply in time.
    Waiting,
    /// Nothing.
    None,
}

/// What the agent gets.
enum Word {
    Line(Vec<u8>),
    Hidden(HiddenReply, Option<String>),
    Nothing,
}

impl Machine {
    pub(super) fn settle(&mut self, no: AskNo, fate: Fate) {
        let options = self.hidden_options;
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done()) else { return };
        let dialog = std::mem::replace(&mut slot.dialog, Dialog::Closed);
        slot.show = None;
        let left = slot.left.take();
        let hidden = matches!(slot.origin, Origin::Hidden { .. });
        let mut stop = false;
        // An agent that went on by itself still has its request open, and may ask nothing more until that is over.
        let went_on = match &slot.origin {
            Origin::Request(id) => Word::Line(message::response(id, slot.form.cancelled())),
            Origin::Hidden { .. } => Word::Nothing,
        };
        let went_through = matches!(fate, Fate::Along | Fate::Seen { allowed: Some(true) });
        let (word, done, tell) = match fate {
            Fate::Ended { cause, tell_agent } => {
                let word = match (&slot.origin, tell_agent) {
                    (_, false) => Word::Nothing,
                    (Origin::Request(id), true) => Word::Line(message::response(id, slot.form.cancelled())),
                    (Origin::Hidden { .. }, true) => Word::Hidden(HiddenReply::Reject, None),
                };
                (word, Done::Ended, Some(Action::Daemon(Errand::Withdraw { ask: no, cause })))
            }
            Fate::Left => {
                let word = match (&slot.origin, left) {
                    // Nobody decided: it stays with the agent's own prompt.
                    (Origin::Hidden { .. }, Some(Left::Barred)) => Word::Nothing,
                    (Origin::Hidden { .. }, _) if slot.failed => Word::Nothing,
                    (Origin::Hidden { .. }, _) => Word::Hidden(HiddenReply::Reject, None),
                    (Origin::Request(_), Some(Left::Said(line))) => Word::Line(line),
                    (Origin::Request(id), Some(Left::Barred) | None) => {
                        Word::Line(message::response(id, slot.form.cancelled()))
                    }
                };
                (word, Done::Ended, Some(Action::Daemon(Errand::Withdraw { ask: no, cause: "cancelled" })))
            }
            Fate::Client { answer, proof } => {
                let decision = answer.decision;
                let word = match &slot.origin {
                    Origin::Request(_) => Word::Line(answer.line),
                    Origin::Hidden { .. } => Word::Hidden(reply_of(options, &answer.option), None),
                };
                let tell = match (proof, decision) {
                    (Proof::Waiting, _) => None,
                    (Proof::Journal, _) => (!hidden).then_some(Action::Handed { ask: no }),
                    (Proof::None, Some(decision)) => {
                        Some(Action::Daemon(Errand::Record { ask: no, allowed: decision == Decision::Allow }))
                    }
                    // The client's own prompt decided, and what the call does will tell which way.
                    (Proof::None, None) => {
                        Some(Action::Daemon(Errand::Withdraw { ask: no, cause: "handed_back" }))
                    }
                };
                (word, Done::Answered { decision, unsure: proof == Proof::Waiting }, tell)
            }
            Fate::Outcome { decision, outcome } => {
                let offered = |id: &String| decision_of(&slot.options, id).is_some();
                let option = outcome
                    .option
                    .clone()
                    .filter(offered)
                    .or_else(|| plain(&slot.options, decision).map(|o| o.option_id.clone()));
                stop = outcome.stop;
                let word = match (&slot.origin, option) {
                    (Origin::Request(id), Some(option)) => {
                        Word::Line(message::response(id, &selected(slot.form, &option, &outcome)))
                    }
                    // Nothing that the agent offers says it.
                    (Origin::Request(id), None) => Word::Line(message::response(id, slot.form.cancelled())),
                    (Origin::Hidden { .. }, Some(option)) => {
                        let words = outcome.reason_for_model.clone().filter(|_| decision == Decision::Deny);
                        Word::Hidden(reply_of(options, &option), words)
                    }
                    (Origin::Hidden { .. }, None) => Word::Hidden(HiddenReply::Reject, None),
                };
                let done = Done::Answered { decision: Some(decision), unsure: false };
                (word, done, (!hidden).then_some(Action::Handed { ask: no }))
            }
            Fate::Seen { allowed: Some(allowed) } => {
                let (session, call) = (slot.session.clone(), slot.call.clone());
                slot.state = State::Done(Done::Ended);
                self.observe(&session, vec![Observation::OwnPromptAnswered { call, allowed }]);
                (went_on, Done::Ended, None)
            }
            Fate::Along => {
                let (session, call) = (slot.session.clone(), slot.call.clone());
                slot.state = State::Done(Done::Ended);
                self.observe(&session, vec![along(call)]);
                (went_on, Done::Ended, None)
            }
            Fate::Seen { allowed: None } => {
                (went_on, Done::Ended, Some(Action::Daemon(Errand::Withdraw { ask: no, cause: "cancelled" })))
            }
        };
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.state = State::Done(done);
        slot.options = Vec::new();
        self.open.remove(&no);
        let (dialog_id, root, shown) = (slot.dialog_id(), slot.root.clone(), slot.shown);
        let hidden_id = match &slot.origin {
            Origin::Hidden { id, .. } => Some(id.clone()),
            Origin::Request(_) => None,
        };
        match (word, hidden_id) {
            (Word::Line(line), _) => self.tell_agent(line),
            (Word::Hidden(reply, message), Some(id)) => {
                slot.on_its_way = reply != HiddenReply::Reject;
                self.out.push(Action::HiddenReply { ask: no, id, reply, message });
            }
            (Word::Hidden(..), None) | (Word::Nothing, _) => {}
        }
        if dialog == Dialog::Open && !self.client.gone {
            self.tell_client(message::cancel_request(&dialog_id));
        }
        if hidden && shown {
            let allowed = matches!(done, Done::Answered { decision: Some(Decision::Allow), .. });
            self.close_card(no, allowed || went_through);
        }
        self.out.extend(tell);
        if stop {
            let mut params = Object::default();
            params.set_text("sessionId", &root);
            let line = message::notification("session/cancel", &params.to_string());
            self.cancelled(&root, line);
        }
    }

    /// The client's answer counts.
    pub(super) fn settle_by_client(&mut self, no: AskNo, proof: Proof) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        let State::Deciding { answer, sent, .. } = &slot.state else { return };
        // What was never sent will not be replied to.
        let proof = if proof == Proof::Waiting && !*sent { Proof::None } else { proof };
        let answer = answer.clone();
        self.settle(no, Fate::Client { answer, proof });
    }

    pub(super) fn settle_as_left(&mut self, no: AskNo) {
        self.settle(no, Fate::Left);
    }

    pub(super) fn send_answer(&mut self, no: AskNo) {
        let client = self.client.name.clone();
        let Some(slot) = self.asks.get_mut(&no) else { return };
        if let State::Deciding { answer, sent, .. } = &mut slot.state
            && !*sent
            && let Some(decision) = answer.decision
        {
            *sent = true;
            let option = answer.option.clone();
            let option = Some(option);
            self.errand(Errand::Answer { ask: no, decision, option, message: None, stop: false, client });
        }
    }

    pub(super) fn heard(&mut self, news: News) {
        match news {
            News::Raised { ask, timed } => self.raised(ask, timed.as_deref()),
            News::Outcome { ask, outcome } => {
                self.decided(ask, outcome);
                self.release_held_of(ask);
            }
            News::Answered { ask, how } => self.client_settled(ask, how),
            News::Unavailable { ask, why } | News::Refused { ask, why } => self.unavailable(ask, &why),
            News::Others { ask, attached } => {
                let again = self.now + LOOK_AGAIN;
                let Some(slot) = self.asks.get_mut(&ask).filter(|s| !s.is_done() && s.left.is_some()) else {
                    return;
                };
                // The client decided nothing about a hidden ask that it could not show: that rejects nothing.
                let stays = slot.is_hidden() && slot.is_undecided();
                slot.look_at = (!stays).then_some(again);
                match &mut slot.elsewhere {
                    None if attached || stays => {
                        slot.elsewhere = Some(0);
                        let text =
                            format!("{}: left by the client; it stays open elsewhere", self.named(ask));
                        self.log(text);
                    }
                    None => self.settle_as_left(ask),
                    Some(_) if stays => {}
                    Some(unseen) => {
                        *unseen = if attached { 0 } else { *unseen + 1 };
                        if *unseen >= LOOKS {
                            self.settle_as_left(ask);
                        }
                    }
                }
            }
            News::Slash { ticket, text } => self.command_answered(ticket, &text),
            News::Limit { .. } => {}
        }
    }

    fn raised(&mut self, no: AskNo, timed: Option<&str>) {
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done()) else { return };
        slot.askd = Askd::Raised;
        slot.lost_since = None;
        if self.held.as_ref().is_some_and(|held| held.ask == no) {
            self.release_held_with(timed);
        }
        self.show_waiting(no, timed);
        self.send_answer(no);
        let Some(slot) = self.asks.get_mut(&no) else { return };
        let root = slot.root.clone();
        if std::mem::take(&mut slot.tell_shown) && slot.dialog == Dialog::Open {
            self.errand(Errand::Shown { ask: no, root });
        } else if slot.failed {
            self.unable(no);
        } else if slot.left.is_some() {
            self.count_others(no);
        }
    }

    pub(super) fn count_others(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get(&no) else { return };
        let (agent, root) = (self.agent.clone(), slot.root.clone());
        self.errand(Errand::CountOthers { ask: no, agent, root });
    }

    /// The client leaves the race.
    pub(super) fn unable(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get(&no) else { return };
        let root = slot.root.clone();
        let text = format!("{}: the client cannot show it", self.named(no));
        self.log(text);
        let reason = "it did not answer with an option of the ask".to_owned();
        self.errand(Errand::Unable { ask: no, root, reason });
        self.count_others(no);
    }

    /// A dialog that waited for the journal is shown now.
    fn show_waiting(&mut self, no: AskNo, timed: Option<&str>) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        if slot.dialog != Dialog::Waiting || matches!(slot.origin, Origin::Request(_)) {
            return;
        }
        let Some(show) = slot.show.take() else { return };
        (slot.dialog, slot.shown) = (Dialog::Open, true);
        self.announce_child(no);
        for line in show.lines(timed) {
            self.tell_client(line);
        }
    }

    fn release_held_of(&mut self, no: AskNo) {
        if self.held.as_ref().is_some_and(|held| held.ask == no) {
            self.release_held();
        }
    }

    /// An outcome that came from askd.
    fn decided(&mut self, no: AskNo, outcome: Box<Outcome>) {
        let client_is_asked = |slot: &Slot| slot.dialog != Dialog::Closed;
        let Some(slot) = self.asks.get_mut(&no).filter(|slot| !slot.is_done()) else { return };
        let deciding = match &slot.state {
            State::Deciding { answer, .. } => Some(answer.option.clone()),
            State::Open | State::Done(_) => None,
        };
        // Nobody else can be asked here; the client can.
        let is_clients = outcome.cause == "unreachable" && (client_is_asked(slot) || deciding.is_some());
        let Some(decision) = decision_in(&outcome).filter(|_| !is_clients) else {
            self.without_askd(no);
            // It was taken down, and the client has no dialog of it either: nobody is left who could answer.
            let Some(slot) = self.asks.get(&no) else { return };
            if slot.dialog == Dialog::Closed && !self.client.gone {
                // A hidden one stays with the agent's own prompt: there is no word for "nobody decided".
                let tell_agent = matches!(slot.origin, Origin::Request(_));
                self.settle(no, Fate::Ended { cause: "cancelled", tell_agent });
            }
            return;
        };
        if deciding.is_some() && deciding == outcome.option {
            return self.settle_by_client(no, Proof::Journal);
        }
        self.settle(no, Fate::Outcome { decision, outcome });
    }

    fn client_settled(&mut self, no: AskNo, how: Answered) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        match (&mut slot.state, how) {
            (State::Deciding { .. }, Answered::Won) => self.settle_by_client(no, Proof::Journal),
            (State::Deciding { .. }, Answered::Lost(outcome)) => self.decided(no, outcome),
            (State::Deciding { .. }, Answered::Unreachable) => self.without_askd(no),
            (State::Deciding { .. }, Answered::NotPermitted(why)) => {
                slot.left = Some(Left::Barred);
                slot.state = State::Open;
                let text = format!("{}: the client may not answer ({why}); others still can", self.named(no));
                self.log(text);
                self.count_others(no);
            }
            (State::Done(Done::Answered { decision: Some(decision), unsure }), how) if *unsure => {
                *unsure = false;
                let decision = *decision;
                self.out.push(afterwards(no, decision, &how));
            }
            (State::Open | State::Done(_), _) => {}
        }
    }

    fn unavailable(&mut self, no: AskNo, why: &str) {
        let Some(slot) = self.asks.get(&no).filter(|slot| !slot.is_done()) else { return };
        let (was, left) = (slot.askd, slot.left.is_some());
        let waits = left && (was == Askd::Raised || slot.lost_since.is_some());
        if was != Askd::Off {
            let then = if waits { "it waits a moment" } else { "the client decides alone" };
            let text = format!("{}: {why}; {then}", self.named(no));
            self.log(text);
        }
        if waits {
            // The client has nothing more to say, and askd may come back: that is no answer.
            let now = self.now;
            if let Some(slot) = self.asks.get_mut(&no) {
                slot.askd = Askd::Off;
                slot.lost_since.get_or_insert(now);
            }
            return;
        }
        self.without_askd(no);
        self.release_held_of(no);
    }

    /// The client's answer counts alone from here on.
    fn without_askd(&mut self, no: AskNo) {
        let Some(slot) = self.asks.get_mut(&no) else { return };
        slot.askd = Askd::Off;
        if matches!(slot.state, State::Deciding { .. }) {
            return self.settle_by_client(no, Proof::None);
        }
        if slot.left.is_some() {
            return self.settle_as_left(no);
        }
        self.show_waiting(no, None);
    }

    /// What the client answered in words that askd does not know can no longer be seen by what the call does.
    pub(super) fn forget_unknown_answers(&mut self, session: &str) {
        let waits = |slot: &Slot| slot.session == session && slot.work.is_none() && slot.has_unknown_answer();
        let left: Vec<AskNo> = self.asks.iter().filter(|(_, slot)| waits(slot)).map(|(no, _)| *no).collect();
        for no in left {
            let Some(slot) = self.asks.get(&no) else { continue };
            // Without an entry its call was seen to end.
            if self.by_call.remove(&(slot.session.clone(), slot.call.clone())).is_some() {
                self.errand(Errand::Withdraw { ask: no, cause: "cancelled" });
            }
        }
    }

    /// A tool call is over.
    pub(super) fn call_over(&mut self, session: &str, call: &str, ran: bool) {
        // Each ask is told once: agents give the id of a call that is over to other calls.
        let about = self.by_call.remove(&(session.to_owned(), call.to_owned())).unwrap_or_default();
        let is_refused = |no: &AskNo| {
            let decision = self.asks.get(no).and_then(Slot::decision);
            decision == Some(Decision::Deny)
        };
        let was_refused = !ran && about.iter().any(is_refused);
        for no in about {
            let Some(slot) = self.asks.get(&no) else { continue };
            let (call, subagent) = (call.to_owned(), slot.work.clone());
            match &slot.state {
                State::Open | State::Deciding { .. } => {
                    self.settle(no, Fate::Seen { allowed: ran.then_some(true) });
                }
                // Allowed, and refused by what else it asked: it did not run.
                State::Done(Done::Answered { decision: Some(Decision::Allow), unsure }) if was_refused => {
                    if !unsure {
                        self.errand(Errand::Confirmed { ask: no });
                    }
                }
                State::Done(Done::Answered { decision: Some(Decision::Allow), .. }) => {
                    self.observe(session, vec![Observation::CallEnded { call, ok: ran, subagent }]);
                }
                // Refused and it ran all the same; or nobody knew what the client's answer meant.
                State::Done(Done::Answered { .. }) if ran => {
                    self.observe(session, vec![Observation::OwnPromptAnswered { call, allowed: true }]);
                }
                State::Done(Done::Answered { decision: Some(Decision::Deny), unsure: false }) => {
                    self.errand(Errand::Confirmed { ask: no });
                }
                State::Done(Done::Answered { decision: None, .. }) => {
                    self.errand(Errand::Withdraw { ask: no, cause: "cancelled" });
                }
                State::Done(_) => {}
            }
        }
    }
}

/// The agent allowed this call because another one was allowed for always.
pub(super) fn along(call: String) -> Observation {
    Observation::DecidedByAgent { call, allowed: true, by: Some(ALONG.to_owned()) }
}

/// How an option of a hidden ask is said to the agent's server.
fn reply_of(options: &[HiddenOption], option: &str) -> HiddenReply {
    options.iter().find(|o| o.id == option).map_or(HiddenReply::Reject, |o| o.reply)
}

/// The result that chooses an option for somebody who is not the client.
fn selected(form: Form, option: &str, outcome: &Outcome) -> String {
    let mut askd = Object::default();
    askd.set_text("cause", &outcome.cause);
    if let Some(surface) = &outcome.surface {
        askd.set_text("by", surface);
    }
    if let Some(reason) = &outcome.reason_for_model {
        askd.set_text("message", reason);
    }
    let mut meta = Object::default();
    meta.set("askd", askd.to_string());
    let mut result = Object::default();
    match form {
        Form::Permission => {
            let mut chosen = Object::default();
            chosen.set_text("outcome", "selected");
            chosen.set_text("optionId", option);
            result.set("outcome", chosen.to_string());
        }
        Form::Elicitation => {
            result.set_text("action", option);
            if option == ACCEPT {
                result.set("content", "{}".to_owned());
            }
        }
    }
    result.set("_meta", meta.to_string());
    result.to_string()
}
