//! `GET /v1/events`: snapshot, then stream, without a gap; `Last-Event-ID` resumes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use askd_core::event::SurfaceInfo;
use askd_core::id::StreamId;
use askd_core::{AskId, Hash256, Refusal, SessionKey, SurfaceId};
use askd_journal::Position;
use askd_wire::StreamEvent;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::backlog::Lagged;
use crate::engine::{Whose, is_over};
use crate::masked::Sight;
use crate::publish::{self, Ready};
use crate::server::Connection;
use crate::view::Shot;

use super::App;
use super::answer_door::person;
use super::ask_door::needed;
use super::extract::Query;
use super::pages::Pages;
use super::problem::Refused;

/// Pieces, and bytes of them, that wait for a slow reader before it is behind. One piece alone may have more.
const QUEUE: usize = 64;
const QUEUE_BYTES: usize = 256 * 1024;
/// A snapshot is sent in pieces of about this many bytes.
const PIECE: usize = 64 * 1024;
/// A stream that is further behind than this gets a snapshot instead of the events.
const MOST_RESUMED: u64 = 10_000;
/// Entries that are read from the journal at a time; each may hold 16 MiB.
const PAGE: usize = 32;
/// Asks that are over whose later events a surface with a capacity still gets.
const MOST_PAST: usize = 256;

#[derive(Debug, Deserialize)]
pub(super) struct Narrow {
    /// `<agent>/<session>` of a root; absent: all.
    root: Option<String>,
    /// Id of a registered surface, which is attached while the stream is open.
    surface: Option<String>,
    /// For a reader that is no surface: with secrets covered, as surfaces of kind remote get it.
    #[serde(default)]
    masked: bool,
}

/// Which events a stream gets.
enum Filter {
    All,
    /// `also`: asks that were shown here before their session was linked to another root; what becomes of them is told too.
    Root {
        root: String,
        also: BTreeSet<AskId>,
    },
    Own(Hash256),
    /// What a surface with a capacity holds: asks come when they get a slot, and stay until they are over.
    Slots {
        surface: SurfaceId,
        held: BTreeSet<AskId>,
        /// Asks that it held and that are over: what becomes of them is told too.
        past: VecDeque<AskId>,
    },
}

impl Filter {
    fn root(root: String) -> Self {
        Self::Root { root, also: BTreeSet::new() }
    }

    fn shows(&self, shot: &Shot) -> bool {
        match self {
            Self::All => true,
            Self::Root { root, also } => shot.root.to_string() == *root || also.contains(&shot.ask.ask.id),
            Self::Own(token) => shot.ask.ask.requester.token == *token,
            Self::Slots { held, past, .. } => {
                held.contains(&shot.ask.ask.id) || past.contains(&shot.ask.ask.id)
            }
        }
    }

    fn whose(&self) -> Whose {
        match self {
            Self::All => Whose::Everybodys,
            Self::Root { root, .. } => Whose::Roots(root.clone()),
            Self::Own(token) => Whose::Requesters(*token),
            Self::Slots { surface, .. } => Whose::Surfaces(surface.clone()),
        }
    }

    /// The event as this stream gets it, if it does.
    fn frame(&mut self, event: &Ready, sight: Sight) -> Passed {
        if let (Some(before), Some(shot)) = (&event.before, &event.shot) {
            return match self.moved(before, shot) {
                Moved::In => Passed::Frame(event.frame_for(sight)),
                Moved::Here => Passed::Frame(event.moved_for(sight)),
                Moved::Elsewhere => Passed::No,
            };
        }
        if self.passes(event) { Passed::Frame(event.frame_for(sight)) } else { Passed::No }
    }

    /// What it is to this stream that an ask belongs to the tree of another root now.
    fn moved(&mut self, before: &SessionKey, shot: &Shot) -> Moved {
        let Self::Root { root, also } = self else {
            return if self.shows(shot) { Moved::Here } else { Moved::Elsewhere };
        };
        let (was, is) = (before.to_string() == *root, shot.root.to_string() == *root);
        if was && !is {
            also.insert(shot.ask.ask.id);
            return Moved::Here;
        }
        match (is && !was, also.remove(&shot.ask.ask.id)) {
            (true, true) => Moved::Here,
            (true, false) => Moved::In,
            (false, _) => Moved::Elsewhere,
        }
    }

    fn passes(&mut self, event: &Ready) -> bool {
        if let Some(only) = &event.only {
            let Self::Slots { surface, held, .. } = self else { return false };
            return only == surface && event.shot.as_ref().is_some_and(|s| held.insert(s.ask.ask.id));
        }
        match (&*self, &event.shot, &event.root) {
            (_, Some(shot), _) => self.shows(shot),
            (_, None, _) if event.last => true,
            (Self::All, None, _) => true,
            (Self::Root { root, .. }, None, Some(of)) => of.to_string() == *root,
            (Self::Root { .. }, None, None) => true,
            (Self::Slots { .. }, None, root) => root.is_none(),
            (Self::Own(_), None, _) => false,
        }
    }
}

