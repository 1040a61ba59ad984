//! The JSON that Claude Code gives a hook on standard input.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What the hooks use of an event. Everything else is ignored; `tool_input` is kept byte for byte.
#[derive(Debug, Deserialize)]
pub(crate) struct Event<'a> {
    pub(crate) hook_event_name: String,
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) transcript_path: Option<String>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    /// Id of the user prompt, shared by the whole tree of children.
    #[serde(default)]
    pub(crate) prompt_id: Option<String>,
    /// Absent on the main thread.
    #[serde(default)]
    pub(crate) agent_id: Option<String>,
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) tool_name: Option<String>,
    #[serde(default, borrow)]
    pub(crate) tool_input: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) tool_use_id: Option<String>,
    #[serde(default, borrow)]
    pub(crate) permission_suggestions: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(crate) requires_user_interaction: bool,
    /// Of PostToolBatch: every call of one message of the model, refused and malformed ones too.
    #[serde(default, borrow)]
    pub(crate) tool_calls: Vec<BatchCall<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BatchCall<'a> {
    pub(crate) tool_name: String,
    #[serde(borrow)]
    pub(crate) tool_input: &'a RawValue,
    pub(crate) tool_use_id: String,
}

/// An id that can be a part of a file name and leads nowhere else.
pub(crate) fn is_plain_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 128 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

impl<'a> Event<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Only the person's own interaction can answer it: a yes from elsewhere would invent an answer or approve a plan.
    pub(crate) fn needs_own_prompt(&self) -> bool {
        self.requires_user_interaction
            || matches!(self.tool_name.as_deref(), Some("AskUserQuestion" | "ExitPlanMode"))
    }
}

/// What a call that starts a subagent says about it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SpawnInput {
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) subagent_type: Option<String>,
    #[serde(default)]
    pub(crate) run_in_background: Option<bool>,
}
