//! `answer.sock`: what a person's surfaces may do. Whoever changes something is checked first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use askd_core::event::{Scope, SurfaceInfo};
use askd_core::{Command, Instance, Overrides, Refusal, SessionKey, SurfaceId};
use askd_wire as wire;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;

use crate::clock::{parse, rfc3339};
use crate::common::CommonShot;
use crate::engine::{SessionShot, Whose, surface_id};
use crate::history;
use crate::masked::Sight;
use crate::peer::Peer;
use crate::server::Connection;
use crate::view;

use super::body::{Json, an_ask, list as reply_list, nothing, reply};
use super::extract::{Path, Query};
use super::pages::Pages;
use super::problem::Refused;
use super::{App, Leave, answers, events, permissions as permission_routes, surfaces};
use crate::permissions;

/// Settled asks that a list shows at most, and entries of a log.
const MOST_LISTED: usize = 1000;
const MOST_LOGGED: usize = 10_000;
/// Longest reason of a surface that could not show an ask, in bytes.
const LONGEST_REASON: usize = 1024;
/// Longest name of a surface, and of somebody who answered elsewhere, in characters.
const LONGEST_NAME: usize = 40;
/// Largest state that a surface may keep, in bytes of JSON.
const LARGEST_STATE: usize = 256 * 1024;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/asks", get(list))
        .route("/v1/asks/{id}", get(show))
        .route("/v1/asks/{id}/answer", post(answers::one))
        .route("/v1/asks/{id}/withdraw", post(dismiss))
        .route("/v1/asks/{id}/late", axum::routing::delete(revoke_late))
        .route("/v1/answers", post(answers::all))
        .route("/v1/sessions", get(sessions))
        .route("/v1/log", get(log))
        .route("/v1/events", get(events::all))
        .route("/v1/surfaces", post(register))
        .route("/v1/surfaces/{id}/report", post(report))
        .route("/v1/permissions", get(permission_routes::show).patch(permission_routes::change))
        .route("/v1/permissions/command", post(permission_routes::command))
        .route("/v1/config/accept", post(accept))
        .route("/v1/daemon/stop", post(stop))
        .route("/v1/daemon/restart", post(restart))
        .route("/healthz", get(health))
}

#[derive(Debug, Deserialize)]
struct Listed {
    #[serde(default)]
    state: Option<String>,
    /// At most this many, the oldest first.
    limit: Option<usize>,
    /// Id of the registered surface that wants them.
    surface: Option<String>,
}

async fn list(State(app): State<App>, Query(query): Query<Listed>) -> Result<Response, Refused> {
    let sight = sight(&app, query.surface.as_deref())?;
    match query.state.as_deref() {
        None | Some("open") => {
            let mut open = app.engine.opened(Whose::Everybodys).await.ok_or_else(stopping)?.asks;
            open.truncate(query.limit.unwrap_or(usize::MAX));
            Pages::new(&app.engine, open).list(sight).await.map_err(|_| stopping())
        }
        Some("all") => {
            let now = app.clock.now();
            let most = query.limit.unwrap_or(MOST_LISTED).min(MOST_LISTED);
            let settled = read(&app, move |reader| history::asks(reader, most, now)).await?;
            let asks = settled.iter().map(|s| s.ask.ask.id).collect();
            let open = app.engine.still_open(asks).await.ok_or_else(stopping)?;
            // What is in memory knows more than the journal: links, and what rides in the next commit.
            let mut live: std::collections::BTreeMap<_, _> =
                open.into_iter().map(|s| (s.ask.ask.id, s)).collect();
            let asks = settled.into_iter().map(|s| live.remove(&s.ask.ask.id).unwrap_or(s)).collect();
            Ok(reply_list(asks, sight))
        }
        Some(other) => Err(Refused::malformed(format!("state {other:?} is neither open nor all"))),
    }
}

#[derive(Debug, Deserialize)]
struct Shown {
    #[serde(default)]
    wait: u64,
    /// Id of the registered surface that wants it.
    surface: Option<String>,
}

/// What a reader may see: all of it, unless it says that it is a surface on another machine.
pub(super) fn sight(app: &App, surface: Option<&str>) -> Result<Sight, Refused> {
    let Some(id) = surface else { return Ok(Sight::Full) };
    match registered_sight(app, id) {
        Some(sight) => Ok(sight),
        // One that this daemon does not know may be on another machine.
        None => Err(Refused::malformed(format!(
            "surface {id:?} is not registered with this daemon: POST /v1/surfaces first"
        ))),
    }
}

pub(super) fn registered_sight(app: &App, surface: &str) -> Option<Sight> {
    let remote = app.registered.lock().ok()?.get(surface)?.remote;
    Some(if remote { Sight::Masked } else { Sight::Full })
}

