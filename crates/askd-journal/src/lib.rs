//! The durable, ordered log of everything that happened to asks: the contract and its engines. It never decides
//! anything and never interprets an event.
//!
//! Read [`Journal`] and [`Batch`] first. First answer wins *is* the compare-and-set of [`Journal::commit`].

#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
pub mod memory;
mod shape;
pub mod sqlite;
mod text;

pub use contract::{
    Append, Batch, Claim, CommitError, Committed, Entry, Head, HeadState, Journal, JournalError, Position,
    Positioned, Reader, Version,
};
pub use memory::{Fault, Faults, MemoryJournal, MemoryStore};
pub use sqlite::{OpenOptions, SqliteJournal};
