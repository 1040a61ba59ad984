//! askd's hooks in a Claude Code settings file: puts them in, takes them out, finds them. Pure; reads and writes no file.
//!
//! Nothing that was in the file is reformatted or reordered. [`Manifest`] remembers the text before and after, so that
//! taking them out gives back the same bytes when nobody has changed the file since, and removes only ours otherwise.

mod edit;
mod inspect;

use std::path::Path;

use askd_client::Places;
use serde::{Deserialize, Serialize};

use self::edit::Style;
use crate::json::{Kind, Malformed, Node, Syntax, Twice};

pub use self::inspect::{EventHook, Findings, asks_headless, hidden_asks, inspect};

/// Seven days. Claude of some versions ends every hook at once whose time-out is over 2 147 483 s.
pub const PERMISSION_TIMEOUT_SECS: u64 = 604_800;
/// Longest time-out that every version takes.
pub const MOST_TIMEOUT_SECS: u64 = 2_147_483;
/// The events whose hooks may wait for a person: a permission request, and a call that repeats itself.
pub(super) const ASKING: [&str; 2] = ["PermissionRequest", "PreToolUse"];
/// For the events that are only told: the hook itself stops after three seconds.
const OBSERVE_TIMEOUT_SECS: u64 = 15;

/// The events, and whether they are matched by tool.
pub const EVENTS: [(&str, bool); 9] = [
    ("PermissionRequest", true),
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("PostToolBatch", false),
    ("Stop", false),
    ("SubagentStart", false),
    ("SubagentStop", false),
    ("SessionEnd", false),
];

/// A settings file that askd does not touch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("the settings are not valid JSON: line {line}, column {column}: {why}")]
    NotJson { line: usize, column: usize, why: String },
    /// Which one counts differs from program to program.
    #[error("the settings have two members named {key:?}; keep one of them")]
    Twice { key: String },
    #[error("the settings have something else than {expected} at {at}")]
    Shape { at: String, expected: &'static str },
    #[error("the path of askd is not text: {0}")]
    Path(String),
    #[error("the time-out is {0} s; it must be at least 1 and at most {MOST_TIMEOUT_SECS}")]
    Timeout(u64),
}

impl From<Malformed> for SettingsError {
    fn from(Malformed { line, column, why }: Malformed) -> Self {
        Self::NotJson { line, column, why }
    }
}

impl From<Twice> for SettingsError {
    fn from(Twice(key): Twice) -> Self {
        Self::Twice { key }
    }
}

/// What is to be installed.
#[derive(Debug, Clone)]
pub struct Hooking<'a> {
    /// Absolute path of the askd program.
    pub exe: &'a Path,
    pub places: &'a Places,
    /// Time-out of the hooks that may wait for a person, normally [`PERMISSION_TIMEOUT_SECS`].
    pub timeout_secs: u64,
    /// Set by `askd run`: only these hooks raise asks for an agent that has the same `ASKD_OWNER`.
    pub owner: Option<&'a str>,
}

/// The text before and after the installation; to be kept (0600) for taking it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `None`: there was no file.
    pub original: Option<String>,
    /// The text to write.
    pub installed: String,
}

#[derive(Serialize)]
struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    matcher: Option<&'static str>,
    hooks: [Hook; 1],
}

#[derive(Clone, Serialize)]
struct Hook {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    args: Vec<String>,
    timeout: u64,
}

/// Puts the hooks in. `existing`: the file's text, `None` without a file. `previous`: what an earlier installation kept;
/// its hooks are replaced. Twice with the same `hooking` gives the same text.
pub fn install(
    existing: Option<&str>,
    hooking: &Hooking<'_>,
    previous: Option<&Manifest>,
) -> Result<Manifest, SettingsError> {
    let original = match existing {
        Some(text) => uninstall(text, previous)?,
        None => None,
    };
    let blank = original
        .as_deref()
        .is_none_or(|text| text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty());
    let mut text = if blank { "{}\n".to_owned() } else { original.clone().unwrap_or_default() };
    let style = {
        let root = root(&text)?;
        Style::of(&text, &root)
    };
    if root(&text)?.member("hooks")?.is_none() {
        text = edit::append(&text, &style, &root(&text)?, 0, "\"hooks\": {}");
    }
    for (event, matched) in EVENTS {
        let group = hooking.group(event, matched)?;
        let root = root(&text)?;
        let hooks = hooks_of(&root)?.ok_or_else(|| shape("hooks", "an object"))?;
        text = match hooks.member(event)? {
            Some(member) => edit::append(&text, &style, &member.value, 2, &pretty(&group)),
            None => {
                let member = format!("{}: {}", quote(event), pretty(&[group]));
                edit::append(&text, &style, hooks, 1, &member)
            }
        };
    }
    Ok(Manifest { original, installed: text })
}