async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<Shown>,
) -> Result<Response, Refused> {
    let sight = sight(&app, query.surface.as_deref())?;
    let mut shot = look(&app, &id).await?;
    if query.wait > 0 && !crate::engine::is_over(&shot) {
        let span = std::time::Duration::from_secs(query.wait.min(3600));
        if let Ok(Some(after)) = tokio::time::timeout(span, app.engine.wait(shot.ask.ask.id)).await {
            shot = after;
        }
    }
    Ok(an_ask(&shot, sight))
}

/// A refusal with what names the agent that it speaks of: that may be wrong, and then somebody has to know what to take
/// down, and how.
pub(super) async fn explained(app: &App, connection: &Connection, why: String) -> String {
    let agents = app.engine.instances();
    let Some(peer) = connection.peer.as_ref().filter(|peer| peer.mark().is_none()) else { return why };
    let Some(agent) = peer.agent_above(&agents, &app.host) else { return why };
    let pid = agent.pid;
    match app.engine.namer_of(agent.clone()).await {
        Some(namer) => format!(
            "{why}; {namer} names process {pid} as its agent. A person answers from a terminal that is not below that; \
             deny, permissions that are stricter, and daemon stop and restart are for every shell that is typed into"
        ),
        None => why,
    }
}

/// A name as it is recorded. Some characters take no column, so these are counted.
pub(super) fn cut_name(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        None => name.to_owned(),
        Some(_) => name.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
    }
}

/// The name of a registered surface, or a plain one.
pub(super) fn surface_name(app: &App, given: Option<&str>) -> (String, bool) {
    let given = given.unwrap_or("command line");
    let registered = app.registered.lock().ok().and_then(|r| r.get(given).cloned());
    match registered {
        Some(info) => (info.name, info.remote),
        None => (cut_name(given), false),
    }
}

/// `closes`: to deny, to make stricter, to stop or to restart.
pub(super) fn refusal_of(
    peer: Option<&Peer>,
    agents: &BTreeSet<Instance>,
    host: &str,
    closes: bool,
) -> Option<String> {
    match peer {
        Some(peer) if closes => peer.refusal_to_close(agents, host),
        Some(peer) => peer.refusal(agents, host),
        None => Some("it is not known who is asking".to_owned()),
    }
}

/// For everything that is a person's to do.
pub(super) async fn person(app: &App, connection: &Connection) -> Result<(), Refused> {
    let why = refusal_of(connection.peer.as_ref(), &app.engine.instances(), &app.host, false);
    permitted(app, connection, why).await
}

/// For what makes askd stricter, stops or restarts it.
pub(super) async fn person_who_closes(app: &App, connection: &Connection) -> Result<(), Refused> {
    let why = refusal_of(connection.peer.as_ref(), &app.engine.instances(), &app.host, true);
    permitted(app, connection, why).await
}

/// For what may loosen: not for those either who ask through a forwarding directory, as far as they are known. A file
/// names them, which may name anybody: it never keeps a person from denying, tightening or stopping.
pub(super) async fn person_who_sets(app: &App, connection: &Connection) -> Result<(), Refused> {
    person(app, connection).await?;
    let forwarders = app.engine.forwarders().await;
    let mut named = forwarders.iter();
    let named = named.find_map(|(pid, handle)| connection.peer.as_ref()?.named_by(pid, handle, &app.host));
    permitted(app, connection, named).await
}

async fn permitted(app: &App, connection: &Connection, refusal: Option<String>) -> Result<(), Refused> {
    match refusal {
        None => Ok(()),
        Some(why) => {
            let told =
                app.tries.lock().ok().and_then(|mut tries| tries.tell("", &why, app.clock.now().boot_ms));
            if let Some(told) = told {
                tracing::warn!("refused: {told}");
                app.hub.send(crate::publish::What::Notice(format!("refused: {told}")));
            }
            let why = explained(app, connection, why).await;
            Err(Refused::from_refusal(&Refusal::NotPermitted(why), None))
        }
    }
}

async fn dismiss(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    person(&app, &connection).await?;
    let ask = look(&app, &id).await?.ask.ask.id;
    let done = app.engine.run(Command::Dismiss { ask, by: "you".to_owned() }).await;
    done.reply.map(|_| nothing()).map_err(|refusal| Refused::from_refusal(&refusal, done.shot.as_deref()))
}

async fn revoke_late(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    person(&app, &connection).await?;
    let ask = look(&app, &id).await?.ask.ask.id;
    let done = app.engine.run(Command::RevokeLate { ask, by: "you".to_owned() }).await;
    done.reply.map(|_| nothing()).map_err(|refusal| Refused::from_refusal(&refusal, done.shot.as_deref()))
}

