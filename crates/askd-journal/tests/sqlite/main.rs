//! SQLite on real files and disks: the contract, and everything that disks and people do to a file.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod ahead;
mod broken;
mod child;
mod contract;
mod copies;
mod crash;
mod files;
mod full;
mod io_error;
mod migrate;
mod place;
mod read_only;
