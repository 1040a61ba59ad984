//! Lines about what happened, the newest last.

use std::collections::{HashMap, VecDeque};

use askd_wire::Delivery;

use crate::rows::Look;

/// Lines that are kept.
const MOST: usize = 50;
/// Ended asks that are remembered, so that nothing is told twice and a correction can name what it corrects.
const MOST_REMEMBERED: usize = 2000;

/// What an ask was about: the beginning of it, and how many characters follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    text: String,
    more: usize,
}

impl About {
    /// Of a line that is safe already.
    pub(crate) fn of(line: &str, columns: usize) -> Self {
        let (text, more) = askd_text::head(line, columns);
        Self { text: text.to_owned(), more }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// In so many columns; what is not there is counted once.
    pub(crate) fn within(&self, columns: usize) -> String {
        askd_text::cut_with(&self.text, self.more, columns)
    }
}

/// One line: which ask, what it was about, what happened to it. The middle is cut first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) handle: String,
    pub(crate) about: About,
    pub(crate) text: String,
    pub(crate) look: Look,
}

impl Note {
    pub(crate) fn line(&self) -> String {
        let about = self.about.within(usize::MAX);
        let parts = [&self.handle, &about, &self.text];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("  ")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    lines: VecDeque<Note>,
    ended: HashMap<String, Ended>,
    order: VecDeque<String>,
}

/// An ask whose end was told here.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) handle: String,
    pub(crate) about: About,
    pub(crate) delivery: Delivery,
}

impl Notes {
    pub(crate) fn say(&mut self, text: impl Into<String>, look: Look) {
        self.push(Note { handle: String::new(), about: About::default(), text: text.into(), look });
    }

    pub(crate) fn push(&mut self, note: Note) {
        // The same line again says nothing new.
        if self.lines.back() == Some(&note) {
            return;
        }
        if self.lines.len() >= MOST {
            self.lines.pop_front();
        }
        self.lines.push_back(note);
    }

    pub(crate) fn last(&self, count: usize) -> impl Iterator<Item = &Note> {
        self.lines.iter().skip(self.lines.len().saturating_sub(count))
    }

    /// Forgets the lines, not the asks.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
    }

    pub(crate) fn remember(&mut self, id: &str, ended: Ended) {
        if self.ended.insert(id.to_owned(), ended).is_none() {
            self.order.push_back(id.to_owned());
            if self.order.len() > MOST_REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.ended.remove(&oldest);
            }
        }
    }

    pub(crate) fn ended(&mut self, id: &str) -> Option<&mut Ended> {
        self.ended.get_mut(id)
    }
}
