//! From what requesters and adapters send to commands of the core.

use askd_core::ask::{Action, Place};
use askd_core::command::{Observe, Raise, Seen};
use askd_core::event::{CallInfo, SpawnSeen};
use askd_core::{AskId, Hash256, Instance, LinkId, Owner, SessionKey, Voice};
pub(crate) use askd_serve::raise::{decided, withdrawal};
use askd_wire as wire;

use crate::peer;

/// What the daemon adds to a raise.
pub(crate) struct Arrival<'a> {
    pub(crate) id: AskId,
    pub(crate) token: Hash256,
    pub(crate) link: LinkId,
    pub(crate) host: &'a str,
    /// Behind whom it stands.
    pub(crate) owner: Owner,
    /// The process that asks.
    pub(crate) pid: u32,
}

pub(crate) fn raise(from: wire::RaiseAsk, arrival: &Arrival<'_>) -> Result<Raise, String> {
    let instance = from.instance.clone().and_then(|named| match from.requester {
        wire::RequesterKind::Spool => forwarder(&named, arrival.host, arrival.pid),
        _ => instance(named, arrival.host, arrival.pid),
    });
    let place = place(from.place.clone(), instance.as_ref());
    let Arrival { id, token, link, .. } = *arrival;
    let owner = Some(arrival.owner.clone());
    askd_serve::raise::raise(from, askd_serve::raise::Arrival { id, token, link, instance, owner, place })
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

/// The process that asks through a forwarding directory, as whoever serves that found it. A file named it: it is kept
/// from answering this one ask and from loosening anything, and must be none that a person answers with.
fn forwarder(named: &wire::Instance, host: &str, server: u32) -> Option<Instance> {
    let pid = named.pid;
    let right = pid > 1 && peer::start_of(pid) == Some(named.start) && peer::is_own_users(pid);
    let above = peer::is_within(server, pid);
    (right && !above && !peer::is_persons(pid)).then(|| Instance {
        host: host.to_owned(),
        pid,
        start: named.start,
    })
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
    (by, owner): (Voice, Owner),
    host: &str,
    requester: u32,
) -> Result<Vec<Observe>, String> {
    let agent = from.agent;
    let key = |session: String| SessionKey { agent: agent.clone(), session };
    let instance = from.instance.and_then(|i| instance(i, host, requester));
    let about = Observe {
        by,
        owner: Some(owner),
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
            Seen::CallStarted {
                call,
                info: CallInfo { subagent, tool, digest, side: None },
                batch,
                turn,
                spawn,
            }
        }
        O::CallEnded { call, ok, subagent } => Seen::CallEnded { call, ok, subagent },
        O::TurnCancelled { subagent } => Seen::TurnCancelled { subagent },
        O::TurnEnded { subagent } => Seen::TurnEnded { subagent },
        O::OwnPromptAnswered { call, allowed } => Seen::OwnPromptAnswered { call, allowed },
        O::DecidedByAgent { call, allowed, by } => Seen::DecidedByAgent { call, allowed, by },
    })
}
