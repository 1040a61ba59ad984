//! Deadlines with their reasons, on the boot clock.

use std::collections::BTreeSet;

use crate::ask::{AtDeadline, Decision};
use crate::event::{Change, Event, Note};
use crate::id::{AskId, SurfaceId};
use crate::outcome::{Cause, Delivery, Outcome, OutcomeKind, Source};
use crate::time::Now;

use super::{AskState, Late, Link, State};

/// Most asks that one tick settles, so that a batch stays a batch.
const PER_TICK: usize = 1000;

/// Why the core wants to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The timed answer, or the hand-back of an agent with a prompt of its own.
    Deadline,
    /// A remote surface has shown it for as long as a silence there may take.
    RemoteSilence,
    /// The requester stops waiting by itself.
    GivesUp,
    /// A lost requester did not come back.
    Grace,
    /// The span in which a repeated call may use a kept answer is over.
    LateEnd,
    /// Surfaces of before are back, or do not come.
    Surfaces,
}

impl Due {
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::RemoteSilence => "remote silence",
            Self::GivesUp => "requester limit",
            Self::Grace => "grace",
            Self::LateEnd => "late answer",
            Self::Surfaces => "surfaces of before",
        }
    }
}

/// Deadlines apart from the rest, because only they wait for the remote surfaces after a wake.
#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    deadlines: BTreeSet<(u64, AskId, Due)>,
    others: BTreeSet<(u64, AskId, Due)>,
    /// Until this boot time no overdue default is applied, unless every remote surface was polled before.
    hold_until: Option<u64>,
    polled: BTreeSet<SurfaceId>,
}

impl Timers {
    pub(super) fn clear(&mut self, id: AskId, dues: &[(u64, Due)]) {
        for (at, due) in dues {
            match due {
                Due::Deadline | Due::RemoteSilence => self.deadlines.remove(&(*at, id, *due)),
                Due::GivesUp | Due::Grace | Due::LateEnd | Due::Surfaces => {
                    self.others.remove(&(*at, id, *due))
                }
            };
        }
    }

    fn set(&mut self, id: AskId, dues: &[(u64, Due)]) {
        for (at, due) in dues {
            match due {
                Due::Deadline | Due::RemoteSilence => self.deadlines.insert((*at, id, *due)),
                Due::GivesUp | Due::Grace | Due::LateEnd | Due::Surfaces => {
                    self.others.insert((*at, id, *due))
                }
            };
        }
    }

    fn held_until(&self, now: Now) -> Option<u64> {
        self.hold_until.filter(|until| *until > now.boot_ms)
    }
}

impl State {
    /// When to call with [`crate::Command::Tick`] next, in milliseconds from `now` (0: at once), and why.
    pub fn poll_timeout(&self, now: Now) -> Option<(u64, &'static str)> {
        let hold = self.timers.held_until(now).unwrap_or(0);
        let deadline = self.timers.deadlines.first().map(|(at, _, due)| (*at.max(&hold), *due));
        let other = self.timers.others.first().map(|(at, _, due)| (*at, *due));
        let awaited = self.awaited.until().map(|at| (at, Due::Surfaces));
        deadline
            .into_iter()
            .chain(other)
            .chain(awaited)
            .min()
            .map(|(at, due)| (at.saturating_sub(now.boot_ms), due.name()))
    }

    /// After a start or a wake: no overdue default is applied before the remote surfaces were polled.
    pub fn waits_for_remotes(&self, now: Now) -> bool {
        self.timers.held_until(now).is_some()
    }

    /// Brings the timers of an ask up to date.
    pub(super) fn index(&mut self, id: AskId, now: Now) {
        let Some(ask) = self.asks.get_mut(&id) else { return };
        let dues = dues(ask, self.settings.late_answer_ms, now);
        if dues != ask.dues {
            self.timers.clear(id, &ask.dues);
            self.timers.set(id, &dues);
            ask.dues = dues;
        }
        if ask.kept_answer().is_some() {
            self.late.insert(id);
        } else {
            self.late.remove(&id);
        }
    }

