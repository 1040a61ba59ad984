//! The protocol as a pure state machine: lines, news and time in, [`Action`]s out.

mod agent;
mod client;
mod commands;
mod elicitation;
mod hidden;
mod permission;
mod session;
mod settle;
mod slot;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use askd_wire::{Observation, ObservationBatch};

use self::commands::Ticket;
use self::session::Session;
use self::slot::Slot;
use super::act::Settings;
use super::message::Id;
use crate::hidden::{HiddenOption, HiddenTold, told_otherwise};
use crate::proxy::{Action, AskNo, Errand, News};

/// How long an answer of the client waits for the journal.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(2);
/// How long an ask that the client left waits for a daemon that is away.
const RETURN_PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked again whether others still show an ask that the client left.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// So many looks one after the other see nobody before that counts: a daemon that was started again is told of surfaces late.
const LOOKS: u8 = 3;
/// How long the result of a cancelled prompt is awaited once a newer prompt runs beside it: until then what is asked may
/// be the cancelled one's.
const ENDING_PATIENCE: Duration = Duration::from_secs(30);
/// How long the dialog of a background child waits for its deadline to be known.
const TIMED_PATIENCE: Duration = Duration::from_millis(300);

/// What is known of an agent that behaves in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Codex,
    OpenCode,
    Other,
}

#[derive(Debug)]
struct Client {
    /// For people.
    name: String,
    /// It understands subagent sessions.
    subagents: bool,
    gone: bool,
}

/// A request of the client that the agent has not answered.
#[derive(Debug)]
enum Pending {
    Initialize,
    /// New or fork: the result names the session.
    New {
        cwd: Option<String>,
    },
    /// Load or resume of this one.
    Old {
        session: String,
        cwd: Option<String>,
    },
    Prompt {
        session: String,
    },
    /// Close or delete.
    Closed {
        session: String,
    },
}

/// A line to the client that waits, and everything behind it.
#[derive(Debug)]
struct Held {
    ask: AskNo,
    since: Duration,
    line: Vec<u8>,
    behind: Vec<Vec<u8>>,
}

/// See the table in [`super`].
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    client: Client,
    /// Name of the agent at askd.
    agent: String,
    dialect: Dialect,
    sessions: BTreeMap<String, Session>,
    pending: HashMap<String, Pending>,
    asks: BTreeMap<AskNo, Slot>,
    /// Those that are not over.
    open: BTreeSet<AskNo>,
    /// Asks of a session's call, over or not.
    by_call: HashMap<(String, String), Vec<AskNo>>,
    /// By the key of the agent's own request id.
    by_agent_id: HashMap<String, AskNo>,
    /// How many responses to withdrawn requests the client still owes, by the key of an id that the agent gave again.
    owed: HashMap<String, u32>,
    /// By the key of the id of our request to the client.
    by_own_id: HashMap<String, AskNo>,
    by_hidden: HashMap<String, AskNo>,
    hidden_options: &'static [HiddenOption],
    /// Asks of root sessions that the agent's server tells besides the agent: their session and call.
    linked: HashMap<String, (String, String)>,
    tickets: HashMap<u64, Ticket>,
    next: u64,
    held: Option<Held>,
    /// The client is gone, and the agent lives until then at most.
    closing: Option<Duration>,
    agent_closed: bool,
    now: Duration,
    out: Vec<Action>,
}

impl Machine {
    pub fn new(settings: Settings) -> Self {
        let agent = agent_name(&settings.agent);
        let dialect = Dialect::of(&settings.agent);
        Self {
            client: Client { name: "ACP client".to_owned(), subagents: false, gone: false },
            settings,
            agent,
            dialect,
            sessions: BTreeMap::new(),
            pending: HashMap::new(),
            asks: BTreeMap::new(),
            open: BTreeSet::new(),
            by_call: HashMap::new(),
            by_agent_id: HashMap::new(),
            owed: HashMap::new(),
            by_own_id: HashMap::new(),
            by_hidden: HashMap::new(),
            hidden_options: &[],
            linked: HashMap::new(),
            tickets: HashMap::new(),
            next: 0,
            held: None,
            closing: None,
            agent_closed: false,
            now: Duration::ZERO,
            out: Vec::new(),
        }
    }

