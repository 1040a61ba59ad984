//! `askd daemon`: runs it in the foreground, or stops the one that runs.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askd_client::daemon::{self, AUTOSTARTED_VAR};
use askd_client::{Connection, Places, Surroundings, Unavailable, make_private_directory};
use askd_daemon::{InForce, Options, SettingsWatch, StartError};
use askd_remote::Host;
use askd_wire::Ask;
use askd_words::is_handed_back;
use rustix::fs::{FlockOperation, flock};

use crate::cli::{DaemonAction, DaemonArgs};
use crate::cmd::restart;
use crate::cmd::spool::Trees;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out;
use crate::view;

/// How long a daemon may take to let go of everything.
const LEAVE_PATIENCE: Duration = Duration::from_secs(30);
/// For a reply of a daemon that is asked to leave.
const REPLY_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn command(desk: &Desk, args: DaemonArgs) -> Done {
    match args.action {
        None => serve(desk, args.journal, args.no_surfaces),
        Some(DaemonAction::Stop) => stop(desk),
        Some(DaemonAction::Restart) => restart::restart(desk),
    }
}

fn serve(desk: &Desk, journal: Option<String>, no_surfaces: bool) -> Done {
    let autostarted = std::env::var_os(AUTOSTARTED_VAR).is_some_and(|value| !value.is_empty());
    let inside = askd_daemon::inside_agent().is_some();
    if autostarted || inside {
        surround(desk)?;
    } else {
        desk.keep_surroundings();
    }
    let filter = std::env::var("ASKD_LOG").ok().filter(|_| !autostarted);
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| "info".to_owned()))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // Telling it on a terminal that was closed would be a panic, and the daemon outlives its terminal.
        .log_internal_errors(false)
        .init();
    let trees = Trees::start(desk.places.clone());
    // Remote surfaces live in this process, and use the daemon as everybody does.
    let host = Host::start(desk.places.clone())
        .map_err(|error| Failure::unavailable(format!("a thread cannot be started: {error}")))?;
    let host = Arc::new(host);
    let watch = SettingsWatch(Arc::new({
        let (trees, host) = (trees.watch(), Arc::clone(&host));
        move |in_force: &InForce| {
            (trees.0)(in_force);
            if !no_surfaces {
                host.set(&in_force.settings, in_force.token.as_ref());
            }
        }
    }));
    let options =
        Options { places: desk.places.clone(), journal, no_surfaces, autostarted, watch: Some(watch) };
    let ran = askd_daemon::run(options);
    trees.stop();
    host.stop();
    ran.map_err(|error| {
        if let Some(wrong) = wrong_flag(&error) {
            return Failure::wrong_use(wrong);
        }
        // The config's errors are several lines, each made safe where it was made.
        let lines: Vec<String> = error.to_string().lines().map(out::one_line).collect();
        Failure::new(error.status(), lines.join("\n"))
    })?;
    Ok(status::OK)
}

/// A daemon that no person started has the home directory, the programs and the config of the person who last started
/// one: this process begins anew with them where it has others.
fn surround(desk: &Desk) -> Result<(), Failure> {
    let Some(kept) = Surroundings::kept(&desk.places) else { return Ok(()) };
    let Some(vars) = kept.replace(&desk.places, std::env::vars_os()) else { return Ok(()) };
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let error = Command::new(&exe).args(std::env::args_os().skip(1)).env_clear().envs(vars).exec();
    Err(Failure::unavailable(format!("{}: {error}", exe.display())))
}

/// What is wrong when it is the command line alone, and no config.
fn wrong_flag(error: &StartError) -> Option<String> {
    let StartError::Config(errors) = error else { return None };
    let lines: Vec<String> = errors.errors().iter().map(|error| out::one_line(&error.to_string())).collect();
    lines.iter().all(|line| line.starts_with("--")).then(|| lines.join("\n"))
}

fn stop(desk: &Desk) -> Done {
    let stopped = "agents ask by themselves until you run `askd` or `askd daemon`";
    match desk.running() {
        Ok(connection) => {
            let left = left_behind(desk);
            tell(connection, "stop")?;
            gone(&desk.places)?;
            out::print_line(&format!("stopped; {stopped}"))?;
            out::print(&left)?;
        }
        Err(Unavailable::NotRunning(_)) => {
            // A daemon that runs refuses it by itself.
            if let Some(mark) = askd_daemon::inside_agent() {
                let text = "an agent does not stop askd; do it in a terminal of your own";
                return Err(Failure::new(status::NOT_PERMITTED, format!("{text} ({mark} is set here)")));
            }
            mark_stopped(&desk.places)?;
            out::print_line(&format!("no daemon was running; {stopped}"))?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(status::OK)
}

/// What is open and is no agent's that could ask by itself: asks of wrapped agents, and of scripts.
fn left_behind(desk: &Desk) -> String {
    let asks = desk.answers().ok().and_then(|mut answers| answers.list(false).ok()).unwrap_or_default();
    let waits =
        |ask: &&Ask| ask.requester.link == "attached" && ask.requester.kind.as_deref() == Some("script");
    let scripts = asks.iter().filter(waits).count();
    let scripts = match scripts {
        0 => String::new(),
        1 => "1 ask of a script was let go: nobody decided it, and askd ask exits with 4\n".to_owned(),
        n => format!("{n} asks of scripts were let go: nobody decided them, and askd ask exits with 4\n"),
    };
    scripts + &waiting(&asks)
}

/// The asks of wrapped agents, which have no prompt of their own to go back to: one line each, with how long they wait.
fn waiting(asks: &[Ask]) -> String {
    let clock = view::Clock::system();
    let wrapped = |ask: &&Ask| ask.requester.kind.as_deref() == Some("proxy") && !is_handed_back(ask);
    let mut lines: Vec<String> = asks
        .iter()
        .filter(wrapped)
        .map(|ask| {
            let until = view::timed(ask, &clock).unwrap_or_else(|| "as long as it takes".to_owned());
            format!("  {}  {}: {until}\n", out::safe(&ask.handle), out::safe(&ask.action.tool))
        })
        .collect();
    if !lines.is_empty() {
        let head = "these wait for askd to come back, unless a host of theirs answers them:\n";
        lines.insert(0, head.to_owned());
    }
    lines.concat()
}

/// `POST /v1/daemon/{what}`; the reply comes before the daemon goes.
pub(crate) fn tell(mut connection: Connection, what: &str) -> Result<(), Failure> {
    connection.set_timeout(REPLY_PATIENCE);
    connection.command("POST", &format!("/v1/daemon/{what}"), None::<&()>)?;
    Ok(())
}

/// Waits until the daemon has let go of its lock.
pub(crate) fn gone(places: &Places) -> Result<(), Failure> {
    let path = places.daemon_lock();
    let deadline = Instant::now() + LEAVE_PATIENCE;
    loop {
        match OpenOptions::new().read(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::unavailable(format!("{}: {error}", path.display()))),
            Ok(file) => {
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    return Ok(());
                }
            }
        }
        if Instant::now() >= deadline {
            let text = "the daemon said that it goes, and still holds its lock after 30s";
            return Err(Failure::unavailable(format!("{text} ({})", path.display())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a stopping daemon leaves, so that no requester starts one.
fn mark_stopped(places: &Places) -> Result<(), Failure> {
    make_private_directory(places.state_dir())?;
    let path = places.stopped_file();
    let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    made.map(drop).map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))
}
