//! From what a requester sends to the command of the core.

use askd_core::ask::{
    Action, Attendance, Choice, ChoiceKind, Class, OwnPrompt, Place, RequesterKind, Subagent,
};
use askd_core::command::{Command, Raise};
use askd_core::{AskId, Cause, Decision, Hash256, Instance, LinkId, Owner, SessionKey};
use askd_wire as wire;

/// What whoever takes an ask adds to it.
#[derive(Debug)]
pub struct Arrival {
    pub id: AskId,
    /// Hash of the requester's token.
    pub token: Hash256,
    pub link: LinkId,
    /// The agent's process, as far as the requester is believed.
    pub instance: Option<Instance>,
    /// Behind whom the requester stands; `None`: the host, which has everything to itself.
    pub owner: Option<Owner>,
    pub place: Option<Place>,
}

/// Nobody waits for more than a year.
const LONGEST_SECS: u64 = 31_536_000;

/// What would run, as the wire has it.
pub fn action(from: wire::Action) -> Action {
    let wire::Action { tool, kind, title, input, cwd } = from;
    Action { tool, kind, title, input: input.map(|raw| raw.get().to_owned()), cwd }
}

/// The command that raises this ask. `Err`: which of its numbers is wrong.
pub fn raise(from: wire::RaiseAsk, arrival: Arrival) -> Result<Raise, String> {
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
        action: action(from.action),
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
        root: from.root.map(key),
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
        place: arrival.place,
        instance: arrival.instance,
        owner: arrival.owner,
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

/// Causes that a requester may withdraw with.
pub fn withdrawal(cause: &str) -> Option<Cause> {
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

/// The command by which a requester tells what its own side decided.
pub fn decided(from: wire::DecidedAsk, ask: AskId, token: Hash256) -> Command {
    let decision = match from.decision {
        wire::Decision::Allow => Decision::Allow,
        wire::Decision::Deny => Decision::Deny,
    };
    Command::DecidedByAgent { ask, token, decision, by: from.by, went_on: from.went_on }
}
