//! Events on their way to surfaces: made once, in order, for every stream that is open.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use askd_core::{SessionKey, SurfaceId};
use askd_wire::StreamEvent;
use axum::body::Bytes;
use tokio::sync::mpsc;

use crate::backlog::{Backlog, Taker};
use crate::common::CommonShot;
use crate::masked::{self, Sight};

/// Most bytes of asks that wait to be made into events.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// Something that surfaces hear of.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) what: What,
    weight: usize,
}

/// The writer thread's way to the hub; it never waits and never holds more than [`MOST_WAITING`].
#[derive(Debug)]
pub(crate) struct Outlet {
    queue: mpsc::UnboundedSender<Published>,
    waiting: Arc<AtomicUsize>,
}

/// The hub's end of it.
#[derive(Debug)]
pub(crate) struct Inlet {
    queue: mpsc::UnboundedReceiver<Published>,
    waiting: Arc<AtomicUsize>,
}

/// A way from the writer thread to the hub.
pub(crate) fn outlet() -> (Outlet, Inlet) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Outlet { queue: sender, waiting: Arc::clone(&waiting) }, Inlet { queue: receiver, waiting })
}

impl Outlet {
    pub(crate) fn send(&self, what: What) {
        let weight = what.weight();
        let waiting = self.waiting.fetch_add(weight, Ordering::Relaxed);
        let what = if weight > 0 && waiting > 0 && waiting.saturating_add(weight) > MOST_WAITING {
            What::Lost
        } else {
            what
        };
        let _ = self.queue.send(Published { what, weight });
    }
}

#[derive(Debug)]
pub(crate) enum What {
    Ask {
        position: u64,
        what: &'static str,
        shot: CommonShot,
    },
    /// A surface with a capacity got a free slot for this ask.
    Slot {
        surface: SurfaceId,
        shot: CommonShot,
    },
    /// An open ask belongs to the tree of another root than before: for streams of that tree it is new, to others that
    /// have it its root is told.
    Moved {
        before: SessionKey,
        shot: CommonShot,
    },
    Waiting {
        session: SessionKey,
        root: SessionKey,
        waiting: u32,
    },
    Notice(String),
    /// The machine was suspended.
    Woke,
    /// There was more than could be told; streams begin anew.
    Lost,
    Bye {
        restart: bool,
    },
}

impl What {
    /// Bytes of the ask in it, when they are many.
    fn weight(&self) -> usize {
        const SMALL: usize = 16 * 1024;
        match self {
            Self::Ask { shot, .. } | Self::Slot { shot, .. } | Self::Moved { shot, .. } => {
                let input = shot.input_bytes();
                if input > SMALL { input } else { 0 }
            }
            Self::Waiting { .. } | Self::Notice(_) | Self::Woke | Self::Lost | Self::Bye { .. } => 0,
        }
    }
}

/// An event as streams send it, with what a stream filters by.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) position: Option<u64>,
    /// The whole event as it goes over the wire.
    pub(crate) frame: Bytes,
    /// The same for remote surfaces, made when the first of them needs it; `None` inside: it could not be made.
    masked: OnceLock<Option<Bytes>>,
    /// What happened to the ask.
    what: &'static str,
    /// The words of a notice.
    notice: Option<String>,
    /// Requester and root of the ask, for streams that do not see all.
    pub(crate) shot: Option<CommonShot>,
    pub(crate) root: Option<SessionKey>,
    /// The root of whose tree the ask was until now.
    pub(crate) before: Option<SessionKey>,
    /// For this surface's stream only.
    pub(crate) only: Option<SurfaceId>,
    pub(crate) last: bool,
}

impl Ready {
    /// The event as a reader may see it.
    pub(crate) fn frame_for(&self, sight: Sight) -> Option<Bytes> {
        match sight {
            Sight::Full => Some(self.frame.clone()),
            Sight::Masked => self.masked.get_or_init(|| self.masked()).clone(),
        }
    }

    /// For a reader that has the ask already: it belongs to another tree now.
    pub(crate) fn moved_for(&self, sight: Sight) -> Option<Bytes> {
        frame_of(None, "moved", self.shot.as_ref()?, sight)
    }

    fn masked(&self) -> Option<Bytes> {
        match (&self.shot, &self.notice) {
            (Some(shot), _) => frame_of(self.position, self.what, shot, Sight::Masked),
            // Of the events without an ask only a notice has words of others.
            (None, Some(text)) => {
                frame(self.position, &StreamEvent::Notice { text: masked::cover_safe(text) })
            }
            (None, None) => Some(self.frame.clone()),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_test(position: u64, bytes: usize) -> Self {
        Self {
            position: Some(position),
            frame: vec![b'x'; bytes].into(),
            masked: OnceLock::new(),
            what: "",
            notice: None,
            shot: None,
            root: None,
            before: None,
            only: None,
            last: false,
        }
    }
}

/// Where streams subscribe.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    backlog: Arc<Backlog>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { backlog: Backlog::new() }
    }

    pub(crate) fn subscribe(&self) -> Taker {
        self.backlog.subscribe()
    }