/// Takes the hooks out. `None`: there was no file before, and nothing but ours is in it. Without a manifest, or when
/// the file was changed since, everything that is not ours stays as it is.
pub fn uninstall(text: &str, manifest: Option<&Manifest>) -> Result<Option<String>, SettingsError> {
    if let Some(manifest) = manifest.filter(|manifest| manifest.installed == text) {
        return Ok(manifest.original.clone());
    }
    if text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() {
        return Ok(Some(text.to_owned()));
    }
    // What was there before, even empty, stays.
    let before = manifest.and_then(|manifest| manifest.original.as_deref()).and_then(|text| root(text).ok());
    let had = |event: Option<&str>| {
        let hooks = before.as_ref().and_then(|root| root.get("hooks"));
        event.map_or(hooks, |event| hooks.and_then(|hooks| hooks.get(event))).is_some()
    };
    let mut text = text.to_owned();
    while let Some(less) = remove_one(&text, &had)? {
        text = less;
    }
    let nothing_left = root(&text)?.children().is_empty();
    let had_no_file = manifest.is_some_and(|manifest| manifest.original.is_none());
    Ok(if nothing_left && had_no_file { None } else { Some(text) })
}

/// Settings for `claude --settings`, which are merged with the person's own. `default_mode`: permission mode for the run.
pub fn run_settings(hooking: &Hooking<'_>, default_mode: Option<&str>) -> Result<String, SettingsError> {
    let mut parts = Vec::new();
    for (event, matched) in EVENTS {
        parts.push(format!("{}:{}", quote(event), compact(&[hooking.group(event, matched)?])));
    }
    let mode = match default_mode {
        Some(mode) => format!(",\"permissions\":{{\"defaultMode\":{}}}", quote(mode)),
        None => String::new(),
    };
    Ok(format!("{{\"hooks\":{{{}}}{mode}}}", parts.join(",")))
}

impl Hooking<'_> {
    fn group(&self, event: &str, matched: bool) -> Result<Group, SettingsError> {
        if !(1..=MOST_TIMEOUT_SECS).contains(&self.timeout_secs) {
            return Err(SettingsError::Timeout(self.timeout_secs));
        }
        let asks = ASKING.contains(&event);
        let timeout = if asks { self.timeout_secs } else { OBSERVE_TIMEOUT_SECS };
        let text = |path: &std::ffi::OsStr| {
            path.to_str()
                .map(str::to_owned)
                .ok_or_else(|| SettingsError::Path(path.to_string_lossy().into_owned()))
        };
        let mut args = vec!["hook".to_owned(), "claude-code".to_owned()];
        for arg in self.places.to_args() {
            args.push(text(&arg)?);
        }
        if asks {
            args.extend(["--timeout".to_owned(), timeout.to_string()]);
        }
        if let Some(owner) = self.owner {
            args.extend(["--owner".to_owned(), owner.to_owned()]);
        }
        let hook = Hook { kind: "command", command: text(self.exe.as_os_str())?, args, timeout };
        Ok(Group { matcher: matched.then_some("*"), hooks: [hook] })
    }
}

/// The text without the first hook of ours that is in it; `None`: there is none.
fn remove_one(text: &str, had: &impl Fn(Option<&str>) -> bool) -> Result<Option<String>, SettingsError> {
    let root = root(text)?;
    let Some(hooks) = hooks_of(&root)? else { return Ok(None) };
    let Kind::Object(events) = &hooks.kind else { return Ok(None) };
    for (at, event) in events.iter().enumerate() {
        for (group_at, group) in event.value.items().iter().enumerate() {
            let Some(list) = group.get("hooks") else { continue };
            let Some(hook_at) = list.items().iter().position(is_ours) else { continue };
            // Take out the largest thing that would be left empty.
            return Ok(Some(if list.items().len() > 1 {
                edit::remove(text, list, hook_at)
            } else if event.value.items().len() > 1 || had(Some(&event.key)) {
                edit::remove(text, &event.value, group_at)
            } else if events.len() > 1 || had(None) {
                edit::remove(text, hooks, at)
            } else {
                let place = root.children().iter().position(|child| child.end == hooks.span.end);
                edit::remove(text, &root, place.unwrap_or(usize::MAX))
            }));
        }
    }
    Ok(None)
}

/// A hook that askd installed, wherever its program is now.
fn is_ours(hook: &Node) -> bool {
    let command = hook.get("command").and_then(Node::text).unwrap_or_default();
    let named = Path::new(command).file_name().and_then(|name| name.to_str());
    let args: Vec<_> = hook.get("args").map(Node::items).unwrap_or_default().iter().map(Node::text).collect();
    named.is_some_and(|name| name.starts_with("askd"))
        && args.starts_with(&[Some("hook"), Some("claude-code")])
}

fn root(text: &str) -> Result<Node, SettingsError> {
    let root = Node::parse(text, Syntax::Strict)?;
    match root.kind {
        Kind::Object(_) => Ok(root),
        _ => Err(shape("the top", "an object")),
    }
}

/// The `hooks` object, in the shape that Claude reads.
fn hooks_of(root: &Node) -> Result<Option<&Node>, SettingsError> {
    let Some(member) = root.member("hooks")? else { return Ok(None) };
    let Kind::Object(events) = &member.value.kind else { return Err(shape("hooks", "an object")) };
    for event in events {
        member.value.member(&event.key)?;
        if !matches!(event.value.kind, Kind::Array(_)) {
            return Err(shape(&format!("hooks.{}", event.key), "an array"));
        }
    }
    Ok(Some(&member.value))
}

fn shape(at: &str, expected: &'static str) -> SettingsError {
    SettingsError::Shape { at: at.to_owned(), expected }
}

/// These types have string keys and no maps: they cannot fail to be written.
fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn compact(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn quote(text: &str) -> String {
    compact(&text)
}
