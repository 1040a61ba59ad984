//! Sessions that nobody says the end of: those of scripts and of hosts that name no process.

use std::collections::BTreeSet;

use crate::event::{Change, Event, Record};
use crate::id::{SessionKey, StreamId};
use crate::time::Now;

use super::{Handled, Session, State};

impl State {
    /// Ends sessions without an agent process and without asks of which nothing was heard for `idle_ms`; of the others
    /// like them all but the `most` that were heard of last. One that speaks again goes on.
    pub(super) fn tidy(&self, idle_ms: u64, most: usize, now: Now) -> Handled {
        let mut idle: Vec<&Session> =
            self.sessions.values().filter(|s| !s.ended && s.info.instance.is_none()).collect();
        let alive = self.sessions.values().filter(|s| !s.ended);
        let mut needed: BTreeSet<&SessionKey> = BTreeSet::new();
        for session in alive.filter(|s| s.info.instance.is_some() || !s.asks.is_empty()) {
            let mut at = Some(&session.info.key);
            // What is above a live session lives; a loop in what agents tell ends at the first repetition.
            while let Some(key) = at.filter(|key| needed.insert(key)) {
                at = self.sessions.get(key).and_then(|s| s.info.parent.as_ref());
            }
        }
        idle.retain(|session| !needed.contains(&session.info.key));
        idle.sort_by_key(|session| session.heard.elapsed(now));
        let over = idle.iter().enumerate().filter(|(n, s)| *n >= most || s.heard.elapsed(now) >= idle_ms);
        let changes = over.map(|(_, session)| {
            let event = Event::SessionEnded { why: "nothing was heard of it any more".to_owned() };
            Change::Record(Record { stream: StreamId::Session(session.info.key.clone()), at: now, event })
        });
        Handled::done(changes.collect())
    }
}
