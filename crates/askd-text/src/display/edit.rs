//! Edits as diffs.

use serde_json::value::RawValue;

use super::input::{Keys, value_field};
use super::known::PAIRS;
use super::{DisplayField, Part};
use crate::diff::diff;
use crate::outline::{Node, label};
use crate::warn::Sort;

/// Whether the lines of the field with this label are a diff: `+` added, `-` removed, a space or nothing kept.
/// No key of an agent has such a label.
pub fn is_diff(label: &str) -> bool {
    label.starts_with("diff (") || label.starts_with("diff of ")
}

/// The two texts of an edit in the input itself.
pub(super) struct Edit<'a> {
    keys: (&'static str, &'static str),
    old: &'a RawValue,
    new: &'a RawValue,
    is_shown: bool,
}

/// The first pair of keys that both stand there once, with a text each.
pub(super) fn find<'a>(keys: &Keys<'a>) -> Option<Edit<'a>> {
    let is_text = |value: &RawValue| matches!(Node::of(value), Node::Text(_));
    PAIRS.iter().find_map(|pair| {
        let (old, new) = (keys.only(pair.0)?, keys.only(pair.1)?);
        (is_text(old) && is_text(new)).then_some(Edit { keys: *pair, old, new, is_shown: false })
    })
}

impl Edit<'_> {
    pub(super) fn takes(&self, key: &str) -> bool {
        key == self.keys.0 || key == self.keys.1
    }

    /// The diff at the first of the two keys, nothing at the second.
    pub(super) fn parts(&mut self) -> Option<Part> {
        (!std::mem::replace(&mut self.is_shown, true)).then(|| self.part(None))
    }

    fn part(&self, place: Option<(usize, usize)>) -> Part {
        let (Node::Text(old), Node::Text(new)) = (Node::of(self.old), Node::of(self.new)) else {
            return Part { field: value_field("diff", &Node::of(self.new)), sort: Sort::Text };
        };
        let diff = diff(&old, &new);
        let mut of = Vec::new();
        if let Some((at, count)) = place {
            of.push(format!("edit {at} of {count}"));
        }
        // The keys of most tools go without saying; the others are part of what would run.
        if self.keys != PAIRS[0] {
            of.push(format!("{} and {}", self.keys.0, self.keys.1));
        }
        let of = if of.is_empty() { String::new() } else { format!("of {} ", of.join(": ")) };
        let label = format!("diff {of}(-{} +{})", diff.removed, diff.added);
        // Two empty texts are no line at all, and a field has one.
        let lines = if diff.lines.is_empty() { vec![String::new()] } else { diff.lines };
        Part { field: DisplayField { label, lines, marked: diff.marked, complete: true }, sort: Sort::Text }
    }
}

/// A list of edits, when every item of it is one.
pub(super) fn list(key: &str, values: &[&RawValue]) -> Option<Vec<Part>> {
    let ("edits", [value]) = (key, values) else { return None };
    let Node::List(items) = Node::of(value) else { return None };
    let count = items.len();
    let mut parts = Vec::with_capacity(count);
    for (at, item) in items.iter().enumerate() {
        let Node::Fields(fields) = Node::of(item) else { return None };
        let keys = Keys::of(&fields);
        let edit = find(&keys)?;
        parts.push(edit.part(Some((at + 1, count))));
        for (key, values) in keys.list.iter().filter(|(key, _)| !edit.takes(key)) {
            let name = label(key);
            for value in values {
                let mut field =
                    value_field(&format!("edit {} of {count}: {}", at + 1, name.text), &Node::of(value));
                field.marked |= name.marked || values.len() > 1;
                parts.push(Part { field, sort: Sort::Text });
            }
        }
    }
    (count > 0).then_some(parts)
}
