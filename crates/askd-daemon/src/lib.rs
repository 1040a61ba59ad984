//! The daemon: one writer thread around the core and the journal, two sockets, timers. It decides nothing itself.
//!
//! Read [`run`] and `engine::Engine` first. Requesters come in by `ask.sock`, people by `answer.sock`; both speak
//! HTTP/1.1. What a person may do is checked against the process that does it (`peer`).

mod agents;
mod alarm;
mod backlog;
mod before;
mod common;
mod convert;
mod crash;
mod dropped;
mod edits;
mod engine;
#[cfg(target_os = "linux")]
mod fd;
mod history;
mod http;
mod limit;
mod limits;
mod log_text;
mod origins;
mod owner;
mod peer;
mod permissions;
mod publish;
mod server;
mod settings;
mod shell;
mod socket;
mod start;
mod token;
mod tries;

use askd_serve::{clock, masked, view};
pub use settings::{InForce, SettingsWatch};
pub use start::{Options, StartError, check, inside_agent, run};
