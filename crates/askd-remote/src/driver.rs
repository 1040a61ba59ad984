//! The loop around one surface: attaches it to the daemon, tells it what happens, and does what it wishes.
//!
//! It uses the daemon as every other program does, over the people's socket, also when it lives in the daemon's process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use askd_client::{Answers, CallError, Events, Places, daemon};
use askd_wire::{
    Ask, AskState, Code, PermissionsCommand, PermissionsText, Problem, RegisterSurface, Scope, StreamEvent,
    SurfaceKind, SurfaceReport,
};
use rustix::net::Shutdown;
use serde_json::Value;

use crate::surface::{Back, Hands, Now, Out, Reply, Step, Surface, Ticket, Told, Wish};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the loop waits for.
#[derive(Debug)]
pub(crate) enum Message<H> {
    Heard(H),
    /// With the number of the stream that it came by.
    Event(u64, Box<StreamEvent>),
    Lost(u64, String),
    Stop,
}

/// A surface that runs. Dropping it leaves it running; [`Running::stop`] ends it.
#[derive(Debug)]
pub struct Running<H> {
    queue: Sender<Message<H>>,
    thread: JoinHandle<()>,
}

impl<H> Running<H> {
    /// Ends it, and returns when it has ended.
    pub fn stop(self) {
        let _ = self.queue.send(Message::Stop);
        let _ = self.thread.join();
    }
}

/// Runs a surface on a thread of its own.
pub fn run<S: Surface>(
    places: Places,
    surface: S,
    hands: impl Hands<S>,
) -> std::io::Result<Running<S::Heard>> {
    let (queue, messages) = channel();
    let back = Back(queue.clone());
    let name = surface.about().name.to_lowercase();
    let driver = Driver {
        places,
        name: surface.about().name,
        surface,
        hands,
        back,
        began: Instant::now(),
        messages,
        stream: 0,
        attached: None,
    };
    let thread = thread::Builder::new().name(name).spawn(move || driver.work())?;
    Ok(Running { queue, thread })
}

struct Driver<S: Surface, H> {
    places: Places,
    name: &'static str,
    surface: S,
    hands: H,
    back: Back<S::Heard>,
    began: Instant,
    messages: Receiver<Message<S::Heard>>,
    /// Number of the stream that is read.
    stream: u64,
    attached: Option<Attached>,
}

struct Attached {
    answers: Answers,
    /// Absent for an onlooker.
    surface: Option<String>,
    kept: Option<Value>,
    /// To end the stream's thread.
    line: Option<OwnedFd>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            let _ = rustix::net::shutdown(line, Shutdown::Both);
        }
    }
}

