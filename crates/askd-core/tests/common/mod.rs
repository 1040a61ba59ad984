//! The shell's part on a virtual clock: handle, apply, journal, sweep, recall and restart, in the shell's order.

pub mod dice;
pub mod make;

use std::collections::{BTreeMap, BTreeSet};

use askd_core::event::{Change, Event, Record};
use askd_core::id::StreamId;
use askd_core::{
    AskId, AskState, BootId, Command, Handle, Outcome, Refusal, Reply, SessionKey, Settings, Stamp, State,
};
use uuid::Uuid;

pub struct World {
    pub state: State,
    pub now: Stamp,
    pub settings: Settings,
    /// Everything that was recorded, in order.
    pub history: Vec<Record>,
    streams: BTreeMap<StreamId, Vec<(Event, Stamp)>>,
    /// Asks whose journal head says that nothing is left to do.
    closed: BTreeSet<AskId>,
    /// Finished by a note: the head is closed by the next commit, and not before.
    closing: BTreeSet<AskId>,
    /// Asks that left memory, as they were then.
    pub gone: BTreeMap<AskId, AskState>,
    /// Session streams that are folded into the state.
    loaded: BTreeSet<SessionKey>,
    boots: u128,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        Self {
            state: State::new(settings.clone()),
            now: Stamp { boot: BootId(Uuid::from_u128(1)), boot_ms: 1_000_000, wall_ms: 1_800_000_000_000 },
            settings,
            history: Vec::new(),
            streams: BTreeMap::new(),
            closed: BTreeSet::new(),
            closing: BTreeSet::new(),
            gone: BTreeMap::new(),
            loaded: BTreeSet::new(),
            boots: 1,
        }
    }

    pub fn run(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let let_go = match command {
            Command::Raise(raise) => self.state.let_go_of(raise),
            _ => None,
        };
        command.needs().into_iter().chain(let_go).for_each(|id| self.recall(id));
        let mut handled = self.state.handle(command, self.now);
        // A session that is not in memory conflicts in the journal, is read back, and the command is handled again.
        while let Some(key) = self.unread(&handled.changes) {
            self.state.forget_session(&key, true);
            self.read(&StreamId::Session(key));
            handled = self.state.handle(command, self.now);
        }
        let mut records = Vec::new();
        for change in handled.changes {
            self.state.apply(&change, self.now);
            if let Change::Record(record) = change {
                records.push(record);
            }
        }
        self.commit(records);
        for (id, ask) in self.state.sweep() {
            if !self.closed.contains(&id) {
                self.closing.insert(id);
            }
            self.gone.insert(id, ask);
        }
        handled.reply
    }

    fn unread(&self, changes: &[Change]) -> Option<SessionKey> {
        changes.iter().find_map(|change| match change {
            Change::Record(Record { stream: stream @ StreamId::Session(key), .. })
                if !self.loaded.contains(key) && self.streams.contains_key(stream) =>
            {
                Some(key.clone())
            }
            _ => None,
        })
    }

    fn commit(&mut self, records: Vec<Record>) {
        if !records.is_empty() {
            self.closed.append(&mut self.closing);
        }
        for record in records {
            match &record.stream {
                StreamId::Ask(id) => {
                    if self.state.ask(*id).is_none_or(AskState::is_finished) {
                        self.closed.insert(*id);
                    } else {
                        self.closed.remove(id);
                    }
                }
                StreamId::Session(key) => {
                    self.loaded.insert(key.clone());
                }
                _ => {}
            }
            let stream = self.streams.entry(record.stream.clone()).or_default();
            stream.push((record.event.clone(), record.at));
            self.history.push(record);
        }
    }

    fn recall(&mut self, id: AskId) {
        if self.state.ask(id).is_none() {
            self.read(&StreamId::Ask(id));
        }
    }

    fn read(&mut self, stream: &StreamId) {
        let Some(events) = self.streams.get(stream) else { return };
        let is_closed = |id| self.closed.contains(id) || self.closing.contains(id);
        let closed = matches!(stream, StreamId::Ask(id) if is_closed(id));
        self.state.load(stream, events.iter().map(|(event, at)| (event, *at)), closed, self.now);
        if let StreamId::Session(key) = stream {
            self.loaded.insert(key.clone());
        }
    }

    // ---- time

    fn advance(&mut self, ms: u64) {
        self.now.boot_ms += ms;
        self.now.wall_ms += i64::try_from(ms).unwrap();
    }

    /// Time passes and the shell wakes exactly when it is told to.
    pub fn pass(&mut self, ms: u64) {
        self.settle();
        let end = self.now.boot_ms + ms;
        while let Some((wait, _)) = self.state.poll_timeout(self.now)
            && self.now.boot_ms + wait <= end
        {
            self.advance(wait);
            self.settle();
        }
        self.advance(end - self.now.boot_ms);
    }

    /// Time passes and the shell is too busy to wake.
    pub fn stall(&mut self, ms: u64) {
        self.advance(ms);
    }

    /// Everything that is due now.
    pub fn settle(&mut self) {
        while let Some((0, why)) = self.state.poll_timeout(self.now) {
            let changes = self.state.handle(&Command::Tick, self.now).changes;
            assert!(!changes.is_empty(), "{why} is said to be due and is not");
            self.run(&Command::Tick).unwrap();
        }
    }

    pub fn step_wall(&mut self, ms: i64) {
        self.now.wall_ms += ms;
    }

    /// The machine sleeps; the boot clock goes on.
    pub fn suspend(&mut self, ms: u64) {
        self.advance(ms);
        self.run(&Command::Woke).unwrap();
    }

    /// The daemon ends in good order and starts again.
    pub fn restart(&mut self) {
        self.closed.append(&mut self.closing);
        self.crash();
    }

    /// The daemon is killed and starts again: memory is gone, and so is what no commit has carried.
    pub fn crash(&mut self) {
        self.closing.clear();
        self.loaded.clear();
        let live: Vec<_> = self.state.sessions().filter(|s| !s.ended).map(|s| s.info.key.clone()).collect();
        self.state = State::new(self.settings.clone());
        let daemons: Vec<_> =
            self.streams.keys().filter(|s| matches!(s, StreamId::Daemon(_))).cloned().collect();
        daemons.iter().for_each(|stream| self.read(stream));
        for key in live {
            self.read(&StreamId::Session(key));
        }
        let asks: Vec<_> = self.streams.keys().filter(|s| matches!(s, StreamId::Ask(_))).cloned().collect();
        for stream in asks {
            let StreamId::Ask(id) = &stream else { continue };
            if self.closed.contains(id) {
                let Some((Event::Asked { ask }, _)) = self.streams[&stream].first() else { continue };
                self.state.handle_is_taken(Handle(ask.handle.0.clone()));
            } else {
                self.read(&stream);
            }
        }
        for (id, ask) in self.state.sweep() {
            self.gone.insert(id, ask);
            self.closing.insert(id);
        }
        self.run(&Command::Woke).unwrap();
    }

    /// The machine was off for this long.
    pub fn reboot(&mut self, off_ms: u64) {
        self.boots += 1;
        self.now = Stamp {
            boot: BootId(Uuid::from_u128(self.boots)),
            boot_ms: 5_000,
            wall_ms: self.now.wall_ms + i64::try_from(off_ms).unwrap(),
        };
        self.restart();
    }

    // ---- looking

    /// An ask as it is, or as it was when it left memory.
    pub fn ask(&self, id: AskId) -> &AskState {
        self.state.ask(id).unwrap_or_else(|| &self.gone[&id])
    }

    pub fn outcome(&self, id: AskId) -> &Outcome {
        self.ask(id).outcome.as_ref().expect("not settled")
    }

    /// Names of everything that happened to an ask, in order.
    pub fn story(&self, id: AskId) -> Vec<&'static str> {
        self.streams[&StreamId::Ask(id)].iter().map(|(event, _)| event.name()).collect()
    }

    /// The ask as the journal alone gives it back.
    pub fn replayed(&self, id: AskId) -> AskState {
        let mut state = State::new(self.settings.clone());
        let stream = StreamId::Ask(id);
        state.load(&stream, self.streams[&stream].iter().map(|(event, at)| (event, *at)), false, self.now);
        state.ask(id).unwrap().clone()
    }

    /// The commit that carried this ask's last events failed: what memory holds of it is thrown away and read back.
    pub fn reload(&mut self, id: AskId) {
        let link = self.state.forget(id);
        self.read(&StreamId::Ask(id));
        if let Some(link) = link {
            self.state.relink(id, link, self.now);
        }
    }

    /// A state that holds one finished ask, read back because somebody named it.
    pub fn recalled(&self, id: AskId) -> State {
        let mut state = State::new(self.settings.clone());
        let stream = StreamId::Ask(id);
        state.load(&stream, self.streams[&stream].iter().map(|(event, at)| (event, *at)), true, self.now);
        state
    }

    /// A whole state from the journal alone.
    pub fn replayed_state(&self) -> State {
        let mut state = State::new(self.settings.clone());
        let sessions_first = self.streams.iter().rev();
        for (stream, events) in sessions_first {
            state.load(stream, events.iter().map(|(event, at)| (event, *at)), false, self.now);
        }
        state
    }
}
