//! The thread of one ask: raises it at the daemon and waits for its outcome. Whatever breaks in between, it comes back to
//! the same ask. With the outcome it ends; what becomes of that is told by the [`clerk`](super::clerk).

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use askd_client::{Asker, JustWait, OrStop, Places, Unavailable, Wake, Watch, daemon};
use askd_wire::{AskState, Code, Delivery, Observation, ObservationBatch, Outcome, RaiseAsk, Verdict};
use rustix::process::{Resource, getrlimit};

use super::machine::AskNo;
use super::wire::AGAIN;

pub(super) const PAUSE: Duration = Duration::from_millis(250);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// For one short exchange with the daemon.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// For how long what became of an answer is tried to be told.
pub(super) const TELL: Duration = Duration::from_secs(300);

/// What the threads tell.
#[derive(Debug)]
pub(super) enum News {
    /// The daemon has it.
    Raised,
    /// The daemon is not there; it is tried again.
    Lost(String),
    /// It is there and has no room for this one; it is tried again.
    Full(AskNo, String),
    /// With askd's id of the ask, where it has one.
    Outcome(AskNo, Box<Outcome>, Option<String>),
    /// Whether this one was answered by what lies in place.
    Recalled(AskNo, bool),
    /// It will never take it.
    Refused(AskNo, String),
    /// The thread is at its end.
    Ended(AskNo),
    /// The clerk's is.
    Silent,
}

/// What a thread is told.
#[derive(Debug)]
pub(super) enum Order {
    Withdraw(&'static str),
    /// Somebody else's response is in place; what it says, if it says anything.
    Elsewhere(Option<bool>),
    Over,
}

/// What every thread has.
#[derive(Debug, Clone)]
pub(super) struct Around {
    pub(super) places: Places,
    /// The askd program that may be started as the daemon.
    pub(super) exe: Option<PathBuf>,
    /// Who this tree is to the daemon, in every run.
    pub(super) token: String,
    pub(super) news: Sender<News>,
    pub(super) waker: Arc<PipeWriter>,
}

impl Around {
    pub(super) fn tell(&self, news: News) {
        if self.news.send(news).is_ok() {
            let _ = (&*self.waker).write(&[1]);
        }
    }

    pub(super) fn asker(&self) -> Result<Asker, Unavailable> {
        let asker = Asker::new(self.places.clone(), self.exe.clone())?;
        Ok(asker.with_token(self.token.clone()))
    }
}

/// Asks in this process at a time, of all trees; each takes a connection of those that the daemon has for them.
const MOST_RUNNING: usize = 2_048;
/// Threads of asks in this process, of all trees.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How many more asks this process has descriptors for, and how many it may have at most: each takes up to four, and
/// whatever else it serves goes on.
pub(super) fn room() -> (usize, usize) {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let most = limit.map_or(MOST_RUNNING, |limit| (limit / 12).clamp(1, MOST_RUNNING));
    (most.saturating_sub(RUNNING.load(Ordering::Relaxed)), most)
}

/// One of them, as long as this is there.
struct Share;

impl Share {
    fn take() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The other end of a thread.
#[derive(Debug)]
pub(super) struct Carrier {
    orders: Sender<Order>,
    wake: PipeWriter,
}

impl Carrier {
    pub(super) fn start(around: Around, no: AskNo, raise: RaiseAsk) -> io::Result<Self> {
        let (orders, received) = channel();
        let (wake, written) = io::pipe()?;
        let carry = Carry { around, no, raise, orders: received, wake, id: None };
        let share = Share::take();
        std::thread::Builder::new().name(format!("spool-{no}")).stack_size(256 * 1024).spawn(move || {
            let _share = share;
            let around = carry.around.clone();
            carry.run();
            around.tell(News::Ended(no));
        })?;
        Ok(Self { orders, wake: written })
    }

    pub(super) fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            let _ = (&self.wake).write(&[1]);
        }
    }
}

struct Carry {
    around: Around,
    no: AskNo,
    raise: RaiseAsk,
    orders: Receiver<Order>,
    wake: PipeReader,
    /// askd's id, once it is known.
    id: Option<String>,
}

