//! Between a watcher and the daemon: each hidden ask is raised there, its outcome goes back to the agent, and what the
//! agent's own dialog decided is told.
//!
//! | news | what follows |
//! |---|---|
//! | asked | raised, with lineage and the agent's own options |
//! | outcome: a person, a policy | told to the agent; `handed` when it took it, `confirmed` when it says so |
//! | gone by the answer that was carried | `confirmed` |
//! | gone by another answer | observed: the agent's own prompt was answered, for this ask or for always for another one |
//! | gone with its turn | withdrawn, `cancelled`; an allow that was not told is void |
//! | the agent ended | its sessions ended; killed: its asks lost their requester |
//!
//! Without a daemon the agent asks by itself; every ask that is still open is tried again. What the daemon refuses for good
//! is written down as the agent's own affair, and where nobody else could answer the agent is told the no that it gives there
//! without askd.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use askd_client::{Asker, JustWait, OrStop, Places, Unavailable, Wake, Watch, daemon};
use askd_wire::{
    Ask, Attendance, ChoiceKind, Instance, Observation, ObservationBatch, OwnPrompt, RaiseAsk, Verdict,
};

use crate::hidden::{
    ALONG, Hidden, HiddenAsk, HiddenEnd, HiddenError, HiddenEvent, HiddenReply, HiddenSource, told_otherwise,
    unheard,
};
use crate::proxy::{fitted, lock, only_there};

/// How askd names this agent.
pub const AGENT: &str = "opencode";
/// Seconds that an ask stays open when the connection to the daemon broke.
const GRACE_SECS: u64 = 60;
/// For one short exchange with the daemon.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(2);
/// How long the daemon may take to say that an ask is over after it was told so.
const ECHO: Duration = Duration::from_secs(3);

/// Who asks, for every ask of one run.
#[derive(Debug, Clone)]
pub struct Around {
    pub places: Places,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    /// The process below which nobody may answer.
    pub instance: Instance,
    /// Where the agent itself asks the same; none: nowhere.
    pub own_prompt: Option<&'static str>,
    /// Nobody sits there.
    pub attendance: Option<Attendance>,
    /// Takes one line for a person; none: the agent has the screen to itself.
    pub say: Option<fn(&str)>,
}

/// By what an ask was denied that nobody could be asked.
const UNASKED: &str = "reject of what nobody could be asked";
/// Characters of an ask's title in a line about it.
const LONGEST_NAMED: usize = 100;

/// How the agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    /// By itself: its sessions are over.
    Exited,
    /// It was killed: nobody ended its sessions.
    Killed,
}

/// A carrier that runs.
pub struct Carrier {
    desk: Arc<Desk>,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").finish_non_exhaustive()
    }
}

impl Carrier {
    /// Starts to carry.
    pub fn start(hidden: Hidden, around: Around) -> io::Result<Self> {
        let Hidden { events, source } = hidden;
        let desk = Arc::new(Desk { around, source, items: Mutex::default(), roots: Mutex::default() });
        let mine = Arc::clone(&desk);
        let thread = thread::Builder::new().name("carry".to_owned()).spawn(move || mine.run(&events))?;
        Ok(Self { desk, thread })
    }

    /// The agent is gone: says what that means for what it still asks, and stops.
    pub fn finish(self, end: AgentEnd) {
        self.desk.source.stop();
        let _ = self.thread.join();
        self.desk.agent_ended(end);
    }
}

struct Desk {
    around: Around,
    source: Arc<dyn HiddenSource>,
    /// By the agent's id; those that are not gone yet.
    items: Mutex<BTreeMap<String, Arc<Item>>>,
    roots: Mutex<BTreeSet<String>>,
}

/// One ask on its way.
struct Item {
    ask: HiddenAsk,
    key: String,
    token: String,
    state: Mutex<ItemState>,
    changed: Condvar,
    /// At its end as soon as the ask is gone.
    over: PipeReader,
}

#[derive(Default)]
struct ItemState {
    /// askd's id, once it is known.
    id: Option<String>,
    /// What is being told to the agent, or was.
    told: Option<HiddenReply>,
    /// The agent was told the no that it gives where nobody can be asked.
    unasked: bool,
    /// Since when it is over in the agent.
    gone: Option<Instant>,
    /// Kept until it is over.
    kept: Option<PipeWriter>,
}

