//! What the whole-system tests are made of: a world of its own for each test, real agents in it, and a scripted
//! model server that plays the cloud. It never decides anything about an ask and never mocks askd or an agent.
//!
//! Read [`World`] (a temporary home with askd in it) and [`Model`] (the scripted server) first.
//! Everything waits on conditions with [`until`]; nothing sleeps to synchronise.

mod agents;
pub mod bot;
mod client;
mod headless;
mod model;
mod opencode;
mod patience;
pub mod processes;
mod terminal;
mod world;

pub use agents::{Program, Version, package};
pub use client::{AcpClient, behind_askd};
pub use headless::{Headless, Host, Request};
pub use model::{Gate, Model, Scripts, Step, ToolResult};
pub use opencode::OpencodeApi;
pub use patience::{PATIENCE, until};
pub use processes::{alive, children, kill, pause, resume};
pub use terminal::Terminal;
pub use world::{Ask, Choice, Lineage, Outcome, Ran, RequesterLink, Session, Subagent, World};
