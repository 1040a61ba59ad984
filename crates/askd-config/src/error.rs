//! What can be wrong in a config, said so that it can be put right at once.

use std::fmt;
use std::path::PathBuf;

use crate::keys;
use crate::layers::Origin;
use crate::secret;

/// A name that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchKey {
    /// A key of askd, but what it sets is not in this version.
    #[error("{key} is not served by this version")]
    NotServed { key: String },
    /// Not a key of askd.
    #[error("{} is not a key{}", shown(key), did_you_mean(*suggestion))]
    Unknown { key: String, suggestion: Option<&'static str> },
}

/// One thing that is wrong. The message names the place, the key, the value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("{}: {reason}", askd_text::safe(&path.to_string_lossy()).text)]
    Unreadable { path: PathBuf, reason: String },
    /// The file is not TOML at this line.
    #[error("{at}: {}", shown(message))]
    Syntax { at: Origin, message: String },
    /// A key that is not one, or that this version does not serve.
    #[error("{at}: {}", key_problem(problem, value.as_deref()))]
    Key { at: Origin, value: Option<String>, problem: NoSuchKey },
    /// A section that is not one, or that this version does not serve.
    #[error("{at}: [{}] {problem}", shown(section))]
    Section { at: Origin, section: String, problem: String },
    /// A variable that only looks like a setting.
    #[error("{at}: this variable sets nothing; did you mean {meant}?")]
    EnvName { at: Origin, meant: String },
    /// A value that the key cannot have.
    #[error("{at}: {key} = {}: {problem}; allowed: {allowed}", shown(value))]
    Value { at: Origin, key: String, value: String, problem: String, allowed: String },
}

impl ConfigError {
    /// Where it is; none for a file that could not be read at all.
    pub fn at(&self) -> Option<&Origin> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Syntax { at, .. }
            | Self::Key { at, .. }
            | Self::Section { at, .. }
            | Self::EnvName { at, .. }
            | Self::Value { at, .. } => Some(at),
        }
    }
}

/// Everything that is wrong with a config, by layer and line; at least one error. Prints one a line.
#[derive(Debug)]
pub struct ConfigErrors {
    pub(crate) errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// The errors, in the order of the layers and of the lines in the file.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.errors.iter().enumerate() {
            let line_break = if at == 0 { "" } else { "\n" };
            write!(f, "{line_break}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Text of the file or the environment, without secrets, safe and not endless.
pub(crate) fn shown(text: &str) -> String {
    askd_text::cut(&askd_text::safe(&secret::covered(text)).text, 100)
}

fn key_problem(problem: &NoSuchKey, value: Option<&str>) -> String {
    match (problem, value) {
        (NoSuchKey::Unknown { key, suggestion }, Some(value)) => {
            format!("{} = {}: not a key{}", shown(key), shown(value), did_you_mean(*suggestion))
        }
        _ => problem.to_string(),
    }
}

fn did_you_mean(suggestion: Option<&'static str>) -> String {
    match suggestion {
        Some(name) if keys::is_served(name) => format!("; did you mean {name}?"),
        Some(name) => format!("; did you mean {name} (which is not served by this version)?"),
        None => "; `askd config` prints all keys".to_owned(),
    }
}
