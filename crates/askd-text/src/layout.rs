//! Fields as rows of a screen: all of them in pages, or head and tail with a count between.

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use crate::display::DisplayField;
use crate::summary::units;

/// One row of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Index of the field it belongs to.
    pub field: usize,
    /// Index of the line in that field; `None`: this row is the field's label.
    pub line: Option<usize>,
    /// 0 for the first row of a line or label, then 1, 2 … for what had to be wrapped.
    pub part: usize,
    /// Safe text, at most as wide as was asked for, unless a single mark is wider. The parts of a line, one behind
    /// the other, are the line.
    pub text: String,
    /// Where the row stands in the whole, in a measure that does not depend on the width of the screen.
    at: Range<usize>,
}

/// An action laid out for one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub rows: Vec<Row>,
    total: usize,
    complete: bool,
}

/// Some of the rows of a [`Layout`], for one screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Counts from 1.
    pub number: usize,
    pub of: usize,
    pub rows: Vec<Row>,
}

/// As much of a [`Layout`] as there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub head: Vec<Row>,
    /// How many rows are not shown between head and tail.
    pub hidden: usize,
    pub tail: Vec<Row>,
    /// Whether this is all of the action.
    pub complete: bool,
}

impl Excerpt {
    /// What stands between head and tail; `None` when nothing is hidden.
    pub fn note(&self) -> Option<String> {
        let rows = if self.hidden == 1 { "row" } else { "rows" };
        (self.hidden > 0).then(|| format!("… {} more {rows} …", self.hidden))
    }
}

impl Layout {
    /// Lays fields out for rows of `columns` columns: each label a row, its lines below it, wrapped behind a blank
    /// where there is one in the second half of the row.
    pub fn new(fields: &[DisplayField], columns: usize) -> Self {
        let mut rows = Vec::new();
        let mut total = 0;
        for (field, shown) in fields.iter().enumerate() {
            let lines = shown.lines.iter().enumerate().map(|(at, line)| (Some(at), line));
            for (line, text) in std::iter::once((None, &shown.label)).chain(lines) {
                for (part, text) in wrap(text, columns).into_iter().enumerate() {
                    // An empty row takes room too, and has to be reached.
                    let len = text.len().max(1);
                    rows.push(Row { field, line, part, text: text.to_owned(), at: total..total + len });
                    total += len;
                }
            }
        }
        Self { rows, total, complete: fields.iter().all(|field| field.complete) }
    }

    /// All rows in pages of at most `rows` rows; at least one page. A label is never the last row of a page.
    pub fn pages(&self, rows: usize) -> Vec<Page> {
        let rows = rows.max(2);
        let mut pages = Vec::new();
        let mut rest = self.rows.as_slice();
        loop {
            let mut len = rest.len().min(rows);
            if len < rest.len() {
                while len > 1 && rest[len - 1].line.is_none() {
                    len -= 1;
                }
            }
            let (page, after) = rest.split_at(len);
            pages.push(Page { number: pages.len() + 1, of: 0, rows: page.to_vec() });
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let of = pages.len();
        pages.iter_mut().for_each(|page| page.of = of);
        pages
    }

    /// The first and the last rows, `rows` of them with the note between; all when there is room for all.
    pub fn excerpt(&self, rows: usize) -> Excerpt {
        if self.rows.len() <= rows {
            let complete = self.complete;
            return Excerpt { head: self.rows.clone(), hidden: 0, tail: Vec::new(), complete };
        }
        let room = rows.saturating_sub(1);
        let tail = room / 3;
        let head = room - tail;
        Excerpt {
            head: self.rows[..head].to_vec(),
            hidden: self.rows.len() - room,
            tail: self.rows[self.rows.len() - tail..].to_vec(),
            complete: false,
        }
    }
}

/// Fields in full as pages of a screen, see [`Layout`].
pub fn pages(fields: &[DisplayField], columns: usize, rows: usize) -> Vec<Page> {
    Layout::new(fields, columns).pages(rows)
}

/// What a person has had before them, row by row. It outlives a change of the screen's size: rows of another
/// [`Layout`] of the same fields count as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reached {
    /// Disjoint, ascending, never touching.
    seen: Vec<Range<usize>>,
}

impl Reached {
    /// Notes that these rows were shown.
    pub fn saw(&mut self, rows: &[Row]) {
        for row in rows {
            let first = self.seen.partition_point(|range| range.end < row.at.start);
            let last = self.seen.partition_point(|range| range.start <= row.at.end);
            let mut all = row.at.clone();
            for range in self.seen.drain(first..last) {
                all = all.start.min(range.start)..all.end.max(range.end);
            }
            self.seen.insert(first, all);
        }
    }

    /// Whether all of an action was shown, with nothing cut from it: only then may it be allowed.
    pub fn is_complete(&self, layout: &Layout) -> bool {
        layout.complete && (layout.total == 0 || self.seen.first() == Some(&(0..layout.total)))
    }
}

