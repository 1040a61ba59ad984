//! A batch from commands to replies.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::command::{Command, Reply};
use askd_core::event::{Change, Record};
use askd_core::id::StreamId;
use askd_core::state::AskState;
use askd_core::{AskId, Handle, LinkId, Now, Refusal, SessionKey, Settings, State};
use askd_journal::{
    Append, Batch, Claim, CommitError, Committed, Entry, Head, HeadState, Journal, JournalError, Positioned,
    Version,
};
use uuid::Uuid;

use crate::heads;
use crate::probe::{Point, Probe};

/// A batch is handled again this often when somebody else wrote first; then its commands hear "not recorded".
const ATTEMPTS: usize = 64;

/// How long after a failed read the journal is tried again.
const READ_AGAIN_MS: u64 = 1_000;

/// Identities for journal entries, unique for ever; injected so that a simulation can repeat them.
pub trait Ids: Send {
    fn next(&mut self) -> Uuid;
}

/// What a batch did. Everything in here is durable already.
#[derive(Debug, Default)]
pub struct Batched {
    /// One for each command, in order.
    pub replies: Vec<Result<Reply, Refusal>>,
    /// New entries in journal order.
    pub committed: Vec<Positioned>,
    /// Asks that left memory with this batch, as they were last.
    pub finished: Vec<(AskId, AskState)>,
}

/// What the journal has of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) version: Version,
    /// Its head says that nothing more is to come.
    pub(crate) closed: bool,
}

/// The probe ended the process here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died(pub Point);

/// Owns the working state and the journal; the only one that changes either.
pub struct Writer<J> {
    pub(crate) state: State,
    pub(crate) journal: J,
    pub(crate) written: BTreeMap<StreamId, Mark>,
    /// Streams whose memory image must be read back before anything else is done.
    pub(crate) unloaded: BTreeSet<StreamId>,
    /// Links that asks had before they were unloaded.
    pub(crate) held: BTreeMap<AskId, LinkId>,
    /// Links of the asks that this batch changes, as they were before it.
    pub(crate) held_before: BTreeMap<AskId, Option<LinkId>>,
    /// A batch of which the journal could not tell whether it was written.
    doubt: Option<Batch>,
    /// Heads to be closed with the next commit; not worth one of their own.
    closing: BTreeMap<StreamId, Head>,
    ids: Box<dyn Ids>,
    probe: Box<dyn Probe>,
}

impl<J: Journal> Writer<J> {
    /// Loads what is not closed. Whoever waited before has to come back within its grace.
    pub fn open(
        journal: J,
        settings: Settings,
        ids: Box<dyn Ids>,
        probe: Box<dyn Probe>,
        now: Now,
    ) -> Result<Self, JournalError> {
        let mut writer = Self {
            state: State::new(settings),
            journal,
            written: BTreeMap::new(),
            unloaded: BTreeSet::new(),
            held: BTreeMap::new(),
            held_before: BTreeMap::new(),
            doubt: None,
            closing: BTreeMap::new(),
            ids,
            probe,
        };
        writer.load_unclosed(now)?;
        writer.sweep(now);
        Ok(writer)
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Settings apply to asks made from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.state.settings = settings;
    }

    /// Open asks that are shown elsewhere since this was asked last, with the root where they were shown before.
    pub fn take_moved(&mut self) -> Vec<(AskId, SessionKey)> {
        self.state.take_moved()
    }

    pub fn journal(&self) -> &J {
        &self.journal
    }

    pub fn journal_mut(&mut self) -> &mut J {
        &mut self.journal
    }

    /// Handles the commands in order, commits what they changed as one batch, and returns what may be told.
    pub fn run(&mut self, commands: &[Command], now: Now) -> Result<Batched, Died> {
        self.pass(Point::Drained)?;
        let recovered = match self.recover(now) {
            Ok(recovered) => recovered,
            Err(error) => return Ok(not_recorded(commands, &error.to_string())),
        };
        let mut batched = self.run_recovered(commands, now)?;
        batched.committed.splice(0..0, recovered);
        Ok(batched)
    }

