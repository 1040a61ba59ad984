//! The reference: what lifecycle.md says must become of every ask, written from it and not from the core. Time is one
//! line of milliseconds that runs on through sleep and restarts; wall time is kept beside it. What an ask *is* (its
//! policy, options, call) is taken from its record; what happens to it is said here.

mod steps;

use std::collections::{BTreeMap, BTreeSet};

use askd_core::ask::{AtDeadline, RequesterKind, plain};
use askd_core::{
    Ask, AskId, Cause, Decision, Delivery, Instance, LinkId, OutcomeKind, SessionKey, Settings, SurfaceId,
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct When {
    pub at: i64,
    pub wall: i64,
    pub boot: u128,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Link {
    On(LinkId),
    Off { since: i64, grace: i64 },
    Back,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Late {
    No,
    Kept(Decision),
    Used,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Eq, Ord)]
enum Due {
    Deadline,
    Silence,
    GivesUp,
    Grace,
    LateEnd,
}

#[derive(Debug, Clone)]
pub struct MAsk {
    pub ask: Ask,
    pub asked: When,
    /// When a remote surface first showed it.
    remote: Option<When>,
    pub link: Link,
    pub outcome: Option<(OutcomeKind, Cause, Option<String>)>,
    pub delivery: Delivery,
    pub lost: Option<When>,
    pub late: Late,
    /// It was settled by an answer that came late for another ask.
    by_late: bool,
    /// Since when it has nothing for its requester.
    over: Option<i64>,
    /// It knows.
    heard: bool,
    /// It had got what was decided.
    told: bool,
    /// It was seen to go, and did not come back.
    left: bool,
    /// It may have been there when that was decided, or since.
    near: bool,
    turn_over: bool,
    /// It made room for others of its owner; until then its requester finds it.
    finds: Option<i64>,
}

#[derive(Default)]
pub struct Model {
    pub asks: BTreeMap<AskId, MAsk>,
    pub settings: Settings,
    pub now: i64,
    pub wall: i64,
    pub boot: u128,
    /// Asks that are in memory.
    pub held: BTreeSet<AskId>,
    pub parents: BTreeMap<SessionKey, SessionKey>,
    /// Live sessions and their processes.
    live: BTreeMap<SessionKey, Option<Instance>>,
    children: BTreeMap<(SessionKey, String), Option<String>>,
    remotes: BTreeSet<SurfaceId>,
    polled: BTreeSet<SurfaceId>,
    hold: Option<i64>,
}

fn policy_silence(ask: &Ask) -> Decision {
    ask.policy.remote_silence.unwrap().answer
}

fn ms(span: u64) -> i64 {
    i64::try_from(span).unwrap()
}

impl MAsk {
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    fn is(&self, cause: Cause) -> bool {
        self.outcome.as_ref().is_some_and(|o| o.1 == cause)
    }

    /// What there is to deliver. What the agent's own prompt decided is told as "no opinion".
    fn verdict(&self) -> Option<OutcomeKind> {
        self.outcome.as_ref().map(|o| o.0).filter(|k| *k != OutcomeKind::Withdrawn && !self.is(Cause::Agent))
    }

    fn settle(&mut self, kind: OutcomeKind, cause: Cause, option: Option<String>, now: When) {
        assert!(self.outcome.is_none(), "one outcome");
        self.outcome = Some((kind, cause, option));
        self.near = !self.left;
        if self.verdict().is_some() {
            self.delivery = Delivery::Pending;
        } else if cause == Cause::RequesterGone {
            self.lost = Some(now);
        } else if matches!(
            cause,
            Cause::Agent | Cause::Cancelled | Cause::SessionEnded | Cause::RequesterLimit
        ) {
            self.over = Some(now.at);
        }
    }

    fn answer(&mut self, decision: Decision, cause: Cause, option: Option<String>, now: When) {
        let option = option.or_else(|| plain(&self.ask.options, decision).map(|c| c.id.clone()));
        self.settle(decision.into(), cause, option, now);
    }

    fn withdraw(&mut self, cause: Cause, now: When) {
        self.settle(OutcomeKind::Withdrawn, cause, None, now);
    }

    fn expire(&mut self, now: When) {
        (self.delivery, self.lost) = (Delivery::Expired, Some(now));
    }

    fn lose(&mut self, now: When) {
        match self.delivery {
            _ if self.is_open() => self.withdraw(Cause::RequesterGone, now),
            Delivery::Pending => self.expire(now),
            _ => {}
        }
    }

    /// It makes room: nothing can happen to it any more but that its requester comes for it, as one that it was told to.
    fn let_go(&mut self, now: When) {
        let until = match self.link {
            Link::Off { since, grace } => Some(since + grace),
            Link::On(_) => Some(now.at + ms(self.ask.requester.grace_ms).clamp(30_000, 600_000)),
            Link::Back => None,
        };
        if self.delivery == Delivery::Pending || self.unheard().is_some() {
            self.finds = until.filter(|at| *at > now.at);
        }
        self.lose(now);
        (self.late, self.heard, self.turn_over) = (Late::Over, true, true);
    }

    /// Its requester was told so as one that it never reached.
    fn is_found(&self, now: i64) -> bool {
        let got = matches!(self.delivery, Delivery::Handed | Delivery::Confirmed);
        !got && self.finds.is_some_and(|until| until > now)
    }

    /// A cancel voids it.
    fn is_undelivered_allow(&self) -> bool {
        let lost = self.delivery == Delivery::Expired && self.late == Late::No;
        self.verdict() == Some(OutcomeKind::Allowed) && (lost || self.delivery == Delivery::Pending)
    }

    fn late_is_live(&self) -> bool {
        self.kept().is_some() || (self.is(Cause::RequesterGone) && self.late == Late::No)
    }

    /// The answer that the same call may use.
    fn kept(&self) -> Option<Decision> {
        let (kind, cause, option) = self.outcome.as_ref()?;
        let decision = if *kind == OutcomeKind::Allowed { Decision::Allow } else { Decision::Deny };
        // A hook may have printed it, and without a call to watch nobody knows.
        let unsure = self.ask.requester.kind == RequesterKind::Hook && self.ask.lineage.call.is_none();
        let meant = plain(&self.ask.options, decision).map(|c| &c.id) == option.as_ref();
        match self.late {
            Late::Kept(decision) => Some(decision),
            Late::No if self.delivery == Delivery::Expired && *cause == Cause::Person => {
                (meant && !unsure && !self.by_late).then_some(decision)
            }
            _ => None,
        }
    }

    fn cancel(&mut self, cause: Cause, now: When) {
        let allowed = self.verdict() == Some(OutcomeKind::Allowed);
        if self.is_open() {
            self.withdraw(cause, now);
        } else if self.delivery == Delivery::Pending && !allowed {
            (self.delivery, self.over) = (Delivery::Refused, Some(now.at));
        } else {
            self.revoke(now);
        }
    }

    /// It has nothing for its requester, who may come back and hear so: within its grace when it is away, and else, as
    /// it may be between two requests, within its grace from the end of the ask, of 30 s to 10 min.
    pub fn unheard(&self) -> Option<i64> {
        let over = self.over.filter(|_| !self.heard)?;
        match self.link {
            Link::On(_) => Some(over + ms(self.ask.requester.grace_ms).clamp(30_000, 600_000)),
            Link::Off { since, grace } => (grace > 0).then_some(since + grace),
            Link::Back => None,
        }
    }

    /// Nothing that did not reach a lost requester counts any more.
    fn revoke(&mut self, now: When) {
        if self.is_undelivered_allow() {
            (self.delivery, self.late, self.over) = (Delivery::Voided, Late::Over, Some(now.at));
        } else if self.late_is_live() {
            self.late = Late::Over;
        }
    }

    /// The call ran (or its own prompt said so), or its own prompt said no.
    fn own_prompt(&mut self, allowed: bool, now: When) {
        // What nothing can happen to any more is not looked at.
        if !self.is_finished() {
            self.gone_on(allowed, now);
        }
    }

    fn gone_on(&mut self, allowed: bool, now: When) {
        use Delivery::{Confirmed, Expired, Handed, Overtaken, Pending, Voided};
        let kind = if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied };
        let to = match (self.verdict(), allowed, self.delivery) {
            _ if self.is_open() => return self.settle(kind, Cause::Agent, None, now),
            (Some(OutcomeKind::Denied), true, _) => Overtaken,
            (Some(OutcomeKind::Allowed), true, Confirmed | Overtaken | Voided) => return,
            (Some(OutcomeKind::Allowed), true, _) => Confirmed,
            (Some(OutcomeKind::Allowed), false, Pending | Handed | Expired) => Overtaken,
            _ => return self.revoke(now),
        };
        if (to, self.delivery) == (Overtaken, Overtaken) {
            return;
        }
        // What nothing could happen to any more has nobody who comes back.
        let over = (to == Overtaken && !self.is_finished()).then_some(now.at);
        (self.delivery, self.late, self.over) = (to, Late::Over, over);
    }

    /// Its requester's own side decided it. False: an answer for the agent was first.
    fn decided(&mut self, decision: Decision, went_on: bool, now: When) -> bool {
        use Delivery::{Overtaken, Refused, Voided};
        let kind = OutcomeKind::from(decision);
        let same = self.is(Cause::Agent) && self.outcome.as_ref().is_some_and(|o| o.0 == kind);
        let answered = self.verdict().is_some() && !matches!(self.delivery, Refused | Voided);
        if same || self.delivery == Overtaken {
            return true;
        } else if self.is_open() || (answered && went_on) {
            self.gone_on(decision == Decision::Allow, now);
        } else if answered {
            return false;
        } else {
            let over = (!self.is_finished()).then_some(now.at);
            (self.delivery, self.late, self.over) = (Overtaken, Late::Over, over);
        }
        true
    }

    fn due(&self, hold: Option<i64>, late_ms: u64) -> Option<(i64, Due)> {
        let grace = match self.link {
            Link::Off { since, grace } => Some((since + grace, Due::Grace)),
            Link::On(_) | Link::Back => None,
        };
        if !self.is_open() {
            let kept = matches!(self.late, Late::No | Late::Kept(_));
            let late = self.lost.filter(|_| kept).map(|lost| (lost.at + ms(late_ms), Due::LateEnd));
            let hears = self.unheard().map(|at| (at, Due::Grace));
            let expires = grace.filter(|_| self.delivery == Delivery::Pending);
            return [expires, hears, late].into_iter().flatten().min();
        }
        // A timed allow is never for a requester that is not there.
        let here = matches!(self.link, Link::On(_));
        let policy = &self.ask.policy;
        let applies = here || policy.at_deadline != AtDeadline::Answer(Decision::Allow);
        // Nor is what a remote silence means, counted from where it was shown there.
        let silence = policy.remote_silence.zip(self.remote);
        let silence = silence.filter(|(s, _)| here || s.answer == Decision::Deny);
        let silence = silence.map(|(s, shown)| (shown.at + ms(s.after_ms), Due::Silence));
        let after = |span: Option<u64>, due| span.map(|span| (self.asked.at + ms(span), due));
        let deadline = after(policy.deadline_ms.filter(|_| applies), Due::Deadline);
        let first = [deadline, silence, after(self.ask.gives_up_ms, Due::GivesUp), grace];
        let (at, due) = first.into_iter().flatten().min().filter(|_| self.link != Link::Back)?;
        // Only the default waits for the remote surfaces.
        Some((if due <= Due::Silence { at.max(hold.unwrap_or(at)) } else { at }, due))
    }

    fn fall_due(&mut self, due: Due, now: When) {
        match (due, self.ask.policy.at_deadline) {
            (Due::Deadline, AtDeadline::Answer(decision)) => self.answer(decision, Cause::Timed, None, now),
            (Due::Deadline, AtDeadline::HandBack) => self.link = Link::Back,
            (Due::Silence, _) => {
                self.answer(policy_silence(&self.ask), Cause::RemoteTimeout, None, now);
            }
            (Due::GivesUp, _) if self.ask.requester.own_prompt.is_some() => self.link = Link::Back,
            (Due::GivesUp, _) => self.withdraw(Cause::RequesterLimit, now),
            (Due::Grace, _) if self.unheard().is_some() => self.heard = true,
            (Due::Grace, _) => self.lose(now),
            (Due::LateEnd, _) => self.late = Late::Over,
        }
    }

    /// Nothing can happen to it any more.
    pub fn is_finished(&self) -> bool {
        let over = self.turn_over || self.ask.lineage.call.is_none();
        let waits_for_late = self.lost.is_some() && matches!(self.late, Late::No | Late::Kept(_));
        let waits = match self.delivery {
            Delivery::Pending => true,
            Delivery::None | Delivery::Overtaken | Delivery::Voided => self.unheard().is_some(),
            Delivery::Refused => !over || self.unheard().is_some(),
            Delivery::Handed | Delivery::Expired => !over,
            Delivery::Confirmed => false,
        };
        !self.is_open() && !waits_for_late && !waits
    }
}
