//! What stands between a proxy's machine and the daemon in every world of a proxy, with the dice of that world: a thread
//! for each ask, the desk, the observer, the news. It works as the shipped threads do (`askd-agents`, `proxy`), one step
//! at a time and in any order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use askd_agents::acp::{Answered, AskNo, Errand, News};
use askd_core::{AskId, Command, Decision, LinkId, Refusal};
use askd_serve::raise::withdrawal;
use askd_wire::{Observation, ObservationBatch, OutcomeKind, RaiseAsk};

use super::daemon::{Daemon, Words};
use crate::dice::Dice;

/// An ask's thread.
pub(crate) struct Thread {
    pub(crate) raise: RaiseAsk,
    id: Option<AskId>,
    link: Option<LinkId>,
    orders: VecDeque<Order>,
    /// Observations that go first.
    behind: u64,
    told_raised: bool,
    told_outcome: bool,
    /// Nothing more comes of it.
    over: bool,
    /// It asks no more. What is ordered later is still told, but for answers: they have their record.
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    Withdraw(&'static str),
    Record(bool),
    Handed,
    Confirmed,
}

enum Job {
    Answer { ask: AskNo, decision: Decision, option: Option<String>, stop: bool, client: String },
    CountOthers { ask: AskNo },
}

pub(crate) struct Base {
    pub(crate) seed: u64,
    pub(crate) dice: Dice,
    pub(crate) daemon: Daemon,
    pub(crate) now: Duration,
    pub(crate) threads: BTreeMap<AskNo, Thread>,
    desk: VecDeque<Job>,
    observed: VecDeque<ObservationBatch>,
    made: u64,
    heard: u64,
    /// From the threads of asks, and from the desk.
    news: [VecDeque<News>; 2],
    /// askd takes none of what is raised.
    pub(crate) refuses: bool,
    pub(crate) happened: BTreeSet<&'static str>,
}

impl Thread {
    fn works(&self) -> bool {
        !self.ended || !self.orders.is_empty()
    }

    fn is_recording(&self) -> bool {
        self.orders.iter().any(|order| matches!(order, Order::Record(_)))
    }
}

impl Base {
    pub(crate) fn new(seed: u64) -> Self {
        Self::before(seed, Daemon::new())
    }

    /// The same with this daemon behind it.
    pub(crate) fn before(seed: u64, daemon: Daemon) -> Self {
        Self {
            seed,
            dice: Dice::new(seed),
            daemon,
            now: Duration::ZERO,
            threads: BTreeMap::new(),
            desk: VecDeque::new(),
            observed: VecDeque::new(),
            made: 0,
            heard: 0,
            news: Default::default(),
            refuses: false,
            happened: BTreeSet::new(),
        }
    }

    /// For looking at one world.
    pub(crate) fn say(&self, what: &str) {
        if std::env::var_os("TELL").is_some() {
            eprintln!("{:?} {what}", self.now);
        }
    }

    pub(crate) fn happen(&mut self, what: &'static str) {
        self.happened.insert(what);
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.daemon.pass(ms);
    }

    /// Sets about an errand.
    pub(crate) fn take(&mut self, errand: Errand) {
        match errand {
            Errand::Raise { ask, raise } => {
                let thread = Thread {
                    raise: *raise,
                    id: None,
                    link: None,
                    orders: VecDeque::new(),
                    behind: self.made,
                    told_raised: false,
                    told_outcome: false,
                    over: false,
                    ended: false,
                };
                self.threads.insert(ask, thread);
            }
            Errand::Answer { ask, decision, option, stop, client, .. } => {
                let decision = match decision {
                    askd_wire::Decision::Allow => Decision::Allow,
                    askd_wire::Decision::Deny => Decision::Deny,
                };
                self.desk.push_back(Job::Answer { ask, decision, option, stop, client });
            }
            Errand::CountOthers { ask, .. } => self.desk.push_back(Job::CountOthers { ask }),
            Errand::Withdraw { ask, cause } => self.order(ask, Order::Withdraw(cause)),
            Errand::Record { ask, allowed } => self.order(ask, Order::Record(allowed)),
            Errand::Confirmed { ask } => self.order(ask, Order::Confirmed),
            Errand::Observe(batch) => {
                self.made += 1;
                // The end of a subagent that has begun again is not told any more.
                for seen in &batch.observations {
                    if let Observation::SubagentStarted { work_id: again, .. } = seen {
                        self.observed.retain(|batch| {
                            !matches!(batch.observations.as_slice(),
                            [Observation::SubagentEnded { work_id }] if work_id == again)
                        });
                    }
                }
                self.observed.push_back(*batch);
            }
            Errand::Shown { .. }
            | Errand::Unable { .. }
            | Errand::Attach { .. }
            | Errand::Detach { .. }
            | Errand::Slash { .. } => {}
        }
    }