impl<S: Surface, H: Hands<S>> Driver<S, H> {
    fn work(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut retry_at = Some(self.began);
        loop {
            if self.attached.is_none() && retry_at.is_some_and(|at| at <= Instant::now()) {
                match self.attach() {
                    Ok(attached) => {
                        self.attached = Some(attached);
                        (pause, retry_at) = (FIRST_PAUSE, None);
                    }
                    Err(why) => {
                        tracing::debug!("{}: {why}", self.name);
                        retry_at = Some(Instant::now() + pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
            let due = self.surface.due().map(|ms| self.began + Duration::from_millis(ms));
            let message = match due.into_iter().chain(retry_at).min() {
                Some(at) => match self.messages.recv_timeout(at.saturating_duration_since(Instant::now())) {
                    Ok(message) => Some(message),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match self.messages.recv() {
                    Ok(message) => Some(message),
                    Err(_) => return,
                },
            };
            match message {
                Some(Message::Stop) => return,
                Some(Message::Heard(heard)) => self.step(|surface, now, out| surface.heard(heard, now, out)),
                Some(Message::Event(stream, event)) if stream == self.stream => self.event(*event),
                Some(Message::Lost(stream, why)) if stream == self.stream => {
                    tracing::debug!("{}: {why}", self.name);
                    self.lose();
                }
                Some(Message::Event(..) | Message::Lost(..)) | None => {}
            }
            let now = self.now();
            if self.surface.due().is_some_and(|at| at <= now.ms) {
                self.step(|surface, now, out| surface.tick(now, out));
            }
            if self.attached.is_none() && retry_at.is_none() {
                retry_at = Some(Instant::now() + pause);
            }
        }
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn attach(&mut self) -> Result<Attached, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let about = self.surface.about();
        let mut answers = Answers::connect(&self.places).map_err(|e| told(&e))?;
        let registered = match about.onlooker {
            true => None,
            false => {
                let surface = RegisterSurface {
                    name: about.name.to_owned(),
                    kind: SurfaceKind::Remote,
                    scope: Scope::All,
                    capacity: about.capacity,
                };
                Some(answers.register(&surface).map_err(|e| told(&e))?)
            }
        };
        let second = Answers::over(daemon::connect_answer(&self.places).map_err(|e| told(&e))?);
        let events = match &registered {
            Some(registered) => second.events(Some(&registered.surface), None),
            None => second.events_masked(),
        };
        let events = events.map_err(|e| told(&e))?;
        let line = events.as_fd().try_clone_to_owned().ok();
        self.stream += 1;
        let (stream, queue) = (self.stream, self.back.0.clone());
        let reader = thread::Builder::new().name("events".to_owned());
        reader.spawn(move || read(events, stream, &queue)).map_err(|e| told(&e))?;
        let (surface, kept) = registered.map(|r| (Some(r.surface), r.state)).unwrap_or_default();
        Ok(Attached { answers, surface, kept, line })
    }

    fn lose(&mut self) {
        self.attached = None;
        self.stream += 1;
    }

    fn event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Snapshot { asks, .. } => {
                let kept = self.attached.as_mut().and_then(|attached| attached.kept.clone());
                self.step(|surface, now, out| surface.begin(kept, asks, now, out));
            }
            StreamEvent::Ask { what, ask, .. } => self.step(|surface, now, out| match what.as_str() {
                "asked" if ask.state == AskState::Open => surface.show(*ask, now, out),
                what => surface.update(*ask, what, now, out),
            }),
            StreamEvent::Notice { text } => {
                self.step(|surface, now, out| surface.told(Told::Notice(text), now, out));
            }
            StreamEvent::Woke => self.step(|surface, now, out| surface.told(Told::Woke, now, out)),
            StreamEvent::Bye { .. } => self.lose(),
            // A snapshot follows.
            StreamEvent::Gap { .. } | StreamEvent::Waiting { .. } => {}
        }
    }

    /// Lets the surface take one thing, and does what it wants, and what it wants then.
    fn step(&mut self, take: impl FnOnce(&mut S, Now, &mut Out<S::Deed>)) {
        let mut out = Out::default();
        let now = self.now();
        take(&mut self.surface, now, &mut out);
        let mut steps = std::collections::VecDeque::from(out.steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Deed(deed) => self.hands.act(deed, &self.back),
                Step::Wish(wish) => {
                    if let Some(reply) = self.grant(wish) {
                        let mut out = Out::default();
                        let now = self.now();
                        self.surface.replied(reply, now, &mut out);
                        // What follows from a reply comes before what was wished for later.
                        for step in out.steps.into_iter().rev() {
                            steps.push_front(step);
                        }
                    }
                }
            }
        }
    }

    fn grant(&mut self, wish: Wish) -> Option<Reply> {
        match wish {
            Wish::Shown { ask } => self.report(&SurfaceReport::Shown { ask }),
            Wish::Failed { ask, reason } => {
                let reason = askd_text::cut(&reason, 300);
                self.report(&SurfaceReport::Failed { ask, reason })
            }
            Wish::Polled => self.report(&SurfaceReport::Polled),
            Wish::Trouble(text) => {
                if let Some(text) = &text {
                    tracing::warn!("{}: {}", self.name, askd_text::safe(text).text);
                }
                self.report(&SurfaceReport::Trouble { text })
            }
            Wish::Log(text) => {
                tracing::info!("{}: {}", self.name, askd_text::safe(&text).text);
                return None;
            }
            Wish::Keep { state } => {
                let done = self.with(|answers, surface| {
                    let surface = surface.unwrap_or_default();
                    answers.report(surface, &SurfaceReport::Keep { state: state.clone() })
                });
                return Some(Reply::Kept { done: done.is_some_and(|done| done.is_ok()) });
            }
            Wish::Answer { ticket, ask, mut answer, by } => {
                let given = self.with(|answers, surface| {
                    answer.surface = surface.map(str::to_owned);
                    match &by {
                        Some(by) => answers.answer_by(&ask, &answer, by),
                        None => answers.answer(&ask, &answer),
                    }
                });
                return Some(match given {
                    Some(Ok(ask)) => Reply::Answered { ticket, result: Ok(Box::new(ask)) },
                    Some(Err(problem)) => Reply::Answered { ticket, result: Err(problem) },
                    None => Reply::Lost { ticket },
                });
            }
            Wish::Look { ticket, ask } => {
                let found = self.with(|answers, surface| answers.show_on(&ask, surface.unwrap_or_default()));
                return Some(looked(ticket, found));
            }
            Wish::List { ticket } => {
                let found = self.with(|answers, surface| answers.list_on(surface.unwrap_or_default()));
                return Some(listed(ticket, found));
            }
            Wish::Command { ticket, text } => {
                let said = self.with(|answers, surface| {
                    let surface = surface.map(str::to_owned);
                    let body = PermissionsCommand { text: text.clone(), session: None, surface };
                    answers.post::<PermissionsText>("/v1/permissions/command", &body)
                });
                return Some(match said {
                    Some(Ok(said)) => Reply::Text { ticket, text: Ok(said.text) },
                    Some(Err(problem)) => {
                        Reply::Text { ticket, text: Err(problem.detail.unwrap_or(problem.title)) }
                    }
                    None => Reply::Lost { ticket },
                });
            }
        }
        None
    }

    /// A refusal means that it is not so any more; what is told next says how it is.
    fn report(&mut self, report: &SurfaceReport) {
        let _ = self.with(|answers, surface| match surface {
            Some(surface) => answers.report(surface, report),
            None => Ok(()),
        });
    }

    /// `None`: the daemon cannot be asked now. A connection that broke in between is made once again.
    fn with<T>(
        &mut self,
        mut ask: impl FnMut(&mut Answers, Option<&str>) -> Result<T, CallError>,
    ) -> Option<Result<T, Box<Problem>>> {
        for _ in 0..2 {
            let attached = self.attached.as_mut()?;
            match ask(&mut attached.answers, attached.surface.as_deref()) {
                Ok(done) => return Some(Ok(done)),
                Err(CallError::Refused(problem)) => return Some(Err(problem)),
                Err(error) => {
                    tracing::debug!("{}: {error}", self.name);
                    match Answers::connect(&self.places) {
                        Ok(answers) => attached.answers = answers,
                        Err(_) => break,
                    }
                }
            }
        }
        self.lose();
        None
    }
}

/// What the daemon said; `None`: it was not to be asked.
type Said<T> = Option<Result<T, Box<Problem>>>;

/// Only "there is no such ask" means that there is none.
fn looked(ticket: Ticket, found: Said<Ask>) -> Reply {
    match found {
        Some(Ok(ask)) => Reply::Looked { ticket, ask: Some(Box::new(ask)) },
        Some(Err(problem)) if problem.code == Code::UnknownAsk => Reply::Looked { ticket, ask: None },
        Some(Err(problem)) => Reply::Failed { ticket, why: why(*problem) },
        None => Reply::Lost { ticket },
    }
}

/// A refusal is not an empty list.
fn listed(ticket: Ticket, found: Said<Vec<Ask>>) -> Reply {
    match found {
        Some(Ok(asks)) => Reply::Listed { ticket, asks },
        Some(Err(problem)) => Reply::Failed { ticket, why: why(*problem) },
        None => Reply::Lost { ticket },
    }
}

/// For people.
fn why(problem: Problem) -> String {
    problem.detail.unwrap_or(problem.title)
}

fn read<H>(mut events: Events, stream: u64, queue: &Sender<Message<H>>) {
    let why = loop {
        match events.receive() {
            Ok(Some(event)) => {
                if queue.send(Message::Event(stream, Box::new(event.event))).is_err() {
                    return;
                }
            }
            Ok(None) => break "the event stream ended".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let _ = queue.send(Message::Lost(stream, why));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(code: Code) -> Said<T> {
        let problem = Problem {
            kind: String::new(),
            title: "no".to_owned(),
            status: 503,
            detail: Some("the daemon is stopping".to_owned()),
            code,
            recorded: None,
            ask: None,
        };
        Some(Err(Box::new(problem)))
    }

    #[test]
    fn a_refusal_is_neither_an_empty_list_nor_an_unknown_ask() {
        assert!(matches!(listed(1, Some(Ok(Vec::new()))), Reply::Listed { ticket: 1, .. }));
        let said = listed(2, refused(Code::NotRecorded));
        assert!(matches!(said, Reply::Failed { ticket: 2, why } if why == "the daemon is stopping"));
        assert!(matches!(listed(3, None), Reply::Lost { ticket: 3 }));
        assert!(matches!(looked(4, refused(Code::UnknownAsk)), Reply::Looked { ticket: 4, ask: None }));
        assert!(matches!(looked(5, refused(Code::NotRecorded)), Reply::Failed { ticket: 5, .. }));
        assert!(matches!(looked(6, None), Reply::Lost { ticket: 6 }));
    }
}
