//! Agents that askd reaches as a proxy or over a server of their own, one module each; it never decides an ask and
//! shows nothing by itself.
//!
//! Read [`hidden`] first: asks that an agent keeps to itself, and how another module watches for them.

pub mod acp;
pub mod claude;
pub mod foreground;
pub mod hidden;
pub mod opencode;
pub mod pi;
mod proxy;
mod raw;
pub mod spool;