    /// One that was never raised has no thread, and nothing to tell.
    pub(crate) fn order(&mut self, ask: AskNo, order: Order) {
        let Some(thread) = self.threads.get_mut(&ask) else { return };
        if !(thread.ended && matches!(order, Order::Record(_))) {
            thread.orders.push_back(order);
        }
    }

    /// One step of one thread.
    pub(crate) fn thread_works(&mut self) {
        let live = self.working();
        if !live.is_empty() {
            let no = live[self.dice.index(live.len())];
            self.work(no);
        }
    }

    /// One step of each.
    pub(crate) fn threads_work(&mut self) {
        for no in self.working() {
            self.work(no);
        }
    }

    fn working(&self) -> Vec<AskNo> {
        self.threads.iter().filter(|(_, thread)| thread.works()).map(|(no, _)| *no).collect()
    }

    fn work(&mut self, no: AskNo) {
        let up = self.daemon.is_up();
        let thread = self.threads.get_mut(&no).unwrap();
        if let Some(order) = thread.orders.front().copied() {
            // What nobody there has heard of needs nobody there.
            let needs_nobody = matches!(order, Order::Withdraw(_)) && thread.id.is_none();
            if up || needs_nobody {
                thread.orders.pop_front();
                self.obey(no, order);
                self.end(no);
                self.threads.get_mut(&no).unwrap().over |= !matches!(order, Order::Handed);
            }
            return;
        }
        if thread.ended || thread.told_outcome {
            return;
        }
        if !up {
            return self.away(no, "no daemon");
        }
        if thread.link.is_none() {
            if self.heard < thread.behind {
                return;
            }
            if self.refuses && thread.id.is_none() {
                thread.ended = true;
                return self.news[0].push_back(News::Refused { ask: no, why: "it is too large".to_owned() });
            }
            let raise = thread.raise.clone();
            let link = self.daemon.link();
            let raised = self.daemon.raise(&raise, link).unwrap();
            if self.dice.percent(5) {
                // Written down, and the reply is lost.
                let _ = self.daemon.run(&Command::LinkClosed { link });
                return self.away(no, "lost");
            }
            let thread = self.threads.get_mut(&no).unwrap();
            (thread.id, thread.link) = (Some(raised), Some(link));
        }
        let thread = self.threads.get_mut(&no).unwrap();
        if let Some(outcome) = thread.id.and_then(|id| self.daemon.outcome(id)) {
            thread.told_outcome = true;
            self.news[0].push_back(News::Outcome { ask: no, outcome: Box::new(outcome) });
        } else if !std::mem::replace(&mut thread.told_raised, true) {
            self.news[0].push_back(News::Raised { ask: no, timed: None });
        }
    }

    fn away(&mut self, no: AskNo, why: &str) {
        self.threads.get_mut(&no).unwrap().told_raised = false;
        self.news[0].push_back(News::Unavailable { ask: no, why: why.to_owned() });
    }

    /// The thread asks no more.
    fn end(&mut self, no: AskNo) {
        let thread = self.threads.get_mut(&no).unwrap();
        thread.ended = true;
        if let Some(link) = thread.link.take() {
            let _ = self.daemon.run(&Command::LinkClosed { link });
        }
    }

