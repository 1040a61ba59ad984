//! What is known of tools: their fields, and which texts name what runs.

use std::borrow::Cow;

use crate::outline::Node;
use crate::warn::Sort;

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
pub(super) const MAIN_KEYS: &[&str] = &["command", "cmd", "file_path", "path", "url", "query"];

/// Tools that run a shell command, in lower case.
const SHELLS: &[&str] = &[
    "bash",
    "shell",
    "sh",
    "zsh",
    "exec",
    "execute",
    "exec_command",
    "local_shell",
    "run_command",
    "run_shell_command",
    "terminal",
];

/// Pairs of keys of one edit: what goes, what comes.
pub(super) const PAIRS: &[(&str, &str)] = &[
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
    ("old_str", "new_str"),
];

pub(super) fn known(tool: &str) -> &'static [(&'static str, &'static str)] {
    KNOWN.iter().find(|(name, _)| *name == tool).map_or(&[], |(_, fields)| fields)
}

/// What a text is by its key.
pub(super) fn sort(key: &str) -> Sort {
    match key {
        "command" | "cmd" => Sort::Command,
        "file_path" | "filePath" | "path" | "paths" | "file" | "files" | "notebook_path" | "cwd"
        | "directory" | "workdir" | "host" | "hostname" => Sort::Name,
        "url" | "uri" | "urls" => Sort::Url,
        _ => Sort::Text,
    }
}

/// The shell command that a field holds, if it is one: a text, or the arguments of a shell (`["bash", "-lc", …]`).
pub(super) fn shell_command<'a>(
    tool: &str,
    kind: Option<&str>,
    key: &str,
    value: &Node<'a>,
) -> Option<Cow<'a, str>> {
    let is_shell = kind == Some("execute") || SHELLS.contains(&tool.to_ascii_lowercase().as_str());
    if !is_shell || sort(key) != Sort::Command {
        return None;
    }
    match value {
        Node::Text(text) => Some(text.clone()),
        Node::List(items) => {
            let [shell, option, command] = items.as_slice() else { return None };
            let (Node::Text(shell), Node::Text(option), Node::Text(command)) =
                (Node::of(shell), Node::of(option), Node::of(command))
            else {
                return None;
            };
            let name = shell.rsplit('/').next().unwrap_or_default();
            (matches!(name, "bash" | "sh" | "zsh" | "dash")
                && matches!(&*option, "-c" | "-lc" | "-ic" | "-lic"))
            .then_some(command)
        }
        _ => None,
    }
}