    pub(super) fn hold_for_remotes(&mut self, now: Now) {
        let attached = self.surfaces.values().filter(|s| s.remote).count();
        self.timers.polled.clear();
        // A wait that is on stays on, also when the surface that it is for has left since.
        if attached > 0 || self.settings.remotes > 0 {
            self.timers.hold_until = Some(now.boot_ms.saturating_add(self.settings.wake_hold_ms));
        }
    }

    pub(super) fn remote_polled(&mut self, surface: &SurfaceId) {
        self.timers.polled.insert(surface.clone());
        let attached: BTreeSet<_> =
            self.surfaces.iter().filter(|(_, s)| s.remote).map(|(id, _)| id).collect();
        let expected = attached.len().max(usize::try_from(self.settings.remotes).unwrap_or(usize::MAX));
        if self.timers.polled.len() >= expected && attached.iter().all(|id| self.timers.polled.contains(*id))
        {
            self.timers.hold_until = None;
        }
    }

    /// Everything that is due.
    pub(super) fn tick(&self, now: Now) -> Vec<Change> {
        // What they come to is applied before anything else that is due is looked at.
        let awaited = self.surfaces_awaited(now);
        if !awaited.is_empty() {
            return awaited;
        }
        let mut changes = Vec::new();
        let mut done = BTreeSet::new();
        if self.timers.held_until(now).is_none() {
            let until = (now.boot_ms, AskId::MAX, Due::LateEnd);
            for (_, id, due) in self.timers.deadlines.range(..=until).take(PER_TICK) {
                if let Some(ask) = self.asks.get(id) {
                    done.insert(*id);
                    changes.extend(self.never_shown(*id, ask, now));
                    changes.push(match due {
                        Due::RemoteSilence => remote_silence(*id, ask, now),
                        _ => deadline(*id, ask, now),
                    });
                }
            }
        }
        for (_, id, due) in
            self.timers.others.range(..=(now.boot_ms, AskId::MAX, Due::LateEnd)).take(PER_TICK)
        {
            // A deadline of the same moment came first; the rest of its timers are indexed anew by then.
            let Some(ask) = self.asks.get(id).filter(|_| done.insert(*id)) else { continue };
            match due {
                Due::Deadline | Due::RemoteSilence | Due::Surfaces => {}
                // Written down, so that no later step of the wall clock brings a consent back.
                Due::LateEnd if ask.kept_answer().is_some() => changes.push(record(
                    *id,
                    now,
                    Event::LateRevoked { reason: "the same call did not ask again in time".to_owned() },
                )),
                Due::LateEnd => changes.push(Change::Note(Note::LateForgotten { ask: *id })),
                Due::Grace if ask.is_open() => {
                    changes.push(withdrawn(*id, ask, Cause::RequesterGone, None, now));
                }
                Due::Grace if ask.is_unheard() => {
                    changes.push(Change::Note(Note::NothingToTell { ask: *id }));
                }
                Due::Grace => changes.push(record(
                    *id,
                    now,
                    Event::DeliveryExpired { why: "the requester did not come back".to_owned() },
                )),
                Due::GivesUp => match &ask.ask.requester.own_prompt {
                    Some(own) => changes.push(record(
                        *id,
                        now,
                        Event::HandedBack {
                            at: own.at.clone(),
                            why: "the requester stopped waiting".to_owned(),
                        },
                    )),
                    None => changes.push(withdrawn(*id, ask, Cause::RequesterLimit, None, now)),
                },
            }
        }
        changes
    }
}

/// What an ask waits for. An open ask has at most one: whatever comes first ends its being open or its being askd's,
/// so that what was due later cannot overtake it, not even when both are overdue.
fn dues(ask: &AskState, late_ms: u64, now: Now) -> Vec<(u64, Due)> {
    // Before this boot began is as overdue as can be.
    nominal_dues(ask, late_ms, now)
        .into_iter()
        .map(|(at, due)| (u64::try_from(at).unwrap_or(0), due))
        .collect()
}

