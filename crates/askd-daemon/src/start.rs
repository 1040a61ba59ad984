//! From options to a running daemon and back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use askd_client::daemon::{ALREADY_RUNNING_STATUS, forget_stop};
use askd_client::{Places, Surroundings, UnsafePlace, bind_private_socket, make_private_directory};
use askd_config::ConfigErrors;
use askd_core::{Command, Now};
use askd_journal::{Journal, JournalError, Reader, SqliteJournal};
use askd_wire::{API_VERSION, DaemonFile, VERSION};
use askd_writer::Writer;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, mpsc, watch};

use crate::before::Note;
use crate::clock::Clock;
use crate::crash::CrashPoint;
use crate::engine::{Engine, Outlets};
use crate::http::{self, Attachments, Leave, RandomIds, Remotes, Shared};
use crate::limits::{MOST_STREAMS, Rates, Seats};
use crate::origins::Origins;
use crate::owner::Owners;
use crate::peer::{self, Peer};
use crate::publish::{self, Hub, What};
use crate::server::{self, Door, Traffic};
use crate::settings::{Live, SettingsWatch, Sources};
use crate::{agents, alarm, dropped, edits, token};

/// How long replies may take to get out when the daemon leaves.
const LAST_REPLIES: Duration = Duration::from_secs(2);
/// Held requests get no reply at a restart; whatever else is under way gets this long.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long until what could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);
/// A session without an agent process, without asks, and silent for this long has ended; so have all like it but so many.
const SILENT_SESSION_MS: u64 = 24 * 3600 * 1000;
const MOST_SILENT_SESSIONS: usize = 1000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How a daemon is started.
#[derive(Debug, Clone)]
pub struct Options {
    pub places: Places,
    /// `--journal`: `sqlite:` or `sqlite:PATH`; beats the config.
    pub journal: Option<String>,
    /// `--no-surfaces`: every ask fails closed at once.
    pub no_surfaces: bool,
    /// A requester started it, not a person.
    pub autostarted: bool,
    /// Is told the settings in force as soon as the daemon listens, and again whenever they may have changed.
    pub watch: Option<SettingsWatch>,
}

/// Why a daemon did not start. Nothing was changed and no ask was touched.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "a daemon already runs here (it holds {}); `askd daemon restart` or `askd daemon stop` reach it",
        .0.display()
    )]
    AlreadyRunning(PathBuf),
    #[error("askd was stopped by a person; run `askd` or `askd daemon` to start it again")]
    Stopped,
    #[error(
        "the journal {} takes no word, and what it calls accepted is not of askd's last journal: {why}",
        .path.display()
    )]
    OtherJournal { path: PathBuf, why: String },
    #[error("autostart is off in the config; run `askd daemon` to start it")]
    AutostartOff,
    #[error(
        "options that loosen or move askd are not taken from inside an agent ({0} is set); start it from a terminal of your own"
    )]
    InsideAgent(String),
    #[error("the config is not valid:\n{0}")]
    Config(ConfigErrors),
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
}

impl StartError {
    /// Exit status for the command line.
    pub fn status(&self) -> u8 {
        match self {
            Self::AlreadyRunning(_) => ALREADY_RUNNING_STATUS,
            _ => 1,
        }
    }
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |error| StartError::Io { what, error }
}

