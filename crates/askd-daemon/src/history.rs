//! What only the journal still has.

use std::collections::BTreeMap;

use askd_core::id::{SessionKey, StreamId};
use askd_core::{AskId, Event, Now};
use askd_journal::{JournalError, Position, Positioned, Reader};
pub(crate) use askd_serve::recall::recall;
use askd_wire::LogEntry;

use crate::clock::rfc3339;
use crate::log_text;
use crate::view::Shot;

/// Entries that are read at a time; each may hold 16 MiB.
const PAGE: usize = 32;
/// Most bytes of asks, or of log entries, that are given at a time; the newest are.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// What a log is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Wall time in milliseconds.
    pub(crate) since: Option<i64>,
    pub(crate) after: Position,
    /// The session's name, or `agent/name` as the log prints it.
    pub(crate) session: Option<String>,
    pub(crate) limit: usize,
}

/// The decision log, oldest first; with a limit the newest entries of it.
pub(crate) fn log(reader: &dyn Reader, filter: &Filter) -> Result<Vec<LogEntry>, JournalError> {
    let mut about: BTreeMap<AskId, (SessionKey, String)> = BTreeMap::new();
    let mut out: std::collections::VecDeque<(usize, LogEntry)> = std::collections::VecDeque::new();
    let mut bytes = 0;
    let mut after = filter.after;
    loop {
        let page = reader.feed(after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for entry in page {
            if filter.since.is_some_and(|since| entry.entry.at.wall_ms < since) {
                continue;
            }
            // A surface's own memory is no decision, and may hold what only the surface is to know.
            if matches!(entry.stream, StreamId::Surface(_)) {
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
                StreamId::Session(key) => (Some(key.clone()), None),
                StreamId::Surface(_) | StreamId::Daemon(_) => (None, None),
            };
            if let Some(wanted) = &filter.session
                && !session.is_some_and(|key| key.session == *wanted || key.to_string() == *wanted)
            {
                continue;
            }
            let size = size_of(&entry.entry.event);
            bytes += size;
            let listed = LogEntry {
                position: entry.position,
                at: rfc3339(entry.entry.at.wall_ms),
                stream: entry.stream.to_string(),
                what: entry.entry.event.name().to_owned(),
                text: log_text::text(&entry.entry.event),
                handle,
                event: serde_json::to_value(&entry.entry.event).unwrap_or_default(),
            };
            out.push_back((size, listed));
            while out.len() > filter.limit || (bytes > MOST_BYTES && out.len() > 1) {
                bytes -= out.pop_front().map_or(0, |(size, _)| size);
            }
        }
    }
    Ok(out.into_iter().map(|(_, entry)| entry).collect())
}

/// Bytes of an event as it is told.
fn size_of(event: &Event) -> usize {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // What cannot be written is told as nothing.
    let _ = serde_json::to_writer(&mut count, event);
    count.0
}

/// Session and handle of an ask.
fn ask_of(reader: &dyn Reader, id: AskId, entry: &Positioned) -> Result<(SessionKey, String), JournalError> {
    let of = |event: &Event| match event {
        Event::Asked { ask } => Some((ask.lineage.session.clone(), ask.handle.to_string())),
        _ => None,
    };
    if let Some(found) = of(&entry.entry.event) {
        return Ok(found);
    }
    let entries = reader.read(&StreamId::Ask(id))?;
    Ok(entries
        .first()
        .and_then(|e| of(&e.entry.event))
        .unwrap_or_else(|| (SessionKey { agent: String::new(), session: String::new() }, String::new())))
}

/// Asks of the retention time, oldest first, at most the newest `limit`, and of these what fits into [`MOST_BYTES`].
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
    let mut shots = std::collections::VecDeque::new();
    let mut bytes = 0;
    for id in ids.into_iter().rev() {
        let Some(shot) = recall(reader, id, now)? else { continue };
        bytes += shot.ask.ask.action.input.as_ref().map_or(0, String::len);
        if bytes > MOST_BYTES && !shots.is_empty() {
            break;
        }
        shots.push_front(shot);
    }
    Ok(shots.into())
}
