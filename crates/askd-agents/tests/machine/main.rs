//! The ACP machine alone: lines, news and time in, actions out. What it writes itself is held against the protocol's
//! own schema.

mod ends;
mod hidden;
mod shapes;
mod support;
mod transparent;
