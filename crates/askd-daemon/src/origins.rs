//! Who may say what became of a session without a known agent: the requesters whose asks it has, and whatever was
//! started by the process that started one of them. Nobody else of the same user.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use askd_core::SessionKey;

use crate::peer;

/// Sessions that are remembered; those that asked last are.
const MOST_SESSIONS: usize = 4096;
/// Processes of one session.
const MOST_EACH: usize = 8;

/// Processes that started requesters, by session.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    turn: u64,
    sessions: BTreeMap<SessionKey, (u64, Vec<(u32, u64)>)>,
}

impl Origins {
    /// What this process (its number and start) started raised an ask of this session.
    pub(crate) fn raised(&self, session: &SessionKey, parent: (u32, u64)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.turn += 1;
        let turn = known.turn;
        let (last, parents) = known.sessions.entry(session.clone()).or_default();
        *last = turn;
        if !parents.contains(&parent) {
            parents.push(parent);
        }
        if parents.len() > MOST_EACH {
            parents.remove(0);
        }
        if known.sessions.len() > MOST_SESSIONS {
            let oldest = known.sessions.iter().min_by_key(|(_, (turn, _))| *turn).map(|(key, _)| key.clone());
            oldest.map(|key| known.sessions.remove(&key));
        }
    }

    /// A process belongs to what asked for this session.
    pub(crate) fn includes(&self, session: &SessionKey, pid: u32) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parents = known.sessions.get(session).map(|(_, parents)| parents.clone()).unwrap_or_default();
        drop(known);
        parents
            .iter()
            .any(|(parent, start)| peer::start_of(*parent) == Some(*start) && peer::is_within(pid, *parent))
    }
}
