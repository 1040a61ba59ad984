//! `askd daemon restart`: the same daemon again, of this program's version, under its requesters.
//!
//! Requesters reconnect the moment the old daemon goes, and would start one with default options. So this holds the
//! start lock from before the old one goes until the new one answers, and gives the new one the arguments, the
//! directory and the environment of the old one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use askd_client::daemon::{self, AUTOSTARTED_VAR, Door, START_PATIENCE};
use askd_client::{Answers, Places, Unavailable, make_private_directory};
use askd_daemon::Options;
use clap::Parser as _;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::cli::{self, Cli};
use crate::cmd::daemon::{gone, tell};
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out;

/// How a running daemon was started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Started {
    /// What follows the program: `daemon --journal …`.
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: PathBuf,
}

impl Started {
    /// From `/proc`; none where there is no such thing.
    fn of(pid: u32) -> Option<Self> {
        let args = fields(&fs::read(format!("/proc/{pid}/cmdline")).ok()?);
        let env = fields(&fs::read(format!("/proc/{pid}/environ")).ok()?);
        let dir = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let args: Vec<OsString> = args.into_iter().skip(1).collect();
        // Anything else is no daemon of ours: a number that is used again.
        if args.first().is_none_or(|first| first != "daemon") {
            return None;
        }
        Some(Self { args, env: env.iter().filter_map(|var| split(var)).collect(), dir })
    }
}

fn fields(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|field| OsStr::from_bytes(field).to_owned()).collect()
}

fn split(var: &OsStr) -> Option<(OsString, OsString)> {
    let at = var.as_bytes().iter().position(|byte| *byte == b'=')?;
    let (name, value) = var.as_bytes().split_at(at);
    Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(&value[1..]).to_owned()))
}

pub(crate) fn restart(desk: &Desk) -> Done {
    let places = &desk.places;
    let connection = match desk.running() {
        Err(Unavailable::NotRunning(_)) => {
            let text = "no daemon runs: start it with `askd` or `askd daemon`";
            return Err(Failure::unavailable(text));
        }
        connection => connection?,
    };
    // Its file is missing, or one of before, when the disk was full; then it says itself who it is.
    let told = places.read_daemon_file().and_then(|file| Started::of(file.pid));
    let started = told.or_else(|| who_answers(places).ok().and_then(Started::of));
    let lock = start_lock(places)?;
    would_start(places, started.as_ref())?;
    tell(connection, "restart")?;
    gone(places)?;
    match started {
        Some(started) => {
            spawn(places, &started)?;
            drop(lock);
        }
        None => {
            // Nobody knows its options any more: the default ones, as a requester would start it.
            drop(lock);
            desk.start(Door::Answer)?;
        }
    }
    // A socket is there before everything else of a start has gone well.
    let pid = who_answers(places).map_err(|error| {
        let (why, log) = (error.text, places.daemon_log());
        Failure::unavailable(format!("the daemon does not start again: {why} (see {})", log.display()))
    })?;
    out::print_line(&format!("restarted (process {pid}); open asks stay open"))?;
    Ok(status::OK)
}

/// Which process answers.
fn who_answers(places: &Places) -> Result<u32, Failure> {
    Ok(Answers::connect(places)?.health()?.pid)
}

/// A daemon that works is not given up for one that would not start.
fn would_start(places: &Places, started: Option<&Started>) -> Result<(), Failure> {
    let as_it_is = "nothing was changed, the daemon goes on as it was; it would not start again:";
    let mut options =
        Options { places: places.clone(), journal: None, no_surfaces: false, autostarted: true, watch: None };
    let (mut env, mut dir) = (Vec::new(), Path::new("/"));
    if let Some(started) = started {
        let line = std::iter::once(OsString::from("askd")).chain(started.args.iter().cloned());
        let line = Cli::try_parse_from(line).map(|cli| cli.command);
        let Ok(Some(cli::Command::Daemon(args))) = line else {
            let why = "this askd does not know the options that it was started with";
            return Err(Failure::unavailable(format!("{as_it_is} {why}")));
        };
        options.autostarted =
            started.env.iter().any(|(name, value)| name == AUTOSTARTED_VAR && !value.is_empty());
        options.no_surfaces = args.no_surfaces;
        options.journal = args.journal;
        (env, dir) = (started.env.clone(), started.dir.as_path());
    }
    askd_daemon::check(&options, env, dir).map_err(|error| {
        // The config's errors are several lines, each made safe where it was made.
        let lines: Vec<String> = error.to_string().lines().map(out::one_line).collect();
        Failure::new(error.status(), format!("{as_it_is}\n{}", lines.join("\n")))
    })
}

/// Waits for others who are starting a daemon just now.
fn start_lock(places: &Places) -> Result<File, Failure> {
    make_private_directory(places.state_dir())?;
    let path = places.start_lock();
    let failed = |error: io::Error| Failure::unavailable(format!("{}: {error}", path.display()));
    let file = private(&path, OFlags::empty()).map_err(failed)?;
    let deadline = Instant::now() + START_PATIENCE * 2;
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if !matches!(error, rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) {
            return Err(failed(error.into()));
        }
        if Instant::now() >= deadline {
            return Err(Failure::unavailable(
                "another program is starting the daemon and does not get through",
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}

fn private(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = i32::try_from((flags | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

fn spawn(places: &Places, started: &Started) -> Result<(), Failure> {
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let log_path = places.daemon_log();
    let failed = |error: io::Error| Failure::unavailable(format!("the daemon cannot be started: {error}"));
    let log = private(&log_path, OFlags::APPEND).map_err(failed)?;
    let from = log.metadata().map_or(0, |meta| meta.len());
    // The directory of the old one may be gone; it only matters for a relative path in its arguments.
    let dir = if started.dir.is_dir() { started.dir.clone() } else { PathBuf::from("/") };
    let mut child = Command::new(exe)
        .args(&started.args)
        .env_clear()
        .envs(started.env.iter().map(|(name, value)| (name, value)))
        .envs(places.to_env())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C in this terminal is not for it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let deadline = Instant::now() + START_PATIENCE * 2;
    loop {
        match daemon::connect(places, Door::Answer, Some(deadline)) {
            Ok(_) => return Ok(()),
            Err(Unavailable::NotRunning(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if let Ok(Some(ended)) = child.try_wait() {
            let said = fs::read(&log_path).unwrap_or_default();
            let from = usize::try_from(from).unwrap_or(usize::MAX).min(said.len());
            let said = String::from_utf8_lossy(&said[from..]).into_owned();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).map(out::one_line);
            let why = last.unwrap_or_else(|| format!("it ended with {ended}"));
            return Err(Failure::unavailable(format!("the daemon does not start again: {why}")));
        }
        if Instant::now() >= deadline {
            let text = format!("the new daemon does not answer (see {})", log_path.display());
            return Err(Failure::unavailable(text));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_arguments_and_values_are_kept() {
        assert_eq!(fields(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(fields(b""), Vec::<OsString>::new());
        assert_eq!(split(OsStr::new("A=b=c")), Some(("A".into(), "b=c".into())));
        assert_eq!(split(OsStr::new("A=")), Some(("A".into(), "".into())));
        assert_eq!(split(OsStr::new("A")), None);
    }

    #[test]
    fn another_program_with_the_number_is_no_daemon() {
        assert_eq!(Started::of(std::process::id()), None);
    }
}
