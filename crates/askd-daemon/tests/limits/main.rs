//! What the daemon does at its limits, and when the machine is at its own.
#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

mod agents;
#[path = "../common/mod.rs"]
mod common;
mod refusals;
mod resume;
mod trouble;