async fn look(app: &App, id: &str) -> Result<CommonShot, Refused> {
    let found = app.engine.look(id).await.map_err(|refusal| Refused::from_refusal(&refusal, None))?;
    found.map(CommonShot::new).ok_or_else(Refused::unknown)
}

async fn sessions(State(app): State<App>) -> Response {
    let sessions: Vec<_> = app.engine.sessions().await.iter().map(session_view).collect();
    reply(StatusCode::OK, &sessions)
}

fn session_view(SessionShot { session, root }: &SessionShot) -> wire::SessionView {
    let info = &session.info;
    wire::SessionView {
        agent: info.key.agent.clone(),
        session: info.key.session.clone(),
        root: root.session.clone(),
        parent: info.parent.as_ref().map(|p| p.session.clone()),
        title: info.title.clone(),
        cwd: info.cwd.clone(),
        instance: info.instance.as_ref().map(ToString::to_string),
        place: info.place.as_ref().map(view::place),
        waiting: session.waiting,
        subagents: session.live_subagents().map(view::subagent).collect(),
        started_at: rfc3339(session.started.wall_ms),
        ended_at: session.ended_at.map(|at| rfc3339(at.wall_ms)),
    }
}

#[derive(Debug, Deserialize)]
struct LogQuery {
    since: Option<String>,
    #[serde(default)]
    after: u64,
    session: Option<String>,
    limit: Option<usize>,
}

async fn log(State(app): State<App>, Query(query): Query<LogQuery>) -> Result<Response, Refused> {
    let since = match query.since.as_deref().map(parse) {
        Some(Ok(ms)) => Some(ms),
        Some(Err(_)) => return Err(Refused::malformed("since must be an RFC 3339 time")),
        None => None,
    };
    let filter = history::Filter {
        since,
        after: query.after,
        session: query.session,
        limit: query.limit.unwrap_or(MOST_LOGGED).min(MOST_LOGGED),
    };
    let entries = read(&app, move |reader| history::log(reader, &filter)).await?;
    Ok(reply(StatusCode::OK, &entries))
}

