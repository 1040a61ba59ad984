//! The writer thread and how the rest of the daemon talks to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use askd_core::command::{Command, Reply};
use askd_core::id::StreamId;
use askd_core::state::{AskState, Session};
use askd_core::{
    Answer, AskId, Event, Instance, Overrides, Refusal, Seen, SessionKey, Settings, SurfaceId, TokenHash,
};
use askd_journal::{Journal, Position};
use askd_writer::Writer;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::history;
use crate::publish::{Outlet, What};
use crate::view::Shot;

/// Most commands of one commit.
const MOST_PER_BATCH: usize = 1024;
/// Until a journal that takes nothing is tried again, in milliseconds.
const RETRY_MS: u64 = 1000;

/// A command's reply, with the ask that it was about as it is after the batch.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) reply: Result<Reply, Refusal>,
    pub(crate) shot: Option<Shot>,
}

/// Everything open at one position.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) position: Position,
    pub(crate) asks: Vec<Shot>,
    /// Asks that each surface with a capacity holds.
    pub(crate) slots: BTreeMap<SurfaceId, BTreeSet<AskId>>,
}

/// A session with its number of open asks.
#[derive(Debug)]
pub(crate) struct SessionShot {
    pub(crate) session: Session,
    pub(crate) root: SessionKey,
}

/// Numbers for `/healthz`.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) open: u32,
    pub(crate) surfaces: u32,
    /// What a person changed over the config: for every session (`None`), and for single ones.
    pub(crate) overrides: Vec<(Option<SessionKey>, Overrides)>,
}

/// Settings for asks made now, and what a person changed over the config: for every session, for this one's tree.
#[derive(Debug)]
pub(crate) struct Permissions {
    pub(crate) settings: Settings,
    pub(crate) everywhere: Overrides,
    pub(crate) session: Overrides,
}

/// Makes the answer once its ask is known, with the agents that are known then: whoever answers is judged by nothing
/// older than the ask.
type MakeAnswer = dyn FnOnce(AskId, &BTreeSet<Instance>) -> Answer + Send;

enum Message {
    Do {
        command: Command,
        reply: oneshot::Sender<Done>,
        /// Resolves like [`Message::Wait`] for the ask that the command is about; dropped when there is none, or when
        /// it is over already.
        over: Option<oneshot::Sender<Shot>>,
    },
    /// An answer to the ask that goes by this name now.
    Answer {
        name: String,
        answer: Box<MakeAnswer>,
        reply: oneshot::Sender<Result<Option<Done>, String>>,
    },
    /// Resolves when the ask needs no more waiting: settled, or handed back.
    Wait {
        ask: AskId,
        reply: oneshot::Sender<Shot>,
    },
    Look {
        name: String,
        reply: oneshot::Sender<Result<Option<Shot>, String>>,
    },
    Snapshot {
        reply: oneshot::Sender<Snapshot>,
    },
    Sessions {
        reply: oneshot::Sender<Vec<SessionShot>>,
    },
    Counts {
        reply: oneshot::Sender<Counts>,
    },
    Loosenings {
        reply: oneshot::Sender<BTreeSet<(String, String)>>,
    },
    AgentOf {
        session: SessionKey,
        reply: oneshot::Sender<Option<Instance>>,
    },
    RequestersOf {
        session: SessionKey,
        reply: oneshot::Sender<BTreeSet<TokenHash>>,
    },
    OfRequester {
        token: TokenHash,
        key: String,
        reply: oneshot::Sender<Option<AskId>>,
    },
    Permissions {
        session: Option<SessionKey>,
        reply: oneshot::Sender<Permissions>,
    },
    Settings(Box<Settings>),
    Prune {
        closed_before_wall_ms: i64,
        reply: oneshot::Sender<usize>,
    },
    /// Commits what is queued, hands back what it must, and ends the thread.
    Leave {
        release: bool,
        reply: oneshot::Sender<()>,
    },
}

