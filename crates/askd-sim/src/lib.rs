//! The simulated world: the shipped core, writer loop, in-memory journal and queue among requesters, agents and people
//! that a seed determines, with everything that can go wrong. It decides nothing about asks itself: it sends commands,
//! reads what was committed, and compares with what truly happened.
//!
//! Read [`run`] and [`Report`] first; [`proxy`], [`control`] and [`remote`] are worlds of their own. Only the clock, the disk's faults, the transport and the identities are replaced.
//! A seed replays exactly; one that fails tells the story of the ask.

mod agent;
mod call;
mod clock;
pub mod control;
mod desk;
mod dice;
mod disk;
mod flaw;
#[cfg(test)]
mod flaws;
mod glass;
mod judge;
mod ledger;
mod overrides;
mod person;
mod plan;
pub mod proxy;
mod release;
pub mod remote;
mod report;
mod requester;
mod shape;
mod shell;
pub mod soak;
pub mod spool;
mod story;
mod surface;
mod tenets;
mod transport;
mod weather;
mod world;

pub use report::{Counts, Failure, Report};

use flaw::Flaw;
use story::Story;
use world::World;

/// Lets one world live from its beginning to its end; `Err` says which tenet did not hold, and how it came to that.
pub fn run(seed: u64) -> Result<Report, Box<Failure>> {
    run_with(seed, None)
}

/// The same, with the whole story of the world, whatever its end.
pub fn tell(seed: u64) -> (String, Result<Report, Box<Failure>>) {
    let mut world = World::new(seed, None, Story::kept());
    let played = world.play();
    (world.story.of(&[]), played.map_err(|broken| failure(seed, &world, &broken)))
}

fn run_with(seed: u64, flaw: Option<Flaw>) -> Result<Report, Box<Failure>> {
    let first = match World::new(seed, flaw, Story::default()).play() {
        Ok(report) => return Ok(report),
        Err(broken) => broken,
    };
    // The same world again, and this time the story is kept.
    let mut world = World::new(seed, flaw, Story::kept());
    match world.play() {
        Err(broken) if broken.why == first.why && broken.at == first.at => {
            Err(failure(seed, &world, &broken))
        }
        _ => Err(not_the_same(seed)),
    }
}

fn not_the_same(seed: u64) -> Box<Failure> {
    let broken = "the seed did not replay: something outside of the world came in".to_owned();
    Box::new(Failure { seed, at_ms: 0, broken, story: String::new() })
}

fn failure(seed: u64, world: &World, broken: &world::Broken) -> Box<Failure> {
    Box::new(Failure {
        seed,
        at_ms: broken.at,
        broken: broken.why.clone(),
        story: world.story.of(&broken.asks),
    })
}
