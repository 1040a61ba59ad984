//! What the agent's side decided without askd: its own prompt, its rules, a hook of its host. It is recorded, never given
//! back as a decision.

use crate::ask::Decision;
use crate::event::Event;
use crate::id::{AskId, TokenHash};
use crate::outcome::{Cause, Delivery, Outcome, OutcomeKind, Source, Verdict};
use crate::refusal::Refusal;
use crate::time::Now;

use super::delivery::revoke;
use super::raise::texts;
use super::timeout::record;
use super::{AskState, Handled, State};

impl State {
    /// The requester of one ask tells what its own side decided. Told again it changes nothing.
    pub(super) fn decided_by_agent(
        &self,
        (id, token): (AskId, TokenHash),
        decision: Decision,
        by: Option<&String>,
        went_on: bool,
        now: Now,
    ) -> Handled {
        let ask = match self.own(id, token) {
            Ok(ask) => ask,
            Err(refusal) => return Handled::refused(refusal),
        };
        if let Err(wrong) = texts([("by", &by.cloned())]) {
            return Handled::refused(Refusal::Malformed(wrong));
        }
        let by = by.map(String::as_str);
        let event = match &ask.outcome {
            Some(outcome) if outcome.cause == Cause::Agent && outcome.kind == decision.into() => None,
            Some(_) if ask.delivery == Delivery::Overtaken => None,
            Some(_) if ask.verdict() != Verdict::None && !went_on => {
                return Handled::refused(Refusal::AlreadySettled(id));
            }
            // Nothing of it is for the agent, so that what its own side says is what counts.
            Some(_) if ask.verdict() == Verdict::None => {
                let decided = word(decision == Decision::Allow);
                let whose = by
                    .map_or("in the agent's own prompt".to_owned(), |by| format!("by the agent's own {by}"));
                Some(Event::Overtaken { seen: format!("{decided} {whose}") })
            }
            _ => gone_on(ask, decision == Decision::Allow, by, now),
        };
        Handled::done(event.map(|event| record(id, now, event)).into_iter().collect())
    }
}

/// What it means for this ask that the agent went on by itself, with its call allowed or denied.
pub(super) fn gone_on(ask: &AskState, allowed: bool, by: Option<&str>, now: Now) -> Option<Event> {
    let overtaken = || {
        let place = by.map_or("in its own prompt".to_owned(), |by| format!("by its {by}"));
        Event::Overtaken { seen: format!("the agent had already gone on: {} {place}", word(allowed)) }
    };
    let Some(outcome) = &ask.outcome else {
        return Some(Event::Settled { outcome: by_itself(ask, allowed, by, now) });
    };
    match (outcome.verdict(), allowed) {
        (Verdict::Deny, true) => (ask.delivery != Delivery::Overtaken).then(overtaken),
        (Verdict::Allow, true) => {
            let known = matches!(ask.delivery, Delivery::Confirmed | Delivery::Overtaken | Delivery::Voided);
            // A response that another server put into the directory may lie there unfetched.
            (!known && !ask.is_forwarded()).then_some(Event::Confirmed)
        }
        (Verdict::Allow, false) if !ask.delivery.is_final() || ask.delivery == Delivery::Expired => {
            Some(overtaken())
        }
        _ => revoke(ask, "the agent's own prompt decided this call".to_owned()),
    }
}

fn word(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}

fn by_itself(ask: &AskState, allowed: bool, by: Option<&str>, now: Now) -> Outcome {
    Outcome {
        kind: if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied },
        cause: Cause::Agent,
        source: Some(Source::Direct),
        surface: ask.ask.requester.own_prompt.as_ref().map(|o| o.at.clone()),
        by: by.map(str::to_owned),
        option: None,
        message: None,
        stop: false,
        at: now,
        after_ms: ask.elapsed(ask.ask.asked_at, now),
        late_of: None,
    }
}