    pub(crate) fn send(&self, what: What) {
        if matches!(what, What::Lost) {
            self.backlog.lose();
        // Without a listener nothing is rendered.
        } else if self.backlog.has_readers()
            && let Some(ready) = ready(what)
        {
            self.backlog.put(ready);
        }
    }

    /// Passes on what the writer thread tells, until that ends.
    pub(crate) async fn pump(self, mut published: Inlet) {
        while let Some(Published { what, weight }) = published.queue.recv().await {
            self.send(what);
            published.waiting.fetch_sub(weight, Ordering::Relaxed);
        }
    }
}

fn ready(what: What) -> Option<Ready> {
    let only = match &what {
        What::Slot { surface, .. } => Some(surface.clone()),
        _ => None,
    };
    let before = match &what {
        What::Moved { before, .. } => Some(before.clone()),
        _ => None,
    };
    let (position, shot, root, last) = match &what {
        What::Slot { shot, .. } | What::Moved { shot, .. } => {
            (None, Some(shot.clone()), Some(shot.root.clone()), false)
        }
        What::Ask { position, shot, .. } => {
            (Some(*position), Some(shot.clone()), Some(shot.root.clone()), false)
        }
        What::Waiting { root, .. } => (None, None, Some(root.clone()), false),
        What::Notice(_) | What::Woke | What::Lost => (None, None, None, false),
        What::Bye { .. } => (None, None, None, true),
    };
    let happened = match &what {
        What::Ask { what, .. } => what,
        What::Slot { .. } | What::Moved { .. } => "asked",
        What::Waiting { .. } => "waiting",
        _ => "",
    };
    let (frame, notice) = match (what, &shot) {
        (_, Some(shot)) => (frame_of(position, happened, shot, Sight::Full)?, None),
        (What::Waiting { session, root, waiting }, None) => {
            let (agent, session, root) = (session.agent, session.session, root.session);
            (frame(None, &StreamEvent::Waiting { session, agent, root, waiting })?, None)
        }
        (What::Notice(text), None) => {
            let text = askd_text::safe(&text).text;
            (frame(None, &StreamEvent::Notice { text: text.clone() })?, Some(text))
        }
        (What::Woke, None) => (frame(None, &StreamEvent::Woke)?, None),
        (What::Bye { restart }, None) => (frame(None, &StreamEvent::Bye { restart })?, None),
        (What::Ask { .. } | What::Slot { .. } | What::Moved { .. } | What::Lost, None) => return None,
    };
    let masked = OnceLock::new();
    Some(Ready { position, frame, masked, what: happened, notice, shot, root, before, only, last })
}

/// An event as it goes over the wire.
pub(crate) fn frame(id: Option<u64>, event: &StreamEvent) -> Option<Bytes> {
    let json = serde_json::to_string(event).ok()?;
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Some(format!("{id}event: {}\ndata: {json}\n\n", name(event)).into())
}

/// What happened to an ask, as [`frame`] would make it of [`StreamEvent::Ask`]. An event without an id is of no position.
fn frame_of(id: Option<u64>, what: &str, shot: &CommonShot, sight: Sight) -> Option<Bytes> {
    Some(frame_around(id, what, &shot.json(sight)?).into())
}

fn frame_around(id: Option<u64>, what: &str, ask: &[u8]) -> Vec<u8> {
    let position = id.unwrap_or(0);
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let head = format!(
        "{id}event: ask\ndata: {{\"type\":\"ask\",\"position\":{position},\"what\":\"{what}\",\"ask\":"
    );
    [head.as_bytes(), ask, b"}\n\n"].concat()
}

/// A snapshot as [`frame`] would make it, up to its first ask; behind the last comes [`SNAPSHOT_TAIL`].
pub(crate) fn snapshot_head(position: u64) -> String {
    format!(
        "id: {position}\nevent: snapshot\ndata: {{\"type\":\"snapshot\",\"position\":{position},\"asks\":["
    )
}

pub(crate) const SNAPSHOT_TAIL: &str = "]}\n\n";

fn name(event: &StreamEvent) -> &'static str {
    match event {
        StreamEvent::Snapshot { .. } => "snapshot",
        StreamEvent::Gap { .. } => "gap",
        StreamEvent::Ask { .. } => "ask",
        StreamEvent::Waiting { .. } => "waiting",
        StreamEvent::Notice { .. } => "notice",
        StreamEvent::Woke => "woke",
        StreamEvent::Bye { .. } => "bye",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_in_pieces_is_the_snapshot_at_once() {
        let whole = frame(Some(7), &StreamEvent::Snapshot { position: 7, asks: Vec::new() }).unwrap();
        assert_eq!(whole, format!("{}{SNAPSHOT_TAIL}", snapshot_head(7)));
    }

    #[test]
    fn an_event_around_an_ask_is_the_event_at_once() {
        let shot = crate::common::of_test();
        for sight in [Sight::Full, Sight::Masked] {
            for id in [Some(7), None] {
                let (position, ask) = (id.unwrap_or(0), Box::new(shot.view_for(sight)));
                let event = StreamEvent::Ask { position, what: "asked".to_owned(), ask };
                assert_eq!(frame_of(id, "asked", &shot, sight), frame(id, &event));
            }
        }
    }
}
