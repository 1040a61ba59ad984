//! The keys, in words.

use crate::rows::{Look, Row, wrap};

const KEYS: &[(&str, &str)] = &[
    ("y", "allow once; only after all of the action was on the screen"),
    ("n", "deny"),
    ("m", "deny with a message for the agent; tab in that line: and stop the turn"),
    ("A", "the agent's \"always\" and other options: shows what it grants, a second key chooses"),
    ("a  d", "allow or deny all background asks on the screen: shows them and asks first"),
    ("↑ ↓", "another ask"),
    ("space → ←", "next and previous page of a long action"),
    ("enter", "everything about the ask, and back"),
    ("s  S", "hide it for 5 minutes, no deadline moves; show the hidden ones"),
    ("g", "go to the agent's tmux pane"),
    ("u", "take a late answer back that is kept"),
    ("/", "command line: /permissions …, /skip-permissions on|off"),
    ("q", "leave; asks stay open"),
    ("", ""),
    (
        "",
        "An allow counts 0.4 seconds after the ask appeared and after the last other key; a deny counts at once. No key that was pressed before an ask was drawn answers it, and pasted text never does. Nothing is ever allowed by an empty line.",
    ),
];

pub(super) fn rows(columns: usize) -> Vec<(Row, Option<String>)> {
    let mut rows = Vec::new();
    for (key, text) in KEYS {
        let (indent, look) = if key.is_empty() { (0, Look::Quiet) } else { (11, Look::Plain) };
        for (at, part) in words(text, columns.saturating_sub(indent)).into_iter().enumerate() {
            let lead = if at == 0 { *key } else { "" };
            let mut row = Row::of(format!("{lead:<indent$}"), Look::Key);
            row.push(part, look);
            rows.push((row, None));
        }
    }
    rows
}

/// Wrapped between words; this is our own text.
fn words(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if crate::rows::width(line) + 1 + crate::rows::width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.extend(wrap(word, columns).into_iter().map(str::to_owned));
        }
    }
    lines
}
