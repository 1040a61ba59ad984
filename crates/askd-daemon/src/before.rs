//! What a daemon leaves to the next one, however it ends: how many surfaces are attached. They need a moment to come back,
//! and requesters are faster.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use askd_client::Places;
use askd_core::BootId;

use crate::start::replace;

/// Longest content of the file in bytes.
const LONGEST: u64 = 64;

/// The number, kept current in a file while the daemon runs, so that it is there after a crash too.
#[derive(Debug)]
pub(crate) struct Note {
    file: PathBuf,
    /// Surfaces do not outlive it.
    boot: BootId,
    known: Mutex<Known>,
    /// What is in the file; held while it is written.
    written: Mutex<Option<usize>>,
}

#[derive(Debug, Default)]
struct Known {
    count: Option<usize>,
    /// The daemon leaves: that its streams end now says nothing.
    left: bool,
}

impl Note {
    pub(crate) fn new(places: &Places, boot: BootId) -> Self {
        Self {
            file: places.state_dir().join("surfaces"),
            boot,
            known: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// The number of surfaces that were attached to the daemon before, in this boot; 0 when a person stopped that one.
    pub(crate) fn before(&self) -> usize {
        let mut text = String::new();
        if fs::symlink_metadata(&self.file).is_ok_and(|meta| meta.is_file()) {
            let _ = fs::File::open(&self.file).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
        }
        match text.trim().split_once(' ') {
            Some((boot, count)) if boot == self.boot.0.to_string() => count.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// So many are attached now. It is written beside whoever asks: a disk that hangs holds up nobody.
    pub(crate) fn write(self: &Arc<Self>, count: usize) {
        let Ok(mut known) = self.known.lock() else { return };
        if known.left || known.count == Some(count) {
            return;
        }
        known.count = Some(count);
        drop(known);
        let this = Arc::clone(self);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || this.flush())),
            Err(_) => this.flush(),
        }
    }

    /// Writes what is known by now, whoever of several comes first. Without it the next daemon only does not wait.
    fn flush(&self) {
        let Ok(mut written) = self.written.lock() else { return };
        let Ok((count, left)) = self.known.lock().map(|known| (known.count, known.left)) else { return };
        let Some(count) = count.filter(|count| !left && *written != Some(*count)) else { return };
        match replace(&self.file, format!("{} {count}", self.boot.0).as_bytes()) {
            Ok(()) => *written = Some(count),
            Err(error) => tracing::warn!("noting how many surfaces are attached: {error}"),
        }
    }

    /// From now on it stays as it is; for good: nobody is to be waited for.
    pub(crate) fn leave(&self, for_good: bool) {
        self.flush();
        let Ok(_written) = self.written.lock() else { return };
        if let Ok(mut known) = self.known.lock() {
            known.left = true;
        }
        if for_good {
            let _ = fs::remove_file(&self.file);
        }
    }
}
