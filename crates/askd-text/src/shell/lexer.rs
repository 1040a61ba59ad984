//! Where one command of a line ends and the next begins, by quoting rules alone.
//!
//! It knows words, quotes, comments and the operators that may join commands, and gives up at all else.

use std::ops::Range;

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

/// The pieces of a command in order, and where a last `;` stands that joins nothing; `None` where a quote stays open
/// or two operators meet.
pub(super) fn pieces(command: &str) -> Option<(Vec<Piece>, Option<usize>)> {
    let mut lexer = Lexer { bytes: command.as_bytes(), at: 0, pieces: Vec::new(), start: None, joined: None };
    while lexer.at < lexer.bytes.len() {
        lexer.step()?;
    }
    lexer.end_command(lexer.at);
    match lexer.joined {
        Some((";", at)) => Some((lexer.pieces, Some(at))),
        Some(("↵", _)) | None => Some((lexer.pieces, None)),
        // `a &&` waits for more.
        Some(_) => None,
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

    fn step(&mut self) -> Option<()> {
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
            b'|' => self.operator("|", 1)?,
            b'&' if self.peek(1) == b'>' => self.word()?,
            b'&' | b'(' | b')' | b'`' => return None,
            _ => self.word()?,
        }
        Some(())
    }

    /// A word with everything that sticks to it: quotes, escapes, redirections.
    fn word(&mut self) -> Option<()> {
        self.start.get_or_insert(self.at);
        loop {
            match self.peek(0) {
                b'\\' => self.at += if self.at + 1 < self.bytes.len() { 2 } else { return None },
                b'\'' => self.quoted(b'\'')?,
                b'"' => self.quoted(b'"')?,
                b'>' | b'<' => {
                    self.at += 1;
                    // `>&`, `<&`, `>|`: no operator begins here.
                    if matches!(self.peek(0), b'&' | b'|') {
                        self.at += 1;
                    }
                }
                b'&' if self.peek(1) == b'>' => self.at += 2,
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' => return Some(()),
                b'(' | b')' | b'`' => return None,
                _ if self.at == self.bytes.len() => return Some(()),
                _ => self.at += 1,
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Option<()> {
        self.at += 1;
        loop {
            match *self.bytes.get(self.at)? {
                b if b == quote => break,
                b'\\' if quote == b'"' => self.at += 2,
                b'`' if quote == b'"' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn operator(&mut self, operator: &'static str, len: usize) -> Option<()> {
        self.end_command(self.at);
        // An operator needs a command before it.
        if self.joined.is_some() || self.pieces.is_empty() {
            return None;
        }
        self.joined = Some((operator, self.at));
        self.at += len;
        Some(())
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
