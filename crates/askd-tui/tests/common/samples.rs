//! Fixed asks for the tests of this crate.

use askd_text::Action;
use askd_wire::{Ask, DisplayField, SessionView};
use serde_json::{Value, json};

/// 2026-11-30T08:00:48Z: 48 seconds after the samples were asked.
pub(crate) const WALL_MS: i64 = 1_796_025_648_000;

/// An ask of Bash in the foreground.
pub(crate) fn bash(handle: &str, command: &str) -> Ask {
    ask(handle, "Bash", &json!({"command": command}), Some("/home/me/src/askd"))
}

/// The same in the background, of a subagent, with a deadline at 08:06:00.
pub(crate) fn child(handle: &str, command: &str) -> Ask {
    background(bash(handle, command))
}

pub(crate) fn background(mut ask: Ask) -> Ask {
    ask.attendance = askd_wire::Attendance::Background;
    ask.deadline = Some("2026-11-30T08:06:00.000Z".into());
    ask.default = Some(askd_wire::Decision::Deny);
    ask.lineage.subagent = Some(askd_wire::Subagent {
        name: Some("explore".into()),
        kind: Some("general-purpose".into()),
        work_id: "a1".into(),
        depth: Some(1),
    });
    ask
}

/// Any action, displayed as the daemon does it.
pub(crate) fn ask(handle: &str, tool: &str, input: &Value, cwd: Option<&str>) -> Ask {
    let raw = input.to_string();
    let action = Action { tool, input: Some(&raw), cwd, ..Action::default() };
    let display: Vec<DisplayField> = askd_text::display(&action)
        .into_iter()
        .map(|field| DisplayField {
            label: field.label,
            lines: field.lines,
            marked: field.marked,
            complete: field.complete,
        })
        .collect();
    let text = json!({
        "id": format!("0193-{handle}"), "handle": handle, "state": "open",
        "digest": format!("sha256:{tool}{raw}"), "class": "tool", "attendance": "foreground",
        "action": {"tool": tool, "input": input, "cwd": cwd},
        "display": display,
        "lineage": {"agent": "claude-code", "session": "5c1e", "root": "5c1e",
            "place": {"tty": "/dev/pts/3", "tmux_pane": "%4"}},
        "options": [
            {"id": "allow_once", "label": "Yes", "kind": "allow_once"},
            {"id": "always_1", "label": "Yes, and don't ask again for this", "kind": "allow_always",
                "grants": "Bash(cargo test:*) in this session"},
            {"id": "reject_once", "label": "No", "kind": "reject_once"},
        ],
        "asked_at": "2026-11-30T08:00:00.000Z", "deadline": null, "default": null, "gives_up_at": null,
        "requester": {"link": "attached", "kind": "library"}, "outcome": null, "delivery": "none",
    });
    serde_json::from_str(&text.to_string()).unwrap()
}

pub(crate) fn session(title: &str) -> SessionView {
    serde_json::from_value(json!({
        "agent": "claude-code", "session": "5c1e", "root": "5c1e", "title": title,
        "cwd": "/home/me/src/askd", "waiting": 1, "started_at": "2026-11-30T07:30:00.000Z",
    }))
    .unwrap()
}
