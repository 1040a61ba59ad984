//! Whether the agent works, and when its input may be closed after the host closed its own.
//!
//! Agents that tell their state say "idle" when every message that they have read has had its turn, and everything that
//! their tasks left behind as well. Whether they have read all of them is asked once more before the input is closed,
//! also when they have said nothing so far: the reply comes behind whatever a message, or their own start, begins. Agents
//! that tell none leave nothing but counting, and messages may share a turn, so that they may be waited for in vain.

use std::time::Duration;

use super::super::Action;
use super::super::message;
use super::Machine;

/// A turn that is known to follow has begun within this time. The agent says nothing while hooks of the person run
/// before the turn, which may take as long as this. Waiting in vain costs a sleeping process; not waiting denies what
/// the turn asks.
const TURN_PATIENCE: Duration = Duration::from_secs(600);
/// The same for one that says that it works, with something that a turn is to follow on.
const WORKS_PATIENCE: Duration = Duration::from_secs(3600);
/// A wake-up may come sooner than it was told, by this.
const WAKES_EARLY: Duration = Duration::from_secs(30);
/// A shell asks nothing, and one that never ends must not hold the agent for ever.
const SHELL_PATIENCE: Duration = Duration::from_secs(600);
/// Between a task's end and the turn that follows on it an agent may say that it is idle; for less than this.
const SETTLES: Duration = Duration::from_secs(10);

/// Whether the agent has read everything that was written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HasRead {
    Unknown,
    /// It was asked so, by the request of this number.
    Asked {
        number: u64,
        at: Duration,
    },
    Yes,
}

/// What is known of the agent's turns.
#[derive(Debug)]
pub(super) struct Life {
    /// Messages of the user so far.
    messages: u64,
    /// Turns that ended.
    turns: u64,
    works: bool,
    /// The last thing that a turn may follow on, or that says that none does.
    stirred: Duration,
    /// The agent tells whether it works.
    tells: bool,
    /// Of one that does not: what a turn may follow on, less the turns that ended since.
    owed: u64,
    /// Of one that does: a task ended while it was idle, and it has not said anything since.
    follows: bool,
    /// A task ended then, and may be what a turn follows on.
    task_ended: Option<Duration>,
    /// Its last turn ended, and it has said nothing of its state since.
    rests: bool,
    /// Its last line.
    heard: Duration,
    /// It has a turn begin by itself then.
    wakes: Option<Duration>,
    has_read: HasRead,
    questions: u64,
    closing_since: Option<Duration>,
    /// It was said that the input is kept open, and for what.
    kept: bool,
}

impl Life {
    /// `resumes`: the agent goes on with a turn by itself, without a message.
    pub(super) fn new(resumes: bool) -> Self {
        Self {
            messages: 0,
            turns: 0,
            works: false,
            stirred: Duration::ZERO,
            tells: false,
            owed: u64::from(resumes),
            follows: false,
            task_ended: None,
            rests: false,
            heard: Duration::ZERO,
            wakes: None,
            has_read: HasRead::Unknown,
            questions: 0,
            closing_since: None,
            kept: false,
        }
    }

    /// The user's turn that asks belong to; none before the first.
    pub(super) fn turn(&self) -> Option<u64> {
        (self.messages > 0).then_some(self.messages)
    }

    pub(super) fn message_written(&mut self, now: Duration) {
        self.messages += 1;
        self.owed += 1;
        self.stir(now);
    }

    /// The agent said something, whatever it is.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// The agent is there, mostly at the beginning of a turn. Before the first message it may be for nothing.
    pub(super) fn began(&mut self, now: Duration) {
        if self.wakes.is_some_and(|at| now + WAKES_EARLY >= at) {
            self.wakes = None;
        }
        if self.tells || self.messages > 0 || self.turns > 0 {
            return self.goes_on(now);
        }
        self.owed = self.owed.max(1);
        self.stir(now);
    }

    /// A sign of a turn that goes on.
    pub(super) fn goes_on(&mut self, now: Duration) {
        self.works |= !self.tells;
        (self.follows, self.rests) = (false, false);
        self.stir(now);
    }

    /// The agent told its state.
    pub(super) fn told(&mut self, idle: bool, now: Duration) {
        (self.tells, self.works, self.follows, self.rests) = (true, !idle, false, false);
        self.stir(now);
    }

    pub(super) fn turn_ended(&mut self, now: Duration) {
        self.works &= self.tells;
        self.rests = true;
        self.turns += 1;
        self.owed = self.owed.saturating_sub(1);
        self.stir(now);
    }

    /// A turn follows on it, also when somebody stopped it.
    pub(super) fn task_ended(&mut self, now: Duration) {
        self.owed += 1;
        self.follows = !self.works;
        self.task_ended = Some(now);
        self.stir(now);
    }

    /// It scheduled a turn. The last one counts.
    pub(super) fn wakes_at(&mut self, at: Duration, now: Duration) {
        self.wakes = Some(at);
        self.stir(now);
    }

    fn stir(&mut self, now: Duration) {
        self.stirred = now;
        self.has_read = HasRead::Unknown;
    }

    /// Its turn ended, and by its own word it works on: since when it has said nothing.
    fn mute_since(&self) -> Option<Duration> {
        (self.works && self.rests).then(|| self.heard.max(self.stirred))
    }

