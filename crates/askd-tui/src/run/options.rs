//! How the queue is run, and how that ends.

use std::io::{self, Read};
use std::path::PathBuf;

use askd_client::Unavailable;

use super::notify::Notify;

/// How the queue is run.
pub struct Options {
    /// What starts a daemon when none runs, as `exe daemon`; none: only one that runs is used.
    pub exe: Option<PathBuf>,
    /// What outcomes call this surface.
    pub name: String,
    /// `(agent, root session)`: only its asks.
    pub only: Option<(String, String)>,
    /// Output of an agent that runs beside it, told line by line; when it ends, so does the queue.
    pub feed: Option<Box<dyn Read + Send>>,
    /// A line that is told first.
    pub greeting: Option<String>,
    /// Ring the bell when asks come.
    pub bell: bool,
    /// A notification of the terminal besides.
    pub notify: Notify,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            exe: None,
            name: "the terminal".to_owned(),
            only: None,
            feed: None,
            greeting: None,
            bell: true,
            notify: Notify::Off,
        }
    }
}

/// How it ended, and what became of the answers that were on their way then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub how: How,
    /// What was replied to them after the terminal had been given back, and which have no reply; safe lines.
    pub replies: Vec<String>,
    /// How many of them were refused, or may not have arrived.
    pub failed: usize,
}

/// Why it ended. Every ask that was open is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The person left; so many asks wait, also those whose answer may not have arrived.
    ByPerson { waiting: usize },
    /// A signal, or the terminal is gone.
    BySignal,
    /// A person stopped the daemon: agents ask by themselves until it runs again.
    Stopped,
    /// The agent beside it has ended; what was told last, for the screen that was there before.
    FeedEnded { told: Vec<String> },
}

impl Left {
    /// Lines for the person, on the screen that was there before.
    pub fn text(&self) -> String {
        let how = match &self.how {
            How::ByPerson { waiting: 0 } => "left; no ask is open".to_owned(),
            How::ByPerson { waiting: 1 } => "left; 1 ask stays open".to_owned(),
            How::ByPerson { waiting } => format!("left; {waiting} asks stay open"),
            How::BySignal => String::new(),
            How::Stopped => "askd was stopped; agents ask by themselves until `askd` runs again".to_owned(),
            How::FeedEnded { told } => {
                let lines: Vec<&str> = told.iter().chain(&self.replies).map(String::as_str).collect();
                return format!("{}\nthe agent has ended", lines.join("\n")).trim_start().to_owned();
            }
        };
        format!("{}\n{how}", self.replies.join("\n")).trim().to_owned()
    }
}

/// Why it could not run, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Standard input or output is no terminal: line mode is for those.
    #[error("standard input and output must be a terminal")]
    NoTerminal,
    /// The daemon cannot be reached.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The terminal cannot be used; the text names the step.
    #[error("{0}: {1}")]
    Terminal(&'static str, io::Error),
}
