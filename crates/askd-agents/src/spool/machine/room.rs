//! How many requests are open together. What is over the limit waits in its directory; what waits for long is told that
//! there is no room, in its own words, and nobody is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askd_client::spool::Stamp;

use super::item::Phase;
use super::{Id, Machine, Now};

/// Requests of one session and of a tree that are open together.
pub(super) const MOST_OF_SESSION: usize = 256;
pub(super) const MOST: usize = 2048;
/// How long a request waits for room until it is answered as unavailable.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What is open, and what waits for room.
#[derive(Debug)]
pub(super) struct Room {
    /// What is open in the tree, at the last count and since.
    open: usize,
    /// How many more the process has descriptors for, and how many of these are for sessions that have nothing open.
    left: usize,
    spare: usize,
    /// Since when each of the others waits.
    waiting: BTreeMap<Id, Now>,
    /// Of what it was told, until nothing of it waits any more: sessions by name, the tree by an empty one.
    told: BTreeSet<String>,
}

impl Default for Room {
    fn default() -> Self {
        Self { open: 0, left: usize::MAX, spare: 0, waiting: BTreeMap::new(), told: BTreeSet::new() }
    }
}

impl Machine {
    /// How many more requests the process has descriptors for; `spare`: of these, for sessions with nothing open.
    pub fn has_room_for(&mut self, left: usize, spare: usize) {
        (self.room.left, self.room.spare) = (left, spare);
    }

    /// The content of this file is needed.
    pub fn wants(&mut self, id: &Id, stamp: Stamp, now: Now) -> bool {
        if let Some(item) = self.items.get(id) {
            return item.stamp != stamp
                || item.reread
                || item.unread && matches!(item.phase, Phase::Torn { .. });
        }
        if self.closing {
            return false;
        }
        let Some(full) = self.full_for(&id.session) else {
            self.room.waiting.remove(id);
            return true;
        };
        if self.room.told.insert(full.to_owned()) {
            let (who, of) = match full {
                "" => ("more requests wait", "this tree"),
                session => (session, "this session"),
            };
            let secs = PATIENCE.as_secs();
            self.tell(format!(
                "{who}: more requests of {of} are there than askd has open together; what finds no room within {secs} s \
                 is answered as unavailable"
            ));
        }
        let since = *self.room.waiting.entry(id.clone()).or_insert(now);
        now >= since + PATIENCE
    }

    /// Why one more of this session has no room: the session by its name, the tree by an empty one.
    fn full_for<'a>(&self, session: &'a str) -> Option<&'a str> {
        let of_session = self.sessions.get(session).map_or(0, |session| session.open);
        let room = &self.room;
        // One that has nothing open waits for nobody as long as there is anything left.
        let tree = room.left == 0 || of_session > 0 && (room.open >= MOST || room.left <= room.spare);
        match (of_session >= MOST_OF_SESSION, tree) {
            (true, _) => Some(session),
            (false, true) => Some(""),
            (false, false) => None,
        }
    }

    /// It waited for room long enough.
    pub(super) fn is_turned_away(&mut self, id: &Id) -> Option<&'static str> {
        self.room.waiting.remove(id)?;
        Some(match self.full_for(&id.session)? {
            "" => "askd has as many requests of this directory open as it takes; nobody was asked",
            _ => "askd has as many requests of this session open as it takes; nobody was asked",
        })
    }

    /// What a look at a session did not see any more waits no more.
    pub(super) fn waits_only(&mut self, session: &str, still: impl Fn(&str) -> bool) {
        self.room.waiting.retain(|id, _| id.session != session || still(&id.stem));
    }

    /// Counts what is open anew. What has its answer takes nobody's place.
    pub(super) fn count_open(&mut self) {
        self.room.open = 0;
        for session in self.sessions.values_mut() {
            session.open = 0;
        }
        for (id, _) in self.items.iter().filter(|(_, item)| item.is_open()) {
            self.room.open += 1;
            if let Some(session) = self.sessions.get_mut(&id.session) {
                session.open += 1;
            }
        }
        let waiting = &self.room.waiting;
        self.room.told.retain(|name| {
            if name.is_empty() { !waiting.is_empty() } else { waiting.keys().any(|id| id.session == *name) }
        });
    }

    pub(super) fn opened(&mut self, session: &str, now: Now) {
        self.room.open += 1;
        self.room.left = self.room.left.saturating_sub(1);
        self.session(session, now).open += 1;
    }
}
