//! What a protocol machine wants done.

use super::{AskNo, Errand};
use crate::hidden::HiddenReply;

/// What the caller of a machine has to do, in order.
#[derive(Debug)]
pub enum Action {
    /// A whole line, as it came or as we wrote it.
    ToAgent(Vec<u8>),
    ToClient(Vec<u8>),
    /// Something to do at the daemon. Nobody waits for it.
    Daemon(Errand),
    /// An outcome is in the lines so far: tell the daemon so when they are written.
    Handed {
        ask: AskNo,
    },
    /// Answer an ask of the agent's own server; what became of it is told to the machine.
    HiddenReply {
        ask: AskNo,
        id: String,
        reply: HiddenReply,
        message: Option<String>,
    },
    /// A yes that the agent's own server does not have yet is void. Comes before the line that says why.
    HiddenForget {
        id: String,
    },
    /// Close the agent's standard input: it ends by itself then, and the proxy with it.
    CloseAgent,
    /// One line for standard error.
    Log(String),
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, or because somebody wanted it to.
    Orderly,
    /// It was killed, or crashed. The session may be resumed.
    Lost,
}
