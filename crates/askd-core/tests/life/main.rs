//! The life of an ask, tried against a reference and in every named race.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(unreachable_pub, reason = "one program: what is public is for its other modules")]

mod birth;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod decided;
mod late;
mod lineage;
mod model;
mod overrides;
mod property;
mod races;
mod shares;
mod soak;
