//! Text on its way to the screen: pieces with a look, wrapped without losing or splitting anything.

use ratatui::buffer::CellWidth;
use unicode_width::UnicodeWidthChar;

/// How a piece of text is meant; the theme decides how that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Look {
    #[default]
    Plain,
    Strong,
    Quiet,
    /// A key that can be pressed.
    Key,
    /// Something that a person should notice.
    Warn,
    /// Something dangerous.
    Danger,
    /// A mark that stands for what cannot be seen.
    Mark,
    Added,
    Removed,
}

/// A piece of safe text with its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) look: Look,
}

/// One line of the screen. `from..to` is its place in the content it is part of, counted in characters and line ends;
/// a row that is no content (a heading, a blank) has `from == to`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Row {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn of(text: impl Into<String>, look: Look) -> Self {
        Self::new().with(text, look)
    }

    #[must_use]
    pub(crate) fn with(mut self, text: impl Into<String>, look: Look) -> Self {
        self.push(text, look);
        self
    }

    pub(crate) fn push(&mut self, text: impl Into<String>, look: Look) {
        let text = text.into();
        if !text.is_empty() {
            self.pieces.push(Piece { text, look });
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|piece| width(&piece.text)).sum()
    }

    pub(crate) fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}

/// Columns of the screen that safe text takes, never fewer than it is drawn with.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { units(text).map(unit_width).sum() }
}

fn unit_width(unit: &str) -> usize {
    if unit.is_ascii() { unit.len() } else { usize::from(unit.cell_width()) }
}

/// What must not be split: a mark, or a character with what is drawn onto it.
pub(crate) fn units(safe: &str) -> impl Iterator<Item = &str> {
    let mut rest = safe;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let len = match mark_end(rest) {
            Some(end) => end,
            None => first.len_utf8(),
        };
        let drawn_on: usize =
            rest[len..].chars().take_while(|c| c.width() == Some(0)).map(char::len_utf8).sum();
        let (unit, after) = rest.split_at(len + drawn_on);
        rest = after;
        Some(unit)
    })
}

fn mark_end(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("\\u{")?;
    inner.find('}').map(|end| "\\u{".len() + end + 1)
}

fn is_mark(unit: &str) -> bool {
    mark_end(unit).is_some() || unit == "⇥" || unit == "↵"
}

/// Cuts one safe line into parts of at most `columns`, behind a space where there is one near the end; at least one part,
/// and every character is in one of them. Only a single mark can be wider.
pub(crate) fn wrap(safe: &str, columns: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = safe;
    loop {
        let (part, behind) = rest.split_at(first_part(rest, columns.max(1)));
        parts.push(part);
        if behind.is_empty() {
            return parts;
        }
        rest = behind;
    }
}

/// Where the first of the parts ends; looks no further.
fn first_part(rest: &str, columns: usize) -> usize {
    let (mut end, mut used, mut space) = (0, 0, None);
    for unit in units(rest) {
        let unit_width = unit_width(unit);
        if used + unit_width > columns && end > 0 {
            break;
        }
        end += unit.len();
        used += unit_width;
        if unit == " " && used >= columns / 3 * 2 {
            space = Some(end);
        }
    }
    // A part that is full at a word's end anyway, and a run of spaces, stay as they are.
    let full = end >= rest.len() || rest[end..].starts_with(' ') || rest[..end].ends_with(' ');
    space.filter(|_| !full).unwrap_or(end)
}

/// The same between words where that is possible, for text that is about an action and not a part of one.
pub(crate) fn wrap_words(safe: &str, columns: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = safe;
    loop {
        let part = &rest[..first_part(rest, columns.max(1))];
        if part.len() == rest.len() {
            parts.push(rest);
            return parts;
        }
        let end = match rest[part.len()..].starts_with(' ') {
            true => part.len(),
            false => part.rfind(' ').filter(|at| *at > 0).unwrap_or(part.len()),
        };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(' ');
    }
}

