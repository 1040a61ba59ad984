//! Telegram: a card with buttons for each ask, in a chat with a bot. The machine decides what is said and what a tap
//! means, the hands make the calls. It forwards nothing that people write to an agent, but the words of a denial.
//!
//! Read [`Machine`] first, then [`text`] (what a person sees) and [`seal`] (what a button carries).

pub mod api;
pub mod call;
pub mod hands;
pub mod machine;
#[cfg(test)]
mod samples;
pub mod seal;
pub mod shape;
pub mod text;

pub use machine::{Machine, Setup};

/// The surface itself.
pub type Telegram = Machine;

/// How it is called, for people and in the journal.
pub const NAME: &str = "Telegram";
