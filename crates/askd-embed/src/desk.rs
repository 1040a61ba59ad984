//! The thread that owns the writer: takes what waits, commits it as one batch, then tells.

use std::collections::BTreeMap;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askd_core::command::{Answer, Command, Observe, Reply, Seen};
use askd_core::event::{Scope, SurfaceInfo};
use askd_core::id::StreamId;
use askd_core::outcome::Verdict;
use askd_core::state::AskState;
use askd_core::{AskId, Now, Refusal, SessionKey, SurfaceId, TokenHash};
use askd_journal::Journal;
use askd_serve::clock::{Clock, suspended_ms};
use askd_serve::recall::recall;
use askd_serve::view::Shot;
use askd_wire::Ask;
use askd_writer::Writer;

use crate::surface::Shown;

/// Most commands of one commit.
const MOST_PER_BATCH: usize = 1024;
/// Until a journal that takes nothing is tried again.
const RETRY_MS: u64 = 1000;
/// Longest sleep while something is due: a suspend does not count for the sleep, and is looked for after it.
const LOOK_MS: u64 = 30_000;

/// What came of a command, with its ask as it is after the batch.
pub(crate) struct Done {
    pub(crate) reply: Result<Reply, Refusal>,
    pub(crate) shot: Option<Shot>,
}

/// The last state of an ask that somebody waits for, and the pipe that says that it is there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Shot>>>);

