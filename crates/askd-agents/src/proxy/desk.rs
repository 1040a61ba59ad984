//! What the client's person does at askd: answers, what their screen shows, `/permissions`. One thread, one thing
//! after the other, so that nobody who reads a line waits for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door, START_PATIENCE};
use askd_client::{Answers, CallError, Places};
use askd_wire::{Answer, Ask, Code, Decision, Observation, ObservationBatch, SurfaceReport};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::asks::Known;
use super::lock;
use super::{Answered, AskNo, News};

/// Ids of our surfaces by root session.
pub(super) type Surfaces = Arc<Mutex<BTreeMap<String, String>>>;

/// What the thread is asked to do.
pub(super) enum Job {
    Answer { ask: AskNo, known: Known, answer: Said },
    Report { known: Known, root: String, failed: Option<String> },
    CountOthers { ask: AskNo, agent: String, root: String },
    Slash { ticket: u64, text: String, agent: String, session: String },
}

/// What the peer's person said.
pub(super) struct Said {
    pub(super) decision: Decision,
    pub(super) option: Option<String>,
    pub(super) message: Option<String>,
    pub(super) stop: bool,
    pub(super) client: String,
}

pub(super) struct Desk {
    pub(super) places: Places,
    pub(super) exe: Option<PathBuf>,
    pub(super) surfaces: Surfaces,
    pub(super) sink: Arc<dyn Fn(News) + Send + Sync>,
}

impl Desk {
    pub(super) fn run(self, jobs: Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Answer { ask, known, answer } => {
                    let how = self.answer(&known, answer);
                    (self.sink)(News::Answered { ask, how });
                }
                Job::Report { known, root, failed } => self.report(&known, &root, failed),
                Job::CountOthers { ask, agent, root } => {
                    // A daemon that is away says so on the ask's own connection, and is asked again when it is back.
                    if let Some(attached) = self.others(&agent, &root) {
                        (self.sink)(News::Others { ask, attached });
                    }
                }
                Job::Slash { ticket, text, agent, session } => {
                    let text = self.slash(&text, &agent, &session);
                    (self.sink)(News::Slash { ticket, text });
                }
            }
        }
    }

    fn answer(&self, known: &Known, said: Said) -> Answered {
        let Some((id, digest)) = lock(known).clone() else {
            return Answered::Unreachable;
        };
        let Ok(mut answers) = Answers::connect(&self.places) else { return Answered::Unreachable };
        let Said { decision, option, message, stop, client } = said;
        let answer = Answer { decision, digest, option, message, stop, surface: Some(client) };
        match answers.answer(&id, &answer) {
            Ok(_) => Answered::Won,
            Err(CallError::Refused(problem)) => match (problem.code, problem.ask.and_then(|ask| ask.outcome))
            {
                (Code::AlreadySettled, Some(outcome)) => Answered::Lost(Box::new(outcome)),
                (Code::NotPermitted, _) => Answered::NotPermitted(problem.detail.unwrap_or(problem.title)),
                _ => Answered::Unreachable,
            },
            Err(_) => Answered::Unreachable,
        }
    }

    fn report(&self, known: &Known, root: &str, failed: Option<String>) {
        let Some((ask, _)) = lock(known).clone() else { return };
        let surface = lock(&self.surfaces).get(root).cloned();
        let (Some(surface), Ok(mut answers)) = (surface, Answers::connect(&self.places)) else { return };
        let report = match failed {
            Some(reason) => SurfaceReport::Failed { ask, reason },
            None => SurfaceReport::Shown { ask },
        };
        // For the log of the ask only.
        let _ = answers.report(&surface, &report);
    }

    /// Whether surfaces that show this root's asks are attached, besides this client. `None`: the daemon is away.
    fn others(&self, agent: &str, root: &str) -> Option<bool> {
        let ours = lock(&self.surfaces).contains_key(root);
        let named = format!("{agent}/{root}");
        match Answers::connect(&self.places).ok()?.health_of(&named) {
            Ok(health) => Some(health.surfaces > u32::from(ours)),
            Err(CallError::Http(_)) => None,
            Err(_) => Some(false),
        }
    }

    fn slash(&self, text: &str, agent: &str, session: &str) -> String {
        // What is set holds for a session that the daemon knows.
        let batch = ObservationBatch {
            agent: agent.to_owned(),
            session: session.to_owned(),
            parent: None,
            session_title: None,
            cwd: None,
            instance: None,
            place: None,
            observations: vec![Observation::SessionStarted {}],
        };
        // A daemon that does not run yet is started, as it would be for an ask.
        let until = Instant::now() + START_PATIENCE;
        let opened = daemon::connect_or_start(&self.places, Door::Ask, self.exe.as_deref(), until);
        if let Ok(mut connection) = opened {
            connection.set_timeout(Duration::from_secs(10));
            let _ = connection.command("POST", "/v1/observations", Some(&batch));
        }
        let named = format!("{agent}/{session}");
        let done =
            Answers::connect(&self.places).map_err(|error| error.to_string()).and_then(|mut answers| {
                answers.permissions_command(text, Some(&named)).map_err(|error| error.to_string())
            });
        done.unwrap_or_else(|why| format!("askd: {why}"))
    }
}

/// What happens to an ask without an answer, with the time of day, for people.
pub(super) fn timed(ask: &Ask) -> Option<String> {
    let deadline: Timestamp = ask.deadline.as_deref()?.parse().ok()?;
    let time = deadline.to_zoned_datetime(TimeZone::system()).strftime("%H:%M").to_string();
    Some(match ask.default? {
        Decision::Allow => format!("allowed at {time} if nobody answers"),
        Decision::Deny => format!("denied at {time} if nobody answers"),
    })
}
