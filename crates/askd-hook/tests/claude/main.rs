//! The hook for Claude Code as a real process in front of a daemon whose every reply the test gives.

#[cfg(test)]
mod asks;
#[cfg(test)]
mod doom;
#[cfg(test)]
mod observations;
#[cfg(test)]
mod support;
