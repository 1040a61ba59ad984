//! What Claude's hooks ask, as an ask; and who can answer a permission request besides askd.
//!
//! | session | thread | attendance | own prompt |
//! |---|---|---|---|
//! | terminal | main | foreground | terminal |
//! | terminal | child | as Claude wrote down; else by what was seen of its start | terminal; blocked until the hook ends, unless the child is known to be in the foreground |
//! | with a host | main | foreground | host |
//! | with a host | child | as Claude wrote down; else by what was seen of its start | host |
//! | `-p` in a terminal | main | foreground | none |
//! | `-p` in a terminal | child | as Claude wrote down; else by what was seen of its start | none |
//! | `-p` with nobody attached | any | background | none |
//!
//! A call that repeats itself is asked about with the same attendance; see `doom` for its own prompt.

use askd_wire::{Action, Attendance, Choice, Class, OwnPrompt, RaiseAsk, RequesterKind, Subagent};
use serde_json::Map;

use crate::claude::AGENT;
use crate::claude::around::{Around, Front};
use crate::claude::child::Child;
use crate::claude::event::Event;
use crate::claude::grants;

/// What is asked, apart from who asks.
pub(crate) struct Subject {
    pub(crate) action: Action,
    pub(crate) class: Class,
    pub(crate) options: Vec<Choice>,
    /// The agent's own id of the call, where it is known.
    pub(crate) call: Option<String>,
    pub(crate) own_prompt: Option<OwnPrompt>,
    pub(crate) needs_own_prompt: bool,
}

impl Subject {
    /// A permission request. `call`: known only for a call that was asked about before. `Err` names what is missing.
    pub(crate) fn permission(
        event: &Event<'_>,
        front: Front,
        child: &Child,
        call: Option<String>,
    ) -> Result<Self, &'static str> {
        let tool = event.tool_name.clone().ok_or("tool_name")?;
        let input = event.tool_input.ok_or("tool_input")?;
        Ok(Self {
            action: Action {
                kind: kind(&tool).map(str::to_owned),
                tool,
                title: None,
                input: Some(input.to_owned()),
                cwd: event.cwd.clone(),
            },
            class: Class::Tool,
            options: grants::options(event.permission_suggestions.as_deref().unwrap_or_default()),
            call,
            own_prompt: own_prompt(event, front, child),
            needs_own_prompt: event.needs_own_prompt(),
        })
    }
}

/// The ask about `subject`. `key`: a nonce, since Claude gives a permission request no id.
pub(crate) fn raise(
    event: &Event<'_>,
    around: &Around,
    front: Front,
    child: &Child,
    subject: Subject,
    key: String,
    patience_secs: u64,
) -> RaiseAsk {
    RaiseAsk {
        key,
        action: subject.action,
        class: subject.class,
        attendance: attendance(event, front, child),
        agent: AGENT.to_owned(),
        session: event.session_id.clone(),
        parent: None,
        root: None,
        subagent: event.agent_id.clone().map(|work_id| Subagent {
            name: child.description.clone(),
            kind: event.agent_type.clone(),
            work_id,
            depth: child.spawn_depth,
        }),
        job: None,
        tool_call: subject.call,
        turn: event.prompt_id.clone(),
        session_title: None,
        options: subject.options,
        deadline_secs: None,
        gives_up_secs: Some(patience_secs),
        requester: RequesterKind::Hook,
        grace_secs: 0,
        instance: Some(around.instance.clone()),
        own_prompt: subject.own_prompt,
        needs_own_prompt: subject.needs_own_prompt,
        supersedes: None,
        place: around.place.clone(),
        extra: Map::new(),
    }
}

fn attendance(event: &Event<'_>, front: Front, child: &Child) -> Option<Attendance> {
    if front == (Front::Nobody { tty: false }) {
        return Some(Attendance::Background);
    }
    if event.agent_id.is_none() {
        return Some(Attendance::Foreground);
    }
    child.is_background().map(|yes| if yes { Attendance::Background } else { Attendance::Foreground })
}

fn own_prompt(event: &Event<'_>, front: Front, child: &Child) -> Option<OwnPrompt> {
    match front {
        Front::Terminal => {
            let blocked = event.agent_id.is_some() && child.is_background() != Some(false);
            Some(OwnPrompt { at: "terminal".to_owned(), blocked })
        }
        Front::Host => Some(OwnPrompt { at: "host".to_owned(), blocked: false }),
        Front::Nobody { .. } => None,
    }
}

/// What kind of tool it is, for display only.
pub fn kind(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" | "PowerShell" => Some("execute"),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Some("edit"),
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => Some("read"),
        "WebFetch" | "WebSearch" => Some("fetch"),
        _ => None,
    }
}
