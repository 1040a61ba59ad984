//! Asks for tests.

use askd_wire::Ask;
use serde_json::json;

/// A background ask of a subagent. Its id is made from the handle.
pub(crate) fn ask(handle: &str) -> Ask {
    let number = handle.bytes().fold(0_u64, |sum, byte| sum * 256 + u64::from(byte));
    let text = json!({
        "id": format!("01930000-0000-7000-8000-{number:012x}"),
        "handle": handle, "state": "open", "digest": format!("sha256:{}", "0".repeat(64)),
        "class": "tool", "attendance": "background",
        "action": {"tool": "Bash", "cwd": "/home/me/src/askd"},
        "display": [
            {"label": "command", "lines": ["cargo test --workspace"], "marked": false, "complete": true},
            {"label": "directory", "lines": ["/home/me/src/askd"], "marked": false, "complete": true},
        ],
        "lineage": {
            "agent": "claude-code", "session": "s1", "root": "s1", "job": "nightly", "host": "here",
            "subagent": {"name": "tests", "type": "general-purpose", "work_id": "a1", "depth": 1},
        },
        "options": [
            {"id": "allow_once", "label": "Yes", "kind": "allow_once"},
            {"id": "reject_once", "label": "No", "kind": "reject_once"},
            {"id": "allow_always", "label": "Yes, and don't ask again", "kind": "allow_always", "grants": "Bash(cargo test:*)"},
        ],
        "asked_at": "2026-11-30T08:00:00.000Z", "deadline": "2026-11-30T08:06:00.000Z", "default": "deny",
        "gives_up_at": null, "requester": {"link": "attached", "kind": "library"}, "outcome": null, "delivery": "none",
    });
    serde_json::from_str(&text.to_string()).unwrap()
}

/// The same, settled.
pub(crate) fn settled(ask: &Ask, outcome: &str, cause: &str, text: &str) -> Ask {
    let mut over = ask.clone();
    over.state = askd_wire::AskState::Settled;
    let outcome = json!({
        "outcome": outcome, "cause": cause, "settled_at": "2026-11-30T08:02:00.000Z", "verdict": "none", "text": text,
    });
    over.outcome = Some(serde_json::from_value(outcome).unwrap());
    over
}
