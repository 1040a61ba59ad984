//! A whole action as labelled fields: what a person reads before they allow it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::outline::{Node, Outline, label, parse, quoted_label};
use crate::safe::SafeText;

/// What would run, as the agent wrote it. All of it is foreign text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Action<'a> {
    /// The agent's name for the tool.
    pub tool: &'a str,
    /// What sort of tool it is, where the agent says so (`execute`, `edit` …).
    pub kind: Option<&'a str>,
    /// The agent's own headline for the call.
    pub title: Option<&'a str>,
    /// The tool's input, the JSON text as it came. Anything else is shown as it is.
    pub input: Option<&'a str>,
    /// The working directory.
    pub cwd: Option<&'a str>,
}

/// One labelled part of an action, safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DisplayField {
    /// What the lines are; safe too, as it may be a key of the agent's input.
    pub label: String,
    /// Safe lines, at least one.
    pub lines: Vec<String>,
    /// Whether something in it was replaced by a mark or looks like a trick; worth a warning.
    pub marked: bool,
    /// Whether these are all the lines. An action with an incomplete field cannot be allowed.
    pub complete: bool,
}

/// The text fields of tools that are known, in the order in which a person needs them: key of the input, label.
const KNOWN: &[(&str, &[(&str, &str)])] = &[
    ("Bash", &[("command", "command"), ("description", "description")]),
    ("Write", &[("file_path", "file"), ("content", "content")]),
    ("Edit", &[("file_path", "file"), ("old_string", "old"), ("new_string", "new")]),
    ("MultiEdit", &[("file_path", "file")]),
    (
        "NotebookEdit",
        &[("notebook_path", "file"), ("edit_mode", "mode"), ("cell_id", "cell"), ("new_source", "new")],
    ),
    ("Read", &[("file_path", "file")]),
    ("Glob", &[("pattern", "pattern"), ("path", "path")]),
    ("Grep", &[("pattern", "pattern"), ("path", "path"), ("glob", "glob")]),
    ("LS", &[("path", "path")]),
    ("WebFetch", &[("url", "url"), ("prompt", "prompt")]),
    ("WebSearch", &[("query", "query")]),
    ("Agent", &[("description", "description"), ("subagent_type", "agent type"), ("prompt", "prompt")]),
    ("Task", &[("description", "description"), ("subagent_type", "agent type"), ("prompt", "prompt")]),
    ("ExitPlanMode", &[("plan", "plan")]),
];

/// Keys that hold what runs, for tools that are not known.
const MAIN_KEYS: &[&str] = &["command", "cmd", "file_path", "path", "url", "query"];

/// Labels of the action's own parts; a key of the input with the same name is quoted.
const OWN_LABELS: &[&str] = &["title", "kind", "directory", "input"];

/// Shows an action in full: the fields of its input (the known ones of a known tool first, then every other one in
/// the agent's order), its title, and its working directory. Nothing is left out and nothing is cut.
pub fn display(action: &Action<'_>) -> Vec<DisplayField> {
    let mut fields = match action.input {
        Some(input) => input_fields(action.tool, input),
        None => Vec::new(),
    };
    if let Some(title) = action.title.filter(|title| !title.is_empty()) {
        fields.push(field("title", Outline::plain(title)));
    }
    if let (Some(kind), None) = (action.kind, action.input) {
        fields.push(field("kind", Outline::plain(kind)));
    }
    if let Some(cwd) = action.cwd {
        fields.push(field("directory", Outline::plain(cwd)));
    }
    fields
}

