//! Finds the daemon, and starts it when none runs.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::{Unavailable, UnsafePlace};
use crate::guard::{check_directory, check_socket, make_private_directory};
use crate::http::Connection;
use crate::places::Places;

/// Set in the environment of a daemon that a requester started. Such a daemon makes a session of its own (`setsid`),
/// ignores every other `ASKD_*` setting but `ASKD_DIR`, and leaves at once when the config has `autostart = false`.
pub const AUTOSTARTED_VAR: &str = "ASKD_AUTOSTARTED";
/// Exit status of a daemon that found `daemon.lock` held by another one; a starter goes on waiting for that one.
pub const ALREADY_RUNNING_STATUS: u8 = 9;
/// How long a started daemon may take until its socket answers.
pub const START_PATIENCE: Duration = Duration::from_secs(5);

/// How long a daemon may leave a connection unaccepted until it counts as one that does not answer.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);
/// Longest `daemon.log` that is appended to; a longer one becomes `daemon.log.1`.
const MOST_LOG: u64 = 4 * 1024 * 1024;
/// What a daemon keeps of its starter's environment, besides `LC_*` and the places.
const KEPT_VARS: [&str; 8] =
    ["HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

/// Which of the two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// For requesters.
    Ask,
    /// For people's surfaces.
    Answer,
}

/// Connects as a requester to a daemon that runs.
pub fn connect_ask(places: &Places) -> Result<Connection, Unavailable> {
    connect(places, Door::Ask, Some(Instant::now() + ACCEPT_PATIENCE))
}

/// Connects as a person's surface to a daemon that runs.
pub fn connect_answer(places: &Places) -> Result<Connection, Unavailable> {
    connect(places, Door::Answer, Some(Instant::now() + ACCEPT_PATIENCE))
}

/// Connects to a daemon that runs; `deadline` limits the wait for one that takes no connections.
pub fn connect(places: &Places, door: Door, deadline: Option<Instant>) -> Result<Connection, Unavailable> {
    let (dir, socket) = match door {
        Door::Ask => (places.run_dir(), places.ask_sock()),
        Door::Answer => (places.run_dir(), places.answer_sock()),
    };
    let first = connect_socket(&dir, &socket, deadline);
    if !matches!(first, Err(Unavailable::NotRunning(_))) {
        return first;
    }
    // Another spelling of the state directory can lead to another place of the sockets; the daemon wrote down its own.
    if !check_directory(places.state_dir())? {
        return first;
    }
    let Some(file) = places.read_daemon_file() else { return first };
    let told = PathBuf::from(match door {
        Door::Ask => file.ask_sock,
        Door::Answer => file.answer_sock,
    });
    match told.parent() {
        Some(dir) if told != socket && told.is_absolute() => connect_socket(dir, &told, deadline),
        _ => first,
    }
}

/// Connects as a requester, starting `exe daemon` when no daemon runs. Waits until its socket answers, at most
/// [`START_PATIENCE`].
pub fn autostart(places: &Places, exe: &Path) -> Result<Connection, Unavailable> {
    connect_or_start(places, Door::Ask, Some(exe), Instant::now() + START_PATIENCE)
}

/// Connects, starting `exe daemon` when there is an `exe` and no daemon runs. Of many that do this at the same time one
/// starts a daemon; all get a connection to it, or the reason why there is none.
pub fn connect_or_start(
    places: &Places,
    door: Door,
    exe: Option<&Path>,
    deadline: Instant,
) -> Result<Connection, Unavailable> {
    let found = connect(places, door, Some(deadline));
    let (Some(exe), Err(Unavailable::NotRunning(_))) = (exe, &found) else { return found };
    refuse_when_stopped(places)?;
    make_private_directory(places.state_dir())?;
    let lock = open_private(&places.start_lock(), OFlags::empty())
        .map_err(|error| Unavailable::CannotStart(format!("{}: {error}", places.start_lock().display())))?;
    let mut pause = Pause::new();
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => {
                return Err(Unavailable::CannotStart(format!("start.lock: {}", io::Error::from(error))));
            }
        }
        pause.take(deadline).map_err(|()| {
            Unavailable::CannotStart("another program is starting it and does not get through".to_owned())
        })?;
        match connect(places, door, Some(deadline)) {
            Err(Unavailable::NotRunning(_)) => {}
            other => return other,
        }
    }
    // Whoever held the lock before may have started one, or have stopped it.
    match connect(places, door, Some(deadline)) {
        Err(Unavailable::NotRunning(_)) => {}
        other => return other,
    }
    refuse_when_stopped(places)?;
    let started = Started::spawn(places, exe)?;
    started.wait_for_socket(places, door, deadline)
}

