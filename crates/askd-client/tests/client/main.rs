//! The client in front of daemons that break in every way, and the race of many starters.

#[cfg(test)]
mod asker;
#[cfg(test)]
mod http;
#[cfg(test)]
mod spool;
#[cfg(test)]
mod start;
#[cfg(test)]
mod support;
