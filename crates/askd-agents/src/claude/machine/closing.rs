//! When the agent's input is closed after the host closed its own, and what is said while it stays open.
//!
//! Every wait has an end that is documented, or is for something that ends by itself; and every wait is said on standard
//! error, so that whoever waits for the end of the run knows for what.

use std::time::Duration;

use super::super::Action;
use super::super::message;
use super::Machine;
use super::life::{HasRead, SETTLES, TURN_PATIENCE};

/// For as long as nothing changes it is said again so often.
const SAID_AGAIN: Duration = Duration::from_secs(600);

/// What whoever is tired of it can do; nobody is denied anything by that.
const HOW_TO_END: &str = "Ctrl-C ends the run";

/// What the agent's input stays open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    Answer,
    /// The end of a turn that has begun.
    Turn,
    Task,
    /// One that may have ended.
    Doubted,
    Shell,
    WakeUp,
    NextTurn,
    /// That the agent says that it is idle.
    Idle,
    /// That it says that it has read everything.
    Reply,
}

struct Wait {
    what: WaitsFor,
    /// From when on it is worth a word.
    from: Duration,
    why: String,
}

impl Machine {
    /// With the host gone: the agent's input is closed when nothing is asked, nothing runs and no turn is to come.
    pub(super) fn consider_closing(&mut self) {
        if !self.host_gone || self.closed || self.ended {
            return;
        }
        self.life.closing_since.get_or_insert(self.now);
        if self.closing_due().is_none_or(|at| at > self.now) || self.stops_shells() {
            return self.say_kept();
        }
        if self.life.has_read == HasRead::Unknown {
            let (number, id) = self.own_request();
            self.life.has_read = HasRead::Asked { number, at: self.now };
            return self.tell_agent(message::status_request(&id));
        }
        let silent = matches!(self.life.has_read, HasRead::Asked { .. });
        if self.life.kept.is_some() || silent {
            let why = if silent {
                format!("it has replied to nothing for {}", minutes(TURN_PATIENCE))
            } else if self.shells().next().is_some() {
                format!("it has not stopped its background shell for {}", minutes(TURN_PATIENCE))
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

    /// The number and the id of the next request of this wrapper itself.
    fn own_request(&mut self) -> (u64, String) {
        self.life.questions += 1;
        (self.life.questions, self.own_id(self.life.questions))
    }

    fn own_id(&self, number: u64) -> String {
        format!("askd-{}-{number}", self.settings.mark)
    }

    /// The agent replied to a request; true: to one of this wrapper, which the host knows nothing of.
    pub(super) fn replied(&mut self, request: &str) -> bool {
        if let HasRead::Asked { number, .. } = self.life.has_read
            && request == self.own_id(number)
        {
            self.life.has_read = HasRead::Yes;
            return true;
        }
        (1..=self.life.questions).any(|number| request == self.own_id(number))
    }

    /// Shells that run on for longer than they may: the agent itself ends them, as it does by itself when its own input
    /// has ended. Its input stays open meanwhile, for whatever it asks on that. False: there are none.
    fn stops_shells(&mut self) -> bool {
        let overdue: Vec<String> =
            self.shells().filter(|(_, task)| task.stop_sent.is_none()).map(|(id, _)| id.to_owned()).collect();
        if overdue.is_empty() {
            return false;
        }
        let limit = span(self.settings.shell_patience.unwrap_or_default());
        let shells = self.shells_named();
        self.log(format!(
            "{shells} ran on for {limit} after the last turn (claude.shell_patience_secs): stopped"
        ));
        for id in overdue {
            let (_, request) = self.own_request();
            if let Some(task) = self.tasks.get_mut(&id) {
                task.stop_sent = Some(self.now);
            }
            self.tell_agent(message::stop_task(&request, &id));
        }
        true
    }

    /// What holds the input open is said when it is between turns, and again from time to time: somebody may wait for the
    /// end of the run.
    fn say_kept(&mut self) {
        let Some(wait) = self.wait().filter(|wait| self.told_at(wait) <= self.now) else { return };
        let again = match self.life.kept {
            Some(_) => "still open",
            None => "the host closed its end; the agent's input stays open",
        };
        self.life.kept = Some((self.now, wait.what));
        self.log(format!("{again}: {}", wait.why));
    }

    /// When this wait is to be said.
    fn told_at(&self, wait: &Wait) -> Duration {
        match self.life.kept {
            Some((told, what)) if what == wait.what => wait.from.max(told + SAID_AGAIN),
            _ => wait.from,
        }
    }

    /// When something is to be said, as things are now.
    pub(super) fn keeping_told_at(&self) -> Option<Duration> {
        let wait = self.wait().filter(|_| !self.closed && !self.ended)?;
        // What is due already is said with whatever comes next.
        Some(self.told_at(&wait)).filter(|at| *at > self.now)
    }

    /// What is waited for first; none: nothing, or somebody else says it.
    fn wait(&self) -> Option<Wait> {
        let (life, now) = (&self.life, self.now);
        let since = life.closing_since?;
        let wait = |what, from, why: String| Some(Wait { what, from, why });
        if !self.open.is_empty() {
            let asks = match self.open.len() {
                1 => "an ask waits".to_owned(),
                more => format!("{more} asks wait"),
            };
            // Where the host never saw a request, something else says what to type.
            let from = self.host_answers().then_some(since.max(life.heard) + SETTLES)?;
            return wait(WaitsFor::Answer, from, format!("{asks} for an answer: see `askd ls`"));
        }
        if life.works && life.mute_since().is_none() {
            let from = since.max(life.heard) + SAID_AGAIN;
            let silent = span(now.max(from).saturating_sub(life.heard));
            let why = format!("its turn goes on, and it has said nothing for {silent}; {HOW_TO_END}");
            return wait(WaitsFor::Turn, from, why);
        }
        // Mostly it says that it is idle in the next moment.
        let mute = life.mute_since().map_or(Duration::ZERO, |since| since + SETTLES);
        match self.tasks_until() {
            None => return wait(WaitsFor::Task, mute, format!("a background task runs; {HOW_TO_END}")),
            Some(until) if until > now => {
                let limit = minutes(TURN_PATIENCE);
                let why = format!(
                    "a background task that had ended was heard of again; for up to {limit} without another word of it"
                );
                return wait(WaitsFor::Doubted, mute, why);
            }
            Some(_) => {}
        }
        let shells = self.shells_named();
        if !shells.is_empty() {
            let until = match self.settings.shell_patience {
                Some(limit) => format!("for up to {} (claude.shell_patience_secs)", span(limit)),
                None => "as long as it runs (claude.shell_patience_secs)".to_owned(),
            };
            let why = format!("{shells} runs, and a turn may follow on its end, {until}; {HOW_TO_END}");
            return wait(WaitsFor::Shell, mute, why);
        }
        if let Some(wake) = life.wakes {
            let left = wake.until.saturating_sub(now).as_secs();
            return wait(WaitsFor::WakeUp, mute, format!("it has scheduled a turn of its own in {left} s"));
        }
        if life.expects() {
            // Mostly it begins in the next moment.
            let from = mute.max(life.stirred.max(since) + SETTLES);
            let why = format!("a turn may follow, for up to {}", minutes(TURN_PATIENCE));
            return wait(WaitsFor::NextTurn, from, why);
        }
        if life.works {
            let (since, limit) = (SETTLES.as_secs(), minutes(life.mute_patience()));
            let why = format!(
                "its turn ended, and it has not said for {since} s that it is idle; for up to {limit}"
            );
            return wait(WaitsFor::Idle, mute, why);
        }
        let HasRead::Asked { at, .. } = life.has_read else { return None };
        let limit = minutes(TURN_PATIENCE);
        let why =
            format!("it was asked whether it has read everything, and has not replied; for up to {limit}");
        wait(WaitsFor::Reply, at + SETTLES, why)
    }

    /// When [`Self::consider_closing`] has something to do, as things are now.
    pub(super) fn closing_due(&self) -> Option<Duration> {
        let since = self.life.closing_since.filter(|_| !self.closed && !self.ended)?;
        if !self.open.is_empty() {
            return None;
        }
        let mut due = self.life.idle_at()?.max(self.tasks_until()?).max(since);
        for (_, task) in self.shells() {
            // From the end of the turn on, however long that took.
            let patience = self.settings.shell_patience.map(|limit| self.life.stirred.max(since) + limit);
            due = due.max(task.stop_sent.map(|sent| sent + TURN_PATIENCE).or(patience)?);
        }
        let asked = match self.life.has_read {
            HasRead::Asked { at, .. } => at + TURN_PATIENCE,
            HasRead::Unknown | HasRead::Yes => Duration::ZERO,
        };
        Some(due.max(asked))
    }

    /// The shells that run, by what they are for; empty: there are none.
    fn shells_named(&self) -> String {
        let names: Vec<&str> = self.shells().filter_map(|(_, task)| task.name.as_deref()).collect();
        let shells = match self.shells().count() {
            0 => return String::new(),
            1 => "a background shell".to_owned(),
            more => format!("one of {more} background shells"),
        };
        match names.first() {
            Some(name) => format!("{shells} (\"{}\")", name.chars().take(80).collect::<String>()),
            None => shells,
        }
    }
}

fn minutes(span: Duration) -> String {
    format!("{} minutes", span.as_secs() / 60)
}

fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        _ => minutes(span),
    }
}
