//! The agent, its host and the people, and the account of what came to them.

mod beside;
mod turns;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use self::beside::Beside;
use super::Found;
use super::broker::Broker;
use crate::dice::Dice;

const SESSION: &str = "soak";
/// Most calls that wait at the same time.
const PARALLEL: usize = 6;
/// An answer that has not arrived after as many steps, with everybody there most of the time, is lost.
const SOON: u64 = 1_500;
/// The documented time of an ask in the background.
const BACKGROUND_MS: u64 = 360_000;
/// Most children in the background at once.
const CHILDREN: usize = 2;

/// A tool call, through all its requests.
#[derive(Default)]
struct Call {
    command: String,
    /// Its ids in the life that asks for it now.
    tool_use: String,
    request: String,
    /// What the host and people said, as far as it counts: they were told that it does.
    allowed: bool,
    denied: bool,
    /// A person answered, in this step; they will not do it again.
    answered: Option<u64>,
    /// It was stopped without the agent hearing of it: what is answered before askd hears of the stop is void, and it is
    /// asked again.
    crossed: bool,
    /// That was in a life before.
    carried: bool,
    /// It is in the account as lost.
    lost: bool,
    /// The broker has written a response to this request.
    responded: bool,
    /// The broker has heard that the agent does not wait any more.
    over: bool,
    /// The host still shows it.
    dialog: bool,
    /// The child in the background that asks; none: the main thread.
    child: Option<String>,
    /// It was asked in the background, or with no host there.
    background: bool,
    /// On the clock of the world.
    asked_ms: u64,
    /// What keeps asks may have said that it will never take this one.
    refused: bool,
}

/// What the agent says of its state, as versions differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nothing,
    /// It is idle between turns, also with children that work, and for a moment before a turn that follows on a
    /// child's end.
    Turns,
    /// It is idle when no child works and no turn is to come.
    All,
}

pub(super) struct World<B> {
    broker: B,
    dice: Dice,
    calls: u64,
    life: u32,
    requests: u64,
    steps: u64,
    /// Calls that the agent waits for.
    waiting: BTreeMap<u64, Call>,
    /// By request id, of this life.
    by_request: BTreeMap<String, u64>,
    /// Requests of this life whose calls are over.
    past: BTreeMap<String, bool>,
    /// Responses of the host that it may send once more, however long ago.
    sent: VecDeque<Value>,
    interrupt: bool,
    host_alive: bool,
    /// Children that run in the background.
    children: Vec<String>,
    /// Turns that will begin by themselves: for messages, and for the ends of children.
    queued: u32,
    tells: Tells,
    beside: Beside,
    /// What the agent said last of its state.
    state: &'static str,
    /// What was written to the agent and it has not read; none: it reads at once.
    unread: Option<VecDeque<Value>>,
    /// What keeps asks takes none.
    refuses: bool,
    /// What has passed.
    now_ms: u64,
    turn: bool,
    /// Since the host closed or the agent was resumed, nothing new is begun.
    resting: bool,
    found: Found,
    seed: u64,
}

impl<B: Broker> World<B> {
    pub(super) fn new(broker: B, seed: u64, calls: u64) -> Self {
        Self {
            broker,
            dice: Dice::new(seed),
            calls,
            life: 0,
            requests: 0,
            steps: 0,
            waiting: BTreeMap::new(),
            by_request: BTreeMap::new(),
            past: BTreeMap::new(),
            sent: VecDeque::new(),
            interrupt: false,
            host_alive: false,
            children: Vec::new(),
            queued: 0,
            tells: Tells::Nothing,
            beside: Beside::default(),
            state: "",
            unread: None,
            refuses: false,
            now_ms: 0,
            turn: false,
            resting: false,
            found: Found::default(),
            seed,
        }
    }

    pub(super) fn live(mut self, mut watch: impl FnMut(u64)) -> Found {
        self.begin(false);
        let mut told = 0;
        while self.found.calls < self.calls {
            self.step();
            if self.found.calls / 1000 > told {
                told = self.found.calls / 1000;
                watch(self.found.calls);
            }
        }
        self.drain();
        self.end(false);
        self.broker.come_back();
        self.broker.pass(4_000_000);
        self.found.held_at_the_end = self.broker.held();
        self.found
    }