impl Item {
    fn state(&self) -> MutexGuard<'_, ItemState> {
        lock(&self.state)
    }

    /// It is over in the agent. Gives askd's id and what the agent was told.
    fn end(&self) -> (Option<String>, Option<HiddenReply>) {
        let mut state = self.state();
        state.gone = Some(Instant::now());
        state.kept = None;
        self.changed.notify_all();
        (state.id.clone(), state.told)
    }

    fn is_gone(&self) -> bool {
        self.state().gone.is_some()
    }

    /// Waits at most `span`; true: it is gone.
    fn pause(&self, span: Duration) -> bool {
        let state = self.state();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, span, |state| state.gone.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.gone.is_some()
    }
}

impl Desk {
    fn run(self: Arc<Self>, events: &Receiver<HiddenEvent>) {
        while let Ok(event) = events.recv() {
            match event {
                HiddenEvent::Asked(ask) => self.asked(*ask),
                HiddenEvent::Gone { id, how } => {
                    let item = self.items().remove(&id);
                    if let Some(item) = item {
                        self.gone(&item, how);
                    }
                }
                HiddenEvent::Unheard { address, why } => {
                    if let Some(say) = self.around.say {
                        say(&format!("askd: {}", unheard(&address, &why)));
                    }
                }
                // Its asks are gone by then, each told by itself.
                HiddenEvent::ChildEnded { .. } | HiddenEvent::CallEnded { .. } => {}
            }
        }
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Item>>> {
        lock(&self.items)
    }

    fn asked(self: &Arc<Self>, ask: HiddenAsk) {
        let Ok(token) = askd_client::random_hex() else { return };
        // Without a pipe or a thread this one stays the agent's own affair, as if askd were not there.
        let Ok((over, kept)) = io::pipe() else { return };
        lock(&self.roots).insert(ask.root.clone());
        let item = Arc::new(Item {
            key: format!("{AGENT}:{}", ask.id),
            token,
            ask,
            state: Mutex::new(ItemState { kept: Some(kept), ..ItemState::default() }),
            changed: Condvar::new(),
            over,
        });
        self.items().insert(item.ask.id.clone(), Arc::clone(&item));
        let desk = Arc::clone(self);
        let _ = thread::Builder::new().name("ask".to_owned()).spawn(move || desk.carry(&item));
    }

    /// The life of one ask, until its outcome is told or it is gone.
    fn carry(&self, item: &Item) {
        let raise = self.raise(&item.ask, &item.key);
        loop {
            if item.is_gone() {
                return;
            }
            match self.ask(item, &raise) {
                Ok(ask) => {
                    item.state().id = Some(ask.id.clone());
                    if let Some((reply, message)) = decided(&ask) {
                        self.deliver(item, &ask.id, reply, message.as_deref());
                    }
                    return;
                }
                Err(Unavailable::Abandoned) => {
                    // The daemon was told and did not say so; or it was told before it knew this ask.
                    self.withdraw(item, "cancelled");
                    return;
                }
                // Nobody else could answer: it waits for a daemon to come back.
                Err(Unavailable::Stopped | Unavailable::Released) if self.around.own_prompt.is_none() => {
                    if item.pause(PAUSE) {
                        return;
                    }
                }
                Err(why) if why.is_final_refusal() => return self.refused(item, &raise, &why),
                Err(
                    Unavailable::Stopped
                    | Unavailable::Released
                    | Unavailable::Unsafe(_)
                    | Unavailable::Skew(_)
                    | Unavailable::GaveUp(_)
                    | Unavailable::Unserved(_),
                ) => return,
                // The daemon may be there, or may take it, later.
                Err(
                    Unavailable::Refused(_)
                    | Unavailable::NotRunning(_)
                    | Unavailable::CannotStart(_)
                    | Unavailable::Fault(_),
                ) => {
                    if item.pause(PAUSE) {
                        return;
                    }
                }
            }
        }
    }

    fn ask(&self, item: &Item, raise: &RaiseAsk) -> Result<Ask, Unavailable> {
        if let Some(sub) = &item.ask.subagent
            && sub.parent != item.ask.root
        {
            // The daemon finds the root by the chain of parents.
            self.observe(&sub.parent, Some(&item.ask.root), vec![Observation::SessionStarted {}]);
        }
        self.asker(item)?.ask_watched(raise, &mut StillAsked { item })
    }

    /// The daemon will never take this ask.
    fn refused(&self, item: &Item, raise: &RaiseAsk, why: &Unavailable) {
        if let Some(record) = only_there(raise, self.around.own_prompt.unwrap_or(AGENT), why) {
            // One that is refused as well leaves it with the line.
            let _ = self.asker(item).and_then(|mut asker| asker.raise(&record).map(drop));
        }
        if self.around.own_prompt.is_some() {
            return self.say(item, &format!("askd cannot ask it ({why}); opencode's own prompt does"));
        }
        self.say(
            item,
            &format!("askd cannot ask it ({why}); rejected, as opencode does where nobody can answer"),
        );
        item.state().unasked = true;
        let words = format!("nobody could be asked: {why}");
        while matches!(
            self.source.reply(&item.ask.id, HiddenReply::Reject, Some(&words)),
            Err(HiddenError::Failed(_))
        ) {
            if item.pause(PAUSE) {
                return;
            }
        }
    }

    /// Tells the agent, again and again until it takes it or does not ask any more.
    fn deliver(&self, item: &Item, id: &str, reply: HiddenReply, message: Option<&str>) {
        loop {
            {
                let mut state = item.state();
                if state.gone.is_some() {
                    return;
                }
                state.told = Some(reply);
            }
            match self.source.reply(&item.ask.id, reply, message) {
                Ok(told) => {
                    if let Some(otherwise) = told_otherwise(told) {
                        self.say(item, otherwise);
                    }
                    // A no may wait in the watcher for its siblings; that the agent has it is told when it is gone.
                    if reply != HiddenReply::Reject {
                        self.tell(item, id, Asker::handed);
                    }
                    return;
                }
                Err(HiddenError::Gone) => {
                    // What became of it instead is told by the watcher.
                    item.state().told = None;
                    return;
                }
                Err(HiddenError::Failed(_)) => {
                    item.state().told = None;
                    if item.pause(PAUSE) {
                        return;
                    }
                }
            }
        }
    }

    fn gone(&self, item: &Item, how: HiddenEnd) {
        let (id, told) = item.end();
        let as_told = match how {
            HiddenEnd::Allowed | HiddenEnd::AllowedAlong => {
                matches!(told, Some(HiddenReply::Once | HiddenReply::Always))
            }
            HiddenEnd::Rejected => told == Some(HiddenReply::Reject),
            HiddenEnd::Vanished => false,
        };
        let call = call_of(&item.ask);
        let seen = match (&id, how) {
            (Some(id), _) if as_told => return self.tell(item, id, Asker::confirmed),
            (_, HiddenEnd::Allowed) => Observation::OwnPromptAnswered { call, allowed: true },
            (_, HiddenEnd::Rejected) if item.state().unasked => {
                Observation::DecidedByAgent { call, allowed: false, by: Some(UNASKED.to_owned()) }
            }
            (_, HiddenEnd::Rejected) => Observation::OwnPromptAnswered { call, allowed: false },
            (_, HiddenEnd::AllowedAlong) => {
                Observation::DecidedByAgent { call, allowed: true, by: Some(ALONG.to_owned()) }
            }
            (_, HiddenEnd::Vanished) => return self.withdraw(item, "cancelled"),
        };
        self.observe(&item.ask.session, None, vec![seen]);
    }

    /// One line about an ask, where there is room for it.
    fn say(&self, item: &Item, text: &str) {
        if let Some(say) = self.around.say {
            let title: String = item.ask.title.chars().take(LONGEST_NAMED).collect();
            say(&format!("askd: {}: {title}: {text}", item.ask.tool));
        }
    }

    fn agent_ended(&self, end: AgentEnd) {
        let left = std::mem::take(&mut *self.items());
        for item in left.values() {
            item.end();
            if end == AgentEnd::Killed {
                self.withdraw(item, "requester_gone");
            }
        }
        let roots = std::mem::take(&mut *lock(&self.roots));
        for root in roots {
            self.observe(&root, None, vec![Observation::SessionEnded {}]);
        }
    }

    fn raise(&self, ask: &HiddenAsk, key: &str) -> RaiseAsk {
        fitted(RaiseAsk {
            attendance: self.around.attendance,
            grace_secs: GRACE_SECS,
            instance: Some(self.around.instance.clone()),
            tool_call: Some(call_of(ask)),
            own_prompt: self.around.own_prompt.map(|at| OwnPrompt { at: at.to_owned(), blocked: false }),
            ..ask.question(key.to_owned(), AGENT, self.source.options())
        })
    }

    fn observe(&self, session: &str, parent: Option<&str>, observations: Vec<Observation>) {
        let batch = ObservationBatch {
            agent: AGENT.to_owned(),
            session: session.to_owned(),
            parent: parent.map(str::to_owned),
            session_title: None,
            cwd: None,
            instance: Some(self.around.instance.clone()),
            place: None,
            observations,
        };
        // A daemon that is gone learns nothing; the agent goes on all the same.
        if let Ok(mut connection) = daemon::connect_ask(&self.around.places) {
            connection.set_timeout(PATIENCE);
            let _ = connection.command("POST", "/v1/observations", Some(&batch));
        }
    }

    fn asker(&self, item: &Item) -> Result<Asker, Unavailable> {
        let asker = Asker::new(self.around.places.clone(), self.around.exe.clone())?;
        Ok(asker.with_token(item.token.clone()))
    }

    /// A daemon that does not know it, or is gone, hears when the ask itself comes to its end.
    fn withdraw(&self, item: &Item, cause: &str) {
        let _ = self.asker(item).and_then(|asker| asker.withdraw_key(&item.key, cause));
    }

    /// The same goes for what became of the outcome.
    fn tell(&self, item: &Item, id: &str, what: fn(&mut Asker, &str) -> Result<(), Unavailable>) {
        let _ = self.asker(item).and_then(|mut asker| what(&mut asker, id));
    }
}

/// The call as askd knows it. An ask about no call is told apart by its own id, so that an answer in the agent's own
/// prompt finds it.
fn call_of(ask: &HiddenAsk) -> String {
    ask.call.clone().unwrap_or_else(|| ask.id.clone())
}

/// What the agent is to be told; none: nobody decided, or its own prompt did.
fn decided(ask: &Ask) -> Option<(HiddenReply, Option<String>)> {
    let outcome = ask.outcome.as_ref()?;
    match outcome.verdict {
        Verdict::Allow => {
            let chosen = ask.options.iter().find(|choice| Some(&choice.id) == outcome.option.as_ref());
            let always = chosen.is_some_and(|choice| choice.kind == ChoiceKind::AllowAlways);
            Some((if always { HiddenReply::Always } else { HiddenReply::Once }, None))
        }
        // A no with words lets opencode's model go on, one without ends the turn.
        Verdict::Deny if outcome.stop => Some((HiddenReply::Reject, None)),
        Verdict::Deny => {
            let words = outcome.reason_for_model.clone().or_else(|| outcome.message.clone());
            Some((HiddenReply::Reject, words.or_else(|| Some(outcome.text.clone()))))
        }
        Verdict::None => None,
    }
}

/// Waits for the daemon until the ask has been gone for longer than the daemon needs to say so.
struct StillAsked<'a> {
    item: &'a Item,
}

impl Watch for StillAsked<'_> {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        if !self.item.is_gone() {
            match OrStop(self.item.over.as_fd()).wait(socket, until)? {
                Wake::Stop => {}
                woken => return Ok(woken),
            }
        }
        let Some(at) = self.item.state().gone else { return Ok(Wake::Stop) };
        let end = at + ECHO;
        match JustWait.wait(socket, until.min(end))? {
            Wake::TimedOut if end <= until => Ok(Wake::Stop),
            woken => Ok(woken),
        }
    }
}
