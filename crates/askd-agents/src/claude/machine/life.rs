//! Whether the agent works, and when its input may be closed after the host closed its own.

use std::time::Duration;

use super::super::act::Action;
use super::Machine;

/// A turn that follows on a message or on a task's end has begun within this time, as long as nothing else is said.
const QUIET: Duration = Duration::from_secs(2);
/// A turn whose message was just written, by an agent that is still starting, has begun within this time.
const SLOW_START: Duration = Duration::from_secs(60);
/// A shell asks nothing, and one that never ends must not hold the agent for ever.
const SHELL_PATIENCE: Duration = Duration::from_secs(600);

/// What is known of the agent's turns.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Messages of the user so far, and turns that ended. Several messages may be served by one turn.
    messages: u64,
    results: u64,
    works: bool,
    /// The agent said something since the last message was written.
    began: bool,
    /// The last thing that a turn may follow on.
    stirred: Duration,
    /// A task ended after the last turn.
    follows: bool,
    closing_since: Option<Duration>,
}

impl Life {
    /// The user's turn that asks belong to; none before the first.
    pub(super) fn turn(&self) -> Option<u64> {
        (self.messages > 0).then_some(self.messages)
    }

    pub(super) fn message_written(&mut self, now: Duration) {
        self.messages += 1;
        self.began = false;
        self.stirred = now;
    }

    /// A sign of a turn that goes on.
    pub(super) fn works(&mut self, now: Duration) {
        (self.works, self.began, self.stirred, self.follows) = (true, true, now, false);
    }

    pub(super) fn turn_ended(&mut self, now: Duration) {
        self.works = false;
        self.began = true;
        self.results += 1;
        self.stirred = now;
    }

    pub(super) fn task_ended(&mut self, now: Duration) {
        self.follows = true;
        self.stirred = now;
    }

    /// When nothing more is expected of the agent; `None`: it works.
    fn idle_at(&self) -> Option<Duration> {
        if self.works {
            return None;
        }
        let patience = if self.messages <= self.results && !self.follows {
            Duration::ZERO
        } else if self.began {
            QUIET
        } else {
            SLOW_START
        };
        Some(self.stirred + patience)
    }
}

impl Machine {
    /// With the host gone: the agent's input is closed when nothing is asked, nothing runs and no turn is to come.
    pub(super) fn consider_closing(&mut self) {
        if !self.host_gone || self.closed || self.ended {
            return;
        }
        self.life.closing_since.get_or_insert(self.now);
        let Some(at) = self.closing_due().filter(|at| *at <= self.now) else { return };
        debug_assert!(at <= self.now);
        self.closed = true;
        self.out.push(Action::CloseAgent);
    }

    /// When [`Self::consider_closing`] would close, as things are now.
    pub(super) fn closing_due(&self) -> Option<Duration> {
        let since = self.life.closing_since.filter(|_| !self.closed && !self.ended)?;
        if !self.open.is_empty() || self.runs_tasks(false) {
            return None;
        }
        let idle = self.life.idle_at()?;
        Some(if self.runs_tasks(true) { idle.max(since + SHELL_PATIENCE) } else { idle.max(since) })
    }
}
