//! The daemon, as the proxy uses it: every call is made from a thread of its own.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::{self, PipeWriter};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door, START_PATIENCE};
use askd_client::{CallError, Connection, Places};
use askd_wire::{Observation, ObservationBatch};

use super::asks::{self, Around, Handle, Order};
use super::desk::{Desk, Job, Said, Surfaces};
use super::late::Late;
use super::lock;
use super::{AskNo, Errand, News, presence};

/// Observations that wait for a daemon that is not there; the oldest go first.
const MOST_OBSERVED: usize = 1000;

/// Counts threads that have something to tell the daemon.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy(Arc<(Mutex<usize>, Condvar)>);

/// One of them.
#[derive(Debug)]
pub(crate) struct BusyGuard(Busy);

/// How long what was observed before may hold up an ask.
pub(crate) const OBSERVED_PATIENCE: Duration = Duration::from_secs(1);

/// Observations that are on their way, as of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Unheard {
    /// How many had been made.
    made: u64,
    told: Arc<(Mutex<u64>, Condvar)>,
}

impl Unheard {
    /// Waits until the daemon has heard them.
    pub(crate) fn wait(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut told = lock(&self.told.0);
        while *told < self.made {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            told = self.told.1.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One batch for the daemon.
struct Observed {
    batch: ObservationBatch,
    /// Those who wait for it were told that it is not worth waiting.
    counted: bool,
    _busy: BusyGuard,
}

impl Busy {
    pub(crate) fn enter(&self) -> BusyGuard {
        *lock(&self.0.0) += 1;
        BusyGuard(self.clone())
    }

    /// Waits until nobody has anything to tell.
    fn wait(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut count = lock(&self.0.0);
        while *count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = self.0.1.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        *lock(&self.0.0.0) -= 1;
        self.0.0.1.notify_all();
    }
}

pub(crate) struct Link {
    around: Around,
    asks: HashMap<AskNo, Handle>,
    desk: Sender<Job>,
    observed: Sender<Observed>,
    /// Answers that are being written down.
    recording: Busy,
    surfaces: Surfaces,
    /// Roots whose surface is kept, until this is dropped.
    kept: BTreeMap<String, PipeWriter>,
}

impl Link {
    /// `token`: 128 random bits. `sink` hears the news; it must not block.
    pub(crate) fn start(
        places: &Places,
        exe: Option<PathBuf>,
        token: String,
        sink: Arc<dyn Fn(News) + Send + Sync>,
    ) -> io::Result<Self> {
        let surfaces = Surfaces::default();
        let (desk, jobs) = channel();
        let worker = Desk {
            places: places.clone(),
            exe: exe.clone(),
            surfaces: Arc::clone(&surfaces),
            sink: Arc::clone(&sink),
        };
        thread("desk", move || worker.run(jobs))?;
        let (observed, batches) = channel();
        let told = places.clone();
        let heard = Arc::new((Mutex::new(0), Condvar::new()));
        let hearing = Arc::clone(&heard);
        let recording = Busy::default();
        let written = recording.clone();
        thread("observer", move || observe(&told, &batches, &hearing, &written))?;
        let unheard = Unheard { made: 0, told: heard };
        let (starting, starter) = (places.clone(), exe.clone());
        thread("start", move || {
            let until = Instant::now() + START_PATIENCE;
            // Who cannot be reached is told with the first ask.
            let _ = daemon::connect_or_start(&starting, Door::Ask, starter.as_deref(), until);
        })?;
        let client = Arc::new(Mutex::new("the ACP client".to_owned()));
        let busy = Busy::default();
        let late = Late::start(places.clone(), exe.clone(), token.clone(), busy.clone())?;
        let around = Around { places: places.clone(), exe, token, sink, client, busy, unheard, late };
        Ok(Self { around, asks: HashMap::new(), desk, observed, recording, surfaces, kept: BTreeMap::new() })
    }

    /// Sets about an errand. Gives back a line for the log when that is not possible.
    pub(crate) fn take(&mut self, errand: Errand) -> Option<String> {
        for over in self.around.late.newly_over() {
            self.asks.remove(&over);
        }
        match errand {
            Errand::Raise { ask, raise } => match asks::start(self.around.clone(), ask, *raise) {
                Ok(handle) => {
                    self.asks.insert(ask, handle);
                }
                Err(error) => {
                    // The machine is locked by whoever calls this, so the news comes from another thread.
                    let sink = Arc::clone(&self.around.sink);
                    let why = format!("askd cannot be asked: {error}");
                    let told = thread("fault", move || sink(News::Unavailable { ask, why }));
                    if let Err(error) = told {
                        return Some(format!("askd cannot be asked: {error}"));
                    }
                }
            },
            Errand::Answer { ask, decision, option, message, stop, client } => {
                if let Some(known) = self.known(ask) {
                    let answer = Said { decision, option, message, stop, client };
                    let _ = self.desk.send(Job::Answer { ask, known, answer });
                }
            }
            Errand::Withdraw { ask, cause } => {
                self.order(ask, Order::Withdraw(cause));
                self.asks.remove(&ask);
            }
            Errand::Confirmed { ask } => {
                self.order(ask, Order::Confirmed);
                self.asks.remove(&ask);
            }
            Errand::Record { ask, allowed } => {
                self.order(ask, Order::Record { allowed, _writing: self.recording.enter() });
            }
            Errand::Shown { ask, root } => self.report(ask, root, None),
            Errand::Unable { ask, root, reason } => self.report(ask, root, Some(reason)),
            Errand::CountOthers { ask, agent, root } => {
                let _ = self.desk.send(Job::CountOthers { ask, agent, root });
            }
            Errand::Observe(batch) => {
                self.around.unheard.made += 1;
                let busy = self.around.busy.enter();
                let _ = self.observed.send(Observed { batch: *batch, counted: false, _busy: busy });
            }
            Errand::Attach { agent, session, client } => self.attach(agent, session, client),
            Errand::Detach { session } => {
                self.kept.remove(&session);
            }
            Errand::Slash { ticket, text, agent, session } => {
                let _ = self.desk.send(Job::Slash { ticket, text, agent, session });
            }
        }
        None
    }

    pub(crate) fn handle(&self, ask: AskNo) -> Option<Handle> {
        self.asks.get(&ask).cloned()
    }

    fn known(&self, ask: AskNo) -> Option<asks::Known> {
        self.asks.get(&ask).map(|handle| Arc::clone(&handle.known))
    }

    fn order(&self, ask: AskNo, order: Order) {
        match self.asks.get(&ask) {
            Some(handle) => handle.order(order),
            None => self.around.late.order(ask, order, drop),
        }
    }

    fn report(&self, ask: AskNo, root: String, failed: Option<String>) {
        if let Some(known) = self.known(ask) {
            let _ = self.desk.send(Job::Report { known, root, failed });
        }
    }

    fn attach(&mut self, agent: String, session: String, client: String) {
        lock(&self.around.client).clone_from(&client);
        // Without the pipe or the thread the client is not told as attached, and nothing else.
        let Ok((over, kept)) = io::pipe() else { return };
        self.kept.insert(session.clone(), kept);
        let (places, surfaces) = (self.around.places.clone(), Arc::clone(&self.surfaces));
        let _ = thread("presence", move || {
            presence::keep(&places, &surfaces, &client, &agent, &session, &over);
        });
    }

    /// The proxy ends: what is still to be told is told, within `patience`. False: an answer was not written down.
    pub(crate) fn finish(&mut self, patience: Duration) -> bool {
        self.kept.clear();
        self.asks.clear();
        // Without a daemon there is nobody to wait for.
        let patience = match daemon::connect_ask(&self.around.places) {
            Ok(_) => patience,
            Err(_) => Duration::ZERO,
        };
        self.around.busy.wait(patience) || self.recording.wait(Duration::ZERO)
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(512 * 1024).spawn(work).map(drop)
}

/// Tells observations in order. What the daemon refuses is dropped; while there is no daemon they wait.
fn observe(places: &Places, batches: &Receiver<Observed>, heard: &(Mutex<u64>, Condvar), recording: &Busy) {
    let mut waiting: VecDeque<Observed> = VecDeque::new();
    let mut connection: Option<Connection> = None;
    let done = |count: usize| {
        *lock(&heard.0) += u64::try_from(count).unwrap_or_default();
        heard.1.notify_all();
    };
    loop {
        if waiting.is_empty() {
            match batches.recv() {
                Ok(observed) => waiting.push_back(observed),
                Err(_) => return,
            }
        }
        while let Ok(observed) = batches.try_recv() {
            waiting.push_back(observed);
        }
        done(forget_ends(&mut waiting));
        while let Some(observed) = waiting.front() {
            if ends_asks(&observed.batch) {
                // What the client said before that comes first.
                recording.wait(OBSERVED_PATIENCE);
            }
            match tell(places, &mut connection, &observed.batch) {
                Ok(()) | Err(CallError::Refused(_) | CallError::Encode(_)) => {
                    let counted = waiting.pop_front().is_none_or(|observed| observed.counted);
                    done(usize::from(!counted));
                }
                Err(_) => {
                    connection = None;
                    break;
                }
            }
        }
        if waiting.is_empty() {
            continue;
        }
        // Nobody waits for a daemon that is not there. The end of a turn is not told later: asks of a later turn may be
        // open by then, and those of this one are taken back each for itself.
        done(waiting.iter_mut().map(|o| usize::from(!std::mem::replace(&mut o.counted, true))).sum());
        waiting.retain(|observed| !ends_a_turn(&observed.batch));
        match batches.recv_timeout(Duration::from_millis(500)) {
            Ok(observed) => waiting.push_back(observed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let over = waiting.len().saturating_sub(MOST_OBSERVED);
        done(waiting.drain(..over).filter(|observed| !observed.counted).count());
    }
}

/// The end of a subagent that has begun again is not told any more: what it asks by then would end with it. How many of
/// them somebody still waited for.
fn forget_ends(waiting: &mut VecDeque<Observed>) -> usize {
    use Observation as O;
    let (mut again, mut uncounted) = (HashSet::new(), 0);
    let mut kept = VecDeque::with_capacity(waiting.len());
    for observed in waiting.drain(..).rev() {
        let mut seen = observed.batch.observations.iter();
        let ended = matches!(observed.batch.observations.as_slice(), [O::SubagentEnded { work_id }] if again.contains(work_id));
        again.extend(seen.by_ref().filter_map(|seen| match seen {
            O::SubagentStarted { work_id, .. } => Some(work_id.clone()),
            _ => None,
        }));
        if ended {
            uncounted += usize::from(!observed.counted);
        } else {
            kept.push_front(observed);
        }
    }
    *waiting = kept;
    uncounted
}

fn ends_asks(batch: &ObservationBatch) -> bool {
    use Observation as O;
    let ends = |seen: &O| matches!(seen, O::SubagentEnded { .. } | O::SessionEnded {});
    ends_a_turn(batch) || batch.observations.iter().any(ends)
}

fn ends_a_turn(batch: &ObservationBatch) -> bool {
    use Observation as O;
    batch.observations.iter().any(|seen| matches!(seen, O::TurnCancelled { .. } | O::TurnEnded { .. }))
}

fn tell(places: &Places, kept: &mut Option<Connection>, batch: &ObservationBatch) -> Result<(), CallError> {
    let mut connection = match kept.take().filter(Connection::is_reusable) {
        Some(connection) => connection,
        None => daemon::connect_ask(places).map_err(|error| CallError::Skew(error.to_string()))?,
    };
    connection.set_timeout(Duration::from_secs(10));
    connection.command("POST", "/v1/observations", Some(batch))?;
    *kept = Some(connection);
    Ok(())
}

#[cfg(test)]
mod tests;
