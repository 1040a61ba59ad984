//! What is on its way to the daemon when the queue is left: nobody who leaves behind an answer may lose it unheard.

use std::time::Duration;

use askd_wire::BulkAnswer;

use crate::action::Reply;
use crate::queue::{Queue, verb};
use crate::words;

/// How long leaving waits for the daemon; the terminal has been given back before.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// Waiting for longer than this is told.
pub(super) const UNTOLD: Duration = Duration::from_millis(400);

/// What was given to the worker and has no reply yet.
#[derive(Debug, Default)]
pub(super) struct OnWay(Vec<(What, String)>);

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// An answer to this ask.
    Ask(String),
    Command,
    TakeBack(String),
}

impl OnWay {
    pub(super) fn answer(&mut self, queue: &Queue, given: &BulkAnswer) {
        let handle = queue.items.get(&given.id).map(|item| words::one(&item.ask.handle));
        let handle = handle.unwrap_or_else(|| words::one(&given.id));
        let text = format!("your {} of {handle}", verb(given.answer.decision));
        self.0.push((What::Ask(given.id.clone()), text));
    }

    pub(super) fn command(&mut self, text: &str) {
        self.0.push((What::Command, words::one(text)));
    }

    pub(super) fn take_back(&mut self, id: &str) {
        self.0.push((What::TakeBack(id.to_owned()), "taking back your late answer".to_owned()));
    }

    /// What this is the reply to is not on its way any more.
    pub(super) fn replied(&mut self, reply: &Reply) {
        let what = match reply {
            Reply::Answered(ask) => What::Ask(ask.id.clone()),
            Reply::Refused { id, .. } | Reply::Lost { id, .. } => What::Ask(id.clone()),
            Reply::Command(_) => What::Command,
            Reply::TakenBack { id, .. } => What::TakeBack(id.clone()),
            Reply::Seen { .. } | Reply::Said(_) => return,
        };
        if let Some(at) = self.0.iter().position(|(it, _)| *it == what) {
            self.0.remove(at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each in words.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, text)| text.as_str())
    }
}

/// What became of all that after the person left, for the screen that was there before.
#[derive(Debug, Default)]
pub(super) struct Parting {
    pub(super) lines: Vec<String>,
    /// How many were not done, as far as is known.
    pub(super) failed: usize,
}

impl Parting {
    /// A reply that still came; `told` is what the queue says of it.
    pub(super) fn reply(&mut self, reply: &Reply, told: Vec<String>) {
        match reply {
            Reply::Command(Ok(text)) => self.lines.extend(text.lines().map(words::plain)),
            Reply::Command(Err(why)) => {
                self.lines.push(format!("not done: {}", words::one(why)));
                self.failed += 1;
            }
            Reply::Refused { .. } | Reply::Lost { .. } | Reply::TakenBack { failed: Some(_), .. } => {
                self.failed += 1;
            }
            Reply::Answered(_)
            | Reply::TakenBack { failed: None, .. }
            | Reply::Seen { .. }
            | Reply::Said(_) => {}
        }
        self.lines.extend(told);
    }

    /// No reply came for these.
    pub(super) fn unheard(&mut self, on_way: &OnWay) {
        for text in on_way.texts() {
            let line = format!("{text} may not have arrived: the daemon did not reply (askd ls, askd log)");
            self.lines.push(line);
            self.failed += 1;
        }
    }
}
