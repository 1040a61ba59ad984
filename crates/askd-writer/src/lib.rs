//! The one writer loop: handles a batch of commands on the working state, commits it, and only then says what came of
//! it. It owns no thread, clock, socket or randomness, so that the daemon, an embedding host and the simulation run
//! the same code.
//!
//! Read [`Writer`] and [`Batched`] first.

mod heads;
mod probe;
mod reload;
mod writer;

pub use probe::{Point, Probe};
pub use writer::{Batched, Died, Ids, Writer};
