//! `/v1/permissions`: what happens without a person.

use serde::{Deserialize, Serialize};

use crate::answer::Decision;

/// `GET /v1/permissions?session=<agent>/<id>`: in force for asks made now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PermissionsView {
    /// The session that was asked about; null: every session.
    pub session: Option<String>,
    pub background: TimedPolicy,
    pub safety: TimedPolicy,
    /// Every tool ask is allowed, no safety ask.
    pub skip: bool,
    /// 0: no cap.
    pub queue_cap: u32,
    /// 0: a remote silence decides nothing.
    pub remote_timeout_secs: u64,
    pub remote_action: Decision,
    /// The same for people, one safe line each, warnings included.
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimedPolicy {
    pub timeout_secs: u64,
    pub default: Decision,
    /// Changed over the config.
    pub overridden: bool,
}

/// Body of `PATCH /v1/permissions`. Holds for asks made afterwards, in the session's whole tree, and ends with it;
/// without a session for every session until the daemon stops.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PermissionsChange {
    /// `<agent>/<session>`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// `default` and `timeout_secs` are those of safety asks.
    #[serde(default)]
    pub safety: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<bool>,
}

/// Body of `POST /v1/permissions/command`: a line as a person typed it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PermissionsCommand {
    /// `/permissions …` or `/skip-permissions …`
    pub text: String,
    /// `<agent>/<session>`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Id of the registered surface where it was typed; one of kind `remote` gets secrets covered in the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
}

/// Its reply, safe lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PermissionsText {
    pub text: String,
}
