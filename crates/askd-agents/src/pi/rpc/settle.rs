//! The one way out of a dialog, and what askd says on the way there.

use askd_wire::{Decision, Observation, Outcome, Verdict};

use super::dialog::{Host, Stand, State};
use super::{FollowUp, Machine, lines};
use crate::pi::AGENT;
use crate::proxy::{Action, Answered, AskNo, Errand, News, afterwards};

/// How a dialog ends.
#[derive(Debug)]
pub(super) enum Fate {
    /// Nobody decided. `tell_agent`: pi still waits for it.
    Ended { cause: &'static str, tell_agent: bool },
    /// The host left, and nobody else can answer: what it said goes on.
    Left,
    /// The host's answer.
    Host { proof: Proof },
    /// Another source's.
    Outcome(Box<Outcome>),
    /// pi went on by itself. `None`: nobody knows which way.
    Seen { allowed: Option<bool> },
}

/// What askd knows of a host's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// It is in the journal.
    Journal,
    /// askd was told and did not reply in time.
    Waiting,
    /// Nothing.
    None,
}

impl Machine {
    pub(super) fn settle(&mut self, no: AskNo, fate: Fate) {
        let Some(dialog) = self.dialogs.get_mut(&no).filter(|dialog| !dialog.is_done()) else { return };
        let id = dialog.id.clone();
        let state = std::mem::replace(&mut dialog.state, State::Ended);
        let shown = matches!(dialog.host, Host::Asked) && matches!(state, State::Open);
        match fate {
            Fate::Ended { cause, tell_agent } => {
                if tell_agent {
                    self.tell_agent(lines::cancelled(&id));
                }
                self.errand(Errand::Withdraw { ask: no, cause });
                if shown {
                    let why = if cause == "cancelled" { "cancelled" } else { "no longer asked" };
                    self.tell_host_what_became(no, why);
                }
            }
            Fate::Left => {
                let line = match std::mem::replace(&mut dialog.host, Host::Gone) {
                    Host::Left(line) => line,
                    Host::Asked | Host::Barred | Host::Gone => lines::cancelled(&id),
                };
                self.tell_agent(line);
                self.errand(Errand::Withdraw { ask: no, cause: "cancelled" });
            }
            Fate::Host { proof } => {
                let State::Deciding { line, decision, .. } = state else {
                    dialog.state = state;
                    return;
                };
                dialog.state = State::Answered { decision, unsure: proof == Proof::Waiting };
                let follows = match serde_json::from_slice::<serde_json::Value>(&line) {
                    Ok(told) => told["value"].as_str().and_then(|value| dialog.follow_up(value, None)),
                    Err(_) => None,
                };
                self.follow_ups.extend(follows);
                self.tell_agent(line);
                match proof {
                    Proof::Waiting => {}
                    Proof::Journal => self.out.push(Action::Handed { ask: no }),
                    Proof::None => {
                        let allowed = decision == Decision::Allow;
                        self.errand(Errand::Record { ask: no, allowed });
                    }
                }
            }
            Fate::Outcome(outcome) => {
                let decision =
                    if outcome.verdict == Verdict::Allow { Decision::Allow } else { Decision::Deny };
                dialog.state = State::Answered { decision, unsure: false };
                let (value, reason) = match decision {
                    Decision::Allow => (dialog.labels.allow(outcome.option.as_deref()).to_owned(), None),
                    Decision::Deny => {
                        let reason = reason(&outcome);
                        let (label, asks) = dialog.labels.deny(reason.is_some());
                        (label.to_owned(), reason.filter(|_| asks))
                    }
                };
                let follows = dialog.follow_up(&value, Some(reason.unwrap_or_default()));
                self.follow_ups.extend(follows);
                self.tell_agent(lines::value(&id, &value));
                self.out.push(Action::Handed { ask: no });
                if shown {
                    self.tell_host_what_became(no, &outcome.text);
                }
                if outcome.stop {
                    let line = lines::command(&self.own_id(), "abort");
                    self.tell_agent(line);
                    self.cancel_all();
                }
            }
            Fate::Seen { allowed } => {
                let call = dialog.call.clone();
                match (allowed, call) {
                    (Some(allowed), Some(call)) => {
                        self.observe(vec![Observation::OwnPromptAnswered { call, allowed }]);
                    }
                    _ => self.errand(Errand::Withdraw { ask: no, cause: "cancelled" }),
                }
            }
        }
        // What has no call of this session's has nothing more to learn.
        let over = |dialog: &super::Dialog| {
            dialog.call.is_none() && !matches!(dialog.state, State::Answered { unsure: true, .. })
        };
        if self.dialogs.get(&no).is_some_and(over) {
            self.forget(no);
        }
    }

