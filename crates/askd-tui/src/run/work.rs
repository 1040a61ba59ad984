//! What takes time is done beside the thread that draws: answers in one worker, everything else in another, so that no
//! answer waits behind a report.

use std::io::{BufRead, BufReader, Read};
use std::mem::discriminant;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use askd_client::{Answers, CallError, Places, daemon};
use askd_wire::{Ask, BulkAnswer, Code, Health, SurfaceReport};

use crate::action::Reply;

use super::inbox::{News, Sender};

/// Answers that one request may name.
const MOST_BULK: usize = 500;

/// A thing to do.
pub(super) enum Job {
    Answer(BulkAnswer),
    Bulk(Vec<BulkAnswer>),
    Command {
        text: String,
        session: Option<String>,
    },
    TakeBack {
        id: String,
    },
    Report {
        surface: String,
        report: SurfaceReport,
    },
    Look {
        id: String,
    },
    ReadSessions,
    /// The daemon's state.
    ReadHealth,
    /// Warnings about the daemon's settings.
    ReadWarnings,
    JumpToPane {
        pane: String,
    },
}

/// The two workers.
pub(super) struct Workers {
    answers: mpsc::Sender<Job>,
    chores: mpsc::Sender<Job>,
}

impl Workers {
    pub(super) fn start(places: &Places, news: &Sender) -> std::io::Result<Self> {
        Ok(Self {
            answers: worker("askd-answers", places, news)?,
            chores: worker("askd-chores", places, news)?,
        })
    }

    pub(super) fn give(&self, job: Job) {
        let worker = match job {
            Job::Answer(_) | Job::Bulk(_) | Job::Command { .. } | Job::TakeBack { .. } => &self.answers,
            Job::Report { .. }
            | Job::Look { .. }
            | Job::ReadSessions
            | Job::ReadHealth
            | Job::ReadWarnings
            | Job::JumpToPane { .. } => &self.chores,
        };
        // A worker ends only with the program.
        let _ = worker.send(job);
    }
}

