//! `askd spool`: serves a forwarding directory until it is told to end. Also what serves the directories of `[spool]
//! dirs` inside the daemon's process, as requesters of the daemon like any other.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use askd_agents::spool::run::{Options, Server};
use askd_client::{Places, daemon};
use askd_daemon::SettingsWatch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::cli::SpoolArgs;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};

pub(crate) fn spool(desk: &Desk, args: SpoolArgs) -> Done {
    let failed = |error: std::io::Error| Failure::unavailable(format!("signals: {error}"));
    let (mut signals, told) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, told.try_clone().map_err(failed)?).map_err(failed)?;
    }
    let dir = std::path::absolute(&args.dir).map_err(|error| Failure::unavailable(error.to_string()))?;
    let named = safe(&dir.display().to_string());
    // With sessions of its own they are made.
    let missing = args.session.is_empty() && !dir.is_dir();
    let options = Options {
        exe: daemon::own_exe(),
        sessions: args.session,
        hints: !args.no_hints,
        tell: Arc::new(|text| out::tell(&format!("askd spool: {}", safe(text)))),
        ..Options::new(dir, desk.places.clone())
    };
    let server = Server::start(options).map_err(|error| Failure::unavailable(error.to_string()))?;
    let missing = if missing { ", which is not there yet: it is served as soon as it is" } else { "" };
    out::tell(&format!("askd spool: serving {named}{missing}; Ctrl-C ends it"));
    let _ = signals.read(&mut [0]);
    server.stop();
    Ok(status::OK)
}

/// The directories that the daemon's process serves, as its settings say them.
pub(crate) struct Trees {
    wanted: Sender<Option<Vec<PathBuf>>>,
    thread: Option<JoinHandle<()>>,
}

impl Trees {
    pub(crate) fn start(places: Places) -> Self {
        let (wanted, received) = channel();
        let serve = move || Served::new(places).run(&received);
        let thread = std::thread::Builder::new().name("trees".to_owned()).spawn(serve).ok();
        Self { wanted, thread }
    }

    /// What the daemon tells of its settings.
    pub(crate) fn watch(&self) -> SettingsWatch {
        let wanted = self.wanted.clone();
        SettingsWatch(Arc::new(move |in_force| {
            let _ = wanted.send(Some(in_force.settings.spool.dirs.clone()));
        }))
    }

    /// Takes what was made for them away; their asks stay for whoever serves them next.
    pub(crate) fn stop(mut self) {
        let _ = self.wanted.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Between two attempts to serve a directory that cannot be served, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The servers of the daemon's process.
struct Served {
    places: Places,
    wanted: Vec<PathBuf>,
    servers: BTreeMap<PathBuf, Server>,
    /// Why the others are not served, as it was told.
    failed: BTreeMap<PathBuf, String>,
}

impl Served {
    fn new(places: Places) -> Self {
        Self { places, wanted: Vec::new(), servers: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// Until it is told to end.
    fn run(mut self, received: &Receiver<Option<Vec<PathBuf>>>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let told = if self.failed.is_empty() {
                received.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                received.recv_timeout(pause)
            };
            match told {
                Ok(Some(wanted)) => {
                    (self.wanted, pause) = (wanted, FIRST_PAUSE);
                    self.servers.retain(|dir, _| self.wanted.contains(dir));
                    self.failed.retain(|dir, _| self.wanted.contains(dir));
                }
                // What was in its way may be gone.
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(LONGEST_PAUSE),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
            }
            for dir in self.wanted.clone() {
                if !self.servers.contains_key(&dir) {
                    self.serve(dir);
                }
            }
        }
    }

    fn serve(&mut self, dir: PathBuf) {
        let named = safe(&dir.display().to_string());
        let text = named.clone();
        let tell = Arc::new(move |line: &str| {
            tracing::warn!("spool {text}: {}", safe(line));
        });
        let options = Options { tell, ..Options::new(dir.clone(), self.places.clone()) };
        match Server::start(options) {
            Ok(server) => {
                tracing::info!("serves the forwarding directory {named}");
                self.failed.remove(&dir);
                self.servers.insert(dir, server);
            }
            Err(error) => {
                let why = error.to_string();
                if self.failed.insert(dir, why.clone()).as_ref() != Some(&why) {
                    tracing::error!("spool {named} is not served, and is tried again: {}", safe(&why));
                }
            }
        }
    }
}
