//! Refuses directories and sockets that somebody else made or could change.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::error::UnsafePlace;

/// A directory that is ours, open to nobody else (0700) and no symlink. `Ok(false)`: it does not exist.
pub fn check_directory(path: &Path) -> Result<bool, UnsafePlace> {
    let Some(meta) = look(path)? else { return Ok(false) };
    if !meta.is_dir() {
        return Err(UnsafePlace::new(path, "is not a directory"));
    }
    check_owner_and_mode(path, &meta, 0o700)?;
    Ok(true)
}

/// A socket that is ours, open to nobody else (0600) and no symlink. `Ok(false)`: it does not exist.
pub fn check_socket(path: &Path) -> Result<bool, UnsafePlace> {
    let Some(meta) = look(path)? else { return Ok(false) };
    if !meta.file_type().is_socket() {
        return Err(UnsafePlace::new(path, "is not a socket"));
    }
    check_owner_and_mode(path, &meta, 0o600)?;
    Ok(true)
}

/// Makes the directory with mode 0700, and what is missing above it; refuses one that is there and not private.
pub fn make_private_directory(path: &Path) -> Result<(), UnsafePlace> {
    if check_directory(path)? {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    if let Err(error) = made {
        return Err(UnsafePlace::new(path, format!("cannot be made: {error}")));
    }
    // Between the look and the making somebody else may have been there.
    check_directory(path).map(drop)
}

/// Binds a socket that is 0600 from the first moment it has its name, and takes the place of a stale one. For the daemon,
/// which holds its lock: a client that comes between a bind and a chmod would refuse it.
pub fn bind_private_socket(path: &Path) -> io::Result<UnixListener> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let unnamed = Path::new(&name);
    match fs::remove_file(unnamed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(unnamed)?;
    fs::set_permissions(unnamed, Permissions::from_mode(0o600))?;
    fs::rename(unnamed, path)?;
    Ok(listener)
}

fn look(path: &Path) -> Result<Option<Metadata>, UnsafePlace> {
    match path.symlink_metadata() {
        Ok(meta) if meta.file_type().is_symlink() => {
            Err(UnsafePlace::new(path, "is a symbolic link; askd uses only real directories and sockets"))
        }
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(UnsafePlace::new(path, format!("cannot be read: {error}"))),
    }
}

fn check_owner_and_mode(path: &Path, meta: &Metadata, right: u32) -> Result<(), UnsafePlace> {
    let ours = rustix::process::geteuid().as_raw();
    if meta.uid() != ours {
        return Err(UnsafePlace::new(path, format!("belongs to user {}, not to {ours}", meta.uid())));
    }
    let mode = meta.mode() & 0o777;
    // What the owner may is the owner's own affair.
    if mode & 0o077 != 0 {
        return Err(UnsafePlace::new(
            path,
            format!("has mode {mode:04o}; it must be {right:04o} (chmod {right:o})"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn s7_open_modes_symlinks_and_other_owners_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("run");
        assert_eq!(check_directory(&dir), Ok(false));
        make_private_directory(&dir).unwrap();
        assert_eq!(check_directory(&dir), Ok(true));

        let sock = dir.join("ask.sock");
        fs::write(&sock, "stale").unwrap();
        let _listener = bind_private_socket(&sock).unwrap();
        assert_eq!(check_socket(&sock), Ok(true));
        fs::set_permissions(&sock, Permissions::from_mode(0o666)).unwrap();
        assert!(check_socket(&sock).unwrap_err().why.contains("0666"));

        let link = dir.join("link.sock");
        symlink(&sock, &link).unwrap();
        assert!(check_socket(&link).unwrap_err().why.contains("symbolic link"));
        fs::write(dir.join("file"), "").unwrap();
        assert!(check_socket(&dir.join("file")).unwrap_err().why.contains("not a socket"));

        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        assert!(make_private_directory(&dir).unwrap_err().why.contains("0755"));

        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(&dir, Some(4242), None).unwrap();
            assert!(check_directory(&dir).unwrap_err().why.contains("4242"));
        }
    }
}
