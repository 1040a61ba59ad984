//! `ask.sock`: what requesters and adapters may do. Nothing here answers an ask or loosens a rule.

use std::sync::Arc;
use std::time::Duration;

use askd_core::outcome::Verdict;
use askd_core::{AskId, Cause, Command, Hash256, Refusal, Reply, Seen, SessionKey, Voice};
use askd_serve::ids::new_ask;
use askd_serve::raise::action;
use askd_wire::{DecidedAsk, DecidedByKey, LoopSeen, ObservationBatch, RaiseAsk, WithdrawAsk, WithdrawByKey};
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;

use crate::clock::{self, rfc3339};
use crate::common::CommonShot;
use crate::convert::{self, Arrival};
use crate::engine::{Done, is_over};
use crate::limits::{Kind, MOST_OBSERVATIONS};
use crate::masked::Sight;
use crate::origins::is_alive;
use crate::server::Connection;

use super::body::{Bulky, Json, an_ask, nothing, raised, reply};
use super::extract::{Path, Query};
use super::problem::Refused;
use super::{App, answer_door, events};

/// Longest held request; a longer wait is made of several.
const LONGEST_HOLD: Duration = Duration::from_secs(3600);

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/asks", post(raise).get(recall))
        .route("/v1/asks/withdraw", post(withdraw_by_key))
        .route("/v1/asks/{id}", get(look))
        .route("/v1/asks/{id}/withdraw", post(withdraw))
        .route("/v1/asks/decided", post(decided_by_key))
        .route("/v1/asks/{id}/decided", post(decided))
        .route("/v1/asks/{id}/handed", post(handed))
        .route("/v1/asks/{id}/confirmed", post(confirmed))
        .route("/v1/observations", post(observe))
        .route("/v1/events", get(events::own))
        .route("/healthz", get(answer_door::health_for_requesters))
}

#[derive(Debug, Deserialize)]
struct Wait {
    /// Seconds.
    #[serde(default)]
    wait: u64,
}

impl Wait {
    fn span(&self) -> Duration {
        Duration::from_secs(self.wait).min(LONGEST_HOLD)
    }
}

async fn raise(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
    Bulky(body, room): Bulky<RaiseAsk>,
) -> Result<Response, Refused> {
    app.live.refresh(&app.engine, &app.hub).await;
    let (token, minted) = match bearer(&headers)? {
        Some(token) => (token, None),
        None => {
            let token = mint()?;
            (token.clone(), Some(token))
        }
    };
    let hash = Hash256::of(token.as_bytes());
    let session = SessionKey { agent: body.agent.clone(), session: body.session.clone() };
    let owner = connection.owner();
    let who = (&session, owner, connection.pid);
    if let Err(limit) = app.rates.take(Kind::Raise, who, 1, clock::boot_ms()) {
        // Who comes back to an ask of its own makes nothing new. The same key with another content is another ask.
        let digest = action(body.action.clone()).digest();
        if !app.engine.comes_back(hash, body.key.clone(), digest).await {
            return Err(Refused::from_refusal(&Refusal::CapReached(limit), None));
        }
    }
    let arrival = Arrival {
        id: new_ask(app.clock.now().wall_ms).map_err(|error| no_randomness(&error))?,
        token: hash,
        link: connection.link,
        host: &app.host,
        owner: owner.clone(),
        pid: connection.pid,
    };
    let raise = convert::raise(body, &arrival).map_err(Refused::malformed)?;
    let unclaimed = raise.instance.is_none();
    let above = raise.parent.clone();
    let (Done { reply: result, shot }, over) = app.engine.run_and_wait(Command::Raise(Box::new(raise))).await;
    drop(room);
    let status = match result {
        Ok(Reply::Raised(_)) => StatusCode::CREATED,
        Ok(_) => StatusCode::OK,
        Err(refusal) => return Err(Refused::from_refusal(&refusal, shot.as_deref())),
    };
    if unclaimed && let Some(parent) = connection.parent() {
        for session in [Some(session), above].into_iter().flatten() {
            app.origins.raised(&session, parent, hash);
        }
    }
    let Some(shot) = shot else { return Err(Refused::unknown()) };
    let (shot, released) = hold(&app, shot, wait.span(), async { over.await.ok() }).await;
    Ok(raised(status, &shot, minted.as_deref(), released))
}

