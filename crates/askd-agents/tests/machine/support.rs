//! A machine between a client and an agent that exist only as lines.

use std::time::Duration;

use agent_client_protocol_schema::v1 as schema;
use askd_agents::acp::{Action, AskNo, Dismiss, Errand, Machine, News, Settings};
use askd_agents::hidden::{HiddenAsk, HiddenEvent, HiddenOption, HiddenReply, HiddenSubagent};
use askd_wire::{Outcome, OutcomeKind, RaiseAsk, Verdict};
use serde_json::{Value, json};

/// A machine and everything that it gave out since it was asked the last time.
pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) to_agent: Vec<String>,
    pub(crate) to_client: Vec<String>,
    pub(crate) raised: Vec<(AskNo, RaiseAsk)>,
    pub(crate) told: Vec<String>,
    pub(crate) replies: Vec<(String, HiddenReply, Option<String>)>,
    pub(crate) closed: bool,
    pub(crate) now: Duration,
}

pub(crate) const OPTIONS: &str = r#"[{"optionId":"ok","name":"Allow once","kind":"allow_once"},{"optionId":"ever","name":"Always","kind":"allow_always"},{"optionId":"no","name":"Reject","kind":"reject_once"}]"#;

const HIDDEN_OPTIONS: &[HiddenOption] = &[
    HiddenOption { id: "once", name: "Allow once", kind: "allow_once", reply: HiddenReply::Once },
    HiddenOption { id: "always", name: "Always allow", kind: "allow_always", reply: HiddenReply::Always },
    HiddenOption { id: "reject", name: "Reject", kind: "reject_once", reply: HiddenReply::Reject },
];

impl Stage {
    pub(crate) fn bare(translate: bool) -> Self {
        Self::with_grace(translate, Duration::from_secs(60))
    }

    pub(crate) fn with_grace(translate: bool, grace: Duration) -> Self {
        let settings = Settings {
            dismiss: Dismiss::Ignore,
            grace,
            translate,
            mark: "m".to_owned(),
            agent: "agent".to_owned(),
            instance: None,
        };
        let mut machine = Machine::new(settings);
        machine.set_hidden_options(HIDDEN_OPTIONS);
        Self {
            machine,
            to_agent: Vec::new(),
            to_client: Vec::new(),
            raised: Vec::new(),
            told: Vec::new(),
            replies: Vec::new(),
            closed: false,
            now: Duration::ZERO,
        }
    }

    /// With session `s`, in a prompt.
    pub(crate) fn new(agent: &str, capabilities: &Value) -> Self {
        Self::with(agent, capabilities, false)
    }

