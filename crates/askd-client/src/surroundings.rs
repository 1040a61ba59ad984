//! What a daemon takes from the environment of the person who last started one, kept for the daemons that requesters
//! start: an agent's shell must not choose the config, the home directory or the programs of a daemon.
//!
//! Where nobody has started one yet, nothing is known, and the environment of the starter counts.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::guard::make_private_directory;
use crate::places::Places;

/// Longest file that is read.
const MOST_BYTES: u64 = 256 * 1024;

/// Absent is what was not set, or is no text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Home directory of the config; none where one directory holds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config_home: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The journal that was written last. What a person accepted is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<PathBuf>,
}

impl Surroundings {
    /// What is kept at these places; `None`: nothing, or nothing that can be read.
    pub fn kept(places: &Places) -> Option<Self> {
        use std::io::Read;
        let mut text = Vec::new();
        let file = fs::File::open(places.surroundings_file()).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps those of this process, which a person started.
    pub fn keep_own(places: &Places) -> io::Result<()> {
        let own = Self::of(places, |name| std::env::var_os(name));
        Self::change(places, |kept| {
            let journal = kept.journal.take();
            *kept = Self { journal, ..own };
        })
    }

    /// Keeps the journal that is used from now on.
    pub fn keep_journal(places: &Places, journal: &Path) -> io::Result<()> {
        Self::change(places, |kept| kept.journal = Some(journal.to_path_buf()))
    }

    /// The journal that was used last.
    pub fn journal(&self) -> Option<&Path> {
        self.journal.as_deref()
    }

    /// The environment and the places with which a daemon runs that no person started, given those it was started with.
    /// The same again for the result. `None`: they are as they shall be.
    pub fn replace(
        &self,
        places: &Places,
        given: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Option<Vec<(OsString, OsString)>> {
        let given: Vec<_> = given.into_iter().collect();
        let mut wanted: Vec<(&str, Option<OsString>)> = vec![
            ("HOME", self.home.clone().map(PathBuf::into_os_string)),
            ("PATH", self.path.clone().map(OsString::from)),
        ];
        let places =
            self.config_home.as_deref().map_or_else(|| places.clone(), |home| places.with_config_home(home));
        wanted.extend(places.to_env().into_iter().map(|(name, value)| (name, Some(value.into_os_string()))));
        let value = |of: &str| given.iter().find(|(name, _)| name == of).map(|(_, value)| value.clone());
        if wanted.iter().all(|(name, wanted)| wanted.is_none() || value(name) == *wanted) {
            return None;
        }
        let is_wanted = |name: &OsString| wanted.iter().any(|(of, wanted)| name == of && wanted.is_some());
        let mut all: Vec<_> = given.iter().filter(|(name, _)| !is_wanted(name)).cloned().collect();
        all.extend(wanted.into_iter().filter_map(|(name, value)| Some((name.into(), value?))));
        Some(all)
    }

    fn of(places: &Places, var: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |value: OsString| value.into_string().ok().filter(|text| !text.is_empty());
        Self {
            config_home: places.config_home().filter(|home| home.to_str().is_some()).map(Path::to_path_buf),
            home: var("HOME").and_then(text).map(PathBuf::from),
            path: var("PATH").and_then(text),
            journal: None,
        }
    }

    fn change(places: &Places, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        let before = Self::kept(places);
        let mut after = before.clone().unwrap_or_default();
        change(&mut after);
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        make_private_directory(places.state_dir()).map_err(io::Error::other)?;
        let path = places.surroundings_file();
        // Two that write at the same time each put a whole file in place.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&after)?)?;
        fs::rename(&new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn of(places: &Places, pairs: &[(&str, &str)]) -> Surroundings {
        let pairs = env(pairs);
        Surroundings::of(places, |of| {
            pairs.iter().find(|(name, _)| name == of).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn s2_what_a_person_started_a_daemon_with_beats_what_its_requester_has() {
        let persons = Places::in_homes(Path::new("/home/p/.config"), Path::new("/home/p/.local/state"));
        let kept =
            of(&persons, &[("HOME", "/home/p"), ("PATH", "/home/p/bin:/usr/bin"), ("XDG_CONFIG_HOME", "")]);
        let agents = Places::in_homes(Path::new("/evil"), Path::new("/home/p/.local/state"));
        let given = env(&[
            ("HOME", "/evil"),
            ("PATH", "/evil:/usr/bin"),
            ("LANG", "C"),
            ("XDG_CONFIG_HOME", "/evil"),
            ("XDG_STATE_HOME", "/home/p/.local/state"),
        ]);
        let mut all = kept.replace(&agents, given).unwrap();
        all.sort();
        let right = env(&[
            ("HOME", "/home/p"),
            ("LANG", "C"),
            ("PATH", "/home/p/bin:/usr/bin"),
            ("XDG_CONFIG_HOME", "/home/p/.config"),
            ("XDG_STATE_HOME", "/home/p/.local/state"),
        ]);
        assert_eq!(all, right);
        assert_eq!(kept.replace(&persons, all), None, "it would begin anew for ever");
    }

    #[test]
    fn one_directory_that_holds_everything_holds_its_config() {
        let places = Places::at(Path::new("/d"));
        let kept = of(&places, &[("HOME", "/h"), ("PATH", "/bin")]);
        assert_eq!(kept.replace(&places, env(&[("HOME", "/h"), ("PATH", "/bin"), ("ASKD_DIR", "/d")])), None);
        let all = kept.replace(&places, env(&[("ASKD_DIR", "/d")])).unwrap();
        assert_eq!(all, env(&[("HOME", "/h"), ("PATH", "/bin"), ("ASKD_DIR", "/d")]));
    }

    #[test]
    fn what_was_not_known_replaces_nothing() {
        let places = Places::at(Path::new("/d"));
        assert_eq!(
            Surroundings::default().replace(&places, env(&[("PATH", "/x"), ("ASKD_DIR", "/d")])),
            None
        );
    }

    #[test]
    fn what_is_kept_is_read_again_and_the_journal_stays() {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::at(temp.path());
        assert_eq!(Surroundings::kept(&places), None);
        Surroundings::keep_journal(&places, Path::new("/j")).unwrap();
        Surroundings::keep_own(&places).unwrap();
        let kept = Surroundings::kept(&places).unwrap();
        assert_eq!(kept.journal(), Some(Path::new("/j")));
        assert_eq!(kept.path, std::env::var("PATH").ok());
        fs::write(places.surroundings_file(), "no JSON").unwrap();
        assert_eq!(Surroundings::kept(&places), None);
    }
}
