//! Telegram as a remote surface: the real daemon with real asks against a double of the Bot API.

mod answers;
mod double;
mod faults;
mod scene;
mod secrets;
mod setup;
mod token;
mod trust;
mod words;