/// Waits until the ask is over or the span has passed. True: the daemon stops and will not answer any more.
async fn hold(
    app: &App,
    shot: CommonShot,
    span: Duration,
    over: impl Future<Output = Option<CommonShot>>,
) -> (CommonShot, bool) {
    if is_over(&shot) || span.is_zero() {
        told(app, &shot);
        return (shot, false);
    }
    let id = shot.ask.ask.id;
    let (shot, released) = match tokio::time::timeout(span, over).await {
        // One that is let go with its ask hears that, and no outcome.
        Ok(Some(after)) => {
            let stops = *app.leave.borrow() == Some(super::Leave::Stop);
            let let_go = stops && !after.ask.is_open() && after.ask.verdict() == Verdict::None;
            (after, let_go)
        }
        Ok(None) => {
            let leaving = *app.leave.borrow();
            match leaving {
                Some(super::Leave::Stop) => (shot, true),
                // The next daemon has the answer; the connection ends without one.
                Some(super::Leave::Restart) => std::future::pending().await,
                // The journal could not say more; the requester asks again.
                None => (shot, false),
            }
        }
        Err(_) => match app.engine.look(&id.to_string()).await {
            Ok(Some(now)) => (now.into(), false),
            Ok(None) | Err(_) => (shot, false),
        },
    };
    told(app, &shot);
    (shot, released)
}

/// What has nothing to hand over need not wait for its requester once that one is told.
fn told(app: &App, shot: &CommonShot) {
    if !shot.ask.is_open() && shot.ask.verdict() == Verdict::None {
        app.engine.tell(Command::Heard { ask: shot.ask.ask.id });
    }
}

#[derive(Deserialize)]
struct ByKey {
    key: String,
}

/// For a requester that was started anew and does not know the id. Nothing is asked by it.
async fn recall(
    State(app): State<App>,
    Query(by): Query<ByKey>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let token = needed(&headers)?;
    let ask = app.engine.of_requester(token, by.key).await.ok_or_else(Refused::unknown)?;
    Ok(an_ask(&own(&app, &ask.to_string(), &headers).await?, Sight::Full))
}

async fn look(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let shot = own(&app, &id, &headers).await?;
    let over = app.engine.wait(shot.ask.ask.id);
    let (shot, _) = hold(&app, shot, wait.span(), over).await;
    Ok(an_ask(&shot, Sight::Full))
}

async fn withdraw(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<WithdrawAsk>,
) -> Result<Response, Refused> {
    let cause = withdrawal(&body.cause)?;
    step(&app, &id, &headers, |ask, token| Command::Withdraw { ask, token, cause }).await
}

/// For a requester whose held request has not told it the id yet.
async fn withdraw_by_key(
    State(app): State<App>,
    headers: HeaderMap,
    Json(body): Json<WithdrawByKey>,
) -> Result<Response, Refused> {
    let cause = withdrawal(&body.cause)?;
    let token = needed(&headers)?;
    let ask = app.engine.of_requester(token, body.key).await.ok_or_else(Refused::unknown)?;
    step(&app, &ask.to_string(), &headers, |ask, token| Command::Withdraw { ask, token, cause }).await
}

async fn decided(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<DecidedAsk>,
) -> Result<Response, Refused> {
    step(&app, &id, &headers, |ask, token| convert::decided(body, ask, token)).await
}

async fn decided_by_key(
    State(app): State<App>,
    headers: HeaderMap,
    Json(body): Json<DecidedByKey>,
) -> Result<Response, Refused> {
    let token = needed(&headers)?;
    let ask = app.engine.of_requester(token, body.key).await.ok_or_else(Refused::unknown)?;
    step(&app, &ask.to_string(), &headers, |ask, token| convert::decided(body.decided, ask, token)).await
}

fn withdrawal(cause: &str) -> Result<Cause, Refused> {
    convert::withdrawal(cause).ok_or_else(|| {
        Refused::malformed(format!(
            "cause {cause:?} is none of cancelled, session_ended, superseded, requester_gone, requester_limit, handed_back"
        ))
    })
}

async fn handed(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    step(&app, &id, &headers, |ask, token| Command::Handed { ask, token }).await
}

async fn confirmed(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    step(&app, &id, &headers, |ask, token| Command::Confirmed { ask, token }).await
}

async fn step(
    app: &App,
    id: &str,
    headers: &HeaderMap,
    command: impl FnOnce(AskId, Hash256) -> Command,
) -> Result<Response, Refused> {
    let ask = id.parse().map_err(|_| Refused::unknown())?;
    let token = needed(headers)?;
    let Done { reply: result, shot } = app.engine.run(command(ask, token)).await;
    match result {
        Ok(_) => Ok(nothing()),
        Err(refusal) => {
            // What an ask is about is told to its own requester only.
            let own = shot.filter(|s| s.ask.ask.requester.token == token);
            Err(Refused::from_refusal(&refusal, own.as_deref()))
        }
    }
}

