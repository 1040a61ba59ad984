//! Answers: first one wins, every other one hears who did.

use crate::ask::{Choice, Decision, plain};
use crate::command::{Answer, Reply};
use crate::event::{Event, LateAnswer};
use crate::id::AskId;
use crate::outcome::{Cause, Outcome, Source};
use crate::refusal::Refusal;
use crate::time::Now;

use super::delivery::revoke;
use super::timeout::record;
use super::{AskState, Handled, Link, State};

impl State {
    pub(super) fn answer(&self, answer: &Answer, now: Now) -> Handled {
        let id = answer.ask;
        let Some(ask) = self.asks.get(&id) else { return Handled::refused(Refusal::UnknownAsk) };
        if let Some(why) = &answer.refused {
            let event = Event::SelfAnswerRefused { surface: answer.surface.clone(), who: why.clone() };
            return Handled {
                changes: vec![record(id, now, event)],
                reply: Err(Refusal::NotPermitted(why.clone())),
            };
        }
        if answer.digest != ask.ask.digest {
            return Handled::refused(Refusal::DigestMismatch(id));
        }
        if !ask.is_open() {
            return self.late_answer(ask, answer, now);
        }
        if let Link::HandedBack { at, .. } = &ask.link {
            return Handled::refused(Refusal::HandedBack { ask: id, at: at.clone() });
        }
        match choose(ask, answer) {
            Err(refusal) => Handled::refused(refusal),
            Ok(choice) => Handled {
                changes: vec![record(id, now, Event::Settled { outcome: decided(ask, answer, choice, now) })],
                reply: Ok(Reply::Settled(id)),
            },
        }
    }

    /// The ask is settled. When its requester was lost for a transient cause the answer is kept for the same call
    /// asking again; otherwise it is only told who won.
    fn late_answer(&self, ask: &AskState, answer: &Answer, now: Now) -> Handled {
        let id = answer.ask;
        let already = Handled::refused(Refusal::AlreadySettled(id));
        let for_ms = self.settings.late_answer_ms;
        let Some(lost_at) = ask.lost_at.filter(|_| ask.may_keep_answer()) else { return already };
        if ask.elapsed(lost_at, now) >= for_ms {
            return already;
        }
        // Only a plain yes or no can be given to another call.
        let Ok(choice) = choose(ask, answer) else { return already };
        if choice.is_none() || plain(&ask.ask.options, answer.decision) != choice {
            return already;
        }
        let kept = LateAnswer {
            decision: answer.decision,
            source: source(answer),
            surface: answer.surface.clone(),
            by: answer.by.clone(),
            message: answer.message.clone(),
            stop: answer.stop && answer.decision == Decision::Deny,
            lost_at,
            for_ms,
        };
        Handled {
            changes: vec![record(id, now, Event::LateRecorded { answer: kept })],
            reply: Err(Refusal::Late { ask: id, decision: answer.decision, recorded_at: lost_at, for_ms }),
        }
    }

    pub(super) fn revoke_late(&self, id: AskId, by: &str, now: Now) -> Handled {
        let Some(ask) = self.asks.get(&id) else { return Handled::refused(Refusal::UnknownAsk) };
        if ask.kept_answer().is_none() {
            return Handled::refused(Refusal::AlreadySettled(id));
        }
        Handled::done(
            revoke(ask, format!("taken back by {by}")).map(|e| record(id, now, e)).into_iter().collect(),
        )
    }
}

/// The option that an answer names, or the plain one. Never one of the other decision, never a guess.
///
/// `None`: a plain no to an ask that offers nothing to reject with. It is a no all the same, as a timed one would be.
fn choose<'a>(ask: &'a AskState, answer: &Answer) -> Result<Option<&'a Choice>, Refusal> {
    let options = &ask.ask.options;
    let chosen = match &answer.option {
        Some(id) => options.iter().find(|c| c.id == *id && c.kind.decision() == answer.decision),
        None => plain(options, answer.decision),
    };
    if chosen.is_some() || (answer.decision == Decision::Deny && answer.option.is_none()) {
        return Ok(chosen);
    }
    let offered: Vec<_> =
        options.iter().filter(|c| c.kind.decision() == answer.decision).map(|c| c.id.as_str()).collect();
    Err(Refusal::OptionNotOffered { ask: answer.ask, offered: offered.join(", ") })
}

fn source(answer: &Answer) -> Source {
    if answer.remote { Source::Remote } else { Source::Direct }
}

fn decided(ask: &AskState, answer: &Answer, choice: Option<&Choice>, now: Now) -> Outcome {
    Outcome {
        kind: answer.decision.into(),
        cause: Cause::Person,
        source: Some(source(answer)),
        surface: Some(answer.surface.clone()),
        by: answer.by.clone(),
        option: choice.map(|c| c.id.clone()),
        message: answer.message.clone(),
        stop: answer.stop && answer.decision == Decision::Deny,
        at: now,
        after_ms: ask.elapsed(ask.ask.asked_at, now),
        late_of: None,
    }
}
