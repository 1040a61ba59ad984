//! The commands, one module each.

pub(crate) mod acp;
pub(crate) mod answer;
pub(crate) mod ask;
mod beside;
pub(crate) mod bulk;
pub(crate) mod claude;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod doctor;
mod doctor_acp;
mod doctor_pi;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod permissions;
pub(crate) mod restart;
pub(crate) mod run;
mod run_mcp;
pub(crate) mod run_opencode;
pub(crate) mod run_pi;
pub(crate) mod run_watch;
pub(crate) mod setup;
mod setup_client;
mod setup_pi;
pub(crate) mod spool;
pub(crate) mod status;