async fn observe(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    Bulky(body, _room): Bulky<ObservationBatch>,
) -> Result<Response, Refused> {
    if body.observations.len() > MOST_OBSERVATIONS {
        let limit = format!("more than {MOST_OBSERVATIONS} observations in one request; send several");
        return Err(Refused::from_refusal(&Refusal::CapReached(limit), None));
    }
    let session = SessionKey { agent: body.agent.clone(), session: body.session.clone() };
    let count = body.observations.len();
    let owner = connection.owner();
    app.rates
        .take(Kind::Observe, (&session, owner, connection.pid), count, clock::boot_ms())
        .map_err(|limit| Refused::from_refusal(&Refusal::CapReached(limit), None))?;
    let by = voice(&app, &session, &connection, &headers).await?;
    let seen = convert::observations(body, (by, owner.clone()), &app.host, connection.pid)
        .map_err(Refused::malformed)?;
    let mut repeated = None;
    for observation in seen {
        let call = match &observation.seen {
            Seen::CallStarted { call, .. } => call.clone(),
            _ => String::new(),
        };
        let done = app.engine.run(Command::Observe(Box::new(observation))).await;
        match done.reply {
            Ok(Reply::Loop(seen)) => {
                let since = rfc3339(seen.since.wall_ms);
                repeated = Some(LoopSeen { call, times: seen.times, since });
            }
            Ok(_) => {}
            Err(refusal) => return Err(Refused::from_refusal(&refusal, None)),
        }
    }
    Ok(repeated.map_or_else(nothing, |repeated| reply(StatusCode::OK, &repeated)))
}

/// For whom this process speaks when it tells something of a session, which may end or settle asks; for nobody, it is
/// not permitted.
async fn voice(
    app: &App,
    session: &SessionKey,
    connection: &Connection,
    headers: &HeaderMap,
) -> Result<Voice, Refused> {
    let token = bearer(headers)?.map(|token| Hash256::of(token.as_bytes()));
    let asked = app.engine.sides_of(session.clone()).await;
    // Ahead of the watch on processes: who goes on with the session is not the one that has ended.
    for instance in asked.waiting.iter().filter(|i| i.host == app.host && !is_alive(i, &app.host)) {
        app.engine.tell(Command::AgentGone { instance: instance.clone() });
    }
    let side = app.origins.side(session, (connection.pid, token), &asked, &app.host);
    side.map(Voice::Of).map_err(|why| Refused::from_refusal(&Refusal::NotPermitted(why), None))
}

async fn own(app: &App, id: &str, headers: &HeaderMap) -> Result<CommonShot, Refused> {
    let token = needed(headers)?;
    let shot = app.engine.look(id).await.map_err(|refusal| Refused::from_refusal(&refusal, None))?;
    shot.filter(|s| s.ask.ask.requester.token == token).map(CommonShot::new).ok_or_else(Refused::unknown)
}

pub(super) fn needed(headers: &HeaderMap) -> Result<Hash256, Refused> {
    let token = bearer(headers)?.ok_or_else(|| {
        Refused::from_refusal(&Refusal::NotPermitted("the requester's token is missing".to_owned()), None)
    })?;
    Ok(Hash256::of(token.as_bytes()))
}

/// The requester's token: at least 128 random bits, so at least 22 characters of base64 or 32 of hex.
fn bearer(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    const SHORTEST: usize = 22;
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|v| v.strip_prefix("Bearer ")).map(str::trim);
    match token {
        Some(token) if (SHORTEST..=256).contains(&token.len()) => Ok(Some(token.to_owned())),
        Some(_) => Err(Refused::malformed(format!(
            "the token must have 128 random bits or more, in {SHORTEST} to 256 characters"
        ))),
        None => Err(Refused::malformed("authorization must be \"Bearer\" and the requester's token")),
    }
}

fn mint() -> Result<String, Refused> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| no_randomness(&error))?;
    Ok(bits.iter().map(|b| format!("{b:02x}")).collect())
}

fn no_randomness(error: &getrandom::Error) -> Refused {
    Refused::from_refusal(&Refusal::NotRecorded(format!("no random bits: {error}")), None)
}
