//! Subagents and other tasks of the agent, as its stream tells them.

use std::time::Duration;

use askd_wire::Observation;

use super::super::message::Line;
use super::Machine;
use super::life::TURN_PATIENCE;
use crate::raw::Object;

/// Ended tasks that are remembered for what is still said of them.
const MOST_ENDED: usize = 1000;
/// No wake-up is scheduled for later, in seconds.
const LONGEST_DELAY: u64 = 24 * 3600;

/// Something that runs beside the main thread, or inside one of its calls.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) depth: Option<u32>,
    pub(super) parent: Option<String>,
    /// The call that started it.
    call: Option<String>,
    background: Option<bool>,
    /// A shell asks nothing by itself.
    pub(super) is_shell: bool,
    pub(super) ended: bool,
    /// It had ended, and only something late says that it runs: what was heard last.
    doubted: Option<Duration>,
    /// A shell whose lines begin turns.
    watches: bool,
    /// Somebody stopped it, so that what is still heard of it means nothing.
    stopped: bool,
    /// What messages of the agent call it.
    handle: Option<String>,
    /// Its last beginning or end.
    since: Duration,
    /// The agent was told to stop it, because it ran for too long.
    pub(super) stop_sent: Option<Duration>,
}

/// A call that starts a subagent.
#[derive(Debug, Default)]
pub(super) struct Spawn {
    background: bool,
    handle: Option<String>,
}

/// A call whose result says something of turns and tasks.
#[derive(Debug)]
pub(super) enum Noted {
    /// A message to a subagent; one that had ended goes on by it, and not every version says so.
    Message { to: Option<String>, at: Duration },
    /// A turn is scheduled.
    Wakeup { delay: Option<u64> },
    /// A shell whose lines begin turns.
    Watch,
    /// Turns at times that it does not tell.
    Schedule,
}

