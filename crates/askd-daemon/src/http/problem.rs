//! Refusals as RFC 9457 problem JSON.

use askd_core::Refusal;
use askd_serve::problem;
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
        Self(Box::new(problem::new(status.as_u16(), code, &detail.into())))
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::Malformed, detail)
    }

    pub(crate) fn unknown() -> Self {
        Self::from_refusal(&Refusal::UnknownAsk, None)
    }

    /// The core's refusal, with the ask as it is now.
    pub(crate) fn from_refusal(refusal: &Refusal, shot: Option<&Shot>) -> Self {
        Self(Box::new(problem::of(refusal, shot)))
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
