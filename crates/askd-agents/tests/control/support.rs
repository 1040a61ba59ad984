//! A machine with everything that it did, as text.

use std::time::Duration;

use askd_agents::claude::{Action, AskNo, Errand, HostKind, Machine, News, Settings, StateLines};
use askd_wire::{Outcome, OutcomeKind, RaiseAsk, Verdict};
use serde_json::{Value, json};

pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) now: Duration,
    pub(crate) to_agent: Vec<String>,
    pub(crate) to_host: Vec<String>,
    pub(crate) raised: Vec<(AskNo, RaiseAsk)>,
    /// Everything, in order, in a few words each.
    pub(crate) did: Vec<String>,
    pub(crate) closed: bool,
    /// The agent replies at once when it is asked whether it has read everything.
    pub(crate) replies: bool,
    pub(crate) logs: Vec<String>,
}

impl Bench {
    pub(crate) fn new(host: HostKind) -> Self {
        let mut bench = Self::with(settings(host));
        bench.host(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
        bench.agent(&json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/p"}));
        bench.forget();
        bench
    }

    /// One that nothing was written to, and that has said nothing.
    pub(crate) fn untouched() -> Self {
        Self::with(settings(HostKind::Silent { attended: false }))
    }

    /// One that was started to go on with a turn of its own.
    pub(crate) fn resuming() -> Self {
        Self::with(Settings { resumes: true, ..settings(HostKind::Answers) })
    }

    /// One whose host wants to hear what the agent says of its state.
    pub(crate) fn telling_state() -> Self {
        Self::with(Settings { state_lines: StateLines::All, ..settings(HostKind::Answers) })
    }

    /// One whose background shells may run on for so long, with its first message written.
    pub(crate) fn with_shell_patience(limit: Duration) -> Self {
        let mut bench = Self::with(Settings {
            shell_patience: Some(limit),
            ..settings(HostKind::Silent { attended: false })
        });
        bench.host(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
        bench.forget();
        bench
    }

    fn with(settings: Settings) -> Self {
        Self {
            machine: Machine::new(settings),
            now: Duration::ZERO,
            to_agent: Vec::new(),
            to_host: Vec::new(),
            raised: Vec::new(),
            did: Vec::new(),
            closed: false,
            replies: true,
            logs: Vec::new(),
        }
    }

    /// Beside a host that answers.
    pub(crate) fn answering() -> Self {
        Self::new(HostKind::Answers)
    }

    /// Nothing happened so far.
    pub(crate) fn forget(&mut self) {
        self.to_agent.clear();
        self.to_host.clear();
        self.did.clear();
    }

    pub(crate) fn collect(&mut self) {
        for action in self.machine.take() {
            let word = match action {
                Action::ToAgent(line) => {
                    self.to_agent.push(String::from_utf8_lossy(&line).into_owned());
                    "to agent".to_owned()
                }
                Action::ToClient(line) => {
                    self.to_host.push(String::from_utf8_lossy(&line).into_owned());
                    "to host".to_owned()
                }
                Action::Handed { ask } => format!("handed {ask}"),
                Action::CloseAgent => {
                    self.closed = true;
                    "close".to_owned()
                }
                Action::Log(text) => {
                    self.logs.push(text);
                    continue;
                }
                Action::HiddenReply { .. } | Action::HiddenForget { .. } => continue,
                Action::Daemon(errand) => match errand {
                    Errand::Raise { ask, raise } => {
                        self.raised.push((ask, *raise));
                        format!("raise {ask}")
                    }
                    Errand::Answer { ask, decision, option, .. } => {
                        format!("answer {ask} {decision:?} {}", option.unwrap_or_default())
                    }
                    Errand::Withdraw { ask, cause } => format!("withdraw {ask} {cause}"),
                    Errand::Record { ask, allowed } => format!("record {ask} {allowed}"),
                    Errand::Confirmed { ask } => format!("confirmed {ask}"),
                    Errand::Unable { ask, .. } => format!("unable {ask}"),
                    Errand::Observe(batch) => format!("observe {:?}", batch.observations),
                    _ => continue,
                },
            };
            self.did.push(word);
        }
        if self.replies
            && let Some(id) = self.question()
        {
            self.to_agent.pop();
            self.reply(&id);
        }
    }

    /// The id of the question that was put to the agent last.
    pub(crate) fn question(&self) -> Option<String> {
        let line: Value = serde_json::from_str(self.to_agent.last()?).ok()?;
        let id = line["request_id"].as_str().filter(|_| line["request"]["subtype"] == "mcp_status");
        id.map(str::to_owned)
    }

    pub(crate) fn reply(&mut self, id: &str) {
        self.agent(
            &json!({"type": "control_response", "response": {"subtype": "success", "request_id": id}}),
        );
    }

    pub(crate) fn host_bytes(&mut self, line: &[u8]) {
        self.machine.host_line(line.to_vec(), self.now);
        self.collect();
    }

    pub(crate) fn agent_bytes(&mut self, line: &[u8]) {
        self.machine.agent_line(line.to_vec(), self.now);
        self.collect();
    }

    pub(crate) fn host(&mut self, line: &Value) {
        self.host_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn agent(&mut self, line: &Value) {
        self.agent_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn news(&mut self, news: News) {
        self.machine.news(news, self.now);
        self.collect();
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
        self.machine.tick(self.now);
        self.collect();
    }

    pub(crate) fn said(&self, part: &str) -> bool {
        self.logs.iter().any(|text| text.contains(part))
    }

    pub(crate) fn close_host(&mut self) {
        self.machine.host_closed(self.now);
        self.collect();
    }

    /// The agent asks; gives the ask's number.
    pub(crate) fn ask(&mut self, id: &str, call: &str) -> AskNo {
        self.ask_with(id, call, &json!({}))
    }

    pub(crate) fn ask_with(&mut self, id: &str, call: &str, more: &Value) -> AskNo {
        let mut request = json!({
            "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": format!("touch {call}")},
            "tool_use_id": call,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        self.agent(&json!({"type": "control_request", "request_id": id, "request": request}));
        self.raised.last().map_or(0, |(no, _)| *no)
    }

    pub(crate) fn raised_in_time(&mut self, ask: AskNo) {
        self.news(News::Raised { ask, timed: None });
    }

    pub(crate) fn respond(&mut self, id: &str, response: &Value) {
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        self.host(&json!({"type": "control_response", "response": response}));
    }

    pub(crate) fn outcome(&mut self, ask: AskNo, outcome: Outcome) {
        self.news(News::Outcome { ask, outcome: Box::new(outcome) });
    }

    pub(crate) fn did(&self, word: &str) -> bool {
        self.did.iter().any(|did| did == word)
    }

    /// The result of a call, as the agent tells it.
    pub(crate) fn result(&mut self, call: &str, failed: bool, meta: Value) {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": "x", "is_error": failed});
        let message = json!({"role": "user", "content": [block]});
        let mut line =
            json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": "s"});
        if !meta.is_null() {
            line["tool_result_meta"] = json!([{"id": call, "permission_decision": meta}]);
        }
        self.agent(&line);
    }
}

pub(crate) fn outcome(verdict: Verdict) -> Outcome {
    Outcome {
        outcome: match verdict {
            Verdict::Allow => OutcomeKind::Allowed,
            Verdict::Deny => OutcomeKind::Denied,
            Verdict::None => OutcomeKind::Withdrawn,
        },
        cause: "person".to_owned(),
        source: Some("direct".to_owned()),
        surface: Some("command line".to_owned()),
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: "2026-01-01T00:00:00.000Z".to_owned(),
        verdict,
        reason_for_model: (verdict == Verdict::Deny).then(|| "not that one".to_owned()),
        text: "answered".to_owned(),
        extra: serde_json::Map::new(),
    }
}

fn settings(host: HostKind) -> Settings {
    Settings {
        mark: "m".to_owned(),
        host,
        instance: None,
        cwd: Some("/p".to_owned()),
        unreached: Duration::from_secs(360),
        shell_patience: None,
        state_lines: StateLines::None,
        resumes: false,
    }
}
