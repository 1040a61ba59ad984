//! The full-screen queue, where a terminal is there to show it.

use std::io::{self, IsTerminal};

use askd_client::daemon;
use askd_tui::{Notify, Options, RunError};

use crate::cmd::config;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::line::Scene;
use crate::out;

/// What outcomes call it; the line mode has the same name, being the same place for a person.
pub(crate) const SURFACE: &str = "the terminal";

/// Whether a person is at both ends.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether the terminal can be drawn on.
pub(crate) fn is_possible() -> bool {
    is_terminal() && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Until the person leaves, or what runs beside it ends.
pub(crate) fn run(desk: &Desk, scene: Scene) -> Done {
    let Scene { only, feed, greeting } = scene;
    let options = Options {
        exe: daemon::own_exe(),
        name: SURFACE.to_owned(),
        only,
        feed: feed.map(|feed| Box::new(feed) as Box<dyn io::Read + Send>),
        greeting,
        bell: config::bell(desk),
        notify: Notify::Off,
    };
    let left = askd_tui::run(&desk.places, options).map_err(|error| match error {
        RunError::Unavailable(error) => Failure::from(error),
        other => Failure::unavailable(other),
    })?;
    let text = left.text();
    if !text.is_empty() {
        out::print_line(&text)?;
    }
    Ok(if left.failed == 0 { status::OK } else { status::UNAVAILABLE })
}
