//! The permission tool over MCP: Claude Code calls it for every ask that a person would answer, and gets the outcome as
//! the tool's result. It decides nothing, and it never turns a fault into a decision.
//!
//! | Claude Code | here |
//! |---|---|
//! | `server/discover`, or `initialize` of an older version | answered by rmcp |
//! | `tools/call ask {tool_name, input, tool_use_id}` | one ask, its key the tool-use id, on a thread of its own |
//! | result: one text, `{"behavior":"allow","updatedInput":…}` | allowed; the input goes back byte for byte |
//! | result: `{"behavior":"deny","message":…,"interrupt":…}` | denied, with the person's words |
//! | result with `isError` | nobody decided and nobody can: no daemon, withdrawn, a question |
//! | `notifications/cancelled` | the ask is withdrawn |
//! | end of its requests | detach: open calls are answered as long as somebody reads |
//!
//! Read [`run`] and [`Options`] first. [`Permission`](tool) is the tool, [`call`] the life of one call, [`line`] and
//! [`wire`](transport) what passes by rmcp: it would parse the input and write it anew.

mod call;
mod calls;
mod line;
mod tool;
mod transport;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use askd_client::Places;
use askd_wire::{Attendance, Instance};

pub use tool::{SERVER, TOOL};

/// What `askd mcp` is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub places: Places,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    /// Claude's session.
    pub session: String,
    /// The agent's process.
    pub instance: Instance,
    /// `None`: as the daemon knows the thread that asks.
    pub attendance: Option<Attendance>,
    /// After which Claude gives a call up by itself.
    pub gives_up: Option<Duration>,
    /// Takes one line for standard error.
    pub log: fn(&str),
}

/// The server could not work. No call was answered by it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What came first is no MCP.
    #[error("the handshake failed: {0}")]
    Handshake(String),
}

/// Serves standard input and output until the client has gone.
pub fn run(options: Options) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let calls = calls::Calls::default();
    let wire = transport::Wire::start(calls.clone(), options.log)?;
    let tool = tool::Permission::new(options, calls.clone())?;
    let served = runtime.block_on(async {
        let service = rmcp::serve_server(tool, wire).await.map_err(|error| match error {
            // A client that looked and left.
            rmcp::service::ServerInitializeError::ConnectionClosed(_) => None,
            error => Some(ServerError::Handshake(error.to_string())),
        });
        match service {
            Ok(service) => {
                let _ = service.waiting().await;
                Ok(())
            }
            Err(None) => Ok(()),
            Err(Some(error)) => Err(error),
        }
    });
    calls.finish();
    // A thread that still waits for the daemon must not hold the process.
    runtime.shutdown_background();
    served
}