    /// What is to be done now, in order.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// A line of the client, with its line end.
    pub fn client_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        self.client_said(line);
        self.consider_closing();
    }

    /// A line of the agent, with its line end.
    pub fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        self.agent_said(line);
        self.consider_closing();
    }

    /// askd said something.
    pub fn news(&mut self, news: News, now: Duration) {
        self.now = now;
        self.heard(news);
        self.consider_closing();
    }

    /// What became of an answer to the agent's own server.
    pub fn hidden_replied(&mut self, ask: AskNo, told: Option<HiddenTold>, now: Duration) {
        self.now = now;
        if let Some(slot) = self.asks.get_mut(&ask) {
            slot.on_its_way = false;
        }
        match told {
            None => self.log(format!("{}: the agent no longer asks it", self.named(ask))),
            Some(told) => {
                if let Some(otherwise) = told_otherwise(told) {
                    self.log(format!("{}: {otherwise}", self.named(ask)));
                }
                if told != HiddenTold::Held {
                    self.out.push(Action::Handed { ask });
                }
            }
        }
        self.consider_closing();
    }

    /// End of file from the client.
    pub fn client_closed(&mut self, now: Duration) {
        self.now = now;
        self.client.gone = true;
        self.release_held();
        for no in self.open_asks() {
            if let Some(slot) = self.asks.get_mut(&no) {
                slot.dialog_gone();
            }
        }
        let roots: Vec<String> =
            self.sessions.iter().filter(|(_, s)| s.attached).map(|(name, _)| name.clone()).collect();
        for session in roots {
            self.detach(&session);
        }
        let waits = self.open_slots().any(|(_, slot)| slot.can_be_answered_elsewhere());
        self.closing = Some(if waits { now + self.settings.grace } else { now });
        self.consider_closing();
    }

    /// End of file from the agent: whoever waits for it waits in vain.
    pub fn agent_closed(&mut self, now: Duration) {
        self.now = now;
        self.agent_closed = true;
        self.release_held();
        for no in self.open_asks() {
            self.settle(no, settle::Fate::Ended { cause: "requester_gone", tell_agent: false });
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        if self.held.as_ref().is_some_and(|held| now >= held.since + TIMED_PATIENCE) {
            self.release_held();
        }
        let late: Vec<AskNo> = self
            .open_slots()
            .filter(|(_, slot)| slot.deciding_since().is_some_and(|since| now >= since + JOURNAL_PATIENCE))
            .map(|(no, _)| no)
            .collect();
        let lost: Vec<AskNo> = self
            .open_slots()
            .filter(|(_, slot)| slot.lost_since.is_some_and(|since| now >= since + RETURN_PATIENCE))
            .map(|(no, _)| no)
            .collect();
        for no in lost {
            self.settle_as_left(no);
        }
        for no in self.open_asks() {
            let looks =
                self.asks.get_mut(&no).and_then(|slot| slot.look_at.as_mut()).filter(|at| now >= **at);
            if let Some(at) = looks {
                // A daemon that is away brings no news.
                *at = now + LOOK_AGAIN;
                self.count_others(no);
            }
        }
        for no in late {
            self.log(format!("{}: askd did not write the answer down in time; it goes on", self.named(no)));
            self.settle_by_client(no, settle::Proof::Waiting);
        }
        self.consider_closing();
    }

    /// When [`Self::tick`] has something to do, on the clock of `now`.
    pub fn next_tick(&self) -> Option<Duration> {
        let held = self.held.as_ref().map(|held| held.since + TIMED_PATIENCE);
        let deciding = self.open_slots().filter_map(|(_, slot)| slot.deciding_since()).min();
        let deciding = deciding.map(|since| since + JOURNAL_PATIENCE);
        let lost = self.open_slots().filter_map(|(_, slot)| slot.lost_since).min();
        let lost = lost.map(|since| since + RETURN_PATIENCE);
        let look = self.open_slots().filter_map(|(_, slot)| slot.look_at).min();
        [held, deciding, lost, look, self.closing].into_iter().flatten().min()
    }

    /// With the client gone: the agent's input is closed when nothing can be answered any more and nothing is worked
    /// on, or when the grace is over.
    fn consider_closing(&mut self) {
        let Some(until) = self.closing else { return };
        let waits = self.open_slots().any(|(_, slot)| slot.can_be_answered_elsewhere());
        let works = self.sessions.values().any(|s| !s.prompts.is_empty());
        if self.now < until && (waits || works) && !self.agent_closed {
            return;
        }
        self.closing = None;
        for no in self.open_asks() {
            // What the client said before it went counts.
            self.settle_by_client(no, settle::Proof::Waiting);
            // Nobody decided, and for a hidden ask there is no word for that.
            let is_request = |slot: &Slot| matches!(slot.origin, slot::Origin::Request(_));
            let tell_agent = self.asks.get(&no).is_some_and(is_request);
            self.settle(no, settle::Fate::Ended { cause: "requester_gone", tell_agent });
        }
        self.out.push(Action::CloseAgent);
    }

    fn open_asks(&self) -> Vec<AskNo> {
        self.open.iter().copied().collect()
    }

    fn open_slots(&self) -> impl Iterator<Item = (AskNo, &Slot)> {
        self.open.iter().filter_map(|no| Some((*no, self.asks.get(no)?)))
    }

    /// A new ask.
    fn put(&mut self, no: AskNo, slot: Slot) {
        self.open.insert(no);
        self.by_call.entry((slot.session.clone(), slot.call.clone())).or_default().push(no);
        self.asks.insert(no, slot);
    }

    /// Open asks of a session and everything below it.
    fn open_within(&self, top: &str) -> Vec<AskNo> {
        self.open_slots()
            .filter(|(_, slot)| self.descends(&slot.session, top) || slot.root == top)
            .map(|(no, _)| no)
            .collect()
    }

    /// The agent gives this id to a request. Ids are unique among open requests only: what had it before is over, and
    /// the client's response to that one, if it is still to come, answers nothing else.
    fn id_given(&mut self, id: &Id) {
        let key = id.key();
        let Some(old) = self.by_agent_id.remove(&key) else { return };
        self.settle(old, settle::Fate::Ended { cause: "superseded", tell_agent: false });
        if self.asks.get(&old).is_some_and(|slot| slot.shown && !slot.responded) {
            *self.owed.entry(key).or_default() += 1;
        }
    }

    fn number(&mut self) -> AskNo {
        self.next += 1;
        self.next
    }

    fn tell_agent(&mut self, line: Vec<u8>) {
        self.out.push(Action::ToAgent(line));
    }

    fn tell_client(&mut self, line: Vec<u8>) {
        match &mut self.held {
            Some(held) => held.behind.push(line),
            None => self.out.push(Action::ToClient(line)),
        }
    }

    fn errand(&mut self, errand: Errand) {
        self.out.push(Action::Daemon(errand));
    }

    fn log(&mut self, text: String) {
        self.out.push(Action::Log(text));
    }

    /// An ask for the log.
    fn named(&self, no: AskNo) -> String {
        match self.asks.get(&no) {
            Some(slot) => format!("ask {} ({})", no, slot.title),
            None => format!("ask {no}"),
        }
    }

    fn observe(&mut self, session: &str, observations: Vec<Observation>) {
        let known = self.sessions.get(session);
        let batch = ObservationBatch {
            agent: self.agent.clone(),
            session: session.to_owned(),
            parent: known.and_then(|s| s.parent.clone()),
            session_title: known.and_then(|s| s.title.clone()),
            cwd: known.and_then(|s| s.cwd.clone()),
            instance: self.settings.instance.clone(),
            place: None,
            observations,
        };
        self.errand(Errand::Observe(Box::new(batch)));
    }

    fn own_id(&mut self) -> Id {
        let number = self.number();
        let text = format!("\"askd-{}-{number}\"", self.settings.mark);
        // A string literal of hexadecimal digits is always an id.
        Id::parse(&text).unwrap_or_else(|| unreachable!("a string is an id"))
    }
}

impl Dialect {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name.contains("codex") {
            Self::Codex
        } else if name.contains("opencode") {
            Self::OpenCode
        } else {
            Self::Other
        }
    }
}

/// The name that askd knows an agent by, from the one that it gives itself.
fn agent_name(told: &str) -> String {
    let lower = told.to_ascii_lowercase();
    let known = [("claude", "claude-code"), ("codex", "codex"), ("opencode", "opencode")];
    if let Some((_, name)) = known.iter().find(|(part, _)| lower.contains(part)) {
        return (*name).to_owned();
    }
    let last = told.rsplit('/').next().unwrap_or_default();
    let name: String = last.chars().filter(|c| !c.is_control()).take(100).collect();
    if name.is_empty() { "acp-agent".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_have_the_name_that_their_other_adapters_use() {
        assert_eq!(agent_name("@agentclientprotocol/claude-agent-acp"), "claude-code");
        assert_eq!(agent_name("@agentclientprotocol/codex-acp"), "codex");
        assert_eq!(agent_name("OpenCode"), "opencode");
        assert_eq!(agent_name("qwen-code"), "qwen-code");
        assert_eq!(agent_name("a/b"), "b");
        assert_eq!(agent_name("x/"), "acp-agent");
    }
}
