//! A settled ask as what Claude reads on standard output.

use askd_wire::{Ask, Verdict};
use serde_json::value::RawValue;

use crate::claude::event::Event;
use crate::claude::grants;

/// The line to print; `None`: no opinion. The input goes back exactly as it came.
pub(crate) fn decision(event: &Event<'_>, ask: &Ask) -> Result<Option<String>, String> {
    let (Some(outcome), Some(input)) = (&ask.outcome, event.tool_input) else { return Ok(None) };
    // An outcome for other content than was asked about is no outcome.
    let same = Some(ask.action.tool.as_str()) == event.tool_name.as_deref()
        && ask.action.input.as_deref().map(RawValue::get) == Some(input.get());
    if !same {
        return Err("the daemon's outcome is for other content than was asked about".to_owned());
    }
    if event.needs_own_prompt() {
        return Ok(None);
    }
    let decision = match outcome.verdict {
        Verdict::None => return Ok(None),
        Verdict::Allow => {
            let suggestions = event.permission_suggestions.as_deref().unwrap_or_default();
            let permissions = match grants::chosen(outcome.option.as_deref(), suggestions) {
                Some(suggestion) => format!(",\"updatedPermissions\":[{}]", suggestion.get()),
                None => String::new(),
            };
            format!("{{\"behavior\":\"allow\",\"updatedInput\":{}{permissions}}}", input.get())
        }
        Verdict::Deny => {
            let message = outcome.reason_for_model.as_deref().unwrap_or(&outcome.text);
            let message = serde_json::to_string(message).map_err(|error| error.to_string())?;
            let interrupt = if outcome.stop { ",\"interrupt\":true" } else { "" };
            format!("{{\"behavior\":\"deny\",\"message\":{message}{interrupt}}}")
        }
    };
    Ok(Some(format!(
        "{{\"hookSpecificOutput\":{{\"hookEventName\":\"PermissionRequest\",\"decision\":{decision}}}}}\n"
    )))
}