fn nominal_dues(ask: &AskState, late_ms: u64, now: Now) -> Vec<(i64, Due)> {
    let mut dues = Vec::new();
    let asked = ask.ask.asked_at;
    if ask.recalled {
        return dues;
    }
    if ask.is_open() {
        if ask.is_handed_back() {
            return dues;
        }
        // A timed allow never runs for a requester that is not there.
        let allow = ask.ask.policy.at_deadline == AtDeadline::Answer(Decision::Allow);
        let deadline = ask.ask.policy.deadline_ms.filter(|_| !allow || ask.is_attached());
        dues.extend(deadline.map(|ms| (ask.due(asked, ms, now), Due::Deadline)));
        dues.extend(ask.ask.gives_up_ms.map(|ms| (ask.due(asked, ms, now), Due::GivesUp)));
        if let (Some(silence), Some(shown)) = (ask.ask.policy.remote_silence, ask.remote_shown_at)
            && (silence.answer == Decision::Deny || ask.is_attached())
        {
            dues.push((ask.due(shown, silence.after_ms, now), Due::RemoteSilence));
        }
        if let Link::Detached { since, grace_ms } = ask.link {
            dues.push((ask.due(since, grace_ms, now), Due::Grace));
        }
        let first = dues.into_iter().min();
        dues = first.into_iter().collect();
    } else {
        match ask.link {
            Link::Detached { since, grace_ms } if ask.delivery == Delivery::Pending => {
                dues.push((ask.due(since, grace_ms, now), Due::Grace));
            }
            _ if ask.is_unheard() => {
                let until = ask.time_to_hear().map(|(since, ms)| ask.due(since, ms, now));
                dues.extend(until.map(|at| (at, Due::Grace)));
            }
            _ => {}
        }
        if let (Some(lost), Late::None | Late::Recorded(_)) = (ask.lost_at, &ask.late) {
            dues.push((ask.due(lost, late_ms, now), Due::LateEnd));
        }
    }
    dues
}

fn remote_silence(id: AskId, ask: &AskState, now: Now) -> Change {
    let silence = ask.ask.policy.remote_silence;
    let answer = silence.map_or(Decision::Deny, |s| s.answer);
    record(
        id,
        now,
        Event::Settled {
            outcome: Outcome {
                kind: answer.into(),
                cause: Cause::RemoteTimeout,
                source: Some(Source::Policy),
                surface: None,
                by: None,
                option: crate::ask::plain(&ask.ask.options, answer).map(|c| c.id.clone()),
                message: None,
                stop: false,
                at: now,
                after_ms: silence.map_or(0, |s| s.after_ms),
                late_of: None,
            },
        },
    )
}

fn deadline(id: AskId, ask: &AskState, now: Now) -> Change {
    let policy = &ask.ask.policy;
    match policy.at_deadline {
        AtDeadline::HandBack => record(
            id,
            now,
            Event::HandedBack {
                at: ask.ask.requester.own_prompt.as_ref().map_or("agent", |o| o.at.as_str()).to_owned(),
                why: "the deadline passed".to_owned(),
            },
        ),
        AtDeadline::Answer(decision) => record(
            id,
            now,
            Event::Settled {
                outcome: Outcome {
                    kind: decision.into(),
                    cause: Cause::Timed,
                    source: Some(Source::Timed),
                    surface: None,
                    by: None,
                    option: crate::ask::plain(&ask.ask.options, decision).map(|c| c.id.clone()),
                    message: None,
                    stop: decision == Decision::Deny && policy.deny_stops,
                    at: now,
                    after_ms: policy.deadline_ms.unwrap_or(0),
                    late_of: None,
                },
            },
        ),
    }
}

pub(super) fn record(id: AskId, now: Now, event: Event) -> Change {
    Change::Record(crate::event::Record { stream: crate::id::StreamId::Ask(id), at: now, event })
}

pub(super) fn withdrawn(id: AskId, ask: &AskState, cause: Cause, note: Option<String>, now: Now) -> Change {
    record(
        id,
        now,
        Event::Withdrawn {
            outcome: Outcome {
                kind: OutcomeKind::Withdrawn,
                cause,
                source: None,
                surface: None,
                by: None,
                option: None,
                message: note,
                stop: false,
                at: now,
                after_ms: ask.elapsed(ask.ask.asked_at, now),
                late_of: None,
            },
        },
    )
}
