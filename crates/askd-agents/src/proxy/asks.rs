//! One thread for one ask: raises it, waits for its outcome, survives restarts of the daemon, and carries back what
//! became of it.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use askd_client::{Asker, OrStop, Places, Unavailable, Wake, Watch, daemon, take_back};
use askd_wire::{Ask, AskState, Observation, ObservationBatch, OutcomeKind, OwnPrompt, RaiseAsk};
use jiff::Timestamp;

use super::desk::timed;
use super::fit::{fitted, only_there};
use super::late::Late;
use super::link::{Busy, BusyGuard, OBSERVED_PATIENCE, Unheard};
use super::lock;
use super::{AskLimit, AskNo, News};

/// Between two attempts to reach a daemon that is not there.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest time between two attempts to reach one that is away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(5);
/// A daemon that restarts is back within this time; nothing is said of it.
const RESTART: Duration = Duration::from_secs(4);
/// The longest time between two attempts to tell the daemon something.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How long a finished ask waits to hear that its outcome was handed on.
const HANDED_PATIENCE: Duration = Duration::from_secs(3600);

/// What an ask's thread is told.
#[derive(Debug)]
pub(super) enum Order {
    Withdraw(&'static str),
    /// The guard goes when it is written down.
    Record {
        allowed: bool,
        _writing: BusyGuard,
    },
    Handed,
    Confirmed,
}

/// Id and digest, once they are known.
pub(super) type Known = Arc<Mutex<Option<(String, String)>>>;

/// The other end of an ask's thread.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    no: AskNo,
    late: Arc<Late>,
    orders: Sender<Order>,
    wake: Arc<PipeWriter>,
    pub(super) known: Known,
}

impl Handle {
    pub(crate) fn handed(&self) {
        self.order(Order::Handed);
    }

    /// Tells the thread; when that has ended already, what is left to tell goes its own way.
    pub(super) fn order(&self, order: Order) {
        self.late.order(self.no, order, |order| {
            if self.orders.send(order).is_ok() {
                let _ = (&*self.wake).write(&[1]);
            }
        });
    }
}

/// What every ask's thread has.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) places: Places,
    pub(super) exe: Option<PathBuf>,
    /// Who we are to the daemon.
    pub(super) token: String,
    pub(super) sink: Arc<dyn Fn(News) + Send + Sync>,
    /// For people, in records of what the client answered alone.
    pub(super) client: Arc<Mutex<String>>,
    /// Counts threads that still have something to tell.
    pub(super) busy: Busy,
    /// Observations made before the ask that the daemon has not heard.
    pub(super) unheard: Unheard,
    /// Asks whose threads have ended.
    pub(super) late: Arc<Late>,
}

/// Starts the thread of one ask.
pub(super) fn start(around: Around, no: AskNo, raise: RaiseAsk) -> io::Result<Handle> {
    let (orders, received) = channel();
    let (wake, written) = io::pipe()?;
    let known = Known::default();
    let late = Arc::clone(&around.late);
    let asking = Asking {
        around,
        no,
        raise: fitted(raise),
        orders: received,
        wake,
        known: Arc::clone(&known),
        asker: None,
        guard: None,
    };
    std::thread::Builder::new()
        .name(format!("ask-{no}"))
        .stack_size(512 * 1024)
        .spawn(move || asking.run_to_end())?;
    Ok(Handle { no, late, orders, wake: Arc::new(written), known })
}

struct Asking {
    around: Around,
    no: AskNo,
    raise: RaiseAsk,
    orders: Receiver<Order>,
    wake: PipeReader,
    known: Known,
    asker: Option<Asker>,
    /// The end of the proxy waits while this is held.
    guard: Option<BusyGuard>,
}

/// Whether to go on.
enum Next {
    Again,
    Over,
}

impl Asking {
    fn run_to_end(mut self) {
        self.run();
        let id = lock(&self.known).clone().map(|(id, _)| id);
        self.around.late.over(self.no, id);
        // What was said before that is heard here.
        while let Ok(order) = self.orders.try_recv() {
            self.obey(order);
        }
    }

    fn run(&mut self) {
        self.guard = Some(self.around.busy.enter());
        // A cancel that came before this ask must not reach the daemon behind it.
        self.around.unheard.wait(OBSERVED_PATIENCE);
        let mut pause = PAUSE;
        loop {
            let began = Instant::now();
            match self.ask() {
                Next::Over => return,
                Next::Again => {}
            }
            if began.elapsed() > LONGEST_ABSENCE {
                pause = PAUSE;
            }
            let this = pause;
            // Well within the time that an ask which the client left waits for a daemon.
            pause = (pause * 2).min(LONGEST_ABSENCE);
            match self.order(this) {
                Some(order) => {
                    self.obey(order);
                    return;
                }
                None => continue,
            }
        }
    }

