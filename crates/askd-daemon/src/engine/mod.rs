//! The writer thread and how the rest of the daemon talks to it.
//!
//! Read [`Engine`] (the way to the thread) and [`Desk`] (the thread's own things) first.

mod batch;
mod desk;
mod message;
mod serve;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use askd_core::command::Command;
use askd_core::{AskId, Digest, Handle, Instance, Refusal, SessionKey, Settings, SurfaceId, TokenHash};
use askd_journal::{Journal, Position};
use askd_writer::Writer;
use tokio::sync::{mpsc, oneshot, watch};

use self::desk::Desk;
use self::message::{Message, Named, stopping};
use crate::clock::Clock;
use crate::common::CommonShot;
use crate::publish::Outlet;
use crate::view::Shot;

pub(crate) use self::desk::is_over;
pub(crate) use self::message::{Counts, Done, MakeAnswer, Opened, Permissions, SessionShot, Sides, Whose};
#[cfg(test)]
pub(crate) use self::tests::raise as raise_of_test;

/// The way to the writer thread; cheap to clone. When the thread has ended, everything answers `None` or not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    queue: Sender<Message>,
    instances: watch::Receiver<Arc<BTreeSet<Instance>>>,
}

/// What the writer thread tells the rest of the daemon.
pub(crate) struct Outlets {
    pub(crate) published: Outlet,
    /// Milliseconds until the next tick is wanted; `None`: nothing is due.
    pub(crate) alarm: watch::Sender<Option<u64>>,
    /// Agent processes seen for the first time.
    pub(crate) agents: mpsc::UnboundedSender<Instance>,
}

