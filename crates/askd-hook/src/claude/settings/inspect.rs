//! What a settings file says about asks: our hooks in it, and what keeps Claude from asking.

use super::{ASKING, EVENTS, SettingsError, hooks_of, is_ours, root};
use crate::json::{Kind, Node};

/// One of our hooks as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventHook {
    pub event: String,
    pub command: String,
    pub args: Vec<String>,
    /// Seconds; `None`: Claude's own default of 600.
    pub timeout_secs: Option<u64>,
    /// `None` or `*` hears of every tool.
    pub matcher: Option<String>,
}

impl EventHook {
    /// It may have to wait for a person and was installed by an askd that did not know it: Claude would end it first.
    pub fn is_outdated(&self) -> bool {
        ASKING.contains(&self.event.as_str()) && !self.args.iter().any(|arg| arg == "--timeout")
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    pub hooks: Vec<EventHook>,
    /// Events that have no hook of ours.
    pub missing: Vec<&'static str>,
    /// `permissions.defaultMode`.
    pub default_mode: Option<String>,
    /// `disableAllHooks` is on: no hook runs at all.
    pub hooks_disabled: bool,
}

/// Looks at one settings file. Several files count together; which beats which is Claude's rule: managed, command line,
/// `.claude/settings.local.json`, `.claude/settings.json`, `~/.claude/settings.json`.
pub fn inspect(text: &str) -> Result<Findings, SettingsError> {
    let mut findings = Findings::default();
    if !text.trim().is_empty() {
        let root = root(text)?;
        findings.default_mode = root
            .get("permissions")
            .and_then(|p| p.get("defaultMode"))
            .and_then(Node::text)
            .map(str::to_owned);
        findings.hooks_disabled =
            root.get("disableAllHooks").is_some_and(|value| value.kind == Kind::Plain("true".to_owned()));
        if let Some(Node { kind: Kind::Object(events), .. }) = hooks_of(&root)? {
            for event in events {
                for group in event.value.items() {
                    let hooks = group.get("hooks").map(Node::items).unwrap_or_default();
                    let ours = hooks.iter().filter(|hook| is_ours(hook));
                    findings.hooks.extend(ours.map(|hook| describe(&event.key, group, hook)));
                }
            }
        }
    }
    let has = |event: &str| findings.hooks.iter().any(|hook| hook.event == event);
    findings.missing = EVENTS.iter().map(|(event, _)| *event).filter(|event| !has(event)).collect();
    Ok(findings)
}

fn describe(event: &str, group: &Node, hook: &Node) -> EventHook {
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    let args = hook.get("args").map(Node::items).unwrap_or_default();
    let timeout = match hook.get("timeout").map(|node| &node.kind) {
        Some(Kind::Plain(number)) => number.parse().ok(),
        _ => None,
    };
    EventHook {
        event: event.to_owned(),
        command: text(hook.get("command")).unwrap_or_default(),
        args: args.iter().filter_map(|arg| text(Some(arg))).collect(),
        timeout_secs: timeout,
        matcher: text(group.get("matcher")),
    }
}

/// Why a permission mode keeps asks from askd; `None`: it does not. `mode`: the one that counts, `None` when none is
/// configured. `version`: Claude's, e.g. `2.1.332`, when it is known.
pub fn hidden_asks(mode: Option<&str>, version: Option<&str>) -> Option<&'static str> {
    let auto = "in mode auto Claude decides by itself what it asks for, and most calls are never asked; \
                set permissions.defaultMode to \"default\" (or start it with --permission-mode default) to be asked";
    match mode {
        Some("auto") => Some(auto),
        Some("bypassPermissions") => Some("in mode bypassPermissions nothing is asked for"),
        Some("dontAsk") => Some("in mode dontAsk what would be asked for is denied without asking"),
        Some("acceptEdits") => Some("in mode acceptEdits changes to files are not asked for"),
        Some("plan") => Some("in mode plan nothing is changed, and little is asked for"),
        Some(_) => None,
        None => match version.and_then(parse_version) {
            // 2.1.197 starts in mode default, 2.1.332 in mode auto; the change lies somewhere between.
            Some(version) if version <= (2, 1, 197) => None,
            Some(version) if version >= (2, 1, 332) => Some(auto),
            _ => Some(
                "newer versions of Claude Code start in mode auto then, in which most calls are never asked; set permissions.defaultMode to \"default\" to be asked",
            ),
        },
    }
}

/// Whether `claude -p` of this version asks by its permission hooks. Where it does not, it denies what it would ask,
/// unless a permission tool is named. `None`: that version says nothing of itself that could be read.
pub fn asks_headless(version: &str) -> Option<bool> {
    // 2.1.197 does not, 2.1.332 does; the change lies somewhere between.
    parse_version(version).map(|version| version >= (2, 1, 332))
}

fn parse_version(text: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
}
