//! What is held of a record weighs, all of it. The records are taken apart without `..`, so that a new part of one is not
//! forgotten here.

use serde_json::{Map, Value};

use crate::ask::{Action, Ask, Choice, Lineage, OwnPrompt, Place, Requester, Subagent};
use crate::command::Raise;
use crate::id::{Instance, Owner, SessionKey};
use crate::outcome::Outcome;

/// What every ask costs besides its texts, about.
const EACH: usize = 1024;

/// Bytes that an ask holds, about.
pub(super) fn of_ask(ask: &Ask) -> usize {
    let Ask {
        id: _,
        handle,
        key,
        digest: _,
        action,
        class: _,
        attendance: _,
        lineage,
        options,
        policy: _,
        requester,
        asked_at: _,
        gives_up_ms: _,
        extra,
    } = ask;
    let Requester { kind: _, token: _, instance, owner, grace_ms: _, own_prompt } = requester;
    let Lineage { session, root, parent, subagent, job, call, turn, place } = lineage;
    EACH + handle.0.len()
        + key.len()
        + of_action(action)
        + options.iter().map(of_choice).sum::<usize>()
        + of_map(extra)
        + of_key(session)
        + of_key(root)
        + parent.as_ref().map_or(0, of_key)
        + subagent.as_ref().map_or(0, of_subagent)
        + texts([job, call, turn])
        + place.as_ref().map_or(0, of_place)
        + who(instance.as_ref(), owner.as_ref(), own_prompt.as_ref())
}

/// Bytes that an ask of this will hold, as far as its requester says.
pub(super) fn of_raise(raise: &Raise) -> usize {
    let Raise {
        id: _,
        key,
        token: _,
        link: _,
        kind: _,
        action,
        class: _,
        attendance: _,
        session,
        parent,
        root: _,
        subagent,
        job,
        call,
        turn,
        // The session's.
        title: _,
        options,
        deadline_ms: _,
        gives_up_ms: _,
        grace_ms: _,
        instance,
        owner,
        own_prompt,
        needs_own_prompt: _,
        supersedes: _,
        place,
        extra,
    } = raise;
    EACH + key.len()
        + of_action(action)
        + options.iter().map(of_choice).sum::<usize>()
        + of_map(extra)
        + of_key(session)
        + parent.as_ref().map_or(0, of_key)
        + subagent.as_ref().map_or(0, of_subagent)
        + texts([job, call, turn])
        + place.as_ref().map_or(0, of_place)
        + who(instance.as_ref(), owner.as_ref(), own_prompt.as_ref())
}

/// What is held of how it ended.
pub(super) fn of_outcome(outcome: &Outcome) -> usize {
    let Outcome {
        kind: _,
        cause: _,
        source: _,
        surface,
        by,
        option,
        message,
        stop: _,
        at: _,
        after_ms: _,
        late_of: _,
    } = outcome;
    texts([surface, by, option, message])
}

pub(super) fn of_key(key: &SessionKey) -> usize {
    let SessionKey { agent, session } = key;
    agent.len() + session.len()
}

pub(super) fn of_subagent(subagent: &Subagent) -> usize {
    let Subagent { work_id, name, kind, depth: _, parent } = subagent;
    work_id.len() + texts([name, kind, parent])
}

pub(super) fn of_place(place: &Place) -> usize {
    let Place { tty, tmux_pane } = place;
    texts([tty, tmux_pane])
}

pub(super) fn of_instance(instance: &Instance) -> usize {
    let Instance { host, pid: _, start: _ } = instance;
    host.len()
}

pub(super) fn texts<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}

fn who(instance: Option<&Instance>, owner: Option<&Owner>, own_prompt: Option<&OwnPrompt>) -> usize {
    let owner = owner.map_or(0, |Owner { name, since: _ }| name.len());
    let own_prompt = own_prompt.map_or(0, |OwnPrompt { at, blocked: _ }| at.len());
    instance.map_or(0, of_instance) + owner + own_prompt
}

fn of_action(action: &Action) -> usize {
    let Action { tool, kind, title, input, cwd } = action;
    tool.len() + texts([kind, title, input, cwd])
}

fn of_choice(choice: &Choice) -> usize {
    let Choice { id, label, kind: _, grants, payload } = choice;
    size_of::<Choice>() + id.len() + label.len() + texts([grants]) + payload.as_ref().map_or(0, of_value)
}

fn of_map(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, value)| size_of::<String>() + key.len() + of_value(value)).sum()
}

fn of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(of_value).sum(),
            Value::Object(map) => of_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
