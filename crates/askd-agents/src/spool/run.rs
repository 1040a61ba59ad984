//! One thread for each tree: looks, does what the machine says, and sleeps until something happens or a second is over.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use askd_client::spool::{PlaceError, Put, REQUESTS, Stamp, decode_session, encode_session};
use askd_client::{Places, UnsafePlace, make_private_directory, random_hex};
use askd_wire::RaiseAsk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::carry::{self, Around, Carrier, News, Order, Task};
use super::eyes::Eyes;
use super::lock::{self, Locks, Taken};
use super::machine::{Action, AskNo, Evidence, Found, Id, Machine, Now};
use super::process;
use super::tree::Tree;
use super::wire::{self, PI_LIMIT, Unreadable};

/// The look that misses nothing; also the beat of the serving records.
const LOOK: Duration = Duration::from_secs(1);
/// A request older than this that was written by a process which does not exist was left over.
const FRESH_MS: u64 = 10_000;
/// What is still to be told to the daemon when the tree is not served any more.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Odd names that are told of; more say nothing new.
const MOST_TOLD: usize = 1000;

/// How one tree is served.
#[derive(Clone)]
pub struct Options {
    /// The root of the tree; it need not be there.
    pub dir: PathBuf,
    /// Where the daemon is.
    pub places: Places,
    /// The askd program that may be started as the daemon; `None` where the daemon itself serves.
    pub exe: Option<PathBuf>,
    /// Only these sessions, whose directories are made before anybody asks; empty: every session.
    pub sessions: Vec<String>,
    /// How long pi children wait; `None`: as their configuration beside the tree says, else ten minutes.
    pub limit: Option<Duration>,
    /// Where locks are, when not in the place that every askd of this user has.
    pub locks: Option<PathBuf>,
    /// Whether the kernel's hints are used.
    pub hints: bool,
    /// Lines for people.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("dir", &self.dir)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Every session of a tree, with nothing told.
    pub fn new(dir: impl Into<PathBuf>, places: Places) -> Self {
        Self {
            dir: dir.into(),
            places,
            exe: None,
            sessions: Vec::new(),
            limit: None,
            locks: None,
            hints: true,
            tell: Arc::new(|_| {}),
        }
    }
}

/// Why a tree is not served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("session {0:?} has no name that a directory can have")]
    Session(String),
    /// The place is the same for every askd of a user, and another one would be no lock.
    #[error("no lock can be had: {0}; it has to be removed, by whoever made it or an administrator")]
    Locks(UnsafePlace),
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A tree that is served until this is dropped or stopped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    waker: Arc<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(options: Options) -> Result<Self, StartError> {
        let mut only = BTreeMap::new();
        for id in &options.sessions {
            let name = encode_session(id.trim()).ok_or_else(|| StartError::Session(id.clone()))?;
            only.insert(name, id.trim().to_owned());
        }
        let tree = Tree::new(&options.dir);
        let locks_dir = options.locks.clone().unwrap_or_else(lock::default_dir);
        let locks = Locks::open(&locks_dir).map_err(StartError::Locks)?;
        let token = token(&options.places, &tree.root)?;
        let (wake, waker) = io::pipe()?;
        nonblocking(&wake)?;
        let waker = Arc::new(waker);
        let (news, received) = channel();
        let around = Around {
            places: options.places.clone(),
            exe: options.exe.clone(),
            token,
            news,
            waker: Arc::clone(&waker),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            eyes: Eyes::open(options.hints),
            token_of: tree.root.clone(),
            options,
            only: only.into_keys().collect(),
            tree,
            locks,
            around,
            machine: Machine::new(),
            carriers: BTreeMap::new(),
            running: BTreeSet::new(),
            news: received,
            wake,
            stop: Arc::clone(&stop),
            told: BTreeSet::new(),
            daemon_lost: false,
        };
        let thread = std::thread::Builder::new().name("spool".to_owned()).spawn(move || worker.run())?;
        Ok(Self { stop, waker, thread: Some(thread) })
    }

    /// Takes the records and sentinels away and ends. Asks that are open stay open for whoever serves next.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = (&*self.waker).write(&[1]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes the directories of a session that a launcher chose, with their sentinels, before its requester starts.
