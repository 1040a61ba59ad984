//! Subagents and other tasks of the agent, as its stream tells them.

use askd_wire::Observation;

use super::super::message::Line;
use super::Machine;
use crate::raw::Object;

/// Ended tasks that are remembered for what is still said of them.
const MOST_ENDED: usize = 1000;

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
}

/// A call that starts a subagent.
#[derive(Debug, Default)]
pub(super) struct Spawn {
    background: bool,
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
        let is_shell = kind.is_none() && line.text("task_type").as_deref() == Some("local_bash");
        let task = Task {
            name: line.text("description"),
            kind,
            depth: told.or(depth),
            parent,
            call,
            background,
            is_shell,
            ended: false,
        };
        if !is_shell {
            self.observe(vec![Observation::SubagentStarted {
                work_id: id.clone(),
                kind: task.kind.clone(),
                name: task.name.clone(),
                parent: task.parent.clone(),
                call: task.call.clone(),
            }]);
        }
        self.tasks.insert(id, task);
    }

    pub(super) fn task_updated(&mut self, line: &Line) {
        let Some(id) = line.text("task_id") else { return };
        let patch = line.object("patch");
        if let Some(background) = patch.get("is_backgrounded").and_then(|text| text.parse().ok())
            && let Some(task) = self.tasks.get_mut(&id)
        {
            task.background = Some(background);
        }
        if matches!(
            patch.text("status").as_deref(),
            Some("completed" | "failed" | "killed" | "stopped" | "cancelled")
        ) {
            self.task_ended(&id);
        }
    }

    /// A task is over, and waits for nothing that it asked.
    pub(super) fn task_ended(&mut self, id: &str) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if std::mem::replace(&mut task.ended, true) {
            return;
        }
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

    /// A call of the agent that starts a subagent.
    pub(super) fn spawning(&mut self, call: &str, input: &Object<'_>) {
        let background = input.get("run_in_background") == Some("true");
        self.spawns.insert(call.to_owned(), Spawn { background });
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

    /// Something runs that may still ask, or that a turn may follow on.
    pub(super) fn runs_tasks(&self, shells_too: bool) -> bool {
        self.tasks.values().any(|task| !task.ended && (shells_too || !task.is_shell))
    }
}