    fn obey(&mut self, no: AskNo, order: Order) {
        self.say(&format!("ask {no} obeys {order:?}"));
        let thread = &self.threads[&no];
        let (id, token) = (thread.id, self.daemon.token());
        let done = match (order, id) {
            (Order::Withdraw(cause), _) => {
                // The reply that told its id may have been lost: it is taken back by its key.
                let by_key = || self.daemon.core().of_requester(token, &thread.raise.key);
                let known = id.or_else(by_key).filter(|_| self.daemon.is_up());
                let cause = withdrawal(cause).unwrap();
                known.map(|ask| self.daemon.run(&Command::Withdraw { ask, token, cause }))
            }
            (Order::Handed, Some(ask)) => Some(self.daemon.run(&Command::Handed { ask, token })),
            (Order::Confirmed, Some(ask)) => Some(self.daemon.run(&Command::Confirmed { ask, token })),
            (Order::Handed | Order::Confirmed, None) => None,
            (Order::Record(allowed), _) => {
                let raise = thread.raise.clone();
                self.threads.get_mut(&no).unwrap().id = Some(self.record(raise, allowed));
                None
            }
        };
        // Some are over by then, which is no fault.
        drop(done);
    }

    /// Written down as one that only the agent's own prompt could answer, and then as answered there.
    fn record(&mut self, mut raise: RaiseAsk, allowed: bool) -> AskId {
        self.happen("recorded afterwards");
        raise.needs_own_prompt = true;
        raise.own_prompt = Some(askd_wire::OwnPrompt { at: "client".to_owned(), blocked: false });
        let link = self.daemon.link();
        let ask = self.daemon.raise(&raise, link).unwrap();
        let decided = self.daemon.outcome(ask).map(|outcome| outcome.outcome);
        if decided == Some(if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied }) {
            // Only the reply was lost.
            let token = self.daemon.token();
            let _ = self.daemon.run(&Command::Handed { ask, token });
            let _ = self.daemon.run(&Command::LinkClosed { link });
            return ask;
        }
        if decided == Some(OutcomeKind::Withdrawn) {
            // It was over there before; the answer gets a record of its own.
            raise.key.push_str("-answered");
            self.daemon.raise(&raise, link).unwrap();
        }
        self.daemon.observe(&ObservationBatch {
            agent: raise.agent,
            session: raise.session,
            parent: raise.parent,
            session_title: None,
            cwd: None,
            instance: None,
            place: None,
            observations: vec![Observation::OwnPromptAnswered { call: raise.tool_call.unwrap(), allowed }],
        });
        let _ = self.daemon.run(&Command::LinkClosed { link });
        ask
    }

    pub(crate) fn desk_works(&mut self) {
        let news = match self.desk.pop_front() {
            None => return,
            Some(Job::CountOthers { ask }) => News::Others { ask, attached: self.dice.percent(50) },
            Some(Job::Answer { ask, decision, option, stop, client }) => {
                let id = self.threads.get(&ask).and_then(|thread| thread.id);
                let how = match id.filter(|_| self.daemon.is_up()) {
                    None => Answered::Unreachable,
                    Some(id) => self.answer(id, decision, option, stop, &client),
                };
                News::Answered { ask, how }
            }
        };
        self.news[1].push_back(news);
    }

    fn answer(
        &mut self,
        id: AskId,
        decision: Decision,
        option: Option<String>,
        stop: bool,
        client: &str,
    ) -> Answered {
        let words = Words { option, message: None, stop };
        let answered = self.daemon.answer_with(id, decision, words, client);
        if self.dice.percent(10) {
            self.happen("the reply to an answer was lost");
            return Answered::Unreachable;
        }
        match answered {
            Ok(()) => Answered::Won,
            Err(Refusal::AlreadySettled(_)) => Answered::Lost(Box::new(self.daemon.outcome(id).unwrap())),
            Err(_) => Answered::Unreachable,
        }
    }

