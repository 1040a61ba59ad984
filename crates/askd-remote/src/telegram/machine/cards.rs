//! Cards: which messages show which ask, and what is still to be done about them.

use std::collections::VecDeque;

use askd_words as words;

use super::lanes::Job;
use super::{Machine, Out};
use crate::surface::{Now, Wish};
use crate::telegram::text::{Stage, Text, card};

/// Messages that are remembered for replies to them.
const MOST_OLD: usize = 500;
/// Cards that wait for their last edit while the server cannot be reached.
const MOST_CARDS: usize = 500;

/// An ask in one chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CardPlace {
    pub(super) ask: String,
    pub(super) chat: i64,
    /// Ids of its messages, in order.
    pub(super) messages: Vec<i64>,
    /// How many it has when it is complete.
    pub(super) parts: usize,
    pub(super) stage: Stage,
    /// What its last message says, where that is known, and the Unix time in milliseconds that it was written for.
    pub(super) says: Option<(Text, i64)>,
    /// It says what became of the ask. It is kept for corrections, and not over a restart.
    pub(super) rests: bool,
    /// Why it could not be shown here.
    pub(super) failed: Option<String>,
    /// Its last edit was refused because of the chat. It is tried again, so that no button outlives its ask.
    pub(super) stuck: bool,
}

impl CardPlace {
    /// All of it was sent.
    pub(super) fn is_shown(&self) -> bool {
        self.failed.is_none() && self.parts > 0 && self.messages.len() >= self.parts
    }
}

impl Machine {
    /// Sends the card of an open ask to every chat that does not have it.
    pub(super) fn show_everywhere(&mut self, id: &str, now: Now, out: &mut Out) {
        let Some(ask) = self.asks.get(id).filter(|ask| words::is_answerable(ask)).cloned() else {
            return self.bring_up_to_date(id);
        };
        let parts = card(&ask, Stage::Choose, &self.key, &self.reader, now.wall_ms).parts.len();
        for chat in self.setup.chats.clone() {
            match self.cards.iter_mut().find(|card| card.ask == id && card.chat == chat) {
                // From before a restart, or from before its handing back: as it is, or as far as it came.
                Some(place) => {
                    (place.failed, place.rests) = (None, false);
                    if place.is_shown() {
                        self.push(chat, Job::Edit { ask: id.to_owned() });
                    } else {
                        self.push(chat, Job::Part { ask: id.to_owned() });
                    }
                }
                None => {
                    self.drop_oldest_card();
                    self.cards.push(CardPlace {
                        ask: id.to_owned(),
                        chat,
                        messages: Vec::new(),
                        parts,
                        stage: Stage::Choose,
                        says: None,
                        rests: false,
                        failed: None,
                        stuck: false,
                    });
                    self.push(chat, Job::Part { ask: id.to_owned() });
                }
            }
        }
        self.report_card(id, out);
    }

    fn drop_oldest_card(&mut self) {
        if self.cards.len() >= MOST_CARDS
            && let Some(at) =
                self.cards.iter().position(|card| !self.asks.get(&card.ask).is_some_and(words::is_answerable))
        {
            self.cards.remove(at);
        }
    }

    /// Says once that an ask is shown, or that it can be shown nowhere.
    pub(super) fn report_card(&mut self, id: &str, out: &mut Out) {
        let cards: Vec<&CardPlace> = self.cards.iter().filter(|card| card.ask == id).collect();
        let ask = || id.to_owned();
        let wish = if cards.iter().any(|card| card.is_shown()) {
            Wish::Shown { ask: ask() }
        } else if !cards.is_empty() && cards.iter().all(|card| card.failed.is_some()) {
            let reason = cards.iter().find_map(|card| card.failed.clone()).unwrap_or_default();
            Wish::Failed { ask: ask(), reason }
        } else {
            return;
        };
        if self.asks.get(id).is_some_and(words::is_answerable) && self.reported.insert(ask()) {
            out.wish(wish);
        }
    }

