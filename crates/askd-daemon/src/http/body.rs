//! Request bodies with a size and a time limit, and JSON replies. All bodies that are under way together have a limit
//! too, so that many large ones wait for each other instead of filling memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askd_wire::{AnswerReport, Code, Problem};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::common::CommonShot;
use crate::masked::Sight;
use crate::server::Connection;
use crate::view::Shot;

use super::problem::Refused;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Largest body in bytes.
pub(crate) const MOST_BODY: usize = 16 * MIB;
/// A body that is not there after this is given up.
const SLOW_BODY: Duration = Duration::from_secs(60);
/// All bodies above [`SMALL`] that are being read, or whose request is not done yet, in bytes.
const MOST_UNDER_WAY: usize = 64 * MIB;
const SMALL: usize = 16 * KIB;
/// What is read of a body that is too large, so that its sender gets to read why it is refused.
const MOST_DRAINED: u64 = 64 * MIB as u64;
const SLOW_DRAIN: Duration = Duration::from_secs(10);
/// A list that holds more than this is rendered as it is sent.
const LARGE_LIST: usize = MIB;

static ROOM: Semaphore = Semaphore::const_new(MOST_UNDER_WAY / KIB);
/// People's requests have room of their own: no requester can make them wait.
static PEOPLES_ROOM: Semaphore = Semaphore::const_new(MOST_UNDER_WAY / KIB);

/// The room that a large body takes up; given back when it is dropped.
pub(crate) type Room = Option<SemaphorePermit<'static>>;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

/// The same, with its room: for what is held until it is recorded.
pub(crate) struct Bulky<T>(pub(crate) T, pub(crate) Room);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        Bulky::from_request(request, state).await.map(|Bulky(value, _)| Self(value))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Bulky<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let (bytes, room) = read(request).await?;
        serde_json::from_slice(&bytes)
            .map(|value| Self(value, room))
            .map_err(|error| Refused::malformed(format!("the body is not what this route takes: {error}")))
    }
}

async fn read(request: Request) -> Result<(Vec<u8>, Room), Refused> {
    // Whoever waits for a go-ahead sends nothing that would have to be read first.
    let waits = request.headers().contains_key(header::EXPECT);
    let connection = request.extensions().get::<Arc<Connection>>();
    let all = if connection.is_some_and(|c| c.peer.is_some()) { &PEOPLES_ROOM } else { &ROOM };
    let looks_on = connection.is_some_and(|c| c.looks_on);
    let mut body = request.into_body();
    let size = body.size_hint();
    if looks_on && size.exact().is_none_or(|size| size > SMALL as u64) {
        if !waits {
            drain(&mut body).await;
        }
        return Err(looks_on_only());
    }
    if size.lower() > MOST_BODY as u64 {
        if !waits {
            drain(&mut body).await;
        }
        return Err(too_large());
    }
    let size = size.exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(MOST_BODY);
    let room = if size > SMALL { Some(room(all, size).await?) } else { None };
    match timeout(SLOW_BODY, collect(&mut body, size)).await {
        Ok(Ok(Some(bytes))) => Ok((bytes, room)),
        Ok(Ok(None)) => {
            drain(&mut body).await;
            Err(too_large())
        }
        Ok(Err(error)) => Err(Refused::malformed(format!("the body could not be read: {error}"))),
        Err(_) => {
            let detail = format!("the body did not arrive within {}s", SLOW_BODY.as_secs());
            Err(Refused::new(StatusCode::REQUEST_TIMEOUT, Code::Malformed, detail))
        }
    }
}

async fn room(all: &'static Semaphore, size: usize) -> Result<SemaphorePermit<'static>, Refused> {
    let units = u32::try_from(size.div_ceil(KIB)).unwrap_or(u32::MAX);
    match timeout(SLOW_BODY, all.acquire_many(units)).await {
        Ok(Ok(room)) => Ok(room),
        _ => {
            let detail = format!(
                "requests that are under way hold {} MiB, which is the limit, and none of them was done within {}s; \
                 try again later",
                MOST_UNDER_WAY / MIB,
                SLOW_BODY.as_secs()
            );
            Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, Code::CapReached, detail))
        }
    }
}

/// The whole body; `None`: it is too large.
async fn collect(body: &mut Body, size: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut bytes = Vec::with_capacity(size.min(SMALL));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > MOST_BODY {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

/// Reads and throws away, within limits.
async fn drain(body: &mut Body) {
    let mut left = MOST_DRAINED;
    let _ = timeout(SLOW_DRAIN, async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    })
    .await;
}

/// Whoever may not answer takes none of the room of those who may.
fn looks_on_only() -> Refused {
    let detail =
        format!("an agent, or what it started, may not answer, and sends no more than {SMALL} bytes here");
    Refused::new(StatusCode::FORBIDDEN, Code::NotPermitted, detail)
}

fn too_large() -> Refused {
    let detail = format!("the body is larger than {MOST_BODY} bytes ({} MiB); send less", MOST_BODY / MIB);
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, Code::Malformed, detail)
}

/// A JSON reply.
pub(crate) fn reply(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => not_written(&error.to_string()),
    }
}

fn not_written(why: &str) -> Response {
    unwritten(why).into_response()
}

