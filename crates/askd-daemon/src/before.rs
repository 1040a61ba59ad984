//! What a daemon that makes room for the next one leaves to it: how many surfaces were attached. They need a moment to come
//! back, and requesters are faster.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use askd_client::Places;

use crate::start::replace;

/// Who comes later than this is no restart any more.
const SOON: Duration = Duration::from_secs(60);

fn file(places: &Places) -> PathBuf {
    places.state_dir().join("surfaces")
}

/// Notes it for the next one. Without it that one only does not wait for them.
pub(crate) fn leave(places: &Places, surfaces: usize) {
    if surfaces > 0
        && let Err(error) = replace(&file(places), surfaces.to_string().as_bytes())
    {
        tracing::warn!("noting how many surfaces are attached: {error}");
    }
}

/// The number of surfaces that were attached to the one before, when it left a moment ago. It is told once.
pub(crate) fn take(places: &Places) -> usize {
    let path = file(places);
    let Ok(meta) = fs::symlink_metadata(&path) else { return 0 };
    let age = meta.modified().ok().and_then(|left| SystemTime::now().duration_since(left).ok());
    let mut text = String::new();
    if meta.is_file() && age.is_some_and(|age| age < SOON) {
        let _ = fs::File::open(&path).and_then(|file| file.take(16).read_to_string(&mut text));
    }
    let _ = fs::remove_file(&path);
    text.trim().parse().unwrap_or(0)
}
