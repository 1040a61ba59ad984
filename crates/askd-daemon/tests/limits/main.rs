//! What the daemon does at its limits, and when the machine is at its own.
#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

#[path = "../common/mod.rs"]
mod common;
mod refusals;
mod trouble;
