//! Remote surfaces: places elsewhere where a person sees asks and answers them. A silence there is never an answer, and
//! neither is a failed send, a lost network or a bot that was blocked.
//!
//! Read [`Surface`] (what the next service implements) first, then [`driver`] (the loop around one) and [`telegram`].

pub mod driver;
mod host;
mod notify;
mod surface;
pub mod telegram;

pub use host::Host;
pub use notify::Notify;
pub use surface::{About, Back, Hands, Now, Out, Reply, Step, Surface, Ticket, Told, Wish};