impl Engine {
    /// Starts the writer thread on an opened journal.
    pub(crate) fn start<J: Journal + 'static>(
        writer: Writer<J>,
        clock: Clock,
        outlets: Outlets,
    ) -> std::io::Result<(Self, std::thread::JoinHandle<()>)> {
        let (queue, messages) = channel();
        let (found, instances) = watch::channel(Arc::default());
        let desk = Desk::new(writer, clock, outlets, found);
        let thread =
            std::thread::Builder::new().name("writer".to_owned()).spawn(move || desk.work(&messages))?;
        Ok((Self { queue, instances }, thread))
    }

    /// One whose thread has ended.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        Self { queue: channel().0, instances: watch::channel(Arc::default()).1 }
    }

    pub(crate) async fn run(&self, command: Command) -> Done {
        self.call(|reply| Message::Do { command, reply, over: None }).await.unwrap_or_else(stopping)
    }

    /// Runs a command about an ask. The second value resolves when that ask needs no more waiting, as by
    /// [`Engine::wait`]; at once with an error when it was over with the command.
    pub(crate) async fn run_and_wait(&self, command: Command) -> (Done, oneshot::Receiver<CommonShot>) {
        let (over, wait) = oneshot::channel();
        let done = self.call(|reply| Message::Do { command, reply, over: Some(over) }).await;
        (done.unwrap_or_else(stopping), wait)
    }

    /// Answers the asks that go by these ids or handles, in one commit. One result each, in their order; `None`: there is
    /// no such ask.
    pub(crate) async fn answers(&self, answers: Vec<(String, Box<MakeAnswer>)>) -> Vec<Option<Done>> {
        let (named, waiting): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .map(|(name, answer)| {
                let (reply, done) = oneshot::channel();
                (Named { name, answer, reply }, done)
            })
            .unzip();
        // Who is not there any more drops them, and that is what each of these hears.
        let _ = self.queue.send(Message::Answers(named));
        let mut all = Vec::with_capacity(waiting.len());
        for done in waiting {
            all.push(match done.await {
                Ok(Ok(done)) => done,
                Ok(Err(why)) => Some(Done { reply: Err(Refusal::NotRecorded(why)), shot: None }),
                Err(_) => Some(stopping()),
            });
        }
        all
    }

    /// Sends a command whose reply nobody wants.
    pub(crate) fn tell(&self, command: Command) {
        let (reply, _) = oneshot::channel();
        let _ = self.queue.send(Message::Do { command, reply, over: None });
    }

    /// Waits until the ask is settled or handed back; `None`: the daemon stops.
    pub(crate) async fn wait(&self, ask: AskId) -> Option<CommonShot> {
        self.call(|reply| Message::Wait { ask, reply }).await
    }

    /// An ask by id or handle, also one that only the journal has.
    pub(crate) async fn look(&self, name: &str) -> Result<Option<Shot>, Refusal> {
        match self.call(|reply| Message::Look { name: name.to_owned(), reply }).await {
            Some(Ok(shot)) => Ok(shot),
            Some(Err(why)) => Err(Refusal::NotRecorded(why)),
            None => Err(Refusal::NotRecorded("the daemon is stopping".to_owned())),
        }
    }

    /// What is open now, by id, and the position up to which that is known.
    pub(crate) async fn opened(&self, whose: Whose) -> Option<Opened> {
        self.call(|reply| Message::Opened { whose, reply }).await
    }

    /// Those of these asks that are open still.
    pub(crate) async fn still_open(&self, asks: Vec<AskId>) -> Option<Vec<Shot>> {
        self.call(|reply| Message::StillOpen { asks, reply }).await
    }

    pub(crate) async fn position(&self) -> Option<Position> {
        self.call(|reply| Message::Position { reply }).await
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionShot> {
        self.call(|reply| Message::Sessions { reply }).await.unwrap_or_default()
    }

    pub(crate) async fn counts(&self) -> Option<Counts> {
        self.call(|reply| Message::Counts { reply }).await
    }

    /// Agent processes that live sessions or unfinished asks belong to, as of the last reply that was given.
    pub(crate) fn instances(&self) -> Arc<BTreeSet<Instance>> {
        Arc::clone(&self.instances.borrow())
    }

    pub(crate) async fn loosenings(&self) -> BTreeSet<(String, String)> {
        self.call(|reply| Message::Loosenings { reply }).await.unwrap_or_default()
    }

    /// Processes that open asks out of forwarding directories name as theirs.
    pub(crate) async fn forwarders(&self) -> BTreeMap<Instance, Handle> {
        self.call(|reply| Message::Forwarders { reply }).await.unwrap_or_default()
    }

    /// What names this process as an agent, for people: an open ask, or else a session.
    pub(crate) async fn namer_of(&self, agent: Instance) -> Option<String> {
        self.call(|reply| Message::NamerOf { agent, reply }).await.flatten()
    }

    /// Who a session belongs to, and whose asks it has.
    pub(crate) async fn sides_of(&self, session: SessionKey) -> Sides {
        self.call(|reply| Message::SidesOf { session, reply }).await.unwrap_or_default()
    }

    /// The newest ask of a requester and key.
    pub(crate) async fn of_requester(&self, token: TokenHash, key: String) -> Option<AskId> {
        self.call(|reply| Message::OfRequester { token, key, reply }).await.flatten()
    }

    /// A raise of this requester, key and content would come back to an ask that it has.
    pub(crate) async fn comes_back(&self, token: TokenHash, key: String, digest: Digest) -> bool {
        self.call(|reply| Message::ComesBack { token, key, digest, reply }).await.unwrap_or(false)
    }

    pub(crate) async fn permissions(&self, session: Option<SessionKey>) -> Option<Permissions> {
        self.call(|reply| Message::Permissions { session, reply }).await
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        let _ = self.queue.send(Message::Settings(Box::new(settings)));
    }

    /// Removes a slice of what was closed before then; `None`: nothing more to remove, or not now.
    pub(crate) async fn prune(&self, closed_before_wall_ms: i64) -> Option<usize> {
        self.call(|reply| Message::Prune { closed_before_wall_ms, reply }).await.filter(|gone| *gone > 0)
    }

    /// Ends the writer thread. `release`: agents with a prompt of their own get their asks back.
    pub(crate) async fn leave(&self, release: bool) {
        self.call(|reply| Message::Leave { release, reply }).await;
    }

    async fn call<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(message(reply)).ok()?;
        answer.await.ok()
    }
}

/// Surfaces registered with this daemon are known by a name of its own making.
pub(crate) fn surface_id(number: u64) -> SurfaceId {
    SurfaceId(format!("s{number}"))
}
