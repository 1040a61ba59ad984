//! The wrapper's threads: one for each ask, one for the host's answers, one for what is observed, and the news.

use std::collections::VecDeque;

use askd_agents::claude::{Answered, AskNo, News};
use askd_core::{Answer, AskId, Cause, Command, Decision, LinkId, Refusal};
use askd_wire::{Observation, ObservationBatch, OutcomeKind, RaiseAsk};

use super::world::World;
use crate::proxy::daemon::Daemon;

/// An ask's thread.
pub(super) struct Thread {
    pub(super) raise: RaiseAsk,
    id: Option<AskId>,
    pub(super) link: Option<LinkId>,
    pub(super) orders: VecDeque<Order>,
    /// Observations that go first.
    behind: u64,
    told_raised: bool,
    told_outcome: bool,
    pub(super) over: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Withdraw(&'static str),
    Record(bool),
    Handed,
    Confirmed,
}

/// The host's answer, for askd.
pub(super) struct Job {
    pub(super) ask: AskNo,
    pub(super) decision: Decision,
    pub(super) option: Option<String>,
}

impl Thread {
    pub(super) fn new(raise: RaiseAsk, behind: u64) -> Self {
        Self {
            raise,
            id: None,
            link: None,
            orders: VecDeque::new(),
            behind,
            told_raised: false,
            told_outcome: false,
            over: false,
        }
    }
}

impl World {
    pub(super) fn thread_works(&mut self) {
        let live: Vec<AskNo> = self.threads.iter().filter(|(_, t)| !t.over).map(|(no, _)| *no).collect();
        if live.is_empty() || self.machine.is_none() {
            return;
        }
        let no = live[self.dice.index(live.len())];
        self.work(no);
    }

    pub(super) fn work(&mut self, no: AskNo) {
        let up = self.daemon.is_up();
        let thread = self.threads.get_mut(&no).unwrap();
        if let Some(order) = thread.orders.front().copied() {
            // What nobody there has heard of needs nobody there.
            let needs_nobody = matches!(order, Order::Withdraw(_)) && thread.id.is_none();
            if !up && !needs_nobody {
                return;
            }
            thread.orders.pop_front();
            self.obey(no, order);
            let thread = self.threads.get_mut(&no).unwrap();
            thread.over = matches!(order, Order::Withdraw(_) | Order::Confirmed);
            if thread.over
                && let Some(link) = thread.link.take()
            {
                let _ = self.daemon.run(&Command::LinkClosed { link });
            }
            return;
        }
        if !up {
            if !thread.told_outcome {
                thread.told_raised = false;
                self.news[0].push_back(News::Unavailable { ask: no, why: "no daemon".to_owned() });
            }
            return;
        }
        if thread.told_outcome {
            return;
        }
        if thread.link.is_none() {
            if self.heard < thread.behind {
                return;
            }
            let raise = thread.raise.clone();
            let link = self.daemon.link();
            let raised = self.daemon.raise(&raise, link, false).unwrap();
            if self.dice.percent(5) {
                // Written down, and the reply is lost.
                let _ = self.daemon.run(&Command::LinkClosed { link });
                self.news[0].push_back(News::Unavailable { ask: no, why: "lost".to_owned() });
                return;
            }
            let thread = self.threads.get_mut(&no).unwrap();
            (thread.id, thread.link) = (Some(raised), Some(link));
            if !std::mem::replace(&mut thread.told_raised, true) {
                self.news[0].push_back(News::Raised { ask: no, timed: None });
            }
            return;
        }
        if let Some(outcome) = thread.id.and_then(|id| self.daemon.outcome(id)) {
            self.threads.get_mut(&no).unwrap().told_outcome = true;
            self.news[0].push_back(News::Outcome { ask: no, outcome: Box::new(outcome) });
        }
    }

