//! What a daemon leaves to the next one, however it ends: how many surfaces are attached. They need a moment to come back,
//! and requesters are faster.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Mutex;

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
    state: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    last: Option<usize>,
    /// The daemon leaves: that its streams end now says nothing.
    left: bool,
}

impl Note {
    pub(crate) fn new(places: &Places, boot: BootId) -> Self {
        Self { file: places.state_dir().join("surfaces"), boot, state: Mutex::default() }
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

    /// Without it the next one only does not wait for them.
    pub(crate) fn write(&self, count: usize) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.left || state.last == Some(count) {
            return;
        }
        state.last = Some(count);
        if let Err(error) = replace(&self.file, format!("{} {count}", self.boot.0).as_bytes()) {
            tracing::warn!("noting how many surfaces are attached: {error}");
        }
    }

    /// From now on it stays as it is; for good: nobody is to be waited for.
    pub(crate) fn leave(&self, for_good: bool) {
        let Ok(mut state) = self.state.lock() else { return };
        state.left = true;
        if for_good {
            let _ = fs::remove_file(&self.file);
        }
    }
}
