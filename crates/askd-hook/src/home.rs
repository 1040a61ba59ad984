//! The user's home directory, without the libraries that look up users elsewhere: a program that is linked statically
//! can load them only where the very same ones are installed, and brings a part of them along.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// `HOME`, else what `/etc/passwd` says.
pub(crate) fn of_user() -> Option<PathBuf> {
    let told = std::env::var_os("HOME").filter(|home| !home.is_empty());
    told.map(PathBuf::from)
        .or_else(|| in_passwd(&std::fs::read("/etc/passwd").ok()?, rustix::process::getuid().as_raw()))
}

/// The first line of this user counts, as for everybody who reads the file.
fn in_passwd(text: &[u8], user: u32) -> Option<PathBuf> {
    let user = user.to_string();
    let line = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&user.as_bytes()))?;
    let home = line.get(5).filter(|home| home.starts_with(b"/"))?;
    Some(PathBuf::from(OsString::from_vec(home.to_vec())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_home_of_a_user_is_found_and_nobody_elses() {
        let text = b"root:x:0:0:root:/root:/bin/sh\n\nme:x:1000:1000:,,,:/home/me:/bin/sh\nme2:x:1000:1:::\nno:x:7:7::none:\n";
        assert_eq!(in_passwd(text, 1000).as_deref(), Some(Path::new("/home/me")));
        assert_eq!(in_passwd(text, 0).as_deref(), Some(Path::new("/root")));
        for user in [1, 7, 100, 10000] {
            assert_eq!(in_passwd(text, user), None, "{user}");
        }
        assert_eq!(in_passwd(b"", 0), None);
    }

    #[test]
    fn here_it_is_what_everybody_else_says() {
        assert_eq!(of_user(), std::env::home_dir());
    }
}
