//! An ask in the shape that surfaces get from the daemon, for the shipped queue. Made of what was committed; the display
//! is the shipped one.

use askd_core::ask::{AtDeadline, Attendance, ChoiceKind, Class, RequesterKind};
use askd_core::{Ask, Decision, Outcome, OutcomeKind, Refusal};
use askd_wire as wire;
use serde_json::value::RawValue;

use crate::ledger::File;

/// The ask as it is by now.
pub(crate) fn of_file(file: &File) -> wire::Ask {
    let mut ask = of(&file.ask, file.handed_back.as_deref());
    if let Some(outcome) = &file.outcome {
        settle(&mut ask, outcome);
    }
    ask
}

/// An open ask.
pub(crate) fn of(ask: &Ask, handed_back: Option<&str>) -> wire::Ask {
    let action = &ask.action;
    let shown = askd_text::Action {
        tool: &action.tool,
        kind: action.kind.as_deref(),
        title: action.title.as_deref(),
        input: action.input.as_deref(),
        cwd: action.cwd.as_deref(),
    };
    let display = askd_text::display(&shown).into_iter().map(|field| wire::DisplayField {
        label: field.label,
        lines: field.lines,
        marked: field.marked,
        complete: field.complete,
    });
    let default = match ask.policy.at_deadline {
        AtDeadline::Answer(Decision::Allow) => Some(wire::Decision::Allow),
        AtDeadline::Answer(Decision::Deny) => Some(wire::Decision::Deny),
        AtDeadline::HandBack => None,
    };
    let at = |ms: u64| time(ask.asked_at.wall_plus(ms));
    wire::Ask {
        id: ask.id.to_string(),
        handle: ask.handle.to_string(),
        state: wire::AskState::Open,
        digest: ask.digest.to_string(),
        class: if ask.class == Class::Safety { wire::Class::Safety } else { wire::Class::Tool },
        attendance: match ask.attendance {
            Attendance::Foreground => wire::Attendance::Foreground,
            Attendance::Background => wire::Attendance::Background,
        },
        display: display.collect(),
        action: wire::Action {
            tool: action.tool.clone(),
            kind: action.kind.clone(),
            title: action.title.clone(),
            input: action.input.clone().and_then(|raw| RawValue::from_string(raw).ok()),
            cwd: action.cwd.clone(),
        },
        lineage: wire::Lineage {
            agent: ask.lineage.session.agent.clone(),
            session: ask.lineage.session.session.clone(),
            root: ask.lineage.root.session.clone(),
            ..wire::Lineage::default()
        },
        options: ask.options.iter().map(choice).collect(),
        asked_at: at(0),
        deadline: ask.policy.deadline_ms.map(at),
        default: default.filter(|_| ask.policy.deadline_ms.is_some()),
        gives_up_at: ask.gives_up_ms.map(at),
        requester: wire::Requester {
            link: if handed_back.is_some() { "handed_back" } else { "attached" }.to_owned(),
            since: None,
            until: None,
            at: handed_back.map(str::to_owned),
            kind: (ask.requester.kind == RequesterKind::Hook).then(|| "hook".to_owned()),
        },
        outcome: None,
        delivery: wire::Delivery::None,
        late: None,
    }
}

/// It is over.
pub(crate) fn settle(ask: &mut wire::Ask, outcome: &Outcome) {
    ask.state = wire::AskState::Settled;
    ask.outcome = Some(wire::Outcome {
        outcome: match outcome.kind {
            OutcomeKind::Allowed => wire::OutcomeKind::Allowed,
            OutcomeKind::Denied => wire::OutcomeKind::Denied,
            OutcomeKind::Withdrawn => wire::OutcomeKind::Withdrawn,
        },
        cause: outcome.cause.name().to_owned(),
        source: outcome.source.map(|source| source.name().to_owned()),
        surface: outcome.surface.clone(),
        by: outcome.by.clone(),
        option: outcome.option.clone(),
        message: outcome.message.clone(),
        stop: outcome.stop,
        settled_at: time(outcome.at.wall_ms),
        verdict: wire::Verdict::None,
        reason_for_model: None,
        text: askd_text::safe(&outcome.text()).text,
        extra: serde_json::Map::new(),
    });
}

/// Why an answer was refused, as the daemon says it.
pub(crate) fn problem(refusal: &Refusal, ask: Option<wire::Ask>) -> wire::Problem {
    let (status, code) = match refusal {
        Refusal::UnknownAsk => (404, wire::Code::UnknownAsk),
        Refusal::AlreadySettled(_) | Refusal::Late { .. } => (409, wire::Code::AlreadySettled),
        Refusal::HandedBack { .. } => (409, wire::Code::HandedBack),
        Refusal::DigestMismatch(_) => (412, wire::Code::DigestMismatch),
        Refusal::OptionNotOffered { .. } => (422, wire::Code::OptionNotOffered),
        Refusal::NotPermitted(_) => (403, wire::Code::NotPermitted),
        Refusal::NotFullyShown(_) => (409, wire::Code::NotFullyShown),
        Refusal::CapReached(_) => (429, wire::Code::CapReached),
        Refusal::Malformed(_) => (400, wire::Code::Malformed),
        Refusal::NotRecorded(_) => (503, wire::Code::NotRecorded),
    };
    wire::Problem {
        kind: "about:blank".to_owned(),
        title: "refused".to_owned(),
        status,
        detail: Some(refusal.to_string()),
        code,
        recorded: matches!(refusal, Refusal::Late { .. }).then(|| "late".to_owned()),
        ask: ask.map(Box::new),
    }
}

fn choice(choice: &askd_core::ask::Choice) -> wire::Choice {
    wire::Choice {
        id: choice.id.clone(),
        label: choice.label.clone(),
        kind: match choice.kind {
            ChoiceKind::AllowOnce => wire::ChoiceKind::AllowOnce,
            ChoiceKind::AllowAlways => wire::ChoiceKind::AllowAlways,
            ChoiceKind::RejectOnce => wire::ChoiceKind::RejectOnce,
            ChoiceKind::RejectAlways => wire::ChoiceKind::RejectAlways,
        },
        grants: choice.grants.clone(),
        payload: choice.payload.clone(),
    }
}

fn time(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).unwrap_or_default().to_string()
}
