//! Reads the settings of askd from the file, the environment and flags, and knows where each value came from; it
//! never writes the file, never guesses a value, and never lets a loosened one into effect that no person accepted.
//! Read [`Layers`] and [`Settings`] first.
//!
//! ```text
//! defaults < config.toml < ASKD_SECTION__KEY < flags     Layers::load → Config (settings, origins) or every error
//! Settings + what a person accepted                      effective    → Effective (settings in force, what waits)
//! ```
//!
//! [`keys`] is the one list of what can be set. The file is read against it, `askd config explain` tells from it,
//! the commented default file is written from it, and a test holds the JSON Schema to it. A key of the design that
//! this version does not serve is refused as such, so that nobody believes in a setting that does nothing.

mod error;
mod explain;
mod file;
mod group;
pub mod keys;
mod layers;
mod loosen;
mod print;
mod secret;
mod settings;
mod slot;
mod token;

pub use error::{ConfigError, ConfigErrors, NoSuchKey};
pub use explain::{Explanation, Given};
pub use group::{Group, NotWell};
pub use layers::{Config, Layers, Origin};
pub use loosen::{Effective, Loosening, TOKEN, effective, loosenings, warnings};
pub use print::{default_file, schema};
pub use settings::{
    Acp, BackgroundDeny, ClientDismiss, Daemon, HoldBackground, Hook, Journal, JournalUrl, Notify,
    Permissions, Remote, Settings, Spool, Subagents, Telegram, TimedDefault, Unreachable,
};
pub use token::{Secret, TokenError, Way};
