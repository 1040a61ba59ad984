//! The daemon as the proxy's threads see it: the shipped core, writer and in-memory journal, up or down.

use askd_core::{
    Answer, AskId, AskState, BootId, Command, Decision, Hash256, Instance, LinkId, Observe, Refusal, Reply,
    Seen, SessionKey, Settings, Stamp, State, Verdict,
};
use askd_journal::{Journal as _, MemoryJournal, MemoryStore};
use askd_serve::raise::{Arrival, raise};
use askd_wire::{Observation, ObservationBatch, RaiseAsk};
use askd_writer::{Ids, Writer};
use uuid::Uuid;

const RETENTION_MS: i64 = 120_000;

/// What an answer says besides yes and no.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) option: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) stop: bool,
}

/// Ids of entries, counted.
struct Counted(u128);

impl Ids for Counted {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

pub(crate) struct Daemon {
    settings: Settings,
    /// The requester's process; each life of it has a token of its own.
    life: u32,
    store: MemoryStore,
    writer: Writer<MemoryJournal>,
    lives: u128,
    now: Stamp,
    ids: u128,
    links: u64,
    up: bool,
    /// Finished asks, which leave memory.
    gone: std::collections::BTreeMap<AskId, AskState>,
}

impl Daemon {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let now = Stamp { boot: BootId(Uuid::from_u128(1)), boot_ms: 1_000_000, wall_ms: 1_800_000_000_000 };
        let store = MemoryStore::new();
        Self {
            writer: writer(&store, 0, &settings, now),
            settings,
            life: 0,
            store,
            lives: 0,
            now,
            ids: 0,
            links: 0,
            up: true,
            gone: std::collections::BTreeMap::new(),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// Whoever held a link lost it.
    pub(crate) fn die(&mut self) {
        self.up = false;
    }

    /// A new one on the same journal, where the one before has died.
    pub(crate) fn start(&mut self) {
        if !self.up {
            self.lives += 1;
            self.writer = writer(&self.store, self.lives, &self.settings, self.now);
            self.up = true;
        }
    }

    pub(crate) fn core(&self) -> &State {
        self.writer.state()
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.boot_ms += ms;
        self.now.wall_ms += i64::try_from(ms).unwrap();
        if self.up {
            let _ = self.run(&Command::Tick);
        }
    }

    pub(crate) fn run(&mut self, command: &Command) -> Result<Reply, Refusal> {
        if !self.up {
            return Err(Refusal::NotRecorded("the daemon is down".to_owned()));
        }
        let mut batched = self.writer.run(std::slice::from_ref(command), self.now).unwrap();
        self.gone.extend(batched.finished);
        self.writer.released().unwrap();
        batched.replies.pop().unwrap()
    }

    pub(crate) fn ask(&self, id: AskId) -> Option<&AskState> {
        self.core().ask(id).or_else(|| self.gone.get(&id))
    }

    pub(crate) fn asks(&self) -> impl Iterator<Item = (AskId, &AskState)> {
        self.core().asks().chain(self.gone.iter().map(|(id, ask)| (*id, ask)))
    }

    /// What a remote surface kept last.
    pub(crate) fn kept(&self, name: &str) -> Option<serde_json::Value> {
        use askd_journal::Reader as _;
        let stream = askd_core::id::StreamId::Surface(name.to_owned());
        let last = self.store.open().read(&stream).unwrap().pop()?;
        match last.entry.event {
            askd_core::Event::SurfaceState { state } => Some(state),
            _ => None,
        }
    }

    /// A new process of the requester from here on.
    pub(crate) fn next_life(&mut self) {
        self.life += 1;
    }

    pub(crate) fn token(&self) -> Hash256 {
        Hash256::of(format!("the proxy {}", self.life).as_bytes())
    }

    /// As a daemon does once a day, with `keep` of the asks that have left its memory. The journal is in memory here,
    /// and is not what must stay flat.
    pub(crate) fn prune(&mut self, keep: usize) {
        while self.gone.len() > keep {
            self.gone.pop_first();
        }
        if self.up {
            let _ = self.writer.journal_mut().prune(self.now.wall_ms - RETENTION_MS, 1000);
        }
    }

    pub(crate) fn link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }

    /// Raises it, or comes back to it.
    pub(crate) fn raise(&mut self, from: &RaiseAsk, link: LinkId) -> Result<AskId, Refusal> {
        self.ids += 1;
        let id = AskId(Uuid::from_u128(self.ids));
        let pid = self.life;
        let instance = (pid > 0).then(|| Instance { host: "here".to_owned(), pid, start: pid.into() });
        let arrival = Arrival { id, token: self.token(), link, instance, owner: None, place: None };
        let raise = raise(from.clone(), arrival).unwrap();
        match self.run(&Command::Raise(Box::new(raise)))? {
            Reply::Raised(id) | Reply::Reattached(id) => Ok(id),
            other => panic!("a raise gives {other:?}"),
        }
    }

    pub(crate) fn answer<'a>(
        &mut self,
        ask: AskId,
        option: impl Into<Option<&'a str>>,
        decision: Decision,
        surface: &str,
    ) -> Result<(), Refusal> {
        let words = Words { option: option.into().map(str::to_owned), ..Words::default() };
        self.answer_with(ask, decision, words, surface)
    }

    pub(crate) fn answer_with(
        &mut self,
        ask: AskId,
        decision: Decision,
        words: Words,
        surface: &str,
    ) -> Result<(), Refusal> {
        let Some(digest) = self.ask(ask).map(|state| state.ask.digest) else {
            return Err(Refusal::UnknownAsk);
        };
        let answer = Answer {
            ask,
            digest,
            decision,
            option: words.option,
            message: words.message,
            stop: words.stop,
            surface: surface.to_owned(),
            remote: false,
            by: None,
            refused: None,
        };
        self.run(&Command::Answer(answer)).map(drop)
    }

    pub(crate) fn observe(&mut self, batch: &ObservationBatch) {
        let key = |session: &String| SessionKey { agent: batch.agent.clone(), session: session.clone() };
        for observation in &batch.observations {
            let seen = seen(observation.clone());
            let observe = Observe {
                by: askd_core::Voice::All,
                owner: None,
                session: key(&batch.session),
                parent: batch.parent.as_ref().map(key),
                title: None,
                cwd: None,
                instance: None,
                place: None,
                seen,
            };
            self.run(&Command::Observe(Box::new(observe))).unwrap();
        }
    }

    /// What the requester is told of an ask that is over.
    pub(crate) fn outcome(&self, id: AskId) -> Option<askd_wire::Outcome> {
        let state = self.ask(id)?;
        let outcome = state.outcome.as_ref()?;
        Some(askd_wire::Outcome {
            outcome: match outcome.kind {
                askd_core::OutcomeKind::Allowed => askd_wire::OutcomeKind::Allowed,
                askd_core::OutcomeKind::Denied => askd_wire::OutcomeKind::Denied,
                askd_core::OutcomeKind::Withdrawn => askd_wire::OutcomeKind::Withdrawn,
            },
            cause: outcome.cause.name().to_owned(),
            source: outcome.source.map(|s| s.name().to_owned()),
            surface: outcome.surface.clone(),
            by: None,
            option: outcome.option.clone(),
            message: None,
            stop: outcome.stop,
            settled_at: String::new(),
            verdict: match state.verdict() {
                Verdict::Allow => askd_wire::Verdict::Allow,
                Verdict::Deny => askd_wire::Verdict::Deny,
                Verdict::None => askd_wire::Verdict::None,
            },
            reason_for_model: outcome.reason_for_model(),
            text: String::new(),
            extra: serde_json::Map::new(),
        })
    }
}

/// What a machine tells, as the core hears it.
fn seen(observation: Observation) -> Seen {
    match observation {
        Observation::SessionStarted {} => Seen::SessionStarted,
        Observation::SessionEnded {} => Seen::SessionEnded,
        Observation::SubagentStarted { work_id, kind, name, parent, call } => {
            Seen::SubagentStarted { work_id, kind, name, parent, call }
        }
        Observation::SubagentEnded { work_id } => Seen::SubagentEnded { work_id },
        Observation::CallEnded { call, ok, subagent } => Seen::CallEnded { call, ok, subagent },
        Observation::TurnCancelled { subagent } => Seen::TurnCancelled { subagent },
        Observation::OwnPromptAnswered { call, allowed } => Seen::OwnPromptAnswered { call, allowed },
        Observation::DecidedByAgent { call, allowed, by } => Seen::DecidedByAgent { call, allowed, by },
        Observation::TurnEnded { subagent } => Seen::TurnEnded { subagent },
        other => panic!("the machine does not tell {other:?}"),
    }
}

fn writer(store: &MemoryStore, life: u128, settings: &Settings, now: Stamp) -> Writer<MemoryJournal> {
    let ids = Box::new(Counted(life << 64));
    Writer::open(store.open(), settings.clone(), ids, Box::new(()), now).unwrap()
}