    fn tell(&self, news: News) {
        (self.around.sink)(news);
    }

    fn asker(&mut self) -> Result<&mut Asker, Unavailable> {
        if self.asker.is_none() {
            let asker = Asker::new(self.around.places.clone(), self.around.exe.clone())?
                .with_token(self.around.token.clone());
            self.asker = Some(asker);
        }
        self.asker.as_mut().ok_or(Unavailable::Abandoned)
    }

    /// One life of the ask at the daemon, up to its outcome, an order, or a daemon that is not there.
    fn ask(&mut self) -> Next {
        let no = self.no;
        let raise = self.raise.clone();
        let raised = match self.asker().and_then(|asker| asker.raise(&raise)) {
            Ok(raised) => raised,
            Err(why) => return self.unavailable(&why),
        };
        self.learn(&raised.ask);
        if raised.ask.state == AskState::Open {
            self.tell(News::Limit { ask: no, limit: limit(&raised.ask) });
            self.tell(News::Raised { ask: no, timed: timed(&raised.ask) });
        } else {
            return self.outcome(raised.ask);
        }
        let (wake, sink) = (self.wake.try_clone(), Arc::clone(&self.around.sink));
        let waited = match (self.asker(), wake) {
            (Ok(asker), Ok(wake)) => {
                let orders = OrStop(wake.as_fd());
                asker.ask_watched(
                    &raise,
                    &mut Carried { no, orders, sink: &*sink, lost_at: None, told: false },
                )
            }
            (Err(why), _) => Err(why),
            (_, Err(error)) => Err(Unavailable::Fault(error.to_string())),
        };
        match waited {
            Ok(ask) if ask.state == AskState::Settled => self.outcome(ask),
            // Only the agent's own prompt, or the peer's, can answer it; its fate is told by what is observed.
            Ok(ask) if ask.requester.link == "handed_back" => {
                let why = "only the agent's own prompt can answer it".to_owned();
                self.tell(News::Refused { ask: no, why });
                self.last_order()
            }
            // Why it goes is known when it is looked for: it was stopped, or comes back.
            Ok(_) | Err(Unavailable::Released) => Next::Again,
            Err(Unavailable::Abandoned) => match self.order(Duration::ZERO) {
                Some(order) => {
                    self.obey(order);
                    Next::Over
                }
                None => Next::Again,
            },
            Err(why) => self.unavailable(&why),
        }
    }

    fn learn(&self, ask: &Ask) {
        let mut known = lock(&self.known);
        *known = Some((ask.id.clone(), ask.digest.clone()));
    }

    fn unavailable(&mut self, why: &Unavailable) -> Next {
        let (ask, text) = (self.no, one_line(&why.to_string()));
        // One that is in the journal already waits for a daemon of the right version.
        let skewed = matches!(why, Unavailable::Skew(_)) && lock(&self.known).is_none();
        if why.is_final_refusal() || skewed {
            self.write_down(why);
            // It will not be taken the next time either; what the client says alone may be.
            self.tell(News::Refused { ask, why: text });
            return self.last_order();
        }
        self.tell(News::Unavailable { ask, why: text });
        Next::Again
    }

    /// What askd cannot take is there to be seen, as asked at the client only.
    fn write_down(&mut self, why: &Unavailable) {
        let client = lock(&self.around.client).clone();
        if let Some(record) = only_there(&self.raise, &client, why) {
            self.raise = record.clone();
            // A second refusal leaves it with the line that is logged.
            let _ = self.asker().and_then(|asker| asker.raise(&record));
        }
    }

    /// Nothing comes from the daemon any more; what the machine says last may still be told to it.
    fn last_order(&mut self) -> Next {
        self.guard = None;
        if let Ok(order) = self.orders.recv() {
            let _telling = self.around.busy.enter();
            self.obey(order);
        }
        Next::Over
    }

    /// Settled: what is left is to tell what became of it.
    fn outcome(&mut self, ask: Ask) -> Next {
        let Some(outcome) = ask.outcome else { return Next::Over };
        self.tell(News::Outcome { ask: self.no, outcome: Box::new(outcome) });
        // From here on the end of the proxy does not wait for this thread, unless it is told something.
        self.guard = None;
        if let Some(order) = self.order(HANDED_PATIENCE) {
            let _telling = self.around.busy.enter();
            self.obey(order);
        }
        Next::Over
    }

