//! How an event and a head look in a store, and the sums that tell a changed row from a written one.

use askd_core::event::Event;
use askd_core::time::Stamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::contract::{Head, HeadState, JournalError, Position, Version};

pub(crate) fn encode(event: &Event) -> Result<String, JournalError> {
    serde_json::to_string(event)
        .map_err(|e| JournalError::Other(format!("the event {} cannot be written: {e}", event.name())))
}

pub(crate) fn decode(text: &str) -> Result<Event, serde_json::Error> {
    serde_json::from_str(text)
}

/// What the last entry of an append carries besides its event: its stream's head from then on, and the claims that
/// changed hands with it. Heads and claims can be made from the entries alone.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct After {
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_wall_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_wall_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) take: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) release: Vec<String>,
    /// Streams that changed in the same batch without an entry of their own; on the batch's last entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) also: Vec<Also>,
}

/// The head of another stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Also {
    pub(crate) stream: String,
    pub(crate) version: Version,
    #[serde(flatten)]
    pub(crate) after: After,
}

impl After {
    pub(crate) fn new(head: &Head, take: &[&str], release: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            state: state_name(head.state).to_owned(),
            root: head.root.clone(),
            due_wall_ms: head.due_wall_ms,
            closed_wall_ms: head.closed_wall_ms,
            take: names(take),
            release: names(release),
            also: Vec::new(),
        }
    }

    /// `None`: of a state that nobody knows.
    pub(crate) fn head(&self) -> Option<Head> {
        let state = state_of(&self.state)?;
        let (due_wall_ms, closed_wall_ms) = (self.due_wall_ms, self.closed_wall_ms);
        Some(Head { state, root: self.root.clone(), due_wall_ms, closed_wall_ms })
    }

    pub(crate) fn encode(&self) -> Result<String, JournalError> {
        serde_json::to_string(self).map_err(|e| JournalError::Other(format!("a head cannot be written: {e}")))
    }

    pub(crate) fn decode(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Names of claims as a head has them; `None`: none.
pub(crate) fn written_names(names: &[String]) -> Result<Option<String>, JournalError> {
    let text = (!names.is_empty()).then(|| serde_json::to_string(names)).transpose();
    text.map_err(|e| JournalError::Other(format!("claims cannot be written: {e}")))
}

/// The same back.
pub(crate) fn read_names(text: Option<&str>) -> Result<Vec<String>, serde_json::Error> {
    text.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}

pub(crate) fn state_name(state: HeadState) -> &'static str {
    match state {
        HeadState::Open => "open",
        HeadState::Unfinished => "unfinished",
        HeadState::Closed => "closed",
    }
}

pub(crate) fn state_of(name: &str) -> Option<HeadState> {
    [HeadState::Open, HeadState::Unfinished, HeadState::Closed]
        .into_iter()
        .find(|state| state_name(*state) == name)
}

/// Sum of an entry with its place, its event's text, and the text of what is after it.
pub(crate) fn entry_sum(
    position: Position,
    stream: &str,
    version: Version,
    id: Uuid,
    at: Stamp,
    event: &str,
    after: Option<&str>,
) -> i64 {
    let mut sum = Sum::default();
    sum.number(position);
    sum.text(stream);
    sum.number(version);
    sum.bytes(id.as_bytes());
    sum.bytes(at.boot.0.as_bytes());
    sum.number(at.boot_ms);
    sum.number(at.wall_ms.cast_unsigned());
    sum.text(event);
    // Entries from before version 4 have none, and the sums that they had.
    if let Some(after) = after {
        sum.text(after);
    }
    sum.finish()
}

pub(crate) fn head_sum(stream: &str, version: Version, began: Position, head: &Head) -> i64 {
    let mut sum = Sum::default();
    sum.text(stream);
    sum.number(version);
    sum.number(began);
    sum.text(state_name(head.state));
    sum.optional_text(head.root.as_deref());
    sum.optional_number(head.due_wall_ms);
    sum.optional_number(head.closed_wall_ms);
    sum.finish()
}

/// A sum over parts that cannot run into each other. Each step is a bijection of the sum so far and of the word, so a
/// change within one word of eight bytes always shows; it is against damage, not against forgery.
struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        // Not zero: zeros at the beginning would leave that as it is.
        Self(0x6a09_e667_f3bc_c909)
    }
}

impl Sum {
    fn number(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        self.number(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional_text(&mut self, text: Option<&str>) {
        self.number(u64::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn optional_number(&mut self, n: Option<i64>) {
        self.number(u64::from(n.is_some()));
        self.number(n.unwrap_or_default().cast_unsigned());
    }

    fn finish(self) -> i64 {
        self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_every_flipped_bit_and_every_other_cut() {
        let sum = |parts: &[&[u8]]| {
            let mut sum = Sum::default();
            parts.iter().for_each(|part| sum.bytes(part));
            sum.finish()
        };
        let text = "what was written, in words of eight bytes and a rest".as_bytes();
        for at in 0..text.len() * 8 {
            let mut flipped = text.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            assert_ne!(sum(&[&flipped]), sum(&[text]));
        }
        let mut seen = std::collections::BTreeSet::new();
        for at in 0..=text.len() {
            assert!(seen.insert(sum(&[&text[..at], &text[at..]])));
            assert!(seen.insert(sum(&[&text[..at]])));
        }
        assert_ne!(sum(&[b"a\0"]), sum(&[b"a"]));
    }
}