/// Forgets that a person stopped askd: for `askd` and `askd daemon`, which a person runs.
pub fn forget_stop(places: &Places) -> io::Result<()> {
    match std::fs::remove_file(places.stopped_file()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The hook path as a program of its own, installed beside `askd`.
const HOOK_PROGRAM: &str = "askd-hook";

/// The file of the `askd` that this program is or is installed beside, for [`autostart`]; also after it was replaced
/// by an upgrade while it ran.
pub fn own_exe() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let exe = std::env::current_exe().ok()?;
    let exe = match exe.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => PathBuf::from(std::ffi::OsStr::from_bytes(path)),
        None => exe,
    };
    Some(if exe.file_name().is_some_and(|name| name == HOOK_PROGRAM) {
        exe.with_file_name("askd")
    } else {
        exe
    })
}

/// What an agent is told to run as its hook, given the `askd` that sets it up: the small program beside it, which
/// starts in half the time, or that `askd` itself where it was installed alone. Both take the same arguments.
pub fn hook_exe(askd: &Path) -> PathBuf {
    let beside = askd.with_file_name(HOOK_PROGRAM);
    if beside.is_file() { beside } else { askd.to_path_buf() }
}

fn refuse_when_stopped(places: &Places) -> Result<(), Unavailable> {
    if places.stopped_file().symlink_metadata().is_ok() { Err(Unavailable::Stopped) } else { Ok(()) }
}

fn connect_socket(dir: &Path, socket: &Path, deadline: Option<Instant>) -> Result<Connection, Unavailable> {
    let not_running = || Unavailable::NotRunning(socket.to_path_buf());
    if !check_directory(dir)? || !check_socket(socket)? {
        return Err(not_running());
    }
    match Connection::connect(socket, deadline) {
        Ok(connection) => {
            check_peer(&connection, socket)?;
            Ok(connection)
        }
        // A file whose daemon died without removing it.
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Err(not_running())
        }
        Err(error) => Err(Unavailable::Fault(format!("{}: {error}", socket.display()))),
    }
}

#[cfg(target_os = "linux")]
fn check_peer(connection: &Connection, socket: &Path) -> Result<(), UnsafePlace> {
    let peer = rustix::net::sockopt::socket_peercred(connection).map_err(|error| {
        UnsafePlace::new(socket, format!("its owner cannot be told: {}", io::Error::from(error)))
    })?;
    let ours = rustix::process::geteuid();
    if peer.uid == ours {
        return Ok(());
    }
    let why = format!("is served by user {}, not by {}", peer.uid.as_raw(), ours.as_raw());
    Err(UnsafePlace::new(socket, why))
}

#[cfg(not(target_os = "linux"))]
fn check_peer(_connection: &Connection, _socket: &Path) -> Result<(), UnsafePlace> {
    Ok(())
}

/// Opens or makes a 0600 file for writing; a symlink in its place is an error.
fn open_private(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | more;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
}

/// A daemon process that was started and does not answer yet.
struct Started {
    child: Child,
    log: File,
    /// Length of the log before.
    log_from: u64,
}

