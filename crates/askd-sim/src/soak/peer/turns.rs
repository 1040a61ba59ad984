//! The agent's turns, its children in the background, and what it says of its state.

use serde_json::json;

use super::super::broker::Broker;
use super::{CHILDREN, Call, SESSION, Tells, World};

impl<B: Broker> World<B> {
    /// A life without its host, or after a resume, comes to rest: then the next turn or life begins.
    pub(super) fn rest(&mut self) {
        self.is_replied_to();
        if !self.host_alive && self.dice.percent(20) {
            self.child_resumes();
        }
        let main_waits = self.beside.waits() || self.waiting.values().any(|call| call.child.is_none());
        if !main_waits && self.turn && self.dice.percent(30) {
            self.agent(&json!({"type": "result", "subtype": "success", "session_id": SESSION}));
            (self.turn, self.resting) = (false, false);
        }
        if self.turn && self.queued > 0 && self.dice.percent(3) {
            self.happen("two messages in one turn");
            self.queued -= 1;
        }
        if self.host_alive && (self.turn || self.queued == 0) {
            return;
        }
        if self.turn || self.waiting.values().any(|call| call.child.is_none()) {
            return;
        }
        if self.queued > 0 {
            self.late_turn();
        } else if self.waiting.is_empty() && !self.ends_beside() {
            self.is_let_go();
            self.end(false);
            self.begin(false);
        }
    }

    /// Nothing is left that the agent's input is needed for: it must be closed, and soon when the agent says so.
    pub(super) fn is_let_go(&mut self) {
        self.unread_no_more();
        match self.tells {
            _ if self.beside.mute => self.live_on(430, 10_000),
            Tells::Nothing => self.live_on(700, 1_000),
            _ if self.beside.doubtful => self.live_on(700, 1_000),
            _ => self.live_on(12, 1_000),
        }
        if !self.broker.closed() {
            self.found.never_let_go += 1;
            let (seed, life) = (self.seed, self.life);
            self.found.wrong(|| format!("seed {seed}, life {life}: the agent is not let go"));
        }
    }

    /// A turn that a message of the host or a child's end has left behind. Hooks of the person run before it, and the
    /// agent says nothing meanwhile.
    pub(super) fn late_turn(&mut self) {
        if !self.host_alive {
            self.happen("a turn began after the host had closed its end");
        }
        let longest = if self.tells == Tells::Nothing || self.beside.mute { 200 } else { 2_000 };
        let seconds = *self.dice.pick(&[0, 1, 5, 30, longest]);
        self.live_on(seconds, 1_000);
        self.turn_begins();
        self.ask_new(None);
    }

    pub(super) fn turn_begins(&mut self) {
        self.queued = self.queued.saturating_sub(1);
        self.turn = true;
        self.tell_state();
        self.agent(&json!({"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/w"}));
    }

    /// The agent says whether it works, when that is another thing than it said last.
    pub(super) fn tell_state(&mut self) {
        let children = self.tells == Tells::All && !self.children.is_empty();
        let state = match () {
            () if !self.waiting.is_empty() => "requires_action",
            () if self.turn || self.queued > 0 || children => "running",
            () => "idle",
        };
        let says = self.tells != Tells::Nothing && !(self.beside.mute && state == "idle");
        if says && state != self.state {
            self.say_state(state);
        }
    }

    pub(super) fn say_state(&mut self, state: &'static str) {
        self.state = state;
        self.agent(&json!({"type": "system", "subtype": "session_state_changed", "state": state,
            "session_id": SESSION}));
    }

    /// The agent reads what was written to it.
    pub(super) fn unread_no_more(&mut self) {
        for line in self.unread.take().into_iter().flatten() {
            self.agent_reads(&line);
        }
        self.collect();
    }

    pub(super) fn child_begins_or_ends(&mut self) {
        if self.turn && self.host_alive && self.children.len() < CHILDREN && self.dice.percent(60) {
            self.happen("a child in the background");
            self.requests += 1;
            let (child, call) = (format!("task-{}", self.requests), format!("toolu_task_{}", self.requests));
            let input = json!({"prompt": "look", "run_in_background": true});
            let content = json!([{"type": "tool_use", "id": call, "name": "Agent", "input": input}]);
            let message = json!({"role": "assistant", "content": content});
            self.agent(&json!({"type": "assistant", "message": message, "session_id": SESSION}));
            self.agent(&json!({"type": "system", "subtype": "task_started", "task_id": child,
                "tool_use_id": call, "description": "look", "subagent_type": "general-purpose",
                "is_backgrounded": true, "session_id": SESSION}));
            let content = json!([{"type": "tool_result", "tool_use_id": call, "is_error": false}]);
            let message = json!({"role": "user", "content": content});
            self.agent(&json!({"type": "user", "message": message, "session_id": SESSION}));
            self.children.push(child);
            return;
        }
        let idle = |child: &&String| !self.waiting.values().any(|call| call.child.as_ref() == Some(*child));
        if let Some(child) = self.children.iter().find(idle).cloned() {
            self.child_ends(&child, "completed");
        }
    }

    pub(super) fn child_ends(&mut self, child: &str, how: &str) {
        self.children.retain(|other| other != child);
        self.agent(&json!({"type": "system", "subtype": "task_notification", "task_id": child,
            "status": how, "session_id": SESSION}));
        if self.tells == Tells::Turns && self.dice.percent(50) {
            // The turn that follows on it is not in sight yet.
            if self.turn && !self.waiting.values().any(|call| call.child.is_none()) {
                self.happen("a turn ended between a child's end and the turn that follows on it");
                self.agent(&json!({"type": "result", "subtype": "success", "session_id": SESSION}));
                (self.turn, self.resting) = (false, false);
                self.tell_state();
            }
            self.wait(50);
        }
        self.beside.ended = (how == "completed").then(|| child.to_owned());
        if how == "completed" && self.dice.percent(5) {
            self.happen("a late word of a child that had ended");
            self.beside.doubtful = true;
            self.agent(&json!({"type": "system", "subtype": "task_progress", "task_id": child,
                "session_id": SESSION}));
        }
        // A turn follows on it, whoever ended it.
        self.queued += 1;
        self.tell_state();
    }

    /// A denial that stops the thread that asked: what else that thread asks is cancelled, and nothing of others.
    pub(super) fn thread_stops(&mut self, child: Option<&str>) {
        self.happen(match child {
            Some(_) => "a denial stopped a child in the background",
            None => "a denial stopped the turn",
        });
        self.cancel_all(|call| call.child.as_deref() == child);
        match child {
            Some(child) => self.child_ends(child, "stopped"),
            None => {
                self.agent(&json!({"type": "result", "subtype": "error", "session_id": SESSION}));
                (self.turn, self.resting) = (false, false);
            }
        }
    }

    pub(super) fn cancel_all(&mut self, of: impl Fn(&Call) -> bool) {
        let all = self.waiting.iter().filter(|(_, call)| of(call)).map(|(number, _)| *number);
        for number in all.collect::<Vec<_>>() {
            if !self.waiting.contains_key(&number) {
                continue;
            }
            let call = self.over(number);
            self.found.cancelled += 1;
            self.agent(&json!({"type": "control_cancel_request", "request_id": call.request}));
            self.result(&call, false, "user");
        }
    }
}