    fn happen(&mut self, what: &'static str) {
        self.found.happened.insert(what);
    }

    // ---- lives

    fn begin(&mut self, resumes: bool) {
        self.life += 1;
        self.broker.begin(self.life, resumes);
        (self.host_alive, self.turn, self.resting, self.interrupt) = (true, false, false, false);
        self.past.clear();
        self.children.clear();
        self.queued = 0;
        self.tells = *self.dice.pick(&[Tells::Nothing, Tells::Turns, Tells::All, Tells::All]);
        (self.state, self.unread) = ("", None);
        let mute = self.tells != Tells::Nothing && self.dice.percent(10);
        if mute {
            self.happen("an agent that never says that it is idle");
        }
        self.beside = Beside::default();
        self.beside.mute = mute;
        if !resumes && self.tells != Tells::Nothing && self.dice.percent(10) {
            return self.begin_alone();
        }
        self.agent(&json!({"type": "system", "subtype": "init", "session_id": SESSION, "cwd": "/w"}));
    }

    /// The agent's process ends; what it waited for is asked again by the next, when it was killed.
    fn end(&mut self, lost: bool) {
        self.collect();
        self.broker.agent_ended(lost);
        self.by_request.clear();
        let left = std::mem::take(&mut self.waiting);
        if !lost {
            for call in left.into_values() {
                self.lost(&call);
            }
            return;
        }
        self.begin(!left.is_empty());
        self.resting = !left.is_empty();
        self.turn = self.resting;
        for (number, call) in left {
            // What was written to the process that died is gone with it, and may be asked about anew.
            let delivered = call.responded;
            let call = Call {
                command: call.command,
                allowed: call.allowed && !delivered,
                denied: call.denied && !delivered,
                answered: call.answered.filter(|_| !delivered).map(|_| self.steps),
                carried: true,
                lost: call.lost,
                ..Call::default()
            };
            self.ask(number, call);
        }
    }

    /// The call ends without a response.
    fn lost(&mut self, call: &Call) {
        if !call.responded && !call.lost {
            self.found.lost_answers += 1;
            let (seed, life) = (self.seed, self.life);
            let text = format!("seed {seed}, life {life}: {} never got a response", call.tool_use);
            self.found.wrong(|| text);
        }
    }

    /// Answers that the agent should have by now.
    fn look_for_lost_answers(&mut self) {
        let (steps, seed) = (self.steps, self.seed);
        for call in self.waiting.values_mut() {
            let overdue = call.answered.is_some_and(|at| at + SOON < steps);
            if overdue && !call.responded && !std::mem::replace(&mut call.lost, true) {
                self.found.lost_answers += 1;
                let text = format!(
                    "seed {seed}: the answer to {} of {} did not arrive",
                    call.request, call.tool_use
                );
                self.found.wrong(|| text);
            }
        }
    }

    // ---- one step

    fn step(&mut self) {
        self.steps += 1;
        self.look_for_lost_answers();
        match self.dice.below(1000) {
            0..110 => self.agent_asks(),
            110..260 => self.host_answers(),
            260..340 => self.person_answers(),
            340..870 => self.broker.work(&mut self.dice),
            870..880 => self.rest(),
            880..910 => {
                let ms = *self.dice.pick(&[5, 50, 300, 900]);
                self.pass(ms);
            }
            910..935 => self.hook_decides(),
            935..945 => self.repeat_a_response(),
            945..950 => self.unknown_response(),
            950..951 => self.host_interrupts(),
            951..957 => {
                self.happen("the daemon died or came back");
                self.broker.die_or_come();
            }
            957..972 => self.broker.come_back(),
            972..974 => self.host_closes(),
            974..976 => {
                self.happen("the agent was killed and resumed");
                self.end(true);
            }
            976..981 => self.child_begins_or_ends(),
            981..982 if self.dice.percent(50) => self.outage(),
            982..983 => self.takes_or_refuses(),
            983..989 => self.beside(),
            989..992 => self.host_replies(),
            _ => self.rest(),
        }
        self.collect();
        self.tell_state();
    }