    /// Nothing is left of it but its id.
    fn forget(&mut self, no: AskNo) {
        if let Some(dialog) = self.dialogs.remove(&no) {
            self.by_id.remove(&dialog.id);
            self.over.insert(dialog.id);
        }
    }

    /// The host's own dialog has no withdrawal in this protocol: it is told in words.
    fn tell_host_what_became(&mut self, no: AskNo, what: &str) {
        if self.host_gone {
            return;
        }
        let id = self.own_id();
        let Some(dialog) = self.dialogs.get(&no) else { return };
        let line = lines::notice(&id, &format!("askd: {what}: {}", dialog.title));
        self.tell_host(line);
    }

    /// The host's answer counts.
    pub(super) fn settle_by_host(&mut self, no: AskNo, proof: Proof) {
        let Some(State::Deciding { sent, .. }) = self.dialogs.get(&no).map(|dialog| &dialog.state) else {
            return;
        };
        // What was never sent will not be replied to.
        let proof = if proof == Proof::Waiting && !*sent { Proof::None } else { proof };
        self.settle(no, Fate::Host { proof });
    }

    pub(super) fn send_answer(&mut self, no: AskNo) {
        let client = self.settings.host.clone();
        let Some(dialog) = self.dialogs.get_mut(&no) else { return };
        if let State::Deciding { option, decision, sent, .. } = &mut dialog.state
            && !std::mem::replace(sent, true)
        {
            let (option, decision) = (Some(option.clone()), *decision);
            self.errand(Errand::Answer { ask: no, decision, option, message: None, stop: false, client });
        }
    }

    pub(super) fn count_others(&mut self, no: AskNo) {
        let root = self.session_name();
        self.errand(Errand::CountOthers { ask: no, agent: AGENT.to_owned(), root });
    }

    pub(super) fn heard(&mut self, news: News) {
        match news {
            News::Raised { ask, .. } => {
                let root = self.session_name();
                let Some(dialog) = self.dialogs.get_mut(&ask).filter(|dialog| !dialog.is_done()) else {
                    return;
                };
                dialog.stand = Stand::Raised;
                match (&dialog.host, &dialog.state) {
                    (_, State::Deciding { .. }) => self.send_answer(ask),
                    (Host::Asked, _) => self.errand(Errand::Shown { ask, root }),
                    (Host::Left(_) | Host::Barred, _) => self.count_others(ask),
                    (Host::Gone, _) => {}
                }
            }
            News::Outcome { ask, outcome } => self.decided(ask, outcome),
            News::Answered { ask, how } => self.host_settled(ask, how),
            News::Unavailable { ask, why } | News::Refused { ask, why } => {
                let Some(dialog) = self.dialogs.get(&ask).filter(|dialog| !dialog.is_done()) else { return };
                if dialog.stand != Stand::Off {
                    self.log(format!("ask {ask}: {why}; the host decides alone"));
                }
                self.without_askd(ask);
            }
            News::Others { ask, attached } => {
                let left = self.dialogs.get(&ask).is_some_and(|dialog| {
                    !dialog.is_done() && matches!(dialog.host, Host::Left(_) | Host::Barred)
                });
                if left && attached {
                    self.log(format!("ask {ask}: left by the host; it stays open elsewhere"));
                } else if left {
                    self.settle(ask, Fate::Left);
                }
            }
            News::Limit { .. } | News::Slash { .. } => {}
        }
    }