/// Runs the daemon until it is told to leave, by a command or a signal.
pub fn run(options: Options) -> Result<(), StartError> {
    // Everything that is made from here on is this user's only.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if options.autostarted {
        // Away from the terminal and the process group of whoever started it.
        let _ = rustix::process::setsid();
    }
    raise_descriptor_limit();
    let sources = sources(&options)?;
    let places = &options.places;
    make_private_directory(places.state_dir())?;
    // What a person stopped an agent does not start again.
    let by_a_person = !options.autostarted && inside_agent().is_none();
    if !by_a_person && places.stopped_file().symlink_metadata().is_ok() {
        return Err(StartError::Stopped);
    }
    let config = sources.load().map_err(StartError::Config)?;
    if options.autostarted && !config.settings().daemon.autostart {
        return Err(StartError::AutostartOff);
    }
    let _lock = lock(&places.daemon_lock())?;
    if by_a_person {
        forget_stop(places).map_err(io_error("stopped"))?;
    } else if places.stopped_file().symlink_metadata().is_ok() {
        // The daemon that held the lock may have been stopped by a person since the first look.
        return Err(StartError::Stopped);
    }

    let clock = Clock::new();
    let path = config.settings().journal.url.path().map_or_else(default_journal(places), Path::to_path_buf);
    let journal = SqliteJournal::open(&path, askd_journal::OpenOptions::default())?;
    let described = journal.describe();
    let reader = journal.reader()?;
    let newest_ms = newest_ms(&*reader)?;
    let ids = Box::new(RandomIds);
    let first = askd_core::Settings::default();
    let mut writer = Writer::open(journal, first, ids, Box::new(CrashPoint::from_env()), clock.now())?;
    // `--journal` is for this daemon alone.
    if options.journal.is_none() {
        forget_foreign_acceptances(&mut writer, places, &path, by_a_person, clock.now())?;
    }
    let retention_ms =
        i64::try_from(config.settings().journal.retention_days).unwrap_or(i64::MAX / DAY_MS) * DAY_MS;
    let (live, effective) = Live::new(sources, config, writer.state().loosenings(), options.watch.clone());
    writer.set_settings(live.for_core(&effective));
    if options.watch.is_some() {
        peer::trust_guests();
    }

    // One thread serves the sockets beside the writer's: what they hand each other does not go over a third.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .map_err(io_error("runtime"))?;
    runtime.block_on(async {
        let hub = Hub::new();
        let (published, events) = publish::outlet();
        let (alarm, due) = watch::channel(None);
        let (found, agents_found) = mpsc::unbounded_channel();
        let outlets = Outlets { published, alarm, agents: found };
        let (engine, thread) =
            Engine::start(writer, clock, outlets).map_err(io_error("the writer thread"))?;
        engine.run(Command::Woke).await;
        let note = Note::new(places, clock.now().boot);
        let count = note.before();
        if count > 0 {
            engine.run(Command::ExpectSurfaces { count }).await;
        }

        let (leave, mut leaving) = watch::channel(None);
        let app = Arc::new(Shared {
            engine: engine.clone(),
            hub: hub.clone(),
            clock,
            host: host(),
            live,
            reader: Arc::new(Mutex::new(reader)),
            journal: described,
            surfaces: AtomicU64::new(1),
            attached: Attachments::new(note),
            remotes: Remotes::default(),
            rates: Rates::default(),
            origins: Origins::default(),
            streams: Seats::new(MOST_STREAMS),
            tries: StdMutex::default(),
            leave,
            registered: StdMutex::new(BTreeMap::new()),
        });
        let pump = tokio::spawn(hub.clone().pump(events));
        tokio::spawn(agents::watch(engine.clone(), app.host.clone(), agents_found));
        let ring =
            tokio::spawn(alarm::keep(alarm::ring(engine.clone(), hub.clone(), due), app.leave.clone()));
        let prune = tokio::spawn(prune(engine.clone(), clock, retention_ms, newest_ms));
        let tidy = tokio::spawn(tidy(engine.clone()));

        make_private_directory(&places.run_dir())?;
        let ask = bind(&places.ask_sock())?;
        let answer = bind(&places.answer_sock())?;
        let traffic = Traffic::default();
        let owners = Arc::new(Owners::default());
        let asks = tokio::spawn(server::serve(
            ask,
            Door::Ask,
            http::ask_router(Arc::clone(&app)),
            engine.clone(),
            traffic.clone(),
            leaving.clone(),
            Arc::clone(&owners),
        ));
        let answers = tokio::spawn(server::serve(
            answer,
            Door::Answer,
            http::answer_router(Arc::clone(&app)),
            engine.clone(),
            traffic.clone(),
            leaving.clone(),
            owners,
        ));
        let edits = tokio::spawn(edits::follow(Arc::clone(&app)));
        app.live.tell();
        let dropped = tokio::spawn(dropped::keep(Arc::clone(&app)));
        let token = tokio::spawn(token::keep(Arc::clone(&app)));
        tracing::info!("askd {VERSION} listens in {}", places.run_dir().display());

        // Together, so that nothing is announced by one that leaves.
        let how = tokio::select! {
            how = until_told(&mut leaving) => how?,
            never = announced(places) => match never {},
        };
        app.attached.leave(how == Leave::Stop);
        app.leave.send_replace(Some(how));
        tracing::info!("leaving: {how:?}");
        asks.abort();
        answers.abort();
        // Without the mark it may be started again, but nobody is left to wait for an answer.
        let marked = if how == Leave::Stop { mark_stopped(places) } else { Ok(()) };
        let _ = fs::remove_file(places.daemon_file());
        let _ = tokio::time::timeout(LAST_REPLIES, app.live.write_dropped(&engine)).await;
        engine.leave(how == Leave::Stop).await;
        // The writer thread has ended and with it its side of the channel: everything it told is passed on first.
        let _ = pump.await;
        hub.send(What::Bye { restart: how == Leave::Restart });
        traffic.drained(if how == Leave::Stop { LAST_REPLIES } else { LAST_WORDS }).await;
        ring.abort();
        prune.abort();
        tidy.abort();
        edits.abort();
        dropped.abort();
        // It ends what it runs.
        let _ = tokio::time::timeout(LAST_REPLIES, token).await;
        let _ = fs::remove_file(places.ask_sock());
        let _ = fs::remove_file(places.answer_sock());
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        marked.map_err(io_error("stopped"))
    })
}

