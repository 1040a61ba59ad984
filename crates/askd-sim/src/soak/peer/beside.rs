//! What the agent does besides asking for permission: shells and monitors in the background, turns that it schedules or
//! begins by itself, children that a message resumes, and requests that only its host can reply to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::broker::Broker;
use super::{CHILDREN, SESSION, Tells, World};

#[derive(Default)]
pub(super) struct Beside {
    shell: Option<String>,
    monitor: Option<String>,
    /// On the clock of the world.
    wake_at: Option<u64>,
    /// A child that has ended, and may be resumed.
    pub(super) ended: Option<String>,
    /// Something late was said of a child that had ended.
    pub(super) doubtful: bool,
    /// What the agent waits for from its host; true: a hook that checks a call.
    at_host: BTreeMap<String, bool>,
    /// As the host has it.
    host_has: Vec<String>,
    /// It says that it works, and never that it is idle.
    pub(super) mute: bool,
}

impl Beside {
    /// The main thread waits for its host.
    pub(super) fn waits(&self) -> bool {
        !self.at_host.is_empty()
    }
}

impl<B: Broker> World<B> {
    /// Nothing is told, or the agent has begun a turn by itself, when the host is gone already.
    pub(super) fn begin_alone(&mut self) {
        self.happen("the host closed before anything was told");
        self.unread = Some(std::collections::VecDeque::new());
        self.host_alive = false;
        self.broker.host_closed();
        self.collect();
        if self.dice.percent(60) {
            self.happen("a turn began by itself at the start");
            self.queued = 1;
            self.tell_state();
        }
        self.unread_no_more();
    }

    /// One thing of all these.
    pub(super) fn beside(&mut self) {
        match self.dice.below(9) {
            0 => self.shell_begins(),
            1 => self.monitor_begins(),
            2 => self.schedules(),
            3..6 => self.child_resumes(),
            6 | 7 => self.wants_host(),
            _ => self.monitor_tells(),
        }
    }

    /// A call of the main thread that nobody is asked about, and its result.
    fn calls(&mut self, tool: &str, input: &Value, between: Option<Value>, said: &str) {
        self.requests += 1;
        let call = format!("toolu_beside_{}", self.requests);
        let content = json!([{"type": "tool_use", "id": call, "name": tool, "input": input}]);
        let message = json!({"role": "assistant", "content": content});
        self.agent(&json!({"type": "assistant", "message": message, "session_id": SESSION}));
        if let Some(mut line) = between {
            line["tool_use_id"] = json!(call);
            self.agent(&line);
        }
        let content =
            json!([{"type": "tool_result", "tool_use_id": call, "content": said, "is_error": false}]);
        let message = json!({"role": "user", "content": content});
        self.agent(&json!({"type": "user", "message": message, "session_id": SESSION}));
    }

    fn started(&mut self, kind: &str) -> (String, Value) {
        self.requests += 1;
        let id = format!("{kind}-{}", self.requests);
        let line = json!({"type": "system", "subtype": "task_started", "task_id": id, "description": kind,
            "task_type": "local_bash", "is_backgrounded": true, "session_id": SESSION});
        (id, line)
    }

    fn shell_begins(&mut self) {
        if self.turn && self.beside.shell.is_none() {
            self.happen("a shell in the background");
            let (id, line) = self.started("shell");
            self.beside.shell = Some(id);
            let input = json!({"command": "make", "run_in_background": true});
            self.calls("Bash", &input, Some(line), "Command running in background");
        }
    }

    fn monitor_begins(&mut self) {
        if self.turn && self.beside.monitor.is_none() {
            self.happen("a monitor");
            let (id, line) = self.started("monitor");
            self.beside.monitor = Some(id);
            self.calls("Monitor", &json!({"command": "tail"}), Some(line), "Monitor started");
        }
    }

    /// A line of what it watches: a turn begins on it that nothing announces.
    fn monitor_tells(&mut self) {
        if self.beside.monitor.is_some() && !self.turn && self.queued == 0 {
            self.happen("a turn on a line of a monitor");
            self.queued += 1;
        }
    }

    fn task_is_over(&mut self, id: &str) {
        self.agent(&json!({"type": "system", "subtype": "task_notification", "task_id": id,
            "status": "completed", "session_id": SESSION}));
        self.queued += 1;
        self.tell_state();
    }

    fn schedules(&mut self) {
        if self.turn && self.beside.wake_at.is_none() {
            self.happen("a scheduled turn");
            let seconds = *self.dice.pick(&[60, 300, 1_800]);
            self.beside.wake_at = Some(self.now_ms + seconds * 1_000);
            let said = format!("Next wakeup scheduled for later (in {seconds}s). Until then, nothing.");
            self.calls("ScheduleWakeup", &json!({"delaySeconds": seconds, "prompt": "go on"}), None, &said);
        }
    }