/// A name at most `columns` wide; `…` says that it goes on. For names only: what an action says is cut with a count.
pub(crate) fn shorten(safe: &str, columns: usize) -> String {
    if width(safe) <= columns {
        return safe.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for unit in units(safe) {
        used += unit_width(unit);
        if used + 1 > columns {
            break;
        }
        kept.push_str(unit);
    }
    kept.push('…');
    kept
}

/// Adds safe text to a row, its marks in their own look.
pub(crate) fn push_marked(row: &mut Row, safe: &str, look: Look) {
    let mut plain = String::new();
    for unit in units(safe) {
        if is_mark(unit) {
            row.push(std::mem::take(&mut plain), look);
            row.push(unit, Look::Mark);
        } else {
            plain.push_str(unit);
        }
    }
    row.push(plain, look);
}

/// Parts joined by ` · `, as many on a row as fit; a part that is too long is wrapped.
pub(crate) fn flow(parts: &[(String, Look)], columns: usize) -> Vec<Row> {
    const BETWEEN: &str = " · ";
    let mut rows: Vec<Row> = Vec::new();
    let mut row = Row::new();
    for (text, look) in parts {
        if !row.pieces.is_empty() {
            if row.width() + BETWEEN.chars().count() + width(text) <= columns {
                row.push(BETWEEN, Look::Quiet);
            } else {
                rows.push(std::mem::take(&mut row));
            }
        }
        let mut wrapped = wrap_words(text, columns.saturating_sub(row.width())).into_iter().peekable();
        while let Some(part) = wrapped.next() {
            push_marked(&mut row, part, *look);
            if wrapped.peek().is_some() {
                rows.push(std::mem::take(&mut row));
            }
        }
    }
    if !row.pieces.is_empty() {
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_and_an_accent_stay_whole() {
        assert_eq!(wrap("ab\\u{202e}cd", 4), ["ab", "\\u{202e}", "cd"]);
        assert_eq!(wrap("e\u{301}e\u{301}", 1), ["e\u{301}", "e\u{301}"]);
        assert_eq!(wrap("漢字", 3), ["漢", "字"]);
        assert_eq!(wrap("", 9), [""]);
        assert_eq!(wrap("make all docs", 9), ["make all ", "docs"]);
        assert_eq!(wrap("make everything", 9), ["make ever", "ything"]);
        assert_eq!(wrap("a     b     c", 6), ["a     ", "b     ", "c"]);
    }

    #[test]
    fn marks_have_their_own_look() {
        let mut row = Row::new();
        push_marked(&mut row, "a\\u{7}b↵", Look::Plain);
        let looks: Vec<_> = row.pieces.iter().map(|piece| (piece.text.as_str(), piece.look)).collect();
        assert_eq!(
            looks,
            [("a", Look::Plain), ("\\u{7}", Look::Mark), ("b", Look::Plain), ("↵", Look::Mark)]
        );
    }

    #[test]
    fn parts_flow_onto_as_many_rows_as_they_need() {
        let parts: Vec<_> = ["one", "two", "three is long"].map(|t| (t.to_owned(), Look::Plain)).into();
        let texts = |columns| flow(&parts, columns).iter().map(Row::text).collect::<Vec<_>>();
        assert_eq!(texts(80), ["one · two · three is long"]);
        assert_eq!(texts(10), ["one · two", "three is", "long"]);
        assert_eq!(wrap_words("a verylongword b", 6), ["a", "verylo", "ngword", "b"]);
        assert_eq!(shorten("fix the tests", 8), "fix the…");
        assert_eq!(shorten("a\\u{202e}b", 6), "a…");
    }

    proptest! {
        #[test]
        fn s4_wrapping_loses_nothing(text in "\\PC{0,80}", columns in 1_usize..40) {
            let safe = askd_text::safe(&text).text;
            let parts = wrap(&safe, columns);
            prop_assert_eq!(parts.concat(), safe.as_str());
            for part in parts {
                prop_assert!(width(part) <= columns || units(part).count() == 1, "{:?}", part);
            }
        }
    }
}