/// Pieces of a line, each at most `columns` wide unless it is a single mark; together they are the line.
pub(crate) fn wrap(line: &str, columns: usize) -> Vec<&str> {
    // ASCII has one column a character, so nothing needs to be measured.
    if line.len() <= columns && line.is_ascii() {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut width = 0;
    // The last place behind a blank, and the width up to it.
    let mut blank = (0, 0);
    for unit in units(line) {
        let unit_width = unit.width();
        while width + unit_width > columns && at > start {
            let end = if blank.0 > start && blank.1 * 2 > columns { blank.0 } else { at };
            pieces.push(&line[start..end]);
            width = if end == at { 0 } else { width - blank.1 };
            start = end;
        }
        at += unit.len();
        width += unit_width;
        if unit == " " {
            blank = (at, width);
        }
    }
    if start < line.len() || pieces.is_empty() {
        pieces.push(&line[start..]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe::safe;
    use proptest::prelude::*;

    fn field(label: &str, lines: &[&str]) -> DisplayField {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        DisplayField { label: label.into(), lines, marked: false, complete: true }
    }

    fn texts(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.text.as_str()).collect()
    }

    #[test]
    fn lines_wrap_behind_blanks_and_never_inside_a_mark() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("a bcdefghijkl", 8), ["a bcdefg", "hijkl"]);
        assert_eq!(wrap("abcdef\\u{202e}x", 8), ["abcdef", "\\u{202e}", "x"]);
        assert_eq!(wrap("漢漢漢", 5), ["漢漢", "漢"]);
        assert_eq!(wrap("\\u{10000 × 202e}", 3), ["\\u{10000 × 202e}"]);
    }

    #[test]
    fn pages_hold_everything_and_no_page_ends_with_a_label() {
        let fields = [field("command", &["1", "2", "3"]), field("directory", &["/x"])];
        let pages = pages(&fields, 20, 5);
        assert_eq!(texts(&pages[0].rows), ["command", "1", "2", "3"]);
        assert_eq!(texts(&pages[1].rows), ["directory", "/x"]);
        assert_eq!((pages[1].number, pages[1].of), (2, 2));
        assert_eq!(super::pages(&[], 20, 5).len(), 1);
    }

    #[test]
    fn an_excerpt_says_how_much_is_hidden() {
        let lines: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let fields = [field("x", &lines.iter().map(String::as_str).collect::<Vec<_>>())];
        let layout = Layout::new(&fields, 20);
        let excerpt = layout.excerpt(7);
        assert_eq!(texts(&excerpt.head), ["x", "0", "1", "2"]);
        assert_eq!(texts(&excerpt.tail), ["18", "19"]);
        assert_eq!(excerpt.note().unwrap(), "… 15 more rows …");
        assert!(!excerpt.complete);
        let all = layout.excerpt(21);
        assert!(all.complete && all.note().is_none());
        for rows in 0..3 {
            let excerpt = layout.excerpt(rows);
            assert_eq!(excerpt.head.len() + excerpt.hidden + excerpt.tail.len(), 21);
        }
    }

    #[test]
    fn s4_what_was_cut_can_never_be_complete() {
        let mut fields = [field("x", &["a"])];
        let mut reached = Reached::default();
        reached.saw(&Layout::new(&fields, 9).rows);
        assert!(reached.is_complete(&Layout::new(&fields, 9)));
        fields[0].complete = false;
        assert!(!reached.is_complete(&Layout::new(&fields, 9)));
        assert!(!Layout::new(&fields, 9).excerpt(9).complete);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn s4_nothing_is_lost_in_a_layout_and_everything_must_be_reached(
            lines in prop::collection::vec("([a-c漢]| |\u{202e}|e\u{301}){0,40}", 1..6),
            columns in 1..30_usize,
            other_columns in 1..30_usize,
            rows in 0..8_usize,
            skipped in any::<prop::sample::Index>(),
        ) {
            let lines: Vec<String> = lines.iter().map(|line| safe(line).text).collect();
            let fields = [field("a", &lines.iter().map(String::as_str).collect::<Vec<_>>())];
            let layout = Layout::new(&fields, columns);
            let mut read = vec![String::new(); lines.len()];
            for row in &layout.rows {
                prop_assert!(row.text.width() <= columns || units(&row.text).count() == 1);
                if let Some(line) = row.line {
                    read[line].push_str(&row.text);
                }
            }
            prop_assert_eq!(&read, &lines);
            let pages = layout.pages(rows);
            let paged: Vec<Row> = pages.iter().flat_map(|page| page.rows.clone()).collect();
            prop_assert_eq!(&paged, &layout.rows);

            // Everything but one row, in two widths, is not everything.
            let other = Layout::new(&fields, other_columns);
            let gap = &layout.rows[skipped.index(layout.rows.len())];
            let mut reached = Reached::default();
            for row in layout.rows.iter().chain(&other.rows) {
                if row.at.end <= gap.at.start || row.at.start >= gap.at.end {
                    reached.saw(std::slice::from_ref(row));
                }
            }
            prop_assert!(!reached.is_complete(&layout) && !reached.is_complete(&other));
            reached.saw(std::slice::from_ref(gap));
            prop_assert!(reached.is_complete(&layout) && reached.is_complete(&other));
        }
    }
}