    fn run_recovered(&mut self, commands: &[Command], now: Now) -> Result<Batched, Died> {
        let waits = self.state.waits_for_remotes(now);
        let overrides = self.state.overrides().clone();
        if let Err(error) = self.avoid_taken_handles(commands) {
            return Ok(not_recorded(commands, &error.to_string()));
        }
        for _ in 0..ATTEMPTS {
            self.held_before.clear();
            let mut records = Vec::new();
            let mut replies = Vec::with_capacity(commands.len());
            for command in commands {
                replies.push(self.handle(command, now, &mut records));
            }
            if records.is_empty() {
                let finished = self.sweep(now);
                return Ok(Batched { replies, committed: Vec::new(), finished });
            }
            let batch = self.batch(records, now);
            self.pass(Point::Applied)?;
            let result = self.journal.commit(&batch);
            self.pass(Point::Committed)?;
            match self.settle(&batch, result, now) {
                Settled::Written(committed) => {
                    let committed = self.written(batch, committed);
                    let finished = self.sweep(now);
                    return Ok(Batched { replies, committed, finished });
                }
                Settled::Again => {}
                Settled::NotWritten(why) => {
                    self.state.take_overrides_back(overrides);
                    self.wait_for_remotes_again(waits, commands, now);
                    return Ok(not_recorded(commands, &why));
                }
            }
        }
        self.state.take_overrides_back(overrides);
        self.wait_for_remotes_again(waits, commands, now);
        Ok(not_recorded(commands, "other writers were always first"))
    }

    /// What a remote surface fetched was not recorded: no overdue default may be applied before it says so again.
    fn wait_for_remotes_again(&mut self, waited: bool, commands: &[Command], now: Now) {
        if waited && commands.iter().any(|c| matches!(c, Command::RemotePolled { .. })) {
            for change in self.state.handle(&Command::Woke, now).changes {
                self.state.apply(&change, now);
            }
        }
    }

    /// Reads back what a failed batch left unloaded, and finds out about a batch in doubt. Returns its entries when it
    /// was written after all: nobody was told of them yet.
    fn recover(&mut self, now: Now) -> Result<Vec<Positioned>, JournalError> {
        if !self.unloaded.is_empty() {
            self.reload(&[], now)?;
        }
        let Some(batch) = self.doubt.take() else { return Ok(Vec::new()) };
        let found = self.is_written(&batch).and_then(|written| match written {
            true => self.entries_of(&batch, now),
            false => Ok(Vec::new()),
        });
        found.inspect_err(|_| self.doubt = Some(batch)).map_err(|error| still_in_doubt(&error))
    }

    /// Never a guess: the first entry's own id tells whether a batch is there, and that it is not counts only when it can
    /// no longer come back.
    fn is_written(&mut self, batch: &Batch) -> Result<bool, JournalError> {
        let Some((stream, id)) = batch.appends.iter().find_map(|a| Some((&a.stream, a.entries.first()?.id)))
        else {
            return self.journal.settle().map(|()| false);
        };
        if self.journal.contains(stream, id)? {
            return Ok(true);
        }
        self.journal.settle()?;
        self.journal.contains(stream, id)
    }

    /// The entries of a batch that was written and is not in memory.
    fn entries_of(&mut self, batch: &Batch, now: Now) -> Result<Vec<Positioned>, JournalError> {
        let mut entries = Vec::new();
        for append in &batch.appends {
            let ids: BTreeSet<_> = append.entries.iter().map(|e| e.id).collect();
            let there = self.journal.read(&append.stream)?;
            entries.extend(there.into_iter().filter(|e| ids.contains(&e.entry.id)));
        }
        let touched: Vec<_> = batch.appends.iter().map(|a| a.stream.clone()).collect();
        self.reload(&touched, now)?;
        Ok(entries)
    }

    /// To be called when everything that [`Writer::run`] returned was told.
    pub fn released(&mut self) -> Result<(), Died> {
        self.pass(Point::Released)
    }

    /// Writes heads that waited for a commit to ride in. For an orderly stop.
    pub fn flush(&mut self) -> Result<(), CommitError> {
        let batch = Batch { appends: self.take_closing(&BTreeSet::new()), ..Batch::default() };
        if batch.appends.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.journal.commit(&batch) {
            for append in batch.appends {
                self.written.insert(append.stream.clone(), Mark { version: append.expected, closed: false });
                self.closing.insert(append.stream, append.head);
            }
            return Err(error);
        }
        Ok(())
    }

