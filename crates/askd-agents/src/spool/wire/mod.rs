//! Request and response files of all versions: read tolerantly, answered in the requester's own version. Pure.
//!
//! | written by | known by | answered with |
//! |---|---|---|
//! | pi-permission-system up to 25 | a `message` | `approved` and `state`, which always agree; `denialReason` |
//! | pi-permission-system from 26 | no `message`; `payload`, `accessIntent`, `surface` | the same and `decidedBy` |
//! | askd's own format | a number `askd` | the outcome with its cause |
//!
//! A yes is written for an outcome that allows, and for nothing else. A session grant is written only when a person
//! chose the option that says so. What nobody decided is never called a person's no.

mod own;
mod pi;

use std::time::Duration;

use askd_client::spool::{digest_of, is_safe_stem};
use askd_wire::{Action, Attendance, Choice, Class, Outcome, RaiseAsk, RequesterKind, Subagent};
use serde_json::{Map, Value};

/// How long a pi child waits when nothing else is set.
pub const PI_LIMIT: Duration = Duration::from_secs(600);
/// Option that lets a pi child allow the like by itself for the rest of its session.
pub const FOR_SESSION: &str = "for_session";

/// Why a request cannot be used, for people and for its requester.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is no JSON object: {0}")]
    NotJson(String),
    #[error("{0} is missing or of the wrong type")]
    Field(&'static str),
    #[error("its id is not the name of its file")]
    OtherId,
    #[error("it was written for another session than that of its directory")]
    OtherSession,
    #[error("it has version {0}, which this askd cannot read; upgrade askd")]
    Newer(u64),
    #[error("{0}")]
    File(String),
}

/// Who wrote a request, as far as its answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// pi-permission-system; `newest`: reads `decidedBy`.
    Pi { newest: bool },
    /// askd's own.
    Own,
}

/// At the end of a key: the very same request was there before, and its answer was fetched.
pub const AGAIN: char = '+';

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    pub format: Format,
    pub id: String,
    /// The session asked for: that of the directory.
    pub target: String,
    /// Milliseconds since 1970, as the requester says.
    pub created_ms: Option<i64>,
    /// The process that waits, as it says; in the process numbers of wherever it runs.
    pub pid: Option<u32>,
    /// How long it waits, counted from its creation; `None`: until it takes its request away.
    pub limit: Option<Duration>,
    /// Of the bytes of its file: what it asks, to the letter.
    pub digest: String,
    action: Action,
    class: Class,
    attendance: Option<Attendance>,
    agent: String,
    subagent: Option<Subagent>,
    job: Option<String>,
    options: Vec<Choice>,
    deadline_secs: Option<u64>,
    extra: Map<String, Value>,
}

/// Reads a request file of `stem` in the directory of session `target`. `limit`: how long pi children wait.
pub fn read(bytes: &[u8], stem: &str, target: &str, limit: Duration) -> Result<Request, Unreadable> {
    let object: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let mut request = match object.get("askd") {
        Some(version) => own::read(bytes, version, target)?,
        None => pi::read(&object, target, limit)?,
    };
    if request.id != stem || !is_safe_stem(&request.id) {
        return Err(Unreadable::OtherId);
    }
    request.digest = digest_of(bytes);
    Ok(request)
}

impl Request {
    /// What is raised. `left`: how much longer the requester waits by itself; `grace`: how long the ask outlives a lost
    /// connection; `turn`: how often the very same request was there before and had its answer.
    pub fn raise(&self, left: Option<Duration>, grace: Duration, turn: u32) -> RaiseAsk {
        let mut key = format!("spool:{}:{}:{}", self.target, self.id, self.digest);
        key.extend((0..turn).map(|_| AGAIN));
        RaiseAsk {
            key,
            action: self.action.clone(),
            class: self.class,
            attendance: self.attendance,
            agent: self.agent.clone(),
            // Not what the file says of itself: another session's name there must neither move that session below this
            // one nor use what was set for it.
            session: self.target.clone(),
            parent: None,
            root: None,
            subagent: self.subagent.clone(),
            job: self.job.clone(),
            tool_call: Some(self.id.clone()),
            turn: None,
            session_title: None,
            options: self.options.clone(),
            deadline_secs: self.deadline_secs,
            gives_up_secs: left.map(|left| left.as_secs().max(1)),
            requester: RequesterKind::Spool,
            grace_secs: grace.as_secs(),
            instance: None,
            own_prompt: None,
            needs_own_prompt: false,
            supersedes: None,
            place: None,
            extra: self.extra.clone(),
        }
    }

