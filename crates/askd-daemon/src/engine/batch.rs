//! Commands that wait together become one commit, and everybody hears what came of it.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::command::Command;
use askd_core::id::StreamId;
use askd_core::state::AskState;
use askd_core::{AskId, Event, Instance, Refusal};
use askd_journal::{Journal, Position};
use tokio::sync::oneshot;

use super::desk::{Desk, is_past};
use super::message::{Done, Named};
use crate::common::CommonShot;
use crate::origins::is_alive;
use crate::permissions;
use crate::publish::What;
use crate::view::Shot;

/// Most commands of one commit.
pub(super) const MOST_PER_BATCH: usize = 1024;

/// A command that waits for its batch.
pub(super) struct Pending {
    pub(super) command: Command,
    pub(super) reply: Answerer,
    pub(super) over: Option<oneshot::Sender<CommonShot>>,
}

/// Who hears what came of a command.
pub(super) enum Answerer {
    Doer(oneshot::Sender<Done>),
    Person(oneshot::Sender<Result<Option<Done>, String>>),
    Nobody,
}

impl Answerer {
    fn hear(self, done: Done) {
        match self {
            Self::Doer(reply) => drop(reply.send(done)),
            Self::Person(reply) => drop(reply.send(Ok(Some(done)))),
            Self::Nobody => {}
        }
    }

    /// Nothing has to be made ready for nobody.
    fn listens(&self) -> bool {
        match self {
            Self::Doer(reply) => !reply.is_closed(),
            Self::Person(reply) => !reply.is_closed(),
            Self::Nobody => false,
        }
    }
}

/// Asks as they are after a batch, each copied once for everybody who hears of it.
struct Shots {
    finished: BTreeMap<AskId, AskState>,
    made: BTreeMap<AskId, CommonShot>,
}

impl Shots {
    fn of<J: Journal>(&mut self, desk: &Desk<J>, id: AskId) -> Option<CommonShot> {
        if let Some(made) = self.made.get(&id) {
            return Some(made.clone());
        }
        let shot = desk.shot(id).or_else(|| {
            let ask = self.finished.remove(&id)?;
            Some(Shot { root: desk.writer.state().root_of(ask.session()), ask })
        })?;
        let shot = CommonShot::new(shot);
        self.made.insert(id, shot.clone());
        Some(shot)
    }
}

