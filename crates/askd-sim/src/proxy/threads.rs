//! What the proxy's threads do between the machine and the daemon: each ask's own, the desk, the observer, the news.

use std::collections::VecDeque;

use askd_agents::acp::{Answered, AskNo, News};
use askd_core::{AskId, Command, Decision, LinkId, Refusal};
use askd_wire::{Observation, ObservationBatch, RaiseAsk};

use super::daemon::Daemon;
use super::world::World;

/// An ask's thread of the proxy.
pub(super) struct Thread {
    pub(super) raise: RaiseAsk,
    pub(super) id: Option<AskId>,
    pub(super) link: Option<LinkId>,
    pub(super) orders: VecDeque<Order>,
    /// Observations that go first.
    pub(super) behind: u64,
    pub(super) told_raised: bool,
    pub(super) told_outcome: bool,
    pub(super) over: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Withdraw(&'static str),
    Record(bool),
    Handed,
    Confirmed,
}

pub(super) enum Job {
    Answer { ask: AskNo, decision: Decision, option: Option<String> },
    CountOthers { ask: AskNo },
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
            let first = !thread.told_outcome;
            self.obey(no, order);
            let thread = self.threads.get_mut(&no).unwrap();
            thread.over = first || matches!(order, Order::Withdraw(_) | Order::Confirmed);
            if thread.over
                && let Some(link) = thread.link.take()
            {
                let _ = self.daemon.run(&Command::LinkClosed { link });
            }
            return;
        }
        if !up {
            if thread.id.is_none() || !thread.told_raised {
                self.news[0].push_back(News::Unavailable { ask: no, why: "no daemon".to_owned() });
            }
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
                if !self.threads[&no].told_raised {
                    self.news[0].push_back(News::Unavailable { ask: no, why: "lost".to_owned() });
                }
                return;
            }
            let thread = self.threads.get_mut(&no).unwrap();
            (thread.id, thread.link) = (Some(raised), Some(link));
            if !std::mem::replace(&mut thread.told_raised, true) {
                self.news[0].push_back(News::Raised { ask: no, timed: None });
            }
            return;
        }
        if let Some(id) = thread.id.filter(|_| !thread.told_outcome)
            && let Some(outcome) = self.daemon.outcome(id)
        {
            thread.told_outcome = true;
            self.news[0].push_back(News::Outcome { ask: no, outcome: Box::new(outcome) });
        }
    }

    pub(super) fn obey(&mut self, no: AskNo, order: Order) {
        let thread = &self.threads[&no];
        let (raise, token) = (thread.raise.clone(), Daemon::token());
        self.say(&format!("ask {no} obeys {order:?}"));
        match order {
            Order::Withdraw(cause) => {
                let known = thread.id.or_else(|| self.daemon.core().of_requester(token, &raise.key));
                let cause = match cause {
                    "cancelled" => askd_core::Cause::Cancelled,
                    "session_ended" => askd_core::Cause::SessionEnded,
                    "superseded" => askd_core::Cause::Superseded,
                    _ => askd_core::Cause::RequesterGone,
                };
                if let Some(ask) = known.filter(|_| self.daemon.is_up()) {
                    let _ = self.daemon.run(&Command::Withdraw { ask, token, cause });
                }
            }
            Order::Handed => {
                if let Some(ask) = thread.id {
                    let _ = self.daemon.run(&Command::Handed { ask, token });
                }
            }
            Order::Confirmed => {
                if let Some(ask) = thread.id {
                    let _ = self.daemon.run(&Command::Confirmed { ask, token });
                }
            }
            Order::Record(allowed) => {
                self.happen("recorded afterwards");
                let link = self.daemon.link();
                let ask = self.daemon.raise(&raise, link, true).unwrap();
                let undecided =
                    self.daemon.outcome(ask).is_some_and(|o| o.outcome == askd_wire::OutcomeKind::Withdrawn);
                if undecided {
                    let again = RaiseAsk { key: format!("{}-answered", raise.key), ..raise.clone() };
                    self.daemon.raise(&again, link, true).unwrap();
                }
                self.daemon.observe(&ObservationBatch {
                    agent: raise.agent.clone(),
                    session: raise.session.clone(),
                    parent: raise.parent.clone(),
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
        }
    }

    pub(super) fn desk_works(&mut self) {
        if self.machine.is_none() {
            return;
        }
        match self.desk.pop_front() {
            Some(Job::Answer { ask, decision, option }) => {
                let id = self.threads[&ask].id.filter(|_| self.daemon.is_up());
                let how =
                    match id.map(|id| (id, self.daemon.answer(id, option.as_deref(), decision, "client"))) {
                        None => Answered::Unreachable,
                        Some(_) if self.dice.percent(10) => {
                            self.happen("the reply to an answer was lost");
                            Answered::Unreachable
                        }
                        Some((_, Ok(()))) => Answered::Won,
                        Some((id, Err(Refusal::AlreadySettled(_)))) => {
                            Answered::Lost(Box::new(self.daemon.outcome(id).unwrap()))
                        }
                        Some((_, Err(_))) => Answered::Unreachable,
                    };
                self.news[1].push_back(News::Answered { ask, how });
            }
            Some(Job::CountOthers { ask }) => {
                let attached = self.dice.percent(50);
                self.news[1].push_back(News::Others { ask, attached });
            }
            None => {}
        }
    }

    pub(super) fn observer_works(&mut self) {
        let Some(batch) = self.observed.pop_front() else { return };
        let cancels = batch.observations.iter().any(|o| matches!(o, Observation::TurnCancelled { .. }));
        let ends =
            cancels || batch.observations.iter().any(|o| matches!(o, Observation::SubagentEnded { .. }));
        if ends && self.daemon.is_up() {
            let recording = |t: &Thread| t.orders.iter().any(|order| matches!(order, Order::Record(_)));
            let first: Vec<AskNo> =
                self.threads.iter().filter(|(_, t)| !t.over && recording(t)).map(|(no, _)| *no).collect();
            for no in first {
                while !self.threads[&no].over && recording(&self.threads[&no]) {
                    self.work(no);
                }
            }
        }
        if self.daemon.is_up() {
            self.daemon.observe(&batch);
        } else if !cancels {
            self.observed.push_front(batch);
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