/// What comes of an event for one stream.
enum Passed {
    No,
    /// `None` inside: it could not be rendered.
    Frame(Option<Bytes>),
}

enum Moved {
    /// New for this stream.
    In,
    /// The stream has it.
    Here,
    Elsewhere,
}

/// For people's surfaces.
pub(super) async fn all(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    Query(narrow): Query<Narrow>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let from = resume_from(&headers)?;
    let Some(id) = narrow.surface else {
        let filter = narrow.root.map_or(Filter::All, Filter::root);
        let sight = if narrow.masked { Sight::Masked } else { Sight::Full };
        return open(app, &connection, filter, sight, None, from);
    };
    // Being attached counts as somebody being there.
    person(&app, &connection).await?;
    let Some(info) = app.registered.lock().ok().and_then(|r| r.get(&id).cloned()) else {
        return Err(Refused::malformed(format!(
            "surface {id:?} is not registered with this daemon: POST /v1/surfaces first"
        )));
    };
    let surface = SurfaceId(id);
    // Whatever is sent to another machine has its secrets covered.
    let sight = if info.remote { Sight::Masked } else { Sight::Full };
    match info.capacity {
        // Slots are given anew to a surface that comes back, so it begins with a snapshot.
        Some(_) => {
            let filter =
                Filter::Slots { surface: surface.clone(), held: BTreeSet::new(), past: VecDeque::new() };
            open(app, &connection, filter, sight, Some((surface, info)), None)
        }
        None => {
            let filter = narrow.root.map_or(Filter::All, Filter::root);
            open(app, &connection, filter, sight, Some((surface, info)), from)
        }
    }
}

/// For a requester: its own asks.
pub(super) async fn own(
    State(app): State<App>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let token = needed(&headers)?;
    open(app, &connection, Filter::Own(token), Sight::Full, None, resume_from(&headers)?)
}

fn resume_from(headers: &HeaderMap) -> Result<Option<Position>, Refused> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().and_then(|v| v.trim().parse().ok()) {
        Some(position) => Ok(Some(position)),
        None => Err(Refused::malformed("Last-Event-ID must be the id of an event of this stream")),
    }
}