/// The way to the writer thread; cheap to clone. When the thread has ended, everything answers `None` or not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    queue: Sender<Message>,
    instances: watch::Receiver<Arc<BTreeSet<Instance>>>,
}

/// What the writer thread tells the rest of the daemon.
pub(crate) struct Outlets {
    pub(crate) published: Outlet,
    /// Milliseconds until the next tick is wanted; `None`: nothing is due.
    pub(crate) alarm: watch::Sender<Option<u64>>,
    /// Agent processes seen for the first time.
    pub(crate) agents: mpsc::UnboundedSender<Instance>,
}

impl Engine {
    /// Starts the writer thread on an opened journal.
    pub(crate) fn start<J: Journal + 'static>(
        writer: Writer<J>,
        clock: Clock,
        outlets: Outlets,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (queue, messages) = channel();
        let (found, instances) = watch::channel(Arc::default());
        let desk = Desk {
            writer,
            clock,
            outlets,
            waiters: BTreeMap::new(),
            instances: found,
            owed: Vec::new(),
            failing: false,
            told_waiting: BTreeMap::new(),
            slots: BTreeMap::new(),
            last: 0,
        };
        let thread =
            std::thread::Builder::new().name("writer".to_owned()).spawn(move || desk.work(&messages))?;
        Ok((Self { queue, instances }, thread))
    }

    /// One whose thread has ended.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        Self { queue: channel().0, instances: watch::channel(Arc::default()).1 }
    }

    pub(crate) async fn run(&self, command: Command) -> Done {
        self.call(|reply| Message::Do { command, reply, over: None }).await.unwrap_or_else(stopping)
    }

    /// Runs a command about an ask. The second value resolves when that ask needs no more waiting, as by
    /// [`Engine::wait`]; at once with an error when it was over with the command.
    pub(crate) async fn run_and_wait(&self, command: Command) -> (Done, oneshot::Receiver<Shot>) {
        let (over, wait) = oneshot::channel();
        let done = self.call(|reply| Message::Do { command, reply, over: Some(over) }).await;
        (done.unwrap_or_else(stopping), wait)
    }

    /// Answers the ask that goes by this id or handle. `None`: there is none.
    pub(crate) async fn answer(
        &self,
        name: &str,
        answer: impl FnOnce(AskId, &BTreeSet<Instance>) -> Answer + Send + 'static,
    ) -> Option<Done> {
        let message = |reply| Message::Answer { name: name.to_owned(), answer: Box::new(answer), reply };
        match self.call(message).await {
            Some(Ok(done)) => done,
            Some(Err(why)) => Some(Done { reply: Err(Refusal::NotRecorded(why)), shot: None }),
            None => Some(stopping()),
        }
    }

    /// Sends a command whose reply nobody wants.
    pub(crate) fn tell(&self, command: Command) {
        let (reply, _) = oneshot::channel();
        let _ = self.queue.send(Message::Do { command, reply, over: None });
    }

    /// Waits until the ask is settled or handed back; `None`: the daemon stops.
    pub(crate) async fn wait(&self, ask: AskId) -> Option<Shot> {
        self.call(|reply| Message::Wait { ask, reply }).await
    }

    /// An ask by id or handle, also one that only the journal has.
    pub(crate) async fn look(&self, name: &str) -> Result<Option<Shot>, Refusal> {
        match self.call(|reply| Message::Look { name: name.to_owned(), reply }).await {
            Some(Ok(shot)) => Ok(shot),
            Some(Err(why)) => Err(Refusal::NotRecorded(why)),
            None => Err(Refusal::NotRecorded("the daemon is stopping".to_owned())),
        }
    }

    pub(crate) async fn snapshot(&self) -> Option<Snapshot> {
        self.call(|reply| Message::Snapshot { reply }).await
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionShot> {
        self.call(|reply| Message::Sessions { reply }).await.unwrap_or_default()
    }

    pub(crate) async fn counts(&self) -> Option<Counts> {
        self.call(|reply| Message::Counts { reply }).await
    }

    /// Agent processes that live sessions or unfinished asks belong to, as of the last reply that was given.
    pub(crate) fn instances(&self) -> Arc<BTreeSet<Instance>> {
        Arc::clone(&self.instances.borrow())
    }

    pub(crate) async fn loosenings(&self) -> BTreeSet<(String, String)> {
        self.call(|reply| Message::Loosenings { reply }).await.unwrap_or_default()
    }

    /// The agent process of a live session.
    pub(crate) async fn agent_of(&self, session: SessionKey) -> Option<Instance> {
        self.call(|reply| Message::AgentOf { session, reply }).await.flatten()
    }

    /// Whose asks a session and everything below it has.
    pub(crate) async fn requesters_of(&self, session: SessionKey) -> BTreeSet<TokenHash> {
        self.call(|reply| Message::RequestersOf { session, reply }).await.unwrap_or_default()
    }

    /// The newest ask of a requester and key.
    pub(crate) async fn of_requester(&self, token: TokenHash, key: String) -> Option<AskId> {
        self.call(|reply| Message::OfRequester { token, key, reply }).await.flatten()
    }

    pub(crate) async fn permissions(&self, session: Option<SessionKey>) -> Option<Permissions> {
        self.call(|reply| Message::Permissions { session, reply }).await
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        let _ = self.queue.send(Message::Settings(Box::new(settings)));
    }

    /// Removes a slice of what was closed before then; `None`: nothing more to remove, or not now.
    pub(crate) async fn prune(&self, closed_before_wall_ms: i64) -> Option<usize> {
        self.call(|reply| Message::Prune { closed_before_wall_ms, reply }).await.filter(|gone| *gone > 0)
    }

    /// Ends the writer thread. `release`: agents with a prompt of their own get their asks back.
    pub(crate) async fn leave(&self, release: bool) {
        self.call(|reply| Message::Leave { release, reply }).await;
    }

    async fn call<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(message(reply)).ok()?;
        answer.await.ok()
    }
}

