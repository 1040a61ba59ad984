//! Files of pi-permission-system.
//!
//! | their field | what it is here |
//! |---|---|
//! | `surface`, `value`, `message`, `payload`, `accessIntent` | the action, all of it shown |
//! | `targetSessionId`, as its directory says too | the session |
//! | `requesterSessionId`, `requesterAgentName` | the subagent of it that asks |
//! | `sessionApproval` `{surface, patterns}` or `{grants: [{surface, pattern}]}` | what the option "for this session" grants |
//! | process number at the end of an old `id` | who may be seen to die |

use std::time::Duration;

use askd_wire::{Action, Choice, ChoiceKind, Class, Outcome, Subagent, Verdict};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::{FOR_SESSION, Format, Request, Unreadable, bytes};

const AGENT: &str = "pi";
/// Begins the reason of an answer that nobody gave.
const UNAVAILABLE: &str = "approval unavailable, nobody denied it: ";

pub(super) fn read(
    object: &Map<String, Value>,
    target: &str,
    limit: Duration,
) -> Result<Request, Unreadable> {
    let text = |name: &'static str| match object.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
        _ => Err(Unreadable::Field(name)),
    };
    let (id, session) = (text("id")?, text("requesterSessionId")?.trim());
    if text("targetSessionId")?.trim() != target {
        return Err(Unreadable::OtherSession);
    }
    let name = text("requesterAgentName")?;
    let created_ms = object
        .get("createdAt")
        .and_then(|at| at.as_i64().or_else(|| at.as_f64().map(whole)))
        .filter(|at| *at > 0)
        .ok_or(Unreadable::Field("createdAt"))?;
    let message = object.get("message").and_then(Value::as_str);
    let payload = object.get("payload").filter(|payload| payload.is_object());
    let asked = |name: &str| {
        let own = object.get(name).and_then(Value::as_str);
        own.or_else(|| payload?.get("request")?.get(name)?.as_str()).filter(|text| !text.is_empty())
    };
    let (surface, value) = (asked("surface"), asked("value"));
    if message.is_none() && payload.is_none() && (surface.is_none() || value.is_none()) {
        return Err(Unreadable::Field("message, payload, or surface with value"));
    }

    // Whatever says what would run is shown: the value may be one part of a longer command that only another field has.
    let mut input = Map::new();
    if let Some(value) = value {
        input.insert(value_key(surface).to_owned(), json!(value));
    }
    if let Some(message) = message {
        input.insert("request".to_owned(), json!(message));
    }
    for (name, shown) in [("accessIntent", "access"), ("payload", "details"), ("source", "source")] {
        if let Some(value) = object.get(name).filter(|value| !value.is_null()) {
            input.insert(shown.to_owned(), value.clone());
        }
    }
    let cwd = object.get("accessIntent").and_then(|access| access.get("requesterCwd")?.as_str());
    let newest = message.is_none() || payload.is_some() || object.contains_key("accessIntent");
    Ok(Request {
        format: Format::Pi { newest },
        id: id.to_owned(),
        target: target.to_owned(),
        created_ms: Some(created_ms),
        pid: pid_of(id),
        limit: Some(limit),
        digest: String::new(),
        action: Action {
            tool: surface.or_else(|| object.get("source")?.as_str()).unwrap_or("permission").to_owned(),
            kind: surface.and_then(kind_of).map(str::to_owned),
            title: None,
            input: to_raw_value(&input).ok(),
            cwd: cwd.map(str::to_owned),
        },
        class: Class::Tool,
        attendance: None,
        agent: AGENT.to_owned(),
        subagent: (session != target).then(|| Subagent {
            name: Some(name.to_owned()).filter(|name| name != "unknown"),
            kind: None,
            work_id: session.to_owned(),
            depth: None,
        }),
        job: None,
        options: options(grants(object)),
        deadline_secs: None,
        extra: Map::new(),
    })
}

/// Numbers beyond what a clock says are no times.
#[expect(clippy::cast_possible_truncation, reason = "a time that is out of range saturates and is refused")]
fn whole(number: f64) -> i64 {
    number as i64
}

/// `<ms>-<letters and digits>-<pid>`, as versions up to 25.3 made their ids.
fn pid_of(id: &str) -> Option<u32> {
    let mut parts = id.split('-');
    let (ms, random, pid) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let old = parts.next().is_none()
        && (12..=14).contains(&ms.len())
        && digits(ms)
        && digits(pid)
        && (1..=11).contains(&random.len())
        && random.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    old.then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 1)
}

fn value_key(surface: Option<&str>) -> &'static str {
    match surface {
        Some("bash") => "command",
        Some("read" | "write" | "edit" | "ls" | "external_directory" | "path") => "path",
        _ => "value",
    }
}

