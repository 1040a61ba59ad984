//! The HTTP API: thin translations between requests and commands.

mod answer_door;
mod answers;
mod ask_door;
mod body;
mod events;
mod extract;
mod pages;
mod permissions;
mod problem;
mod surfaces;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use askd_journal::Reader;
use askd_wire::{API_VERSION, Code, VERSION, VERSION_HEADER};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::{Mutex, watch};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::limits::{Rates, Seats};
use crate::origins::Origins;
use crate::publish::Hub;
use crate::settings::Live;
use crate::tries::Tries;

pub(crate) use askd_serve::ids::RandomIds;
use problem::Refused;
pub(crate) use surfaces::{Attachments, Remotes};

/// What every route can reach.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) host: String,
    pub(crate) live: Live,
    pub(crate) reader: Arc<Mutex<Box<dyn Reader>>>,
    pub(crate) journal: String,
    pub(crate) surfaces: AtomicU64,
    pub(crate) attached: Attachments,
    pub(crate) remotes: Remotes,
    pub(crate) rates: Rates,
    pub(crate) origins: Origins,
    /// Event streams that are open.
    pub(crate) streams: Seats,
    /// Refused attempts at what is a person's to do.
    pub(crate) tries: std::sync::Mutex<Tries>,
    /// Set once: why the daemon is to leave.
    pub(crate) leave: watch::Sender<Option<Leave>>,
    pub(crate) registered:
        std::sync::Mutex<std::collections::BTreeMap<String, askd_core::event::SurfaceInfo>>,
}

/// How the daemon goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// For good: agents with a prompt of their own get their asks back, and only a person starts it again.
    Stop,
    /// Requesters come back to the next one.
    Restart,
}

pub(crate) type App = Arc<Shared>;

/// Routes of `ask.sock`.
pub(crate) fn ask_router(app: App) -> Router {
    finish(ask_door::routes(), app)
}

/// Routes of `answer.sock`.
pub(crate) fn answer_router(app: App) -> Router {
    finish(answer_door::routes(), app)
}

/// For a connection more than its owner may have.
pub(crate) fn no_seat_router(limit: String) -> Router {
    Router::new().fallback(move || {
        let refused = Refused::new(StatusCode::TOO_MANY_REQUESTS, Code::CapReached, limit.clone());
        async move { ([(header::CONNECTION, "close")], refused) }
    })
}

fn finish(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(|request: Request| async move { unknown(&request) })
        .method_not_allowed_fallback(|request: Request| async move {
            let detail = format!("{} does not go with {}", request.method(), request.uri().path());
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, Code::Malformed, detail)
        })
        .with_state(app)
}

fn unknown(request: &Request) -> Refused {
    let path = request.uri().path();
    if path.ends_with("/answer") || path == "/v1/answers" {
        let detail = "answers are given on answer.sock, by a person".to_owned();
        return Refused::new(StatusCode::FORBIDDEN, Code::NotPermitted, detail);
    }
    Refused::new(StatusCode::NOT_FOUND, Code::Malformed, format!("there is no {path} on this socket"))
}

/// The reply to a program that is newer than this daemon: it may rely on what the daemon does not have.
pub(crate) fn refusal_of_version(headers: &HeaderMap) -> Option<Response> {
    let told = headers.get(VERSION_HEADER).map(|v| v.to_str().ok().and_then(|v| v.trim().parse().ok()));
    let refused = match told {
        None => return None,
        Some(Some(version)) if (1..=API_VERSION).contains(&version) => return None,
        Some(Some(version)) if version > API_VERSION => Refused::new(
            StatusCode::UPGRADE_REQUIRED,
            Code::Malformed,
            format!(
                "this daemon is askd {VERSION} and speaks API {API_VERSION}, the caller speaks API {version}: \
                     run `askd daemon restart` to start the upgraded daemon"
            ),
        ),
        Some(_) => {
            let detail = format!("{VERSION_HEADER} must be a whole number from 1");
            Refused::new(StatusCode::BAD_REQUEST, Code::Malformed, detail)
        }
    };
    Some(refused.into_response())
}

/// Says which version of the API every other reply is of.
pub(crate) fn with_version(mut response: Response) -> Response {
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from(API_VERSION));
    response
}
