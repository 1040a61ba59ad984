//! Links, withdrawal and delivery: what becomes of an ask when its requester acts or is lost.

use crate::ask::RequesterKind;
use crate::command::Reply;
use crate::event::{Change, Event, Note};
use crate::id::{AskId, LinkId, TokenHash};
use crate::outcome::{Cause, Delivery};
use crate::refusal::Refusal;
use crate::time::Now;

use super::timeout::{record, withdrawn};
use super::{AskState, Handled, Link, State};

impl State {
    pub(super) fn own(&self, id: AskId, token: TokenHash) -> Result<&AskState, Refusal> {
        // The same words for a wrong token and an unknown id, so that ids cannot be probed.
        self.asks.get(&id).filter(|a| a.ask.requester.token == token).ok_or(Refusal::UnknownAsk)
    }

    pub(super) fn withdraw(&self, id: AskId, token: TokenHash, cause: Cause, now: Now) -> Handled {
        let ask = match self.own(id, token) {
            Ok(ask) => ask,
            Err(refusal) => return Handled::refused(refusal),
        };
        if !cause.is_withdrawal() {
            return Handled::refused(Refusal::Malformed(format!(
                "{} is not a cause of withdrawal",
                cause.name()
            )));
        }
        if cause == Cause::HandedBack {
            if !ask.is_open() {
                return Handled::refused(Refusal::AlreadySettled(id));
            }
            if ask.is_handed_back() {
                return Handled::done(Vec::new());
            }
            let at = ask.ask.requester.own_prompt.as_ref().map_or("agent", |o| o.at.as_str()).to_owned();
            let event = Event::HandedBack { at, why: "the requester stopped waiting".to_owned() };
            return Handled::done(vec![record(id, now, event)]);
        }
        // A script has no turn that could be cancelled, and no agent.
        let script = cause == Cause::Cancelled && ask.ask.requester.kind == RequesterKind::Script;
        let note = script.then(|| "its requester took it back".to_owned());
        // Losing the requester is no cancel: what was decided may still serve the same call.
        if matches!(cause, Cause::RequesterGone | Cause::RequesterLimit) && !ask.is_open() {
            let why = cause.name().to_owned();
            let mut changes = Vec::new();
            if ask.delivery == Delivery::Pending {
                changes.push(record(id, now, Event::DeliveryExpired { why }));
                changes.push(Change::Note(Note::Unserved { ask: id }));
            }
            return Handled::done(changes);
        }
        let mut changes = cancel(id, ask, cause, note, now);
        // It says so itself.
        changes.push(Change::Note(Note::NothingToTell { ask: id }));
        Handled::done(changes)
    }

    /// What a requester was told it does not come back for.
    pub(super) fn heard(&self, id: AskId) -> Vec<Change> {
        let waits = self.asks.get(&id).is_some_and(AskState::is_unheard);
        waits.then_some(Change::Note(Note::NothingToTell { ask: id })).into_iter().collect()
    }

    /// A person takes an ask down. The agent's own prompt, if it has one, goes on as if askd were not there.
    pub(super) fn dismiss(&self, id: AskId, by: &str, now: Now) -> Handled {
        match self.asks.get(&id) {
            None => Handled::refused(Refusal::UnknownAsk),
            Some(ask) if !ask.is_open() => Handled::refused(Refusal::AlreadySettled(id)),
            Some(ask) => {
                let note = format!("taken down by {by}, nobody decided");
                Handled::done(vec![withdrawn(id, ask, Cause::Cancelled, Some(note), now)])
            }
        }
    }

    pub(super) fn handed(&self, id: AskId, token: TokenHash, now: Now) -> Handled {
        self.delivered(id, token, |ask| match ask.delivery {
            // Expired: the link broke between handing over and saying so.
            Delivery::Pending | Delivery::Expired => Ok(Some(record(id, now, Event::Handed))),
            Delivery::Handed | Delivery::Confirmed | Delivery::Overtaken => Ok(None),
            Delivery::None | Delivery::Refused | Delivery::Voided => Err(Refusal::AlreadySettled(id)),
        })
    }

    pub(super) fn confirmed(&self, id: AskId, token: TokenHash, now: Now) -> Handled {
        self.delivered(id, token, |ask| match ask.delivery {
            Delivery::Pending | Delivery::Expired | Delivery::Handed => {
                Ok(Some(record(id, now, Event::Confirmed)))
            }
            Delivery::Confirmed => Ok(None),
            Delivery::None | Delivery::Refused | Delivery::Overtaken | Delivery::Voided => {
                Err(Refusal::AlreadySettled(id))
            }
        })
    }

