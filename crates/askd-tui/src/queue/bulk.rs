//! Several asks at once: frozen at the first key, named in a question, answered by the second.

use askd_wire::{Answer, BulkAnswer, Decision};

use super::{Mode, Queue};
use crate::action::{Action, Link};
use crate::content;
use crate::guard::Target;
use crate::now::Now;
use crate::pager::Pager;
use crate::words;

/// The asks that one question is about. Nothing is ever added to it.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Tells one question from the next.
    pub(crate) number: u64,
    pub(crate) decision: Decision,
    pub(crate) asks: Vec<Frozen>,
    /// Handles that were on the screen and are not part of it, and why.
    pub(crate) skipped: Vec<(String, &'static str)>,
    pub(crate) pager: Pager,
}

#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    pub(crate) id: String,
    pub(crate) handle: String,
    digest: String,
}

impl Queue {
    /// The first key: freezes the background asks that are on the screen.
    pub(super) fn open_bulk(&mut self, decision: Decision, now: Now) -> Vec<Action> {
        if self.link != Link::Up {
            return self.absorb_saying(super::answer::AWAY, now);
        }
        let on_screen = self.ids_on_screen();
        let shown = self.listed.iter().filter(|id| on_screen.contains(id.as_str()));
        let (mut asks, mut skipped) = (Vec::new(), Vec::new());
        for item in shown.filter_map(|id| self.items.get(id)) {
            if !item.is_background() || !item.is_answerable() {
                continue;
            }
            let handle = words::one(&item.ask.handle);
            let why = match decision {
                Decision::Deny => None,
                Decision::Allow if item.is_safety() => Some("a safety ask: answer it by itself"),
                Decision::Allow if content::not_shown(&item.ask).is_some() => Some("not fully shown"),
                Decision::Allow if !item.is_read() && !content::is_brief(&item.ask) => {
                    Some("not fully shown: read it first")
                }
                Decision::Allow => None,
            };
            match why {
                None => {
                    asks.push(Frozen { id: item.ask.id.clone(), handle, digest: item.ask.digest.clone() });
                }
                Some(why) => skipped.push((handle, why)),
            }
        }
        if asks.is_empty() {
            let text = match skipped.first() {
                Some((handle, why)) => format!("nothing to {} at once: {handle} is {why}", verb(decision)),
                None => "no background ask is on the screen".to_owned(),
            };
            self.hint = Some(text);
            return self.absorb(now);
        }
        self.bulk_number += 1;
        let number = self.bulk_number;
        self.mode = Mode::Bulk(Bulk { number, decision, asks, skipped, pager: Pager::default() });
        Vec::new()
    }

    /// Those of the question that can still be answered.
    pub(crate) fn bulk_open<'a>(&self, bulk: &'a Bulk) -> Vec<&'a Frozen> {
        let open = |frozen: &&Frozen| {
            let item = self.items.get(&frozen.id);
            item.is_some_and(|item| item.is_answerable() && item.ask.digest == frozen.digest)
        };
        bulk.asks.iter().filter(open).collect()
    }

    /// Whether the second key counts now; if not, why.
    pub(crate) fn may_bulk(&self, bulk: &Bulk, now: Now) -> Result<(), &'static str> {
        let target = Target::Bulk(bulk.number);
        let open = self.bulk_open(bulk);
        if self.link != Link::Up {
            return Err(super::answer::AWAY);
        }
        if open.is_empty() {
            return Err("all of them are over: esc");
        }
        let counts = match bulk.decision {
            Decision::Deny => self.guard.may_deny(&target, now.tick),
            Decision::Allow => {
                let read =
                    |frozen: &&Frozen| self.items.get(&frozen.id).is_some_and(crate::item::Item::is_read);
                if !open.iter().all(read) {
                    return Err("read the list to its end first: space");
                }
                self.guard.may_allow(&target, now.tick)
            }
        };
        if counts { Ok(()) } else { Err("too soon after it appeared: press it again") }
    }

    /// The second key: exactly those that were frozen and are still open.
    pub(super) fn confirm_bulk(&mut self, now: Now) -> Vec<Action> {
        let Mode::Bulk(bulk) = &self.mode else { return Vec::new() };
        if let Err(why) = self.may_bulk(bulk, now) {
            return self.absorb_saying(why, now);
        }
        let decision = bulk.decision;
        let answers: Vec<BulkAnswer> = self
            .bulk_open(bulk)
            .into_iter()
            .map(|frozen| BulkAnswer {
                id: frozen.id.clone(),
                answer: Answer {
                    decision,
                    digest: frozen.digest.clone(),
                    option: None,
                    message: None,
                    stop: false,
                    surface: None,
                },
            })
            .collect();
        for answer in &answers {
            if let Some(item) = self.items.get_mut(&answer.id) {
                item.answering = Some(decision);
            }
        }
        self.mode = Mode::List;
        vec![Action::Bulk(answers)]
    }
}

pub(crate) fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    }
}
