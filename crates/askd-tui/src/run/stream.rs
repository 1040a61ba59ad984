//! The event stream: opened, resumed after the last event, and opened again when the daemon went away.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door, START_PATIENCE};
use askd_client::{Answers, CallError, Connection, Events, HttpError, Places, Unavailable};
use askd_wire::{Ask, Health, RegisterSurface, Scope, StreamEvent, SurfaceKind};

use super::inbox::{News, Sender};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A daemon replies within milliseconds, or after one slow commit; one that says nothing for longer hangs or is stopped.
const SILENCE: Duration = Duration::from_secs(3);

/// How the surface registers, and which daemon it is for.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) places: Places,
    /// What starts a daemon when none runs; none: only one that runs is used.
    pub(super) exe: Option<PathBuf>,
    pub(super) name: String,
    /// `(agent, root session)`: only its asks.
    pub(super) only: Option<(String, String)>,
}

/// What ends the surface.
pub(super) enum Ended {
    /// A person stopped the daemon.
    Stopped,
    /// It cannot be reached, and trying again would not help.
    For(Unavailable),
    /// Nobody listens any more.
    Unheard,
}

/// Whether nothing at all comes from the daemon; everything else that may be wrong shows with the next call.
fn is_silent(connection: &mut Connection) -> bool {
    connection.set_timeout(SILENCE);
    let told = connection.call::<Health>("GET", "/healthz", None::<&()>);
    matches!(told, Err(CallError::Http(HttpError::TimedOut)))
}

impl Plan {
    /// The daemon, started when none runs: a person does this, so a stop by a person ends here.
    pub(super) fn open(&self) -> Result<Connection, Unavailable> {
        match daemon::connect_answer(&self.places) {
            Err(Unavailable::NotRunning(_)) if self.exe.is_some() => {
                let stopped = self.places.stopped_file();
                daemon::forget_stop(&self.places)
                    .map_err(|error| Unavailable::CannotStart(format!("{}: {error}", stopped.display())))?;
                self.connect(true)
            }
            found => found,
        }
    }

    fn connect(&self, start: bool) -> Result<Connection, Unavailable> {
        let exe = self.exe.as_deref().filter(|_| start);
        daemon::connect_or_start(&self.places, Door::Answer, exe, Instant::now() + START_PATIENCE)
    }

    /// Registers and opens the stream after the last event that was seen.
    fn attach(&self, mut answers: Answers, after: Option<u64>) -> Result<(String, Events), CallError> {
        let scope = match &self.only {
            None => Scope::All,
            Some((agent, root)) => Scope::Roots(vec![format!("{agent}/{root}")]),
        };
        let surface = answers
            .register(&RegisterSurface {
                name: self.name.clone(),
                kind: SurfaceKind::Direct,
                scope,
                capacity: None,
            })?
            .surface;
        let events = answers.events(Some(&surface), after)?;
        Ok((surface, events))
    }

    /// Tells everything that the stream brings, until that ends for good.
    pub(super) fn follow(&self, first: Connection, news: &Sender) -> Ended {
        let mut found = Ok(first);
        let mut after = None;
        let mut pause = FIRST_PAUSE;
        // The daemon said that it comes back: whoever restarts it starts it.
        let mut restarting = false;
        loop {
            let attached = found.and_then(|mut connection| {
                if is_silent(&mut connection) {
                    let why = "the daemon says nothing, trying again (askd doctor)".to_owned();
                    // Whoever does not listen any more is noticed by the next word.
                    let _ = news.send(News::Down(why));
                    return Err(Unavailable::Released);
                }
                self.attach(Answers::over(connection), after).map_err(Unavailable::from)
            });
            match attached {
                Ok((surface, events)) => {
                    pause = FIRST_PAUSE;
                    if news.send(News::Up { surface }).is_err() {
                        return Ended::Unheard;
                    }
                    match self.listen(events, &mut after, news) {
                        Ok(restart) => restarting = restart,
                        Err(ended) => return ended,
                    }
                }
                Err(error @ (Unavailable::Stopped | Unavailable::Unsafe(_) | Unavailable::Skew(_))) => {
                    return Ended::For(error);
                }
                Err(Unavailable::NotRunning(_)) if self.places.stopped_file().exists() => {
                    return Ended::Stopped;
                }
                Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
            std::thread::sleep(pause);
            found = self.connect(!restarting || pause >= LONGEST_PAUSE);
        }
    }

    /// Until the stream breaks; whether the daemon said that it comes back.
    fn listen(&self, mut events: Events, after: &mut Option<u64>, news: &Sender) -> Result<bool, Ended> {
        let why = loop {
            let event = match events.receive() {
                Ok(Some(event)) => event.event,
                Ok(None) => break "the daemon went away, trying again".to_owned(),
                Err(error) => break format!("{error}, trying again"),
            };
            *after = events.position().or(*after);
            match event {
                StreamEvent::Bye { restart: false } => return Err(Ended::Stopped),
                StreamEvent::Bye { restart: true } => {
                    news.send(News::Down("the daemon restarts".to_owned())).map_err(|_| Ended::Unheard)?;
                    return Ok(true);
                }
                event => {
                    if let Some(event) = self.mine(event) {
                        news.send(News::Event(Box::new(event))).map_err(|_| Ended::Unheard)?;
                    }
                }
            }
        };
        news.send(News::Down(why)).map_err(|_| Ended::Unheard)?;
        Ok(false)
    }

    fn is_mine(&self, ask: &Ask) -> bool {
        self.only
            .as_ref()
            .is_none_or(|(agent, root)| ask.lineage.agent == *agent && ask.lineage.root == *root)
    }

    fn mine(&self, event: StreamEvent) -> Option<StreamEvent> {
        Some(match event {
            StreamEvent::Snapshot { position, asks } => {
                let asks = asks.into_iter().filter(|ask| self.is_mine(ask)).collect();
                StreamEvent::Snapshot { position, asks }
            }
            StreamEvent::Ask { ref ask, .. } if !self.is_mine(ask) => return None,
            event => event,
        })
    }
}
