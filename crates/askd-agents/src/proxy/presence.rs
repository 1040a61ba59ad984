//! The client as a surface: attached at the daemon as long as its sessions are open here, and again after a restart.

use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use askd_client::{Answers, CallError, Events, HttpError, OrStop, Places, Unavailable, Wake, Watch};
use askd_wire::{Code, RegisterSurface, Scope, SurfaceKind};

use super::desk::Surfaces;
use super::lock;

/// Between the first two attempts to reach the daemon.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How long nothing may come before it is looked again; nothing depends on it.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);
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
        if is_over(over, None, pause) {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads what the daemon tells its surfaces; nothing in it is news here. True: it is over.
fn stay(events: &mut Events, over: &PipeReader) -> bool {
    loop {
        if is_over(over, Some(events.as_fd()), LONGEST_SILENCE) {
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
fn is_over(over: &PipeReader, events: Option<BorrowedFd<'_>>, patience: Duration) -> bool {
    let woken = OrStop(over.as_fd()).wait(events, Instant::now() + patience);
    woken.map_or(true, |woken| woken == Wake::Stop)
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
    let mut surfaces = lock(surfaces);
    match surface {
        Some(surface) => surfaces.insert(session.to_owned(), surface),
        None => surfaces.remove(session),
    };
}
