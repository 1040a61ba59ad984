//! Refusals as RFC 9457 problem JSON.

use askd_core::Refusal;
use askd_wire::{Code, Problem};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::masked::Sight;
use crate::view::Shot;

/// A request that was not done, with everything that its sender needs to know.
#[derive(Debug)]
pub(crate) struct Refused(Box<Problem>);

impl Refused {
    pub(crate) fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem {
            kind: "about:blank".to_owned(),
            title: title(code).to_owned(),
            status: status.as_u16(),
            detail: Some(askd_text::safe(&detail.into()).text),
            code,
            recorded: None,
            ask: None,
        }))
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::Malformed, detail)
    }

    pub(crate) fn unknown() -> Self {
        Self::from_refusal(&Refusal::UnknownAsk, None)
    }

    /// The core's refusal, with the ask as it is now.
    pub(crate) fn from_refusal(refusal: &Refusal, shot: Option<&Shot>) -> Self {
        let (status, code) = match refusal {
            Refusal::UnknownAsk => (StatusCode::NOT_FOUND, Code::UnknownAsk),
            Refusal::AlreadySettled(_) | Refusal::Late { .. } => (StatusCode::CONFLICT, Code::AlreadySettled),
            Refusal::HandedBack { .. } => (StatusCode::CONFLICT, Code::HandedBack),
            Refusal::DigestMismatch(_) => (StatusCode::PRECONDITION_FAILED, Code::DigestMismatch),
            Refusal::OptionNotOffered { .. } => (StatusCode::UNPROCESSABLE_ENTITY, Code::OptionNotOffered),
            Refusal::NotPermitted(_) => (StatusCode::FORBIDDEN, Code::NotPermitted),
            Refusal::NotFullyShown(_) => (StatusCode::CONFLICT, Code::NotFullyShown),
            Refusal::CapReached(_) => (StatusCode::TOO_MANY_REQUESTS, Code::CapReached),
            Refusal::Malformed(_) => (StatusCode::BAD_REQUEST, Code::Malformed),
            Refusal::NotRecorded(_) => (StatusCode::SERVICE_UNAVAILABLE, Code::NotRecorded),
        };
        let detail = match refusal {
            // The title says which kind it is.
            Refusal::NotPermitted(why)
            | Refusal::Malformed(why)
            | Refusal::CapReached(why)
            | Refusal::NotRecorded(why) => why.clone(),
            other => other.to_string(),
        };
        let mut refused = Self::new(status, code, detail);
        if matches!(refusal, Refusal::Late { .. }) {
            refused.0.recorded = Some("late".to_owned());
        }
        let tells = matches!(
            code,
            Code::AlreadySettled | Code::HandedBack | Code::DigestMismatch | Code::OptionNotOffered
        );
        refused.0.ask = shot.filter(|_| tells).map(|shot| Box::new(shot.view()));
        refused
    }

    /// The ask in it as a reader may see it.
    pub(crate) fn for_sight(mut self, sight: Sight, shot: Option<&Shot>) -> Self {
        if sight == Sight::Masked {
            self.0.ask = self.0.ask.and(shot).map(|shot| Box::new(shot.view_for(sight)));
        }
        self
    }

    pub(crate) fn into_problem(self) -> Problem {
        *self.0
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
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
