//! One thread for all requests of a tree that have their answer: what became of each is told to the daemon, and those
//! that an earlier run answered are known again. However many there are, they take one connection, one after another.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use askd_client::Unavailable;
use askd_wire::{Ask, AskState, Code, Delivery, RaiseAsk, Verdict};

use super::carry::{Around, LONGEST_PAUSE, News, PATIENCE, PAUSE, TELL, answered_there};
use super::machine::AskNo;
use super::wire::AGAIN;

/// What is to be told, or found out.
#[derive(Debug)]
pub(super) enum Job {
    /// The daemon's id of an ask that has its outcome.
    Known(AskNo, String),
    /// Its response was there before this run, and says this. Which ask it answers is found out; nothing is asked by it.
    Recall(AskNo, Box<RaiseAsk>, Option<bool>),
    Handed(AskNo),
    Confirmed(AskNo),
    /// Nothing more comes for it.
    Over(AskNo),
}

/// The other end of the thread. What was given before this is dropped is still told, if it is so at the first attempt.
#[derive(Debug)]
pub(super) struct Clerk(Sender<Job>);

impl Clerk {
    pub(super) fn start(around: Around) -> io::Result<Self> {
        let (jobs, received) = channel();
        let work = move || {
            let news = around.clone();
            Work { around, received, jobs: VecDeque::new(), ids: BTreeMap::new(), is_over: false }.run();
            news.tell(News::Silent);
        };
        std::thread::Builder::new().name("spool-told".to_owned()).stack_size(256 * 1024).spawn(work)?;
        Ok(Self(jobs))
    }

    pub(super) fn give(&self, job: Job) {
        // The thread ends only after this.
        let _ = self.0.send(job);
    }
}

struct Work {
    around: Around,
    received: Receiver<Job>,
    /// With the time from which on one counts as told in vain.
    jobs: VecDeque<(Job, Instant)>,
    /// Of those of which something may come.
    ids: BTreeMap<AskNo, String>,
    is_over: bool,
}

impl Work {
    fn run(mut self) {
        let mut pause = PAUSE;
        loop {
            self.receive(Duration::ZERO);
            let Some((job, until)) = self.jobs.pop_front() else {
                if self.is_over {
                    return;
                }
                match self.received.recv() {
                    Ok(job) => self.push(job),
                    Err(_) => self.is_over = true,
                }
                continue;
            };
            match self.attempt(&job) {
                Err(Unavailable::Refused(problem)) if problem.code != Code::NotRecorded => self.refused(&job),
                // An answer that lies in place is known again whenever the daemon is back.
                Err(_) if matches!(job, Job::Recall(..)) || Instant::now() < until => {
                    if self.is_over {
                        continue;
                    }
                    self.jobs.push_front((job, until));
                    self.receive(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                _ => pause = PAUSE,
            }
        }
    }

    fn push(&mut self, job: Job) {
        self.jobs.push_back((job, Instant::now() + TELL));
    }

    /// Takes what is given for this long.
    fn receive(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.is_over {
            match self.received.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(job) => self.push(job),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => self.is_over = true,
            }
        }
    }

    fn attempt(&mut self, job: &Job) -> Result<(), Unavailable> {
        match job {
            Job::Known(no, id) => drop(self.ids.insert(*no, id.clone())),
            Job::Recall(no, raise, said) => self.recall(*no, raise, *said)?,
            Job::Handed(no) => self.step(*no, "handed")?,
            Job::Confirmed(no) => {
                self.step(*no, "confirmed")?;
                self.ids.remove(no);
            }
            Job::Over(no) => drop(self.ids.remove(no)),
        }
        Ok(())
    }

    /// The daemon will not hear of it.
    fn refused(&mut self, job: &Job) {
        match job {
            Job::Recall(no, ..) => self.around.tell(News::Recalled(*no, false)),
            Job::Confirmed(no) => drop(self.ids.remove(no)),
            _ => {}
        }
    }

    fn step(&self, no: AskNo, what: &str) -> Result<(), Unavailable> {
        match self.ids.get(&no) {
            Some(id) => self.around.asker()?.tell(id, what, None, PATIENCE),
            None => Ok(()),
        }
    }

    fn recall(&mut self, no: AskNo, raise: &RaiseAsk, said: Option<bool>) -> Result<(), Unavailable> {
        let mut asker = self.around.asker()?;
        let mut key = raise.key.clone();
        let mut known = asker.recall(&key)?;
        while known.as_ref().is_some_and(|ask| ask.delivery == Delivery::Confirmed) {
            key.push(AGAIN);
            match asker.recall(&key)? {
                Some(later) => known = Some(later),
                None => break,
            }
        }
        let is_ours = known.as_ref().is_some_and(|ask| is_answered(ask, said));
        if let Some(ask) = known.filter(|ask| is_ours || ask.state == AskState::Open) {
            if is_ours {
                // It lies in place: nothing else says so when the run before ended in between.
                match asker.tell(&ask.id, "handed", None, PATIENCE) {
                    Err(Unavailable::Refused(problem)) if problem.code != Code::NotRecorded => {}
                    done => done?,
                }
                self.ids.insert(no, ask.id);
            } else {
                // Somebody else answered while nobody of us was there.
                if let Some(allowed) = said {
                    answered_there(&self.around, raise, allowed)?;
                }
                // One that it could not be told of by its call is open still, and nobody waits for it.
                match asker.withdraw(&ask.id, "cancelled") {
                    Err(Unavailable::Refused(problem)) if problem.code != Code::NotRecorded => {}
                    done => done?,
                }
            }
        }
        self.around.tell(News::Recalled(no, is_ours));
        Ok(())
    }
}

/// The ask has the outcome that the response says, and it can be what was put in place.
fn is_answered(ask: &Ask, said: Option<bool>) -> bool {
    let says = match ask.outcome.as_ref().map(|outcome| outcome.verdict) {
        Some(Verdict::Allow) => true,
        Some(Verdict::Deny) => false,
        Some(Verdict::None) | None => return false,
    };
    let given = matches!(
        ask.delivery,
        Delivery::Pending | Delivery::Handed | Delivery::Confirmed | Delivery::Expired
    );
    given && said == Some(says)
}