impl Started {
    fn spawn(places: &Places, exe: &Path) -> Result<Self, Unavailable> {
        let cannot =
            |what: &Path, error: io::Error| Unavailable::CannotStart(format!("{}: {error}", what.display()));
        let log_path = places.daemon_log();
        if log_path.symlink_metadata().is_ok_and(|meta| meta.len() > MOST_LOG) {
            let _ = std::fs::rename(&log_path, log_path.with_extension("log.1"));
        }
        let log = open_private(&log_path, OFlags::APPEND).map_err(|error| cannot(&log_path, error))?;
        let log_from = log.metadata().map_or(0, |meta| meta.len());
        let stderr = log.try_clone().map_err(|error| cannot(&log_path, error))?;
        let child = Command::new(exe)
            .arg("daemon")
            .env_clear()
            .envs(kept_vars(std::env::vars_os()))
            .envs(places.to_env())
            .env(AUTOSTARTED_VAR, "1")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|error| cannot(exe, error))?;
        Ok(Self { child, log, log_from })
    }

    fn wait_for_socket(
        mut self,
        places: &Places,
        door: Door,
        deadline: Instant,
    ) -> Result<Connection, Unavailable> {
        let mut pause = Pause::new();
        let mut ended = false;
        loop {
            match connect(places, door, Some(deadline)) {
                Err(Unavailable::NotRunning(_)) => {}
                other => {
                    self.leave();
                    return other;
                }
            }
            if !ended && let Ok(Some(status)) = self.child.try_wait() {
                if status.code() != Some(ALREADY_RUNNING_STATUS.into()) {
                    return Err(Unavailable::CannotStart(self.reason(status)));
                }
                ended = true;
            }
            if pause.take(deadline).is_err() {
                let log = places.daemon_log();
                self.leave();
                let who = if ended { "a daemon holds its lock and" } else { "it" };
                let text = format!("{who} did not answer in time (see {})", log.display());
                return Err(Unavailable::CannotStart(text));
            }
        }
    }

    /// The first error of a config that is not valid; else the last line that it wrote, else how it ended.
    fn reason(&mut self, status: ExitStatus) -> String {
        let mut text = Vec::new();
        let read = self.log.seek(SeekFrom::Start(self.log_from));
        let _ = read.and_then(|_| (&mut self.log).take(64 * 1024).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let plain = |line: &str| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some(first) = first_config_error(&text) {
            let first: String = plain(first);
            return format!("{first} (`askd config check` names every error)");
        }
        match text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
            Some(line) => plain(line),
            None => format!("it ended with {status}"),
        }
    }

    /// A long-lived starter must not keep a zombie when the daemon ends.
    fn leave(mut self) {
        let reaper = std::thread::Builder::new().name("askd-reaper".to_owned());
        let _ = reaper.spawn(move || self.child.wait());
    }
}

/// The line behind the daemon's word that its config is not valid; its errors are a line each.
fn first_config_error(log: &str) -> Option<&str> {
    let (_, errors) = log.rsplit_once("the config is not valid:\n")?;
    errors.lines().map(str::trim).find(|line| !line.is_empty())
}

fn kept_vars(vars: impl Iterator<Item = (OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    vars.filter(|(name, _)| {
        name.to_str().is_some_and(|name| KEPT_VARS.contains(&name) || name.starts_with("LC_"))
    })
}

/// Growing pauses until a deadline.
struct Pause(Duration);

impl Pause {
    fn new() -> Self {
        Self(Duration::from_millis(1))
    }

    fn take(&mut self, deadline: Instant) -> Result<(), ()> {
        if Instant::now() >= deadline {
            return Err(());
        }
        std::thread::sleep(self.0);
        self.0 = (self.0 * 3 / 2).min(Duration::from_millis(25));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_a_daemon_gets_a_cleaned_environment() {
        let given = [
            "HOME",
            "LC_ALL",
            "ASKD_PERMISSIONS__BACKGROUND_DEFAULT",
            "LD_PRELOAD",
            "ASKD_DIR",
            "CLAUDECODE",
        ];
        let kept: Vec<_> =
            kept_vars(given.iter().map(|name| (name.into(), "x".into()))).map(|(name, _)| name).collect();
        assert_eq!(kept, ["HOME", "LC_ALL"]);
    }
}
