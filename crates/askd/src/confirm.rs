//! Asking a person back, at this terminal.

use std::io::{self, BufRead, IsTerminal};

use rustix::termios::{QueueSelector, tcflush};

use crate::failure::Failure;
use crate::out;

/// Whether somebody can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal()
}

/// Prints the question and reads a line. Only `y` and `yes` are a yes: no blank line, no end of file, and nothing that
/// was typed before the question stood there.
pub(crate) fn confirmed(question: &str) -> Result<bool, Failure> {
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    out::print(question)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::unavailable(format!("standard input: {error}")))?;
    // A line that was not finished is none.
    Ok(matches!(line.trim(), "y" | "yes") && line.ends_with('\n'))
}
