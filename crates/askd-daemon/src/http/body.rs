//! Request bodies with a size and a time limit, and plain JSON replies.

use std::time::Duration;

use askd_wire::Code;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Refused;

/// Largest body in bytes.
pub(crate) const MOST_BODY: usize = 16 * 1024 * 1024;
/// A body that is not there after this is given up.
const SLOW_BODY: Duration = Duration::from_secs(60);

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let bytes = read(request.into_body()).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Refused::malformed(format!("the body is not what this route takes: {error}")))
    }
}

async fn read(body: Body) -> Result<axum::body::Bytes, Refused> {
    let too_slow = |_| {
        let detail = format!("the body did not arrive within {}s", SLOW_BODY.as_secs());
        Refused::new(StatusCode::REQUEST_TIMEOUT, Code::Malformed, detail)
    };
    let collected = tokio::time::timeout(SLOW_BODY, Limited::new(body, MOST_BODY).collect()).await;
    match collected.map_err(too_slow)? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is larger than {MOST_BODY} bytes");
            Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, Code::Malformed, detail))
        }
        Err(error) => Err(Refused::malformed(format!("the body could not be read: {error}"))),
    }
}

/// A JSON reply.
pub(crate) fn reply(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            let detail = format!("the reply could not be written: {error}");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, Code::NotRecorded, detail).into_response()
        }
    }
}

/// 204.
pub(crate) fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