impl<J: Journal> Desk<J> {
    pub(super) fn batch(&mut self, mut pending: Vec<Pending>) {
        // People do not wait for a burst of new asks. Nothing depends on an order between requests that are under
        // way at the same time.
        // A timer fires only after what arrived with it: an answer that is here is in time.
        pending.sort_by_key(|one| match one.command {
            Command::Answer(_) => 0,
            Command::Tick => 2,
            _ => 1,
        });
        let owed =
            std::mem::take(&mut self.owed).into_iter().map(|command| (command, (Answerer::Nobody, None)));
        let gone = self.ended_before(&pending).into_iter().map(|instance| Command::AgentGone { instance });
        let gone = gone.map(|command| (command, (Answerer::Nobody, None)));
        let pending = pending.into_iter().map(|one| (one.command, (one.reply, one.over)));
        let (commands, listeners): (Vec<_>, Vec<_>) = owed.chain(gone).chain(pending).unzip();
        let now = self.clock.now();
        // The crash points abort by themselves: in a daemon `Died` never comes back.
        let Ok(batched) = self.writer.run(&commands, now) else { return };
        if let Some(last) = batched.committed.last() {
            self.last = self.last.max(last.position);
        }
        let not_recorded = batched.replies.iter().find_map(|reply| match reply {
            Err(Refusal::NotRecorded(why)) => Some(why.clone()),
            _ => None,
        });
        match not_recorded {
            Some(why) => self.fails(why),
            None if !batched.committed.is_empty() => self.works(),
            None => self.try_again(),
        }
        let finished: BTreeMap<AskId, AskState> = batched.finished.into_iter().collect();
        // Before anybody hears of it: whoever was told that an agent is known can rely on that.
        self.find_agents_of(&commands, &finished);
        let mut shots = Shots { finished, made: BTreeMap::new() };
        let mut replies = Vec::with_capacity(commands.len());
        for ((command, (listener, over)), reply) in commands.iter().zip(listeners).zip(batched.replies) {
            // These report what has happened and nobody says it twice, so they go with the next batch.
            let facts = matches!(
                command,
                Command::LinkClosed { .. }
                    | Command::AgentGone { .. }
                    | Command::Woke
                    | Command::AttachSurface { .. }
                    | Command::DetachSurface { .. }
            );
            if facts && matches!(reply, Err(Refusal::NotRecorded(_))) {
                self.owed.push(command.clone());
            }
            let about = command.about(&reply);
            if let (Some(id), Some(over)) = (about, over)
                && self.writer.state().ask(id).is_some_and(|ask| !is_past(ask))
            {
                self.wait_for(id, over);
            }
            if listener.listens() {
                let shot = about.and_then(|id| shots.of(self, id));
                replies.push((listener, Done { reply, shot }));
            }
        }
        // Sessions came or ended, or a person changed settings, which is told as that.
        let mut moved = None;
        let mut touched: Vec<(Position, &'static str, AskId)> = Vec::new();
        for entry in &batched.committed {
            match (&entry.stream, &entry.entry.event) {
                (StreamId::Ask(id), Event::SelfAnswerRefused { who, .. }) => {
                    let handle = shots.of(self, *id).map(|s| s.ask.ask.handle.to_string());
                    let text = format!("an agent tried to answer {}: {who}", handle.unwrap_or_default());
                    self.publish(What::Notice(text));
                }
                (StreamId::Session(_), Event::SessionStarted { .. } | Event::SessionEnded { .. }) => {
                    moved.get_or_insert(true);
                }
                (StreamId::Daemon(_), Event::OverridesSet { overrides, .. }) => {
                    moved = Some(false);
                    self.publish(What::Notice(permissions::notice(None, overrides)));
                }
                (StreamId::Session(key), Event::OverridesSet { overrides, .. }) => {
                    moved = Some(false);
                    self.publish(What::Notice(permissions::notice(Some(key), overrides)));
                }
                (StreamId::Ask(id), event) => touched.push((entry.position, event.name(), *id)),
                _ => {}
            }
        }
        // Agents and surfaces first: they are what is waited for. Whoever answered knows what it did.
        let mut sessions = BTreeSet::new();
        for (position, what, id) in touched {
            if let Some(shot) = shots.of(self, id) {
                if matches!(what, "asked" | "settled" | "withdrawn") {
                    sessions.insert(shot.ask.session().clone());
                }
                self.wake(id, &shot);
                self.publish(What::Ask { position, what, shot });
            }
        }
        for (listener, done) in replies {
            listener.hear(done);
        }
        if let Some(aloud) = moved {
            self.tell_skipping(aloud);
        }
        self.tell_moved();
        self.tell_waiting(sessions);
        self.tell_slots();
        let _ = self.writer.released();
        self.set_alarm();
    }

    /// Agent processes whose sessions another process asks in now, and that have ended although their watch has not said
    /// so yet: who goes on with a session is not refused what the one before it left.
    fn ended_before(&self, pending: &[Pending]) -> BTreeSet<Instance> {
        let raises = pending.iter().filter_map(|one| match &one.command {
            Command::Raise(raise) => Some((&raise.session, raise.instance.as_ref()?)),
            _ => None,
        });
        let others = raises.filter_map(|(session, asks)| {
            let agent = self.writer.state().agent_of(session)?;
            (agent != asks && agent.host == asks.host && !is_alive(agent, &asks.host)).then(|| agent.clone())
        });
        others.collect()
    }

    /// The answer to the ask of this name; nobody hears of `None`, for it was replied to.
    pub(super) fn named(&mut self, Named { name, answer, reply }: Named) -> Option<Pending> {
        match self.writer.resolve(&name) {
            Ok(Some(ask)) => {
                let own = self.writer.state().ask(ask).filter(|ask| ask.is_forwarded());
                let own = own.and_then(|ask| Some((ask.ask.requester.instance.as_ref()?, &ask.ask.handle)));
                let mut answer = answer(ask, &self.instances.borrow(), own);
                if let Some(why) = answer.refused.take() {
                    answer.refused = self.tries.tell(&ask.to_string(), &why, self.clock.now().boot_ms);
                    if answer.refused.is_none() {
                        let shot = self.shot(ask).map(CommonShot::new);
                        let _ = reply.send(Ok(Some(Done { reply: Err(Refusal::NotPermitted(why)), shot })));
                        return None;
                    }
                }
                let command = Command::Answer(answer);
                Some(Pending { command, reply: Answerer::Person(reply), over: None })
            }
            Ok(None) => {
                let _ = reply.send(Ok(None));
                None
            }
            Err(error) => {
                let _ = reply.send(Err(error.to_string()));
                None
            }
        }
    }
}