    pub(crate) fn observer_works(&mut self) {
        let Some(batch) = self.observed.front() else { return };
        if !self.daemon.is_up() {
            // Nobody waits for a daemon that is away, and the end of a turn is not told later.
            self.observed.retain(|batch| !batch.observations.iter().any(ends_a_turn));
            self.heard = self.made;
            return;
        }
        let ends = |o: &Observation| {
            use Observation as O;
            ends_a_turn(o) || matches!(o, O::SubagentEnded { .. } | O::SessionEnded {})
        };
        if batch.observations.iter().any(ends) {
            // What the client said before that comes first.
            for no in self.working() {
                while self.threads[&no].is_recording() {
                    self.work(no);
                }
            }
        }
        if let Some(batch) = self.observed.pop_front() {
            self.say(&format!("observed: {:?}", batch.observations));
            self.daemon.observe(&batch);
        }
        self.heard = self.made - self.observed.len() as u64;
    }

    /// What the machine hears next.
    pub(crate) fn news(&mut self) -> Option<News> {
        let which = self.dice.index(2);
        let news = self.news[which].pop_front().or_else(|| self.news[1 - which].pop_front());
        if let Some(news) = &news {
            self.say(&format!("news: {news:?}"));
        }
        news
    }

    /// A person at another surface answers one of the open asks, by one of these options.
    pub(crate) fn person_answers(&mut self, allow: &str, deny: &str) {
        let open: Vec<AskId> = self.daemon.core().open().map(|(id, _)| id).collect();
        if open.is_empty() || !self.daemon.is_up() {
            return;
        }
        let id = open[self.dice.index(open.len())];
        let (option, decision) =
            if self.dice.percent(60) { (allow, Decision::Allow) } else { (deny, Decision::Deny) };
        // Only the agent's own prompt can answer some of them.
        let _ = self.daemon.answer(id, option, decision, "terminal");
    }

    pub(crate) fn daemon_dies_or_comes(&mut self) {
        if !self.daemon.is_up() {
            self.daemon.start();
            return;
        }
        self.happen("the daemon died");
        self.say("the daemon dies");
        self.daemon.die();
        self.threads.values_mut().for_each(|thread| thread.link = None);
    }

    /// The process with all its threads is gone, whatever they had to tell.
    pub(crate) fn dies(&mut self) {
        for no in self.working() {
            self.threads.get_mut(&no).unwrap().orders.clear();
            self.end(no);
        }
    }

    /// The process ends and has told everything that it had to tell, to a daemon that is there.
    pub(crate) fn has_told_all(&mut self) {
        self.daemon.start();
        for _ in 0..3 {
            while !self.observed.is_empty() {
                self.observer_works();
            }
            while !self.desk.is_empty() {
                self.desk_works();
            }
            for no in self.working() {
                while !self.threads[&no].orders.is_empty() {
                    self.work(no);
                }
            }
        }
        for no in self.threads.keys().copied().collect::<Vec<_>>() {
            self.end(no);
        }
        self.threads.clear();
        self.news = Default::default();
    }

    /// Forgets the threads that nothing more comes of.
    pub(crate) fn forget_over(&mut self) {
        self.threads.retain(|_, thread| !thread.over || !thread.orders.is_empty());
    }

    /// What is held in memory.
    pub(crate) fn held(&self) -> usize {
        let news: usize = self.news.iter().map(VecDeque::len).sum();
        self.daemon.core().asks().count() + self.threads.len() + news + self.observed.len() + self.desk.len()
    }

    /// Nothing may be left open at the daemon.
    pub(crate) fn assert_all_over(&self) {
        let open: Vec<_> = self.daemon.core().open().map(|(_, state)| &state.ask.action).collect();
        assert!(open.is_empty(), "seed {}: still open at askd: {open:?}", self.seed);
    }
}

fn ends_a_turn(seen: &Observation) -> bool {
    matches!(seen, Observation::TurnCancelled { .. } | Observation::TurnEnded { .. })
}