    /// When and why [`Command::Tick`] is wanted next, in milliseconds from `now`.
    pub fn poll_timeout(&self, now: Now) -> Option<(u64, &'static str)> {
        if self.doubt.is_some() || !self.unloaded.is_empty() {
            return Some((READ_AGAIN_MS, "the journal is to be read again"));
        }
        self.state.poll_timeout(now)
    }

    fn pass(&mut self, point: Point) -> Result<(), Died> {
        if self.probe.dies_at(point) { Err(Died(point)) } else { Ok(()) }
    }

    fn handle(&mut self, command: &Command, now: Now, records: &mut Vec<Record>) -> Result<Reply, Refusal> {
        let let_go = match command {
            Command::Raise(raise) => self.state.let_go_of(raise),
            _ => None,
        };
        for id in command.needs().into_iter().chain(let_go) {
            match self.recall(id, now) {
                Ok(_) => {}
                Err(error) => return Err(Refusal::NotRecorded(error.to_string())),
            }
        }
        let line = match command {
            Command::Raise(raise) => Some((&raise.session, &raise.parent)),
            Command::Observe(seen) => Some((&seen.session, &seen.parent)),
            _ => None,
        };
        if let Some((session, parent)) = line {
            let recalled = [Some(session), parent.as_ref()]
                .into_iter()
                .flatten()
                .try_for_each(|key| self.recall_line(key, now));
            if let Err(error) = recalled {
                return Err(Refusal::NotRecorded(error.to_string()));
            }
        }
        let handled = self.state.handle(command, now);
        for change in handled.changes {
            if let Change::Record(Record { stream: StreamId::Ask(id), .. }) = &change {
                let link = self.state.ask(*id).and_then(AskState::attached_link);
                self.held_before.entry(*id).or_insert(link);
            }
            self.state.apply(&change, now);
            if let Change::Record(record) = change {
                records.push(record);
            }
        }
        handled.reply
    }

    /// Handles of asks that left memory are the journal's to know. Looking first spares the conflict, with which the
    /// whole batch would be handled again.
    fn avoid_taken_handles(&mut self, commands: &[Command]) -> Result<(), JournalError> {
        let raised = |command: &Command| match command {
            Command::Raise(raise) => Some(raise.id),
            _ => None,
        };
        let mut ids: Vec<AskId> = commands.iter().filter_map(raised).collect();
        for _ in 0..ATTEMPTS {
            if ids.is_empty() {
                break;
            }
            let handles: Vec<Handle> = ids.iter().map(|id| self.state.next_handle(*id)).collect();
            let names: Vec<String> = handles.iter().map(|handle| format!("handle/{handle}")).collect();
            let holders = self.journal.holders(&names)?;
            let mut taken = Vec::new();
            for ((id, handle), holder) in ids.into_iter().zip(handles).zip(holders) {
                if holder.is_some_and(|holder| holder != StreamId::Ask(id)) {
                    self.state.handle_is_taken(handle);
                    taken.push(id);
                }
            }
            ids = taken;
        }
        Ok(())
    }

    /// One append per stream, in the order of each stream's first record, with heads and claims as they are after all
    /// of them.
    fn batch(&mut self, records: Vec<Record>, now: Now) -> Batch {
        let mut batch = Batch::default();
        let shared = self.journal.is_shared();
        let mut places: BTreeMap<StreamId, usize> = BTreeMap::new();
        for record in records {
            let Record { stream, at, event } = record;
            if let StreamId::Ask(id) = &stream {
                heads::claims(*id, &event, self.state.ask(*id), shared, &mut batch);
            }
            let place = *places.entry(stream.clone()).or_insert_with(|| {
                batch.appends.push(Append {
                    expected: self.written.get(&stream).map_or(0, |mark| mark.version),
                    head: heads::of_stream(&self.state, &stream, now.wall_ms),
                    entries: Vec::new(),
                    stream,
                });
                batch.appends.len() - 1
            });
            let id = self.ids.next();
            batch.appends[place].entries.push(Entry { id, at, event });
        }
        let present = places.into_keys().collect();
        batch.appends.extend(self.take_closing(&present));
        batch
    }

