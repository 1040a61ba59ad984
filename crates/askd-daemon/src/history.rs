//! What only the journal still has.

use std::collections::BTreeMap;

use askd_core::id::StreamId;
use askd_core::{AskId, Event, Now, Settings, State};
use askd_journal::{JournalError, Position, Positioned, Reader};
use askd_wire::LogEntry;

use crate::clock::rfc3339;
use crate::log_text;
use crate::view::Shot;

const PAGE: usize = 1000;

/// An ask read back from its stream; `None` when the journal does not know it.
pub(crate) fn recall(
    reader: &(impl Reader + ?Sized),
    id: AskId,
    now: Now,
) -> Result<Option<Shot>, JournalError> {
    let stream = StreamId::Ask(id);
    let entries = reader.read(&stream)?;
    let mut scratch = State::new(Settings::default());
    scratch.load(&stream, entries.iter().map(|e| (&e.entry.event, e.entry.at)), true, now);
    Ok(scratch.ask(id).map(|ask| Shot { root: ask.ask.lineage.root.clone(), ask: ask.clone() }))
}

/// What a log is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Wall time in milliseconds.
    pub(crate) since: Option<i64>,
    pub(crate) after: Position,
    pub(crate) session: Option<String>,
    pub(crate) limit: usize,
}

/// The decision log, oldest first; with a limit the newest entries of it.
pub(crate) fn log(reader: &dyn Reader, filter: &Filter) -> Result<Vec<LogEntry>, JournalError> {
    let mut about: BTreeMap<AskId, (String, String)> = BTreeMap::new();
    let mut out = std::collections::VecDeque::new();
    let mut after = filter.after;
    loop {
        let page = reader.feed(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for entry in page {
            if filter.since.is_some_and(|since| entry.entry.at.wall_ms < since) {
                continue;
            }
            let (session, handle) = match &entry.stream {
                StreamId::Ask(id) => {
                    let (session, handle) = match about.get(id) {
                        Some(known) => known.clone(),
                        None => {
                            let known = ask_of(reader, *id, &entry)?;
                            about.insert(*id, known.clone());
                            known
                        }
                    };
                    (Some(session), Some(handle))
                }
                StreamId::Session(key) => (Some(key.session.clone()), None),
                StreamId::Surface(_) | StreamId::Daemon(_) => (None, None),
            };
            if filter.session.is_some() && session != filter.session {
                continue;
            }
            out.push_back(LogEntry {
                position: entry.position,
                at: rfc3339(entry.entry.at.wall_ms),
                stream: entry.stream.to_string(),
                what: entry.entry.event.name().to_owned(),
                text: log_text::text(&entry.entry.event),
                handle,
                event: serde_json::to_value(&entry.entry.event).unwrap_or_default(),
            });
            if out.len() > filter.limit {
                out.pop_front();
            }
        }
    }
    Ok(out.into())
}

/// Session and handle of an ask.
fn ask_of(reader: &dyn Reader, id: AskId, entry: &Positioned) -> Result<(String, String), JournalError> {
    let of = |event: &Event| match event {
        Event::Asked { ask } => Some((ask.lineage.session.session.clone(), ask.handle.to_string())),
        _ => None,
    };
    if let Some(found) = of(&entry.entry.event) {
        return Ok(found);
    }
    let entries = reader.read(&StreamId::Ask(id))?;
    Ok(entries.first().and_then(|e| of(&e.entry.event)).unwrap_or_default())
}

/// Asks of the retention time, oldest first, at most the newest `limit`.
pub(crate) fn asks(reader: &dyn Reader, limit: usize, now: Now) -> Result<Vec<Shot>, JournalError> {
    let mut ids = std::collections::VecDeque::new();
    let mut after = 0;
    loop {
        let page = reader.feed(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for entry in page {
            if let (StreamId::Ask(id), Event::Asked { .. }) = (&entry.stream, &entry.entry.event) {
                ids.push_back(*id);
                if ids.len() > limit {
                    ids.pop_front();
                }
            }
        }
    }
    let mut shots = Vec::new();
    for id in ids {
        shots.extend(recall(reader, id, now)?);
    }
    Ok(shots)
}
