//! Refusals of the core as whoever sent the command reads them.

use askd_core::Refusal;
use askd_wire::{Code, Problem};

use crate::view::Shot;

/// The refusal, with the ask as it is now where that tells who was first.
pub fn of(refusal: &Refusal, shot: Option<&Shot>) -> Problem {
    let (status, code) = match refusal {
        Refusal::UnknownAsk => (404, Code::UnknownAsk),
        Refusal::AlreadySettled(_) | Refusal::Late { .. } => (409, Code::AlreadySettled),
        Refusal::HandedBack { .. } => (409, Code::HandedBack),
        Refusal::DigestMismatch(_) => (412, Code::DigestMismatch),
        Refusal::OptionNotOffered { .. } => (422, Code::OptionNotOffered),
        Refusal::NotPermitted(_) => (403, Code::NotPermitted),
        Refusal::NotFullyShown(_) => (409, Code::NotFullyShown),
        Refusal::CapReached(_) => (429, Code::CapReached),
        Refusal::Malformed(_) => (400, Code::Malformed),
        Refusal::NotRecorded(_) => (503, Code::NotRecorded),
    };
    let detail = match refusal {
        // The title says which kind it is.
        Refusal::NotPermitted(why)
        | Refusal::Malformed(why)
        | Refusal::CapReached(why)
        | Refusal::NotRecorded(why) => why.clone(),
        other => other.to_string(),
    };
    let tells = matches!(
        code,
        Code::AlreadySettled | Code::HandedBack | Code::DigestMismatch | Code::OptionNotOffered
    );
    Problem {
        recorded: matches!(refusal, Refusal::Late { .. }).then(|| "late".to_owned()),
        ask: shot.filter(|_| tells).map(|shot| Box::new(shot.view())),
        ..new(status, code, &detail)
    }
}

/// A problem of this status and code; the detail is made safe to show.
pub fn new(status: u16, code: Code, detail: &str) -> Problem {
    Problem {
        kind: "about:blank".to_owned(),
        title: title(code).to_owned(),
        status,
        detail: Some(askd_text::safe(detail).text),
        code,
        recorded: None,
        ask: None,
    }
}

fn title(code: Code) -> &'static str {
    match code {
        Code::UnknownAsk => "unknown ask",
        Code::AlreadySettled => "already settled",
        Code::HandedBack => "handed back",
        Code::DigestMismatch => "digest mismatch",
        Code::OptionNotOffered => "option not offered",
        Code::NotPermitted => "not permitted",
        Code::NotFullyShown => "not fully shown",
        Code::CapReached => "cap reached",
        Code::Malformed => "malformed",
        Code::NotRecorded => "not recorded",
    }
}
