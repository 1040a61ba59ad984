//! The surface's event stream: opened, resumed after the last event, and opened again when the daemon went away.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door};
use askd_client::{Answers, CallError, Event, Events, HttpError, Unavailable};
use askd_wire::{RegisterSurface, Scope, StreamEvent, SurfaceKind};

use crate::context::Desk;
use crate::failure::Failure;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What came.
pub(super) enum News {
    Event(Box<StreamEvent>),
    /// The stream is gone; it will be opened again.
    Lost,
    /// A person stopped the daemon.
    Stopped,
    /// Nothing waits to be read.
    Nothing,
}

/// The link of one surface to whatever daemon runs.
#[derive(Debug)]
pub(super) struct Link {
    name: &'static str,
    scope: Scope,
    surface: String,
    events: Option<Events>,
    after: Option<u64>,
    pause: Duration,
    retry_at: Instant,
    /// The daemon said that it comes back: whoever restarts it starts it.
    restarting: bool,
}

impl Link {
    /// Registers over a connection to a daemon that runs and opens the stream.
    pub(super) fn open(answers: Answers, name: &'static str, scope: Scope) -> Result<Self, Failure> {
        let mut link = Self {
            name,
            scope,
            surface: String::new(),
            events: None,
            after: None,
            pause: FIRST_PAUSE,
            retry_at: Instant::now(),
            restarting: false,
        };
        link.attach(answers)?;
        Ok(link)
    }

    fn attach(&mut self, mut answers: Answers) -> Result<(), CallError> {
        let registered = answers.register(&RegisterSurface {
            name: self.name.to_owned(),
            kind: SurfaceKind::Direct,
            scope: self.scope.clone(),
            capacity: None,
        })?;
        self.events = Some(answers.events(Some(&registered.surface), self.after)?);
        self.surface = registered.surface;
        self.restarting = false;
        self.pause = FIRST_PAUSE;
        Ok(())
    }

    /// Id of the surface, for reports and answers.
    pub(super) fn surface(&self) -> &str {
        &self.surface
    }

    /// The next event, if one is there. Never waits.
    pub(super) fn next(&mut self) -> News {
        let Some(events) = &mut self.events else { return News::Nothing };
        events.set_deadline(Some(Instant::now()));
        match events.receive() {
            Ok(Some(Event { event, id })) => {
                self.after = id.or(self.after);
                match event {
                    StreamEvent::Bye { restart: true } => {
                        self.restarting = true;
                        self.lost()
                    }
                    StreamEvent::Bye { restart: false } => News::Stopped,
                    event => News::Event(Box::new(event)),
                }
            }
            Err(CallError::Http(HttpError::TimedOut)) => News::Nothing,
            Ok(None) | Err(_) => self.lost(),
        }
    }

    fn lost(&mut self) -> News {
        self.events = None;
        self.retry_at = Instant::now() + self.pause;
        News::Lost
    }

    /// When to try again; none while the stream is open.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.events.is_none().then_some(self.retry_at)
    }

    /// What to poll.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(Events::as_fd)
    }

    /// Tries once more. `Ok(true)`: the stream is open. An error is final.
    pub(super) fn retry(&mut self, desk: &Desk) -> Result<bool, Failure> {
        // A daemon that is being restarted is started by whoever does that; one that died is started here.
        let found = if self.restarting && self.pause < LONGEST_PAUSE {
            daemon::connect_answer(&desk.places)
        } else {
            desk.start(Door::Answer)
        };
        let answers = match found {
            Ok(connection) => Answers::over(connection),
            Err(error @ (Unavailable::Stopped | Unavailable::Unsafe(_) | Unavailable::Skew(_))) => {
                return Err(error.into());
            }
            Err(_) => return Ok(self.later()),
        };
        match self.attach(answers) {
            Ok(()) => Ok(true),
            Err(error @ CallError::Skew(_)) => Err(error.into()),
            Err(_) => Ok(self.later()),
        }
    }

    fn later(&mut self) -> bool {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.retry_at = Instant::now() + self.pause;
        false
    }
}
