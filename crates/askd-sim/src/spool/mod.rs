//! A forwarding tree in a world of its own: the shipped machine of the serving side and the shipped core, writer and
//! journal, among requesters with the old clean-up, people who remove whatever they like at any step, a disk that fills
//! up, two servers that die, a daemon that dies, and somebody else who answers too.
//!
//! A world that breaks a promise of the tree panics and names its seed.
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is a fault of the world itself, told by its seed"
)]

mod disk;
mod world;

use std::collections::BTreeSet;

/// Lets one world live to its end and tells what happened in it.
pub fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut world = world::World::new(seed);
    world.live();
    world.happened
}
