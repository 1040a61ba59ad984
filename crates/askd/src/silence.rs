//! A daemon that is there and says nothing: told after a moment, and not only when the wait for it is over.

use std::time::{Duration, Instant};

use askd_client::{CallError, Connection, HttpError, Places};
use askd_wire::Health;

use crate::out;

/// How long a daemon may say nothing until a person is told. It replies within milliseconds, or after one slow commit.
const SILENCE: Duration = Duration::from_secs(3);

/// How soon it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// Asks the daemon how it is. `None`: it says nothing for [`SILENCE`].
pub(crate) fn health(connection: &mut Connection) -> Option<Result<Health, CallError>> {
    connection.set_timeout(SILENCE);
    match connection.call("GET", "/healthz", None::<&()>) {
        Err(CallError::Http(HttpError::TimedOut)) => None,
        told => Some(told),
    }
}

/// What a daemon says when it has read everything that its config leads to, or as it is after `patience`: it may have
/// just begun, or run a command for a bot's token.
pub(crate) fn when_read<T>(
    patience: Duration,
    mut ask: impl FnMut() -> T,
    health: impl Fn(&T) -> Option<&Health>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        let told = ask();
        if !health(&told).is_some_and(|health| health.reading) || Instant::now() >= end {
            return told;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Gives the connection back when the daemon replies on it. Otherwise the person is told that it does not, and another
/// one by `again` waits for as long as any.
pub(crate) fn awake<E>(
    mut connection: Connection,
    places: &Places,
    again: impl FnOnce() -> Result<Connection, E>,
) -> Result<Connection, E> {
    match health(&mut connection) {
        // What else is wrong is said by the call itself.
        Some(_) if connection.is_reusable() => Ok(connection),
        Some(_) => again(),
        None => {
            let (what, todo) = about(places);
            out::tell(&format!("askd: {what}; waiting for it ({todo})"));
            again()
        }
    }
}

/// What is wrong with a daemon that says nothing, and what to do.
pub(crate) fn about(places: &Places) -> (String, String) {
    let secs = SILENCE.as_secs();
    let Some(pid) = places.read_daemon_file().map(|file| file.pid) else {
        return (format!("the daemon has said nothing for {secs}s"), "askd daemon restart".to_owned());
    };
    if is_stopped(pid) {
        let what =
            format!("the daemon (process {pid}) has said nothing for {secs}s: it is stopped by a signal");
        return (what, format!("kill -CONT {pid}"));
    }
    let what = format!("the daemon (process {pid}) has said nothing for {secs}s");
    (what, format!("see {}; kill {pid} ends it", out::safe(&places.daemon_log().to_string_lossy())))
}

/// As by Ctrl-Z or `kill -STOP`, where the system tells.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    // The name in front of it may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}