pub fn prepare(dir: &Path, session: &str) -> Result<(), PrepareError> {
    let name = encode_session(session.trim()).ok_or_else(|| PrepareError::Session(session.to_owned()))?;
    Tree::new(dir).keep(&name)?;
    Ok(())
}

/// Why a session was not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("session {0:?} has no name that a directory can have")]
    Session(String),
    #[error(transparent)]
    Place(#[from] PlaceError),
}

struct Worker {
    options: Options,
    /// Empty: every session.
    only: BTreeSet<String>,
    tree: Tree,
    eyes: Eyes,
    locks: Locks,
    around: Around,
    /// The path that its token is for.
    token_of: PathBuf,
    machine: Machine,
    carriers: BTreeMap<AskNo, Carrier>,
    /// Those whose threads have not ended.
    running: BTreeSet<AskNo>,
    news: Receiver<News>,
    wake: PipeReader,
    stop: Arc<AtomicBool>,
    /// What was told already and is still so.
    told: BTreeSet<String>,
    daemon_lost: bool,
}

impl Worker {
    fn run(mut self) {
        if !self.only.is_empty()
            && let Err(error) = self.tree.make()
        {
            self.tell_once("tree", &error.to_string());
        }
        self.settle_root();
        for name in self.only.clone() {
            if self.take(&name) {
                self.machine.choose(&name, process::now());
            }
        }
        let mut next = process::now();
        while !self.stop.load(Ordering::SeqCst) {
            self.hear();
            let now = process::now();
            let mut hints = self.eyes.read();
            if now >= next || hints.everything {
                self.look_at_everything(now);
                next = now + LOOK;
            } else {
                let due = self.machine.looks().filter(|(at, _)| *at <= now).map(|(_, name)| name.to_owned());
                hints.sessions.extend(due);
                for name in &hints.sessions {
                    self.look(name, now);
                }
            }
            self.machine.tick(process::now(), wall_ms());
            self.act();
            let due = self.machine.due().into_iter().chain(self.machine.looks().map(|(at, _)| at)).min();
            self.sleep(due.map_or(next, |due| due.min(next)));
        }
        self.look_at_everything(process::now());
        self.machine.stop();
        self.act();
        self.let_go();
    }

