//! Asks, sessions and the log as people read them. Everything foreign goes through askd-text; an ask's `display`
//! fields and the daemon's own sentences are safe when they come.

pub(crate) mod card;
pub(crate) mod list;
pub(crate) mod outcome;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod time;
pub(crate) mod who;

pub(crate) use card::card;
pub(crate) use list::{asks, log_line, sessions};
pub(crate) use outcome::{delivery, settled, timed};
pub(crate) use time::Clock;
pub(crate) use who::Who;
