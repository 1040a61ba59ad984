//! The loop of one tree.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use askd_wire::Verdict;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::look::Odds;
use super::token::token;
use super::{Options, Shared, StartError, former, names_of};
use crate::spool::carry::{Around, Carrier, News};
use crate::spool::clerk::{Clerk, Job};
use crate::spool::eyes::Eyes;
use crate::spool::lock::{self, Locks};
use crate::spool::machine::{AskNo, Machine, Now};
use crate::spool::process;
use crate::spool::root::Way;
use crate::spool::tree::Tree;

/// The look that misses nothing; also the beat of the serving records.
const LOOK: Duration = Duration::from_secs(1);
/// What is still to be told to the daemon when the tree is not served any more.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long answers in a tree that its path does not lead to any more may wait to be fetched.
const FETCH: Duration = Duration::from_secs(30);
/// What is told once and is still so; more says nothing new.
const MOST_TOLD: usize = 10_000;

pub(super) struct Worker {
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    /// The path of the tree leads elsewhere: what is open is served to its end, or until this is set.
    pub(super) is_former: Option<Arc<AtomicBool>>,
    /// Empty: every session.
    pub(super) only: BTreeSet<String>,
    pub(super) tree: Tree,
    pub(super) eyes: Eyes,
    pub(super) locks: Locks,
    pub(super) around: Around,
    /// The path that its token is for.
    token_of: PathBuf,
    pub(super) machine: Machine,
    pub(super) carriers: BTreeMap<AskNo, Carrier>,
    /// Those whose threads have not ended.
    pub(super) running: BTreeSet<AskNo>,
    /// Until the tree is not served any more.
    pub(super) clerk: Option<Clerk>,
    news: Receiver<News>,
    wake: PipeReader,
    /// What was told already and is still so.
    pub(super) told: BTreeSet<String>,
    pub(super) odds: Odds,
    /// The time of the tree's file system, once it is known in this round.
    pub(super) tree_time: Option<Option<i64>>,
    daemon_lost: bool,
    /// Since when everything in a former tree has its answer.
    all_answered: Option<Now>,
}

impl Worker {
    pub(super) fn new(options: Options, shared: Arc<Shared>) -> Result<Self, StartError> {
        let only = names_of(&options.sessions)?;
        let tree = Tree::new(&options.dir);
        let locks_dir = options.locks.clone().unwrap_or_else(lock::default_dir);
        let locks = Locks::open(&locks_dir).map_err(StartError::Locks)?;
        let token = token(&options.places, &tree.root.path)?;
        let (wake, waker) = io::pipe()?;
        nonblocking(&wake)?;
        let waker = Arc::new(waker);
        shared.add(&waker);
        let (news, received) = channel();
        let (places, exe) = (options.places.clone(), options.exe.clone());
        let around = Around { places, exe, token, news, waker };
        Ok(Self {
            eyes: Eyes::open(options.hints),
            token_of: tree.root.path.clone(),
            clerk: Some(Clerk::start(around.clone())?),
            options,
            shared,
            is_former: None,
            only,
            tree,
            locks,
            around,
            machine: Machine::new(),
            carriers: BTreeMap::new(),
            running: BTreeSet::new(),
            news: received,
            wake,
            told: BTreeSet::new(),
            odds: Odds::default(),
            tree_time: None,
            daemon_lost: false,
            all_answered: None,
        })
    }

