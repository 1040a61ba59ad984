//! Where askd is for this person, and the ways to its daemon.

use std::time::Instant;

use askd_client::daemon::{self, Door, START_PATIENCE};
use askd_client::{Answers, Connection, Places, Surroundings, Unavailable};

use crate::cmd::config;
use crate::failure::Failure;
use crate::silence;
use crate::view::Who;

/// The places of this invocation.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) places: Places,
}

impl Desk {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { places: Places::from_env()? })
    }

    /// The daemon that runs.
    pub(crate) fn answers(&self) -> Result<Answers, Failure> {
        self.running().map(Answers::over).map_err(|error| match error {
            Unavailable::NotRunning(_) if config::load(self).is_err() => Failure::unavailable(
                "no askd daemon runs, and none starts with its settings as they are: see `askd config check`",
            ),
            Unavailable::NotRunning(_) => {
                Failure::unavailable("no askd daemon runs: start it with `askd` or `askd daemon`")
            }
            other => other.into(),
        })
    }

    /// A connection to the daemon that runs; a person is told of one that says nothing.
    pub(crate) fn running(&self) -> Result<Connection, Unavailable> {
        let connect = || daemon::connect_answer(&self.places);
        silence::awake(connect()?, &self.places, connect)
    }

    /// The daemon, started when none runs: a person does this, so a stop by a person ends here. An agent does not undo
    /// it.
    pub(crate) fn open(&self) -> Result<Answers, Failure> {
        let connection = match self.running() {
            Err(Unavailable::NotRunning(_)) => {
                let stopped = self.places.stopped_file();
                self.keep_surroundings();
                if askd_daemon::inside_agent().is_none() {
                    daemon::forget_stop(&self.places)
                        .map_err(|error| Failure::unavailable(format!("{}: {error}", stopped.display())))?;
                }
                self.start(Door::Answer)?
            }
            other => other?,
        };
        Ok(Answers::over(connection))
    }

    /// What a daemon that a requester starts later takes from here, where a person runs this. A daemon starts without it
    /// too, so that a failure is none of this command.
    pub(crate) fn keep_surroundings(&self) {
        if askd_daemon::inside_agent().is_none() {
            let _ = Surroundings::keep_own(&self.places);
        }
    }

    /// Connects, starting the daemon when none runs and nobody stopped it.
    pub(crate) fn start(&self, door: Door) -> Result<Connection, Unavailable> {
        let exe = daemon::own_exe();
        daemon::connect_or_start(&self.places, door, exe.as_deref(), Instant::now() + START_PATIENCE)
    }
}

/// The sessions, for telling who asks. An ask is told without them when they cannot be had.
pub(crate) fn who(answers: &mut Answers) -> Who {
    Who::new(answers.sessions().unwrap_or_default())
}
