//! `askd acp`: between an ACP client and an ACP agent. Lines pass byte for byte; permission asks are shown everywhere
//! else too, and the first real answer wins. It never decides, and never waits for the daemon while it reads.
//!
//! Read [`Machine`] (the protocol, no I/O and no clock) and [`run`] (processes, threads, the daemon) first.
//!
//! | line | from | what is done besides passing it on |
//! |---|---|---|
//! | `initialize` and its result | both | who the two are; `subagents` capability (turned on with `translate`) |
//! | `session/new`, `fork`, `load`, `resume` results | agent | a root session; the client is its surface; our commands |
//! | `session/prompt` | client | a turn begins; `/permissions …` is answered here and not passed on |
//! | result of `session/prompt` | agent | the turn is over (opencode: its asks too) |
//! | `session/update` `tool_call`, `tool_call_update` | agent | what a call is; a call that is over ends its ask |
//! | `session/update` `subagent_update` (three shapes) | agent | a child session; its end withdraws its asks |
//! | `session/update` `available_commands_update` | agent | our two commands are added |
//! | `session/request_permission` | agent | an ask; a child's is marked for clients without subagent sessions |
//! | its response | client | the client's answer: settled at askd first, then its own bytes go on; late ones are swallowed |
//! | `$/cancel_request` | agent | the ask is withdrawn |
//! | `session/cancel`, `close`, `delete`, `load`, `resume` | client | every ask of that session and its descendants ends at once |
//! | end of file | both | client: asks stay open elsewhere for a grace; agent: asks are withdrawn |
//! | anything else, JSON or not | both | nothing |
//!
//! The answer to an ask waits for the journal, and lines behind it do not wait for the answer; all else keeps its order.

mod act;
mod ask;
mod machine;
mod message;
mod run;

use crate::raw;

pub use act::{Dismiss, Settings};
pub use machine::Machine;
pub use run::{Options, behind_another, run};

pub use crate::proxy::{Action, Answered, AskNo, CannotStart, Errand, News};
