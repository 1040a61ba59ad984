//! Trees that are not where their path leads any more: somebody made the link point elsewhere, or moved the directory and
//! put another one there. What is open in them gets its answers where it waits; nothing new is taken there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::worker::Worker;
use super::{Shared, StartError, locked};

/// Those of one server.
#[derive(Debug, Default)]
pub(super) struct Former(Mutex<Vec<One>>);

#[derive(Debug)]
struct One {
    of: (u64, u64),
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Former {
    /// They are told to end already.
    pub(super) fn end_all(&self) {
        for one in std::mem::take(&mut *locked(&self.0)) {
            let _ = one.thread.join();
        }
    }
}

/// Serves a tree to the end of what is open in it, by a thread of its own.
pub(super) fn serve_to_its_end(mut worker: Worker, of: Option<(u64, u64)>) -> Result<(), StartError> {
    let shared = Arc::clone(&worker.shared);
    let stop = Arc::new(AtomicBool::new(false));
    worker.is_former = Some(Arc::clone(&stop));
    let thread = std::thread::Builder::new().name("spool-former".to_owned()).spawn(move || worker.run())?;
    let mut former = locked(&shared.former.0);
    former.retain(|one| !one.thread.is_finished());
    former.extend(of.map(|of| One { of, stop, thread }));
    Ok(())
}

/// The path leads to this one again: what is open in it stays open for whoever serves it now.
pub(super) fn end(shared: &Shared, of: (u64, u64)) {
    let ended: Vec<One> = locked(&shared.former.0).extract_if(.., |one| one.of == of).collect();
    for one in &ended {
        one.stop.store(true, Ordering::SeqCst);
    }
    shared.wake();
    for one in ended {
        let _ = one.thread.join();
    }
}
