//! The prompt queue for terminals: a widget that other ratatui programs can embed, and the program around it. It shows
//! asks and takes keys; it decides nothing, and it never takes a key for an answer that was pressed before the ask was
//! drawn.
//!
//! Read [`Queue`] (the widget: a state machine without I/O or clock) and [`Action`] (what it wants done) first.

mod action;
mod around;
mod content;
mod draw;
mod editor;
mod guard;
mod item;
mod key;
mod notes;
mod now;
mod pager;
mod queue;
mod rows;
mod run;
#[cfg(test)]
#[path = "../tests/common/samples.rs"]
mod samples;

use askd_words as words;

pub use action::{Action, Link, Reply, Settings};
pub use around::Place;
pub use editor::Draft;
pub use guard::{ALLOW_AFTER, HELD_FOR};
pub use key::Key;
pub use now::Now;
pub use queue::{BACK_BEFORE, Queue, SNOOZE};
/// The ratatui that the widget draws with.
pub use ratatui;
pub use run::{How, Left, Notify, Options, RunError, run};