    /// What keeps asks will take none, or takes them again.
    fn takes_or_refuses(&mut self) {
        let refuses = !self.refuses && self.dice.percent(30);
        self.refuses = self.broker.refuses(refuses) && refuses;
        if self.refuses {
            self.happen("asks were refused for good");
            self.waiting.values_mut().for_each(|call| call.refused = true);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.tell_state();
        self.wait(ms);
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.broker.pass(ms);
        self.wakes();
    }

    /// Time passes, and everybody does what they have to do meanwhile.
    fn live_on(&mut self, times: u64, ms: u64) {
        for _ in 0..times {
            for _ in 0..6 {
                self.broker.work(&mut self.dice);
                self.collect();
            }
            self.pass(ms);
            self.collect();
        }
    }

    /// What keeps asks is away, for longer than anybody's patience or than the deadline of an ask.
    fn outage(&mut self) {
        if self.tells == Tells::Nothing && self.queued > 0 {
            // Together with what holds up a turn it would be longer than anything that is documented.
            return;
        }
        self.broker.go_away();
        let ms = if self.dice.percent(30) {
            self.happen("the daemon was away for longer than a deadline");
            // Nor is an answer kept for as long that the life before has not got.
            let kept = self.waiting.values_mut().filter(|call| call.carried);
            kept.for_each(|call| call.answered = None);
            40_000
        } else {
            self.happen("the daemon was away for half a minute");
            3_000
        };
        self.live_on(5, ms);
        self.host_answers();
        self.agent_asks();
        self.live_on(5, ms);
        self.broker.come_back();
    }

    /// For looking at one seed.
    fn say(&self, what: &str, line: &Value) {
        if std::env::var_os("TELL").is_some() {
            eprintln!("{} {} {what}: {line}", self.life, self.now_ms);
        }
    }

    fn agent(&mut self, line: &Value) {
        self.say("agent", line);
        self.broker.agent_line(line);
        self.collect();
    }

    fn host(&mut self, line: &Value) {
        self.say("host", line);
        self.broker.host_line(line);
        self.collect();
    }

    // ---- the agent

    fn agent_asks(&mut self) {
        if self.resting || self.found.calls >= self.calls {
            return;
        }
        if !self.children.is_empty() && self.dice.percent(30) {
            let child = self.dice.pick(&self.children).clone();
            return self.ask_new(Some(child));
        }
        if !self.host_alive {
            // The turn goes on without its host, for a while.
            if self.turn && self.dice.percent(10) {
                self.ask_new(None);
            }
            return;
        }
        if !self.turn {
            self.host_says();
            self.turn_begins();
        }
        let together = if self.dice.percent(30) { self.dice.between(2, 4) } else { 1 };
        if together > 1 {
            self.happen("parallel calls");
        }
        for _ in 0..together {
            self.ask_new(None);
        }
    }

    fn host_says(&mut self) {
        let message = json!({"role": "user", "content": "go on"});
        self.host(&json!({"type": "user", "message": message, "session_id": SESSION}));
    }

    fn ask_new(&mut self, child: Option<String>) {
        if self.waiting.len() < PARALLEL && self.found.calls < self.calls {
            self.found.calls += 1;
            let number = self.found.calls;
            let command = format!("touch {number}");
            self.ask(number, Call { command, child, ..Call::default() });
        }
    }

    fn ask(&mut self, number: u64, mut call: Call) {
        self.requests += 1;
        call.tool_use = format!("toolu_{}_{number}", self.life);
        call.request = format!("request-{}", self.requests);
        call.dialog = self.host_alive;
        call.background = call.child.is_some() || !self.host_alive;
        call.asked_ms = self.now_ms;
        call.refused |= self.refuses;
        if self.broker.closed() {
            self.found.false_denies += 1;
            self.say("asked with its input closed", &json!(call.request));
            let (seed, id) = (self.seed, call.request);
            return self.found.wrong(|| format!("seed {seed}: {id} is asked with the agent's input closed"));
        }
        let mut line = json!({"type": "control_request", "request_id": call.request, "request": {
            "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": call.command},
            "tool_use_id": call.tool_use,
        }});
        if let Some(child) = &call.child {
            line["request"]["agent_id"] = json!(child);
        }
        self.by_request.insert(call.request.clone(), number);
        self.waiting.insert(number, call);
        self.agent(&line);
    }

