//! Claude's events as observations.
//!
//! | event | observation |
//! |---|---|
//! | SessionStart | session_started |
//! | PreToolUse | (of a child: subagent_started, with its origin) call_started, with `spawn` when it starts a child |
//! | PostToolUse, PostToolUseFailure | call_ended |
//! | Stop | turn_ended of the main thread; children may still be asking |
//! | SubagentStart, SubagentStop | subagent_started, subagent_ended |
//! | SessionEnd | session_ended |
//! | PostToolBatch | none: it ends a batch, see `thread` |
//! | PermissionRequest | none: it is an ask |

use askd_wire::{Observation, ObservationBatch, Spawn};

use crate::claude::AGENT;
use crate::claude::around::Around;
use crate::claude::child::Child;
use crate::claude::event::{Event, SpawnInput};

/// What the event tells; empty: nothing that askd needs. `running`: name of the batch that a call belongs to. `Err`
/// names what is missing in the event.
pub(crate) fn observations(
    event: &Event<'_>,
    child: &Child,
    running: Option<String>,
) -> Result<Vec<Observation>, &'static str> {
    let subagent = event.agent_id.clone();
    Ok(match event.hook_event_name.as_str() {
        "SessionStart" => vec![Observation::SessionStarted {}],
        "SessionEnd" => vec![Observation::SessionEnded {}],
        "Stop" => vec![Observation::TurnEnded { subagent }],
        "SubagentStart" => vec![started(event, child).ok_or("agent_id")?],
        "SubagentStop" => vec![Observation::SubagentEnded { work_id: subagent.ok_or("agent_id")? }],
        "PreToolUse" => {
            let tool = event.tool_name.clone().ok_or("tool_name")?;
            let call = event.tool_use_id.clone().ok_or("tool_use_id")?;
            // Only now is it known who started the child.
            let origin = child.tool_use_id.is_some().then(|| started(event, child)).flatten();
            let spawn = matches!(tool.as_str(), "Agent" | "Task").then(|| spawn(event));
            let call = Observation::CallStarted {
                call,
                tool,
                input_digest: None,
                input_json: event.tool_input.map(|input| input.get().to_owned()),
                batch: running,
                subagent,
                turn: event.prompt_id.clone(),
                spawn,
            };
            origin.into_iter().chain([call]).collect()
        }
        "PostToolUse" | "PostToolUseFailure" => vec![Observation::CallEnded {
            call: event.tool_use_id.clone().ok_or("tool_use_id")?,
            ok: event.hook_event_name == "PostToolUse",
            subagent,
        }],
        _ => Vec::new(),
    })
}

pub(crate) fn batch(event: &Event<'_>, around: &Around, observations: Vec<Observation>) -> ObservationBatch {
    ObservationBatch {
        agent: AGENT.to_owned(),
        session: event.session_id.clone(),
        parent: None,
        session_title: None,
        cwd: event.cwd.clone(),
        instance: Some(around.instance.clone()),
        place: around.place.clone(),
        observations,
    }
}

fn started(event: &Event<'_>, child: &Child) -> Option<Observation> {
    Some(Observation::SubagentStarted {
        work_id: event.agent_id.clone()?,
        kind: event.agent_type.clone(),
        name: child.description.clone(),
        parent: child.parent_agent_id.clone(),
        call: child.tool_use_id.clone(),
    })
}

fn spawn(event: &Event<'_>) -> Spawn {
    let input: SpawnInput =
        event.tool_input.and_then(|input| serde_json::from_str(input.get()).ok()).unwrap_or_default();
    Spawn {
        name: input.description,
        kind: input.subagent_type,
        background: input.run_in_background.unwrap_or(false),
    }
}
