//! What everybody who runs a writer needs besides it: the clock of this machine, new identities, and the way between the
//! shapes of the wire and the core. The daemon and a host that embeds askd run the same of it. It never decides and
//! opens nothing.
//!
//! Read [`view::Shot`] (an ask as it was at one moment) and [`raise::raise`] first.

pub mod clock;
pub mod ids;
pub mod masked;
pub mod problem;
pub mod raise;
pub mod recall;
pub mod view;
