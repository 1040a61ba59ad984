//! From what requesters and adapters send to commands of the core.

use askd_core::ask::{
    Action, Attendance, Choice, ChoiceKind, Class, OwnPrompt, Place, RequesterKind, Subagent,
};
use askd_core::command::{Observe, Raise, Seen};
use askd_core::event::{CallInfo, SpawnSeen};
use askd_core::{AskId, Cause, Hash256, Instance, LinkId, SessionKey};
use askd_wire as wire;

use crate::peer;

/// What the daemon adds to a raise.
pub(crate) struct Arrival<'a> {
    pub(crate) id: AskId,
    pub(crate) token: Hash256,
    pub(crate) link: LinkId,
    pub(crate) host: &'a str,
    /// The process that asks.
    pub(crate) pid: u32,
}

/// Nobody waits for more than a year.
const LONGEST_SECS: u64 = 31_536_000;

pub(crate) fn raise(from: wire::RaiseAsk, arrival: &Arrival<'_>) -> Result<Raise, String> {
    for (name, secs) in [
        ("deadline_secs", from.deadline_secs),
        ("gives_up_secs", from.gives_up_secs),
        ("grace_secs", Some(from.grace_secs)),
    ] {
        if secs.is_some_and(|secs| secs > LONGEST_SECS) {
            return Err(format!("{name} is longer than a year ({LONGEST_SECS})"));
        }
    }
    let agent = from.agent;
    let key = |session: String| SessionKey { agent: agent.clone(), session };
    let instance = from.instance.and_then(|i| instance(i, arrival.host, arrival.pid));
    let supersedes = match from.supersedes {
        Some(id) => Some(id.parse().map_err(|_| "supersedes is not an ask id".to_owned())?),
        None => None,
    };
    Ok(Raise {
        id: arrival.id,
        key: from.key,
        token: arrival.token,
        link: arrival.link,
        kind: match from.requester {
            wire::RequesterKind::Hook => RequesterKind::Hook,
            wire::RequesterKind::Proxy => RequesterKind::Proxy,
            wire::RequesterKind::Library => RequesterKind::Library,
            wire::RequesterKind::Script => RequesterKind::Script,
            wire::RequesterKind::Spool => RequesterKind::Spool,
        },
        action: Action {
            tool: from.action.tool,
            kind: from.action.kind,
            title: from.action.title,
            input: from.action.input.map(|raw| raw.get().to_owned()),
            cwd: from.action.cwd,
        },
        class: match from.class {
            wire::Class::Tool => Class::Tool,
            wire::Class::Safety => Class::Safety,
        },
        attendance: from.attendance.map(|a| match a {
            wire::Attendance::Foreground => Attendance::Foreground,
            wire::Attendance::Background => Attendance::Background,
        }),
        session: key(from.session),
        parent: from.parent.map(key),
        subagent: from.subagent.map(|s| Subagent {
            work_id: s.work_id,
            name: s.name,
            kind: s.kind,
            depth: s.depth,
            parent: None,
        }),
        job: from.job,
        call: from.tool_call,
        turn: from.turn,
        title: from.session_title,
        options: from.options.into_iter().map(choice).collect(),
        deadline_ms: from.deadline_secs.map(|s| s.saturating_mul(1000)),
        gives_up_ms: from.gives_up_secs.map(|s| s.saturating_mul(1000)),
        grace_ms: from.grace_secs.saturating_mul(1000),
        place: place(from.place, instance.as_ref()),
        instance,
        own_prompt: from.own_prompt.map(|o| OwnPrompt { at: o.at, blocked: o.blocked }),
        needs_own_prompt: from.needs_own_prompt,
        supersedes,
        extra: from.extra,
    })
}

fn choice(from: wire::Choice) -> Choice {
    Choice {
        id: from.id,
        label: from.label,
        kind: match from.kind {
            wire::ChoiceKind::AllowOnce => ChoiceKind::AllowOnce,
            wire::ChoiceKind::AllowAlways => ChoiceKind::AllowAlways,
            wire::ChoiceKind::RejectOnce => ChoiceKind::RejectOnce,
            wire::ChoiceKind::RejectAlways => ChoiceKind::RejectAlways,
        },
        grants: from.grants,
        payload: from.payload,
    }
}

