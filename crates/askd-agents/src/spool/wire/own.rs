//! askd's own format, version 1.

use std::time::Duration;

use askd_wire::{
    Action, Outcome, SPOOL_VERSION, SpoolOutcome, SpoolRequest, SpoolResponse, Subagent, Verdict,
};
use serde_json::{Map, Value};

use super::{Format, Request, Unreadable};

pub(super) fn read(bytes: &[u8], version: &Value, target: &str) -> Result<Request, Unreadable> {
    let version = version.as_u64().filter(|version| *version > 0).ok_or(Unreadable::Field("askd"))?;
    if version > u64::from(SPOOL_VERSION) {
        return Err(Unreadable::Newer(version));
    }
    let from: SpoolRequest =
        serde_json::from_slice(bytes).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    if from.tool.trim().is_empty() {
        return Err(Unreadable::Field("tool"));
    }
    let session = from.session.filter(|session| !session.is_empty()).unwrap_or_else(|| target.to_owned());
    // Only its directory says which session a request belongs to: what it says of itself is who below that asks.
    let is_child = session != target;
    let subagent = match (from.subagent, is_child) {
        (None, false) => None,
        (name, _) => Some(Subagent { name, kind: None, work_id: session, depth: None }),
    };
    let mut extra = Map::new();
    if !from.extra.is_empty() {
        extra.insert("spool".to_owned(), Value::Object(from.extra));
    }
    Ok(Request {
        format: Format::Own,
        target: target.to_owned(),
        created_ms: None,
        pid: from.pid.filter(|pid| *pid > 1),
        limit: from.gives_up_secs.map(Duration::from_secs),
        digest: String::new(),
        action: Action { tool: from.tool, kind: None, title: from.title, input: from.input, cwd: from.cwd },
        class: from.class,
        attendance: from.attendance,
        agent: from.agent.filter(|agent| !agent.is_empty()).unwrap_or_else(|| "spool".to_owned()),
        subagent,
        job: from.job,
        options: Vec::new(),
        deadline_secs: from.deadline_secs,
        extra,
        id: from.id,
    })
}

pub(super) fn answer(id: &str, digest: &str, outcome: &Outcome) -> Vec<u8> {
    let told = match outcome.verdict {
        Verdict::Allow => SpoolOutcome::Allowed,
        Verdict::Deny => SpoolOutcome::Denied,
        Verdict::None => SpoolOutcome::Withdrawn,
    };
    write(&SpoolResponse {
        askd: SPOOL_VERSION,
        id: id.to_owned(),
        outcome: told,
        cause: outcome.cause.clone(),
        message: outcome.message.clone().or_else(|| outcome.reason_for_model.clone()),
        option: outcome.option.clone(),
        by: outcome.by.clone(),
        surface: outcome.surface.clone(),
        text: outcome.text.clone(),
        settled_at: Some(outcome.settled_at.clone()),
        request: Some(digest.to_owned()),
    })
}

pub(super) fn unavailable(id: &str, digest: Option<&str>, why: &str) -> Vec<u8> {
    write(&SpoolResponse {
        askd: SPOOL_VERSION,
        id: id.to_owned(),
        outcome: SpoolOutcome::Unavailable,
        cause: "unavailable".to_owned(),
        message: None,
        option: None,
        by: None,
        surface: None,
        text: why.to_owned(),
        settled_at: None,
        request: digest.map(str::to_owned),
    })
}

fn write(response: &SpoolResponse) -> Vec<u8> {
    serde_json::to_vec(response).unwrap_or_default()
}
