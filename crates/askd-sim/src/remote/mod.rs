//! Telegram in a world of its own: the shipped machine of the bot and the shipped core, writer and journal, between a
//! server, people and askers that a seed determines, with calls that are lost before or after they were done, a server
//! that refuses, strangers and forgers, a journal that takes nothing, and a daemon that dies at any step.
//!
//! A world that breaks a promise panics and names its seed.
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is a fault of the world itself, told by its seed"
)]

mod server;
mod world;

use std::collections::BTreeSet;

/// Lets one world live to its end and tells what happened in it.
pub fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut world = world::World::new(seed);
    world.live();
    world.happened
}