    pub(crate) fn with(agent: &str, capabilities: &Value, translate: bool) -> Self {
        let mut stage = Self::bare(translate);
        stage.client(&json!({"id":1,"method":"initialize","params":{"protocolVersion":1,
            "clientCapabilities":capabilities,"clientInfo":{"name":"c","title":"The Client","version":"1"}}}));
        stage.agent(&json!({"id":1,"result":{"protocolVersion":1,"agentInfo":{"name":agent,"version":"1"}}}));
        stage.client(&json!({"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}));
        stage.agent(&json!({"id":2,"result":{"sessionId":"s"}}));
        stage.prompt(3);
        stage.clear();
        stage
    }

    pub(crate) fn clear(&mut self) {
        self.to_agent.clear();
        self.to_client.clear();
        self.told.clear();
        self.replies.clear();
        self.raised.clear();
    }

    pub(crate) fn prompt(&mut self, id: u64) {
        self.client(&json!({"id":id,"method":"session/prompt","params":{"sessionId":"s",
            "prompt":[{"type":"text","text":"go"}]}}));
    }

    fn collect(&mut self) {
        for action in self.machine.take() {
            let told = format!("{action:?}");
            match action {
                Action::ToAgent(line) => self.to_agent.push(String::from_utf8(line).unwrap()),
                Action::ToClient(line) => {
                    let line = String::from_utf8(line).unwrap();
                    check(&line);
                    self.to_client.push(line);
                }
                Action::Daemon(Errand::Raise { ask, raise }) => self.raised.push((ask, *raise)),
                Action::HiddenReply { id, reply, message, .. } => self.replies.push((id, reply, message)),
                Action::CloseAgent => self.closed = true,
                _ => self.told.push(told),
            }
        }
    }

    pub(crate) fn client(&mut self, message: &Value) {
        self.client_raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn client_raw(&mut self, line: &[u8]) {
        self.machine.client_line(line.to_vec(), self.now);
        self.collect();
    }

    pub(crate) fn agent(&mut self, message: &Value) {
        self.agent_raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn agent_raw(&mut self, line: &[u8]) {
        self.machine.agent_line(line.to_vec(), self.now);
        self.collect();
    }

    pub(crate) fn news(&mut self, news: News) {
        self.machine.news(news, self.now);
        self.collect();
    }

    pub(crate) fn hidden(&mut self, event: HiddenEvent) {
        self.machine.hidden(event, self.now);
        self.collect();
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
        self.machine.tick(self.now);
        self.collect();
    }

    pub(crate) fn client_closed(&mut self) {
        self.machine.client_closed(self.now);
        self.collect();
    }

    pub(crate) fn agent_closed(&mut self) {
        self.machine.agent_closed(self.now);
        self.collect();
    }

    /// The agent asks, and askd knows it; gives its number.
    pub(crate) fn ask(&mut self, id: &Value, session: &str, call: &str) -> AskNo {
        let options: Value = serde_json::from_str(OPTIONS).unwrap();
        self.agent(&json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":session,
            "toolCall":{"toolCallId":call,"title":"touch x","kind":"execute","rawInput":{"command":"touch x"}},
            "options":options}}));
        self.last_raised()
    }

    /// The ask that was raised last is in the journal.
    pub(crate) fn last_raised(&mut self) -> AskNo {
        let ask = self.raised.last().unwrap().0;
        self.news(News::Raised { ask, timed: None });
        ask
    }

    pub(crate) fn update(&mut self, session: &str, update: Value) {
        self.agent(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":session,"update":update}}));
    }

    pub(crate) fn select(&mut self, id: &Value, option: &str) {
        self.client(&json!({"id":id,"result":{"outcome":{"outcome":"selected","optionId":option}}}));
    }

    pub(crate) fn elsewhere(&mut self, ask: AskNo, option: &str, verdict: Verdict) {
        self.news(News::Outcome { ask, outcome: Box::new(outcome(option, verdict)) });
    }

    /// The only line to the client with this method.
    pub(crate) fn at_client(&self, method: &str) -> Value {
        let found: Vec<Value> = self.all_at_client(method);
        assert_eq!(found.len(), 1, "{method}: {:#?}", self.to_client);
        found[0].clone()
    }

    pub(crate) fn all_at_client(&self, method: &str) -> Vec<Value> {
        let lines = self.to_client.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["method"] == method).collect()
    }

    /// What the agent was answered to this request.
    pub(crate) fn answers(&self, id: &Value) -> Vec<Value> {
        let lines = self.to_agent.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("method").is_none() && line["id"] == *id).collect()
    }

    pub(crate) fn was_told(&self, what: &str) -> bool {
        self.told.iter().any(|told| told.contains(what))
    }
}

pub(crate) fn outcome(option: &str, verdict: Verdict) -> Outcome {
    let (kind, cause) = match verdict {
        Verdict::Allow => (OutcomeKind::Allowed, "person"),
        Verdict::Deny => (OutcomeKind::Denied, "person"),
        Verdict::None => (OutcomeKind::Withdrawn, "cancelled"),
    };
    Outcome {
        outcome: kind,
        cause: cause.to_owned(),
        source: Some("direct".to_owned()),
        surface: Some("terminal".to_owned()),
        by: None,
        option: (!option.is_empty()).then(|| option.to_owned()),
        message: None,
        stop: false,
        settled_at: "2026-11-30T08:00:00.000Z".to_owned(),
        verdict,
        reason_for_model: (verdict == Verdict::Deny).then(|| "not this one".to_owned()),
        text: String::new(),
        extra: serde_json::Map::new(),
    }
}

pub(crate) fn hidden_ask(id: &str, child: &str, call: &str) -> HiddenEvent {
    HiddenEvent::Asked(Box::new(HiddenAsk {
        id: id.to_owned(),
        session: child.to_owned(),
        root: "s".to_owned(),
        subagent: Some(HiddenSubagent {
            title: format!("title of {child}"),
            agent_type: Some("general".to_owned()),
            parent: "s".to_owned(),
            work: Some("task-1".to_owned()),
        }),
        tool: "bash".to_owned(),
        kind: "execute".to_owned(),
        title: "touch x".to_owned(),
        input: json!({"command":"touch x"}),
        call: Some(call.to_owned()),
        cwd: None,
        always: vec!["touch *".to_owned()],
    }))
}

/// Every line that we write to the client is right by the protocol's own types.
fn check(line: &str) {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return };
    let params = message["params"].clone();
    match message["method"].as_str() {
        Some("session/request_permission") if line.starts_with("{\"jsonrpc\":\"2.0\",\"id\"") => {
            serde_json::from_value::<schema::RequestPermissionRequest>(params).expect(line);
        }
        Some("session/update") if line.starts_with("{\"jsonrpc\":\"2.0\",\"method\"") => {
            serde_json::from_value::<schema::SessionNotification>(params).expect(line);
        }
        Some("$/cancel_request") if params["requestId"].is_null() => {}
        Some("$/cancel_request") => {
            serde_json::from_value::<schema::CancelRequestNotification>(params).expect(line);
        }
        _ => {}
    }
}
