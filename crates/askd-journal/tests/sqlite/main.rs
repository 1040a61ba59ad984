//! SQLite on real files and disks: the contract, and everything that disks and people do to a file.

mod broken;
mod child;
mod contract;
mod copies;
mod crash;
mod files;
mod full;
mod migrate;
mod place;
mod read_only;
