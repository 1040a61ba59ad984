//! One setting, seen as a place that a value can be put into.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::settings::{
    BackgroundDeny, ClientDismiss, HoldBackground, JournalUrl, Subagents, TimedDefault, Unreachable,
};

/// A value as a layer gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// From the environment or a flag, which know no types.
    Untyped {
        text: String,
        relative_paths: bool,
    },
    Text(String),
    /// None when it fits no number that anybody means.
    Number(Option<i64>),
    Switch(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// A value of some other sort, named.
    Other(&'static str),
}

/// Why a value was not taken. Completed by the text of what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Value,
    Sort(&'static str),
    /// A journal engine of a later version.
    Engine,
    RelativePath,
}

/// The place of one setting.
pub(crate) enum Slot<'a> {
    Number(&'a mut u64, RangeInclusive<u64>),
    Word(&'a mut dyn Word),
    Switch(&'a mut bool),
    Journal(&'a mut JournalUrl),
    /// Absolute paths; in the environment with colons between them.
    Paths(&'a mut Vec<PathBuf>),
}

impl Slot<'_> {
    /// Puts the value in, when it is one that belongs here.
    pub(crate) fn assign(self, raw: &Raw) -> Result<(), Wrong> {
        match self {
            Slot::Number(place, range) => {
                let number = match raw {
                    Raw::Untyped { text, .. } => text.parse().ok(),
                    Raw::Number(number) => number.and_then(|number| u64::try_from(number).ok()),
                    other => return Err(Wrong::Sort(other.sort())),
                };
                *place = number.filter(|number| range.contains(number)).ok_or(Wrong::Value)?;
            }
            Slot::Word(place) => {
                if !place.set(raw.text()?) {
                    return Err(Wrong::Value);
                }
            }
            Slot::Switch(place) => {
                *place = match raw {
                    Raw::Switch(on) => *on,
                    Raw::Untyped { text, .. } => text.parse().map_err(|_| Wrong::Value)?,
                    other => return Err(Wrong::Sort(other.sort())),
                };
            }
            Slot::Journal(place) => {
                let path = match raw.text()?.split_once(':') {
                    Some(("sqlite", path)) => path,
                    Some(("postgres" | "postgresql", _)) => return Err(Wrong::Engine),
                    _ => return Err(Wrong::Value),
                };
                let may_be_relative = matches!(raw, Raw::Untyped { relative_paths: true, .. });
                *place = match path {
                    "" => JournalUrl::default(),
                    // The name of SQLite's journal that is gone with its process.
                    ":memory:" => return Err(Wrong::Value),
                    path if path.contains('\0') => return Err(Wrong::Value),
                    path if may_be_relative || Path::new(path).is_absolute() => JournalUrl::at(path),
                    _ => return Err(Wrong::RelativePath),
                };
            }
            Slot::Paths(place) => {
                let texts: Vec<&str> = match raw {
                    Raw::Texts(texts) => texts.iter().map(String::as_str).collect(),
                    Raw::Untyped { text, .. } => text.split(':').filter(|path| !path.is_empty()).collect(),
                    other => return Err(Wrong::Sort(other.sort())),
                };
                if texts.iter().any(|path| path.contains('\0')) {
                    return Err(Wrong::Value);
                }
                if texts.iter().any(|path| !Path::new(path).is_absolute()) {
                    return Err(Wrong::RelativePath);
                }
                *place = texts.into_iter().map(PathBuf::from).collect();
            }
        }
        Ok(())
    }

    /// The value as plain text: `360`, `deny`, `true`, `sqlite:`.
    pub(crate) fn plain(&self) -> String {
        match self {
            Slot::Number(number, _) => number.to_string(),
            Slot::Word(word) => word.get().to_owned(),
            Slot::Switch(on) => on.to_string(),
            Slot::Journal(url) => url.to_string(),
            Slot::Paths(paths) => {
                paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
            }
        }
    }

    /// The value as it is written in the file: `360`, `"deny"`.
    pub(crate) fn literal(&self) -> String {
        match self {
            Slot::Number(..) | Slot::Switch(_) => self.plain(),
            Slot::Word(_) | Slot::Journal(_) => quoted(&self.plain()),
            Slot::Paths(paths) => {
                let quoted: Vec<String> =
                    paths.iter().map(|path| quoted(&path.display().to_string())).collect();
                format!("[{}]", quoted.join(", "))
            }
        }
    }

    /// What may be written here.
    pub(crate) fn allowed(&self) -> String {
        match self {
            Slot::Number(_, range) => format!("a whole number from {} to {}", range.start(), range.end()),
            Slot::Word(word) => word.all().iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "),
            Slot::Switch(_) => "true, false".to_owned(),
            Slot::Journal(_) => {
                "\"sqlite:\" for the default place, or \"sqlite:\" and an absolute path".to_owned()
            }
            Slot::Paths(_) => "a list of absolute paths".to_owned(),
        }
    }
}

impl Raw {
    fn text(&self) -> Result<&str, Wrong> {
        match self {
            Self::Untyped { text, .. } | Self::Text(text) => Ok(text),
            other => Err(Wrong::Sort(other.sort())),
        }
    }

    fn sort(&self) -> &'static str {
        match self {
            Self::Untyped { .. } | Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Switch(_) => "a switch",
            Self::Texts(_) => "a list",
            Self::Other(name) => name,
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A setting that is one of a few words.
pub(crate) trait Word {
    /// Takes the word; false when it is none of them.
    fn set(&mut self, word: &str) -> bool;
    fn get(&self) -> &'static str;
    fn all(&self) -> &'static [&'static str];
}

macro_rules! words {
    ($setting:ty: $($variant:ident = $word:literal),+) => {
        impl Word for $setting {
            fn set(&mut self, word: &str) -> bool {
                *self = match word {
                    $($word => Self::$variant,)+
                    _ => return false,
                };
                true
            }

            fn get(&self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn all(&self) -> &'static [&'static str] {
                &[$($word),+]
            }
        }
    };
}

words!(TimedDefault: Allow = "allow", Deny = "deny");
words!(BackgroundDeny: Continue = "continue", Stop = "stop");
words!(Unreachable: WhenNoSurface = "when_no_surface", WhenNoneAttached = "when_none_attached");
words!(HoldBackground: Auto = "auto", Always = "always", Never = "never");
words!(ClientDismiss: Ignore = "ignore", Cancel = "cancel");
words!(Subagents: Auto = "auto", Translate = "translate");
