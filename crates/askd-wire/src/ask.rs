//! The one shape of an ask, shared by `askd ls --json`, `askd show --json` and the HTTP API.

use crate::answer::Decision;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// One ask as every surface sees it. `display` is made by askd-text: surfaces show it and never raw input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ask {
    /// UUIDv7, the ask's identity for its whole life.
    pub id: String,
    /// Short name for people; not given again within the retention time.
    pub handle: String,
    pub state: AskState,
    /// `sha256:<hex>` over tool, input and working directory; an answer must repeat it.
    pub digest: String,
    pub class: Class,
    pub attendance: Attendance,
    pub action: Action,
    /// Safe lines: control, bidi, zero-width and padding characters are already visible marks.
    pub display: Vec<DisplayField>,
    pub lineage: Lineage,
    pub options: Vec<Choice>,
    pub asked_at: String,
    /// When the timed answer applies; null: none.
    pub deadline: Option<String>,
    /// `allow` or `deny`: what the deadline would answer; null: it hands back to the agent's own prompt, or no deadline.
    pub default: Option<Decision>,
    /// When the requester itself stops waiting; null: never or unknown.
    pub gives_up_at: Option<String>,
    pub requester: Requester,
    pub outcome: Option<Outcome>,
    pub delivery: Delivery,
    /// An answer that came too late and waits for the same call to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateAnswer>,
}

/// `open` until the one transition to `settled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskState {
    Open,
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    #[default]
    Tool,
    Safety,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    #[default]
    Foreground,
    Background,
}

/// What would run. `input` is kept byte for byte as the requester sent it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    pub tool: String,
    /// `execute`, `edit`, `read`, `fetch`, … : a hint for display only.
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub title: Option<String>,
    /// Absent for remote surfaces, as secrets could be in it; they show `display` like everybody.
    #[serde(default)]
    pub input: Option<Box<RawValue>>,
    #[serde(default)]
    pub cwd: Option<String>,
}

/// One labelled part of an action, as safe lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayField {
    pub label: String,
    pub lines: Vec<String>,
    /// Something in it was replaced by a visible mark.
    pub marked: bool,
    /// Nothing was cut.
    pub complete: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Lineage {
    /// `claude-code`, `codex`, `opencode`, `pi`, or the name a host gives itself.
    pub agent: String,
    /// The agent process, `<host>:<pid>@<start>`; null when unknown.
    #[serde(default)]
    pub instance: Option<String>,
    pub session: String,
    /// Top of the chain of parent sessions.
    pub root: String,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub subagent: Option<Subagent>,
    #[serde(default)]
    pub job: Option<String>,
    /// The agent's own id of the call, where it is known.
    #[serde(default)]
    pub tool_call: Option<String>,
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub place: Option<Place>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The agent's id for the child's run (Claude Code: `agent_id`).
    pub work_id: String,
    /// 1 for a child of the main thread; null when the agent does not tell and it cannot be derived.
    #[serde(default)]
    pub depth: Option<u32>,
}

/// Where the agent can be found by a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    #[serde(default)]
    pub tty: Option<String>,
    #[serde(default)]
    pub tmux_pane: Option<String>,
}

/// One possible answer, mirrored from the agent word for word where it gives any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: String,
    pub label: String,
    pub kind: ChoiceKind,
    /// Exactly what an "always" would grant, for people; null for once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<String>,
    /// The adapter's own data for this choice, sent back to it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl Choice {
    /// One that grants nothing beyond this call and needs no data of the adapter's.
    pub fn plain(id: impl Into<String>, label: impl Into<String>, kind: ChoiceKind) -> Self {
        Self { id: id.into(), label: label.into(), kind, grants: None, payload: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// The requester's link: `attached`, `detached` (since when) or `handed_back` (to where).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Requester {
    pub link: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Detached: the ask, or an outcome that nobody fetched yet, is kept until then for its requester to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Where the agent's own prompt is, e.g. `terminal`: a handed-back ask can be answered there, and one of a hook may be
    /// meanwhile. Absent where there is none.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Allowed,
    Denied,
    Withdrawn,
}

/// What the requester's agent must be told: `none` means no opinion (the agent behaves as if askd were not installed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allow,
    Deny,
    None,
}

/// How an ask was settled. `cause` is one of lifecycle.md's closed set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    pub outcome: OutcomeKind,
    pub cause: String,
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub surface: Option<String>,
    #[serde(default)]
    pub by: Option<String>,
    #[serde(default)]
    pub option: Option<String>,
    /// The person's own words.
    #[serde(default)]
    pub message: Option<String>,
    /// Deny and stop the turn.
    #[serde(default)]
    pub stop: bool,
    pub settled_at: String,
    /// What the requester must tell its agent.
    pub verdict: Verdict,
    /// The true text for the model on a deny; null otherwise.
    #[serde(default)]
    pub reason_for_model: Option<String>,
    /// One line for people: `allowed by you in the terminal`, `timed out: auto-denied after 6m0s`.
    pub text: String,
    #[serde(default, flatten, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// `none → pending → handed → confirmed`, or one of the four that ended otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    None,
    Pending,
    Handed,
    Confirmed,
    Refused,
    Overtaken,
    Voided,
    Expired,
}

/// A late answer is kept until `until` for the same call asking again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LateAnswer {
    pub decision: Decision,
    pub until: String,
    #[serde(default)]
    pub by: Option<String>,
    #[serde(default)]
    pub surface: Option<String>,
}
