//! The real program as scripts and people use it.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod acp;
mod answer;
mod ask;
mod daemon;
mod demo;
mod limits;
mod line;
mod permissions;
mod pty;
mod run;
mod run_opencode;
mod setup;
mod setup_client;
mod spool;
mod spool_asker;
mod surroundings;
mod terminal;
mod world;
