//! The client as a surface: attached at the daemon as long as its sessions are open here, and again after a restart.

use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use askd_client::{Answers, CallError, Events, HttpError, Places, Unavailable};
use askd_wire::{Code, RegisterSurface, Scope, SurfaceKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::desk::Surfaces;

/// Between the first two attempts to reach the daemon.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// For what of an event is still on its way.
const REST: Duration = Duration::from_millis(50);

/// Keeps one root session's surface attached until the other end of `over` is gone.
pub(super) fn keep(
    places: &Places,
    surfaces: &Surfaces,
    client: &str,
    agent: &str,
    session: &str,
    over: &PipeReader,
) {
    let mut pause = PAUSE;
    loop {
        match attach(places, client, &format!("{agent}/{session}")) {
            Ok((surface, mut events)) => {
                set(surfaces, session, Some(surface));
                let ended = stay(&mut events, over);
                set(surfaces, session, None);
                pause = PAUSE;
                if ended {
                    return;
                }
            }
            // A client in an agent's own process tree is nobody's surface, now or later.
            Err(CallError::Refused(problem)) if problem.code == Code::NotPermitted => return,
            Err(_) => {}
        }
        if is_over(over, None, Some(pause)) {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads what the daemon tells its surfaces; nothing in it is news here. True: it is over.
fn stay(events: &mut Events, over: &PipeReader) -> bool {
    loop {
        if is_over(over, Some(events.as_fd()), None) {
            return true;
        }
        loop {
            events.set_deadline(Some(Instant::now() + REST));
            match events.receive() {
                Ok(Some(_)) => {}
                Err(CallError::Http(HttpError::TimedOut)) => break,
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

/// Waits for the end, or for something to read, or for the time to pass.
fn is_over(over: &PipeReader, events: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> bool {
    let mut fds = vec![PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN)];
    fds.extend(events.map(|events| PollFd::from_borrowed_fd(events, PollFlags::IN)));
    let span = patience.map(|patience| Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    match poll(&mut fds, span.as_ref()) {
        Ok(_) => !fds[0].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

fn attach(places: &Places, client: &str, root: &str) -> Result<(String, Events), CallError> {
    let to_call = |error: Unavailable| CallError::Skew(error.to_string());
    let mut answers = Answers::connect(places).map_err(to_call)?;
    let registered = answers.register(&RegisterSurface {
        name: client.to_owned(),
        kind: SurfaceKind::Direct,
        scope: Scope::Roots(vec![root.to_owned()]),
        capacity: None,
    })?;
    let events = answers.events(Some(&registered.surface), None)?;
    Ok((registered.surface, events))
}

fn set(surfaces: &Surfaces, session: &str, surface: Option<String>) {
    let mut surfaces = surfaces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match surface {
        Some(surface) => surfaces.insert(session.to_owned(), surface),
        None => surfaces.remove(session),
    };
}