fn unwritten(why: &str) -> Refused {
    let detail = format!("the reply could not be written: {why}");
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, Code::NotRecorded, detail)
}

/// Why an ask cannot be shown that is no JSON.
pub(crate) fn not_json() -> Refused {
    unwritten("it is no JSON")
}

/// An ask as its reader may see it.
pub(crate) fn an_ask(shot: &CommonShot, sight: Sight) -> Response {
    match shot.json(sight) {
        Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        None => not_json().into_response(),
    }
}

/// The reply to an ask that was raised, as [`askd_wire::Raised`] would be written.
pub(crate) fn raised(status: StatusCode, shot: &CommonShot, token: Option<&str>, released: bool) -> Response {
    let Some(json) = shot.json(Sight::Full) else { return not_json().into_response() };
    (status, [(header::CONTENT_TYPE, "application/json")], raised_json(&json, token, released))
        .into_response()
}

fn raised_json(ask: &[u8], token: Option<&str>, released: bool) -> Vec<u8> {
    let token = token.map(|token| format!(",\"token\":{}", Value::from(token))).unwrap_or_default();
    let rest = format!("{token},\"released\":{released}}}");
    [b"{\"ask\":", ask, rest.as_bytes()].concat()
}

/// What came of one answer of several.
pub(crate) enum Report {
    /// The ask as JSON, as whoever answered may see it.
    Answered {
        id: String,
        ask: Bytes,
    },
    Refused {
        id: String,
        problem: Box<Problem>,
    },
}

/// The reply to several answers, as an array of [`AnswerReport`] would be written: the asks in it were rendered for
/// everybody who hears of them.
pub(crate) fn report_all(reports: Vec<Report>) -> Response {
    match reports_json(reports) {
        Ok(body) => (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => not_written(&error.to_string()),
    }
}

fn reports_json(reports: Vec<Report>) -> serde_json::Result<Vec<u8>> {
    const AROUND: usize = 96;
    let size = |report: &Report| match report {
        Report::Answered { id, ask } => AROUND + id.len() + ask.len(),
        Report::Refused { id, .. } => 4 * AROUND + id.len(),
    };
    let mut json = Vec::with_capacity(2 + reports.iter().map(size).sum::<usize>());
    json.push(b'[');
    for report in reports {
        if json.len() > 1 {
            json.push(b',');
        }
        match report {
            Report::Answered { id, ask } => {
                json.extend_from_slice(b"{\"id\":");
                serde_json::to_writer(&mut json, &id)?;
                json.extend_from_slice(b",\"status\":200,\"ask\":");
                json.extend_from_slice(&ask);
                json.push(b'}');
            }
            Report::Refused { id, problem } => {
                let status = problem.status;
                let report = AnswerReport { id, status, ask: None, problem: Some(*problem) };
                serde_json::to_writer(&mut json, &report)?;
            }
        }
    }
    json.push(b']');
    Ok(json)
}

/// An array of asks as their reader may see them. A large one is rendered ask by ask, as its reader takes it.
pub(crate) fn list(shots: Vec<Shot>, sight: Sight) -> Response {
    let size = shots.iter().map(|shot| shot.ask.ask.action.input.as_ref().map_or(0, String::len));
    if size.sum::<usize>() <= LARGE_LIST {
        let asks: Vec<_> = shots.iter().map(|shot| shot.view_for(sight)).collect();
        return reply(StatusCode::OK, &asks);
    }
    let pieces = shots.into_iter().enumerate().map(move |(n, shot)| {
        let before = if n == 0 { '[' } else { ',' };
        Ok::<_, Infallible>(format!("{before}{}", shot.json(sight)))
    });
    let body = Body::from_stream(tokio_stream::iter(pieces.chain([Ok("]".to_owned())])));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// 204.
pub(crate) fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {
    use askd_wire::Raised;

    use super::*;

    #[test]
    fn reports_around_asks_are_the_reports_at_once() {
        let shot = crate::common::of_test();
        let refused = || Refused::malformed("no \"digest\"").into_problem();
        let reports = [("a \"name\"", true), ("other", false), ("third", true)];
        let whole: Vec<_> = reports
            .map(|(id, answered)| AnswerReport {
                id: id.to_owned(),
                status: if answered { 200 } else { refused().status },
                ask: answered.then(|| shot.view_for(Sight::Masked)),
                problem: (!answered).then(refused),
            })
            .into();
        let pieces = reports.map(|(id, answered)| match answered {
            true => Report::Answered { id: id.to_owned(), ask: shot.json(Sight::Masked).unwrap() },
            false => Report::Refused { id: id.to_owned(), problem: Box::new(refused()) },
        });
        assert_eq!(reports_json(pieces.into()).unwrap(), serde_json::to_vec(&whole).unwrap());
        assert_eq!(reports_json(Vec::new()).unwrap(), b"[]");
    }

    #[test]
    fn a_reply_around_an_ask_is_the_reply_at_once() {
        let shot = crate::common::of_test();
        let json = shot.json(Sight::Full).unwrap();
        for (token, released) in [(None, false), (Some("a \"token\""), true)] {
            let whole = Raised { ask: shot.view(), token: token.map(str::to_owned), released };
            assert_eq!(raised_json(&json, token, released), serde_json::to_vec(&whole).unwrap());
        }
    }
}
