//! What other threads tell the one that draws, and how they wake it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;

use askd_wire::{Health, SessionView, StreamEvent};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::action::Reply;

use super::stream::Ended;

pub(super) enum News {
    /// The stream is open; answers name this surface.
    Up {
        surface: String,
    },
    Down(String),
    Event(Box<StreamEvent>),
    /// The stream has ended for good.
    Ended(Ended),
    Reply(Reply),
    Sessions(Vec<SessionView>),
    /// A line of the agent that runs beside it.
    Fed(String),
    FeedEnded,
    Health(Box<Health>),
    /// A warning of the daemon about its settings.
    Warning(String),
}

/// Tells and wakes.
#[derive(Clone)]
pub(super) struct Sender {
    news: mpsc::Sender<News>,
    bell: Arc<OwnedFd>,
}

/// Nobody listens any more.
pub(super) struct Unheard;

impl Sender {
    pub(super) fn send(&self, news: News) -> Result<(), Unheard> {
        self.news.send(news).map_err(|_| Unheard)?;
        // A full pipe has woken it already.
        let _ = rustix::io::write(&self.bell, &[1]);
        Ok(())
    }

    /// Woken by it, without news: for signals.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.bell.try_clone()
    }
}

pub(super) struct Inbox {
    news: mpsc::Receiver<News>,
    woken: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> io::Result<(Self, Sender)> {
        let (woken, bell) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (sender, news) = mpsc::channel();
        Ok((Self { news, woken }, Sender { news: sender, bell: Arc::new(bell) }))
    }

    /// To poll.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Takes the wake-ups out of the pipe; before the news are taken, so that none is overlooked.
    pub(super) fn hush(&self) {
        let mut buffer = [0; 256];
        while rustix::io::read(&self.woken, &mut buffer).is_ok_and(|count| count == buffer.len()) {}
    }

    pub(super) fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}