    /// Time passed.
    pub(super) fn wakes(&mut self) {
        if self.beside.wake_at.is_some_and(|at| at <= self.now_ms) {
            self.beside.wake_at = None;
            self.queued += 1;
            self.tell_state();
        }
    }

    /// Some versions say nothing of it but in the result of the call.
    pub(super) fn child_resumes(&mut self) {
        if !self.turn || self.children.len() >= CHILDREN {
            return;
        }
        let Some(child) = self.beside.ended.take() else { return };
        self.happen("a child was resumed after its end");
        let said = format!("Agent {child} was stopped (completed); resumed it in the background");
        self.calls("SendMessage", &json!({"to": child, "message": "and that?"}), None, &said);
        if self.tells == Tells::All {
            self.agent(&json!({"type": "system", "subtype": "task_started", "task_id": child,
                "description": "look", "subagent_type": "general-purpose", "is_backgrounded": true,
                "session_id": SESSION}));
        }
        self.children.push(child);
    }

    fn wants_host(&mut self) {
        if !self.turn || self.beside.waits() || self.interrupt {
            return;
        }
        self.happen(if self.host_alive {
            "the agent wanted something else of its host"
        } else {
            "the agent wanted something else of a host that was gone"
        });
        self.requests += 1;
        let id = format!("wants-{}", self.requests);
        let checks = self.dice.percent(40);
        let request = match (checks, self.dice.percent(50)) {
            (true, _) => {
                json!({"subtype": "hook_callback", "callback_id": "h", "input": {"hook_event_name": "PreToolUse"}})
            }
            (false, true) => {
                json!({"subtype": "hook_callback", "callback_id": "h", "input": {"hook_event_name": "PostToolUse"}})
            }
            (false, false) => {
                json!({"subtype": "mcp_message", "server_name": "sdk", "message": {"method": "tools/call"}})
            }
        };
        self.beside.at_host.insert(id.clone(), checks);
        self.agent(&json!({"type": "control_request", "request_id": id, "request": request}));
    }

    /// The host has such a request.
    pub(super) fn host_gets(&mut self, line: &Value) {
        if let Some(id) = line["request_id"].as_str().filter(|id| self.beside.at_host.contains_key(*id)) {
            self.beside.host_has.push(id.to_owned());
        }
    }

    pub(super) fn host_replies(&mut self) {
        if self.host_alive
            && let Some(id) = self.beside.host_has.pop()
        {
            self.host(&json!({"type": "control_response", "response": {
                "subtype": "success", "request_id": id, "response": {}}}));
        }
    }

    /// A reply to what the agent wanted of its host.
    pub(super) fn hears_host(&mut self, response: &Value) {
        let Some(checks) = response["request_id"].as_str().and_then(|id| self.beside.at_host.remove(id))
        else {
            return;
        };
        if !checks {
            return;
        }
        // Without a decision the call goes on, and rules may let it run.
        let decision = &response["response"]["hookSpecificOutput"]["permissionDecision"];
        if self.host_alive {
            return;
        }
        if decision == "ask" {
            self.happen("a call that nobody had checked was asked about");
            self.ask_new(None);
        } else {
            self.found.unchecked += 1;
            let seed = self.seed;
            self.found
                .wrong(|| format!("seed {seed}: a call that the host would have checked goes on unchecked"));
        }
    }

    /// With the host gone nobody else replies.
    pub(super) fn is_replied_to(&mut self) {
        if !self.host_alive && self.unread.is_none() && self.beside.waits() {
            self.beside.at_host.clear();
            self.found.hung += 1;
            let (seed, life) = (self.seed, self.life);
            self.found.wrong(|| format!("seed {seed}, life {life}: the agent waits for a host that is gone"));
        }
    }

    /// With nothing else to come: what runs in the background ends, hours later, or a scheduled turn comes. False: there
    /// is nothing of that.
    pub(super) fn ends_beside(&mut self) -> bool {
        if let Some(child) = self.children.first().cloned() {
            if self.dice.percent(40) {
                let seconds = *self.dice.pick(&[1, 30]);
                self.live_on(seconds, 1_000);
                self.ask_new(Some(child));
                return true;
            }
            self.child_ends(&child, "completed");
        } else if let Some(id) = self.beside.shell.take() {
            if self.dice.percent(50) {
                self.happen("a shell ran on for hours");
                self.live_on(12, 900_000);
            }
            self.task_is_over(&id);
        } else if self.beside.monitor.is_some() {
            if self.dice.percent(50) {
                self.live_on(4, 900_000);
                self.monitor_tells();
            } else if let Some(id) = self.beside.monitor.take() {
                self.task_is_over(&id);
            }
        } else if let Some(at) = self.beside.wake_at {
            let seconds = at.saturating_sub(self.now_ms) / 1_000 + 1;
            self.live_on(10, seconds * 100 + 1);
        } else {
            return false;
        }
        true
    }
}
