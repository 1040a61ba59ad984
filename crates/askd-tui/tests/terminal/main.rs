//! The queue in a real terminal, on a real daemon.
#![expect(clippy::unwrap_used, reason = "in a test, to fail is the handling")]

mod asks;
mod embed;
mod leave;
mod life;
mod pty;
mod tmux;
mod world;