impl Slot {
    pub(crate) fn take(&self) -> Option<Shot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Waiter {
    pub(crate) slot: Slot,
    pub(crate) wake: PipeWriter,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

pub(crate) enum Message {
    /// `wait`: who waits for the ask to be over, unless it is with the command.
    Do {
        command: Box<Command>,
        reply: Option<Sender<Done>>,
        wait: Option<Waiter>,
    },
    Answer {
        name: String,
        answer: Box<dyn FnOnce(AskId) -> Answer + Send>,
        reply: Sender<Option<Done>>,
    },
    /// For the newest ask of this requester and key.
    OfKey {
        token: TokenHash,
        key: String,
        command: Box<dyn FnOnce(AskId) -> Command + Send>,
        reply: Sender<Option<Done>>,
    },
    Look {
        name: String,
        reply: Sender<Result<Option<Shot>, String>>,
    },
    Attach {
        surface: SurfaceId,
        name: String,
        events: Sender<Shown>,
    },
    Cancel {
        session: SessionKey,
        ended: bool,
        done: Sender<()>,
    },
    Open(Sender<Vec<Ask>>),
    Held(Sender<usize>),
    Prune {
        older_than: Duration,
        reply: Sender<usize>,
    },
    Close,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

pub(crate) struct Desk<J> {
    writer: Writer<J>,
    clock: Clock,
    waiters: BTreeMap<AskId, Vec<Waiter>>,
    surfaces: BTreeMap<SurfaceId, Sender<Shown>>,
    /// Facts that the journal did not take yet.
    owed: Vec<Command>,
    failing: bool,
    asleep_ms: u64,
}

struct Pending {
    command: Command,
    reply: Listener,
    wait: Option<Waiter>,
}

enum Listener {
    Doer(Sender<Done>),
    Person(Sender<Option<Done>>),
    Nobody,
}

impl<J: Journal> Desk<J> {
    pub(crate) fn new(writer: Writer<J>, clock: Clock) -> Self {
        let (waiters, surfaces) = (BTreeMap::new(), BTreeMap::new());
        Self { writer, clock, waiters, surfaces, owed: Vec::new(), failing: false, asleep_ms: suspended_ms() }
    }

    pub(crate) fn work(mut self, messages: &Receiver<Message>) {
        self.batch(vec![self.nobody(Command::Woke)]);
        loop {
            let first = match self.sleep_ms() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(ms) => messages.recv_timeout(Duration::from_millis(ms)),
            };
            let mut commands = Vec::new();
            let mut rest = None;
            let mut next = match first {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            while let Some(message) = next {
                rest = self.gather(message, &mut commands);
                // What asks for the state must see what was sent before it, and nothing sent after.
                let more = rest.is_none() && commands.len() < MOST_PER_BATCH;
                next = more.then(|| messages.try_recv().ok()).flatten();
            }
            let asleep = suspended_ms();
            if asleep > self.asleep_ms + RETRY_MS {
                commands.push(self.nobody(Command::Woke));
            }
            self.asleep_ms = asleep;
            if self.writer.poll_timeout(self.clock.now()).is_some_and(|(ms, _)| ms == 0) {
                commands.push(self.nobody(Command::Tick));
            }
            if !commands.is_empty() || !self.owed.is_empty() {
                self.batch(commands);
            }
            match rest {
                Some(Message::Close) => break,
                Some(message) => self.serve(message),
                None => {}
            }
        }
        let _ = self.writer.flush();
    }

    fn nobody(&self, command: Command) -> Pending {
        Pending { command, reply: Listener::Nobody, wait: None }
    }

    /// Until something has to be done; `None`: nothing is due.
    fn sleep_ms(&self) -> Option<u64> {
        let due = self.writer.poll_timeout(self.clock.now()).map(|(ms, _)| ms.min(LOOK_MS));
        match (self.failing, self.owed.is_empty()) {
            (_, false) => Some(RETRY_MS),
            (true, true) => due.map(|ms| ms.max(RETRY_MS)),
            (false, true) => due,
        }
    }

    /// Puts a command behind the others, or gives the message back when it is none.
    fn gather(&mut self, message: Message, commands: &mut Vec<Pending>) -> Option<Message> {
        match message {
            Message::Do { command, reply, wait } => {
                let reply = reply.map_or(Listener::Nobody, Listener::Doer);
                commands.push(Pending { command: *command, reply, wait });
            }
            Message::Answer { name, answer, reply } => match self.writer.resolve(&name) {
                Ok(Some(id)) => commands.push(Pending {
                    command: Command::Answer(answer(id)),
                    reply: Listener::Person(reply),
                    wait: None,
                }),
                Ok(None) => drop(reply.send(None)),
                Err(error) => {
                    let refused = Err(Refusal::NotRecorded(error.to_string()));
                    drop(reply.send(Some(Done { reply: refused, shot: None })));
                }
            },
            other => return Some(other),
        }
        None
    }

    fn batch(&mut self, mut pending: Vec<Pending>) {
        // Answers first, timers last: an answer that is here is in time.
        pending.sort_by_key(|one| match one.command {
            Command::Answer(_) => 0,
            Command::Tick => 2,
            _ => 1,
        });
        let owed = std::mem::take(&mut self.owed);
        let owed = owed.into_iter().map(|command| Pending { command, reply: Listener::Nobody, wait: None });
        let pending: Vec<Pending> = owed.chain(pending).collect();
        let (commands, listeners): (Vec<_>, Vec<_>) =
            pending.into_iter().map(|one| (one.command, (one.reply, one.wait))).unzip();
        let now = self.clock.now();
        // No probe of ours ends the process.
        let Ok(batched) = self.writer.run(&commands, now) else { return };
        self.failing = batched.replies.iter().any(|reply| matches!(reply, Err(Refusal::NotRecorded(_))));
        let finished: BTreeMap<AskId, AskState> = batched.finished.into_iter().collect();
        // Who hears that there is nothing to hand over does not come back for it.
        let mut told = Vec::new();
        for ((command, (listener, wait)), reply) in commands.iter().zip(listeners).zip(batched.replies) {
            // These say what has happened, and nobody says it twice.
            let fact = matches!(
                command,
                Command::LinkClosed { .. }
                    | Command::Woke
                    | Command::AttachSurface { .. }
                    | Command::DetachSurface { .. }
            );
            if fact && matches!(reply, Err(Refusal::NotRecorded(_))) {
                self.owed.push(command.clone());
            }
            let about = command.about(&reply);
            if let (Some(id), Some(waiter)) = (about, wait)
                && self.writer.state().ask(id).is_some_and(|ask| !is_past(ask))
            {
                self.waiters.entry(id).or_default().push(waiter);
            }
            let shot = about.and_then(|id| self.shot(id, &finished));
            // Who says what its own side decided learns nothing by that, and may come back to look.
            let tells = matches!(command, Command::DecidedByAgent { .. });
            if matches!(listener, Listener::Doer(_)) && !tells {
                told.extend(shot.as_ref().filter(|shot| has_nothing(&shot.ask)).map(|shot| shot.ask.ask.id));
            }
            let done = Done { reply, shot };
            match listener {
                Listener::Doer(reply) => drop(reply.send(done)),
                Listener::Person(reply) => drop(reply.send(Some(done))),
                Listener::Nobody => {}
            }
        }
        for entry in &batched.committed {
            let StreamId::Ask(id) = &entry.stream else { continue };
            let Some(shot) = self.shot(*id, &finished) else { continue };
            if is_past(&shot.ask) {
                for mut waiter in self.waiters.remove(id).into_iter().flatten() {
                    *waiter.slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(shot.clone());
                    if waiter.wake.write(&[1]).is_ok() && has_nothing(&shot.ask) {
                        told.push(*id);
                    }
                }
            }
            if !self.surfaces.is_empty() {
                let shown = Shown { what: entry.entry.event.name(), ask: shot.view() };
                self.surfaces.retain(|_, events| events.send(shown.clone()).is_ok());
            }
        }
        let _ = self.writer.released();
        if !told.is_empty() {
            let heard: Vec<_> = told.into_iter().map(|ask| Command::Heard { ask }).collect();
            let _ = self.writer.run(&heard, now);
        }
    }

    fn serve(&mut self, message: Message) {
        match message {
            Message::OfKey { token, key, command, reply } => {
                match self.writer.state().of_requester(token, &key) {
                    None => drop(reply.send(None)),
                    Some(ask) => self.batch(vec![Pending {
                        command: command(ask),
                        reply: Listener::Person(reply),
                        wait: None,
                    }]),
                }
            }
            Message::Look { name, reply } => drop(reply.send(self.look(&name))),
            Message::Attach { surface, name, events } => {
                let info = SurfaceInfo { name, remote: false, scope: Scope::All, capacity: None };
                let attach = Command::AttachSurface { surface: surface.clone(), info };
                self.batch(vec![self.nobody(attach)]);
                for ask in self.open() {
                    let _ = events.send(Shown { what: "open", ask });
                }
                self.surfaces.insert(surface, events);
            }
            Message::Cancel { session, ended, done } => {
                let seen = if ended { Seen::SessionEnded } else { Seen::TurnCancelled { subagent: None } };
                let observe = Observe {
                    by: askd_core::Voice::All,
                    owner: None,
                    session,
                    parent: None,
                    title: None,
                    cwd: None,
                    instance: None,
                    place: None,
                    seen,
                };
                self.batch(vec![self.nobody(Command::Observe(Box::new(observe)))]);
                let _ = done.send(());
            }
            Message::Open(reply) => drop(reply.send(self.open())),
            Message::Held(reply) => drop(reply.send(self.writer.state().asks().count())),
            Message::Prune { older_than, reply } => drop(reply.send(self.prune(older_than))),
            Message::Do { .. } | Message::Answer { .. } | Message::Close => {}
        }
    }

    fn prune(&mut self, older_than: Duration) -> usize {
        let span = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let before = self.now().wall_ms.saturating_sub(span);
        let mut all = 0;
        // What cannot be removed now stays for the next time.
        while let Ok(gone @ 1..) = self.writer.journal_mut().prune(before, 1000) {
            all += gone;
        }
        all
    }

    fn open(&self) -> Vec<Ask> {
        let state = self.writer.state();
        state.open().filter_map(|(id, _)| self.shot(id, &BTreeMap::new())).map(|shot| shot.view()).collect()
    }

    fn look(&self, name: &str) -> Result<Option<Shot>, String> {
        let Some(id) = self.writer.resolve(name).map_err(|error| error.to_string())? else { return Ok(None) };
        match self.shot(id, &BTreeMap::new()) {
            Some(shot) => Ok(Some(shot)),
            None => recall(self.writer.journal(), id, self.now()).map_err(|error| error.to_string()),
        }
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn shot(&self, id: AskId, finished: &BTreeMap<AskId, AskState>) -> Option<Shot> {
        let state = self.writer.state();
        let ask = state.ask(id).or_else(|| finished.get(&id))?;
        Some(Shot { root: state.root_of(ask.session()), ask: ask.clone() })
    }
}

/// Settled, and nothing of it is for the agent.
fn has_nothing(ask: &AskState) -> bool {
    !ask.is_open() && ask.verdict() == Verdict::None
}

/// A requester has nothing more to wait for.
pub(crate) fn is_past(ask: &AskState) -> bool {
    !ask.is_open() || ask.is_handed_back()
}
