//! The life of an ask, tried against a reference and in every named race.

#![expect(unreachable_pub, reason = "one program: what is public is for its other modules")]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod property;
