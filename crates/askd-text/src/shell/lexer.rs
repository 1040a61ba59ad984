//! Where one command of a line ends and the next begins, by quoting rules alone.
//!
//! It knows words, quotes, comments and the operators that may join commands, and gives up at all else.

use std::ops::Range;

use super::NotSplit;

/// One command or comment: where it stands and what joins it to the one before.
pub(super) struct Piece {
    pub(super) operator: &'static str,
    /// First byte of the operator when it is one that can be seen.
    pub(super) operator_at: Option<usize>,
    start: usize,
    end: usize,
}

impl Piece {
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The pieces of a command in order, and where a last `;` stands that joins nothing.
pub(super) fn pieces(command: &str) -> Result<(Vec<Piece>, Option<usize>), NotSplit> {
    let mut lexer = Lexer { bytes: command.as_bytes(), at: 0, pieces: Vec::new(), start: None, joined: None };
    while lexer.at < lexer.bytes.len() {
        lexer.step()?;
    }
    lexer.end_command(lexer.at);
    match lexer.joined {
        Some((";", at)) => Ok((lexer.pieces, Some(at))),
        Some(("↵", _)) | None => Ok((lexer.pieces, None)),
        // `a &&` waits for more.
        Some(_) => Err(NotSplit::Syntax),
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    pieces: Vec<Piece>,
    /// Where the command that is being read began.
    start: Option<usize>,
    /// The operator that was read last, and where, until a command takes it.
    joined: Option<(&'static str, usize)>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Result<(), NotSplit> {
        match self.peek(0) {
            b' ' | b'\t' => self.at += 1,
            b'\n' => self.line_break(),
            // Between words, a backslash before a line break is a blank.
            b'\\' if self.peek(1) == b'\n' => self.at += 2,
            b'#' => {
                self.end_command(self.at);
                let rest = &self.bytes[self.at..];
                let end = self.at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                self.comment(end);
                self.at = end;
            }
            b';' => self.operator(";", 1)?,
            b'&' if self.peek(1) == b'&' => self.operator("&&", 2)?,
            b'|' if self.peek(1) == b'|' => self.operator("||", 2)?,
            b'|' if self.peek(1) == b'&' => return Err(NotSplit::Has("a pipe for errors (|&)")),
            b'|' => self.operator("|", 1)?,
            b'&' if self.peek(1) == b'>' => self.word()?,
            b'&' => return Err(NotSplit::Has("a background job (&)")),
            _ => self.word()?,
        }
        Ok(())
    }

    /// A word with everything that sticks to it: quotes, escapes, redirections.
    fn word(&mut self) -> Result<(), NotSplit> {
        self.start.get_or_insert(self.at);
        loop {
            match self.peek(0) {
                b'\\' if self.at + 1 == self.bytes.len() => return Err(NotSplit::Syntax),
                b'\\' => self.at += 2,
                b'\'' => self.quoted(b'\'')?,
                b'"' => self.quoted(b'"')?,
                b'<' if self.peek(1) == b'<' => {
                    let is_string = self.peek(2) == b'<';
                    return Err(NotSplit::Has(if is_string { "a here-string" } else { "a here-document" }));
                }
                b'>' | b'<' if self.peek(1) == b'(' => return Err(NotSplit::Has("a process substitution")),
                b'$' => self.dollar()?,
                b'`' => return Err(NotSplit::Has("a command substitution")),
                b'>' | b'<' => {
                    self.at += 1;
                    // `>&`, `<&`, `>|`: no operator begins here.
                    if matches!(self.peek(0), b'&' | b'|') {
                        self.at += 1;
                    }
                }
                b'&' if self.peek(1) == b'>' => self.at += 2,
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' => return Ok(()),
                b'(' if self.peek(1) == b')' => return Err(NotSplit::Has("a function")),
                b'(' if self.start == Some(self.at) => return Err(NotSplit::Has("a subshell")),
                b'(' | b')' => return Err(NotSplit::Has("parentheses")),
                _ if self.at == self.bytes.len() => return Ok(()),
                _ => self.at += 1,
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<(), NotSplit> {
        self.at += 1;
        loop {
            match *self.bytes.get(self.at).ok_or(NotSplit::Syntax)? {
                b if b == quote => break,
                b'\\' if quote == b'"' => self.at += 2,
                b'$' if quote == b'"' => self.dollar()?,
                b'`' if quote == b'"' => return Err(NotSplit::Has("a command substitution")),
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// A variable by its name; everything else behind a `$` can hold more than meets the eye.
    fn dollar(&mut self) -> Result<(), NotSplit> {
        match (self.peek(1), self.peek(2)) {
            (b'(', b'(') | (b'[', _) => return Err(NotSplit::Has("arithmetic")),
            (b'(', _) => return Err(NotSplit::Has("a command substitution")),
            (b'{', _) => {
                let rest = &self.bytes[self.at + 2..];
                let name = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                if name == 0 || rest.get(name) != Some(&b'}') {
                    return Err(NotSplit::Has("a variable that is changed on the way"));
                }
                self.at += name + 3;
            }
            _ => self.at += 1,
        }
        Ok(())
    }

    fn operator(&mut self, operator: &'static str, len: usize) -> Result<(), NotSplit> {
        self.end_command(self.at);
        // An operator needs a command before it.
        if self.joined.is_some() || self.pieces.is_empty() {
            return Err(NotSplit::Syntax);
        }
        self.joined = Some((operator, self.at));
        self.at += len;
        Ok(())
    }

    fn line_break(&mut self) {
        self.end_command(self.at);
        // Behind another operator it is a blank.
        if self.joined.is_none() && !self.pieces.is_empty() {
            self.joined = Some(("↵", self.at));
        }
        self.at += 1;
    }

    fn end_command(&mut self, at: usize) {
        let Some(start) = self.start.take() else { return };
        let mut end = at;
        while end > start && matches!(self.bytes[end - 1], b' ' | b'\t') {
            end -= 1;
        }
        // `a\ ` ends with a blank that is part of the word.
        if end < at && self.bytes[..end].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1 {
            end += 1;
        }
        let (operator, operator_at) = self.take_operator();
        self.pieces.push(Piece { operator, operator_at, start, end });
    }

    fn comment(&mut self, end: usize) {
        // The operator before a comment joins what comes behind it.
        self.pieces.push(Piece { operator: "", operator_at: None, start: self.at, end });
    }

    fn take_operator(&mut self) -> (&'static str, Option<usize>) {
        match self.joined.take() {
            Some(("↵", _)) => ("↵", None),
            Some((operator, at)) => (operator, Some(at)),
            None => ("", None),
        }
    }
}
