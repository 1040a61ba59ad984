//! A forwarding directory as both of its sides use it: safe access to it, and clean-up that takes nothing away from
//! anybody else. It reads no request and decides nothing.
//!
//! ```text
//! <root>/sessions/<session>/requests/<stem>.json    written by a requester, by renaming
//! <root>/sessions/<session>/responses/<stem>.json   written by whoever serves, by renaming, never over another one
//! <root>/serving/<session>.json                     who serves a session, rewritten every second
//! ```
//!
//! Everybody may remove any of these directories at any moment. Read [`SpoolAsker`] to ask, else [`Dir`] first, then
//! [`clean`].

mod asker;
pub mod clean;
mod hints;
mod names;
mod place;

pub use asker::SpoolAsker;
pub use hints::is_shared;
pub use names::{decode_session, encode_session, is_safe_stem, stem_of};
pub use place::{Dir, Listing, PlaceError, Put, Stamp};

/// What a response names its request by: `sha256:` and 64 hexadecimal digits over the bytes of that.
pub fn digest_of(request: &[u8]) -> String {
    format!("sha256:{}", askd_core::Hash256::of(request))
}

/// Directory of all sessions in the root.
pub const SESSIONS: &str = "sessions";
/// Directory of the serving records in the root.
pub const SERVING: &str = "serving";
/// Directory of requests in a session.
pub const REQUESTS: &str = "requests";
/// Directory of responses in a session.
pub const RESPONSES: &str = "responses";
/// Keeps a directory from being removed as an empty one. No requester reads a name that does not end in `.json`.
pub const SENTINEL: &str = ".askd-keep";
/// Longest request or response that is read, in bytes.
pub const MOST_BYTES: u64 = 1024 * 1024;
