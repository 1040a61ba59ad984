//! The layers: defaults, file, environment, flags, each with its origin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{ConfigError, ConfigErrors, NoSuchKey};
use crate::explain::Given;
use crate::file;
use crate::keys::{self, KEYS, Key};
use crate::secret;
use crate::settings::Settings;
use crate::slot::{Raw, Wrong};

/// A config file beyond this size is a mistake or an attack.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The config file; lines count from 1.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Env { name: String },
    /// A flag of the command line.
    Flag { name: String },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => {
                write!(f, "{}:{line}", askd_text::safe(&path.to_string_lossy()).text)
            }
            Self::Env { name } | Self::Flag { name } => f.write_str(&askd_text::safe(name).text),
        }
    }
}

/// What a config is made from. Each layer beats the one before it; a layer that is not added does not count.
#[derive(Debug, Default)]
pub struct Layers {
    file: Option<File>,
    env: Vec<(OsString, OsString)>,
    flags: Vec<(String, String, String)>,
}

#[derive(Debug)]
enum File {
    OnDisk(PathBuf),
    Text(PathBuf, String),
}

/// One value of one layer, not checked yet.
pub(crate) struct Candidate {
    pub(crate) origin: Origin,
    pub(crate) key: &'static Key,
    pub(crate) raw: Raw,
    /// As written, for messages.
    pub(crate) written: String,
}

impl Layers {
    /// Defaults only.
    pub fn new() -> Self {
        Self::default()
    }

    /// The config file. A file that does not exist sets nothing.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(File::OnDisk(path.into()));
        self
    }

    /// The text of a config file that was read already; `path` is for messages.
    #[must_use]
    pub fn file_text(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.file = Some(File::Text(path.into(), text.into()));
        self
    }

    /// The environment: variables like `ASKD_PERMISSIONS__BACKGROUND_DEFAULT`; others are passed over. Not to be
    /// added by a daemon that a requester started or that runs inside an agent's tree.
    #[must_use]
    pub fn env(mut self, vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.env.extend(vars);
        self
    }

    /// A flag of the command line: its name for messages (`--journal`), the key it sets, the value given.
    #[must_use]
    pub fn flag(mut self, flag: &str, key: &str, value: impl Into<String>) -> Self {
        self.flags.push((flag.to_owned(), key.to_owned(), value.into()));
        self
    }

    /// Reads and checks all layers. Every error of every layer is in the result, not only the first.
    pub fn load(self) -> Result<Config, ConfigErrors> {
        let mut candidates = Vec::new();
        let mut errors = Vec::new();
        match self.file {
            Some(File::Text(path, text)) => file::read(&path, &text, &mut candidates, &mut errors),
            Some(File::OnDisk(path)) => match read_file(&path) {
                Ok(Some(text)) => file::read(&path, &text, &mut candidates, &mut errors),
                Ok(None) => {}
                Err(reason) => errors.push(ConfigError::Unreadable { path, reason }),
            },
            None => {}
        }
        read_env(self.env, &mut candidates, &mut errors);
        for (flag, key, value) in self.flags {
            untyped(Origin::Flag { name: flag }, &key, value, true, &mut candidates, &mut errors);
        }

        let mut settings = Settings::default();
        let mut given: BTreeMap<&'static str, Vec<Given>> = BTreeMap::new();
        for Candidate { origin, key, raw, written } in candidates {
            match (key.slot)(&mut settings).assign(&raw) {
                Ok(()) => {
                    let value = key.literal(&settings);
                    given.entry(key.name).or_default().push(Given { origin, value });
                }
                Err(wrong) => errors.push(wrong_value(origin, key, written, wrong)),
            }
        }
        if errors.is_empty() {
            return Ok(Config { settings, given });
        }
        errors.sort_by_key(|error| match error.at() {
            None => (0, 0),
            Some(Origin::Default) => (0, 1),
            Some(Origin::File { line, .. }) => (1, *line),
            Some(Origin::Env { .. }) => (2, 0),
            Some(Origin::Flag { .. }) => (3, 0),
        });
        Err(ConfigErrors { errors })
    }
}

/// Settings that were read without an error, with the origin of every value.
#[derive(Debug, Clone)]
pub struct Config {
    settings: Settings,
    /// What the layers gave for each key, lowest first.
    given: BTreeMap<&'static str, Vec<Given>>,
}

