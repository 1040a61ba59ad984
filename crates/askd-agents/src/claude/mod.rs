//! `askd claude`: between a host that speaks stream-json and Claude Code. Lines pass byte for byte; permission requests
//! are shown everywhere else too, and the first real answer wins. It never decides.

pub use crate::proxy::{Answered, AskNo, Errand, News};