    fn obey(&mut self, no: AskNo, order: Order) {
        let thread = &self.threads[&no];
        let (raise, token) = (thread.raise.clone(), Daemon::token());
        let known = thread.id.or_else(|| self.daemon.core().of_requester(token, &raise.key));
        self.say(&format!("ask {no} obeys {order:?}"));
        match order {
            Order::Withdraw(cause) => {
                let cause = match cause {
                    "cancelled" => Cause::Cancelled,
                    "session_ended" => Cause::SessionEnded,
                    "superseded" => Cause::Superseded,
                    "handed_back" => Cause::HandedBack,
                    _ => Cause::RequesterGone,
                };
                if let Some(ask) = known.filter(|_| self.daemon.is_up()) {
                    let _ = self.daemon.run(&Command::Withdraw { ask, token, cause });
                }
            }
            Order::Handed | Order::Confirmed => {
                let Some(ask) = known else { return };
                let command = match order {
                    Order::Handed => Command::Handed { ask, token },
                    _ => Command::Confirmed { ask, token },
                };
                let _ = self.daemon.run(&command);
            }
            Order::Record(allowed) => self.record(&raise, allowed),
        }
    }

    fn record(&mut self, raise: &RaiseAsk, allowed: bool) {
        self.happen("recorded afterwards");
        let link = self.daemon.link();
        let ask = self.daemon.raise(raise, link, true).unwrap();
        if self.daemon.outcome(ask).is_some_and(|o| o.outcome == OutcomeKind::Withdrawn) {
            let again = RaiseAsk { key: format!("{}-answered", raise.key), ..raise.clone() };
            self.daemon.raise(&again, link, true).unwrap();
        }
        self.daemon.observe(&ObservationBatch {
            agent: raise.agent.clone(),
            session: raise.session.clone(),
            parent: None,
            session_title: None,
            cwd: None,
            instance: None,
            place: None,
            observations: vec![Observation::OwnPromptAnswered {
                call: raise.tool_call.clone().unwrap(),
                allowed,
            }],
        });
        let _ = self.daemon.run(&Command::LinkClosed { link });
    }

    pub(super) fn desk_works(&mut self) {
        if self.machine.is_none() {
            return;
        }
        let Some(Job { ask, decision, option }) = self.desk.pop_front() else { return };
        let id = self.threads.get(&ask).and_then(|thread| thread.id).filter(|_| self.daemon.is_up());
        let digest = id.and_then(|id| self.daemon.ask(id).map(|state| (id, state.ask.digest)));
        let how = match digest {
            None => Answered::Unreachable,
            Some((id, digest)) => {
                let answer = Answer {
                    ask: id,
                    digest,
                    decision,
                    option,
                    message: None,
                    stop: false,
                    surface: "host".to_owned(),
                    remote: false,
                    by: None,
                    refused: None,
                };
                match self.daemon.run(&Command::Answer(answer)) {
                    _ if self.dice.percent(10) => {
                        self.happen("the reply to an answer was lost");
                        Answered::Unreachable
                    }
                    Ok(_) => Answered::Won,
                    Err(Refusal::AlreadySettled(_)) => {
                        Answered::Lost(Box::new(self.daemon.outcome(id).unwrap()))
                    }
                    Err(_) => Answered::Unreachable,
                }
            }
        };
        self.news[1].push_back(News::Answered { ask, how });
    }

    pub(super) fn observer_works(&mut self) {
        let Some(batch) = self.observed.pop_front() else { return };
        let is_cancel = |o: &Observation| matches!(o, Observation::TurnCancelled { .. });
        if self.daemon.is_up() {
            // What the host said before an end comes first.
            let recording =
                |thread: &Thread| thread.orders.iter().any(|order| matches!(order, Order::Record(_)));
            let first: Vec<AskNo> =
                self.threads.iter().filter(|(_, t)| !t.over && recording(t)).map(|(no, _)| *no).collect();
            for no in first {
                while !self.threads[&no].over && recording(&self.threads[&no]) {
                    self.work(no);
                }
            }
            self.daemon.observe(&batch);
        } else {
            // Nobody waits for a daemon that is away, and a cancel is not told later.
            self.observed.push_front(batch);
            self.observed.retain(|batch| !batch.observations.iter().any(is_cancel));
            self.heard = self.made;
            return;
        }
        self.heard = self.made - self.observed.len() as u64;
    }

    pub(super) fn news_arrives(&mut self) {
        let which = self.dice.index(2);
        let news = match self.news[which].pop_front() {
            Some(news) => Some(news),
            None => self.news[1 - which].pop_front(),
        };
        if let Some(news) = news {
            self.say(&format!("news: {news:?}"));
            self.drive(|machine, now| machine.news(news, now));
        }
    }
}
