//! The serving side of forwarding directories, for requesters that have only a file system. It decides nothing: each
//! request is raised at the daemon, and its outcome is written as the response.
//!
//! Read [`machine`] (what is done when, pure) and [`wire`] (the files of all versions) first; [`run`] is the thread and
//! the file system around them, one [`run::Server`] for each tree. [`found`] looks from
//! outside.

mod carry;
mod clerk;
mod eyes;
pub mod found;
mod lock;
pub mod machine;
mod process;
mod root;
pub mod run;
mod serving;
mod tree;
pub mod wire;