    pub(super) fn run(mut self) {
        if self.is_former.is_some() {
            self.machine.close();
            self.act();
        } else if !self.only.is_empty()
            && let Err(error) = self.tree.root.make()
        {
            self.tell_once("tree", &error.to_string());
        }
        let mut next = process::now();
        while !self.is_over(process::now()) {
            self.hear();
            let now = process::now();
            self.tree_time = None;
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

    fn is_over(&mut self, now: Now) -> bool {
        if self.shared.stop.load(Ordering::SeqCst) {
            return true;
        }
        let Some(stop) = &self.is_former else { return false };
        if stop.load(Ordering::SeqCst) {
            return true;
        }
        if self.tree.root.was_removed() {
            // Nobody can come back to what was in it.
            self.machine.withdraw_all(now);
            self.act();
            return true;
        }
        if self.machine.has_open() {
            self.all_answered = None;
            return false;
        }
        let since = *self.all_answered.get_or_insert(now);
        self.machine.is_idle() || now.saturating_sub(since) >= FETCH
    }

    /// The asks' threads end; what they were told to tell last is told, if it is in time.
    fn let_go(&mut self) {
        self.carriers.clear();
        drop(self.clerk.take());
        let (until, mut is_silent) = (process::now() + LAST_WORDS, false);
        while !self.running.is_empty() || !is_silent {
            match self.news.recv_timeout(until.saturating_sub(process::now())) {
                Ok(News::Ended(no)) => drop(self.running.remove(&no)),
                Ok(News::Silent) => is_silent = true,
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
                News::Outcome(no, outcome, id) => {
                    if let Some(id) = id.filter(|_| outcome.verdict != Verdict::None) {
                        self.give(Job::Known(no, id));
                    }
                    self.machine.outcome(no, &outcome, now, wall);
                }
                News::Recalled(no, is_ours) => self.machine.recalled(no, is_ours),
                News::Refused(no, why) => self.machine.refused(no, &why, now, wall),
                News::Ended(no) => {
                    self.carriers.remove(&no);
                    self.running.remove(&no);
                }
                News::Silent => {}
            }
            self.act();
        }
    }

    /// Which directory the root is now: another way may lead to it, or it may be another one. False: it cannot be used.
    pub(super) fn settle_root(&mut self) -> bool {
        let serves = self.machine.sessions().next().is_some();
        self.tree.root.serves(serves);
        let way = match self.tree.root.resolve() {
            Ok(way) => way,
            Err(error) => {
                self.tell_once("tree", &error.to_string());
                return false;
            }
        };
        match way {
            Way::Nowhere => {}
            Way::There(root) => {
                if self.locks.tree() != Some(root) {
                    former::end(&self.shared, root);
                }
                self.locks.of(root);
            }
            Way::Elsewhere(root) => {
                if let Err(error) = self.part(root) {
                    let why = format!("another directory is there now, and cannot be served: {error}");
                    self.tell_once("another", &why);
                    return false;
                }
            }
        }
        // Asks that are open are known by the token that they were raised with.
        if self.tree.root.path != self.token_of && self.running.is_empty() {
            match token(&self.options.places, &self.tree.root.path) {
                Ok(token) => {
                    self.around.token = token;
                    self.token_of.clone_from(&self.tree.root.path);
                }
                Err(error) => self.tell_once("token", &error.to_string()),
            }
        }
        true
    }

    /// The path leads to another directory: what is open in the one before is served there to its end, and this begins
    /// anew.
    fn part(&mut self, root: Option<(u64, u64)>) -> Result<(), StartError> {
        let mut new = Self::new(self.options.clone(), Arc::clone(&self.shared))?;
        if let Some(root) = root {
            if new.tree.root.resolve().map_err(io::Error::from)? != Way::There(root) {
                // It changes at this very moment; the next look says what it is.
                return Err(StartError::Io(io::Error::from(io::ErrorKind::ResourceBusy)));
            }
            former::end(&self.shared, root);
            new.locks.of(root);
        }
        let mut before = std::mem::replace(self, new);
        let open = before.machine.has_open();
        let of = before.locks.tree();
        before.tree.root.hold();
        former::serve_to_its_end(before, of)?;
        let rest = if open { "; what is open in the one before is served there to its end" } else { "" };
        let how = if root.is_some() { "and is served" } else { "which cannot be used" };
        self.tell(&format!("another directory is at this path now, {how}{rest}"));
        Ok(())
    }

    /// Has something told to the daemon, or found out there.
    pub(super) fn give(&self, job: Job) {
        if let Some(clerk) = &self.clerk {
            clerk.give(job);
        }
    }

    pub(super) fn tell(&self, text: &str) {
        (self.options.tell)(text);
    }

    pub(super) fn tell_once(&mut self, what: &str, text: &str) {
        if self.told.len() < MOST_TOLD && self.told.insert(what.to_owned()) {
            self.tell(text);
        }
    }
}

fn nonblocking(pipe: &PipeReader) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

pub(super) fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