fn worker(name: &str, places: &Places, news: &Sender) -> std::io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let (places, news) = (places.clone(), news.clone());
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let mut held = None;
        while let Some(job) = held.take().or_else(|| jobs.recv().ok()) {
            // Many asks of new sessions at once need them read once, and many notices the state.
            if matches!(job, Job::ReadSessions | Job::ReadHealth) {
                held = jobs.try_recv().ok();
                if held.as_ref().is_some_and(|next| discriminant(next) == discriminant(&job)) {
                    continue;
                }
            }
            for told in done(&places, job) {
                if news.send(told).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(sender)
}

fn done(places: &Places, job: Job) -> Vec<News> {
    match job {
        Job::Answer(BulkAnswer { id, answer }) => {
            let reply = match connect(places) {
                Ok(mut answers) => match answers.answer(&id, &answer) {
                    Ok(ask) => Reply::Answered(Box::new(ask)),
                    Err(CallError::Refused(problem)) => Reply::Refused { id, problem },
                    Err(error) => Reply::Lost { id, why: error.to_string() },
                },
                Err(why) => Reply::Lost { id, why },
            };
            vec![News::Reply(reply)]
        }
        Job::Bulk(all) => all.chunks(MOST_BULK).flat_map(|some| bulk(places, some)).collect(),
        Job::Command { text, session } => {
            let reply = connect(places).and_then(|mut answers| {
                answers.permissions_command(&text, session.as_deref()).map_err(|error| error.to_string())
            });
            vec![News::Reply(Reply::Command(reply))]
        }
        Job::TakeBack { id } => {
            let taken =
                daemon::connect_answer(places).map_err(|error| error.to_string()).and_then(|mut it| {
                    it.command("DELETE", &format!("/v1/asks/{id}/late"), None::<&()>)
                        .map_err(|e| e.to_string())
                });
            vec![News::Reply(Reply::TakenBack { id, failed: taken.err() })]
        }
        Job::Report { surface, report } => {
            // For the log; a daemon that goes away now is noticed by the stream.
            if let Ok(mut answers) = connect(places) {
                let _ = answers.report(&surface, &report);
            }
            Vec::new()
        }
        Job::Look { id } => look(places, id).into_iter().collect(),
        Job::ReadSessions => {
            let sessions = connect(places).ok().and_then(|mut answers| answers.sessions().ok());
            sessions.map(News::Sessions).into_iter().collect()
        }
        Job::ReadHealth => health(places).map(|health| News::Health(Box::new(health))).into_iter().collect(),
        Job::ReadWarnings => warnings(places),
        Job::JumpToPane { pane } => match jump(&pane) {
            Ok(()) => Vec::new(),
            Err(why) => vec![News::Reply(Reply::Said(why))],
        },
    }
}

fn connect(places: &Places) -> Result<Answers, String> {
    Answers::connect(places).map_err(|error| error.to_string())
}

fn bulk(places: &Places, some: &[BulkAnswer]) -> Vec<News> {
    let reports = connect(places).and_then(|mut answers| answers.answer_all(some).map_err(|e| e.to_string()));
    let lost = |id: &str, why: &str| Reply::Lost { id: id.to_owned(), why: why.to_owned() };
    let replies: Vec<Reply> = match reports {
        Ok(reports) => some
            .iter()
            .map(|given| {
                let report = reports.iter().find(|report| report.id == given.id);
                match report.map(|report| (report.ask.clone(), report.problem.clone())) {
                    Some((_, Some(problem))) => {
                        Reply::Refused { id: given.id.clone(), problem: Box::new(problem) }
                    }
                    Some((Some(ask), None)) => Reply::Answered(Box::new(ask)),
                    _ => lost(&given.id, "the daemon did not say"),
                }
            })
            .collect(),
        Err(why) => some.iter().map(|given| lost(&given.id, &why)).collect(),
    };
    replies.into_iter().map(News::Reply).collect()
}

fn look(places: &Places, id: String) -> Option<News> {
    let seen: Result<Ask, CallError> = connect(places).ok()?.show(&id);
    let ask = match seen {
        Ok(ask) => Some(Box::new(ask)),
        Err(error) if error.problem().is_some_and(|problem| problem.code == Code::UnknownAsk) => None,
        Err(_) => return None,
    };
    Some(News::Reply(Reply::Seen { id, ask }))
}

fn warnings(places: &Places) -> Vec<News> {
    health(places).into_iter().flat_map(|health| health.warnings()).map(News::Warning).collect()
}

fn health(places: &Places) -> Option<Health> {
    connect(places).ok().and_then(|mut answers| answers.health().ok())
}

/// Shows the pane to whoever looks at this one.
fn jump(pane: &str) -> Result<(), String> {
    if std::env::var_os("TMUX").is_none_or(|value| value.is_empty()) {
        return Err(format!("the agent is in tmux pane {pane}; this terminal is not in tmux"));
    }
    let tmux = |args: &[&str]| {
        let done = Command::new("tmux").args(args).stdin(Stdio::null()).stdout(Stdio::null()).output();
        done.map_err(|error| format!("tmux: {error}"))
    };
    // One that is switched to a pane shows its window too; an older tmux needs to be told in three steps.
    let switched = tmux(&["switch-client", "-t", pane])?;
    if switched.status.success() {
        return Ok(());
    }
    let _ = tmux(&["select-window", "-t", pane])?;
    let selected = tmux(&["select-pane", "-t", pane])?;
    if selected.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&switched.stderr).trim().to_owned();
    Err(format!("tmux does not go to pane {pane}: {why}"))
}

/// Reads the lines of an agent that runs beside the queue.
pub(super) fn feed(from: Box<dyn Read + Send>, news: Sender) -> std::io::Result<()> {
    let read = move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            if news.send(News::Fed(String::from_utf8_lossy(&line).into_owned())).is_err() {
                return;
            }
        }
        let _ = news.send(News::FeedEnded);
    };
    std::thread::Builder::new().name("askd-feed".to_owned()).spawn(read).map(drop)
}