    fn take_closing(&mut self, except: &BTreeSet<StreamId>) -> Vec<Append> {
        std::mem::take(&mut self.closing)
            .into_iter()
            .filter(|(stream, _)| !except.contains(stream))
            .filter_map(|(stream, head)| {
                let expected = self.written.remove(&stream)?.version;
                Some(Append { stream, expected, entries: Vec::new(), head })
            })
            .collect()
    }

    fn settle(&mut self, batch: &Batch, result: Result<Committed, CommitError>, now: Now) -> Settled {
        let why = match result {
            Ok(committed) => return Settled::Written(Some(committed)),
            Err(CommitError::Conflict { streams, claims }) => {
                let touched =
                    batch.appends.iter().map(|a| a.stream.clone()).chain(streams).collect::<Vec<_>>();
                return match self.reload(&touched, now).and_then(|()| self.learn(&claims, now)) {
                    Ok(()) => Settled::Again,
                    Err(error) => Settled::NotWritten(error.to_string()),
                };
            }
            Err(CommitError::Unknown(why)) => match self.is_written(batch) {
                Ok(true) => return Settled::Written(None),
                Ok(false) => why,
                Err(error) => {
                    self.doubt = Some(batch.clone());
                    format!("whether it was recorded cannot be told yet: {error}")
                }
            },
            Err(CommitError::Failed(error)) => error.to_string(),
        };
        let touched: Vec<_> = batch.appends.iter().map(|a| a.stream.clone()).collect();
        // When even reading fails the streams stay marked as unloaded, and nothing is done before they are back.
        let _ = self.reload(&touched, now);
        Settled::NotWritten(why)
    }

    /// Names that another ask holds: a handle is avoided next time, a key's ask is brought in to re-attach to.
    fn learn(&mut self, claims: &[Claim], now: Now) -> Result<(), JournalError> {
        for claim in claims {
            if let Some(handle) = claim.name.strip_prefix("handle/") {
                self.state.handle_is_taken(Handle(handle.to_owned()));
            } else if let StreamId::Ask(id) = claim.holder {
                self.recall(id, now)?;
            }
        }
        Ok(())
    }

    fn written(&mut self, batch: Batch, committed: Option<Committed>) -> Vec<Positioned> {
        let mut position = committed.map(|c| c.first);
        let mut out = Vec::new();
        for append in batch.appends {
            let mut version = append.expected;
            for entry in append.entries {
                version += 1;
                // After a lost acknowledgement the positions are not known from the reply; the stream has them.
                let at = match &mut position {
                    Some(next) => {
                        *next += 1;
                        *next - 1
                    }
                    None => self.position_of(&append.stream, entry.id),
                };
                out.push(Positioned { position: at, stream: append.stream.clone(), version, entry });
            }
            if version > append.expected {
                let closed = append.head.state == HeadState::Closed;
                self.written.insert(append.stream, Mark { version, closed });
            }
        }
        out
    }

    fn position_of(&self, stream: &StreamId, id: Uuid) -> u64 {
        let entries = self.journal.read(stream).unwrap_or_default();
        entries.iter().find(|e| e.entry.id == id).map_or(0, |e| e.position)
    }

    /// Takes finished asks out of memory; those whose journal head is not closed yet get it closed with the next commit.
    fn sweep(&mut self, now: Now) -> Vec<(AskId, AskState)> {
        let finished = self.state.sweep();
        for (id, ask) in &finished {
            let stream = StreamId::Ask(*id);
            match self.written.get(&stream) {
                Some(mark) if !mark.closed => {
                    let head = heads::of_ask(&self.state, ask, now.wall_ms);
                    self.closing.insert(stream, head);
                }
                _ => drop(self.written.remove(&stream)),
            }
        }
        finished
    }
}

enum Settled {
    /// `None`: written, but the acknowledgement with the positions was lost.
    Written(Option<Committed>),
    Again,
    NotWritten(String),
}

/// What comes after a batch in doubt is certainly not recorded itself.
fn still_in_doubt(error: &JournalError) -> JournalError {
    JournalError::Other(format!("whether what came before was recorded cannot be told yet: {error}"))
}

fn not_recorded(commands: &[Command], why: &str) -> Batched {
    let refused = || Err(Refusal::NotRecorded(why.to_owned()));
    Batched { replies: commands.iter().map(|_| refused()).collect(), ..Batched::default() }
}