fn kind_of(surface: &str) -> Option<&'static str> {
    Some(match surface {
        "bash" => "execute",
        "read" | "ls" => "read",
        "write" | "edit" => "edit",
        "grep" | "find" => "search",
        _ => return None,
    })
}

/// What "for this session" would grant, in full; `None`: it is not offered.
fn grants(object: &Map<String, Value>) -> Option<String> {
    let approval = object.get("sessionApproval")?;
    let line =
        |surface: &Value, pattern: &Value| Some(format!("{} {}", surface.as_str()?, pattern.as_str()?));
    let lines: Option<Vec<String>> = match (approval.get("grants"), approval.get("patterns")) {
        (Some(Value::Array(grants)), _) => {
            grants.iter().map(|grant| line(grant.get("surface")?, grant.get("pattern")?)).collect()
        }
        (None, Some(Value::Array(patterns))) => {
            let surface = approval.get("surface")?;
            patterns.iter().map(|pattern| line(surface, pattern)).collect()
        }
        _ => None,
    };
    // One that cannot be said in full is not offered.
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}

fn options(grants: Option<String>) -> Vec<Choice> {
    let mut options = vec![Choice::plain("allow_once", "Yes", ChoiceKind::AllowOnce)];
    if let Some(grants) = grants {
        options.push(Choice {
            grants: Some(grants),
            ..Choice::plain(FOR_SESSION, "Yes, for the child's session", ChoiceKind::AllowAlways)
        });
    }
    options.push(Choice::plain("reject_once", "No", ChoiceKind::RejectOnce));
    options
}

pub(super) fn answer(target: &str, newest: bool, outcome: &Outcome, now_ms: i64) -> Vec<u8> {
    let person = outcome.cause == "person";
    let by = |allow: bool, reason: &str| {
        if person {
            json!({ "kind": "user", "via": "dialog" })
        } else {
            let verdict = if allow { "allow" } else { "deny" };
            json!({ "kind": "authorizer", "name": "askd", "verdict": verdict, "reason": reason })
        }
    };
    match outcome.verdict {
        Verdict::Allow => {
            let for_session = outcome.option.as_deref() == Some(FOR_SESSION);
            let state = if for_session { "approved_for_session" } else { "approved" };
            write(target, now_ms, state, None, newest.then(|| by(true, &outcome.text)))
        }
        Verdict::Deny => {
            let words = outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty());
            let reason = match (person, words) {
                (true, words) => words.map(str::to_owned),
                (false, _) => Some(outcome.reason_for_model.clone().unwrap_or_else(|| outcome.text.clone())),
            };
            let decided_by = newest.then(|| by(false, reason.as_deref().unwrap_or_default()));
            let state = if reason.is_some() { "denied_with_reason" } else { "denied" };
            write(target, now_ms, state, reason.as_deref(), decided_by)
        }
        Verdict::None => unavailable(target, newest, &outcome.text, now_ms),
    }
}

/// Nobody else writes these words.
pub(super) fn is_askds(object: &Map<String, Value>) -> bool {
    let reason = object.get("denialReason").and_then(Value::as_str);
    let name = object.get("decidedBy").and_then(|by| by.get("name")?.as_str());
    name == Some("askd") || reason.is_some_and(|reason| reason.starts_with(UNAVAILABLE))
}

/// It says that nobody could be asked.
pub(super) fn is_unavailable(object: &Value) -> bool {
    let reason = object.get("denialReason").and_then(Value::as_str);
    let kind = object.get("decidedBy").and_then(|by| by.get("kind")?.as_str());
    kind == Some("unavailable") || reason.is_some_and(|reason| reason.starts_with(UNAVAILABLE))
}

pub(super) fn unavailable(target: &str, newest: bool, why: &str, now_ms: i64) -> Vec<u8> {
    // Its requester calls every answer that is no yes the user's.
    let reason = format!("{UNAVAILABLE}{why}");
    let decided_by = newest.then(|| json!({ "kind": "unavailable", "reason": why }));
    write(target, now_ms, "denied_with_reason", Some(&reason), decided_by)
}

fn write(target: &str, now_ms: i64, state: &str, reason: Option<&str>, decided_by: Option<Value>) -> Vec<u8> {
    // What the requester obeys and what it remembers come from one word, so they cannot differ.
    let approved = matches!(state, "approved" | "approved_for_session");
    let mut object = Map::new();
    object.insert("approved".to_owned(), json!(approved));
    object.insert("state".to_owned(), json!(state));
    if let Some(reason) = reason {
        object.insert("denialReason".to_owned(), json!(reason));
    }
    object.insert("responderSessionId".to_owned(), json!(target));
    object.insert("respondedAt".to_owned(), json!(now_ms));
    if let Some(decided_by) = decided_by {
        object.insert("decidedBy".to_owned(), decided_by);
    }
    bytes(&Value::Object(object))
}