/// The one text that says best what would run, for a summary; not safe yet.
pub(crate) fn main_text<'a>(action: &Action<'a>) -> Option<Cow<'a, str>> {
    let node = action.input.and_then(parse).map(Node::of);
    if let Some(Node::Fields(fields)) = &node {
        let text_of = |key: &str| {
            // The last of several wins, as it does for most programs.
            let (_, value) = fields.iter().rev().find(|(name, _)| name == key)?;
            text(value)
        };
        if let Some((first, _)) = known(action.tool).first() {
            if let Some(text) = text_of(first) {
                return Some(text);
            }
        } else if let Some(text) = MAIN_KEYS.iter().find_map(|key| text_of(key)) {
            return Some(text);
        }
    }
    if let Some(title) = action.title.filter(|title| !title.is_empty()) {
        return Some(Cow::Borrowed(title));
    }
    let whole = || action.input.map(str::trim).filter(|input| !input.is_empty()).map(Cow::Borrowed);
    match node {
        Some(Node::Fields(fields)) if fields.is_empty() => None,
        Some(Node::Fields(fields)) => fields.iter().find_map(|(_, value)| text(value)).or_else(whole),
        _ => whole(),
    }
}

fn text<'a>(value: &'a RawValue) -> Option<Cow<'a, str>> {
    match Node::of(value) {
        Node::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn known(tool: &str) -> &'static [(&'static str, &'static str)] {
    KNOWN.iter().find(|(name, _)| *name == tool).map_or(&[], |(_, fields)| fields)
}

fn input_fields(tool: &str, input: &str) -> Vec<DisplayField> {
    let Some(raw) = parse(input) else {
        return vec![DisplayField { marked: true, ..field("input (not JSON)", Outline::plain(input)) }];
    };
    let fields = match Node::of(raw) {
        Node::Fields(fields) => fields,
        Node::Scalar("null") => return Vec::new(),
        node => return vec![value_field("input", &node)],
    };
    // Each key with all its values, in the agent's order.
    let mut keys: Vec<(&str, Vec<&RawValue>)> = Vec::with_capacity(fields.len());
    let mut places = HashMap::with_capacity(fields.len());
    for (key, value) in &fields {
        let place = *places.entry(&**key).or_insert(keys.len());
        if place == keys.len() {
            keys.push((key, Vec::with_capacity(1)));
        }
        keys[place].1.push(value);
    }
    let known = known(tool);
    let mut out = Vec::with_capacity(fields.len());
    for (key, name) in known {
        if let Some(place) = places.get(key) {
            push_all(&mut out, name, &keys[*place].1, true);
        }
    }
    for (key, values) in keys.iter().filter(|(key, _)| known.iter().all(|(other, _)| other != key)) {
        let taken = OWN_LABELS.contains(key) || known.iter().any(|(_, name)| name == key);
        let SafeText { text: name, marked } = if taken { quoted_label(key) } else { label(key) };
        let first = out.len();
        push_all(&mut out, &name, values, false);
        for field in &mut out[first..] {
            field.marked |= marked;
        }
    }
    out
}

/// Every value that one key has. More than one is marked: which of them counts depends on who reads it.
fn push_all(out: &mut Vec<DisplayField>, name: &str, values: &[&RawValue], is_known: bool) {
    let first = out.len();
    for value in values {
        out.push(match Node::of(value) {
            // What a known field is stands in its label, so its text needs no quotes.
            Node::Text(text) if is_known => field(name, Outline::plain(&text)),
            node @ Node::Scalar(_) if is_known => field(&format!("{name} (JSON)"), Outline::of(&node)),
            node => value_field(name, &node),
        });
    }
    let count = out.len() - first;
    if count > 1 {
        for (at, field) in out[first..].iter_mut().enumerate() {
            field.label = format!("{} ({} of {count})", field.label, at + 1);
            field.marked = true;
        }
    }
}

/// A value of any sort; the label says when it is not a text, so that no text can pass for a list or an object.
fn value_field(name: &str, node: &Node<'_>) -> DisplayField {
    let name = match node {
        Node::Fields(_) => format!("{name} (fields)"),
        Node::List(_) => format!("{name} (list)"),
        Node::Raw(_) => format!("{name} (JSON)"),
        Node::Text(_) | Node::Scalar(_) => name.to_owned(),
    };
    field(&name, Outline::of(node))
}

