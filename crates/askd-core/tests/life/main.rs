//! The life of an ask, tried against a reference and in every named race.

#[path = "../common/mod.rs"]
mod common;
mod model;
mod property;
