//! An action in full, as rows of a given width; and how much of it was on the screen.

use askd_wire::{Ask, DisplayField};

use crate::rows::{Look, Row, push_marked, width, wrap};
use crate::words::plain;

/// The widest label that stands beside its text; a longer one has a line of its own.
const LABEL: usize = 16;
/// Below this width a label has a line of its own.
const NARROW: usize = 44;
/// An action of more text than this cannot be read here, and so not allowed.
const MOST_TEXT: usize = 1024 * 1024;
/// A bulk question shows actions up to this size; longer ones must have been read before.
const BRIEF_LINES: usize = 12;
const BRIEF_TEXT: usize = 1200;

/// Size of the content: characters and line ends, whatever the width.
pub(crate) fn total(ask: &Ask) -> usize {
    ask.display.iter().flat_map(|field| &field.lines).map(|line| line.chars().count() + 1).sum()
}

/// Why the action cannot be shown in full here, if it cannot.
pub(crate) fn not_shown(ask: &Ask) -> Option<&'static str> {
    let bytes: usize = ask.display.iter().flat_map(|field| &field.lines).map(String::len).sum();
    if bytes > MOST_TEXT {
        Some(
            "too large to be read here: it can be denied here, and allowed with `askd show` and `askd allow`",
        )
    } else if ask.display.iter().any(|field| !field.complete) {
        Some("not all of it can be shown: it can only be denied")
    } else {
        None
    }
}

/// Short enough to be read among others.
pub(crate) fn is_brief(ask: &Ask) -> bool {
    let lines: usize = ask.display.iter().map(|field| field.lines.len()).sum();
    lines <= BRIEF_LINES && total(ask) <= BRIEF_TEXT
}

/// The action as rows, each with its place in the content. Never empty.
pub(crate) fn rows(ask: &Ask, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    if not_shown(ask).is_some() && !is_brief(ask) {
        too_large(ask, columns, &mut rows);
        return rows;
    }
    let mut at = 0;
    let indent = indent(&ask.display, columns);
    for field in &ask.display {
        push_field(&mut rows, field, columns, indent, &mut at);
    }
    if rows.is_empty() {
        rows.push(Row::of("no input", Look::Quiet));
    }
    rows
}

/// How far in the texts begin, so that they stand in one column beside their labels.
fn indent(fields: &[DisplayField], columns: usize) -> usize {
    if columns < NARROW {
        return 2;
    }
    let labels = fields.iter().map(|field| width(&plain(&field.label)));
    labels.filter(|width| *width <= LABEL).max().unwrap_or(0).max(8) + 1
}

/// The beginning, and how much more there is; none of it counts as shown.
fn too_large(ask: &Ask, columns: usize, rows: &mut Vec<Row>) {
    const HEAD: usize = 2000;
    for field in &ask.display {
        let line = field.lines.first().map(String::as_str).unwrap_or_default();
        let cut = askd_text::cut(line, HEAD);
        let mut head = DisplayField { lines: vec![cut], ..field.clone() };
        if field.lines.len() > 1 {
            head.lines.push(format!("… (+{} lines)", field.lines.len() - 1));
        }
        push_field(rows, &head, columns, indent(&ask.display, columns), &mut 0);
    }
    for row in rows {
        (row.from, row.to) = (0, 0);
    }
}

fn push_field(rows: &mut Vec<Row>, field: &DisplayField, columns: usize, indent: usize, at: &mut usize) {
    let label = plain(&field.label);
    let is_diff = askd_text::is_diff(&label);
    let look = if label == "warning" { Look::Warn } else { Look::Plain };
    let own_line = columns < NARROW || width(&label) >= indent;
    let mut first = true;
    if own_line {
        for part in wrap(&label, columns) {
            let mut row = Row { from: *at, to: *at, ..Row::default() };
            push_marked(&mut row, part, Look::Quiet);
            rows.push(row);
        }
    }
    for line in &field.lines {
        let line = plain(line);
        let look = if is_diff { diff_look(&line) } else { look };
        // The column before the text tells a line from the rest of one.
        let parts = wrap(&line, columns.saturating_sub(indent + 1));
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let mut row = Row { from: *at, ..Row::default() };
            let lead = if first && !own_line { label.as_str() } else { "" };
            row.push(format!("{lead}{}", " ".repeat(indent - width(lead))), Look::Quiet);
            row.push(if number == 0 { " " } else { "↪" }, Look::Quiet);
            push_marked(&mut row, part, look);
            *at += part.chars().count() + usize::from(number == last);
            row.to = *at;
            rows.push(row);
            first = false;
        }
    }
}

fn diff_look(line: &str) -> Look {
    match line.chars().next() {
        Some('+') => Look::Added,
        Some('-') => Look::Removed,
        _ => Look::Plain,
    }
}

/// How far something was read, without a gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reached(pub(crate) usize);

impl Reached {
    /// This part of it was on the screen.
    pub(crate) fn saw(&mut self, from: usize, to: usize) {
        if from <= self.0 {
            self.0 = self.0.max(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;
    use serde_json::json;

    fn texts(ask: &Ask, columns: usize) -> Vec<String> {
        rows(ask, columns).iter().map(Row::text).collect()
    }

    #[test]
    fn a_long_line_is_wrapped_and_says_so() {
        let with = |command: &str| samples::ask("k7f", "x", &json!({"command": command}), None);
        let ask = with("one two three four five six seven eight");
        assert_eq!(texts(&ask, 44), ["command   one two three four five six seven ", "         ↪eight"]);
        assert_eq!(texts(&ask, 30), ["command", "   one two three four five six", "  ↪ seven eight"]);
        assert_eq!(texts(&with("ls"), 44), ["command   ls"]);
    }

    #[test]
    fn an_action_without_input_still_has_a_row() {
        let ask = samples::ask("k7f", "noop", &json!({}), None);
        assert_eq!(texts(&ask, 60), ["no input"]);
        assert_eq!(total(&ask), 0);
    }

    #[test]
    fn s4_what_was_cut_counts_as_not_shown() {
        let mut ask = samples::bash("k7f", "ls");
        assert_eq!(not_shown(&ask), None);
        ask.display[0].complete = false;
        assert!(not_shown(&ask).is_some());
        let huge = samples::bash("k7f", &"x".repeat(MOST_TEXT + 1));
        assert!(not_shown(&huge).is_some());
        assert!(rows(&huge, 60).iter().all(|row| row.to == 0));
        assert!(texts(&huge, 60).concat().contains("… (+"));
    }

    #[test]
    fn reading_leaves_no_gap() {
        let mut reached = Reached::default();
        reached.saw(5, 9);
        assert_eq!(reached, Reached(0));
        reached.saw(0, 5);
        reached.saw(3, 7);
        reached.saw(0, 2);
        assert_eq!(reached, Reached(7));
    }

    proptest! {
        #[test]
        fn s4_the_rows_are_the_whole_content_at_every_width(
            command in "[a-z \\n\u{1b}\u{202e}漢]{0,200}",
            columns in 24_usize..120,
        ) {
            let ask = samples::bash("k7f", &command);
            let mut reached = Reached::default();
            for row in rows(&ask, columns) {
                prop_assert!(row.width() <= columns, "{:?}", row.text());
                prop_assert!(row.from <= row.to);
                reached.saw(row.from, row.to);
            }
            prop_assert_eq!(reached.0, total(&ask));
        }
    }
}
