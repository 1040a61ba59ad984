//! Who a script is: its session, and the requester token of a key.
//!
//! A key alone never re-attaches; the token does. So that a script which was restarted finds its ask again, the token of
//! a key is made from the key and from random bits that only this user can read (`state/requester.secret`). It lets
//! its holder wait for, fetch and withdraw asks of that key. It answers nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use askd_client::{Places, make_private_directory, random_hex};
use askd_wire::Instance;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// The token under which every run with this key raises its ask.
pub(crate) fn token_of(places: &Places, key: &str) -> Result<String, Failure> {
    make_private_directory(places.state_dir())?;
    let path = places.state_dir().join("requester.secret");
    let secret =
        secret(&path).map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))?;
    Ok(derive(&secret, key))
}

/// The secret outside and the key inside: knowing the tokens of some keys tells nothing of others.
fn derive(secret: &str, key: &str) -> String {
    let inner = Sha256::new_with_prefix(secret).chain_update([0]).chain_update(key).finalize();
    let outer = Sha256::new_with_prefix(secret).chain_update([1]).chain_update(inner).finalize();
    hex(&outer[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the secret, or makes one; of several that do so at once, one wins and all use it.
fn secret(path: &Path) -> io::Result<String> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    let secret = random_hex().map_err(io::Error::other)? + &random_hex().map_err(io::Error::other)?;
    let new = path.with_extension(random_hex().map_err(io::Error::other)?);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(secret.as_bytes())?;
    file.sync_all()?;
    // A link fails when somebody was faster, and shows the file only when it is whole.
    let linked = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path)?.ok_or_else(|| io::Error::other("it was removed while it was made")),
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text)?;
    let text = text.trim();
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Some(text.to_owned()))
    } else {
        Err(io::Error::other("does not hold 64 hexadecimal digits; remove it"))
    }
}

/// A session for the calling process and the directory it is in: asks of one script belong together, those of another
/// script, or of the same one elsewhere, do not.
pub(crate) fn own_session(cwd: &str) -> String {
    let parent = std::os::unix::process::parent_id();
    let start = start_of(parent).unwrap_or_default();
    let directory = hex(&Sha256::digest(cwd)[..4]);
    format!("{parent}.{start}-{directory}")
}

/// This process, as an agent that must not answer its own asks.
pub(crate) fn own_instance() -> Instance {
    let pid = std::process::id();
    Instance { pid, start: start_of(pid).unwrap_or_default() }
}

/// Start of a process in clock ticks since boot, so that a number that is used again is another session.
fn start_of(pid: u32) -> Option<u64> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The name may hold spaces and parentheses; field 22 is the 20th behind it.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_keeps_its_token_and_another_has_another() {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::at(&temp.path().join("askd"));
        let token = token_of(&places, "build-7").unwrap();
        assert_eq!(token.len(), 32);
        assert_eq!(token_of(&places, "build-7").unwrap(), token);
        assert_ne!(token_of(&places, "build-8").unwrap(), token);
        let elsewhere = Places::at(&temp.path().join("other"));
        assert_ne!(token_of(&elsewhere, "build-7").unwrap(), token);
        let mode = fs::metadata(places.state_dir().join("requester.secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_spoilt_secret_is_named_and_not_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::at(&temp.path().join("askd"));
        token_of(&places, "k").unwrap();
        let path = places.state_dir().join("requester.secret");
        fs::write(&path, "short").unwrap();
        let failure = token_of(&places, "k").unwrap_err();
        assert!(failure.text.contains("requester.secret") && failure.text.contains("remove it"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    }

    #[test]
    fn many_at_once_get_one_secret() {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::at(&temp.path().join("askd"));
        let places = &places;
        let tokens: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| token_of(places, "k").unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }

    #[test]
    fn sessions_differ_by_directory() {
        assert_eq!(own_session("/a"), own_session("/a"));
        assert_ne!(own_session("/a"), own_session("/b"));
    }
}
