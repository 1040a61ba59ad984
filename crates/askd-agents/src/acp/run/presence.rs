//! The client as a surface: attached at the daemon as long as its sessions are open here, and again after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use askd_client::{Answers, CallError, HttpError, Places};
use askd_wire::{RegisterSurface, Scope, SurfaceKind};

use super::desk::Surfaces;

const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// Keeps one root session's surface attached until `over`.
pub(super) fn keep(
    places: &Places,
    surfaces: &Surfaces,
    client: &str,
    agent: &str,
    session: &str,
    over: &Arc<AtomicBool>,
) {
    while !over.load(Ordering::Relaxed) {
        let attached = attach(places, client, &format!("{agent}/{session}"));
        if let Ok((surface, mut events)) = attached {
            set(surfaces, session, Some(surface));
            while !over.load(Ordering::Relaxed) {
                events.set_deadline(Some(Instant::now() + LOOK));
                match events.receive() {
                    Ok(Some(_)) | Err(CallError::Http(HttpError::TimedOut)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
            set(surfaces, session, None);
        }
        std::thread::sleep(PAUSE);
    }
}

fn attach(places: &Places, client: &str, root: &str) -> Result<(String, askd_client::Events), CallError> {
    let to_call = |error: askd_client::Unavailable| CallError::Skew(error.to_string());
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
