//! A whole action as labelled fields: what a person reads before they allow it.

mod edit;
mod input;
mod known;
mod masked;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::outline::{Node, Outline, parse};
use crate::safe::safe;
use crate::warn::{Sort, Warnings};

pub use edit::is_diff;
pub use masked::{display_masked, summary_masked};

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

/// A field, and how closely it is looked at for what may deceive.
struct Part {
    field: DisplayField,
    sort: Sort,
}

/// Shows an action in full: what to beware of, when there is something (`warning`), the fields of its input (the
/// known ones of a known tool first, then every other one in the agent's order), its title, and its working
/// directory. Nothing is left out and nothing is cut.
///
/// A shell command of several commands is followed by `segments`, one to a line; the text that an edit replaces and
/// the text that it brings are one `diff` (see [`is_diff`]).
pub fn display(action: &Action<'_>) -> Vec<DisplayField> {
    let mut parts = match action.input {
        Some(input) => input::parts(action.tool, action.kind, input),
        None => Vec::new(),
    };
    let mut own = |label: &str, text: &str, sort| {
        parts.push(Part { field: field(label, Outline::plain(text)), sort });
    };
    if let Some(title) = action.title.filter(|title| !title.is_empty()) {
        own("title", title, Sort::Text);
    }
    if let (Some(kind), None) = (action.kind, action.input) {
        own("kind", kind, Sort::Name);
    }
    if let Some(cwd) = action.cwd {
        own("directory", cwd, Sort::Name);
    }
    let mut warnings = Warnings::default();
    warnings.look("tool", &[safe(action.tool).text], Sort::Name);
    for Part { field, sort } in &parts {
        warnings.look("label", std::slice::from_ref(&field.label), Sort::Text);
        warnings.look(&field.label, &field.lines, *sort);
    }
    warnings.into_field().into_iter().chain(parts.into_iter().map(|part| part.field)).collect()
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
        if let Some((first, _)) = known::known(action.tool).first() {
            if let Some(text) = text_of(first) {
                return Some(text);
            }
        } else if let Some(text) = known::MAIN_KEYS.iter().find_map(|key| text_of(key)) {
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
                row("diff (-1 +0)", &["-a"], false),
                row("\"file\"", &["/y"], false),
            ]
        );
        assert_eq!(
            shown("Write", r#"{"file_path":"/x","content":"true"}"#)[1],
            row("content (1 line)", &["true"], false)
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