impl Machine {
    pub(super) fn task_started(&mut self, line: &Line) {
        let Some(id) = line.text("task_id").filter(|id| !id.is_empty()) else { return };
        let parent = line.text("parent_task_id");
        let depth = match &parent {
            None => Some(1),
            Some(parent) => self.tasks.get(parent).and_then(|task| task.depth).map(|depth| depth + 1),
        };
        let told = line.get("spawn_depth").and_then(|depth| depth.parse().ok());
        let call = line.text("tool_use_id");
        let spawn = call.as_ref().and_then(|call| self.spawns.get(call));
        let background = match line.get("is_backgrounded") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            // Older versions say it nowhere but in the call.
            _ => spawn.map(|spawn| spawn.background),
        };
        let kind = line.text("subagent_type");
        let watches = call.as_ref().and_then(|call| self.noted.get(call));
        let watches = matches!(watches, Some(Noted::Watch));
        let is_shell = kind.is_none() && line.text("task_type").as_deref() == Some("local_bash") && !watches;
        let handle = spawn.and_then(|spawn| spawn.handle.clone());
        let handle = handle.or_else(|| self.tasks.get(&id).and_then(|task| task.handle.clone()));
        let task = Task {
            name: line.text("description"),
            kind,
            depth: told.or(depth),
            parent,
            call,
            background,
            is_shell,
            ended: false,
            doubted: None,
            watches,
            stopped: false,
            handle,
            since: self.now,
            stop_sent: None,
        };
        self.tasks.insert(id.clone(), task);
        self.tell_started(&id);
    }

    fn tell_started(&mut self, id: &str) {
        let Some(task) = self.tasks.get(id).filter(|task| !task.is_shell) else { return };
        let started = Observation::SubagentStarted {
            work_id: id.to_owned(),
            kind: task.kind.clone(),
            name: task.name.clone(),
            parent: task.parent.clone(),
            call: task.call.clone(),
        };
        self.observe(vec![started]);
    }

    /// Something is heard of a task that only one that runs can say. `surely`: it may not have been under way since before
    /// its end.
    pub(super) fn task_lives(&mut self, id: &str, surely: bool) {
        let now = self.now;
        let Some(task) = self.tasks.get(id).filter(|task| !task.stopped) else { return };
        let doubted = (task.ended || task.doubted.is_some()) && !surely;
        self.task_goes_on(id);
        if let Some(task) = self.tasks.get_mut(id) {
            task.doubted = doubted.then_some(now);
        }
    }

    /// It had ended, and runs again: nothing waits for the call that began it.
    fn task_goes_on(&mut self, id: &str) {
        let now = self.now;
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.doubted = None;
        if !task.ended {
            return;
        }
        (task.ended, task.stopped, task.background, task.since) = (false, false, Some(true), now);
        self.tell_started(id);
    }

    pub(super) fn task_updated(&mut self, line: &Line) {
        let Some(id) = line.text("task_id") else { return };
        let patch = line.object("patch");
        if let Some(background) = patch.get("is_backgrounded").and_then(|text| text.parse().ok())
            && let Some(task) = self.tasks.get_mut(&id)
        {
            task.background = Some(background);
        }
        match patch.text("status").as_deref() {
            Some("running") => self.task_goes_on(&id),
            Some(how @ ("completed" | "failed" | "killed" | "stopped" | "cancelled")) => {
                self.task_ended(&id, how);
            }
            _ => {}
        }
    }

    /// The agent was told of a task's end.
    pub(super) fn task_notified(&mut self, id: &str, how: &str) {
        if self.tasks.get(id).is_none_or(|task| !task.is_shell) {
            self.resumed_unknown = false;
        }
        self.task_ended(id, how);
    }

    /// A task is over, and waits for nothing that it asked.
    fn task_ended(&mut self, id: &str, how: &str) {
        let now = self.now;
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.stopped |= matches!(how, "killed" | "stopped" | "cancelled");
        if std::mem::replace(&mut task.ended, true) {
            return;
        }
        task.since = now;
        let is_shell = task.is_shell;
        // What ends inside a call of the turn is told to that turn.
        if task.background != Some(false) {
            self.life.task_ended(self.now);
        }
        self.winding.remove(&Some(id.to_owned()));
        self.asks_over(Some(id), "session_ended");
        if !is_shell {
            self.observe(vec![Observation::SubagentEnded { work_id: id.to_owned() }]);
        }
        if self.tasks.len() > MOST_ENDED {
            let oldest = self.tasks.iter().find(|(_, task)| task.ended).map(|(id, _)| id.clone());
            oldest.and_then(|id| self.tasks.remove(&id));
        }
    }

    /// A call of the agent that starts something.
    pub(super) fn calling(&mut self, tool: &str, call: String, input: &Object<'_>) {
        let noted = match tool {
            "Agent" | "Task" => {
                let background = input.get("run_in_background") == Some("true");
                self.spawns.insert(call, Spawn { background, handle: input.text("name") });
                return;
            }
            "SendMessage" => Noted::Message { to: input.text("to"), at: self.now },
            "ScheduleWakeup" => {
                Noted::Wakeup { delay: input.get("delaySeconds").and_then(|text| text.parse().ok()) }
            }
            "Monitor" => Noted::Watch,
            "CronCreate" => Noted::Schedule,
            _ => return,
        };
        self.noted.insert(call, noted);
    }

    /// Such a call has its result. `said`: its content, as JSON text.
    pub(super) fn noted_over(&mut self, call: &str, failed: bool, said: &str) {
        match self.noted.remove(call) {
            _ if failed => {}
            Some(Noted::Message { to, at }) => self.message_sent(to.as_deref(), at, said),
            Some(Noted::Wakeup { delay }) => {
                let told = said.split_once("(in ").and_then(|(_, rest)| rest.split_once("s)"));
                let told = told.and_then(|(seconds, _)| seconds.parse().ok());
                let at = |delay: Option<u64>| {
                    self.now.saturating_add(Duration::from_secs(delay.unwrap_or(0).min(LONGEST_DELAY)))
                };
                let delays = || [delay, told].into_iter().flatten();
                let (from, until) = (at(delays().min()), at(delays().max()));
                self.life.wakes_within(from, until, self.now);
            }
            Some(Noted::Schedule) => self.schedules = true,
            Some(Noted::Watch) | None => {}
        }
    }

    /// A subagent that had ended when the message was sent goes on by it.
    fn message_sent(&mut self, to: Option<&str>, at: Duration, said: &str) {
        if said.replace('\\', "").contains("\"success\":false") {
            return;
        }
        let agents = || self.tasks.iter().filter(|(_, task)| !task.is_shell);
        let target = agents()
            .find(|(id, _)| said.contains(id.as_str()) || to == Some(id.as_str()))
            .or_else(|| {
                let called = |task: &Task| to.is_some() && task.handle.as_deref() == to;
                agents().filter(|(_, task)| called(task)).max_by_key(|(_, task)| task.since)
            })
            .map(|(id, task)| (id.clone(), task.since));
        match target {
            Some((id, since)) if since <= at => self.task_goes_on(&id),
            Some(_) => {}
            None => self.resumed_unknown |= said.contains("resumed"),
        }
    }

    /// The call has its result: a subagent that goes on after that is in the background.
    pub(super) fn spawned(&mut self, call: &str) {
        if self.spawns.remove(call).is_none() {
            return;
        }
        for task in self.tasks.values_mut() {
            if task.call.as_deref() == Some(call) && !task.ended {
                task.background = Some(true);
            }
        }
    }

    /// It, or something above it, runs in the background.
    pub(super) fn is_in_background(&self, work: Option<&str>) -> bool {
        self.group(work).is_some()
    }

    /// What a stop ends together: the nearest task in the background, this one included; none: the main thread.
    pub(super) fn group<'a>(&'a self, work: Option<&'a str>) -> Option<&'a str> {
        self.above(work).find(|(_, task)| task.background == Some(true)).map(|(id, _)| id)
    }

    /// A task and everything above it, nearest first.
    fn above<'a>(&'a self, work: Option<&'a str>) -> impl Iterator<Item = (&'a str, &'a Task)> {
        let mut at = work.and_then(|work| self.tasks.get_key_value(work));
        // Bounded, so that a loop in what agents tell ends.
        let mut left = self.tasks.len();
        std::iter::from_fn(move || {
            let (id, this) = at.filter(|_| left > 0)?;
            left -= 1;
            at = this.parent.as_deref().and_then(|parent| self.tasks.get_key_value(parent));
            Some((id.as_str(), this))
        })
    }

    /// `work` is that task, or below it. No task: everything is below the main thread.
    pub(super) fn is_within(&self, work: Option<&str>, top: Option<&str>) -> bool {
        let Some(top) = top else { return true };
        work == Some(top) || self.above(work).any(|(_, task)| task.parent.as_deref() == Some(top))
    }

    /// Until when something runs that may still ask, or may have run; `None`: until it ends.
    pub(super) fn tasks_until(&self) -> Option<Duration> {
        if self.resumed_unknown {
            return None;
        }
        let mut until = Duration::ZERO;
        for task in self.tasks.values().filter(|task| !task.ended && !task.is_shell) {
            until = until.max(task.doubted? + TURN_PATIENCE);
        }
        Some(until)
    }

    /// Turns may begin that nothing announces.
    pub(super) fn begins_turns(&self) -> bool {
        self.schedules || self.tasks.values().any(|task| !task.ended && task.watches)
    }

    /// Shells that run. They ask nothing, but a turn may follow on their end.
    pub(super) fn shells(&self) -> impl Iterator<Item = (&str, &Task)> {
        let shells = self.tasks.iter().filter(|(_, task)| !task.ended && task.is_shell);
        shells.map(|(id, task)| (id.as_str(), task))
    }
}
