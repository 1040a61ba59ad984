//! `askd acp` in a world of its own: the proxy's shipped machine and the shipped core, writer and journal, between a
//! client, an agent and people that a seed determines, with slow and lost messages, a daemon that dies and comes back
//! on its journal, and a client or a proxy that dies.
//!
//! A world that breaks a promise of the proxy panics and names its seed.
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is a fault of the world itself, told by its seed"
)]

pub(crate) mod base;
pub(crate) mod daemon;
mod sides;
mod world;

use std::collections::BTreeSet;

/// Lets one world live to its end and tells what happened in it.
pub fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut world = world::World::new(seed);
    world.live();
    world.base.happened
}
