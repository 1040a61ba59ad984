//! askd inside a host, without a daemon: core, writer and journal on one thread of the host's process. It opens no
//! socket, starts no runtime and draws nothing, and it never decides an ask by itself.
//!
//! The host raises asks with [`Asker`] and shows them with [`Surface`]; both may be on any thread. Asks, outcomes and
//! refusals are those of a daemon, so that a host can move between the two: [`askd_client::AskPort`] is both. Who must
//! not answer is the host's to know here: everything that holds a [`Surface`] is a person's side.
//!
//! Read [`Embedded`] first, and `examples/host.rs` for a whole host.

mod asker;
mod desk;
mod surface;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use askd_client::random_hex;
use askd_core::SessionKey;
use askd_core::settings::Unreachable;
use askd_journal::{JournalError, MemoryJournal, OpenOptions, SqliteJournal};
use askd_serve::clock::Clock;
use askd_serve::ids::RandomIds;
use askd_wire::Ask;
use askd_writer::Writer;

pub use askd_core::Settings;
pub use asker::Asker;
pub use surface::{Shown, Surface};

use self::desk::{Desk, Message};

/// Where asks are written down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Journal {
    /// Gone with the process.
    #[default]
    Memory,
    /// An SQLite file of this host alone, in a directory that only its user can read (mode 0700); asks that are open
    /// outlive the process.
    File(PathBuf),
}

/// Why askd cannot work in this host.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("a thread for the writer: {0}")]
    Thread(#[from] io::Error),
}

/// askd in this process; cheap to clone. It ends when the last clone, [`Asker`] and [`Surface`] are gone, or by
/// [`Embedded::close`].
#[derive(Debug, Clone)]
pub struct Embedded {
    queue: Sender<Message>,
    thread: Arc<Thread>,
}

#[derive(Debug)]
struct Thread(std::sync::Mutex<Option<JoinHandle<()>>>);

/// Settings for a host: as a daemon's defaults, but an ask for which no surface is attached is settled at once, denied
/// as `unreachable`. Nobody could attach from outside.
pub fn settings() -> Settings {
    Settings { unreachable: Unreachable::WhenNoneAttached, ..Settings::default() }
}

impl Embedded {
    /// Opens the journal and starts the writer thread. `settings`: [`settings()`] unless the host knows better.
    pub fn open(journal: &Journal, settings: Settings) -> Result<Self, OpenError> {
        let clock = Clock::new();
        let (queue, messages) = channel();
        let start = std::thread::Builder::new().name("askd".to_owned());
        let ids = Box::new(RandomIds);
        let thread = match journal {
            Journal::Memory => {
                let journal = MemoryJournal::new();
                let writer = Writer::open(journal, settings, ids, Box::new(()), clock.now())?;
                start.spawn(move || Desk::new(writer, clock).work(&messages))?
            }
            Journal::File(path) => {
                let journal = SqliteJournal::open(path, OpenOptions::default())?;
                let writer = Writer::open(journal, settings, ids, Box::new(()), clock.now())?;
                start.spawn(move || Desk::new(writer, clock).work(&messages))?
            }
        };
        Ok(Self { queue, thread: Arc::new(Thread(std::sync::Mutex::new(Some(thread)))) })
    }

    /// A requester with an identity of its own.
    pub fn asker(&self) -> Result<Asker, askd_client::Unavailable> {
        let token = random_hex().map_err(io::Error::other)?;
        Ok(self.asker_with_token(token))
    }

    /// The requester that this token was, in this process or in the one before it on the same file: it comes back to its
    /// asks by their keys. 128 bits that nobody can guess.
    pub fn asker_with_token(&self, token: String) -> Asker {
        Asker::new(self.queue.clone(), token)
    }

    /// Attaches a surface under this name; asks can be answered from then on. It gets the open asks first, then what
    /// happens to each.
    pub fn surface(&self, name: &str) -> Surface {
        Surface::attach(self.queue.clone(), name)
    }

    /// The turn of a session was cancelled, or the session ended: its open asks and those of its children are withdrawn,
    /// and allows that were not handed over yet are void.
    pub fn cancel(&self, agent: &str, session: &str, ended: bool) {
        let session = SessionKey { agent: agent.to_owned(), session: session.to_owned() };
        let (done, wait) = channel();
        if self.queue.send(Message::Cancel { session, ended, done }).is_ok() {
            let _ = wait.recv();
        }
    }

    /// The open asks, oldest first.
    pub fn open_asks(&self) -> Vec<Ask> {
        let (reply, asks) = channel();
        let _ = self.queue.send(Message::Open(reply));
        asks.recv().unwrap_or_default()
    }

    /// How many asks are in memory: open, or with something left to be told. Finished ones are in the journal alone.
    pub fn held(&self) -> usize {
        let (reply, held) = channel();
        let _ = self.queue.send(Message::Held(reply));
        held.recv().unwrap_or_default()
    }

    /// Removes finished asks that are older than this from the journal, and gives how many streams it removed. Answers to
    /// them are unknown from then on. A host that runs for long on [`Journal::Memory`] calls it now and then.
    pub fn prune(&self, older_than: Duration) -> usize {
        let (reply, gone) = channel();
        let _ = self.queue.send(Message::Prune { older_than, reply });
        gone.recv().unwrap_or_default()
    }

    /// Writes down what waits for the next commit and ends the thread. Asks that are open stay open in the journal.
    pub fn close(self) {
        let _ = self.queue.send(Message::Close);
        let thread = self.thread.0.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