    /// The response for an outcome.
    pub fn answer(&self, outcome: &Outcome, now_ms: i64) -> Vec<u8> {
        match self.format {
            Format::Pi { newest } => pi::answer(&self.target, newest, outcome, now_ms),
            Format::Own => own::answer(&self.id, &self.digest, outcome),
        }
    }

    /// The response that says why nobody decided.
    pub fn unavailable(&self, why: &str, now_ms: i64) -> Vec<u8> {
        match self.format {
            Format::Pi { newest } => pi::unavailable(&self.target, newest, why, now_ms),
            Format::Own => own::unavailable(&self.id, Some(&self.digest), why),
        }
    }
}

/// The response to a request that could not be read, which every version understands.
pub fn unreadable(stem: &str, target: &str, why: &str, now_ms: i64) -> Vec<u8> {
    let why = format!("askd cannot read this request: {why}");
    let both = |bytes: Vec<u8>| serde_json::from_slice::<Map<String, Value>>(&bytes).unwrap_or_default();
    let mut fields = both(pi::unavailable(target, true, &why, now_ms));
    fields.extend(both(own::unavailable(stem, None, &why)));
    bytes(&Value::Object(fields))
}

/// What is shown of a request that cannot be read: nobody can answer it, and everybody can see it.
pub fn raise_unreadable(stem: &str, target: &str, why: &str) -> RaiseAsk {
    let input = serde_json::json!({ "file": format!("{stem}.json"), "problem": why });
    RaiseAsk {
        key: format!("spool:{target}:{stem}:unreadable"),
        action: Action {
            tool: "unreadable request".to_owned(),
            kind: None,
            title: Some(
                "a forwarded request that askd cannot read; it is answered as unavailable".to_owned(),
            ),
            input: serde_json::value::to_raw_value(&input).ok(),
            cwd: None,
        },
        class: Class::Tool,
        attendance: None,
        agent: "spool".to_owned(),
        session: target.to_owned(),
        parent: None,
        root: None,
        subagent: None,
        job: None,
        tool_call: Some(stem.to_owned()),
        turn: None,
        session_title: None,
        options: Vec::new(),
        deadline_secs: None,
        gives_up_secs: None,
        requester: RequesterKind::Spool,
        grace_secs: 10,
        instance: None,
        own_prompt: Some(askd_wire::OwnPrompt { at: "its requester".to_owned(), blocked: false }),
        needs_own_prompt: true,
        supersedes: None,
        place: None,
        extra: Map::new(),
    }
}

/// What a response says, whoever wrote it.
pub fn says(bytes: &[u8]) -> Option<bool> {
    let object: Value = serde_json::from_slice(bytes).ok()?;
    match (object.get("approved"), object.get("outcome").and_then(Value::as_str)) {
        // That nobody could be asked is nobody's no, although pi calls every answer that is no yes a denial.
        (Some(Value::Bool(false)), _) if pi::is_unavailable(&object) => None,
        (Some(Value::Bool(approved)), _) => Some(*approved),
        (_, Some("allowed")) => Some(true),
        (_, Some("denied")) => Some(false),
        _ => None,
    }
}

/// The digest of the request that a response says it answers.
pub fn answers(response: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(response).ok()?;
    object.get("askd")?.as_u64()?;
    object.get("request")?.as_str().map(str::to_owned)
}

/// A response says by itself that an askd wrote it.
pub fn is_askds(bytes: &[u8]) -> bool {
    let Ok(object) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return false };
    object.contains_key("askd") || pi::is_askds(&object)
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
