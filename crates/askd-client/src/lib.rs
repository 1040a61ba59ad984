//! Blocking client of the askd daemon: finds it, starts it, speaks its HTTP; it never decides an ask by itself.
//!
//! Read [`Places`] (where everything lies), [`Asker`] (raise an ask, get its outcome), [`race`] (a hook of the host's own
//! beside the ask) and [`DoomLoop`] (an agent that repeats itself) first. No runtime and no start-up work: the hook path links it and must start in a millisecond.

mod answers;
mod asker;
mod body;
pub mod daemon;
mod doom_loop;
mod error;
mod events;
mod guard;
mod head;
mod http;
mod loopback;
mod pending;
mod places;
mod port;
mod race;
pub mod spool;
mod stop;
mod surroundings;
mod withdraw;

pub use answers::Answers;
pub use asker::{Asker, JustWait, OrStop, Wake, Watch, random_hex};
pub use doom_loop::{Call, DoomLoop, LoopResult, Repetition};
pub use error::{CallError, HttpError, Unavailable, UnsafePlace};
pub use events::{Event, Events};
pub use guard::{bind_private_socket, check_directory, check_socket, make_private_directory};
pub use http::{Connection, Reply};
pub use loopback::{Hangup, Loopback, LoopbackEvents, LoopbackReply};
pub use pending::PendingAsk;
pub use places::{Places, PlacesError};
pub use port::AskPort;
pub use race::{Decides, HookStop, Raced, race};
pub use stop::{Stop, Stopper, stop};
pub use surroundings::Surroundings;
pub use withdraw::take_back;