    /// An outcome that came from askd.
    fn decided(&mut self, no: AskNo, outcome: Box<Outcome>) {
        let Some(dialog) = self.dialogs.get(&no).filter(|dialog| !dialog.is_done()) else { return };
        let deciding = match &dialog.state {
            State::Deciding { option, .. } => Some(option.clone()),
            _ => None,
        };
        let asked = matches!(dialog.host, Host::Asked);
        if outcome.verdict == Verdict::None || (outcome.cause == "unreachable" && asked) {
            self.without_askd(no);
            // It was taken down, and the host has no dialog of it either: nobody is left who could answer.
            if !asked && !self.host_gone {
                self.settle(no, Fate::Left);
            }
            return;
        }
        if deciding.is_some() && deciding == outcome.option {
            return self.settle_by_host(no, Proof::Journal);
        }
        self.settle(no, Fate::Outcome(outcome));
    }

    /// What became of the host's answer.
    fn host_settled(&mut self, no: AskNo, how: Answered) {
        let Some(dialog) = self.dialogs.get_mut(&no) else { return };
        match (&mut dialog.state, how) {
            (State::Deciding { .. }, Answered::Won) => self.settle_by_host(no, Proof::Journal),
            (State::Deciding { .. }, Answered::Lost(outcome)) => self.decided(no, outcome),
            (State::Deciding { .. }, Answered::Unreachable) => self.without_askd(no),
            (State::Deciding { .. }, Answered::NotPermitted(why)) => {
                dialog.host = Host::Barred;
                dialog.state = State::Open;
                self.log(format!("ask {no}: the host may not answer ({why}); others still can"));
                self.count_others(no);
            }
            (State::Answered { decision, unsure }, how) if *unsure => {
                *unsure = false;
                let decision = *decision;
                let has_call = dialog.call.is_some();
                self.out.push(afterwards(no, decision, &how));
                if !has_call {
                    self.forget(no);
                }
            }
            _ => {}
        }
    }

    /// The host's answer counts alone from here on.
    fn without_askd(&mut self, no: AskNo) {
        let Some(dialog) = self.dialogs.get_mut(&no).filter(|dialog| !dialog.is_done()) else { return };
        dialog.stand = Stand::Off;
        match (&dialog.state, &dialog.host) {
            (State::Deciding { .. }, _) => self.settle_by_host(no, Proof::None),
            (_, Host::Left(_) | Host::Barred) => self.settle(no, Fate::Left),
            _ => {}
        }
    }

    /// A tool call is over.
    pub(super) fn call_over(&mut self, call: &str, ok: bool) {
        let about: Vec<AskNo> = self
            .dialogs
            .iter()
            .filter(|(_, dialog)| dialog.call.as_deref() == Some(call))
            .map(|(no, _)| *no)
            .collect();
        for no in about {
            let Some(dialog) = self.dialogs.get(&no) else { continue };
            match dialog.state {
                State::Open | State::Deciding { .. } => {
                    self.settle(no, Fate::Seen { allowed: ok.then_some(true) });
                }
                State::Answered { decision: Decision::Allow, .. } => {
                    let call = call.to_owned();
                    self.observe(vec![Observation::CallEnded { call, ok, subagent: None }]);
                }
                State::Answered { decision: Decision::Deny, unsure: false } if !ok => {
                    self.errand(Errand::Confirmed { ask: no });
                }
                State::Answered { .. } | State::Ended => {}
            }
            self.forget(no);
        }
    }
}

impl super::Dialog {
    /// The dialog that pi opens behind this value. `ours`: what we say there; none: the host speaks for itself.
    fn follow_up(&self, value: &str, ours: Option<String>) -> Option<FollowUp> {
        let is_reason = self.labels.is_reason(value);
        let asks = is_reason || (self.forwarded && self.labels.is_always(value));
        asks.then_some(FollowUp { is_reason, ours })
    }
}

/// Words for the model; none: pi's own "User denied" is true and enough.
fn reason(outcome: &Outcome) -> Option<String> {
    let said = outcome.message.as_deref().is_some_and(|words| !words.trim().is_empty());
    let text = if said || outcome.cause != "person" { outcome.reason_for_model.clone() } else { None };
    text.filter(|text| !text.trim().is_empty())
}
