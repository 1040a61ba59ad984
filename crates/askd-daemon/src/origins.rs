//! Who may say what became of which asks of a session: the agent process that asked and what belongs to it, the requester
//! itself, and whatever was started by the process that started it. Nobody else of the same user, whoever asks in the
//! session's name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use askd_core::command::Side;
use askd_core::{Instance, SessionKey, TokenHash};

use crate::engine::Sides;
use crate::peer;

/// Sessions that are remembered; those that asked last are.
const MOST_SESSIONS: usize = 4096;
/// Processes of one session.
const MOST_EACH: usize = 64;
/// Requesters of one process: as many as a session may have open.
const MOST_TOKENS: usize = 16_384;
/// Requesters of all sessions.
const MOST_OF_ALL: usize = 4 * MOST_TOKENS;

/// Processes that started requesters, by session.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    turn: u64,
    tokens: usize,
    sessions: BTreeMap<SessionKey, OfSession>,
}

#[derive(Debug, Default)]
struct OfSession {
    last: u64,
    parents: Vec<Parent>,
}

/// A process (its number and start) with the requesters that it started, each with when it asked last.
#[derive(Debug)]
struct Parent {
    process: (u32, u64),
    tokens: BTreeMap<TokenHash, u64>,
}

impl Origins {
    /// A requester that this process (its number and start) started raised an ask of this session.
    pub(crate) fn raised(&self, session: &SessionKey, process: (u32, u64), token: TokenHash) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut *known;
        known.turn += 1;
        let of = known.sessions.entry(session.clone()).or_default();
        of.last = known.turn;
        let mut gone = 0;
        let at = of.parents.iter().position(|parent| parent.process == process).unwrap_or_else(|| {
            if of.parents.len() >= MOST_EACH {
                // One that has ended says nothing any more.
                let dead = |parent: &Parent| peer::start_of(parent.process.0) != Some(parent.process.1);
                let out = of.parents.iter().position(dead).unwrap_or(0);
                gone += of.parents.remove(out).tokens.len();
            }
            of.parents.push(Parent { process, tokens: BTreeMap::new() });
            of.parents.len() - 1
        });
        let tokens = &mut of.parents[at].tokens;
        let is_new = tokens.insert(token, known.turn).is_none();
        if tokens.len() > MOST_TOKENS {
            let mut turns: Vec<u64> = tokens.values().copied().collect();
            turns.sort_unstable();
            let newer = turns[turns.len() / 2];
            let before = tokens.len();
            tokens.retain(|_, turn| *turn >= newer);
            gone += before - tokens.len();
        }
        known.tokens = (known.tokens + usize::from(is_new)).saturating_sub(gone);
        while known.sessions.len() > 1 && (known.sessions.len() > MOST_SESSIONS || known.tokens > MOST_OF_ALL)
        {
            let oldest = known.sessions.iter().min_by_key(|(_, of)| of.last).map(|(key, _)| key.clone());
            let Some(of) = oldest.and_then(|key| known.sessions.remove(&key)) else { break };
            known.tokens -= of.parents.iter().map(|parent| parent.tokens.len()).sum::<usize>();
        }
    }

    /// Requesters of this session that were started by what this process belongs to.
    fn beside(&self, session: &SessionKey, pid: u32) -> BTreeSet<TokenHash> {
        let processes: Vec<(u32, u64)> = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let of = known.sessions.get(session);
            of.into_iter().flat_map(|of| of.parents.iter().map(|parent| parent.process)).collect()
        };
        let above = |(process, start): &(u32, u64)| {
            peer::start_of(*process) == Some(*start) && peer::is_within(pid, *process)
        };
        let above: Vec<(u32, u64)> = processes.into_iter().filter(above).collect();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parents = known.sessions.get(session).into_iter().flat_map(|of| &of.parents);
        let parents = parents.filter(|parent| above.contains(&parent.process));
        parents.flat_map(|parent| parent.tokens.keys().copied()).collect()
    }

    /// For whom a process of this host speaks when it tells something of a session, or why for nobody. `asked`: whose asks
    /// the session has; `token`: what it came with.
    pub(crate) fn side(
        &self,
        session: &SessionKey,
        (pid, token): (u32, Option<TokenHash>),
        asked: &Sides,
        host: &str,
    ) -> Result<Side, String> {
        let related = |i: &Instance| peer::is_within(pid, i.pid) || peer::is_within(i.pid, pid);
        let agent = asked.agent.as_ref().filter(|agent| is_alive(agent, host));
        let own = agent.is_some_and(related);
        let dead = |i: &Instance| i.host == host && !is_alive(i, host);
        let others = asked.requesters.iter().filter(|(_, instance)| !instance.as_ref().is_some_and(dead));
        let nobodys = agent.is_none() && others.count() == 0;
        let mut side = Side { session: own || nobodys, ..Side::default() };
        let processes: BTreeSet<&Instance> =
            asked.requesters.iter().filter_map(|(_, instance)| instance.as_ref()).collect();
        for process in processes {
            let started = || own && agent.is_some_and(|agent| peer::is_within(process.pid, agent.pid));
            // What asked in an earlier process of the session is the session's own affair.
            let speaks = if is_alive(process, host) {
                related(process) || started()
            } else {
                side.session && process.host == host
            };
            if speaks {
                side.instances.insert(process.clone());
            }
        }
        let mut tokens = self.beside(session, pid);
        tokens.extend(token);
        side.tokens =
            asked.requesters.iter().map(|(token, _)| *token).filter(|t| tokens.contains(t)).collect();
        if side.session || !side.instances.is_empty() || !side.tokens.is_empty() {
            return Ok(side);
        }
        let session = &session.session;
        Err(match agent {
            Some(agent) => format!("session {session} belongs to process {}", agent.pid),
            None => format!(
                "session {session} has asks of others; send the token of one of them, or observe from where they were \
                 raised"
            ),
        })
    }
}

/// It runs here, as far as this host can say.
pub(crate) fn is_alive(process: &Instance, host: &str) -> bool {
    process.host == host && peer::start_of(process.pid) == Some(process.start)
}
