//! Events on their way to surfaces: made once, in order, for every stream that is open.

use std::sync::{Arc, OnceLock};

use askd_core::{SessionKey, SurfaceId};
use askd_wire::StreamEvent;
use tokio::sync::{broadcast, mpsc};

use crate::masked::{self, Sight};
use crate::view::Shot;

/// Events that a slow stream may be behind; then it gets a gap and a new snapshot.
const BACKLOG: usize = 4096;

/// Something that surfaces hear of.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Ask {
        position: u64,
        what: &'static str,
        shot: Arc<Shot>,
    },
    /// A surface with a capacity got a free slot for this ask.
    Slot {
        surface: SurfaceId,
        shot: Arc<Shot>,
    },
    Waiting {
        session: SessionKey,
        root: SessionKey,
        waiting: u32,
    },
    Notice(String),
    Bye {
        restart: bool,
    },
}

/// An event as streams send it, with what a stream filters by.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) position: Option<u64>,
    pub(crate) name: &'static str,
    pub(crate) json: Arc<str>,
    /// For remote surfaces, made when the first of them needs it; `None` inside: it could not be made.
    masked: Arc<OnceLock<Option<Arc<str>>>>,
    /// What happened to the ask.
    what: &'static str,
    /// Requester and root of the ask, for streams that do not see all.
    pub(crate) shot: Option<Arc<Shot>>,
    pub(crate) root: Option<SessionKey>,
    /// For this surface's stream only.
    pub(crate) only: Option<SurfaceId>,
    pub(crate) last: bool,
}

impl Ready {
    /// The event as a reader may see it.
    pub(crate) fn json_for(&self, sight: Sight) -> Option<Arc<str>> {
        match (sight, &self.shot) {
            (Sight::Full, _) => Some(Arc::clone(&self.json)),
            (Sight::Masked, Some(shot)) => self.masked.get_or_init(|| self.masked_ask(shot)).clone(),
            (Sight::Masked, None) => self.masked.get_or_init(|| self.masked_notice()).clone(),
        }
    }

    fn masked_ask(&self, shot: &Shot) -> Option<Arc<str>> {
        let event = StreamEvent::Ask {
            position: self.position.unwrap_or(0),
            what: self.what.to_owned(),
            ask: Box::new(shot.view_for(Sight::Masked)),
        };
        serde_json::to_string(&event).ok().map(Arc::from)
    }

    /// Of the events without an ask only a notice has words of others.
    fn masked_notice(&self) -> Option<Arc<str>> {
        match serde_json::from_str(&self.json).ok()? {
            StreamEvent::Notice { text } => {
                let event = StreamEvent::Notice { text: masked::cover_safe(&text) };
                serde_json::to_string(&event).ok().map(Arc::from)
            }
            _ => Some(Arc::clone(&self.json)),
        }
    }
}

/// Where streams subscribe.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    events: broadcast::Sender<Ready>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { events: broadcast::channel(BACKLOG).0 }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Ready> {
        self.events.subscribe()
    }

    pub(crate) fn send(&self, what: What) {
        // Without a listener nothing is rendered.
        if self.events.receiver_count() > 0
            && let Some(ready) = ready(what)
        {
            let _ = self.events.send(ready);
        }
    }

    /// Passes on what the writer thread tells, until that ends.
    pub(crate) async fn pump(self, mut published: mpsc::UnboundedReceiver<Published>) {
        while let Some(event) = published.recv().await {
            self.send(event.what);
        }
    }
}

fn ready(what: What) -> Option<Ready> {
    let only = match &what {
        What::Slot { surface, .. } => Some(surface.clone()),
        _ => None,
    };
    let (position, shot, root, last) = match &what {
        What::Slot { shot, .. } => (None, Some(Arc::clone(shot)), Some(shot.root.clone()), false),
        What::Ask { position, shot, .. } => {
            (Some(*position), Some(Arc::clone(shot)), Some(shot.root.clone()), false)
        }
        What::Waiting { root, .. } => (None, None, Some(root.clone()), false),
        What::Notice(_) => (None, None, None, false),
        What::Bye { .. } => (None, None, None, true),
    };
    let happened = match &what {
        What::Ask { what, .. } => what,
        What::Slot { .. } => "asked",
        _ => "",
    };
    let event = match what {
        What::Ask { position, what, shot } => {
            StreamEvent::Ask { position, what: what.to_owned(), ask: Box::new(shot.view()) }
        }
        What::Slot { shot, .. } => {
            StreamEvent::Ask { position: 0, what: "asked".to_owned(), ask: Box::new(shot.view()) }
        }
        What::Waiting { session, root, waiting } => StreamEvent::Waiting {
            session: session.session,
            agent: session.agent,
            root: root.session,
            waiting,
        },
        What::Notice(text) => StreamEvent::Notice { text: askd_text::safe(&text).text },
        What::Bye { restart } => StreamEvent::Bye { restart },
    };
    let json = serde_json::to_string(&event).ok()?;
    let name = name(&event);
    let masked = Arc::default();
    Some(Ready { position, name, json: json.into(), masked, what: happened, shot, root, only, last })
}

pub(crate) fn name(event: &StreamEvent) -> &'static str {
    match event {
        StreamEvent::Snapshot { .. } => "snapshot",
        StreamEvent::Gap { .. } => "gap",
        StreamEvent::Ask { .. } => "ask",
        StreamEvent::Waiting { .. } => "waiting",
        StreamEvent::Notice { .. } => "notice",
        StreamEvent::Bye { .. } => "bye",
    }
}
