//! The ACP machine alone: lines, news and time in, actions out. What it writes itself is held against the protocol's
//! own schema.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the helpers of tests fail as tests do")]

mod answers;
mod calls;
mod ends;
mod hidden;
mod shapes;
mod support;
mod transparent;
