//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::event::Event;
use askd_core::id::StreamId;
use askd_core::state::{Late, Link};
use askd_core::{Ask, AskId, AskState, Cause, Command, OutcomeKind, Raise, State};

use super::run::{Run, work};
use crate::model;

impl Run {
    pub fn check(&self) {
        self.as_the_reference_says();
        self.state_fits_itself();
        self.journal_gives_it_back();
    }

    /// Core and reference agree on every ask.
    fn as_the_reference_says(&self) {
        assert_eq!(self.model.asks.len(), self.raised.len());
        for (id, said) in &self.model.asks {
            let is = self.world.ask(*id);
            let outcome = is.outcome.as_ref().map(|o| (o.kind, o.cause, o.option.clone()));
            assert_eq!(outcome, said.outcome, "{id} {:?}", self.world.story(*id));
            assert_eq!(is.delivery, said.delivery, "{id} {:?}", self.world.story(*id));
            if said.is_open() {
                let link = match &is.link {
                    Link::Attached(link) => model::Link::On(*link),
                    Link::HandedBack { .. } => model::Link::Back,
                    Link::Detached { since, grace_ms } => {
                        let since = self.model.now - i64::try_from(since.elapsed(self.world.now)).unwrap();
                        model::Link::Off { since, grace: i64::try_from(*grace_ms).unwrap() }
                    }
                };
                assert_eq!(link, said.link, "{id} {:?}", self.world.story(*id));
                assert!(self.world.state.ask(*id).is_some(), "an open ask left memory");
            }
            let late = match &is.late {
                Late::None => model::Late::No,
                Late::Recorded(answer) => model::Late::Kept(answer.decision),
                Late::Used(_) => model::Late::Used,
                Late::Over => model::Late::Over,
            };
            if self.world.state.ask(*id).is_some() {
                assert_eq!(late, said.late, "{id} {:?}", self.world.story(*id));
            }
        }
    }

    fn state_fits_itself(&self) {
        let state = &self.world.state;
        // Every open ask can be listed, and "waiting" is the number of a session's open asks.
        let open: BTreeSet<_> = state.open().map(|(id, _)| id).collect();
        let should: BTreeSet<_> =
            self.model.asks.values().filter(|a| a.is_open()).map(|a| a.ask.id).collect();
        assert_eq!(open, should);
        for key in self.sessions() {
            let of = self.model.asks.values().filter(|a| a.is_open() && a.ask.lineage.session == key);
            assert_eq!(state.waiting(&key) as usize, of.count(), "waiting of {key}");
        }
        // No slot is free while somebody waits for it, and nobody holds one for nothing.
        for (surface, held) in state.limited_surfaces() {
            let (_, info) = state.surfaces().find(|(id, _)| *id == surface).expect("a slot of nobody's");
            let wants = |ask: &AskState| {
                let root = state.root_of(ask.session());
                !ask.is_handed_back() && !ask.failed.contains(&info.name) && info.scope.covers(&root)
            };
            let want: BTreeSet<_> = state.open().filter(|(_, ask)| wants(ask)).map(|(id, _)| id).collect();
            assert!(held.is_subset(&want), "{held:?} of {want:?}");
            assert_eq!(held.len(), want.len().min(info.capacity.unwrap_or(0) as usize), "of {want:?}");
        }
        for (id, ask) in state.asks() {
            assert!(!ask.is_finished(), "{id} is finished and stays in memory");
            assert_eq!(state.by_handle(&ask.ask.handle), Some(id));
            if let Some(outcome) = &ask.outcome {
                assert_eq!(outcome.kind == OutcomeKind::Withdrawn, outcome.cause.is_withdrawal());
            }
        }
    }

    /// The shell is told exactly when to come.
    pub fn check_time(&self) {
        let wait = self.world.state.poll_timeout(self.world.now);
        let due = self.model.next_due().map(|at| u64::try_from(at - self.model.now).unwrap_or(0));
        assert_eq!(wait.map(|(ms, _)| ms), due, "{wait:?}");
        let Some((ms, why)) = wait else { return };
        assert!(ms > 0, "{why} is overdue after everything due was done");
        let at = |ms: u64| {
            let mut then = self.world.now;
            then.boot_ms += ms;
            then
        };
        let changes = |ms| self.world.state.handle(&Command::Tick, at(ms)).changes;
        assert!(changes(ms - 1).is_empty(), "{why} came early");
        assert!(!changes(ms).is_empty(), "{why} is not due when it was said to be");
    }

