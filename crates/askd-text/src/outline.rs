//! JSON as it was written, and as lines a person can read.
//!
//! A value is never rebuilt from a map: repeated keys, their order, and numbers beyond 2^53 stay what they are.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::safe::{SafeText, safe, safe_lines};

/// How deep values are laid out; what lies deeper is shown as its JSON text, in one line.
const MAX_DEPTH: usize = 16;

/// One level of a JSON value; what is inside is looked at when it is needed.
pub(crate) enum Node<'a> {
    Fields(Vec<(Cow<'a, str>, &'a RawValue)>),
    List(Vec<&'a RawValue>),
    Text(Cow<'a, str>),
    /// A number, true, false or null, as written.
    Scalar(&'a str),
    /// JSON that is no text: a string or key with half of a surrogate pair. As written.
    Raw(&'a str),
}

impl<'a> Node<'a> {
    pub(crate) fn of(raw: &'a RawValue) -> Self {
        let json = raw.get();
        let node = match json.bytes().next() {
            Some(b'{') => serde_json::from_str::<Fields<'_>>(json).map(|fields| Self::Fields(fields.0)),
            Some(b'[') => serde_json::from_str(json).map(Self::List),
            Some(b'"') => serde_json::from_str::<Text<'_>>(json).map(|text| Self::Text(text.0)),
            _ => return Self::Scalar(json),
        };
        node.unwrap_or(Self::Raw(json))
    }
}

/// The value of a JSON text, when it is one.
pub(crate) fn parse(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    fields.push((key.0, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Safe lines under construction.
#[derive(Default)]
pub(crate) struct Outline {
    pub(crate) lines: Vec<String>,
    pub(crate) marked: bool,
}

impl Outline {
    /// Lays a value out: a text as its own lines, a list or an object as indented lines, anything else as written.
    ///
    /// ```text
    /// - file: a.rs
    ///   text:
    ///     | two
    ///     | lines
    /// ```
    pub(crate) fn of(node: &Node<'_>) -> Self {
        let mut outline = Self::default();
        match node {
            // A text that reads like another JSON value is quoted, so that "5" and 5 differ.
            Node::Text(text) if !reads_as_json(text) => outline.text(text),
            Node::Fields(fields) if !fields.is_empty() => outline.fields(fields, 0, 0),
            Node::List(items) if !items.is_empty() => outline.items(items, 0, 0),
            _ => {
                let line = outline.one_line(node);
                outline.lines.push(line);
            }
        }
        outline
    }

    /// A text as its own lines, never quoted.
    pub(crate) fn plain(text: &str) -> Self {
        let mut outline = Self::default();
        outline.text(text);
        outline
    }

    fn text(&mut self, text: &str) {
        let safe = safe_lines(text);
        self.marked |= safe.marked;
        self.lines.extend(safe.lines);
    }

    fn fields(&mut self, fields: &[(Cow<'_, str>, &RawValue)], indent: usize, depth: usize) {
        let mut seen = HashSet::with_capacity(fields.len());
        for (key, value) in fields {
            // A repeated key is read differently by different programs.
            self.marked |= !seen.insert(&**key);
            let name = label(key);
            self.marked |= name.marked;
            self.entry(&format!("{}:", name.text), value, indent, depth);
        }
    }

    fn items(&mut self, items: &[&RawValue], indent: usize, depth: usize) {
        for item in items {
            self.entry("-", item, indent, depth);
        }
    }

    /// `head` and the value behind it, or under it when it takes several lines.
    fn entry(&mut self, head: &str, value: &RawValue, indent: usize, depth: usize) {
        let pad = " ".repeat(indent);
        let node = if depth == MAX_DEPTH { Node::Raw(value.get()) } else { Node::of(value) };
        match &node {
            Node::Fields(fields) if !fields.is_empty() => {
                self.lines.push(format!("{pad}{head}"));
                self.fields(fields, indent + 2, depth + 1);
            }
            Node::List(items) if !items.is_empty() => {
                self.lines.push(format!("{pad}{head}"));
                self.items(items, indent + 2, depth + 1);
            }
            Node::Text(text) if text.contains('\n') => {
                self.lines.push(format!("{pad}{head}"));
                let safe = safe_lines(text);
                self.marked |= safe.marked;
                self.lines.extend(safe.lines.iter().map(|line| {
                    let space = if line.is_empty() { "" } else { " " };
                    format!("{pad}  |{space}{line}")
                }));
            }
            _ => {
                let line = self.one_line(&node);
                self.lines.push(format!("{pad}{head} {line}"));
            }
        }
    }

    fn one_line(&mut self, node: &Node<'_>) -> String {
        let SafeText { text, marked } = match node {
            // It ends with the line, so quotes inside it are no trouble.
            Node::Text(text) if reads_as_json(text) => {
                let SafeText { text, marked } = safe(text);
                SafeText { text: format!("\"{text}\""), marked }
            }
            Node::Text(text) => safe(text),
            Node::Scalar(json) => safe(json),
            Node::Fields(_) => safe("{}"),
            Node::List(_) => safe("[]"),
            Node::Raw(json) => SafeText { marked: true, ..safe(json) },
        };
        self.marked |= marked;
        text
    }
}

/// A key as a label: quoted unless it is a plain word.
pub(crate) fn label(key: &str) -> SafeText {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'$' | b'/');
    if !key.is_empty() && key.bytes().all(is_word) && !key.starts_with('-') {
        SafeText { text: key.to_owned(), marked: false }
    } else {
        quoted_label(key)
    }
}

/// A key in quotes. A quote inside it is marked, so that nobody can end the key early.
pub(crate) fn quoted_label(key: &str) -> SafeText {
    let SafeText { text, marked } = safe(key);
    SafeText { marked: marked || text.contains('"'), text: format!("\"{}\"", text.replace('"', "\\u{22}")) }
}

/// Whether a text would look like another JSON value when it is shown without quotes.
fn reads_as_json(text: &str) -> bool {
    text.is_empty()
        || text.starts_with('"')
        || !text.contains('\n') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(json: &str) -> (Vec<String>, bool) {
        let outline = Outline::of(&Node::of(parse(json).unwrap()));
        (outline.lines, outline.marked)
    }

    #[test]
    fn nested_values_are_laid_out_in_the_order_of_the_agent() {
        let (lines, marked) = outline(
            r#"{"z":1,"a":[{"old":"one\ntwo","new":""},[],"x"],"n":12345678901234567890123,"t":"true","f":false}"#,
        );
        assert_eq!(
            lines,
            [
                "z: 1",
                "a:",
                "  -",
                "    old:",
                "      | one",
                "      | two",
                "    new: \"\"",
                "  - []",
                "  - x",
                "n: 12345678901234567890123",
                "t: \"true\"",
                "f: false",
            ]
        );
        assert!(!marked);
    }

    #[test]
    fn s4_repeated_keys_and_broken_strings_are_shown_and_marked() {
        assert_eq!(outline(r#"{"a":1,"a":2}"#), (vec!["a: 1".into(), "a: 2".into()], true));
        assert_eq!(outline(r#"["\ud800"]"#), (vec![r#"- "\ud800""#.into()], true));
        assert_eq!(outline(r#"{"a\u202e: b":"c"}"#), (vec!["\"a\\u{202e}: b\": c".into()], true));
    }

    #[test]
    fn s7_deep_nesting_neither_overflows_nor_hides() {
        let json = format!("{}\"bottom\"{}", "[".repeat(200_000), "]".repeat(200_000));
        let (lines, marked) = outline(&json);
        assert!(marked);
        assert!(lines.last().unwrap().contains("\"bottom\""));
    }
}
