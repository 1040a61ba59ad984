//! The life of an ask as a pure state machine: it does no I/O, reads no clock, draws no randomness and knows no async.
//!
//! Read [`State`] and [`Event`] first. The shell around it calls [`State::handle`] with a [`Command`] and the current
//! time, journals the durable part of the returned changes, applies all of them with [`State::apply`], and calls again
//! with [`Command::Tick`] when [`State::poll_timeout`] says so. Everything that decides about asks is in here.

pub mod ask;
pub mod command;
pub mod digest;
pub mod event;
pub mod gate;
mod handle;
pub mod id;
pub mod outcome;
pub mod overrides;
pub mod refusal;
pub mod settings;
pub mod state;
pub mod time;

pub use ask::{Ask, Decision};
pub use command::{Answer, Command, Observe, Raise, Reply, Seen, Side, Voice};
pub use digest::Digest;
pub use event::{Change, Event, Note, Record};
pub use handle::Handle;
pub use id::{AskId, Hash256, Instance, LinkId, Owner, SessionKey, StreamId, SurfaceId, TokenHash};
pub use outcome::{Cause, Delivery, Outcome, OutcomeKind, Source, Verdict};
pub use overrides::Overrides;
pub use refusal::Refusal;
pub use settings::Settings;
pub use state::{AskState, Handled, State};
pub use time::{BootId, Now, Stamp};