    fn result(&mut self, call: &Call, allowed: bool, source: &str) {
        let content = json!([{"type": "tool_result", "tool_use_id": call.tool_use, "is_error": !allowed}]);
        let decision = if allowed { "allow" } else { "deny" };
        let meta =
            json!([{"id": call.tool_use, "permission_decision": {"decision": decision, "source": source}}]);
        self.agent(&json!({"type": "user", "message": {"role": "user", "content": content},
            "tool_result_meta": meta, "session_id": SESSION}));
    }

    /// A hook of the agent's own is first.
    fn hook_decides(&mut self) {
        // It may cross a person's answer, and does not come long after it.
        let steps = self.steps;
        let may = |call: &Call| !call.responded && call.answered.is_none_or(|at| at + 100 > steps);
        let Some(number) = self.one(may) else { return };
        self.happen("a hook of the agent was first");
        let allowed = self.dice.percent(50);
        let call = self.over(number);
        self.agent(&json!({"type": "control_cancel_request", "request_id": call.request}));
        self.found.ran += u64::from(allowed);
        self.found.denied += u64::from(!allowed);
        self.result(&call, allowed, "hook");
    }

    /// The agent does not wait for it any more, and the broker is told so next.
    fn over(&mut self, number: u64) -> Call {
        let mut call = self.waiting.remove(&number).unwrap();
        call.over = true;
        self.by_request.remove(&call.request);
        self.past.insert(call.request.clone(), true);
        call
    }

    fn agent_reads(&mut self, line: &Value) {
        match line["type"].as_str() {
            Some("control_response") => {
                self.hears_host(&line["response"]);
                self.agent_hears(&line["response"]);
            }
            Some("user") => {
                self.queued += 1;
                self.tell_state();
            }
            Some("control_request") if line["request"]["subtype"] == "mcp_status" => {
                self.happen("the agent was asked whether it has read everything");
                self.agent(&json!({"type": "control_response", "response": {
                    "subtype": "success", "request_id": line["request_id"], "response": {}}}));
            }
            Some("control_request") if line["request"]["subtype"] == "interrupt" => {
                self.interrupt = false;
                match self.dice.below(10) {
                    0 | 1 => return self.does_not_hear(),
                    2 => {
                        self.happen("an interrupt that was slow to work");
                        self.does_not_hear();
                        self.live_on(9, 1_000);
                    }
                    _ => {}
                }
                self.cancel_all(|_| true);
                for child in std::mem::take(&mut self.children) {
                    self.child_ends(&child, "stopped");
                }
                self.agent(&json!({"type": "control_response", "response": {
                    "subtype": "success", "request_id": line["request_id"], "response": {}}}));
                if self.turn {
                    self.agent(&json!({"type": "result", "subtype": "error", "session_id": SESSION}));
                }
                (self.turn, self.resting) = (false, false);
            }
            _ => {}
        }
    }

    /// The agent neither replies to an interrupt nor ends anything by it. What was answered and has not reached it is
    /// void; what it waits for is asked again.
    fn does_not_hear(&mut self) {
        self.happen("an interrupt without a reply");
        for call in self.waiting.values_mut().filter(|call| !call.responded) {
            (call.allowed, call.denied, call.answered, call.crossed) = (false, false, None, true);
        }
    }

