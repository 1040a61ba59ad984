//! The writer thread: takes what waits, runs commands in batches, serves looks between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use askd_core::command::Command;
use askd_core::state::AskState;
use askd_core::{AskId, Instance, SessionKey, SurfaceId};
use askd_journal::{Journal, Position};
use askd_wire::Skipping;
use askd_writer::Writer;
use tokio::sync::{oneshot, watch};

use super::Outlets;
use super::batch::{Answerer, MOST_PER_BATCH, Pending};
use super::message::Message;
use crate::clock::Clock;
use crate::common::CommonShot;
use crate::tries::Tries;
use crate::view::Shot;

/// The writer thread's own things.
pub(super) struct Desk<J> {
    pub(super) writer: Writer<J>,
    pub(super) clock: Clock,
    pub(super) outlets: Outlets,
    waiters: BTreeMap<AskId, Vec<oneshot::Sender<CommonShot>>>,
    pub(super) instances: watch::Sender<Arc<BTreeSet<Instance>>>,
    /// Facts that the journal did not take yet.
    pub(super) owed: Vec<Command>,
    /// Why the journal did not take what was given to it last.
    pub(super) failing: Option<String>,
    /// Where permissions were skipped when it was looked at last.
    pub(super) skipping: Skipping,
    pub(super) tries: Tries,
    /// Numbers of open asks as they were told last; a session that is not here has none.
    pub(super) told_waiting: BTreeMap<SessionKey, u32>,
    /// What surfaces with a capacity were told to show.
    pub(super) slots: BTreeMap<SurfaceId, BTreeSet<AskId>>,
    pub(super) last: Position,
}

impl<J: Journal> Desk<J> {
    pub(super) fn new(
        writer: Writer<J>,
        clock: Clock,
        outlets: Outlets,
        instances: watch::Sender<Arc<BTreeSet<Instance>>>,
    ) -> Self {
        Self {
            writer,
            clock,
            outlets,
            waiters: BTreeMap::new(),
            instances,
            owed: Vec::new(),
            failing: None,
            skipping: Skipping::default(),
            tries: Tries::default(),
            told_waiting: BTreeMap::new(),
            slots: BTreeMap::new(),
            last: 0,
        }
    }

    pub(super) fn work(mut self, messages: &Receiver<Message>) {
        self.last = self.writer.journal().last().unwrap_or(0);
        let state = self.writer.state();
        let waiting = state.sessions().filter(|s| s.waiting > 0);
        self.told_waiting = waiting.map(|s| (s.info.key.clone(), s.waiting)).collect();
        self.find_agents();
        self.tell_skipping(false);
        self.set_alarm();
        while let Ok(first) = messages.recv() {
            let mut commands: Vec<Pending> = Vec::new();
            let mut rest = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Do { command, reply, over } => {
                        commands.push(Pending { command, reply: Answerer::Doer(reply), over });
                    }
                    Message::Answers(named) => {
                        commands.extend(named.into_iter().filter_map(|one| self.named(one)));
                    }
                    other => rest.push(other),
                }
                // What asks for the state must see what was sent before it, and nothing sent after.
                next = (rest.is_empty() && commands.len() < MOST_PER_BATCH)
                    .then(|| messages.try_recv().ok())
                    .flatten();
            }
            if !commands.is_empty() {
                self.batch(commands);
            }
            for message in rest {
                if let Message::Leave { release, reply } = message {
                    self.leave(release);
                    let _ = reply.send(());
                    return;
                }
                self.serve(message);
            }
        }
    }

    fn leave(&mut self, release: bool) {
        if release {
            self.batch(vec![Pending { command: Command::Stopping, reply: Answerer::Nobody, over: None }]);
        }
        if let Err(error) = self.writer.flush() {
            tracing::warn!("closing the journal: {error}");
        }
    }

    pub(super) fn wait_for(&mut self, ask: AskId, waiter: oneshot::Sender<CommonShot>) {
        let waiters = self.waiters.entry(ask).or_default();
        // Those who left are noticed when the list would grow, so that asking again and again costs nothing that stays.
        if waiters.len() == waiters.capacity() {
            waiters.retain(|waiter| !waiter.is_closed());
        }
        waiters.push(waiter);
    }

    /// An ask in memory as it is now.
    pub(super) fn shot(&self, id: AskId) -> Option<Shot> {
        let state = self.writer.state();
        let ask = state.ask(id)?;
        Some(Shot { root: state.root_of(ask.session()), ask: ask.clone() })
    }

    pub(super) fn wake(&mut self, id: AskId, shot: &CommonShot) {
        if is_over(shot) {
            for waiter in self.waiters.remove(&id).into_iter().flatten() {
                let _ = waiter.send(shot.clone());
            }
        } else if let Some(waiters) = self.waiters.get_mut(&id) {
            waiters.retain(|w| !w.is_closed());
        }
    }
}

/// A requester has nothing more to wait for.
pub(crate) fn is_over(shot: &Shot) -> bool {
    is_past(&shot.ask)
}

pub(super) fn is_past(ask: &AskState) -> bool {
    !ask.is_open() || ask.is_handed_back()
}
