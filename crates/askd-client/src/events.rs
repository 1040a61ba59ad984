//! Server-sent events, one after the other.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use askd_wire::StreamEvent;

use crate::body::Body;
use crate::error::{CallError, HttpError};
use crate::http::Connection;

/// Longest single event: a snapshot holds every open ask.
const MOST_EVENT: usize = 512 * 1024 * 1024;

/// One event with its journal position, from which a stream can be resumed.
#[derive(Debug)]
pub struct Event {
    pub id: Option<u64>,
    pub event: StreamEvent,
}

/// A running event stream. As an iterator it blocks for the next event and ends when the daemon closed the stream.
#[derive(Debug)]
pub struct Events {
    connection: Connection,
    body: Body,
    /// Decoded text; lines before `start` are used up, no line ends before `scanned`.
    text: Vec<u8>,
    start: usize,
    scanned: usize,
    id: Option<u64>,
    data: Vec<u8>,
    ended: bool,
}

impl Events {
    pub(crate) fn new(connection: Connection, body: Body) -> Self {
        let text = Vec::new();
        Self { connection, body, text, start: 0, scanned: 0, id: None, data: Vec::new(), ended: false }
    }

    /// Point in time after which [`Events::receive`] fails with `TimedOut`; it may be called again then.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.connection.set_deadline(deadline);
    }

    /// Position of the last event, to resume from.
    pub fn position(&self) -> Option<u64> {
        self.id
    }

    /// The next event; `None`: the daemon closed the stream.
    pub fn receive(&mut self) -> Result<Option<Event>, CallError> {
        loop {
            while let Some(line) = self.next_line() {
                if let Some(event) = self.take_line(&line)? {
                    return Ok(Some(event));
                }
            }
            if self.ended || self.body.is_done() {
                return Ok(None);
            }
            if self.text.len() + self.data.len() > MOST_EVENT {
                return Err(HttpError::TooLarge("an event").into());
            }
            // What the head's read brought along comes first.
            let before = self.text.len();
            self.connection.decode(&mut self.body, &mut self.text)?;
            if self.text.len() > before || self.body.is_done() {
                continue;
            }
            match self.connection.fill() {
                Ok(()) => {}
                Err(HttpError::Closed) => self.ended = true,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let Some(at) = self.text[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.text.drain(..self.start);
            self.start = 0;
            self.scanned = self.text.len();
            return None;
        };
        let end = self.scanned + at;
        let line = &self.text[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        Some(line)
    }

    /// Takes one line; an empty one gives the event that is complete by it.
    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, CallError> {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return if data.is_empty() { Ok(None) } else { self.parse(&data) };
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"id" => self.id = std::str::from_utf8(value).ok().and_then(|id| id.parse().ok()).or(self.id),
            // Comments keep the connection alive; the event's name is in the data too.
            _ => {}
        }
        Ok(None)
    }

    fn parse(&self, data: &[u8]) -> Result<Option<Event>, CallError> {
        match serde_json::from_slice(data) {
            Ok(event) => Ok(Some(Event { id: self.id, event })),
            Err(error) => {
                // A newer daemon may tell of things that this program has no word for.
                let tag = serde_json::from_slice::<Tag>(data).map(|tag| tag.kind);
                match tag.as_deref() {
                    Ok("snapshot" | "gap" | "ask" | "waiting" | "notice" | "woke" | "bye") | Err(_) => {
                        Err(CallError::Unexpected { status: 200, text: format!("a broken event: {error}") })
                    }
                    Ok(_) => Ok(None),
                }
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    kind: String,
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Iterator for Events {
    type Item = Result<Event, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receive().transpose()
    }
}
