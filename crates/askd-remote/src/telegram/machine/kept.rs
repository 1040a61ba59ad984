//! What outlives a restart: how far updates are done, the secret of the buttons, and which messages still show what.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cards::CardPlace;
use super::{Machine, Out};
use crate::surface::{Now, Wish};
use crate::telegram::text::Stage;

/// Prompts for words that are kept.
const MOST_PROMPTS: usize = 50;
/// The first pause after a state that was not taken.
const KEEP_PAUSE_MS: u64 = 1000;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Another bot has other messages and counts its updates anew.
    bot: i64,
    offset: i64,
    /// Unix time in milliseconds of the last update.
    #[serde(default)]
    heard_at: i64,
    /// Hexadecimal.
    key: String,
    cards: Vec<KeptCard>,
    /// Chat, message, ask.
    prompts: Vec<(i64, i64, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptCard {
    ask: String,
    chat: i64,
    messages: Vec<i64>,
    parts: usize,
}

impl Machine {
    /// A state that cannot be read is as good as none: buttons of before are told not to be known.
    pub(super) fn take_kept(&mut self, kept: &Value) {
        let Ok(kept) = Kept::deserialize(kept) else { return };
        let bytes: Vec<u8> = (0..kept.key.len() / 2)
            .filter_map(|at| u8::from_str_radix(kept.key.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        let Ok(key) = bytes.try_into() else { return };
        (self.key, self.key_is_kept) = (key, true);
        if kept.bot != self.setup.bot {
            return;
        }
        (self.offset, self.heard_at) = (kept.offset, kept.heard_at);
        self.prompts = kept.prompts.into();
        self.cards = kept
            .cards
            .into_iter()
            .filter(|card| !card.messages.is_empty())
            .map(|KeptCard { ask, chat, messages, parts }| CardPlace {
                ask,
                chat,
                messages,
                parts,
                stage: Stage::Choose,
                says: None,
                rests: false,
                failed: None,
                stuck: false,
            })
            .collect();
    }

    /// Asks for the state to be kept.
    pub(super) fn keep(&mut self, out: &mut Out) {
        let skipped = self.prompts.len().saturating_sub(MOST_PROMPTS);
        let cards = self.cards.iter().filter(|card| !card.messages.is_empty() && !card.rests);
        let kept = Kept {
            bot: self.setup.bot,
            offset: self.offset,
            heard_at: self.heard_at,
            key: self.key.iter().map(|byte| format!("{byte:02x}")).collect(),
            cards: cards
                .map(|card| KeptCard {
                    ask: card.ask.clone(),
                    chat: card.chat,
                    messages: card.messages.clone(),
                    parts: card.parts,
                })
                .collect(),
            prompts: self.prompts.iter().skip(skipped).cloned().collect(),
        };
        self.dirty = false;
        self.poll.keeping = true;
        out.wish(Wish::Keep { state: serde_json::to_value(kept).unwrap_or_default() });
    }

    pub(super) fn was_kept(&mut self, done: bool, now: Now) {
        self.poll.keeping = false;
        self.key_is_kept |= done;
        if done {
            (self.poll.keep_at, self.poll.keep_failures) = (0, 0);
        } else {
            self.dirty = true;
            let pause = KEEP_PAUSE_MS << self.poll.keep_failures.min(4);
            self.poll.keep_failures = self.poll.keep_failures.saturating_add(1);
            self.poll.keep_at = now.ms + pause;
        }
    }
}
