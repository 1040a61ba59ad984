//! Why a setting is what it is.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::NoSuchKey;
use crate::keys;
use crate::layers::{Config, Origin};
use crate::secret::covered;
use crate::settings::Settings;

/// A value that a layer gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Given {
    /// Where.
    pub origin: Origin,
    /// As it would be written in the file: `360`, `"deny"`. Secrets are covered wherever it is told.
    #[serde(serialize_with = "told")]
    pub value: String,
}

/// All there is to know about one setting. Prints as the lines a person reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `section.key`
    pub key: &'static str,
    /// The value that counts, as it would be written in the file. Secrets are covered wherever it is told.
    #[serde(serialize_with = "told")]
    pub value: String,
    /// Where that value came from.
    pub origin: Origin,
    /// Values of lower layers that it beat, highest first, the default last.
    pub beaten: Vec<Given>,
    /// What the setting does.
    pub meaning: &'static str,
    /// What may be written.
    pub allowed: String,
    /// The environment variable that sets it.
    pub env: String,
}

impl Config {
    /// Explains the value of a key, given as `section.key`.
    pub fn explain(&self, key: &str) -> Result<Explanation, NoSuchKey> {
        let key = keys::find(key)?;
        let default = Given { origin: Origin::Default, value: key.literal(&Settings::default()) };
        let mut layers: Vec<Given> = self.given(key).iter().rev().cloned().chain([default]).collect();
        let Given { origin, value } = layers.remove(0);
        Ok(Explanation {
            key: key.name,
            value,
            origin,
            beaten: layers,
            meaning: key.meaning,
            allowed: key.allowed(),
            env: key.env(),
        })
    }
}

fn told<S: Serializer>(value: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&covered(value))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} = {}", self.key, askd_text::safe(&covered(&self.value)).text)?;
        writeln!(f, "  from     {}", self.origin)?;
        for Given { origin, value } in &self.beaten {
            writeln!(f, "  instead of {} ({origin})", askd_text::safe(&covered(value)).text)?;
        }
        writeln!(f, "  meaning  {}", self.meaning)?;
        writeln!(f, "  allowed  {}", self.allowed)?;
        write!(f, "  or set   {}", self.env)
    }
}