fn field(name: &str, outline: Outline) -> DisplayField {
    DisplayField { label: name.to_owned(), lines: outline.lines, marked: outline.marked, complete: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, input: &str) -> Vec<(String, Vec<String>, bool)> {
        display(&Action { tool, input: Some(input), ..Action::default() })
            .into_iter()
            .map(|field| {
                assert!(field.complete && !field.lines.is_empty());
                (field.label, field.lines, field.marked)
            })
            .collect()
    }

    fn row(label: &str, lines: &[&str], marked: bool) -> (String, Vec<String>, bool) {
        (label.into(), lines.iter().map(|line| (*line).to_owned()).collect(), marked)
    }

    #[test]
    fn known_tools_have_their_order_and_everything_else_follows() {
        assert_eq!(
            shown("Bash", r#"{"zeta":[1],"description":"list","timeout":5,"command":"ls\npwd","alpha":"5"}"#),
            [
                row("command", &["ls", "pwd"], false),
                row("description", &["list"], false),
                row("zeta (list)", &["- 1"], false),
                row("timeout", &["5"], false),
                row("alpha", &["\"5\""], false),
            ]
        );
        assert_eq!(
            shown("Edit", r#"{"old_string":"a","new_string":"","file_path":"/x","file":"/y"}"#),
            [
                row("file", &["/x"], false),
                row("old", &["a"], false),
                row("new", &[""], false),
                row("\"file\"", &["/y"], false),
            ]
        );
        assert_eq!(
            shown("Write", r#"{"file_path":"/x","content":"true"}"#)[1],
            row("content", &["true"], false)
        );
        assert_eq!(
            shown("WebFetch", r#"{"prompt":"p","url":"http://x"}"#)[0],
            row("url", &["http://x"], false)
        );
    }

    #[test]
    fn an_action_without_input_shows_what_stands_in_for_it() {
        let action = Action {
            tool: "x",
            kind: Some("execute"),
            title: Some("run\u{7}"),
            input: None,
            cwd: Some("/home/\u{202e}me"),
        };
        let fields: Vec<_> = display(&action).into_iter().map(|f| (f.label, f.lines, f.marked)).collect();
        assert_eq!(
            fields,
            [
                row("title", &["run\\u{7}"], true),
                row("kind", &["execute"], false),
                row("directory", &["/home/\\u{202e}me"], true),
            ]
        );
        assert_eq!(shown("x", "null"), []);
        assert_eq!(shown("x", "{}"), []);
    }

    #[test]
    fn s4_a_key_is_as_foreign_as_a_value() {
        assert_eq!(
            shown("x", r#"{"a\u001b[2K":"v","":1,"a b":2,"directory":3}"#),
            [
                row("\"a\\u{1b}[2K\"", &["v"], true),
                row("\"\"", &["1"], false),
                row("\"a b\"", &["2"], false),
                row("\"directory\"", &["3"], false),
            ]
        );
    }

    #[test]
    fn s4_a_repeated_key_shows_every_value() {
        assert_eq!(
            shown("Bash", r#"{"command":"ls","x":1,"command":"rm -rf /","x":2}"#),
            [
                row("command (1 of 2)", &["ls"], true),
                row("command (2 of 2)", &["rm -rf /"], true),
                row("x (1 of 2)", &["1"], true),
                row("x (2 of 2)", &["2"], true),
            ]
        );
    }

    #[test]
    fn s7_input_that_is_no_json_or_no_object_is_shown_as_it_is() {
        assert_eq!(shown("x", "{\"a\":\u{1b}"), [row("input (not JSON)", &["{\"a\":\\u{1b}"], true)]);
        assert_eq!(shown("x", "[\"a\"]"), [row("input (list)", &["- a"], false)]);
        assert_eq!(shown("x", "\"a\\nb\""), [row("input", &["a", "b"], false)]);
        assert_eq!(shown("x", "7"), [row("input", &["7"], false)]);
        let broken = r#"{"command":"\udfff"}"#;
        assert_eq!(shown("Bash", broken), [row("command (JSON)", &["\"\\udfff\""], true)]);
        let broken_key = r#"{"\udfff":"x"}"#;
        assert_eq!(shown("Bash", broken_key), [row("input (JSON)", &[broken_key], true)]);
    }
}