    pub(super) fn delivery_refused(&self, id: AskId, token: TokenHash, reason: &str, now: Now) -> Handled {
        let mut handled = self.delivered(id, token, |ask| match ask.delivery {
            Delivery::Pending | Delivery::Expired | Delivery::Handed => {
                Ok(Some(record(id, now, Event::DeliveryRefused { reason: reason.to_owned() })))
            }
            Delivery::Refused => Ok(None),
            Delivery::None | Delivery::Confirmed | Delivery::Overtaken | Delivery::Voided => {
                Err(Refusal::AlreadySettled(id))
            }
        });
        if handled.reply.is_ok() {
            handled.changes.push(Change::Note(Note::NothingToTell { ask: id }));
        }
        handled
    }

    fn delivered(
        &self,
        id: AskId,
        token: TokenHash,
        step: impl FnOnce(&AskState) -> Result<Option<Change>, Refusal>,
    ) -> Handled {
        let settled = self.own(id, token).and_then(|ask| match ask.is_open() {
            true => Err(Refusal::Malformed("the ask is still open".to_owned())),
            false => Ok(ask),
        });
        match settled.and_then(step) {
            Ok(change) => Handled::done(change.into_iter().collect()),
            Err(refusal) => Handled::refused(refusal),
        }
    }

    /// A connection ended. A requester with a grace may come back; one without is gone.
    pub(super) fn link_closed(&self, link: LinkId, now: Now) -> Handled {
        let mut changes = Vec::new();
        for id in self.links.get(&link).into_iter().flatten() {
            let Some(ask) = self.asks.get(id).filter(|a| a.link == Link::Attached(link)) else { continue };
            let gone = ask.ask.requester.grace_ms == 0;
            match (ask.is_open(), ask.delivery) {
                (true, _) if gone => changes.push(withdrawn(*id, ask, Cause::RequesterGone, None, now)),
                (true, _) => changes.push(record(*id, now, Event::Detached)),
                (false, Delivery::Pending) if gone => changes.push(record(
                    *id,
                    now,
                    Event::DeliveryExpired { why: "the requester left before it was handed".to_owned() },
                )),
                (false, _) => {}
            }
        }
        changes.push(Change::Note(Note::LinkClosed { link }));
        Handled::done(changes)
    }

    /// The daemon stops for good: agents with a prompt of their own take over. Who waits and does not come back is let go,
    /// and its ask with it: an answer after the next start would be for nobody. The others wait for that start.
    pub(super) fn stopping(&self, now: Now) -> Handled {
        let fate = |(id, ask): (AskId, &AskState)| {
            let why = "askd was stopped".to_owned();
            if let Some(own) = ask.ask.requester.own_prompt.as_ref() {
                return Some(record(id, now, Event::HandedBack { at: own.at.clone(), why }));
            }
            let is_let_go =
                matches!(ask.link, Link::Attached(_)) && !ask.ask.requester.kind.outlasts_a_stop();
            is_let_go.then(|| withdrawn(id, ask, Cause::RequesterGone, Some(why), now))
        };
        Handled::done(self.open().filter(|(_, ask)| !ask.is_handed_back()).filter_map(fate).collect())
    }
}

/// Ends an ask without a decision: an open one is withdrawn, an outcome that was not handed over is void, a kept
/// answer is dropped.
pub(super) fn cancel(id: AskId, ask: &AskState, cause: Cause, note: Option<String>, now: Now) -> Vec<Change> {
    let mut changes = Vec::new();
    let why = note.clone().unwrap_or_else(|| cause.name().to_owned());
    if ask.is_open() {
        changes.push(withdrawn(id, ask, cause, note, now));
    } else if ask.delivery == Delivery::Pending && !ask.is_undelivered_allow() {
        changes.push(record(id, now, Event::DeliveryRefused { reason: why }));
    } else {
        changes.extend(revoke(ask, why).map(|event| record(id, now, event)));
    }
    changes
}

/// What was decided and did not reach the requester does not count any more, nor does what may still be answered.
pub(super) fn revoke(ask: &AskState, why: String) -> Option<Event> {
    if ask.is_undelivered_allow() {
        Some(Event::Voided { why })
    } else if ask.kept_answer().is_some() || ask.may_keep_answer() {
        Some(Event::LateRevoked { reason: why })
    } else {
        None
    }
}

impl Handled {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self { changes: Vec::new(), reply: Err(refusal) }
    }

    pub(super) fn done(changes: Vec<Change>) -> Self {
        Self { changes, reply: Ok(Reply::Done) }
    }
}
