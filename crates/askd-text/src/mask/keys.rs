//! Private keys in their armour: many lines between BEGIN and END.

use std::ops::Range;

/// Lines of a key are at least this long; the last one may be shorter and is then no secret by itself.
const MIN_LINE: usize = 24;
/// The longest name of a key that is looked for behind BEGIN.
const MAX_NAME: usize = 40;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Whether a private key is being read.
#[derive(Debug, Default)]
pub(crate) struct KeyBlock {
    open: bool,
}

impl KeyBlock {
    /// Adds the parts of `line` that are lines of a key. One line of ours may hold many of the key, with a blank,
    /// `↵` or `\n` between them.
    pub(super) fn secrets(&mut self, line: &str, found: &mut Vec<Range<usize>>) {
        let mut at = 0;
        loop {
            let rest = &line[at..];
            let end = rest.find(if self.open { END } else { BEGIN });
            if self.open {
                body(&rest[..end.unwrap_or(rest.len())], at, found);
            }
            let Some(end) = end else { return };
            at += end + if self.open { END.len() } else { BEGIN.len() };
            self.open = !self.open && is_private(&line[at..]);
        }
    }
}

fn is_private(name: &str) -> bool {
    name.find("-----").is_some_and(|end| end <= MAX_NAME && name[..end].ends_with("PRIVATE KEY"))
}

fn body(text: &str, start: usize, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    // A backslash ends a run too: `\n` is a line break of another language, its `n` no part of the key.
    for piece in text.split_inclusive([' ', '↵', '\\']) {
        let skip = usize::from(piece.starts_with('n') && text[..at].ends_with('\\'));
        // A frame of ours or a quote may stand before it.
        let body = piece[skip..].trim_start_matches(['|', '+', '-', '"', '\'']);
        let len = body.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"+/=".contains(b)).count();
        let from = start + at + piece.len() - body.len();
        if len >= MIN_LINE && is_base64(&body[..len]) {
            found.push(from..from + len);
        }
        at += piece.len();
    }
}

/// Whether it is likelier to be part of a key than a path or a word.
fn is_base64(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_uppercase())
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_digit())
}
