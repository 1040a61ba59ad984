//! The input of a tool as fields.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::known::{known, shell_command, sort};
use super::{DisplayField, Part, edit, field};
use crate::outline::{Node, Outline, label, parse, quoted_label};
use crate::safe::SafeText;
use crate::shell;
use crate::warn::Sort;

/// Labels that are ours; a key of the input with the same name is quoted.
const OWN_LABELS: &[&str] =
    &["title", "kind", "directory", "input", "segments", "diff", "warning", "masked", "tool", "label"];

/// Each key with all its values, in the agent's order.
pub(super) struct Keys<'a> {
    pub(super) list: Vec<(&'a str, Vec<&'a RawValue>)>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Keys<'a> {
    pub(super) fn of<K: AsRef<str>>(fields: &'a [(K, &'a RawValue)]) -> Self {
        let mut keys =
            Self { list: Vec::with_capacity(fields.len()), places: HashMap::with_capacity(fields.len()) };
        for (key, value) in fields {
            let key = key.as_ref();
            let place = *keys.places.entry(key).or_insert(keys.list.len());
            if place == keys.list.len() {
                keys.list.push((key, Vec::with_capacity(1)));
            }
            keys.list[place].1.push(*value);
        }
        keys
    }

    fn values(&self, key: &str) -> Option<&[&'a RawValue]> {
        self.places.get(key).map(|place| self.list[*place].1.as_slice())
    }

    /// The value of a key that is there exactly once.
    pub(super) fn only(&self, key: &str) -> Option<&'a RawValue> {
        match self.values(key) {
            Some([value]) => Some(value),
            _ => None,
        }
    }
}

pub(super) fn parts(tool: &str, kind: Option<&str>, input: &str) -> Vec<Part> {
    let Some(raw) = parse(input) else {
        let field = DisplayField { marked: true, ..field("input (not JSON)", Outline::plain(input)) };
        return vec![Part { field, sort: Sort::Text }];
    };
    let fields = match Node::of(raw) {
        Node::Fields(fields) => fields,
        Node::Scalar("null") => return Vec::new(),
        node => return vec![Part { field: value_field("input", &node), sort: Sort::Text }],
    };
    let keys = Keys::of(&fields);
    let mut shown =
        Shown { tool, kind, keys: &keys, edit: edit::find(&keys), parts: Vec::with_capacity(fields.len()) };
    let known = known(tool);
    for (key, name) in known {
        if let Some(values) = keys.values(key) {
            shown.add(key, name, values, true);
        }
    }
    for (key, values) in keys.list.iter().filter(|(key, _)| known.iter().all(|(other, _)| other != key)) {
        let taken = OWN_LABELS.contains(key) || known.iter().any(|(_, name)| name == key);
        let SafeText { text: name, marked } = if taken { quoted_label(key) } else { label(key) };
        let first = shown.parts.len();
        shown.add(key, &name, values, false);
        for part in &mut shown.parts[first..] {
            part.field.marked |= marked;
        }
    }
    shown.parts
}

struct Shown<'a> {
    tool: &'a str,
    kind: Option<&'a str>,
    keys: &'a Keys<'a>,
    edit: Option<edit::Edit<'a>>,
    parts: Vec<Part>,
}

impl Shown<'_> {
    /// Every value that one key has. More than one is marked: which of them counts depends on who reads it.
    fn add(&mut self, key: &str, name: &str, values: &[&RawValue], is_known: bool) {
        if let Some(edit) = self.edit.as_mut().filter(|edit| edit.takes(key)) {
            self.parts.extend(edit.parts());
            return;
        }
        if let Some(edits) = edit::list(key, values) {
            self.parts.extend(edits);
            return;
        }
        let count = values.len();
        for (at, value) in values.iter().enumerate() {
            let node = Node::of(value);
            let mut field = match &node {
                // What a known field is stands in its label, so its text needs no quotes.
                Node::Text(text) if is_known => {
                    let name = if self.tool == "Write" && key == "content" {
                        content_label(name, text)
                    } else {
                        name.into()
                    };
                    field(&name, Outline::plain(text))
                }
                Node::Scalar(_) if is_known => field(&format!("{name} (JSON)"), Outline::of(&node)),
                node => value_field(name, node),
            };
            if count > 1 {
                field.label = format!("{} ({} of {count})", field.label, at + 1);
                field.marked = true;
            }
            self.parts.push(Part { field, sort: sort(key) });
        }
        if let Some(value) = self.keys.only(key) {
            self.segments(key, &Node::of(value));
        }
    }

    fn segments(&mut self, key: &str, value: &Node<'_>) {
        let Some(command) = shell_command(self.tool, self.kind, key, value) else { return };
        if let Some((lines, marked)) = shell::lines(&command) {
            let field = DisplayField { label: "segments".to_owned(), lines, marked, complete: true };
            self.parts.push(Part { field, sort: Sort::Again });
        }
    }
}

/// `content (12 lines)`.
fn content_label(name: &str, text: &str) -> String {
    let breaks = text.bytes().filter(|b| *b == b'\n').count();
    let lines = breaks + usize::from(!text.is_empty() && !text.ends_with('\n'));
    format!("{name} ({lines} {})", if lines == 1 { "line" } else { "lines" })
}

/// A value of any sort; the label says when it is not a text, so that no text can pass for a list or an object.
pub(super) fn value_field(name: &str, node: &Node<'_>) -> DisplayField {
    let name = match node {
        Node::Fields(_) => format!("{name} (fields)"),
        Node::List(_) => format!("{name} (list)"),
        Node::Raw(_) => format!("{name} (JSON)"),
        Node::Text(_) | Node::Scalar(_) => name.to_owned(),
    };
    field(&name, Outline::of(node))
}