fn open(
    app: App,
    connection: &Connection,
    filter: Filter,
    sight: Sight,
    surface: Option<(SurfaceId, SurfaceInfo)>,
    from: Option<Position>,
) -> Result<Response, Refused> {
    let seat = app.streams.take(connection.owner()).map_err(|own| {
        let owner = connection.owner();
        let limit =
            format!("{owner} has {own} event streams open, which is the limit for now; close some of them");
        Refused::from_refusal(&Refusal::CapReached(limit), None)
    })?;
    let (sender, receiver) = mpsc::channel::<Piece>(QUEUE);
    // Attached for as long as the stream's task lives, whatever ends it; the guard moves into the task.
    let attached = surface.map(|(surface, info)| app.attached.attach(&app.engine, surface, info));
    let room = Arc::new(Semaphore::new(QUEUE_BYTES));
    tokio::spawn(async move {
        let _held = (attached, seat);
        let _ = Stream { app, filter, sight, sender, room, position: 0 }.run(from).await;
    });
    // Its room is free again when the connection takes a piece.
    let pieces = ReceiverStream::new(receiver).map(|(bytes, _room)| Ok::<_, Infallible>(bytes));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Bytes for the reader, and the room that they take up until it has them.
type Piece = (Bytes, OwnedSemaphorePermit);

struct Stream {
    app: App,
    filter: Filter,
    sight: Sight,
    sender: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
    /// Everything up to here was sent.
    position: Position,
}

/// The reader is gone, or the daemon is.
struct Ended;

impl Stream {
    async fn run(mut self, from: Option<Position>) -> Result<(), Ended> {
        // Subscribed before the snapshot is taken: what happens in between comes in both and is dropped once.
        let mut events = self.app.hub.subscribe();
        match from {
            Some(from) => self.resume(from).await?,
            None => self.snapshot().await?,
        }
        loop {
            let event = tokio::select! {
                event = events.take() => event,
                () = self.sender.closed() => return Err(Ended),
            };
            match event {
                Ok(event) => self.pass(&event).await?,
                Err(Lagged) => self.begin_anew(self.position).await?,
            }
        }
    }

    /// Says that something was not kept for this reader, and everything that is open now.
    async fn begin_anew(&mut self, after: Position) -> Result<(), Ended> {
        self.write(publish::frame(None, &StreamEvent::Gap { after })).await?;
        self.snapshot().await
    }

    /// In pieces, each made when the reader has room for it.
    async fn snapshot(&mut self) -> Result<(), Ended> {
        let opened = self.app.engine.opened(self.filter.whose()).await.ok_or(Ended)?;
        self.position = opened.position;
        match &mut self.filter {
            Filter::Root { also, .. } => also.clear(),
            Filter::Slots { held, .. } => *held = opened.asks.iter().copied().collect(),
            Filter::All | Filter::Own(_) => {}
        }
        let mut piece = publish::snapshot_head(opened.position);
        let mut between = "";
        // What is over by the time when its turn comes is told as over behind this, and so is what was moved.
        let mut pages = Pages::new(&self.app.engine, opened.asks);
        while let Some(page) = pages.next().await.map_err(|_| Ended)? {
            for shot in page.iter().filter(|shot| self.filter.shows(shot)) {
                piece.push_str(between);
                between = ",";
                piece.push_str(&shot.json(self.sight));
                if piece.len() >= PIECE {
                    self.write(Some(std::mem::take(&mut piece).into())).await?;
                }
            }
        }
        piece.push_str(publish::SNAPSHOT_TAIL);
        self.write(Some(piece.into())).await
    }

    /// Sends what happened after `from`, each with the ask as it is now.
    async fn resume(&mut self, from: Position) -> Result<(), Ended> {
        let now = self.app.engine.position().await.ok_or(Ended)?;
        // Which asks are of a tree changes with the links in it, and entries do not say of which tree their ask was then.
        let moves = matches!(self.filter, Filter::Root { .. });
        if moves && from == now {
            return self.snapshot().await;
        }
        if moves || from > now || now - from > MOST_RESUMED {
            return self.begin_anew(from).await;
        }
        self.position = from;
        loop {
            let reader = Arc::clone(&self.app.reader).lock_owned().await;
            let after = self.position;
            let page = tokio::task::spawn_blocking(move || reader.feed(after, PAGE)).await;
            let Some(page) = page.ok().and_then(Result::ok) else { return self.begin_anew(after).await };
            let entries: Vec<_> = page.into_iter().filter(|e| e.position <= now).collect();
            // Places follow each other: what is not there was removed since, and may have been the end of an ask.
            let (first, last) = (entries.first().map(|e| e.position), entries.last().map(|e| e.position));
            let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
            let Some(last) = last.filter(|last| first == Some(after + 1) && *last == after + count) else {
                if after < now {
                    return self.begin_anew(after).await;
                }
                break;
            };
            let mut seen: BTreeMap<_, Option<Shot>> = BTreeMap::new();
            for entry in entries {
                let StreamId::Ask(id) = entry.stream else { continue };
                let shot = match seen.get(&id) {
                    Some(shot) => shot.clone(),
                    None => {
                        // What cannot be looked up now is not passed over: its reader comes back from where it was.
                        let shot = self.app.engine.look(&id.to_string()).await.map_err(|_| Ended)?;
                        seen.insert(id, shot.clone());
                        shot
                    }
                };
                if let Some(shot) = shot.filter(|s| self.filter.shows(s)) {
                    let what = entry.entry.event.name().to_owned();
                    let ask = Box::new(shot.view_for(self.sight));
                    let event = StreamEvent::Ask { position: entry.position, what, ask };
                    self.write(publish::frame(Some(entry.position), &event)).await?;
                }
            }
            self.position = last;
        }
        self.position = now;
        Ok(())
    }

    async fn pass(&mut self, event: &Ready) -> Result<(), Ended> {
        // 0: its place is not known; better twice than never.
        if event.position.is_some_and(|p| p != 0 && p <= self.position) {
            return Ok(());
        }
        if let Some(position) = event.position {
            self.position = self.position.max(position);
        }
        if let Passed::Frame(frame) = self.filter.frame(event, self.sight) {
            self.write(frame).await?;
        }
        if let (Filter::Root { also, .. }, Some(shot)) = (&mut self.filter, &event.shot)
            && is_over(shot)
        {
            also.remove(&shot.ask.ask.id);
        }
        if let (Filter::Slots { held, past, .. }, Some(shot)) = (&mut self.filter, &event.shot)
            && is_over(shot)
            && held.remove(&shot.ask.ask.id)
        {
            if past.len() >= MOST_PAST {
                past.pop_front();
            }
            past.push_back(shot.ask.ask.id);
        }
        if event.last { Err(Ended) } else { Ok(()) }
    }

    /// Waits until there is room; `None`: it could not be rendered.
    async fn write(&self, frame: Option<Bytes>) -> Result<(), Ended> {
        let frame = frame.ok_or(Ended)?;
        let bytes = u32::try_from(frame.len().min(QUEUE_BYTES)).map_err(|_| Ended)?;
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => room.map_err(|_| Ended)?,
            () = self.sender.closed() => return Err(Ended),
        };
        self.sender.send((frame, room)).await.map_err(|_| Ended)
    }
}