    /// The next order, if one comes in time.
    fn order(&mut self, patience: Duration) -> Option<Order> {
        let until = Instant::now() + patience;
        loop {
            match self.orders.try_recv() {
                Ok(order) => {
                    let _ = self.wake.read(&mut [0]);
                    return Some(order);
                }
                // The proxy ends; nothing will be told any more.
                Err(TryRecvError::Disconnected) => return Some(Order::Withdraw("requester_gone")),
                Err(TryRecvError::Empty) => {}
            }
            match OrStop(self.wake.as_fd()).wait(None, until) {
                Ok(Wake::Stop) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Carries out an order, again and again until the daemon took it or refused it.
    fn obey(&mut self, order: Order) {
        let until = Instant::now() + Duration::from_secs(600);
        let mut pause = Duration::from_millis(500);
        loop {
            let done = self.try_to(&order);
            match done {
                Ok(()) => return,
                Err(why) if why.is_final_refusal() => return,
                Err(_) if Instant::now() >= until => return,
                Err(_) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn try_to(&mut self, order: &Order) -> Result<(), Unavailable> {
        let id = lock(&self.known).clone().map(|(id, _)| id);
        match (order, id) {
            (Order::Withdraw(cause), Some(id)) => self.asker()?.withdraw(&id, cause),
            // Nobody has heard of it, or the reply was lost on the way: it is taken back by its key.
            (Order::Withdraw(cause), None) => {
                let raise = self.raise.clone();
                take_back(self.asker()?, &raise, cause)
            }
            (Order::Handed, Some(id)) => self.asker()?.handed(&id),
            (Order::Confirmed, Some(id)) => self.asker()?.confirmed(&id),
            (Order::Handed | Order::Confirmed, None) => Ok(()),
            (Order::Record { allowed, .. }, _) => self.record(*allowed),
        }
    }

    /// The client answered alone: the ask is written down as one that only the agent's own prompt could answer, and
    /// then as answered there. One that the daemon has already is found by its key.
    fn record(&mut self, allowed: bool) -> Result<(), Unavailable> {
        let client = lock(&self.around.client).clone();
        let mut raise = self.raise.clone();
        raise.needs_own_prompt = true;
        raise.own_prompt = Some(OwnPrompt { at: client, blocked: false });
        let raised = self.asker()?.raise(&raise)?;
        let decided = raised.ask.outcome.as_ref().map(|outcome| outcome.outcome);
        if decided == Some(if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied }) {
            // The journal has it, and only the reply was lost. What the agent makes of it will be seen.
            self.learn(&raised.ask);
            return self.asker()?.handed(&raised.ask.id);
        }
        if decided == Some(OutcomeKind::Withdrawn) {
            // It was over there before the answer was heard of; the answer gets a record of its own.
            raise.key.push_str("-answered");
            self.asker()?.raise(&raise)?;
        }
        self.learn(&raised.ask);
        let Some(call) = raise.tool_call.clone() else { return Ok(()) };
        let batch = ObservationBatch {
            agent: raise.agent,
            session: raise.session,
            parent: raise.parent,
            session_title: None,
            cwd: None,
            instance: raise.instance,
            place: None,
            observations: vec![Observation::OwnPromptAnswered { call, allowed }],
        };
        let mut connection = daemon::connect_ask(&self.around.places)?;
        connection.set_timeout(Duration::from_secs(10));
        connection.command("POST", "/v1/observations", Some(&batch)).map_err(Unavailable::from)
    }
}

/// Waits for the outcome, and tells when the daemon is away for longer than a restart takes, and when it is back.
struct Carried<'a> {
    no: AskNo,
    orders: OrStop<'a>,
    sink: &'a (dyn Fn(News) + Send + Sync),
    lost_at: Option<Instant>,
    told: bool,
}

impl Watch for Carried<'_> {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        self.orders.wait(socket, until)
    }

    fn lost(&mut self, why: &Unavailable) {
        let lost_at = *self.lost_at.get_or_insert_with(Instant::now);
        if !self.told && lost_at.elapsed() >= RESTART {
            self.told = true;
            (self.sink)(News::Unavailable { ask: self.no, why: one_line(&why.to_string()) });
        }
    }

    fn back(&mut self, ask: &Ask) {
        self.lost_at = None;
        if ask.state != AskState::Open {
            return;
        }
        (self.sink)(News::Limit { ask: self.no, limit: limit(ask) });
        if std::mem::take(&mut self.told) {
            (self.sink)(News::Raised { ask: self.no, timed: timed(ask) });
        }
    }
}

/// The recorded deadline, as spans from now on.
fn limit(ask: &Ask) -> Option<AskLimit> {
    let deadline: Timestamp = ask.deadline.as_deref()?.parse().ok()?;
    let asked: Timestamp = ask.asked_at.parse().ok()?;
    let span = |from| Duration::try_from(deadline.duration_since(from)).unwrap_or_default();
    Some(AskLimit { left: span(Timestamp::now()), whole: span(asked), default: ask.default })
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
