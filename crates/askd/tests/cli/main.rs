//! The real program as scripts and people use it.

mod answer;
mod ask;
mod daemon;
mod demo;
mod line;
mod run;
mod setup;
mod world;
