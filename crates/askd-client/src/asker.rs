//! Raises an ask and stays with it until there is an outcome, whatever breaks in between.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use askd_wire::{
    Ask, AskState, Code, DecidedAsk, DecidedByKey, Decision, RaiseAsk, Raised, WithdrawAsk, WithdrawByKey,
};
use rustix::event::{PollFd, PollFlags, poll};

use crate::daemon::{self, Door, START_PATIENCE};
use crate::error::{CallError, HttpError, Unavailable};
use crate::http::{Connection, Reply, poll_one, span};
use crate::pending::PendingAsk;
use crate::places::Places;

/// Longest single wait that is asked of the daemon; a longer one is made of several.
const HOLD: Duration = Duration::from_secs(600);
/// The first wait is short: a daemon that does not reply to it has stopped, and the agent is to ask by itself.
const FIRST_HOLD: Duration = Duration::from_secs(2);
/// How much later than asked for a reply may come before the daemon counts as hung.
const SLACK: Duration = Duration::from_secs(20);
/// For sending a request, and for the rest of a reply that has begun.
const TRANSFER: Duration = Duration::from_secs(30);
/// For what is told after the outcome.
const TELL: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often in a row a daemon that does not take an ask (disk full, internal error) is asked again.
const MOST_REFUSALS: u32 = 5;

/// What a [`Watch`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The socket has something to read, or was closed.
    Readable,
    /// `until` passed.
    TimedOut,
    /// Nobody wants the outcome any more.
    Stop,
}

/// Waits for the daemon, and for whatever else could end the wait.
pub trait Watch {
    /// Blocks until the socket (when there is one) is readable, `until` passed, or the wait is pointless.
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake>;

    /// The daemon took the ask, and cannot be reached now; said with every attempt that failed.
    fn lost(&mut self, _why: &Unavailable) {}

    /// It has the ask, which is not over; said with every reply.
    fn back(&mut self, _ask: &Ask) {}
}

/// Waits for the daemon and nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct JustWait;

impl Watch for JustWait {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        match socket {
            Some(socket) => Ok(match poll_one(socket, PollFlags::IN, Some(until))? {
                Some(_) => Wake::Readable,
                None => Wake::TimedOut,
            }),
            None => {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                Ok(Wake::TimedOut)
            }
        }
    }
}

/// Waits for the daemon, until something comes in here or the other end of it is closed; that comes first.
#[derive(Debug, Clone, Copy)]
pub struct OrStop<'a>(pub BorrowedFd<'a>);

