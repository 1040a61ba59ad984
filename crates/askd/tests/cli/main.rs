//! The real program as scripts and people use it.

mod answer;
mod ask;
mod line;
mod world;