/// Reads the journal beside the writer.
async fn read<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&dyn askd_journal::Reader) -> Result<T, askd_journal::JournalError> + Send + 'static,
) -> Result<T, Refused> {
    let reader = Arc::clone(&app.reader).lock_owned().await;
    let done = tokio::task::spawn_blocking(move || work(&**reader)).await;
    let failed = |why: String| Refused::from_refusal(&Refusal::NotRecorded(why), None);
    done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

async fn register(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(body): Json<wire::RegisterSurface>,
) -> Result<Response, Refused> {
    person(&app, &connection).await?;
    let mut roots = BTreeSet::new();
    let scope = match body.scope {
        wire::Scope::All => Scope::All,
        wire::Scope::Roots(list) => {
            for root in list {
                let Some((agent, session)) = root.split_once('/') else {
                    return Err(Refused::malformed("a root is named <agent>/<session>"));
                };
                roots.insert(SessionKey { agent: agent.to_owned(), session: session.to_owned() });
            }
            Scope::Roots(roots)
        }
    };
    if body.capacity == Some(0) {
        return Err(Refused::malformed("capacity must be above 0, or absent for any number"));
    }
    let info = SurfaceInfo {
        name: cut_name(&body.name),
        remote: body.kind == wire::SurfaceKind::Remote,
        scope,
        capacity: body.capacity,
    };
    let SurfaceId(id) = surface_id(app.surfaces.fetch_add(1, Ordering::Relaxed));
    let state = match info.remote {
        true => {
            let (name, wall_ms) = (info.name.clone(), app.clock.now().wall_ms);
            read(&app, move |reader| surfaces::kept(reader, &name, wall_ms)).await?
        }
        false => None,
    };
    if let Ok(mut registered) = app.registered.lock() {
        registered.insert(id.clone(), info);
    }
    Ok(reply(StatusCode::CREATED, &wire::Registered { surface: id, state }))
}

async fn report(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(surface): Path<String>,
    Json(body): Json<wire::SurfaceReport>,
) -> Result<Response, Refused> {
    person(&app, &connection).await?;
    // Only a surface that is there can have shown something or failed to.
    if !app.attached.is_attached(&surface) {
        return Err(Refused::malformed(format!(
            "surface {surface:?} is not attached: open GET /v1/events?surface=… first"
        )));
    }
    let (name, remote) = surface_name(&app, Some(&surface));
    let command = match body {
        wire::SurfaceReport::Shown { ask } => {
            Command::Shown { ask: look(&app, &ask).await?.ask.ask.id, surface: name, remote }
        }
        wire::SurfaceReport::Failed { ask, reason } => {
            if reason.len() > LONGEST_REASON {
                return Err(Refused::malformed(format!("reason is longer than {LONGEST_REASON} bytes")));
            }
            Command::SurfaceFailed { ask: look(&app, &ask).await?.ask.ask.id, surface: name, reason }
        }
        _ if !remote => return Err(Refused::malformed("only a surface of kind remote reports that")),
        wire::SurfaceReport::Polled => Command::RemotePolled { surface: SurfaceId(surface.clone()) },
        wire::SurfaceReport::Keep { state } => {
            if state.to_string().len() > LARGEST_STATE {
                return Err(Refused::malformed(format!("state is larger than {LARGEST_STATE} bytes")));
            }
            let surface = surfaces::stream_of(&name, app.clock.now().wall_ms);
            Command::KeepSurfaceState { surface, state }
        }
        wire::SurfaceReport::Trouble { text } => {
            app.remotes.report(&name, text, &app.hub);
            return Ok(nothing());
        }
    };
    let done = app.engine.run(command).await;
    let sight = sight(&app, Some(&surface)).unwrap_or_default();
    let shot = done.shot.as_deref();
    done.reply
        .map(|_| nothing())
        .map_err(|refusal| Refused::from_refusal(&refusal, shot).for_sight(sight, shot))
}

async fn accept(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Json(body): Json<wire::Loosening>,
) -> Result<Response, Refused> {
    person_who_sets(&app, &connection).await?;
    app.live.refresh(&app.engine, &app.hub).await;
    let same = |it: &wire::Loosening| it.key == body.key && it.value == body.value;
    if !app.live.waiting().iter().any(same) {
        let detail = format!("{} = {} does not wait for anybody", body.key, body.value);
        return Err(Refused::malformed(detail));
    }
    let accepted = app.live.accept((body.key, body.value), &app.engine, &app.hub).await;
    accepted.map_err(|refusal| Refused::from_refusal(&refusal, None))?;
    Ok(nothing())
}

async fn stop(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
) -> Result<Response, Refused> {
    person_who_closes(&app, &connection).await?;
    app.leave.send_replace(Some(Leave::Stop));
    Ok(nothing())
}

async fn restart(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
) -> Result<Response, Refused> {
    person_who_closes(&app, &connection).await?;
    app.leave.send_replace(Some(Leave::Restart));
    Ok(nothing())
}

#[derive(Debug, Deserialize)]
struct Of {
    /// `<agent>/<session>` of a root: only surfaces that show its asks are counted.
    root: Option<String>,
}

async fn health(State(app): State<App>, Query(of): Query<Of>) -> Result<Response, Refused> {
    let (mut health, overrides) = state(&app).await?;
    if let Some((agent, session)) = of.root.as_deref().and_then(|root| root.split_once('/')) {
        let root = SessionKey { agent: agent.to_owned(), session: session.to_owned() };
        let covering = app.registered.lock().map_or(0, |registered| {
            let shows = |(id, info): &(&String, &SurfaceInfo)| {
                info.scope.covers(&root) && app.attached.is_attached(id)
            };
            registered.iter().filter(shows).count()
        });
        health.surfaces = u32::try_from(covering).unwrap_or(u32::MAX);
    }
    health.notices.extend(overrides.iter().map(|(session, set)| permissions::notice(session.as_ref(), set)));
    Ok(reply(StatusCode::OK, &health))
}

/// For requesters: without what was set for the sessions of others.
pub(super) async fn health_for_requesters(State(app): State<App>) -> Result<Response, Refused> {
    let (health, _) = state(&app).await?;
    let health = wire::Health { skipping: wire::Skipping::default(), ..health };
    Ok(reply(StatusCode::OK, &health))
}

async fn state(app: &App) -> Result<(wire::Health, Vec<(Option<SessionKey>, Overrides)>), Refused> {
    app.live.refresh(&app.engine, &app.hub).await;
    app.live.look_again(app.remotes.telegram_fails());
    let counts = app.engine.counts().await.ok_or_else(stopping)?;
    let health = wire::Health {
        ok: counts.not_recorded.is_none(),
        pid: std::process::id(),
        version: wire::VERSION.to_owned(),
        api: wire::API_VERSION,
        open: counts.open,
        surfaces: counts.surfaces,
        journal: app.journal.clone(),
        not_recorded: counts.not_recorded,
        config_is_broken: app.live.is_broken(),
        waiting_loosenings: app.live.waiting(),
        reading: app.live.is_reading(),
        skipping: counts.skipping,
        notices: app.live.notices(),
        remotes: app.remotes.health(app.live.telegram(), |name| {
            app.registered.lock().is_ok_and(|registered| {
                registered.iter().any(|(id, info)| info.name == name && app.attached.is_attached(id))
            })
        }),
    };
    Ok((health, counts.overrides))
}

pub(super) fn stopping() -> Refused {
    Refused::from_refusal(&Refusal::NotRecorded("the daemon is stopping".to_owned()), None)
}