    /// The asks' threads end; what they were told to tell last is told, if it is in time.
    fn let_go(&mut self) {
        self.carriers.clear();
        let until = process::now() + LAST_WORDS;
        while !self.running.is_empty() {
            match self.news.recv_timeout(until.saturating_sub(process::now())) {
                Ok(News::Ended(no)) => drop(self.running.remove(&no)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Until something happens, or this point in time.
    fn sleep(&mut self, until: Now) {
        let left = until.saturating_sub(process::now());
        let span = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(1),
            // Rounded up: a wake-up a moment too early would only be followed by another one.
            tv_nsec: i64::from(left.subsec_nanos().min(999_000_000)) + 500_000,
        };
        let mut fds = vec![PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        fds.extend(self.eyes.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let _ = poll(&mut fds, Some(&span));
        let mut bytes = [0; 256];
        while matches!(self.wake.read(&mut bytes), Ok(read) if read == bytes.len()) {}
    }

    /// What the asks' threads told.
    fn hear(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            let (now, wall) = (process::now(), wall_ms());
            match news {
                News::Raised => {
                    if std::mem::take(&mut self.daemon_lost) {
                        self.tell("the daemon is there again");
                    }
                    self.machine.raised();
                }
                News::Lost(why) => {
                    if !std::mem::replace(&mut self.daemon_lost, true) {
                        self.tell(&format!("requests wait: {why}"));
                    }
                    self.machine.lost(now);
                }
                News::Full(no, why) => self.machine.no_room(no, &why),
                News::Outcome(no, outcome) => self.machine.outcome(no, &outcome, now, wall),
                News::Recalled(no, is_ours) => self.machine.recalled(no, is_ours),
                News::Refused(no, why) => self.machine.refused(no, &why, now, wall),
                News::Ended(no) => {
                    self.carriers.remove(&no);
                    self.running.remove(&no);
                }
            }
            self.act();
        }
    }

    /// Which directory the root is now: another way may lead to it, or it may be another one. False: it cannot be used.
    fn settle_root(&mut self) -> bool {
        match self.tree.resolve() {
            Ok(Some(root)) => self.locks.of(root),
            Ok(None) => {}
            Err(error) => {
                self.tell_once("tree", &error.to_string());
                return false;
            }
        }
        // Asks that are open are known by the token that they were raised with.
        if self.tree.root != self.token_of && self.running.is_empty() {
            match token(&self.options.places, &self.tree.root) {
                Ok(token) => {
                    self.around.token = token;
                    self.token_of.clone_from(&self.tree.root);
                }
                Err(error) => self.tell_once("token", &error.to_string()),
            }
        }
        true
    }

    fn look_at_everything(&mut self, now: Now) {
        if !self.settle_root() {
            return;
        }
        self.eyes.watch_root(&self.tree.root);
        let found = match self.tree.sessions() {
            Ok(found) => {
                self.told.remove("tree");
                for name in &found.no_text {
                    self.tell_once(&format!("session {name}"), &format!("{name:?} is no session's name"));
                }
                if let Some(why) = self.eyes.blind() {
                    self.tell_once("blind", &format!("{why}: what happens is noticed within a second"));
                }
                if found.left_out {
                    let text = "more sessions are there than are served together; the others wait";
                    self.tell_once("sessions", text);
                } else {
                    self.told.remove("sessions");
                }
                found.names
            }
            Err(error) => {
                self.tell_once("tree", &error.to_string());
                // What cannot be read is not what is not there.
                return;
            }
        };
        let known: Vec<String> = self.machine.sessions().map(str::to_owned).collect();
        let names: BTreeSet<String> = found.into_iter().chain(known).collect();
        for name in names {
            self.look(&name, now);
        }
        for (id, pid, start) in self.machine.processes() {
            if process::start_of(pid) != Some(start) {
                self.machine.died(&id);
                self.act();
            }
        }
    }

    /// Takes a session, unless another askd has it.
    fn take(&mut self, name: &str) -> bool {
        let served = format!("served {name}");
        match self.locks.take(name) {
            Ok(Taken::Before) => true,
            Ok(Taken::Now) => {
                self.told.remove(&served);
                self.tree.tidy(name);
                true
            }
            Ok(Taken::Other(who)) => {
                let who = who.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                let text = format!("{name}: another askd{who} serves it; this one does when that one ends");
                self.tell_once(&served, &text);
                false
            }
            Err(error) => {
                self.tell_once(&format!("lock {name}"), &format!("{name}: no lock for it: {error}"));
                false
            }
        }
    }

    fn look(&mut self, name: &str, now: Now) {
        let Some(target) = decode_session(name) else {
            self.tell_once(name, &format!("{name}: this is no session's name; what is in it is not read"));
            return;
        };
        if !self.only.is_empty() && !self.only.contains(name) {
            return;
        }
        let known = self.machine.sessions().any(|known| known == name);
        self.eyes.watch_session(&self.tree.root, name);
        let stems = self.machine.stems(name);
        let (seen, odd) = match self.tree.look(name, &stems, wall_ms()) {
            Ok(looked) => looked,
            Err(error) if error.is_gone() => return self.machine.not_seen(name),
            Err(error) => {
                self.machine.not_seen(name);
                self.tell_once(&format!("session {name}"), &error.to_string());
                return;
            }
        };
        self.told.remove(&format!("session {name}"));
        if !known && seen.as_ref().is_none_or(|seen| seen.requests_dir.is_none()) {
            return;
        }
        if !self.take(name) {
            self.machine.not_seen(name);
            return;
        }
        let crowded = format!("crowd {name}");
        if odd.left_out {
            let text =
                format!("{name}: more requests are there than are looked at together; the others wait");
            self.tell_once(&crowded, &text);
        } else {
            self.told.remove(&crowded);
        }
        for odd in &odd.names {
            let text =
                format!("{name}: a request has an unsafe name and is not read: {}", odd.escape_debug());
            self.tell_once(&format!("{name}/{odd}"), &text);
        }
        if let Some(seen) = &seen {
            let (left, most) = carry::room();
            self.machine.has_room_for(left, most / 4);
            for (stem, stamp) in &seen.requests {
                let id = Id { session: name.to_owned(), stem: stem.clone() };
                if self.machine.wants(&id, *stamp, now)
                    && let Some(mut found) = self.find(&id, *stamp, &target, seen.responses.contains(stem))
                {
                    found.kept_in = seen.requests_dir.filter(|_| seen.kept);
                    self.machine.found(id, found, now, wall_ms());
                }
            }
        }
        self.machine.scanned(name, seen.as_ref(), now);
        self.act();
    }

    /// Reads one request; `None`: it is gone by now. `seen`: as the look saw it, for a file that cannot be read.
    fn find(&self, id: &Id, seen: Stamp, target: &str, answered: bool) -> Option<Found> {
        let limit = self.options.limit.unwrap_or_else(|| pi_limit(&self.tree.root));
        let (stamp, request) = match self.tree.read(id) {
            Ok(Some((stamp, bytes))) => (stamp, wire::read(&bytes, &id.stem, target, limit)),
            Ok(None) => return None,
            Err(error) if error.is_gone() => return None,
            Err(error) => (seen, Err(Unreadable::File(error.to_string()))),
        };
        let wall = self.tree.time_ms().unwrap_or_else(wall_ms);
        // The younger of both: a clock that is wrong must not make a request look old.
        let written = i64::try_from(stamp.modified_ns / 1_000_000).unwrap_or(0);
        let made = request.as_ref().ok().and_then(|request| request.created_ms).unwrap_or(0).max(written);
        let age_ms = u64::try_from(wall.saturating_sub(made)).unwrap_or(0);
        let pid = request.as_ref().ok().and_then(|request| request.pid);
        let evidence = pid.map_or(Evidence::Unknown, |pid| process::evidence(pid, age_ms, &self.tree.root));
        // One that was written just now has a requester, whoever's numbers it uses.
        let fresh = age_ms < FRESH_MS && evidence == Evidence::Gone;
        let evidence = if fresh { Evidence::Unknown } else { evidence };
        let (mut response, mut outdated) = (None, false);
        if answered {
            match self.tree.read_response(id) {
                Ok(Some((written, bytes))) => {
                    outdated = written.modified_ns < stamp.modified_ns;
                    response = Some(bytes);
                }
                // It is being fetched, and its request may be the next one of its name already: the next look says.
                Ok(None) => return None,
                Err(error) if error.is_gone() => return None,
                Err(_) => response = Some(Vec::new()),
            }
        }
        let age = Duration::from_millis(age_ms);
        Some(Found { stamp, request, evidence, age, answered: response, outdated, kept_in: None })
    }

    /// Does what the machine says, and what follows from that.
    fn act(&mut self) {
        loop {
            let actions = self.machine.take();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act_on(action);
            }
        }
    }

    fn act_on(&mut self, action: Action) {
        match action {
            Action::Keep(name) => {
                let kept = self.tree.keep(&name);
                if let Err(error) = &kept {
                    self.tell_once(&format!("keep {name}"), &format!("{name}: cannot be kept: {error}"));
                } else {
                    self.told.remove(&format!("keep {name}"));
                    self.eyes.watch_session(&self.tree.root, &name);
                }
                self.machine.kept(&name, kept.ok());
            }
            Action::Raise(no, raise) => {
                if let Err(error) = self.carry(no, *raise, Task::Raise) {
                    let why = format!("no thread for it: {error}");
                    self.machine.refused(no, &why, process::now(), wall_ms());
                }
            }
            Action::Recall(no, raise, said) => {
                if self.carry(no, *raise, Task::Recall(said)).is_err() {
                    self.machine.recalled(no, false);
                }
            }
            Action::Withdraw(no, cause) => self.order(no, Order::Withdraw(cause)),
            Action::Handed(no) => self.order(no, Order::Handed),
            Action::Confirmed(no) => {
                self.order(no, Order::Confirmed);
                self.carriers.remove(&no);
            }
            Action::Over(no) => {
                self.order(no, Order::Over);
                self.carriers.remove(&no);
            }
            Action::AnsweredElsewhere(no, id) => {
                let said = self.response(&id).and_then(|bytes| wire::says(&bytes));
                self.order(no, Order::Elsewhere(said));
            }
            Action::Answer(id, bytes, beside) => {
                let now = process::now();
                match self.tree.answer(&id, &bytes, &beside) {
                    Ok(None) => self.machine.not_beside(&id, now),
                    Ok(Some(Put::Taken)) => {
                        let there = self.response(&id);
                        self.machine.placed(&id, Ok(Put::Taken), there.as_deref(), now);
                    }
                    Ok(Some(put)) => self.machine.placed(&id, Ok(put), None, now),
                    Err(error) => self.machine.placed(&id, Err(error.to_string()), None, now),
                }
            }
            Action::RemoveRequest(id) => {
                let removed = self.tree.remove(&id, REQUESTS);
                self.removed(&id, removed);
            }
            Action::RemoveResponse(id, bytes) => {
                let removed = self.tree.remove_response(&id, &bytes);
                self.removed(&id, removed);
            }
            Action::Beat(name) => {
                if let Some(id) = decode_session(&name)
                    && let Err(error) = self.tree.beat(&name, &id, wall_ms())
                {
                    self.tell_once("beat", &format!("the serving record cannot be written: {error}"));
                }
            }
            Action::Unbeat(name) => drop(self.tree.unbeat(&name)),
            Action::Leave(name) => {
                let tell = Arc::clone(&self.options.tell);
                self.tree.leave(&name, &mut |text| tell(text));
                self.locks.release(&name);
            }
            Action::Tell(text) => self.tell(&text),
        }
    }

    fn carry(&mut self, no: AskNo, raise: RaiseAsk, task: Task) -> io::Result<()> {
        self.carriers.insert(no, Carrier::start(self.around.clone(), no, raise, task)?);
        self.running.insert(no);
        Ok(())
    }

    fn order(&self, no: AskNo, order: Order) {
        if let Some(carrier) = self.carriers.get(&no) {
            carrier.order(order);
        }
    }

    /// What the response says that is in place.
    fn response(&self, id: &Id) -> Option<Vec<u8>> {
        self.tree.read_response(id).ok()?.map(|(_, bytes)| bytes)
    }

    fn removed(&mut self, id: &Id, removed: Result<(), PlaceError>) {
        if let Err(error) = removed {
            self.tell_once(&format!("remove {id}"), &format!("{id}: {error}"));
        }
    }

    fn tell(&self, text: &str) {
        (self.options.tell)(text);
    }

    fn tell_once(&mut self, what: &str, text: &str) {
        if self.told.len() < MOST_TOLD && self.told.insert(what.to_owned()) {
            self.tell(text);
        }
    }
}

/// How long children wait, as pi-permission-system's configuration of the same agent directory says.
fn pi_limit(root: &Path) -> Duration {
    let read = || {
        let agent = root.parent()?.parent()?;
        let path = agent.join("extensions/pi-permission-system/config.json");
        let bytes = std::fs::read(path).ok()?;
        let config: Value = serde_json::from_slice(&bytes).ok()?;
        config.get("forwardingTimeoutMs")?.as_u64().filter(|ms| *ms > 0).map(Duration::from_millis)
    };
    read().unwrap_or(PI_LIMIT)
}

/// Who this tree is to the daemon: the same in every run, so that no ask is raised twice and no answer is lost.
fn token(places: &Places, root: &Path) -> Result<String, StartError> {
    let dir = places.state_dir().join("spool");
    make_private_directory(places.state_dir())?;
    make_private_directory(&dir)?;
    let path = dir.join(format!("{:016x}.token", lock::fnv1a(root.as_os_str().as_encoded_bytes())));
    let place = askd_client::spool::Dir::root(&dir).map_err(io::Error::other)?;
    let place = place.ok_or(io::Error::from(io::ErrorKind::NotFound))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    for _ in 0..3 {
        if let Some((_, bytes)) = place.read(name, 256).map_err(io::Error::other)?
            && let Ok(text) = String::from_utf8(bytes)
            && text.len() == 32
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Ok(text);
        }
        let new = random_hex().map_err(|error| io::Error::other(format!("no random bits: {error}")))?;
        // Of two that start at the same time both use the one that was first.
        if place.put_new(name, new.as_bytes()).map_err(io::Error::other)? == Put::Taken {
            let readable = place.read(name, 256).is_ok_and(|read| read.is_some_and(|(_, b)| b.len() == 32));
            if !readable {
                place.replace(name, new.as_bytes()).map_err(io::Error::other)?;
            }
        }
    }
    Err(StartError::Io(io::Error::other(format!("{}: cannot be read", path.display()))))
}

fn nonblocking(pipe: &PipeReader) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
