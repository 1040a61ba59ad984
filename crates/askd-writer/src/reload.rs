//! Bringing streams from the journal into the working state.

use askd_core::id::StreamId;
use askd_core::state::Session;
use askd_core::{AskId, Handle, Now, SessionKey};
use askd_journal::{HeadState, Journal, JournalError};

use crate::writer::{Mark, Writer};

/// Longest chain of sessions that is followed upwards.
const MOST_ABOVE: usize = 64;

impl<J: Journal> Writer<J> {
    /// Loads everything that is not closed.
    pub(crate) fn load_unclosed(&mut self, now: Now) -> Result<(), JournalError> {
        let heads = self.journal.open_heads()?;
        // Sessions before asks, so that an ask finds its lineage.
        let (sessions, rest): (Vec<_>, Vec<_>) =
            heads.into_iter().partition(|(stream, ..)| matches!(stream, StreamId::Session(_)));
        for (stream, _, head) in sessions.into_iter().chain(rest) {
            self.load(&stream, head.state == HeadState::Closed, now)?;
        }
        // The way up to a root may lead through sessions that ended.
        let parents: Vec<_> = self.state.sessions().filter_map(|s| s.info.parent.clone()).collect();
        parents.iter().try_for_each(|parent| self.recall_line(parent, now))
    }

    /// Brings a session and those above it into memory, as far as the journal knows them.
    pub(crate) fn recall_line(&mut self, key: &SessionKey, now: Now) -> Result<(), JournalError> {
        let mut at = key.clone();
        // Bounded, so that a loop in what agents tell ends.
        for _ in 0..MOST_ABOVE {
            if self.state.session(&at).is_none_or(Session::stands_in) {
                let stream = StreamId::Session(at.clone());
                let Some((_, head)) = self.journal.head(&stream)? else { return Ok(()) };
                self.load(&stream, head.state == HeadState::Closed, now)?;
            }
            match self.state.session(&at).and_then(|s| s.info.parent.clone()) {
                Some(parent) => at = parent,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Brings an ask into memory if it is not there; false when the journal does not know it.
    pub fn recall(&mut self, id: AskId, now: Now) -> Result<bool, JournalError> {
        if self.state.ask(id).is_some() {
            return Ok(true);
        }
        let stream = StreamId::Ask(id);
        match self.journal.head(&stream)? {
            None => Ok(false),
            Some((_, head)) => {
                self.load(&stream, head.state == HeadState::Closed, now)?;
                Ok(true)
            }
        }
    }

    /// The ask that a handle or an id names, in memory or in the journal.
    pub fn resolve(&self, name: &str) -> Result<Option<AskId>, JournalError> {
        if let Ok(id) = name.parse::<AskId>() {
            return Ok(Some(id));
        }
        if let Some(id) = self.state.by_handle(&Handle(name.to_owned())) {
            return Ok(Some(id));
        }
        match self.journal.holder(&format!("handle/{name}"))? {
            Some(StreamId::Ask(id)) => Ok(Some(id)),
            _ => Ok(None),
        }
    }

    fn load(&mut self, stream: &StreamId, closed: bool, now: Now) -> Result<(), JournalError> {
        let entries = self.journal.read(stream)?;
        let version = entries.last().map_or(0, |e| e.version);
        self.state.load(stream, entries.iter().map(|e| (&e.entry.event, e.entry.at)), closed, now);
        self.written.insert(stream.clone(), Mark { version, closed });
        Ok(())
    }

    /// Throws away what a failed batch did to these streams and reads them back. Links that were held before stay.
    pub(crate) fn reload(&mut self, streams: &[StreamId], now: Now) -> Result<(), JournalError> {
        for stream in streams {
            self.unloaded.insert(stream.clone());
        }
        let unloaded: Vec<_> = self.unloaded.iter().cloned().collect();
        for stream in &unloaded {
            self.written.remove(stream);
            match stream {
                StreamId::Ask(id) => {
                    let held = self.state.forget(*id);
                    if let Some(link) = self.held_before.remove(id).unwrap_or(held) {
                        self.held.entry(*id).or_insert(link);
                    }
                }
                StreamId::Session(key) => {
                    let exists = self.journal.head(stream)?.is_some();
                    self.state.forget_session(key, exists);
                }
                StreamId::Daemon(_) => self.state.forget_daemon(),
                StreamId::Surface(_) => {}
            }
        }
        let (sessions, rest): (Vec<_>, Vec<_>) =
            unloaded.into_iter().partition(|stream| matches!(stream, StreamId::Session(_)));
        for stream in sessions.into_iter().chain(rest) {
            if let Some((_, head)) = self.journal.head(&stream)? {
                self.load(&stream, head.state == HeadState::Closed, now)?;
            }
            self.unloaded.remove(&stream);
        }
        for (id, link) in std::mem::take(&mut self.held) {
            self.state.relink(id, link, now);
        }
        Ok(())
    }
}
