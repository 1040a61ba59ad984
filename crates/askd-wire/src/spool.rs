//! askd's own request and response files in a forwarding directory (`docs/spool.md`), version 1.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::ask::{Attendance, Class, OutcomeKind};

/// Version of these files that this build writes; it reads every one up to it.
pub const SPOOL_VERSION: u32 = 1;

/// `requests/<id>.json`. The id is the stem of the file; the session asked for is the directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpoolRequest {
    /// [`SPOOL_VERSION`] of the writer.
    pub askd: u32,
    /// Letters, digits, `.`, `_` and `-`, at most 180; the stem of the file.
    pub id: String,
    pub tool: String,
    /// Any JSON; shown in full and sent nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Name of the program that asks; absent: `spool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session that asks; absent: the one of the directory. Another one is a child of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default)]
    pub class: Class,
    /// Absent: decided from what askd knows of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attendance: Option<Attendance>,
    /// Seconds until the timed answer; needs `"attendance":"background"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_secs: Option<u64>,
    /// Seconds for which the requester waits, counted from when the file was written; absent: until it is answered or
    /// the requester takes its file away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_secs: Option<u64>,
    /// Process that waits, in the process numbers of the machine (or container) that `askd spool` runs in; when it ends,
    /// the ask is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Fields of other versions; they stay in the record.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// `responses/<id>.json`, complete at its first appearance. The requester removes it, and then its request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpoolResponse {
    /// Version, at most that of the request.
    pub askd: u32,
    pub id: String,
    pub outcome: SpoolOutcome,
    /// Why, of the closed set of causes; `unavailable` for the outcome of that name.
    pub cause: String,
    /// The person's own words.
    #[serde(default)]
    pub message: Option<String>,
    /// The option that was chosen: `allow_once` or `reject_once`.
    #[serde(default)]
    pub option: Option<String>,
    #[serde(default)]
    pub by: Option<String>,
    #[serde(default)]
    pub surface: Option<String>,
    /// One line for people.
    pub text: String,
    /// RFC 3339.
    #[serde(default)]
    pub settled_at: Option<String>,
    /// `sha256:` and 64 hexadecimal digits over the bytes of the request that this answers. An id is used once; by this a
    /// requester can be sure all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// What the requester hears. Only `allowed` is a yes; only `denied` is a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpoolOutcome {
    Allowed,
    Denied,
    /// Nobody decided.
    Withdrawn,
    /// Nobody could be asked, or the request could not be read.
    Unavailable,
}

impl From<OutcomeKind> for SpoolOutcome {
    fn from(kind: OutcomeKind) -> Self {
        match kind {
            OutcomeKind::Allowed => Self::Allowed,
            OutcomeKind::Denied => Self::Denied,
            OutcomeKind::Withdrawn => Self::Withdrawn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_request_is_enough_and_unknown_fields_are_kept() {
        let text = r#"{"askd":1,"id":"a-1","tool":"Bash","input":{"n": 1.0e2},"later":[1]}"#;
        let request: SpoolRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.input.as_ref().map(|raw| raw.get()), Some(r#"{"n": 1.0e2}"#));
        assert_eq!(request.extra["later"], serde_json::json!([1]));
        assert!(serde_json::from_str::<SpoolRequest>(r#"{"askd":1,"id":"a"}"#).is_err());
    }

    #[test]
    fn a_script_can_look_for_the_outcome_in_the_text() {
        let response = SpoolResponse {
            askd: 1,
            id: "a".to_owned(),
            outcome: OutcomeKind::Allowed.into(),
            cause: "person".to_owned(),
            message: Some("\"outcome\":\"allowed\"".to_owned()),
            option: None,
            by: None,
            surface: None,
            text: "allowed".to_owned(),
            settled_at: None,
            request: None,
        };
        let text = serde_json::to_string(&response).unwrap();
        // Words of a person have their quotes escaped, so that they never look like a field.
        assert_eq!(text.matches(r#""outcome":"allowed""#).count(), 1);
    }
}
