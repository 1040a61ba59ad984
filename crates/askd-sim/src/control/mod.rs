//! `askd claude` in a world of its own: the wrapper's shipped machine and the shipped core, writer and journal, between a
//! host, an agent with hooks and a background task, and people that a seed determines, with slow and lost messages, a
//! daemon that dies and comes back on its journal, a host that fails, closes or dies, and an agent or a wrapper that is
//! killed.
//!
//! A world that breaks a promise of the wrapper panics and names its seed.
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is a fault of the world itself, told by its seed"
)]

mod sides;
mod world;

use std::collections::BTreeSet;

/// Lets one world live to its end and tells what happened in it.
pub fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut world = world::World::new(seed);
    world.live();
    world.base.happened
}
