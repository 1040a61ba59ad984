//! The hook path for the tests of this package; what ships is `askd-hook` of the package `askd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.peek().is_some_and(|agent| agent == "claude-code") {
        askd_hook::run(args);
    }
    eprintln!("usage: hook-under-test claude-code [--dir DIR] [--timeout SECS] [--owner NAME] < EVENT");
    ExitCode::from(1)
}
