//! One thread for each tree: looks, does what the machine says, and sleeps until something happens or a second is over.
//! [`worker`] is its loop, [`look`] what it sees, [`act`] what it does; [`former`] are trees whose path leads elsewhere
//! by now, each served to the end of what is open in it.

mod act;
mod former;
mod look;
mod token;
mod worker;

use std::collections::BTreeSet;
use std::io::{self, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use askd_client::spool::{PlaceError, encode_session};
use askd_client::{Places, UnsafePlace};

use super::tree::Tree;
use former::Former;
use worker::Worker;

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
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(options: Options) -> Result<Self, StartError> {
        let shared = Arc::<Shared>::default();
        let worker = Worker::new(options, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("spool".to_owned()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes the records and sentinels away and ends. Asks that are open stay open for whoever serves next.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Only that thread begins others.
        self.shared.former.end_all();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the threads of one server have in common.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Those that are to be woken when it stops.
    wakers: Mutex<Vec<Weak<PipeWriter>>>,
    former: Former,
}

impl Shared {
    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        for waker in locked(&self.wakers).iter().filter_map(Weak::upgrade) {
            let _ = (&*waker).write(&[1]);
        }
    }

    fn add(&self, waker: &Arc<PipeWriter>) {
        let mut wakers = locked(&self.wakers);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The directories of these sessions.
fn names_of(sessions: &[String]) -> Result<BTreeSet<String>, StartError> {
    let name = |id: &String| encode_session(id.trim()).ok_or_else(|| StartError::Session(id.clone()));
    sessions.iter().map(name).collect()
}