impl Config {
    /// The settings as written; what is in force is [`crate::effective`]'s to say.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the layers gave for a key, lowest first; empty when nobody set it.
    pub(crate) fn given(&self, key: &Key) -> &[Given] {
        self.given.get(key.name).map_or(&[], Vec::as_slice)
    }

    /// Every key that some layer set, with the origin that counts.
    pub fn origins(&self) -> impl Iterator<Item = (&'static Key, &Origin)> {
        KEYS.iter().filter_map(|key| Some((key, &self.given(key).last()?.origin)))
    }
}

fn read_file(path: &Path) -> Result<Option<String>, String> {
    match std::fs::metadata(path) {
        // A pipe or a device would be waited for.
        Ok(meta) if !meta.is_file() => return Err("is not a regular file".to_owned()),
        Ok(meta) => {
            let (owner, ours) = (meta.uid(), rustix::process::geteuid().as_raw());
            if owner != ours && owner != 0 {
                return Err(format!("belongs to user {owner}, not to {ours}"));
            }
            if meta.mode() & 0o002 != 0 {
                return Err("can be written by everybody: chmod o-w".to_owned());
            }
        }
        Err(_) => {}
    }
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })
}

fn read_env(vars: Vec<(OsString, OsString)>, candidates: &mut Vec<Candidate>, errors: &mut Vec<ConfigError>) {
    let mut vars: Vec<_> = vars
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("ASKD_"))
        .collect();
    vars.sort();
    for (name, value) in vars {
        let rest = &name["ASKD_".len()..];
        let key = if let Some((section, key)) = rest.split_once("__") {
            format!("{}.{}", section.to_ascii_lowercase(), key.to_ascii_lowercase())
        } else {
            // ASKD_DIR and others of their kind are no settings; a key with one underscore too few is a slip.
            if let Some(meant) = keys::all().find(|key| keys::env_name(key).replace("__", "_") == name) {
                errors.push(ConfigError::EnvName {
                    at: Origin::Env { name: name.clone() },
                    meant: keys::env_name(meant),
                });
            }
            continue;
        };
        let at = Origin::Env { name };
        match value.into_string() {
            Ok(value) => untyped(at, &key, value, false, candidates, errors),
            Err(value) => match keys::find(&key) {
                Ok(found) => {
                    errors.push(wrong_value(at, found, value.to_string_lossy().into(), Wrong::Value));
                }
                Err(problem) => errors.push(ConfigError::Key { at, value: None, problem }),
            },
        }
    }
}

fn untyped(
    origin: Origin,
    key: &str,
    text: String,
    relative_paths: bool,
    candidates: &mut Vec<Candidate>,
    errors: &mut Vec<ConfigError>,
) {
    match keys::find(key) {
        Ok(key) => {
            let written = text.clone();
            candidates.push(Candidate { origin, key, raw: Raw::Untyped { text, relative_paths }, written });
        }
        Err(problem) => errors.push(no_such_key(origin, problem, text)),
    }
}

/// A value is told in the message, unless it may be a secret.
pub(crate) fn no_such_key(at: Origin, problem: NoSuchKey, value: String) -> ConfigError {
    let value = match &problem {
        NoSuchKey::Unknown { key, .. } if !secret::is_private(key) && !key.starts_with("telegram.") => {
            Some(value)
        }
        _ => None,
    };
    ConfigError::Key { at, value, problem }
}

fn wrong_value(at: Origin, key: &Key, written: String, wrong: Wrong) -> ConfigError {
    let half = key.name.starts_with("telegram.") && secret::may_have_half(&written);
    let written = if half || secret::is_private(key.name) { "(not shown)".to_owned() } else { written };
    let (value, problem) = match wrong {
        Wrong::Value => (written, "not allowed".to_owned()),
        Wrong::Sort(sort) => (written, format!("{sort} does not belong here")),
        // The rest of such an address may hold a password.
        Wrong::Engine => ("postgres:…".to_owned(), "PostgreSQL is not served by this version".to_owned()),
        Wrong::RelativePath => (written, "the path is relative to nobody knows what".to_owned()),
    };
    ConfigError::Value { at, key: key.name.to_owned(), value, problem, allowed: key.allowed() }
}