impl Watch for OrStop<'_> {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.0, PollFlags::IN)];
        fds.extend(socket.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        loop {
            match poll(&mut fds, Some(&span(until.saturating_duration_since(Instant::now())))) {
                Ok(0) => return Ok(Wake::TimedOut),
                Ok(_) if fds[0].revents().is_empty() => return Ok(Wake::Readable),
                Ok(_) => return Ok(Wake::Stop),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A requester: one identity (a token of 128 random bits), one ask at a time.
#[derive(Debug)]
pub struct Asker {
    places: Places,
    exe: Exe,
    token: String,
    connection: Option<Connection>,
    /// A request of it may have reached a daemon.
    sent: bool,
}

/// The askd program that may be started as the daemon.
#[derive(Debug, Clone)]
enum Exe {
    Told(Option<PathBuf>),
    /// Whatever [`daemon::own_exe`] says, once it is needed.
    Own,
}

/// Why one exchange brought no reply that counts.
enum Fault {
    /// It may work the next time.
    Lost(Unavailable),
    /// The daemon did not reply in time.
    Silent(Unavailable),
    /// The daemon is there and did not take it; it may later.
    NotTaken(Unavailable),
    /// A limit of the daemon. Nothing is decided by it; an ask that is raised already waits for room.
    Full(Unavailable),
    Final(Unavailable),
}

impl Asker {
    /// Connects, starting the daemon when none runs and this program is askd itself.
    pub fn connect(places: Places) -> Result<Self, Unavailable> {
        let exe = daemon::own_exe().filter(|exe| exe.file_stem().is_some_and(|name| name == "askd"));
        let mut asker = Self::new(places, exe)?;
        asker.connection = Some(asker.open(Instant::now() + START_PATIENCE)?);
        Ok(asker)
    }

    /// Connects when it first needs to. `exe`: the askd program that may be started as the daemon; `None`: none.
    pub fn new(places: Places, exe: Option<PathBuf>) -> Result<Self, Unavailable> {
        let token = random_hex().map_err(|error| Unavailable::Fault(format!("no random bits: {error}")))?;
        Ok(Self { places, exe: Exe::Told(exe), token, connection: None, sent: false })
    }

    /// The same for a program that may start the askd that it is, or is installed beside ([`daemon::own_exe`]): it is
    /// looked for only when no daemon runs.
    pub fn beside_askd(places: Places) -> Result<Self, Unavailable> {
        Ok(Self { exe: Exe::Own, ..Self::new(places, None)? })
    }

    /// The same identity in every run of a program: its own token (128 bits that nobody can guess) in place of a
    /// random one.
    #[must_use]
    pub fn with_token(self, token: String) -> Self {
        Self { token, connection: None, ..self }
    }

    /// The requester's token; whoever holds it owns the asks.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Raises the ask and blocks until it is settled or handed back to the agent's own prompt (the ask is open then, and
    /// its requester link is `handed_back`). Reconnects and re-attaches with the same key and token.
    /// After `gives_up_secs`: [`Unavailable::GaveUp`], and the ask stays open until it is withdrawn.
    pub fn ask(&mut self, raise: &RaiseAsk) -> Result<Ask, Unavailable> {
        self.ask_watched(raise, &mut JustWait)
    }

    /// Raises the ask, or comes back to it, without waiting for its outcome: one attempt. The link stays attached, and
    /// [`Self::ask`] with the same ask waits from there on.
    pub fn raise(&mut self, raise: &RaiseAsk) -> Result<Raised, Unavailable> {
        let body = serde_json::to_vec(raise).map_err(CallError::Encode)?;
        self.exchange(&body, Duration::ZERO, &mut JustWait).map_err(|fault| {
            let (Fault::Lost(why)
            | Fault::Silent(why)
            | Fault::NotTaken(why)
            | Fault::Full(why)
            | Fault::Final(why)) = fault;
            // A connection that failed is not used again.
            if !matches!(why, Unavailable::Refused(_)) {
                self.connection = None;
            }
            why
        })
    }

    /// The same as [`Self::ask`], waiting by `watch`. When that says stop, the connection is closed, by which the daemon knows.
    pub fn ask_watched(&mut self, raise: &RaiseAsk, watch: &mut dyn Watch) -> Result<Ask, Unavailable> {
        let body = serde_json::to_vec(raise).map_err(CallError::Encode)?;
        let give_up =
            raise.gives_up_secs.and_then(|secs| Instant::now().checked_add(Duration::from_secs(secs)));
        let mut known: Option<Box<Ask>> = None;
        let mut pause = FIRST_PAUSE;
        let mut refusals = 0;
        loop {
            let hold = if known.is_none() { FIRST_HOLD } else { HOLD };
            let hold = match give_up {
                Some(give_up) => hold.min(give_up.saturating_duration_since(Instant::now())),
                None => hold,
            };
            if hold < Duration::from_secs(1) {
                return Err(Unavailable::GaveUp(known));
            }
            let began = Instant::now();
            match self.exchange(&body, hold, watch) {
                Ok(raised) if raised.released => return Err(Unavailable::Released),
                Ok(raised) if is_over(&raised.ask) => return Ok(raised.ask),
                Ok(raised) => {
                    watch.back(&raised.ask);
                    known = Some(Box::new(raised.ask));
                    refusals = 0;
                    // A daemon that does not hold the request must not be asked in a tight loop.
                    if began.elapsed() >= Duration::from_millis(500) {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                }
                Err(Fault::Final(why)) => return Err(why),
                Err(Fault::Silent(why)) if known.is_none() => {
                    self.connection = None;
                    return Err(why);
                }
                Err(Fault::Lost(why) | Fault::Silent(why)) => {
                    self.connection = None;
                    let startless = matches!(why, Unavailable::NotRunning(_) | Unavailable::CannotStart(_));
                    if known.is_none() && startless {
                        return Err(why);
                    }
                    if known.is_some() {
                        watch.lost(&why);
                    }
                    if began.elapsed() >= LONGEST_PAUSE {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(Fault::Full(why)) if known.is_none() => return Err(why),
                Err(Fault::Full(why)) => {
                    watch.lost(&why);
                    self.connection = None;
                }
                Err(Fault::NotTaken(why)) => {
                    refusals += 1;
                    if known.is_none() && refusals >= MOST_REFUSALS {
                        return Err(why);
                    }
                }
            }
            let until = Instant::now() + pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
            match watch.wait(None, give_up.map_or(until, |give_up| until.min(give_up))) {
                Ok(Wake::Stop) => {
                    self.connection = None;
                    return Err(Unavailable::Abandoned);
                }
                Ok(_) => {}
                Err(error) => return Err(Unavailable::Fault(format!("waiting: {error}"))),
            }
        }
    }

    /// The same as [`Self::ask`] as a future, on a connection of its own. It needs no runtime; see [`PendingAsk`].
    ///
    /// ```no_run
    /// use askd_client::{Asker, Places};
    /// # async fn host(raise: askd_wire::RaiseAsk) -> Result<(), Box<dyn std::error::Error>> {
    /// let outcome = Asker::connect(Places::from_env()?)?.pending(raise)?.await?.outcome;
    /// # Ok(()) }
    /// ```
    pub fn pending(&self, raise: RaiseAsk) -> Result<PendingAsk, Unavailable> {
        Ok(PendingAsk::start(self.twin(), raise)?)
    }

    /// The same identity, on a connection of its own.
    pub(crate) fn twin(&self) -> Self {
        Self {
            places: self.places.clone(),
            exe: self.exe.clone(),
            token: self.token.clone(),
            connection: None,
            sent: self.sent,
        }
    }

    /// Whether a daemon may have heard of anything that was raised here, replied to or not.
    pub fn may_be_known(&self) -> bool {
        self.sent
    }

    /// An ask of this requester as it is now.
    pub fn look(&mut self, id: &str) -> Result<Ask, Unavailable> {
        let reply = self.request("GET", &format!("/v1/asks/{id}"), None, TELL)?;
        Ok(reply.into_typed()?)
    }

    /// The newest ask of this requester that has this key, as it is now; `None`: the daemon has none at hand. Nothing is
    /// asked by it.
    pub fn recall(&mut self, key: &str) -> Result<Option<Ask>, Unavailable> {
        match self
            .request("GET", &format!("/v1/asks?key={}", crate::answers::escape(key)), None, TELL)?
            .into_typed()
        {
            Ok(ask) => Ok(Some(ask)),
            Err(CallError::Refused(problem)) if problem.code == Code::UnknownAsk => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The outcome was given to the agent: it was printed, or its line was written.
    pub fn handed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.tell(id, "handed", None, TELL)
    }

    /// The agent did what the outcome said.
    pub fn confirmed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.tell(id, "confirmed", None, TELL)
    }

    /// Withdraws an ask of this requester, with one of the causes of [`WithdrawAsk`].
    pub fn withdraw(&mut self, id: &str, cause: &str) -> Result<(), Unavailable> {
        let body = serde_json::to_vec(&WithdrawAsk { cause: cause.to_owned() }).map_err(CallError::Encode)?;
        self.tell(id, "withdraw", Some(&body), TELL)
    }

    /// Withdraws the ask of this requester that has this key, for a requester that was never told its id: one attempt,
    /// and [`take_back`](crate::take_back) makes more. An ask that the daemon does not know is withdrawn already. No
    /// daemon is started for it; one that is away has the ask in its journal, so [`Unavailable::NotRunning`] is a
    /// failure like others.
    pub fn withdraw_key(&self, key: &str, cause: &str) -> Result<(), Unavailable> {
        withdraw_known(&mut self.present()?, key, cause).map(drop)
    }

    /// A hook of the host's own decided this ask, see [`AskPort::decided_by_hook`](crate::AskPort).
    pub fn decided_by_hook(
        &self,
        raise: &RaiseAsk,
        id: Option<&str>,
        decision: Decision,
        went_on: bool,
    ) -> Result<(), Unavailable> {
        let mut connection = self.present()?;
        let decided = DecidedAsk { decision, by: Some("hook".to_owned()), went_on };
        let told = match id {
            Some(id) => connection.command("POST", &format!("/v1/asks/{id}/decided"), Some(&decided)),
            None => {
                let body = DecidedByKey { key: raise.key.clone(), decided };
                connection.command("POST", "/v1/asks/decided", Some(&body))
            }
        };
        match told {
            // It never came there, so there is nothing to record.
            Err(CallError::Refused(problem)) if problem.code == Code::UnknownAsk => Ok(()),
            // Older than this: nobody can answer it any more is what can be said there, without a word of who decided.
            // In two steps, for a withdrawal alone would void what a person has just decided.
            Err(CallError::Refused(problem)) if problem.is_unknown_route() => {
                if withdraw_known(&mut connection, &raise.key, "handed_back")? {
                    withdraw_known(&mut connection, &raise.key, "cancelled")?;
                }
                Ok(())
            }
            told => Ok(told?),
        }
    }

    /// A connection to a daemon that is there; none is started.
    fn present(&self) -> Result<Connection, Unavailable> {
        let mut connection = daemon::connect(&self.places, Door::Ask, Some(Instant::now() + TELL))?;
        connection.set_token(Some(self.token.clone()));
        connection.set_timeout(TELL);
        Ok(connection)
    }

    /// `POST /v1/asks/{id}/{what}` within `patience`, once more on a new connection when the kept one was stale.
    pub fn tell(
        &mut self,
        id: &str,
        what: &str,
        body: Option<&[u8]>,
        patience: Duration,
    ) -> Result<(), Unavailable> {
        self.post(&format!("/v1/asks/{id}/{what}"), body, patience)
    }

    fn post(&mut self, target: &str, body: Option<&[u8]>, patience: Duration) -> Result<(), Unavailable> {
        self.request("POST", target, body, patience)?.into_success()?;
        Ok(())
    }

    fn request(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        patience: Duration,
    ) -> Result<Reply, Unavailable> {
        let deadline = Instant::now() + patience;
        loop {
            let (mut connection, kept) = match self.connection.take() {
                Some(connection) if connection.is_reusable() => (connection, true),
                _ => (self.open(deadline)?, false),
            };
            connection.set_deadline(Some(deadline));
            match connection.request(method, target, body) {
                Ok(reply) => {
                    self.connection = Some(connection);
                    return Ok(reply);
                }
                Err(HttpError::TimedOut) => return Err(CallError::from(HttpError::TimedOut).into()),
                Err(_) if kept => {}
                Err(error) => return Err(CallError::from(error).into()),
            }
        }
    }

    fn open(&self, deadline: Instant) -> Result<Connection, Unavailable> {
        let found = match &self.exe {
            Exe::Own => daemon::connect(&self.places, Door::Ask, Some(deadline)),
            Exe::Told(exe) => daemon::connect_or_start(&self.places, Door::Ask, exe.as_deref(), deadline),
        };
        let mut connection = match (&self.exe, found) {
            (Exe::Own, Err(Unavailable::NotRunning(_))) => {
                let exe = daemon::own_exe();
                daemon::connect_or_start(&self.places, Door::Ask, exe.as_deref(), deadline)?
            }
            (_, found) => found?,
        };
        connection.set_token(Some(self.token.clone()));
        Ok(connection)
    }

    fn exchange(&mut self, body: &[u8], hold: Duration, watch: &mut dyn Watch) -> Result<Raised, Fault> {
        let mut connection = match self.connection.take() {
            Some(connection) if connection.is_reusable() => connection,
            _ => self.open(Instant::now() + START_PATIENCE).map_err(|why| match why {
                Unavailable::Stopped | Unavailable::Unsafe(_) => Fault::Final(why),
                _ => Fault::Lost(why),
            })?,
        };
        let lost = |error: HttpError| Fault::Lost(CallError::from(error).into());
        connection.set_timeout(TRANSFER);
        let target = format!("/v1/asks?wait={}", hold.as_secs());
        self.sent = true;
        connection.send("POST", &target, Some(body)).map_err(lost)?;
        match watch.wait(Some(connection.as_fd()), Instant::now() + hold + SLACK) {
            Ok(Wake::Readable) => {}
            Ok(Wake::TimedOut) => return Err(Fault::Silent(CallError::from(HttpError::TimedOut).into())),
            Ok(Wake::Stop) => return Err(Fault::Final(Unavailable::Abandoned)),
            Err(error) => return Err(Fault::Final(Unavailable::Fault(format!("waiting: {error}")))),
        }
        connection.set_timeout(TRANSFER);
        let reply = connection.receive().map_err(lost)?;
        self.connection = Some(connection);
        reply.into_typed().map_err(|error| match error {
            CallError::Refused(ref problem) if problem.code == Code::NotRecorded => {
                Fault::NotTaken(error.into())
            }
            CallError::Refused(ref problem) if problem.code == Code::CapReached => Fault::Full(error.into()),
            CallError::Unexpected { .. } => Fault::NotTaken(error.into()),
            CallError::Http(error) => lost(error),
            error => Fault::Final(error.into()),
        })
    }

    /// The askd program that this requester may start.
    pub fn exe(&self) -> Option<PathBuf> {
        match &self.exe {
            Exe::Told(exe) => exe.clone(),
            Exe::Own => daemon::own_exe(),
        }
    }
}

/// False: the daemon does not know it, so that it is withdrawn already.
fn withdraw_known(connection: &mut Connection, key: &str, cause: &str) -> Result<bool, Unavailable> {
    let body = WithdrawByKey { key: key.to_owned(), cause: cause.to_owned() };
    match connection.command("POST", "/v1/asks/withdraw", Some(&body)) {
        Ok(()) => Ok(true),
        Err(CallError::Refused(problem)) if problem.code == Code::UnknownAsk => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// Settled, or open only for the agent's own prompt.
fn is_over(ask: &Ask) -> bool {
    ask.state == AskState::Settled || ask.requester.link == "handed_back"
}

/// 128 random bits as 32 hexadecimal digits: a token, or a key for a call that has no id of its own.
pub fn random_hex() -> Result<String, getrandom::Error> {
    let mut bits = [0; 16];
    fill(&mut bits)?;
    Ok(bits.iter().fold(String::with_capacity(32), |mut hex, byte| {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
        hex
    }))
}

/// Linked statically, the library does not find the kernel's call and reads two files of `/dev` instead.
fn fill(bits: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(target_os = "linux")]
    if rustix::rand::getrandom(&mut *bits, rustix::rand::GetRandomFlags::empty()) == Ok(bits.len()) {
        return Ok(());
    }
    getrandom::fill(bits)
}