    /// Cards of an ask that changed get their edit; those that never came are not sent any more.
    pub(super) fn bring_up_to_date(&mut self, id: &str) {
        let open = self.asks.get(id).is_some_and(words::is_answerable);
        for place in &mut self.cards {
            if place.ask == id && !open {
                place.stage = Stage::Choose;
            }
        }
        let chats: Vec<i64> = self.cards.iter().filter(|card| card.ask == id).map(|card| card.chat).collect();
        for chat in chats {
            self.push(chat, Job::Edit { ask: id.to_owned() });
        }
    }

    pub(super) fn refresh_countdowns(&mut self) {
        let shown: Vec<(i64, String)> = self
            .cards
            .iter()
            .filter(|card| card.is_shown())
            .filter(|card| {
                self.asks
                    .get(&card.ask)
                    .is_some_and(|ask| words::is_answerable(ask) && ask.deadline.is_some())
            })
            .map(|card| (card.chat, card.ask.clone()))
            .collect();
        for (chat, ask) in shown {
            self.push(chat, Job::Refresh { ask });
        }
    }

    /// A message with buttons for this ask was seen of which nothing was known: its sending was never confirmed.
    pub(super) fn learn_card(&mut self, chat: i64, message: i64, ask: &str) {
        let known = self.cards.iter().any(|card| card.chat == chat && card.messages.contains(&message));
        if !known {
            self.drop_oldest_card();
            self.cards.push(CardPlace {
                ask: ask.to_owned(),
                chat,
                messages: vec![message],
                parts: 1,
                stage: Stage::Choose,
                says: None,
                rests: false,
                failed: None,
                stuck: false,
            });
            self.dirty = true;
        }
    }

    /// A card needs nothing more.
    pub(super) fn finish_card(&mut self, chat: i64, message: i64) {
        if let Some(at) =
            self.cards.iter().position(|card| card.chat == chat && card.messages.last() == Some(&message))
        {
            let card = self.cards.remove(at);
            for message in card.messages {
                remember(&mut self.old, (chat, message, card.ask.clone()));
            }
            self.dirty = true;
        }
    }

    /// A card says what became of its ask.
    pub(super) fn rest_card(&mut self, chat: i64, message: i64) {
        let is_it = |card: &&mut CardPlace| card.chat == chat && card.messages.last() == Some(&message);
        if let Some(card) = self.cards.iter_mut().find(is_it)
            && !card.rests
        {
            card.rests = true;
            self.dirty = true;
        }
    }

    /// Cards that rest, of an ask that leaves memory.
    pub(super) fn lay_off_cards(&mut self, id: &str) {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.cards).into_iter().partition(|card| card.ask == id && card.rests);
        self.cards = kept;
        for card in gone {
            for message in card.messages {
                remember(&mut self.old, (card.chat, message, card.ask.clone()));
            }
        }
    }

    /// Cards of an ask that nobody knows any more.
    pub(super) fn forget_cards(&mut self, id: &str) {
        self.cards.retain(|card| card.ask != id);
        self.dirty = true;
    }

    /// The ask that a message of ours is about.
    pub(super) fn ask_of(&self, chat: i64, message: i64) -> Option<&str> {
        let card = self.cards.iter().find(|card| card.chat == chat && card.messages.contains(&message));
        let rest = || self.old.iter().chain(&self.prompts);
        card.map(|card| card.ask.as_str()).or_else(|| {
            rest().find(|(at, of, _)| *at == chat && *of == message).map(|(.., ask)| ask.as_str())
        })
    }
}

/// Adds to a list of so many.
pub(super) fn remember(list: &mut VecDeque<(i64, i64, String)>, entry: (i64, i64, String)) {
    if list.len() >= MOST_OLD {
        list.pop_front();
    }
    list.push_back(entry);
}
