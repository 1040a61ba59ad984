//! How an event and a head look in a store, and the sums that tell a changed row from a written one.

use askd_core::event::Event;
use askd_core::time::Stamp;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::contract::{Head, HeadState, JournalError, Position, Version};

pub(crate) fn encode(event: &Event) -> Result<String, JournalError> {
    serde_json::to_string(event)
        .map_err(|e| JournalError::Other(format!("the event {} cannot be written: {e}", event.name())))
}

pub(crate) fn decode(text: &str) -> Result<Event, serde_json::Error> {
    serde_json::from_str(text)
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

/// Sum of an entry with its place and its event's text.
pub(crate) fn entry_sum(
    position: Position,
    stream: &str,
    version: Version,
    id: Uuid,
    at: Stamp,
    event: &str,
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

/// The first eight bytes of a SHA-256 over parts that cannot run into each other.
#[derive(Default)]
struct Sum(Sha256);

impl Sum {
    fn number(&mut self, n: u64) {
        self.0.update(n.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
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
        self.0.finalize().iter().take(8).fold(0, |sum, byte| sum << 8 | i64::from(*byte))
    }
}
