//! The hook path: turns an agent's hook call into an ask or an observation and prints the outcome; it never decides.
//!
//! Read [`claude::main_claude_code`] (the whole program) and [`claude::settings`] (how it is installed) first.
//! Whatever goes wrong here, nothing is printed and the exit status is 0: the agent then asks by itself.
//! No async runtime, no command-line parser, no logging framework: from spawn to exit it takes about a millisecond.

pub mod claude;
mod process;
mod watch;

pub use claude::main_claude_code;