    /// What is recorded of an ask is what its requester said.
    pub fn check_record(&self, ask: &Ask, raise: &Raise) {
        assert_eq!(
            (ask.action.input.as_ref(), &ask.action.tool),
            (raise.action.input.as_ref(), &raise.action.tool)
        );
        assert_eq!(ask.digest, raise.action.digest());
        assert_eq!((&ask.key, ask.requester.token), (&raise.key, raise.token));
        assert_eq!((&ask.lineage.session, ask.lineage.work_id()), (&raise.session, work(raise)));
        assert!(raise.call.is_none() || ask.lineage.call == raise.call);
    }

    /// State is its journal, but for links and what only time and notes say.
    fn journal_gives_it_back(&self) {
        let replayed = self.world.replayed_state();
        for (id, live) in self.world.state.asks() {
            let again = replayed.ask(id).expect("not in the journal");
            assert_eq!(live.ask, again.ask);
            assert_eq!(
                (&live.outcome, live.delivery, live.lost_at),
                (&again.outcome, again.delivery, again.lost_at)
            );
            assert_eq!(live.shown, again.shown);
            assert_eq!(
                matches!(live.link, Link::HandedBack { .. }),
                matches!(again.link, Link::HandedBack { .. })
            );
            // That a span is over is not always written down; time says it again.
            let kept = |late: &Late| match late {
                Late::None | Late::Over => None,
                Late::Recorded(answer) => Some((Some(answer.clone()), None)),
                Late::Used(by) => Some((None, Some(*by))),
            };
            assert_eq!(kept(&live.late), kept(&again.late));
        }
        let sessions = |state: &State| -> Vec<_> {
            let of = state.sessions().filter(|s| !s.ended);
            of.map(|s| (s.info.clone(), s.waiting, s.live_subagents().cloned().collect::<Vec<_>>())).collect()
        };
        assert_eq!(sessions(&self.world.state), sessions(&replayed));
    }

    /// What must hold of the whole story.
    pub fn end(&self) {
        let mut handles = BTreeSet::new();
        let mut settled: BTreeMap<AskId, usize> = BTreeMap::new();
        let mut cancelled: BTreeMap<AskId, usize> = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (at, record) in self.world.history.iter().enumerate() {
            let StreamId::Ask(id) = record.stream else { continue };
            match &record.event {
                Event::Asked { ask } => {
                    assert!(handles.insert(ask.handle.clone()), "a handle was given twice")
                }
                Event::Settled { outcome } | Event::Withdrawn { outcome } => {
                    assert!(settled.insert(id, at).is_none(), "settled twice");
                    self.cause_is_true(id, outcome);
                    if let Some(old) = outcome.late_of {
                        assert!(used.insert(old), "one late answer settled two asks");
                        assert!(!cancelled.contains_key(&old), "an answer outlived a cancel");
                    }
                }
                Event::LateRevoked { reason } if reason.ends_with("in time") => {}
                Event::Voided { .. } | Event::LateRevoked { .. } => {
                    cancelled.insert(id, at);
                }
                Event::Handed | Event::Confirmed => {
                    let allowed = self.world.outcome(id).kind == OutcomeKind::Allowed;
                    assert!(
                        !(allowed && cancelled.contains_key(&id)),
                        "an allow was handed over after a cancel"
                    );
                }
                _ => {}
            }
        }
    }

    fn cause_is_true(&self, id: AskId, outcome: &askd_core::Outcome) {
        let from = outcome.late_of.unwrap_or(id);
        let first = self.answered.iter().find(|(ask, _)| *ask == from).map(|(_, decision)| *decision);
        match outcome.cause {
            Cause::Person => {
                let decision = first.expect("nobody answered");
                assert_eq!(outcome.kind, OutcomeKind::from(decision), "not the first real answer");
                assert!(outcome.option.is_some());
            }
            Cause::Timed => {
                let ask = &self.world.ask(id).ask;
                assert_eq!(Some(outcome.after_ms), ask.policy.deadline_ms);
                assert!(ask.attendance == askd_core::ask::Attendance::Background);
            }
            _ => {}
        }
    }
}
