//! Who a tree is to the daemon.

use std::io;
use std::path::Path;

use askd_client::spool::Put;
use askd_client::{Places, make_private_directory, random_hex};

use super::StartError;
use crate::spool::lock;

/// Who this tree is to the daemon: the same in every run, so that no ask is raised twice and no answer is lost.
pub(super) fn token(places: &Places, root: &Path) -> Result<String, StartError> {
    let dir = places.state_dir().join("spool");
    make_private_directory(places.state_dir())?;
    make_private_directory(&dir)?;
    let path = dir.join(format!("{:016x}.token", lock::fnv1a(root.as_os_str().as_encoded_bytes())));
    let place = askd_client::spool::Dir::root(&dir).map_err(io::Error::other)?;
    let place = place.ok_or(io::Error::from(io::ErrorKind::NotFound))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    for _ in 0..3 {
        if let Some((_, bytes)) = place.read(name, 256).map_err(io::Error::other)?
            && let Ok(text) = String::from_utf8(bytes)
            && text.len() == 32
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Ok(text);
        }
        let new = random_hex().map_err(|error| io::Error::other(format!("no random bits: {error}")))?;
        // Of two that start at the same time both use the one that was first.
        if place.put_new(name, new.as_bytes()).map_err(io::Error::other)? == Put::Taken {
            let readable = place.read(name, 256).is_ok_and(|read| read.is_some_and(|(_, b)| b.len() == 32));
            if !readable {
                place.replace(name, new.as_bytes()).map_err(io::Error::other)?;
            }
        }
    }
    Err(StartError::Io(io::Error::other(format!("{}: cannot be read", path.display()))))
}
