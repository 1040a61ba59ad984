//! The requester inside the host.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use askd_client::{AskPort, PendingAsk, Unavailable, Wake, Watch};
use askd_core::command::Command;
use askd_core::{AskId, Hash256, LinkId, Refusal};
use askd_serve::clock::wall_ms;
use askd_serve::raise::Arrival;
use askd_serve::view::Shot;
use askd_serve::{ids, problem};
use askd_wire::{Ask, DecidedAsk, Decision, RaiseAsk, Raised};

use crate::desk::{Done, Message, Slot, Waiter, is_past};

/// How often in a row a journal that does not take an ask is tried again.
const MOST_REFUSALS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest single wait; a longer one is made of several.
const HOLD: Duration = Duration::from_secs(3600);

/// A requester: one identity, and its link. Dropping it detaches its open asks; they wait for their grace, and the same
/// token comes back to them.
#[derive(Debug)]
pub struct Asker {
    queue: Sender<Message>,
    token: String,
    link: LinkId,
}

fn new_link() -> LinkId {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    LinkId(NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn ended() -> Unavailable {
    Unavailable::Fault("askd in this host has ended".to_owned())
}

fn refused(refusal: &Refusal, shot: Option<&Shot>) -> Unavailable {
    Unavailable::Refused(Box::new(problem::of(refusal, shot)))
}

impl Asker {
    pub(crate) fn new(queue: Sender<Message>, token: String) -> Self {
        Self { queue, token, link: new_link() }
    }

    /// Whoever holds it owns the asks.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The ask as a future, on a link of its own; no runtime is needed.
    pub fn pending(&self, raise: RaiseAsk) -> Result<PendingAsk, Unavailable> {
        Ok(PendingAsk::start(Self::new(self.queue.clone(), self.token.clone()), raise)?)
    }

    fn hash(&self) -> Hash256 {
        Hash256::of(self.token.as_bytes())
    }

    fn run(&self, command: Command, wait: Option<Waiter>) -> Result<Done, Unavailable> {
        let (reply, done) = channel();
        let message = Message::Do { command: Box::new(command), reply: Some(reply), wait };
        self.queue.send(message).map_err(|_| ended())?;
        done.recv().map_err(|_| ended())
    }

    /// `true` in the reply: a new ask.
    fn send(&self, raise: &RaiseAsk, wait: Option<Waiter>) -> Result<Shot, Unavailable> {
        let arrival = Arrival {
            id: ids::new_ask(wall_ms()).map_err(io::Error::other)?,
            token: self.hash(),
            link: self.link,
            instance: None,
            owner: None,
            place: None,
        };
        let command = askd_serve::raise::raise(raise.clone(), arrival)
            .map_err(|why| refused(&Refusal::Malformed(why), None))?;
        let done = self.run(Command::Raise(Box::new(command)), wait)?;
        match (done.reply, done.shot) {
            (Ok(_), Some(shot)) => Ok(shot),
            (Ok(_), None) => Err(Unavailable::Fault("the ask is gone".to_owned())),
            (Err(refusal), shot) => Err(refused(&refusal, shot.as_ref())),
        }
    }

    /// The link ends, as a connection would; what comes next is a new one.
    fn hang_up(&mut self) {
        let link = std::mem::replace(&mut self.link, new_link());
        let command = Box::new(Command::LinkClosed { link });
        let _ = self.queue.send(Message::Do { command, reply: None, wait: None });
    }

    /// For the ask with this key; when there is none, there is nothing to be told.
    fn tell_key(
        &self,
        key: &str,
        command: impl FnOnce(AskId, Hash256) -> Command + Send + 'static,
    ) -> Result<(), Unavailable> {
        let (reply, done) = channel();
        let (token, key) = (self.hash(), key.to_owned());
        let command = Box::new(move |ask| command(ask, token));
        self.queue.send(Message::OfKey { token, key, command, reply }).map_err(|_| ended())?;
        done.recv().map_err(|_| ended())?.map_or(Ok(()), told)
    }

    fn tell(&self, id: &str, command: impl FnOnce(AskId, Hash256) -> Command) -> Result<(), Unavailable> {
        let id = id.parse().map_err(|_| refused(&Refusal::UnknownAsk, None))?;
        told(self.run(command(id, self.hash()), None)?)
    }
}

fn told(done: Done) -> Result<(), Unavailable> {
    done.reply.map(drop).map_err(|refusal| refused(&refusal, done.shot.as_ref()))
}

impl AskPort for Asker {
    fn raise(&mut self, raise: &RaiseAsk) -> Result<Raised, Unavailable> {
        let ask = self.send(raise, None)?.view();
        Ok(Raised { ask, token: None, released: false })
    }

    fn ask_watched(&mut self, raise: &RaiseAsk, watch: &mut dyn Watch) -> Result<Ask, Unavailable> {
        let give_up =
            raise.gives_up_secs.and_then(|secs| Instant::now().checked_add(Duration::from_secs(secs)));
        let mut refusals = 0;
        let mut pause = FIRST_PAUSE;
        let (shot, slot, mut woken) = loop {
            let (woken, wake) = io::pipe()?;
            let slot = Slot::default();
            match self.send(raise, Some(Waiter { slot: slot.clone(), wake })) {
                Ok(shot) => break (shot, slot, woken),
                // A full disk may have room again; the other refusals do not pass.
                Err(Unavailable::Refused(problem))
                    if problem.code == askd_wire::Code::NotRecorded && refusals < MOST_REFUSALS =>
                {
                    refusals += 1;
                    if watch.wait(None, Instant::now() + pause)? == Wake::Stop {
                        return Err(Unavailable::Abandoned);
                    }
                    pause *= 2;
                }
                Err(why) => return Err(why),
            }
        };
        if is_past(&shot.ask) {
            return Ok(shot.view());
        }
        loop {
            let until = Instant::now() + HOLD;
            match watch.wait(Some(woken.as_fd()), give_up.map_or(until, |at| at.min(until)))? {
                Wake::Readable => {
                    let _ = woken.read(&mut [0]);
                    return slot.take().map(|shot| shot.view()).ok_or_else(ended);
                }
                Wake::Stop => {
                    self.hang_up();
                    return Err(Unavailable::Abandoned);
                }
                Wake::TimedOut if give_up.is_some_and(|at| Instant::now() >= at) => {
                    return Err(Unavailable::GaveUp(Some(Box::new(shot.view()))));
                }
                Wake::TimedOut => {}
            }
        }
    }

    fn look(&mut self, id: &str) -> Result<Ask, Unavailable> {
        let (reply, found) = channel();
        self.queue.send(Message::Look { name: id.to_owned(), reply }).map_err(|_| ended())?;
        match found.recv().map_err(|_| ended())? {
            Ok(Some(shot)) if shot.ask.ask.requester.token == self.hash() => Ok(shot.view()),
            Ok(_) => Err(refused(&Refusal::UnknownAsk, None)),
            Err(why) => Err(refused(&Refusal::NotRecorded(why), None)),
        }
    }

    fn handed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.tell(id, |ask, token| Command::Handed { ask, token })
    }

    fn confirmed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.tell(id, |ask, token| Command::Confirmed { ask, token })
    }

    fn decided_by_hook(
        &mut self,
        raise: &RaiseAsk,
        id: Option<&str>,
        decision: Decision,
        went_on: bool,
    ) -> Result<(), Unavailable> {
        let decided = DecidedAsk { decision, by: Some("hook".to_owned()), went_on };
        let command = |ask, token| askd_serve::raise::decided(decided, ask, token);
        match id {
            Some(id) => self.tell(id, command),
            None => self.tell_key(&raise.key, command),
        }
    }

    fn withdraw_key(&mut self, key: &str, cause: &str) -> Result<(), Unavailable> {
        let Some(cause) = askd_serve::raise::withdrawal(cause) else {
            return Err(refused(&Refusal::Malformed(format!("{cause:?} is no cause of a withdrawal")), None));
        };
        self.tell_key(key, move |ask, token| Command::Withdraw { ask, token, cause })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.hang_up();
    }
}
