//! The hook path: turns an agent's hook call into an ask or an observation and prints the outcome; it never decides.
//!
//! Read [`program`] (the whole program), [`main`] and [`claude::settings`] (how it is installed) first.
//! Whatever goes wrong here, nothing is printed and the exit status is 0: the agent then asks by itself.
//! No async runtime, no command-line parser, no logging framework: from spawn to exit it takes about a millisecond.

mod bytes;
pub mod claude;
mod home;
pub mod json;
mod process;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

pub use claude::main_claude_code;

/// `askd-hook hook AGENT …`, the whole program. All that was to be said is said when [`main`] is over, so it ends without
/// what the runtime tidies up.
pub fn program() -> ! {
    let mut args = std::env::args_os().skip(1).peekable();
    let _ = args.next_if(|first| first == "hook");
    let _always_success = main(args);
    signal_hook::low_level::exit(0)
}

/// `askd hook AGENT …`, given what is behind `hook`. Whatever is wrong with the call, the agent asks by itself: nothing
/// on standard output, status 0.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let complaint = match args.next() {
        Some(agent) if agent == "claude-code" => return main_claude_code(args),
        Some(agent) => format!("{agent:?} is not served; served: claude-code"),
        None => "name the agent: askd hook claude-code".to_owned(),
    };
    // The pipe may be closed, and a failed print must not become a panic.
    let _ = writeln!(std::io::stderr(), "askd hook: {complaint}");
    ExitCode::SUCCESS
}
