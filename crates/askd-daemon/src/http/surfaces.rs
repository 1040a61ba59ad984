//! Which surfaces are attached: those with an open event stream, however many streams and whatever ends them. Of remote
//! ones also how they are, and what they keep in the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use askd_core::event::SurfaceInfo;
use askd_core::id::StreamId;
use askd_core::{Command, Event, SurfaceId};
use askd_journal::{JournalError, Reader};
use askd_wire::RemoteHealth;
use serde_json::Value;

use crate::before::Note;
use crate::engine::Engine;
use crate::publish::{Hub, What};

/// The name of the surface that `[telegram]` configures.
const TELEGRAM: &str = "Telegram";
/// A surface's memory begins a new stream so often, so that old ones can be removed and none grows without end.
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
/// How far back a surface's memory is looked for, in weeks.
const WEEKS: i64 = 5;

/// Streams that are open, by surface.
#[derive(Debug, Clone)]
pub(crate) struct Attachments {
    streams: Arc<Mutex<BTreeMap<String, usize>>>,
    note: Arc<Note>,
}

impl Attachments {
    pub(crate) fn new(note: Note) -> Self {
        Self { streams: Arc::default(), note: Arc::new(note) }
    }

    pub(crate) fn is_attached(&self, surface: &str) -> bool {
        self.streams.lock().is_ok_and(|streams| streams.contains_key(surface))
    }

    /// The streams end now because the daemon does.
    pub(crate) fn leave(&self, for_good: bool) {
        self.note.leave(for_good);
    }

    /// Attaches until the returned guard is dropped.
    pub(crate) fn attach(&self, engine: &Engine, surface: SurfaceId, info: SurfaceInfo) -> Attached {
        if let Ok(mut streams) = self.streams.lock() {
            *streams.entry(surface.0.clone()).or_default() += 1;
            self.note.write(streams.len());
            // Under the lock, so that it cannot be overtaken by the end of another stream of the same surface.
            engine.tell(Command::AttachSurface { surface: surface.clone(), info });
        }
        Attached { of: self.clone(), engine: engine.clone(), surface }
    }
}

/// One stream of a surface. The last one to go detaches it.
#[derive(Debug)]
pub(crate) struct Attached {
    of: Attachments,
    engine: Engine,
    surface: SurfaceId,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Ok(mut streams) = self.of.streams.lock() else { return };
        let left = streams.get_mut(&self.surface.0).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == 0 {
            streams.remove(&self.surface.0);
            self.of.note.write(streams.len());
            self.engine.tell(Command::DetachSurface { surface: self.surface.clone() });
        }
    }
}

/// The stream that keeps the state of the surface of this name now.
pub(super) fn stream_of(name: &str, wall_ms: i64) -> String {
    format!("{name}@{}", wall_ms.div_euclid(WEEK_MS))
}

/// What the surface of this name kept last.
pub(super) fn kept(reader: &dyn Reader, name: &str, wall_ms: i64) -> Result<Option<Value>, JournalError> {
    for week in 0..WEEKS {
        let stream = StreamId::Surface(stream_of(name, wall_ms - week * WEEK_MS));
        if let Some(entry) = reader.read(&stream)?.pop()
            && let Event::SurfaceState { state } = entry.entry.event
        {
            return Ok(Some(state));
        }
    }
    Ok(None)
}

/// How remote surfaces are, by name, as they told it themselves.
#[derive(Debug, Default)]
pub(crate) struct Remotes(Mutex<BTreeMap<String, Option<String>>>);

impl Remotes {
    /// Notes it, and tells every surface what is new.
    pub(crate) fn report(&self, name: &str, trouble: Option<String>, hub: &Hub) {
        let Ok(mut known) = self.0.lock() else { return };
        let before = known.insert(name.to_owned(), trouble.clone());
        match (before.flatten(), trouble) {
            (before, Some(now)) if before.as_ref() != Some(&now) => {
                hub.send(What::Notice(format!("{name} does not work: {now}")));
            }
            (Some(_), None) => hub.send(What::Notice(format!("{name} works again"))),
            _ => {}
        }
    }

    /// The bot's server takes nothing of what it is sent.
    pub(crate) fn telegram_fails(&self) -> bool {
        self.0.lock().is_ok_and(|known| known.get(TELEGRAM).is_some_and(Option::is_some))
    }

    /// `telegram`: it is configured, so that something is said about it in any case; and why it cannot even begin.
    pub(crate) fn health(
        &self,
        telegram: Option<Option<String>>,
        is_attached: impl Fn(&str) -> bool,
    ) -> Vec<RemoteHealth> {
        let Ok(known) = self.0.lock() else { return Vec::new() };
        let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
        if telegram.is_some() && !names.contains(&TELEGRAM) {
            names.push(TELEGRAM);
        }
        let one = |name: &str| {
            let attached = is_attached(name);
            let before = telegram.clone().filter(|_| name == TELEGRAM);
            let configured = attached || before.is_some();
            let trouble = before.flatten().or_else(|| known.get(name).cloned().flatten());
            configured.then(|| RemoteHealth { name: name.to_owned(), attached, trouble })
        };
        names.into_iter().filter_map(one).collect()
    }
}
