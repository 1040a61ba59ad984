//! Printing that survives a closed pipe, the little colour there is, and the width of the screen.

use std::io::{self, IsTerminal, Write};

use crate::failure::{Failure, status};

/// Columns where there is no terminal to ask.
const USUAL_WIDTH: usize = 120;

/// Writes to standard output, past its buffer's end. A reader who left is no error to talk about.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::quiet(status::BROKEN_PIPE),
        _ => Failure::unavailable(format!("standard output: {error}")),
    })
}

/// The same with a line break.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// A line on standard error; when that is closed there is nobody to tell.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Text of the daemon and of the system: it is safe already, or made so by taking the control characters out.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Foreign text for one line.
pub(crate) fn safe(text: &str) -> String {
    askd_text::safe(text).text
}

/// Foreign text for one line of a list, cut with a count.
pub(crate) fn short(text: &str, columns: usize) -> String {
    askd_text::cut(&safe(text), columns)
}

/// How wide standard output is.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 20).unwrap_or(USUAL_WIDTH)
}

/// Colour, where a terminal shows it and nobody minds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };

    /// For standard output: none with `NO_COLOR`, on a dumb terminal, or where no terminal is.
    pub(crate) fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { colour: io::stdout().is_terminal() && !dumb && !is_set("NO_COLOR") }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_moves_no_cursor() {
        assert_eq!(one_line("a\u{1b}[2K\nb\u{9b}"), "a [2K b ");
    }
}
