//! The queue as a host sees it: keys and events in, actions and a screen out.
#![expect(clippy::unwrap_used, reason = "in a test, to fail is the handling")]

mod ask;
mod bulk;
mod draft;
mod ended;
mod guard;
mod hostile;
mod look;
mod property;
mod rig;
#[path = "../common/samples.rs"]
mod samples;
mod stream;
mod time;