    /// A response at the agent. It was accounted for when it was written.
    fn agent_hears(&mut self, response: &Value) {
        let Some(number) = response["request_id"].as_str().and_then(|id| self.by_request.get(id)).copied()
        else {
            return;
        };
        let call = self.over(number);
        let allowed = response["response"]["behavior"] == "allow";
        self.found.ran += u64::from(allowed);
        self.found.denied += u64::from(!allowed);
        self.result(&call, allowed, "user");
        if response["response"]["interrupt"] == true {
            self.thread_stops(call.child.as_deref());
        }
    }

    // ---- what the broker writes

    /// Takes everything that was written, and looks at it in the moment of its writing.
    fn collect(&mut self) {
        loop {
            if let Some(line) = self.broker.to_agent() {
                self.say("to the agent", &line);
                self.check(&line);
                match &mut self.unread {
                    Some(unread) => unread.push_back(line),
                    None => self.agent_reads(&line),
                }
            } else if let Some(line) = self.broker.to_host() {
                self.host_reads(&line);
            } else {
                self.found.most_held = self.found.most_held.max(self.broker.held());
                return;
            }
        }
    }

    fn check(&mut self, line: &Value) {
        let response = &line["response"];
        let Some(request) = response["request_id"].as_str().filter(|_| line["type"] == "control_response")
        else {
            return;
        };
        let allow = response["response"]["behavior"] == "allow";
        let seed = self.seed;
        if self.past.contains_key(request) {
            self.found.double_runs += 1;
            let text = format!("seed {seed}: {request} is over and gets {response}");
            return self.found.wrong(|| text);
        }
        let Some(call) = self.by_request.get(request).and_then(|number| self.waiting.get_mut(number)) else {
            return;
        };
        if std::mem::replace(&mut call.responded, true) {
            self.found.double_runs += 1;
        }
        let (allowed, denied, command) = (call.allowed, call.denied, call.command.clone());
        // The host is gone, or has failed.
        let alone = call.background || !self.host_alive || !call.dialog;
        let words = response["response"]["message"].as_str().unwrap_or_default();
        let refused = call.refused && words.contains("too large");
        let overdue = alone && self.now_ms >= call.asked_ms + BACKGROUND_MS;
        let text = format!("seed {seed}: {request} gets {response}; allowed: {allowed}, denied: {denied}");
        if allow && !allowed {
            self.found.false_allows += 1;
            self.found.wrong(|| text);
        } else if !allow && !denied && refused {
            self.found.refused += 1;
        } else if !allow && !denied && overdue {
            self.found.timed_out += 1;
        } else if !allow && !denied {
            self.found.false_denies += 1;
            self.found.wrong(|| text);
        } else if allow && response["response"]["updatedInput"]["command"] != command.as_str() {
            self.found.changed_inputs += 1;
            self.found.wrong(|| text);
        }
    }

    // ---- the host

    fn host_reads(&mut self, line: &Value) {
        self.host_gets(line);
        if line["type"] == "control_cancel_request"
            && let Some(number) = line["request_id"].as_str().and_then(|id| self.by_request.get(id))
            && let Some(call) = self.waiting.get_mut(number)
        {
            call.dialog = false;
        }
    }

    fn host_answers(&mut self) {
        if !self.host_alive || self.interrupt {
            return;
        }
        let Some(number) = self.one(|call| call.dialog) else { return };
        let call = self.waiting.get_mut(&number).unwrap();
        call.dialog = false;
        let request = call.request.clone();
        if self.dice.percent(6) {
            self.happen("the host failed");
            return self.host(&json!({"type": "control_response", "response": {
                "subtype": "error", "request_id": request, "error": "no window"}}));
        }
        let allow = self.dice.percent(65);
        call.allowed |= allow;
        call.denied |= !allow;
        let response = if allow {
            json!({"behavior": "allow", "updatedInput": {"command": call.command}, "toolUseID": call.tool_use})
        } else {
            let stop = self.dice.percent(10);
            json!({"behavior": "deny", "message": "the host says no", "interrupt": stop, "toolUseID": call.tool_use})
        };
        let line = json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": request, "response": response}});
        if self.sent.len() < 4_000 {
            self.sent.push_back(line.clone());
        }
        self.host(&line);
        if self.dice.percent(5) {
            self.happen("a response twice at once");
            self.host(&line);
        }
    }

