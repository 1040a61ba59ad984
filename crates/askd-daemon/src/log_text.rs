//! One line for people per journalled event.

use askd_core::Event;
use askd_core::outcome::duration;

use crate::view::text_action;

/// Columns for the action in a log line.
const ACTION_COLUMNS: usize = 120;

/// Safe to print: foreign text is marked.
pub(crate) fn text(event: &Event) -> String {
    let line = match event {
        Event::Asked { ask } => {
            // The summary is safe already; marking it again would mark its marks.
            return askd_text::summary_masked(&text_action(&ask.action), ACTION_COLUMNS);
        }
        Event::Shown { surface, .. } => format!("shown in {surface}"),
        Event::SurfaceFailed { surface, reason } => format!("could not be shown in {surface}: {reason}"),
        Event::Settled { outcome } | Event::Withdrawn { outcome } => match &outcome.message {
            Some(words) if !words.is_empty() && !outcome.cause.is_withdrawal() => {
                format!("{}: {words}", outcome.text())
            }
            _ => outcome.text(),
        },
        Event::LateRecorded { answer } => format!(
            "a late {} from {} is kept for {} in case the same call asks again",
            if answer.decision == askd_core::Decision::Allow { "allow" } else { "deny" },
            answer.surface,
            duration(answer.for_ms)
        ),
        Event::LateUsed { by } => format!("its answer was used by ask {by}"),
        Event::LateRevoked { reason } => format!("its kept answer is void: {reason}"),
        Event::Detached => "the requester's connection was lost; waiting for it to come back".to_owned(),
        Event::Reattached => "the requester came back".to_owned(),
        Event::HandedBack { at, why } => format!("handed back to the {at}: {why}"),
        Event::Handed => "handed to the agent".to_owned(),
        Event::Confirmed => "the agent acted on it".to_owned(),
        Event::Overtaken { seen } => format!("overtaken: {seen}"),
        Event::DeliveryRefused { reason } => format!("the agent did not take it: {reason}"),
        Event::Voided { why } => format!("void before it reached the agent: {why}"),
        Event::DeliveryExpired { why } => format!("never reached the agent: {why}"),
        Event::SelfAnswerRefused { surface, who } => format!("refused in {surface}: {who}"),
        Event::SessionStarted { session } => match &session.title {
            Some(title) => format!("session {} ({title})", session.key),
            None => format!("session {}", session.key),
        },
        Event::SessionEnded { why } => format!("session ended: {why}"),
        Event::SubagentStarted { subagent, background, .. } => format!(
            "subagent {}{}",
            subagent.name.as_deref().unwrap_or(&subagent.work_id),
            if *background { ", in the background" } else { "" }
        ),
        Event::SubagentEnded { work_id } => format!("subagent {work_id} ended"),
        Event::TurnCancelled { subagent: None } => "turn cancelled".to_owned(),
        Event::TurnCancelled { subagent: Some(child) } => format!("turn of subagent {child} cancelled"),
        Event::DaemonStarted { version } => format!("askd {version} started"),
        Event::LooseningAccepted { key, value, by } => format!("{key} = {value} accepted by {by}"),
        Event::LooseningDropped { key, value } => format!("{key} = {value} is no longer asked for"),
        Event::OverridesSet { overrides, by } => {
            format!("{by} set over the config: {}", crate::permissions::overrides_text(overrides))
        }
        Event::OverridesLifted { overrides, by } => {
            let what = crate::permissions::overrides_text(overrides);
            format!("{by} set something stricter for every session, no longer here: {what}")
        }
        Event::SurfaceState { .. } => "surface state".to_owned(),
    };
    askd_text::safe(&line).text
}
