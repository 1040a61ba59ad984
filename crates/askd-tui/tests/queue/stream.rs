//! What the daemon's stream brings.

use askd_wire::{Ask, StreamEvent};
use serde_json::json;

/// The ask as it is once it has been settled.
pub(crate) fn settled(ask: &Ask, outcome: &str, cause: &str, surface: Option<&str>) -> Ask {
    let mut ask = ask.clone();
    ask.state = askd_wire::AskState::Settled;
    ask.outcome = serde_json::from_value(json!({
        "outcome": outcome, "cause": cause, "surface": surface, "by": "you",
        "settled_at": "2026-11-30T08:00:47.000Z", "verdict": "none",
        "text": match cause { "cancelled" => "cancelled by the agent", _ => "settled" },
    }))
    .unwrap();
    ask
}

pub(crate) fn snapshot(asks: &[Ask]) -> StreamEvent {
    StreamEvent::Snapshot { position: 1, asks: asks.to_vec() }
}

pub(crate) fn event(what: &str, ask: &Ask) -> StreamEvent {
    StreamEvent::Ask { position: 2, what: what.to_owned(), ask: Box::new(ask.clone()) }
}

/// A refusal of the daemon.
pub(crate) fn refused(id: &str, code: &str, ask: Option<Ask>, recorded: Option<&str>) -> askd_tui::Reply {
    let text = json!({
        "type": "about:blank", "title": "refused", "status": 409, "detail": "why not", "code": code,
        "recorded": recorded, "ask": ask,
    });
    let problem = serde_json::from_str(&text.to_string()).unwrap();
    askd_tui::Reply::Refused { id: id.to_owned(), problem: Box::new(problem) }
}