    /// Something that it said long ago, in this life or another.
    fn repeat_a_response(&mut self) {
        if !self.host_alive || self.sent.is_empty() {
            return;
        }
        self.happen("an old response again");
        let line = self.sent[self.dice.index(self.sent.len())].clone();
        self.host(&line);
    }

    fn unknown_response(&mut self) {
        if self.host_alive {
            self.happen("an unknown response");
            let response = json!({"behavior": "allow", "updatedInput": {}, "toolUseID": "toolu_none"});
            self.host(&json!({"type": "control_response", "response": {
                "subtype": "success", "request_id": "nobody-asked", "response": response}}));
        }
    }

    fn host_interrupts(&mut self) {
        if self.host_alive && self.turn && !self.interrupt {
            self.happen("the turn was stopped");
            self.interrupt = true;
            self.requests += 1;
            let id = format!("stop-{}", self.requests);
            self.host(
                &json!({"type": "control_request", "request_id": id, "request": {"subtype": "interrupt"}}),
            );
        }
    }

    fn host_closes(&mut self) {
        if self.host_alive && !self.interrupt {
            self.happen("the host closed its end");
            if self.dice.percent(40) {
                self.happen("the host closed its end with a message queued");
                if self.dice.percent(50) {
                    self.happen("the host closed its end with a message that was not read");
                    self.unread = Some(VecDeque::new());
                }
                self.host_says();
            }
            if !self.waiting.is_empty() {
                self.happen("the host closed its end during an ask");
            }
            self.host_alive = false;
            self.waiting.values_mut().for_each(|call| call.dialog = false);
            self.broker.host_closed();
            self.collect();
            if self.unread.is_some() {
                let turn_ends = self.turn && !self.waiting.values().any(|call| call.child.is_none());
                if turn_ends {
                    self.agent(&json!({"type": "result", "subtype": "success", "session_id": SESSION}));
                    (self.turn, self.resting) = (false, false);
                }
                self.pass(400);
                self.unread_no_more();
            }
        }
    }

    // ---- people

    fn person_answers(&mut self) {
        let open = self.broker.open();
        if open.is_empty() {
            return;
        }
        let tool_use = self.dice.pick(&open).clone();
        let found = self.waiting.iter().find(|(_, call)| call.tool_use == tool_use);
        let number =
            found.filter(|(_, call)| call.answered.is_none() && !call.responded).map(|(number, _)| *number);
        let allow = self.dice.percent(65);
        let stop = !allow && self.dice.percent(20);
        if let Some(number) = number {
            let counts = self.broker.person(&tool_use, allow, stop);
            self.say("a person", &json!([tool_use, allow, stop, counts]));
            if counts && let Some(call) = self.waiting.get_mut(&number) {
                self.found.happened.insert("a person was first");
                let call: &mut Call = call;
                (call.answered, call.carried) = ((!call.crossed).then_some(self.steps), false);
                call.allowed |= allow;
                call.denied |= !allow;
            }
        } else {
            // One that nobody waits for, or that was answered: it must do no harm.
            let again = found.is_some();
            if !again {
                self.broker.person(&tool_use, allow, stop);
            }
        }
        self.collect();
    }

    /// One of the waiting calls.
    fn one(&mut self, fits: impl Fn(&Call) -> bool) -> Option<u64> {
        let fitting: Vec<u64> =
            self.waiting.iter().filter(|(_, call)| fits(call)).map(|(number, _)| *number).collect();
        (!fitting.is_empty()).then(|| *self.dice.pick(&fitting))
    }

    /// Nothing goes wrong any more, and everything is answered.
    fn drain(&mut self) {
        self.refuses = false;
        self.broker.refuses(false);
        for _ in 0..4_000 {
            if self.waiting.is_empty() {
                return;
            }
            self.broker.come_back();
            for _ in 0..8 {
                self.broker.work(&mut self.dice);
                self.collect();
            }
            self.pass(20);
            self.person_answers();
            self.host_answers();
        }
    }
}
