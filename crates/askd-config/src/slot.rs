//! One setting, seen as a place that a value can be put into.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::secret;
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
    /// Whole numbers; none when there is something else among them.
    Numbers(Option<Vec<i64>>),
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
    /// Any text without control characters.
    Text(&'a mut String),
    /// An absolute path, or nothing.
    Path(&'a mut String),
    /// The base address of a web service.
    Url(&'a mut String),
    /// A proxy, or nothing.
    Proxy(&'a mut String),
    /// The name of an environment variable, or nothing.
    Variable(&'a mut String),
    /// Ids; sorted, each once.
    Ids(&'a mut Vec<i64>),
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
            Slot::Text(place) => {
                *place = one_line(raw.text()?)?.to_owned();
            }
            Slot::Path(place) => {
                let path = one_line(raw.text()?)?;
                if !path.is_empty() && !Path::new(path).is_absolute() {
                    return Err(Wrong::RelativePath);
                }
                *place = path.to_owned();
            }
            Slot::Url(place) => {
                let url = one_line(raw.text()?)?.trim_end_matches('/');
                // The path of a call with its token is not the server's address.
                if !is_web_address(url) || secret::covered(url) != url {
                    return Err(Wrong::Value);
                }
                *place = url.to_owned();
            }
            Slot::Proxy(place) => {
                let url = one_line(raw.text()?)?.trim_end_matches('/');
                if !url.is_empty() && !is_proxy(url) {
                    return Err(Wrong::Value);
                }
                *place = url.to_owned();
            }
            Slot::Variable(place) => {
                let name = raw.text()?;
                let in_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
                if !name.bytes().all(in_name) || secret::is_no_name(name) {
                    return Err(Wrong::Value);
                }
                *place = name.to_owned();
            }
            Slot::Ids(place) => {
                let mut ids = match raw {
                    Raw::Numbers(ids) => ids.clone().ok_or(Wrong::Value)?,
                    Raw::Texts(texts) if texts.is_empty() => Vec::new(),
                    Raw::Texts(_) => return Err(Wrong::Value),
                    Raw::Untyped { text, .. } => numbers(text).ok_or(Wrong::Value)?,
                    other => return Err(Wrong::Sort(other.sort())),
                };
                ids.sort_unstable();
                ids.dedup();
                if ids.len() > MOST_IDS || ids.contains(&0) {
                    return Err(Wrong::Value);
                }
                *place = ids;
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
            Slot::Text(text)
            | Slot::Path(text)
            | Slot::Url(text)
            | Slot::Proxy(text)
            | Slot::Variable(text) => (*text).clone(),
            Slot::Ids(ids) => ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// The value as it is written in the file: `360`, `"deny"`.
    pub(crate) fn literal(&self) -> String {
        match self {
            Slot::Number(..) | Slot::Switch(_) => self.plain(),
            Slot::Word(_)
            | Slot::Journal(_)
            | Slot::Text(_)
            | Slot::Path(_)
            | Slot::Url(_)
            | Slot::Proxy(_)
            | Slot::Variable(_) => quoted(&self.plain()),
            Slot::Ids(_) => format!("[{}]", self.plain()),
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
            Slot::Text(_) => "a text of one line".to_owned(),
            Slot::Path(_) => "an absolute path, or \"\"".to_owned(),
            Slot::Url(_) => {
                "an address that begins with https://, or with http:// and this machine (127.0.0.1, ::1, localhost), without a token"
                    .to_owned()
            }
            Slot::Proxy(_) => "\"\", or an address such as http://127.0.0.1:3128, without a password".to_owned(),
            Slot::Variable(_) => {
                "the name of a variable (letters, digits and _), not the token itself, or \"\"".to_owned()
            }
            Slot::Ids(_) => "a list of whole numbers, such as [12345]".to_owned(),
        }
    }
}

/// Encrypted or not: what goes through is.
fn is_proxy(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.filter(|rest| !rest.contains('/')).map(|rest| rest.split(':').next().unwrap_or_default());
    let plain =
        url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#' | '\\' | '"' | '<' | '>'));
    plain && host.is_some_and(|host| !host.is_empty())
}

/// Most ids of one list.
const MOST_IDS: usize = 100;

fn one_line(text: &str) -> Result<&str, Wrong> {
    if text.chars().any(char::is_control) { Err(Wrong::Value) } else { Ok(text) }
}

/// `12345, -100678`; nothing at all is the empty list.
fn numbers(text: &str) -> Option<Vec<i64>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// Encrypted, or not leaving this machine; without a name or password, a query or a fragment in it.
fn is_web_address(url: &str) -> bool {
    let (rest, encrypted) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, true),
        (None, Some(rest)) => (rest, false),
        (None, None) => return false,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or_default(),
    };
    let plain =
        url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#' | '\\' | '"' | '<' | '>'));
    plain && !host.is_empty() && (encrypted || matches!(host, "127.0.0.1" | "::1" | "localhost"))
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
            Self::Texts(_) | Self::Numbers(_) => "a list",
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