    /// Hooks may hold up the turn of a message for long, and it says that it works meanwhile.
    fn mute_patience(&self) -> Duration {
        if self.owed > 0 { WORKS_PATIENCE } else { TURN_PATIENCE }
    }

    /// When nothing more is expected of the agent; `None`: it works.
    fn idle_at(&self) -> Option<Duration> {
        let mute = self.mute_since().map(|since| since + self.mute_patience());
        if self.works && mute.is_none() {
            return None;
        }
        let wakes = self.wakes.map(|at| at + TURN_PATIENCE);
        let settled = self.task_ended.filter(|_| self.tells).map(|ended| ended + SETTLES);
        let patience = if self.expects() { TURN_PATIENCE } else { Duration::ZERO };
        let late = [mute, wakes, settled].into_iter().flatten().max().unwrap_or_default();
        Some((self.stirred + patience).max(late))
    }

    /// A turn may follow by itself.
    fn expects(&self) -> bool {
        if self.tells { self.follows } else { self.owed > 0 }
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
        if self.life.has_read == HasRead::Unknown {
            self.life.questions += 1;
            let number = self.life.questions;
            self.life.has_read = HasRead::Asked { number, at: self.now };
            let line = message::status_request(&self.question_id(number));
            return self.tell_agent(line);
        }
        let silent = matches!(self.life.has_read, HasRead::Asked { .. });
        if self.life.kept || silent {
            let why = if silent {
                format!("it has replied to nothing for {}", minutes(TURN_PATIENCE))
            } else if self.runs_tasks(true) {
                format!("only a shell ran on for {} after the last turn", minutes(SHELL_PATIENCE))
            } else if self.life.works {
                format!("it has said nothing for {} after its turn", minutes(self.life.mute_patience()))
            } else if self.life.expects() || self.life.wakes.is_some() {
                format!("no turn began within {}", minutes(TURN_PATIENCE))
            } else {
                "nothing is asked and nothing runs any more".to_owned()
            };
            self.log(format!("{why}: the agent's input is closed"));
        }
        self.closed = true;
        self.out.push(Action::CloseAgent);
    }

    fn question_id(&self, number: u64) -> String {
        format!("askd-{}-{number}", self.settings.mark)
    }

    /// The agent replied to a request; true: to one of this wrapper, which the host knows nothing of.
    pub(super) fn replied(&mut self, request: &str) -> bool {
        if let HasRead::Asked { number, .. } = self.life.has_read
            && request == self.question_id(number)
        {
            self.life.has_read = HasRead::Yes;
            return true;
        }
        (1..=self.life.questions).any(|number| request == self.question_id(number))
    }

    /// What holds the input open between turns is said once: somebody may wait for the end of the run.
    fn say_kept(&mut self) {
        let rests = !self.life.works || self.mute_told_at().is_some_and(|at| at <= self.now);
        let between = self.life.turns > 0 && rests && self.open.is_empty();
        if !between || self.life.kept {
            return;
        }
        let why = if self.runs_tasks(false) {
            "a background task runs".to_owned()
        } else if self.runs_tasks(true) {
            format!("a background shell runs, for up to {}", minutes(SHELL_PATIENCE))
        } else if let Some(at) = self.life.wakes {
            format!("it has scheduled a turn of its own in {} s", at.saturating_sub(self.now).as_secs())
        } else if self.life.expects() {
            format!("a turn may follow, for up to {}", minutes(TURN_PATIENCE))
        } else if self.life.works {
            let (since, limit) = (SETTLES.as_secs(), minutes(self.life.mute_patience()));
            format!("its turn ended, and it has not said for {since} s that it is idle; for up to {limit}")
        } else {
            return;
        };
        self.life.kept = true;
        self.log(format!("the host closed its end; the agent's input stays open: {why}"));
    }

    /// When it is worth a word that the agent says nothing. Mostly it says that it is idle in the next moment.
    fn mute_told_at(&self) -> Option<Duration> {
        self.life.mute_since().map(|since| since + SETTLES)
    }

    /// The same, as long as it was not said and is to come.
    pub(super) fn keeping_told_at(&self) -> Option<Duration> {
        let silent = self.life.closing_since.is_some() && !self.life.kept && !self.closed && !self.ended;
        self.mute_told_at().filter(|at| silent && *at > self.now)
    }

    /// When [`Self::consider_closing`] has something to do, as things are now.
    pub(super) fn closing_due(&self) -> Option<Duration> {
        let since = self.life.closing_since.filter(|_| !self.closed && !self.ended)?;
        if !self.open.is_empty() || self.runs_tasks(false) {
            return None;
        }
        let idle = self.life.idle_at()?;
        // From the end of the turn on, however long that took.
        let shells = if self.runs_tasks(true) { SHELL_PATIENCE } else { Duration::ZERO };
        let asked = match self.life.has_read {
            HasRead::Asked { at, .. } => at + TURN_PATIENCE,
            HasRead::Unknown | HasRead::Yes => Duration::ZERO,
        };
        Some((self.life.stirred + shells).max(idle).max(since).max(asked))
    }
}

fn minutes(span: Duration) -> String {
    format!("{} minutes", span.as_secs() / 60)
}
