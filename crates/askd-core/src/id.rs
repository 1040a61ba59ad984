//! Identities: asks, handles, requesters, sessions, streams.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// A UUIDv7, minted outside the core; the ask's identity for its whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub Uuid);

// The same order as that of its bytes, as one number: everything that is held of asks is found by it.
impl Ord for AskId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.as_u128().cmp(&other.0.as_u128())
    }
}

impl PartialOrd for AskId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl AskId {
    pub(crate) const MIN: Self = Self(Uuid::nil());
    pub(crate) const MAX: Self = Self(Uuid::max());
}

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for AskId {
    type Err = uuid::Error;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(s).map(Self)
    }
}

/// 256 bits that print as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash256(pub [u8; 32]);

impl Hash256 {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written for every stream and claim of a commit, so not digit by digit.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotAHash;

impl FromStr for Hash256 {
    type Err = NotAHash;

    fn from_str(s: &str) -> Result<Self, NotAHash> {
        let bytes = s.as_bytes();
        if bytes.len() != 64 {
            return Err(NotAHash);
        }
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok()).ok_or(NotAHash);
        let mut out = [0; 32];
        for (to, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            *to = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(out))
    }
}

impl Serialize for Hash256 {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash256 {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hash of a requester's token; the token itself is never kept.
pub type TokenHash = Hash256;

/// An agent process, safe against reuse of its number. Printed as `<host>:<pid>@<start>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance {
    pub host: String,
    pub pid: u32,
    /// Clock ticks since boot at which the process started; 0 when unknown.
    pub start: u64,
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.host, self.pid, self.start)
    }
}

/// Behind whom a requester stands: the shell that a person started it from, or what else holds it and everything like it
/// together. Found by whoever takes the ask, so that no requester chooses it. Printed as people would name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub name: String,
    /// Tells apart what has the same name: when a process started, the hash of what was cut.
    #[serde(default)]
    pub since: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One conversation of one agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    pub agent: String,
    pub session: String,
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.session)
    }
}

/// A connection of a requester to this daemon; unique while the daemon lives, never journalled. A later connection has
/// a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A registered surface; unique while the daemon lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SurfaceId(pub String);

/// The journal's unit of order and of compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    Ask(AskId),
    Session(SessionKey),
    /// Slots, poll offsets and sign-ins of one remote surface.
    Surface(String),
    /// Lease and accepted loosenings.
    Daemon(String),
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(id) => write!(f, "ask/{id}"),
            Self::Session(key) => write!(f, "session/{key}"),
            Self::Surface(id) => write!(f, "surface/{id}"),
            Self::Daemon(id) => write!(f, "daemon/{id}"),
        }
    }
}

/// A text does not name a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a stream name: {0:?}")]
pub struct NotAStream(pub String);

impl FromStr for StreamId {
    type Err = NotAStream;

    fn from_str(s: &str) -> Result<Self, NotAStream> {
        let err = || NotAStream(s.to_owned());
        let (kind, rest) = s.split_once('/').ok_or_else(err)?;
        match kind {
            "ask" => rest.parse().map(Self::Ask).map_err(|_| err()),
            "session" => {
                // An agent's name has no slash (checked when it is raised); a session id may have some.
                let (agent, session) = rest.split_once('/').ok_or_else(err)?;
                Ok(Self::Session(SessionKey { agent: agent.to_owned(), session: session.to_owned() }))
            }
            "surface" => Ok(Self::Surface(rest.to_owned())),
            "daemon" => Ok(Self::Daemon(rest.to_owned())),
            _ => Err(err()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_print_and_parse() {
        for text in [
            "ask/018f0000-0000-7000-8000-000000000001",
            "session/claude-code/a/b",
            "surface/telegram",
            "daemon/d1",
        ] {
            assert_eq!(text.parse::<StreamId>().unwrap().to_string(), text);
        }
        for bad in ["ask/x", "session/a", "what/x", ""] {
            assert!(bad.parse::<StreamId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn hashes_print_and_parse() {
        let h = Hash256::of(b"abc");
        assert!(h.to_string().starts_with("ba7816bf"));
        assert_eq!(h.to_string().parse::<Hash256>(), Ok(h));
        assert!("zz".repeat(32).parse::<Hash256>().is_err());
    }
}
