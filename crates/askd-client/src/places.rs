//! Where the config, the state and the sockets are. Every program finds the daemon through the state directory only.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use askd_wire::DaemonFile;

/// Longest socket path that is used as it is. `sun_path` holds 108 bytes on Linux and 104 on macOS.
const LONGEST_SOCKET_PATH: usize = 100;

/// No place could be worked out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    /// Neither `ASKD_DIR` nor a home directory.
    #[error("no home directory: set HOME, or ASKD_DIR to the directory askd shall use")]
    NoHome,
    /// A relative path and no current directory to make it absolute.
    #[error("{} is not absolute and the current directory cannot be read", .0.display())]
    NotAbsolute(PathBuf),
}

/// How the places were given, so that a daemon or a hook can be started with the very same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Base {
    /// Everything under one directory.
    Dir(PathBuf),
    /// `<config_home>/askd/config.toml` and `<state_home>/askd/`.
    Homes { config_home: PathBuf, state_home: PathBuf },
}

/// All files and directories of one askd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    base: Base,
    state: PathBuf,
    run: PathBuf,
}

impl Places {
    /// From `ASKD_DIR`, else `XDG_CONFIG_HOME` and `XDG_STATE_HOME`, else the home directory. An empty variable counts as unset.
    pub fn from_env() -> Result<Self, PlacesError> {
        Self::from_vars(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// The same with given variables.
    pub fn from_vars(
        var: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<Self, PlacesError> {
        let var = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(dir) = var("ASKD_DIR") {
            return Ok(Self::at(&absolute(dir)?));
        }
        let home = home.filter(|home| !home.as_os_str().is_empty());
        // The XDG specification says that relative values must be ignored.
        let home_or = |name, below: &str| match var(name).filter(|path| path.is_absolute()) {
            Some(path) => Ok(path),
            None => home.as_deref().map(|home| home.join(below)).ok_or(PlacesError::NoHome),
        };
        let config_home = home_or("XDG_CONFIG_HOME", ".config")?;
        let state_home = home_or("XDG_STATE_HOME", ".local/state")?;
        Ok(Self::in_homes(&absolute(config_home)?, &absolute(state_home)?))
    }

    /// Everything under one absolute directory, as `ASKD_DIR` puts it.
    pub fn at(dir: &Path) -> Self {
        let state = dir.join("state");
        let run = dir.join("run");
        Self { base: Base::Dir(dir.to_path_buf()), state, run }
    }

    /// `<config_home>/askd/config.toml` and `<state_home>/askd/`, both absolute.
    pub fn in_homes(config_home: &Path, state_home: &Path) -> Self {
        let state = state_home.join("askd");
        let run = state.join("run");
        let base =
            Base::Homes { config_home: config_home.to_path_buf(), state_home: state_home.to_path_buf() };
        Self { base, state, run }
    }

    /// Takes `--dir D`, or `--config-home C --state-home S`, out of `args`. Nothing given: `None`.
    pub fn take_from_args(args: &mut Vec<OsString>) -> Result<Option<Self>, PlacesError> {
        let dir = take_flag(args, "--dir");
        let config_home = take_flag(args, "--config-home");
        let state_home = take_flag(args, "--state-home");
        if let Some(dir) = dir {
            return Ok(Some(Self::at(&absolute(dir.into())?)));
        }
        match (config_home, state_home) {
            (Some(config), Some(state)) => {
                Ok(Some(Self::in_homes(&absolute(config.into())?, &absolute(state.into())?)))
            }
            _ => Ok(None),
        }
    }

    /// The arguments from which [`Places::take_from_args`] makes these places again, for what `setup` installs.
    pub fn to_args(&self) -> Vec<OsString> {
        match &self.base {
            Base::Dir(dir) => vec!["--dir".into(), dir.into()],
            Base::Homes { config_home, state_home } => {
                vec!["--config-home".into(), config_home.into(), "--state-home".into(), state_home.into()]
            }
        }
    }

    /// The variables that make a program find these places by [`Places::from_env`].
    pub fn to_env(&self) -> Vec<(&'static str, PathBuf)> {
        match &self.base {
            Base::Dir(dir) => vec![("ASKD_DIR", dir.clone())],
            Base::Homes { config_home, state_home } => {
                vec![("XDG_CONFIG_HOME", config_home.clone()), ("XDG_STATE_HOME", state_home.clone())]
            }
        }
    }

    pub fn config_file(&self) -> PathBuf {
        match &self.base {
            Base::Dir(dir) => dir.join("config.toml"),
            Base::Homes { config_home, .. } => config_home.join("askd").join("config.toml"),
        }
    }

    /// Home directory of the config; none where one directory holds everything.
    pub fn config_home(&self) -> Option<&Path> {
        match &self.base {
            Base::Dir(_) => None,
            Base::Homes { config_home, .. } => Some(config_home),
        }
    }

    /// The same places with the config of another home; one directory that holds everything stays as it is.
    #[must_use]
    pub fn with_config_home(&self, home: &Path) -> Self {
        match &self.base {
            Base::Dir(_) => self.clone(),
            Base::Homes { state_home, .. } => Self::in_homes(home, state_home),
        }
    }

    /// Journal, locks and `daemon.json`; 0700.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// Directory of the sockets; 0700. A short one under `/tmp` where a path beneath the state would be over 100 bytes.
    pub fn run_dir(&self) -> PathBuf {
        if self.run.join("answer.sock").as_os_str().len() <= LONGEST_SOCKET_PATH {
            self.run.clone()
        } else {
            self.short_run_dir()
        }
    }

    /// Socket of requesters.
    pub fn ask_sock(&self) -> PathBuf {
        self.run_dir().join("ask.sock")
    }

    /// Socket of people's surfaces.
    pub fn answer_sock(&self) -> PathBuf {
        self.run_dir().join("answer.sock")
    }

    /// Written by a daemon that is ready, removed when it stops.
    pub fn daemon_file(&self) -> PathBuf {
        self.state.join("daemon.json")
    }

    /// Locked by the daemon for its whole life.
    pub fn daemon_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Locked by whoever starts a daemon, until that daemon answers.
    pub fn start_lock(&self) -> PathBuf {
        self.state.join("start.lock")
    }

    /// Exists after `askd daemon stop` until a person starts askd again.
    pub fn stopped_file(&self) -> PathBuf {
        self.state.join("stopped")
    }

    /// What a person's start said of the environment, see [`Surroundings`](crate::Surroundings).
    pub fn surroundings_file(&self) -> PathBuf {
        self.state.join("surroundings.json")
    }

    /// Standard error of an autostarted daemon.
    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// What the running daemon says of itself; `None` when there is no such file or it is not readable.
    pub fn read_daemon_file(&self) -> Option<DaemonFile> {
        serde_json::from_slice(&std::fs::read(self.daemon_file()).ok()?).ok()
    }

    /// The same for every environment and for every spelling of the state directory: only its real path and the user count.
    fn short_run_dir(&self) -> PathBuf {
        let real = self.state.canonicalize().unwrap_or_else(|_| self.state.clone());
        let hash = fnv1a(real.as_os_str());
        let uid = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/tmp/askd-{uid}-{hash:016x}"))
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf, PlacesError> {
    std::path::absolute(&path).map_err(|_| PlacesError::NotAbsolute(path))
}

/// Removes `name VALUE` (the last one wins) and gives the value.
fn take_flag(args: &mut Vec<OsString>, name: &str) -> Option<OsString> {
    let mut found = None;
    while let Some(at) = args.iter().position(|arg| arg == OsStr::new(name)) {
        if at + 1 >= args.len() {
            break;
        }
        found = Some(args.remove(at + 1));
        args.remove(at);
    }
    found
}

/// Names a directory; nobody's safety rests on it, the directory's owner and mode are checked.
fn fnv1a(text: &OsStr) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn one_directory_holds_everything() {
        let places = Places::from_vars(vars(&[("ASKD_DIR", "/d")]), Some("/h".into())).unwrap();
        assert_eq!(places.config_file(), Path::new("/d/config.toml"));
        assert_eq!(places.state_dir(), Path::new("/d/state"));
        assert_eq!(places.ask_sock(), Path::new("/d/run/ask.sock"));
    }

    #[test]
    fn homes_are_the_default_and_empty_or_relative_values_do_not_count() {
        let odd = [("ASKD_DIR", ""), ("XDG_STATE_HOME", "relative"), ("XDG_CONFIG_HOME", "")];
        let places = Places::from_vars(vars(&odd), Some("/h".into())).unwrap();
        assert_eq!(places.config_file(), Path::new("/h/.config/askd/config.toml"));
        assert_eq!(places.answer_sock(), Path::new("/h/.local/state/askd/run/answer.sock"));
        assert_eq!(Places::from_vars(vars(&[]), None), Err(PlacesError::NoHome));
    }

    #[test]
    fn arguments_give_the_same_places_again() {
        for places in [Places::at(Path::new("/d")), Places::in_homes(Path::new("/c"), Path::new("/s"))] {
            let mut args = places.to_args();
            args.insert(0, "hook".into());
            args.push("--timeout".into());
            assert_eq!(Places::take_from_args(&mut args), Ok(Some(places)));
            assert_eq!(args, ["hook", "--timeout"]);
        }
        assert_eq!(Places::take_from_args(&mut vec!["--dir".into()]), Ok(None));
    }

    #[test]
    fn a_long_path_gets_a_short_one_that_every_spelling_shares() {
        let temp = tempfile::tempdir().unwrap();
        let long = temp.path().join("x".repeat(90));
        std::fs::create_dir_all(long.join("state")).unwrap();
        let link = temp.path().join("y".repeat(91));
        std::os::unix::fs::symlink(&long, &link).unwrap();
        let sock = Places::at(&long).ask_sock();
        assert!(sock.as_os_str().len() < 60, "{sock:?}");
        assert!(sock.starts_with("/tmp"));
        assert_eq!(sock, Places::at(&link).ask_sock());
        assert_ne!(sock, Places::at(&temp.path().join("z".repeat(90))).ask_sock());
    }
}
