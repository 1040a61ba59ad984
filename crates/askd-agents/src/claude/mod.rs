//! `askd claude`: between a host that speaks stream-json and Claude Code. Lines pass byte for byte; permission requests
//! are shown everywhere else too, and the first real answer wins. It never decides, and never waits for the daemon while
//! it reads.
//!
//! Read [`Machine`] (the protocol, no I/O and no clock) and [`run`] (processes, threads, the daemon) first.
//!
//! | line | from | what is done besides passing it on |
//! |---|---|---|
//! | `control_request` `can_use_tool` | agent | an ask; a host that knows of none never sees it |
//! | `control_response` to it | host | an allow or a deny: settled at askd first, then its own bytes go on; an allow without input gets the one that was shown; an error is that surface failing; late, doubled: dropped |
//! | `control_cancel_request` | agent | the ask is withdrawn; where nothing is known that cancels, something in the agent decided, and the result tells what |
//! | `control_request` `interrupt`, `stop_task` | host | its asks end and undelivered allows are void before the agent hears of it; until its reply, what is newly asked is only shown to the host |
//! | `control_response` to those | agent | what it still asks is asked |
//! | `system` `session_state_changed` | agent | whether it works, and whether turns are to come; passed on only where this wrapper did not ask for it |
//! | `control_response` to our own question | agent | it has read everything: at the end its input may be closed |
//! | `system` `init`; any `session_id` | agent | session, directory; the host is its surface; a turn begins |
//! | `system` `task_started`, `task_updated`, `task_notification` | agent | subagents: names, kinds, depth, background; their ends |
//! | `assistant` | agent | calls that start subagents |
//! | `user` with results | agent | allowed calls ended, denials confirmed; who was first: `tool_result_meta` |
//! | `result` | agent | the turn is over |
//! | `user` | host | a new turn: late answers of the one before are void |
//! | a line that is no JSON object | host | it is dropped: the agent would end at it |
//! | end of file | host | nobody is denied: the agent's input stays open until no ask, no task and no turn is left |
//! | end of the process | agent | asks are withdrawn; lost by a signal or a crash, a late answer is kept for the resumed turn |
//! | anything else | both | nothing |

mod act;
mod machine;
mod message;
mod run;
mod state_lines;

pub use act::{HostKind, Settings};
pub use machine::{AGENT, Machine};
pub use run::{Options, run};
pub use state_lines::StateLines;

pub use crate::proxy::{Action, Answered, AskLimit, AskNo, CannotStart, End, Errand, News};
