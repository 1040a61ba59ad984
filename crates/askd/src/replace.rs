//! Replacing a file that belongs to somebody else: whole or not at all, behind its symbolic link, with its mode.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use askd_client::random_hex;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Target {
    /// Where its bytes are, behind any symbolic link.
    path: PathBuf,
    pub(crate) text: Option<String>,
}

impl Target {
    /// Reads it; a file that does not exist has no text.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let path = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(io::Error::other("is a symbolic link to something that does not exist"));
                }
                return Ok(Self { path: path.to_path_buf(), text: None });
            }
            Err(error) => return Err(error),
        };
        let text = Some(text_of(&path)?);
        Ok(Self { path, text })
    }

    /// Where the bytes are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the new text, or removes the file; refuses when it was changed since it was read.
    pub(crate) fn write(&self, text: Option<&str>) -> io::Result<()> {
        let Some(text) = text else {
            self.check_unchanged()?;
            return fs::remove_file(&self.path);
        };
        let parent = self.path.parent().ok_or_else(|| io::Error::other("has no directory"))?;
        fs::create_dir_all(parent)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unique = random_hex().map_err(io::Error::other)?;
        let new = parent.join(format!(".{name}.askd-{}", &unique[..8]));
        let done = self.fill(&new, text).and_then(|()| {
            self.check_unchanged()?;
            fs::rename(&new, &self.path)
        });
        if done.is_err() {
            let _ = fs::remove_file(&new);
        }
        done
    }

    fn fill(&self, new: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        if let Ok(old) = fs::metadata(&self.path) {
            // Under sudo the file stays its owner's.
            let made = file.metadata()?;
            if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let now = match text_of(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(text?),
        };
        if now == self.text {
            Ok(())
        } else {
            Err(io::Error::other("was changed by somebody else just now; nothing was written, try again"))
        }
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    String::from_utf8(fs::read(path)?).map_err(|_| io::Error::other("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mode_and_link_stay_and_nothing_is_left_behind() {
        let temp = tempfile::tempdir().unwrap();
        let real = temp.path().join("real.json");
        let link = temp.path().join("settings.json");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        // As people keep them: a link to a link, one of them relative.
        let between = temp.path().join("between.json");
        symlink("real.json", &between).unwrap();
        symlink(&between, &link).unwrap();
        let target = Target::read(&link).unwrap();
        assert_eq!(target.text.as_deref(), Some("old"));
        target.write(Some("new")).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::read_link(&link).unwrap(), between);
        assert_eq!(fs::read_link(&between).unwrap(), Path::new("real.json"));
        assert!(!real.is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 3);
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_lost() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("deep/settings.json");
        let target = Target::read(&path).unwrap();
        assert_eq!(target.text, None);
        target.write(Some("ours")).unwrap();
        assert!(target.write(Some("again")).unwrap_err().to_string().contains("changed by somebody else"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        let target = Target::read(&path).unwrap();
        target.write(None).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_link_to_nowhere_and_bytes_that_are_no_text_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let link = temp.path().join("link");
        symlink(temp.path().join("none"), &link).unwrap();
        assert!(Target::read(&link).unwrap_err().to_string().contains("symbolic link"));
        let path = temp.path().join("bytes");
        fs::write(&path, b"\xff").unwrap();
        assert!(Target::read(&path).unwrap_err().to_string().contains("UTF-8"));
    }
}