/// Whether a daemon with these options would start in this directory and environment, as far as the config and the
/// journal can be looked at while another daemon runs. What runs goes on as it is.
pub fn check(
    options: &Options,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    dir: &Path,
) -> Result<(), StartError> {
    let sources = Sources {
        file: options.places.config_file(),
        env: !options.autostarted,
        journal_flag: options.journal.clone(),
        no_surfaces: options.no_surfaces,
    };
    let config = sources.load_with(env).map_err(StartError::Config)?;
    let path = config.settings().journal.url.path();
    let path = path.map_or_else(default_journal(&options.places), Path::to_path_buf);
    match SqliteJournal::open(dir.join(path), askd_journal::OpenOptions::default()) {
        Ok(_) | Err(JournalError::InUse { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a person accepted is in the journal, so an edit of the config could bring in another one, with other
/// acceptances. One that did not come by a person's start begins with none.
fn forget_foreign_acceptances(
    writer: &mut Writer<SqliteJournal>,
    places: &Places,
    path: &Path,
    by_a_person: bool,
    now: Now,
) -> Result<(), StartError> {
    let kept = Surroundings::kept(places);
    let used = kept.as_ref().and_then(Surroundings::journal);
    if used == Some(path) {
        return Ok(());
    }
    let pairs: Vec<_> = writer.state().loosenings().iter().cloned().collect();
    if used.is_some() && !by_a_person && !pairs.is_empty() {
        let failed = |why: String| StartError::OtherJournal { path: path.to_path_buf(), why };
        let drops = pairs.into_iter().map(|(key, value)| Command::DropLoosening { key, value });
        // Timed answers wait for people who come back, as at every start.
        let commands: Vec<_> = std::iter::once(Command::Woke).chain(drops).collect();
        let done = writer.run(&commands, now).map_err(|died| failed(format!("{died:?}")))?;
        if let Some(refusal) = done.replies.into_iter().find_map(Result::err) {
            return Err(failed(refusal.to_string()));
        }
        let _ = writer.released();
        tracing::warn!("{} is another journal than before: accepted settings wait again", path.display());
    }
    if let Err(error) = Surroundings::keep_journal(places, path) {
        tracing::warn!("{}: {error}", places.surroundings_file().display());
    }
    Ok(())
}

const DAY_MS: i64 = 24 * 3600 * 1000;

fn default_journal(places: &Places) -> impl FnOnce() -> PathBuf {
    let path = places.state_dir().join("journal.sqlite");
    move || path
}

/// The mark of the agent that this process was started by, in its own environment or above it.
pub fn inside_agent() -> Option<String> {
    Peer::look(std::process::id()).mark().map(str::to_owned)
}

/// What inside an agent's tree could loosen askd is left out or refused.
fn sources(options: &Options) -> Result<Sources, StartError> {
    let inside = inside_agent();
    if let (Some(mark), true) = (&inside, options.journal.is_some() || options.no_surfaces) {
        return Err(StartError::InsideAgent(mark.clone()));
    }
    Ok(Sources {
        file: options.places.config_file(),
        env: !options.autostarted && inside.is_none(),
        journal_flag: options.journal.clone(),
        no_surfaces: options.no_surfaces,
    })
}

async fn until_told(leaving: &mut watch::Receiver<Option<Leave>>) -> Result<Leave, StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(io_error("signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(io_error("signals"))?;
    // A closed terminal must not take asks with it.
    let mut hang_up = signal(SignalKind::hangup()).map_err(io_error("signals"))?;
    loop {
        tokio::select! {
            changed = leaving.changed() => {
                if changed.is_err() {
                    return Ok(Leave::Restart);
                }
                if let Some(how) = *leaving.borrow_and_update() {
                    return Ok(how);
                }
            }
            _ = terminate.recv() => return Ok(Leave::Restart),
            _ = interrupt.recv() => return Ok(Leave::Restart),
            _ = hang_up.recv() => {}
        }
    }
}

/// Old asks go at the start, an hour later and then once a day. A machine's clock may be ahead when it starts, until it
/// has asked others for the time, and what is pruned is gone: at the start the time is no later than that of the newest
/// entry that was there.
async fn prune(engine: Engine, clock: Clock, retention_ms: i64, newest_ms: Option<i64>) {
    let older_than = async |wall_ms: i64| {
        // In slices, so that asks come in between.
        while engine.prune(wall_ms.saturating_sub(retention_ms)).await.is_some() {}
    };
    if let Some(newest_ms) = newest_ms {
        older_than(newest_ms.min(clock.now().wall_ms)).await;
    }
    let mut daily = tokio::time::interval_at(tokio::time::Instant::now() + HOUR, DAY);
    loop {
        daily.tick().await;
        older_than(clock.now().wall_ms).await;
    }
}

/// When the newest entry was made.
fn newest_ms(reader: &dyn Reader) -> Result<Option<i64>, JournalError> {
    let Some(before) = reader.last()?.checked_sub(1) else { return Ok(None) };
    Ok(reader.feed(before, 1)?.first().map(|entry| entry.entry.at.wall_ms))
}

/// Sessions that nobody says the end of end when they have been silent for long.
async fn tidy(engine: Engine) {
    let mut hourly = tokio::time::interval(HOUR);
    loop {
        hourly.tick().await;
        engine.tell(Command::Tidy { idle_ms: SILENT_SESSION_MS, most: MOST_SILENT_SESSIONS });
    }
}

fn lock(path: &Path) -> Result<File, StartError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default())
        .open(path)
        .map_err(io_error(path.display().to_string()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StartError::AlreadyRunning(path.to_path_buf())),
        Err(error) => Err(StartError::Io { what: path.display().to_string(), error: error.into() }),
    }
}

/// A socket file that is there belongs to a daemon that died: the lock says that none runs.
fn bind(path: &Path) -> Result<UnixListener, StartError> {
    use std::os::unix::fs::FileTypeExt;
    let named = || path.display().to_string();
    if path.symlink_metadata().is_ok_and(|meta| !meta.file_type().is_socket()) {
        let error = io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is not a socket");
        return Err(StartError::Io { what: named(), error });
    }
    let listener = bind_private_socket(path).map_err(io_error(named()))?;
    listener.set_nonblocking(true).map_err(io_error(named()))?;
    UnixListener::from_std(listener).map_err(io_error(named()))
}

/// Announces it, again after a while when the disk takes nothing: asks come in all the same, because the sockets are
/// where everybody looks first.
async fn announced(places: &Places) -> Infallible {
    let mut told = false;
    while let Err(error) = announce(places) {
        if !std::mem::replace(&mut told, true) {
            tracing::warn!("{}: {error}; tried again", places.daemon_file().display());
        }
        tokio::time::sleep(AGAIN).await;
    }
    std::future::pending().await
}

/// Tells other programs where the sockets are, complete at its first appearance.
fn announce(places: &Places) -> io::Result<()> {
    let file = DaemonFile {
        pid: std::process::id(),
        version: VERSION.to_owned(),
        api: API_VERSION,
        ask_sock: places.ask_sock().display().to_string(),
        answer_sock: places.answer_sock().display().to_string(),
    };
    replace(&places.daemon_file(), &serde_json::to_vec_pretty(&file).unwrap_or_default())
}

fn mark_stopped(places: &Places) -> io::Result<()> {
    replace(&places.stopped_file(), b"")
}

pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    fs::rename(&new, path)
}

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Every held request is a descriptor.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
