//! Whether the agent works, and whether a turn is to come.
//!
//! Agents that tell their state say "idle" when every message that they have read has had its turn, and everything that
//! their tasks left behind as well. Whether they have read all of them is asked once more before the input is closed,
//! also when they have said nothing so far: the reply comes behind whatever a message, or their own start, begins. Agents
//! that tell none leave nothing but counting, and messages may share a turn, so that they may be waited for in vain.

use std::time::Duration;

use super::closing::WaitsFor;

/// A turn that is known to follow has begun within this time. The agent says nothing while hooks of the person run
/// before the turn, which may take as long as this. Waiting in vain costs a sleeping process; not waiting denies what
/// the turn asks.
pub(super) const TURN_PATIENCE: Duration = Duration::from_secs(600);
/// The same for one that says that it works, with something that a turn is to follow on.
pub(super) const WORKS_PATIENCE: Duration = Duration::from_secs(3600);
/// A wake-up may come sooner than it was told, by this.
const WAKES_EARLY: Duration = Duration::from_secs(30);
/// Between a task's end and the turn that follows on it an agent may say that it is idle; for less than this.
pub(super) const SETTLES: Duration = Duration::from_secs(10);

/// Whether the agent has read everything that was written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HasRead {
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
    pub(super) turns: u64,
    pub(super) works: bool,
    /// The last thing that a turn may follow on, or that says that none does.
    pub(super) stirred: Duration,
    /// The agent tells whether it works.
    tells: bool,
    /// Of one that does not: what turns may follow on, less the turns that ended since.
    owed: Owed,
    /// Of one that does: a task ended while it was idle, and it has not said anything since.
    follows: bool,
    /// A task ended then, and may be what a turn follows on.
    task_ended: Option<Duration>,
    /// Its last turn ended, and it has said nothing of its state since.
    rests: bool,
    /// Its last line.
    pub(super) heard: Duration,
    /// It has a turn begin by itself then.
    pub(super) wakes: Option<WakeUp>,
    pub(super) has_read: HasRead,
    pub(super) questions: u64,
    pub(super) closing_since: Option<Duration>,
    /// When it was last said for what the input is kept open, and for what.
    pub(super) kept: Option<(Duration, WaitsFor)>,
}

/// Turns that are to come, by what they follow on.
#[derive(Debug, Default)]
struct Owed {
    messages: u64,
    /// Ends of tasks.
    tasks: u64,
    /// The agent's own start, and what it has scheduled.
    own: u64,
}

impl Owed {
    fn any(&self) -> bool {
        self.messages + self.tasks + self.own > 0
    }

    /// A turn ended. What else it may have followed on goes first, and with `unannounced` turns about it may have followed
    /// on nothing that is counted: a message stays owed then, rather than to be taken from the turn that is to come.
    fn ended(&mut self, unannounced: bool) {
        let count = match self {
            Self { tasks: count @ 1.., .. } | Self { own: count @ 1.., .. } => count,
            _ if unannounced => return,
            Self { messages, .. } => messages,
        };
        *count = count.saturating_sub(1);
    }
}

/// A turn that is scheduled.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakeUp {
    /// It begins no sooner than this.
    from: Duration,
    /// And should have begun then.
    pub(super) until: Duration,
    /// A turn has begun meanwhile that may be it.
    begun: bool,
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
            owed: Owed { own: u64::from(resumes), ..Owed::default() },
            follows: false,
            task_ended: None,
            rests: false,
            heard: Duration::ZERO,
            wakes: None,
            has_read: HasRead::Unknown,
            questions: 0,
            closing_since: None,
            kept: None,
        }
    }

    /// The user's turn that asks belong to; none before the first.
    pub(super) fn turn(&self) -> Option<u64> {
        (self.messages > 0).then_some(self.messages)
    }

    pub(super) fn message_written(&mut self, now: Duration) {
        self.messages += 1;
        self.owed.messages += 1;
        self.stir(now);
    }

    /// The agent said something, whatever it is.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// The agent is there, mostly at the beginning of a turn. Before the first message it may be for nothing.
    pub(super) fn began(&mut self, now: Duration) {
        if let Some(wake) = self.wakes.filter(|wake| now >= wake.from) {
            // What begins before its time may be another one.
            self.wakes = (now < wake.until).then_some(WakeUp { begun: true, ..wake });
            self.owed.own += u64::from(!wake.begun);
        }
        if self.tells || self.messages > 0 || self.turns > 0 {
            return self.goes_on(now);
        }
        self.owed.own = self.owed.own.max(1);
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

    /// `unannounced`: turns may begin on what is not counted here.
    pub(super) fn turn_ended(&mut self, unannounced: bool, now: Duration) {
        self.works &= self.tells;
        self.rests = true;
        self.turns += 1;
        self.owed.ended(unannounced);
        self.stir(now);
    }

    /// A turn follows on it, also when somebody stopped it.
    pub(super) fn task_ended(&mut self, now: Duration) {
        self.owed.tasks += 1;
        self.follows = !self.works;
        self.task_ended = Some(now);
        self.stir(now);
    }

    /// It scheduled a turn, by the one and the other of its words. The last one counts.
    pub(super) fn wakes_within(&mut self, from: Duration, until: Duration, now: Duration) {
        self.wakes = Some(WakeUp { from: from.saturating_sub(WAKES_EARLY), until, begun: false });
        self.stir(now);
    }

    fn stir(&mut self, now: Duration) {
        self.stirred = now;
        self.has_read = HasRead::Unknown;
    }

    /// Its turn ended, and by its own word it works on: since when it has said nothing.
    pub(super) fn mute_since(&self) -> Option<Duration> {
        (self.works && self.rests).then(|| self.heard.max(self.stirred))
    }

    /// Hooks may hold up the turn of a message for long, and it says that it works meanwhile.
    pub(super) fn mute_patience(&self) -> Duration {
        if self.owed.any() { WORKS_PATIENCE } else { TURN_PATIENCE }
    }

    /// When nothing more is expected of the agent; `None`: it works.
    pub(super) fn idle_at(&self) -> Option<Duration> {
        let mute = self.mute_since().map(|since| since + self.mute_patience());
        if self.works && mute.is_none() {
            return None;
        }
        let wakes = self.wakes.map(|wake| match wake.begun && self.tells {
            // It says so in the moment in which it begins.
            true => wake.until + SETTLES,
            false => wake.until + TURN_PATIENCE,
        });
        let settled = self.task_ended.filter(|_| self.tells).map(|ended| ended + SETTLES);
        let patience = match self.expects() {
            true => TURN_PATIENCE,
            // A turn of its own may have been taken for that of a message which is to come.
            false if !self.tells && self.messages > 1 => SETTLES,
            false => Duration::ZERO,
        };
        let late = [mute, wakes, settled].into_iter().flatten().max().unwrap_or_default();
        Some((self.stirred + patience).max(late))
    }

    /// A turn may follow by itself.
    pub(super) fn expects(&self) -> bool {
        if self.tells { self.follows } else { self.owed.any() }
    }
}