/// The agent process that a requester names. Whoever names a process says who may not answer, so it must be the
/// requester itself, one above it (a hook's agent, but nothing above that one) or one below it (the agent that a proxy started), and never the
/// first process; any other claim is left out.
fn instance(from: wire::Instance, host: &str, requester: u32) -> Option<Instance> {
    let start = peer::start_of(from.pid)?;
    if let Some(why) = peer::not_its_agent(from.pid, requester) {
        tracing::warn!("process {requester} names process {} as its agent, which {why}: left out", from.pid);
        return None;
    }
    let related = || peer::is_within(requester, from.pid) || peer::is_within(from.pid, requester);
    let right = from.pid > 1 && (from.start == 0 || from.start == start) && related();
    if !right {
        tracing::warn!(
            "process {requester} names process {} as its agent, which is neither above nor below it",
            from.pid
        );
    }
    right.then(|| Instance { host: host.to_owned(), pid: from.pid, start })
}

/// A hook has no terminal of its own; its agent has.
fn place(from: Option<wire::Place>, instance: Option<&Instance>) -> Option<Place> {
    let mut place = from.map(|p| Place { tty: p.tty, tmux_pane: p.tmux_pane }).unwrap_or_default();
    if place.tty.is_none() {
        place.tty = instance.and_then(|i| peer::terminal_of(i.pid));
    }
    (place != Place::default()).then_some(place)
}

pub(crate) fn observations(
    from: wire::ObservationBatch,
    host: &str,
    requester: u32,
) -> Result<Vec<Observe>, String> {
    let agent = from.agent;
    let key = |session: String| SessionKey { agent: agent.clone(), session };
    let instance = from.instance.and_then(|i| instance(i, host, requester));
    let about = Observe {
        session: key(from.session),
        parent: from.parent.map(key),
        title: from.session_title,
        place: place(from.place, instance.as_ref()),
        cwd: from.cwd,
        instance,
        seen: Seen::SessionStarted,
    };
    from.observations
        .into_iter()
        .map(|o| Ok(Observe { seen: seen(o, about.cwd.as_deref())?, ..about.clone() }))
        .collect()
}

fn seen(from: wire::Observation, cwd: Option<&str>) -> Result<Seen, String> {
    use wire::Observation as O;
    Ok(match from {
        O::SessionStarted {} => Seen::SessionStarted,
        O::SessionEnded {} => Seen::SessionEnded,
        O::SubagentStarted { work_id, kind, name, parent, call } => {
            Seen::SubagentStarted { work_id, kind, name, parent, call }
        }
        O::SubagentEnded { work_id } => Seen::SubagentEnded { work_id },
        O::CallStarted { call, tool, input_digest, input_json, batch, subagent, turn, spawn } => {
            let digest = match (input_digest, &input_json) {
                (Some(digest), _) => digest
                    .parse()
                    .map_err(|_| "input_digest must be \"sha256:\" and 64 hexadecimal digits".to_owned())?,
                (None, input) => {
                    let action = Action {
                        tool: tool.clone(),
                        kind: None,
                        title: None,
                        input: input.clone(),
                        cwd: cwd.map(str::to_owned),
                    };
                    action.digest()
                }
            };
            let spawn = spawn.map(|s| SpawnSeen {
                call: call.clone(),
                parent: subagent.clone(),
                name: s.name,
                kind: s.kind,
                background: s.background,
            });
            Seen::CallStarted { call, info: CallInfo { subagent, tool, digest }, batch, turn, spawn }
        }
        O::CallEnded { call, ok, subagent } => Seen::CallEnded { call, ok, subagent },
        O::TurnCancelled { subagent } => Seen::TurnCancelled { subagent },
        O::TurnEnded { subagent } => Seen::TurnEnded { subagent },
        O::OwnPromptAnswered { call, allowed } => Seen::OwnPromptAnswered { call, allowed },
    })
}

/// Causes that a requester may withdraw with.
pub(crate) fn withdrawal(cause: &str) -> Option<Cause> {
    [
        Cause::Cancelled,
        Cause::SessionEnded,
        Cause::Superseded,
        Cause::RequesterGone,
        Cause::RequesterLimit,
        Cause::HandedBack,
    ]
    .into_iter()
    .find(|c| c.name() == cause)
}