/// The writer thread's own things.
struct Desk<J> {
    writer: Writer<J>,
    clock: Clock,
    outlets: Outlets,
    waiters: BTreeMap<AskId, Vec<oneshot::Sender<Shot>>>,
    instances: watch::Sender<Arc<BTreeSet<Instance>>>,
    /// Facts that the journal did not take yet.
    owed: Vec<Command>,
    /// The journal did not take the last batch.
    failing: bool,
    /// Numbers of open asks as they were told last; a session that is not here has none.
    told_waiting: BTreeMap<SessionKey, u32>,
    /// What surfaces with a capacity were told to show.
    slots: BTreeMap<SurfaceId, BTreeSet<AskId>>,
    last: Position,
}

struct Pending {
    command: Command,
    reply: Answerer,
    over: Option<oneshot::Sender<Shot>>,
}

/// Who hears what came of a command.
enum Answerer {
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

fn stopping() -> Done {
    Done { reply: Err(Refusal::NotRecorded("the daemon is stopping".to_owned())), shot: None }
}

impl<J: Journal> Desk<J> {
    fn work(mut self, messages: &Receiver<Message>) {
        self.last = self.writer.journal().last().unwrap_or(0);
        let state = self.writer.state();
        let waiting = state.sessions().filter(|s| s.waiting > 0);
        self.told_waiting = waiting.map(|s| (s.info.key.clone(), s.waiting)).collect();
        self.find_agents();
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
                    Message::Answer { name, answer, reply } => {
                        commands.extend(self.named(&name, answer, reply))
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

    fn batch(&mut self, mut pending: Vec<Pending>) {
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
        let pending = pending.into_iter().map(|one| (one.command, (one.reply, one.over)));
        let (commands, listeners): (Vec<_>, Vec<_>) = owed.chain(pending).unzip();
        let now = self.clock.now();
        // The crash points abort by themselves: in a daemon `Died` never comes back.
        let Ok(batched) = self.writer.run(&commands, now) else { return };
        if let Some(last) = batched.committed.last() {
            self.last = self.last.max(last.position);
        }
        self.failing = batched.replies.iter().any(|r| matches!(r, Err(Refusal::NotRecorded(_))));
        let finished: BTreeMap<AskId, AskState> = batched.finished.into_iter().collect();
        // Before anybody hears of it: whoever was told that an agent is known can rely on that.
        self.find_agents_of(&commands, &finished);
        for ((command, (listener, over)), reply) in commands.iter().zip(listeners).zip(batched.replies) {
            // These report what has happened and nobody says it twice, so they go with the next batch.
            let facts = matches!(
                command,
                Command::LinkClosed { .. }
                    | Command::AgentGone { .. }
                    | Command::Woke
                    | Command::DetachSurface { .. }
            );
            if facts && matches!(reply, Err(Refusal::NotRecorded(_))) {
                self.owed.push(command.clone());
            }
            let about = about(command, &reply);
            if let (Some(id), Some(over)) = (about, over)
                && self.writer.state().ask(id).is_some_and(|ask| !is_past(ask))
            {
                self.wait_for(id, over);
            }
            if listener.listens() {
                let shot = about.and_then(|id| self.shot(id, &finished));
                listener.hear(Done { reply, shot });
            }
        }
        let mut touched: Vec<(Position, &'static str, AskId)> = Vec::new();
        for entry in &batched.committed {
            match (&entry.stream, &entry.entry.event) {
                (StreamId::Ask(id), Event::SelfAnswerRefused { who, .. }) => {
                    let handle = self.shot(*id, &finished).map(|s| s.ask.ask.handle.to_string());
                    let text = format!("an agent tried to answer {}: {who}", handle.unwrap_or_default());
                    self.publish(What::Notice(text));
                }
                (StreamId::Ask(id), event) => touched.push((entry.position, event.name(), *id)),
                _ => {}
            }
        }
        let mut sessions = BTreeSet::new();
        for (position, what, id) in touched {
            if let Some(shot) = self.shot(id, &finished) {
                if matches!(what, "asked" | "settled" | "withdrawn") {
                    sessions.insert(shot.ask.session().clone());
                }
                self.wake(id, &shot);
                self.publish(What::Ask { position, what, shot: Arc::new(shot) });
            }
        }
        self.tell_waiting(sessions);
        self.tell_slots();
        let _ = self.writer.released();
        self.set_alarm();
    }

    fn serve(&mut self, message: Message) {
        match message {
            // These are gathered into batches.
            Message::Do { .. } | Message::Answer { .. } => {}
            Message::Wait { ask, reply } => match self.shot(ask, &BTreeMap::new()) {
                Some(shot) if !is_over(&shot) => self.wait_for(ask, reply),
                Some(shot) => drop(reply.send(shot)),
                // Finished meanwhile.
                None => {
                    if let Ok(Some(shot)) = history::recall(self.writer.journal(), ask, self.clock.now()) {
                        let _ = reply.send(shot);
                    }
                }
            },
            Message::Look { name, reply } => {
                let _ = reply.send(self.look(&name));
            }
            Message::Snapshot { reply } => {
                let state = self.writer.state();
                let asks = state
                    .open()
                    .map(|(_, ask)| Shot { root: state.root_of(ask.session()), ask: ask.clone() })
                    .collect();
                let _ = reply.send(Snapshot { position: self.last, asks, slots: self.slots.clone() });
            }
            Message::Sessions { reply } => {
                let state = self.writer.state();
                let sessions = state
                    .sessions()
                    .map(|s| SessionShot { session: s.clone(), root: state.root_of(&s.info.key) })
                    .collect();
                let _ = reply.send(sessions);
            }
            Message::Counts { reply } => {
                let state = self.writer.state();
                let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                let everywhere = (None, state.overrides().clone());
                let single = state.sessions().map(|s| (Some(&s.info.key), &s.overrides));
                let single = single.filter(|(_, overrides)| **overrides != Overrides::default());
                let _ = reply.send(Counts {
                    open: number(state.open().count()),
                    surfaces: number(state.surfaces().count()),
                    overrides: std::iter::once(everywhere)
                        .filter(|(_, overrides)| *overrides != Overrides::default())
                        .chain(single.map(|(key, overrides)| (key.cloned(), overrides.clone())))
                        .collect(),
                });
            }
            Message::Loosenings { reply } => drop(reply.send(self.writer.state().loosenings().clone())),
            Message::AgentOf { session, reply } => {
                let live = self.writer.state().session(&session).filter(|s| !s.ended);
                let _ = reply.send(live.and_then(|s| s.info.instance.clone()));
            }
            Message::RequestersOf { session, reply } => {
                let _ = reply.send(self.writer.state().requesters_of(&session));
            }
            Message::OfRequester { token, key, reply } => {
                let _ = reply.send(self.writer.state().of_requester(token, &key));
            }
            Message::Permissions { session, reply } => {
                let state = self.writer.state();
                let everywhere = state.overrides().clone();
                let permissions = match session {
                    Some(key) => Permissions {
                        settings: state.settings_for(&key),
                        session: state
                            .session(&state.root_of(&key))
                            .map(|s| s.overrides.clone())
                            .unwrap_or_default(),
                        everywhere,
                    },
                    None => Permissions {
                        settings: everywhere.over(&state.settings),
                        session: Overrides::default(),
                        everywhere,
                    },
                };
                let _ = reply.send(permissions);
            }
            Message::Settings(settings) => self.writer.set_settings(*settings),
            Message::Prune { closed_before_wall_ms, reply } => {
                let _ = reply.send(self.prune(closed_before_wall_ms));
            }
            Message::Leave { .. } => {}
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

    fn wait_for(&mut self, ask: AskId, waiter: oneshot::Sender<Shot>) {
        let waiters = self.waiters.entry(ask).or_default();
        // Those who left are noticed when the list would grow, so that asking again and again costs nothing that stays.
        if waiters.len() == waiters.capacity() {
            waiters.retain(|waiter| !waiter.is_closed());
        }
        waiters.push(waiter);
    }

    /// The answer to the ask of this name; nobody hears of `None`, for it was replied to.
    fn named(
        &self,
        name: &str,
        answer: Box<MakeAnswer>,
        reply: oneshot::Sender<Result<Option<Done>, String>>,
    ) -> Option<Pending> {
        match self.writer.resolve(name) {
            Ok(Some(ask)) => {
                let command = Command::Answer(answer(ask, &self.instances.borrow()));
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

    fn look(&self, name: &str) -> Result<Option<Shot>, String> {
        let Some(id) = self.writer.resolve(name).map_err(|e| e.to_string())? else { return Ok(None) };
        match self.shot(id, &BTreeMap::new()) {
            Some(shot) => Ok(Some(shot)),
            None => history::recall(self.writer.journal(), id, self.clock.now()).map_err(|e| e.to_string()),
        }
    }

    fn shot(&self, id: AskId, finished: &BTreeMap<AskId, AskState>) -> Option<Shot> {
        let state = self.writer.state();
        let ask = state.ask(id).or_else(|| finished.get(&id))?;
        Some(Shot { root: state.root_of(ask.session()), ask: ask.clone() })
    }

    fn wake(&mut self, id: AskId, shot: &Shot) {
        if is_over(shot) {
            for waiter in self.waiters.remove(&id).into_iter().flatten() {
                let _ = waiter.send(shot.clone());
            }
        } else if let Some(waiters) = self.waiters.get_mut(&id) {
            waiters.retain(|w| !w.is_closed());
        }
    }

    fn publish(&self, what: What) {
        self.outlets.published.send(what);
    }

    /// Tells how many asks each of these sessions waits for, when that is another number than was told last.
    fn tell_waiting(&mut self, touched: BTreeSet<SessionKey>) {
        for session in touched {
            let state = self.writer.state();
            let (waiting, root) = (state.waiting(&session), state.root_of(&session));
            let told = match waiting {
                0 => self.told_waiting.remove(&session),
                waiting => self.told_waiting.insert(session.clone(), waiting),
            };
            if told.unwrap_or(0) != waiting {
                self.publish(What::Waiting { session, root, waiting });
            }
        }
    }

    /// Surfaces with a capacity hear of an ask when it gets a slot there.
    fn tell_slots(&mut self) {
        let state = self.writer.state();
        let now: BTreeMap<SurfaceId, BTreeSet<AskId>> =
            state.limited_surfaces().map(|(surface, held)| (surface.clone(), held.clone())).collect();
        for (surface, held) in &now {
            let before = self.slots.get(surface);
            for id in held.iter().filter(|id| before.is_some_and(|b| !b.contains(*id))) {
                if let Some(shot) = self.shot(*id, &BTreeMap::new()) {
                    self.publish(What::Slot { surface: surface.clone(), shot: Arc::new(shot) });
                }
            }
        }
        self.slots = now;
    }

    fn set_alarm(&self) {
        let due = self.writer.poll_timeout(self.clock.now()).map(|(ms, _)| ms);
        // While the journal takes nothing it is tried again now and then, and a due timer does not spin.
        let due = match (self.failing, self.owed.is_empty()) {
            (_, false) => Some(due.unwrap_or(RETRY_MS).max(RETRY_MS)),
            (true, true) => due.map(|ms| ms.max(RETRY_MS)),
            (false, true) => due,
        };
        // Waking the timer for nothing costs more than the comparison.
        self.outlets.alarm.send_if_modified(|told| std::mem::replace(told, due) != due);
    }

    fn find_agents_of(&mut self, commands: &[Command], finished: &BTreeMap<AskId, AskState>) {
        let may_change = {
            let known = self.instances.borrow();
            let is_new = |instance: &Option<Instance>| instance.as_ref().is_some_and(|i| !known.contains(i));
            let gone = |ask: &AskState| ask.ask.requester.instance.is_some();
            commands.iter().any(|command| match command {
                Command::Raise(raise) => is_new(&raise.instance),
                Command::Observe(seen) => is_new(&seen.instance) || matches!(seen.seen, Seen::SessionEnded),
                Command::AgentGone { .. } => true,
                _ => false,
            }) || finished.values().any(gone)
        };
        if may_change {
            self.find_agents();
        }
    }

    fn find_agents(&self) {
        let agents = self.writer.state().instances();
        let known = self.instances.send_replace(Arc::new(agents));
        for agent in self.instances.borrow().difference(&known) {
            let _ = self.outlets.agents.send(agent.clone());
        }
    }

    fn prune(&mut self, closed_before_wall_ms: i64) -> usize {
        match self.writer.journal_mut().prune(closed_before_wall_ms, 1000) {
            Ok(0) => 0,
            Ok(gone) => {
                tracing::info!("{gone} streams are past the retention time and were removed");
                gone
            }
            Err(error) => {
                tracing::warn!("removing old asks: {error}");
                0
            }
        }
    }
}

/// A requester has nothing more to wait for.
pub(crate) fn is_over(shot: &Shot) -> bool {
    is_past(&shot.ask)
}

fn is_past(ask: &AskState) -> bool {
    !ask.is_open() || ask.is_handed_back()
}

/// The ask that the sender of a command wants to see.
fn about(command: &Command, reply: &Result<Reply, Refusal>) -> Option<AskId> {
    match reply {
        Ok(Reply::Raised(id) | Reply::Reattached(id) | Reply::Settled(id)) => Some(*id),
        Ok(Reply::Done | Reply::Loop(_)) | Err(_) => match command {
            Command::Raise(_) => None,
            other => other.needs(),
        },
    }
}

/// Surfaces registered with this daemon are known by a name of its own making.
pub(crate) fn surface_id(number: u64) -> SurfaceId {
    SurfaceId(format!("s{number}"))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
