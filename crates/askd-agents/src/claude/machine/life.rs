//! Whether the agent works, and when its input may be closed after the host closed its own.

use std::time::Duration;

use super::super::Action;
use super::Machine;

/// A turn that follows on a message or on a task's end has begun within this time. The agent says nothing while hooks of
/// the person run before the turn, which may take as long as this; a message may also have gone into the turn before,
/// and then no turn follows. Waiting in vain costs a sleeping process; not waiting denies what the turn asks.
const TURN_PATIENCE: Duration = Duration::from_secs(600);
/// A shell asks nothing, and one that never ends must not hold the agent for ever.
const SHELL_PATIENCE: Duration = Duration::from_secs(600);

/// What is known of the agent's turns.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Messages of the user so far, and turns that ended. Several messages may be served by one turn.
    messages: u64,
    results: u64,
    works: bool,
    /// The last thing that a turn may follow on.
    stirred: Duration,
    /// A task ended after the last turn.
    follows: bool,
    closing_since: Option<Duration>,
    /// It was said that the input is kept open, and for what.
    kept: bool,
}

impl Life {
    /// The user's turn that asks belong to; none before the first.
    pub(super) fn turn(&self) -> Option<u64> {
        (self.messages > 0).then_some(self.messages)
    }

    pub(super) fn message_written(&mut self, now: Duration) {
        self.messages += 1;
        self.stirred = now;
    }

    /// A sign of a turn that goes on.
    pub(super) fn works(&mut self, now: Duration) {
        (self.works, self.stirred, self.follows) = (true, now, false);
    }

    pub(super) fn turn_ended(&mut self, now: Duration) {
        self.works = false;
        // A turn that no message began serves none that comes later.
        self.results = (self.results + 1).min(self.messages);
        self.stirred = now;
    }

    /// The host stops the turn: what it has written so far leads to no other.
    pub(super) fn interrupted(&mut self) {
        self.results = self.messages;
        self.follows = false;
    }

    /// `stopped`: somebody stopped it, and the agent does not go on by itself.
    pub(super) fn task_ended(&mut self, stopped: bool, now: Duration) {
        self.follows |= !stopped;
        self.stirred = now;
    }

    /// When nothing more is expected of the agent; `None`: it works.
    fn idle_at(&self) -> Option<Duration> {
        if self.works {
            return None;
        }
        Some(self.stirred + if self.expects() { TURN_PATIENCE } else { Duration::ZERO })
    }

    /// A turn may follow by itself.
    fn expects(&self) -> bool {
        self.messages > self.results || self.follows
    }
}

impl Machine {
    /// With the host gone: the agent's input is closed when nothing is asked, nothing runs and no turn is to come.
    pub(super) fn consider_closing(&mut self) {
        if !self.host_gone || self.closed || self.ended {
            return;
        }
        self.life.closing_since.get_or_insert(self.now);
        if self.closing_due().is_none_or(|at| at > self.now) {
            return self.say_kept();
        }
        if self.life.kept {
            let why = if self.runs_tasks(true) {
                format!("only a shell ran on for {} after the last turn", minutes(SHELL_PATIENCE))
            } else if self.life.expects() {
                format!("no turn began within {}", minutes(TURN_PATIENCE))
            } else {
                "nothing is asked and nothing runs any more".to_owned()
            };
            self.log(format!("{why}: the agent's input is closed"));
        }
        self.closed = true;
        self.out.push(Action::CloseAgent);
    }

    /// What holds the input open between turns is said once: somebody may wait for the end of the run.
    fn say_kept(&mut self) {
        let between = self.life.results > 0 && !self.life.works && self.open.is_empty();
        if !between || std::mem::replace(&mut self.life.kept, true) {
            return;
        }
        let why = if self.runs_tasks(false) {
            "a background task runs".to_owned()
        } else if self.runs_tasks(true) {
            format!("a background shell runs, for up to {}", minutes(SHELL_PATIENCE))
        } else {
            format!("a turn may follow, for up to {}", minutes(TURN_PATIENCE))
        };
        self.log(format!("the host closed its end; the agent's input stays open: {why}"));
    }

    /// When [`Self::consider_closing`] would close, as things are now.
    pub(super) fn closing_due(&self) -> Option<Duration> {
        let since = self.life.closing_since.filter(|_| !self.closed && !self.ended)?;
        if !self.open.is_empty() || self.runs_tasks(false) {
            return None;
        }
        let idle = self.life.idle_at()?;
        // From the end of the turn on, however long that took.
        let shells = if self.runs_tasks(true) { SHELL_PATIENCE } else { Duration::ZERO };
        Some((self.life.stirred + shells).max(idle).max(since))
    }
}

fn minutes(span: Duration) -> String {
    format!("{} minutes", span.as_secs() / 60)
}
