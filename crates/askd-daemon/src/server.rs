//! Two Unix sockets, one connection task each, with limits on everything that a peer can make us hold.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use askd_core::{Command, LinkId, Owner};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

use crate::engine::Engine;
use crate::http::{self, Leave};
use crate::limit::Limits;
use crate::limits::Seats;
use crate::owner::Owners;
use crate::peer::{self, Peer};
use crate::socket::Socket;

/// Largest request head in bytes; hyper answers 431 beyond it.
const MOST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// A peer that does not finish its request head within this is cut off.
const SLOW_HEAD: Duration = Duration::from_secs(30);
/// Connections at a time on one socket. Neither socket may use up the descriptors that
/// the other one needs.
const MOST_CONNECTIONS: usize = 8192;
const OTHER_DESCRIPTORS: usize = 64;
/// Connections that are being told that they are too many; beyond, they are closed without a word.
const MOST_TURNED_AWAY: usize = 64;
const SLOW_TURNED_AWAY: Duration = Duration::from_secs(5);

/// One requester's or surface's connection. When the last holder lets go, its asks lose their link.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    /// Who connected; only for people's connections.
    pub(crate) peer: Option<Peer>,
    pub(crate) pid: u32,
    /// It may not answer, as far as was known when it connected.
    pub(crate) looks_on: bool,
    parent: OnceLock<Option<(u32, u64)>>,
    owner: Owner,
    engine: Engine,
}

impl Connection {
    /// What started the process that connected, looked at once.
    pub(crate) fn parent(&self) -> Option<(u32, u64)> {
        *self.parent.get_or_init(|| peer::parent_of(self.pid))
    }

    /// Behind whom that process stood when it connected.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.engine.tell(Command::LinkClosed { link: self.link });
    }
}

/// Who may connect and what is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Ask,
    Answer,
}

/// Connections that are open, on both sockets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traffic(Arc<()>);

impl Traffic {
    /// Returns when no connection is left, or when `patience` is over.
    pub(crate) async fn drained(self, patience: Duration) {
        let look = Duration::from_millis(5);
        let deadline = tokio::time::Instant::now() + patience;
        while Arc::strong_count(&self.0) > 1 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(look).await;
        }
    }
}

/// Accepts until the task is aborted.
pub(crate) async fn serve(
    listener: UnixListener,
    door: Door,
    router: Router,
    engine: Engine,
    traffic: Traffic,
    leaving: watch::Receiver<Option<Leave>>,
    owners: Arc<Owners>,
) {
    static LINKS: AtomicU64 = AtomicU64::new(1);
    let most = most_connections();
    let seats = Seats::new(most);
    // Whoever may not answer may look, and all of them together leave the most room to people.
    let onlookers = Arc::new(Semaphore::new(most.div_ceil(6)));
    let host = crate::start::host();
    let limits = Limits::default();
    let turned_away = Arc::new(Semaphore::new(MOST_TURNED_AWAY));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("accepting a connection: {error}");
                // Out of descriptors: trying again at once would only spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(pid) = ours(&stream) else { continue };
        // What the daemon's own process asks for is others' asks: its limits are those of their sessions.
        let pid = if door == Door::Ask && peer::is_guest(pid) { 0 } else { pid };
        // Looked at now: later the process may be gone and its number another's.
        let peer = (door == Door::Answer).then(|| Peer::look(pid));
        let looks_on =
            peer.as_ref().is_some_and(|peer| peer.refusal_to_close(&engine.instances(), &host).is_some());
        let bench = looks_on.then(|| Arc::clone(&onlookers).try_acquire_owned());
        let owner = owners.of(pid);
        let seat = match (&bench, seats.take(&owner)) {
            (Some(Err(_)), _) => Err(format!("all agents together have {} connections", most.div_ceil(6))),
            (_, Err(own)) => Err(format!("{owner} has {own} connections")),
            (_, Ok(seat)) => Ok(seat),
        };
        let seat = match seat {
            Ok(seat) => seat,
            Err(why) => {
                tracing::debug!("process {pid} is turned away: {why}");
                if let Ok(turn) = Arc::clone(&turned_away).try_acquire_owned() {
                    let router = http::no_seat_router(format!(
                        "{why} open on this socket, which is the limit for now; close some of them"
                    ));
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(SLOW_TURNED_AWAY, turn_away(stream, router)).await;
                        drop(turn);
                    });
                }
                continue;
            }
        };
        let connection = Connection {
            link: LinkId(LINKS.fetch_add(1, Ordering::Relaxed)),
            peer,
            pid,
            looks_on,
            parent: OnceLock::new(),
            owner,
            engine: engine.clone(),
        };
        let (router, traffic, leaving) = (router.clone(), traffic.clone(), leaving.clone());
        let limits = limits.clone();
        tokio::spawn(async move {
            match Socket::new(stream) {
                Ok(socket) => handle(socket, Arc::new(connection), router, limits, leaving).await,
                Err(error) => tracing::warn!("a connection that cannot be waited for: {error}"),
            }
            drop((seat, bench, traffic));
        });
    }
}

/// Each socket's share of the descriptors that this process may have.
fn most_connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let share = limit.map_or(MOST_CONNECTIONS, |limit| limit.saturating_sub(OTHER_DESCRIPTORS) / 2);
    share.clamp(1, MOST_CONNECTIONS)
}

async fn turn_away(stream: UnixStream, router: Router) {
    let service = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        hyper::service::Service::call(&service, request.map(Body::new))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let _ = served.await;
}

async fn handle(
    socket: Socket,
    connection: Arc<Connection>,
    router: Router,
    limits: Limits,
    mut leaving: watch::Receiver<Option<Leave>>,
) {
    let service = tower_service(router, connection);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(limits)
        .header_read_timeout(SLOW_HEAD)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(socket), service);
    let mut served = pin!(served);
    let served = tokio::select! {
        served = &mut served => served,
        // An idle connection ends now, one with a request under way after its reply.
        () = told(&mut leaving) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("connection: {error}");
    }
}

async fn told(leaving: &mut watch::Receiver<Option<Leave>>) {
    let _ = leaving.wait_for(Option::is_some).await;
}

/// The router, with the connection put into every request and the version of the API checked and told around it.
fn tower_service(
    router: Router,
    connection: Arc<Connection>,
) -> impl hyper::service::Service<
    hyper::Request<hyper::body::Incoming>,
    Response = axum::response::Response,
    Error = Infallible,
    Future = impl Send,
> {
    let inner = TowerToHyperService::new(router);
    hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request: Request = request.map(Body::new);
        let reply = match http::refusal_of_version(request.headers()) {
            Some(refused) => Err(refused),
            None => {
                request.extensions_mut().insert(Arc::clone(&connection));
                Ok(hyper::service::Service::call(&inner, request))
            }
        };
        async move {
            match reply {
                Ok(reply) => reply.await.map(http::with_version),
                Err(refused) => Ok(refused),
            }
        }
    })
}

/// The peer's process number, when it is this user's process.
fn ours(stream: &UnixStream) -> Option<u32> {
    let peer = stream.peer_cred().ok()?;
    let us = rustix::process::geteuid().as_raw();
    if peer.uid() != us {
        tracing::warn!("a process of user {} was turned away", peer.uid());
        return None;
    }
    u32::try_from(peer.pid().unwrap_or(0)).ok()
}