impl Carry {
    fn run(mut self) {
        let mut pause = PAUSE;
        let mut full = false;
        loop {
            let why = match self.ask() {
                Ok(outcome) => {
                    return self.tell(News::Outcome(self.no, Box::new(outcome), self.id.clone()));
                }
                Err(Unavailable::Abandoned | Unavailable::GaveUp(_)) => None,
                Err(Unavailable::Refused(problem))
                    if !matches!(problem.code, Code::CapReached | Code::NotRecorded) =>
                {
                    let why = problem.detail.unwrap_or(problem.title);
                    return self.tell(News::Refused(self.no, why));
                }
                Err(Unavailable::Refused(problem)) => {
                    if !std::mem::replace(&mut full, true) {
                        let why = problem.detail.unwrap_or(problem.title);
                        self.tell(News::Full(self.no, why));
                    }
                    None
                }
                Err(why) => Some(why.to_string()),
            };
            if let Some(why) = why {
                self.tell(News::Lost(why));
            }
            match self.order(pause) {
                Ok(Some(order)) => return self.obey(order),
                Ok(None) => {}
                // Nobody serves the tree any more: the ask stays open for whoever does next.
                Err(()) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn tell(&self, news: News) {
        self.around.tell(news);
    }

    /// One life of the ask at the daemon, up to its outcome, an order, or a daemon that is not there.
    fn ask(&mut self) -> Result<Outcome, Unavailable> {
        let mut asker = self.around.asker()?;
        let mut ask = asker.raise(&self.raise)?.ask;
        // Fetched in an earlier run: this is the very same request once more, and it is asked once more.
        while self.id.is_none() && ask.state != AskState::Open && ask.delivery == Delivery::Confirmed {
            self.raise.key.push(AGAIN);
            ask = asker.raise(&self.raise)?.ask;
        }
        self.id = Some(ask.id.clone());
        self.tell(News::Raised);
        while ask.state == AskState::Open {
            ask = asker.ask_watched(&self.raise, &mut OrStop(self.wake.as_fd()))?;
            if ask.requester.link == "handed_back" && ask.state == AskState::Open {
                // Only its own side can answer it now; what it is told comes by order.
                match OrStop(self.wake.as_fd()).wait(None, Instant::now() + TELL) {
                    Ok(Wake::Stop) => return Err(Unavailable::Abandoned),
                    Ok(_) => {}
                    Err(error) => return Err(Unavailable::Fault(error.to_string())),
                }
            }
        }
        ask.outcome.ok_or_else(|| Unavailable::Fault("settled without an outcome".to_owned()))
    }

    /// The next order, if one comes in time; `Err`: none comes any more.
    fn order(&self, patience: Duration) -> Result<Option<Order>, ()> {
        let until = Instant::now() + patience;
        loop {
            match self.orders.try_recv() {
                Ok(order) => {
                    let _ = io::Read::read(&mut &self.wake, &mut [0]);
                    return Ok(Some(order));
                }
                Err(TryRecvError::Disconnected) => return Err(()),
                Err(TryRecvError::Empty) => {}
            }
            match OrStop(self.wake.as_fd()).wait(None, until) {
                Ok(Wake::Stop) => {}
                Ok(_) => return Ok(None),
                Err(_) => return Err(()),
            }
        }
    }

    fn obey(mut self, order: Order) {
        match order {
            Order::Over => {}
            Order::Elsewhere(Some(allowed)) => {
                self.until_told(|carry| answered_there(&carry.around, &carry.raise, allowed));
                // One that it could not be told of by its call is open still, and nobody waits for it.
                self.withdraw("cancelled");
            }
            Order::Elsewhere(None) => self.withdraw("cancelled"),
            Order::Withdraw(cause) => self.withdraw(cause),
        }
    }

    /// Somebody may have decided at the same moment: then that counts, and is told.
    fn withdraw(mut self, cause: &'static str) {
        let mut settled = None;
        let mut said = false;
        self.until_told(|carry| {
            let done = match &carry.id {
                Some(id) => carry.around.asker()?.withdraw(id, cause),
                None => carry.around.asker()?.withdraw_key(&carry.raise.key, cause),
            };
            if let Err(Unavailable::Refused(problem)) = &done
                && problem.code == Code::AlreadySettled
            {
                settled = problem.ask.as_ref().and_then(|ask| Some((ask.outcome.clone()?, ask.id.clone())));
            }
            // What no daemon is known to have is over at once; one that has it all the same is told when it is back.
            if carry.id.is_none() && !said && matches!(done, Err(Unavailable::NotRunning(_))) {
                said = true;
                carry.tell(News::Outcome(carry.no, Box::new(withdrawn(cause)), None));
            }
            done
        });
        match settled {
            Some((outcome, id)) => self.tell(News::Outcome(self.no, Box::new(outcome), Some(id))),
            None if said => {}
            None => self.tell(News::Outcome(self.no, Box::new(withdrawn(cause)), None)),
        }
    }

    /// Again and again until the daemon took it or refused it.
    fn until_told(&mut self, mut step: impl FnMut(&Self) -> Result<(), Unavailable>) {
        let until = Instant::now() + TELL;
        let mut pause = PAUSE;
        loop {
            match step(self) {
                Ok(()) => return,
                Err(Unavailable::Refused(problem)) if problem.code != Code::NotRecorded => return,
                Err(_) if Instant::now() >= until => return,
                Err(_) => {
                    let _ = JustWait.wait(None, Instant::now() + pause);
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Tells that somebody else's answer is in place.
pub(super) fn answered_there(around: &Around, raise: &RaiseAsk, allowed: bool) -> Result<(), Unavailable> {
    let batch = ObservationBatch {
        agent: raise.agent.clone(),
        session: raise.session.clone(),
        parent: raise.parent.clone(),
        session_title: None,
        cwd: None,
        instance: None,
        place: None,
        observations: vec![Observation::OwnPromptAnswered {
            call: raise.tool_call.clone().unwrap_or_default(),
            allowed,
        }],
    };
    let mut connection = daemon::connect_ask(&around.places)?;
    connection.set_token(Some(around.token.clone()));
    connection.set_timeout(PATIENCE);
    connection.command("POST", "/v1/observations", Some(&batch)).map_err(Unavailable::from)
}

/// The outcome of an ask that was withdrawn from here.
fn withdrawn(cause: &str) -> Outcome {
    Outcome {
        outcome: askd_wire::OutcomeKind::Withdrawn,
        cause: cause.to_owned(),
        source: None,
        surface: None,
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: jiff::Timestamp::now().to_string(),
        verdict: Verdict::None,
        reason_for_model: None,
        text: match cause {
            "requester_limit" => "nobody answered before the requester's own time limit".to_owned(),
            _ => "it was withdrawn".to_owned(),
        },
        extra: serde_json::Map::new(),
    }
}
