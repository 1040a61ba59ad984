use std::time::Duration;

use askd_agents::acp::{Action, Answered, AskNo, Dismiss, Errand, News};
use askd_agents::pi::rpc::{Machine, Settings};
use askd_wire::{Outcome, OutcomeKind, RaiseAsk, Verdict};
use serde_json::{Value, json};

const GRACE: Duration = Duration::from_secs(60);

struct Bench {
    machine: Machine,
    now: Duration,
    agent: Vec<Value>,
    host: Vec<Value>,
    raised: Vec<(AskNo, RaiseAsk)>,
    /// Everything else that was wanted, as text.
    rest: Vec<String>,
}

impl Bench {
    fn with(dismiss: Dismiss, served: bool) -> Self {
        let settings = Settings {
            dismiss,
            grace: GRACE,
            mark: "m".to_owned(),
            cwd: Some("/work".to_owned()),
            host: "the host".to_owned(),
            instance: None,
            served,
        };
        let mut bench = Self {
            machine: Machine::new(settings),
            now: Duration::ZERO,
            agent: Vec::new(),
            host: Vec::new(),
            raised: Vec::new(),
            rest: Vec::new(),
        };
        bench.take();
        let asked = bench.agent.remove(0);
        assert_eq!(asked["type"], "get_state");
        bench.says(&json!({"id": asked["id"], "type": "response", "command": "get_state", "success": true,
            "data": {"sessionId": "root-1", "model": null}}));
        bench.rest.clear();
        bench
    }

    fn new() -> Self {
        Self::with(Dismiss::Ignore, false)
    }

    fn take(&mut self) {
        for action in self.machine.take() {
            match action {
                Action::ToAgent(line) => self.agent.push(parse(&line)),
                Action::ToClient(line) => self.host.push(parse(&line)),
                Action::Daemon(Errand::Raise { ask, raise }) => self.raised.push((ask, *raise)),
                Action::Log(_) => {}
                other => self.rest.push(format!("{other:?}")),
            }
        }
    }

    fn says(&mut self, line: &Value) {
        self.machine.agent_line(format!("{line}\n").into_bytes(), self.now);
        self.take();
    }

    fn host_says(&mut self, line: &Value) {
        self.machine.host_line(format!("{line}\n").into_bytes(), self.now);
        self.take();
    }

    fn hears(&mut self, news: News) {
        self.machine.news(news, self.now);
        self.take();
    }

    /// A call that asks; its number at askd.
    fn asks(&mut self, id: &str) -> AskNo {
        let args = json!({"command": format!("touch {id}")});
        self.says(
            &json!({"type": "tool_execution_start", "toolCallId": id, "toolName": "bash", "args": args}),
        );
        self.dialog(id, "Permission Required", "Current agent requested it.")
    }

    fn dialog(&mut self, id: &str, title: &str, message: &str) -> AskNo {
        self.says(&json!({"type": "extension_ui_request", "id": id, "method": "select",
            "title": format!("{title}\n{message}"),
            "options": ["Yes", "Yes, allow bash \"touch *\" for this session", "No", "No, provide reason"]}));
        let (no, _) = self.raised.last().expect("an ask is raised");
        let no = *no;
        self.hears(News::Raised { ask: no, timed: None });
        no
    }

    fn answers(&mut self, id: &str, value: &str) {
        self.host_says(&json!({"type": "extension_ui_response", "id": id, "value": value}));
    }

    fn wanted(&self, part: &str) -> bool {
        self.rest.iter().any(|action| action.contains(part))
    }

    fn reply_to(&self, id: &str) -> Vec<&Value> {
        self.agent.iter().filter(|line| line["id"] == id).collect()
    }
}

fn parse(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(line).into_owned()))
}

fn outcome(verdict: Verdict, cause: &str) -> Box<Outcome> {
    let kind = if verdict == Verdict::Allow { OutcomeKind::Allowed } else { OutcomeKind::Denied };
    Box::new(Outcome {
        outcome: kind,
        cause: cause.to_owned(),
        source: None,
        surface: None,
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: String::new(),
        verdict,
        reason_for_model: None,
        text: "settled".to_owned(),
        extra: serde_json::Map::new(),
    })
}

#[test]
fn a4_the_ask_is_the_call_that_runs_and_not_what_the_dialog_says() {
    let mut bench = Bench::new();
    bench.asks("c1");
    let raise = &bench.raised[0].1;
    assert_eq!((raise.agent.as_str(), raise.session.as_str()), ("pi", "root-1"));
    assert_eq!((raise.action.tool.as_str(), raise.tool_call.as_deref()), ("bash", Some("c1")));
    assert_eq!(raise.action.input.as_ref().unwrap().get(), r#"{"command":"touch c1"}"#);
    let kinds: Vec<String> = raise.options.iter().map(|o| format!("{} {:?}", o.id, o.kind)).collect();
    assert_eq!(kinds, ["allow_once AllowOnce", "allow_session AllowAlways", "reject_once RejectOnce"]);
    // A second gate of the same call is another question.
    bench.dialog("g2", "Permission Required", "outside the working directory");
    assert_ne!(bench.raised[1].1.action.input.as_ref().unwrap().get(), r#"{"command":"touch c1"}"#);
}

#[test]
fn a16_only_permission_dialogs_are_asks_and_everything_else_passes() {
    let mut bench = Bench::new();
    let lines = [
        json!({"type": "extension_ui_request", "id": "x", "method": "select", "title": "Pick", "options": ["Yes", "No"]}),
        json!({"type": "extension_ui_request", "id": "y", "method": "input", "title": "Permission Required\nwhy"}),
        json!({"type": "extension_ui_request", "id": "z", "method": "select", "title": "Permission Required\nx",
            "options": ["Sure", "No"]}),
        json!({"type": "extension_ui_request", "id": "w", "method": "select", "title": "Permission Required\nx",
            "options": ["Yes", "Yes", "No"]}),
        json!("no object"),
        json!({"type": "response", "id": "theirs", "command": "prompt", "success": true, "data": [1]}),
    ];
    for line in &lines {
        bench.says(line);
    }
    bench.machine.agent_line(b"not json\n".to_vec(), bench.now);
    bench.take();
    assert_eq!(bench.host.len(), lines.len() + 1);
    assert!(bench.raised.is_empty() && bench.agent.is_empty());
    bench.host_says(&json!({"type": "extension_ui_response", "id": "x", "value": "Yes"}));
    assert_eq!(bench.reply_to("x").len(), 1);
}

#[test]
fn t1_an_answer_from_elsewhere_goes_once_to_pi_and_the_hosts_late_one_is_dropped() {
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "person") });
    bench.answers("c1", "No");
    assert_eq!(bench.reply_to("c1"), [&json!({"type": "extension_ui_response", "id": "c1", "value": "Yes"})]);
    assert!(bench.wanted("Handed"));
    assert_eq!(bench.host.last().unwrap()["method"], "notify");
    bench.says(&json!({"type": "tool_execution_end", "toolCallId": "c1", "isError": false}));
    assert!(bench.wanted("CallEnded"));
    bench.answers("c1", "No");
    assert_eq!(bench.reply_to("c1").len(), 1, "also long after");
}

#[test]
fn c12_a_denial_goes_with_its_true_reason_and_pis_question_for_it_is_answered_here() {
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    let mut timed = outcome(Verdict::Deny, "timed");
    timed.reason_for_model = Some("no answer arrived within 6m0s; nobody denied it".to_owned());
    bench.hears(News::Outcome { ask: no, outcome: timed });
    assert_eq!(bench.reply_to("c1")[0]["value"], "No, provide reason");
    let shown = bench.host.len();
    let question = json!({"type": "extension_ui_request", "id": "q", "method": "input",
        "title": "Permission Required\nShare why this request was denied (optional)."});
    bench.says(&question);
    assert_eq!(bench.reply_to("q")[0]["value"], "no answer arrived within 6m0s; nobody denied it");
    assert_eq!(bench.host.len(), shown, "the host does not see it");
    // The host's own goes to the host.
    let no = bench.asks("c2");
    bench.answers("c2", "No, provide reason");
    bench.hears(News::Answered { ask: no, how: Answered::Won });
    bench.says(&question);
    assert_eq!(bench.host.last().unwrap()["method"], "input");
    // A person's no without words is what pi says by itself.
    let no = bench.asks("c3");
    let mut person = outcome(Verdict::Deny, "person");
    person.reason_for_model = Some("The user denied this action.".to_owned());
    bench.hears(News::Outcome { ask: no, outcome: person });
    assert_eq!(bench.reply_to("c3")[0]["value"], "No");
}

#[test]
fn t1_an_always_is_only_what_was_chosen_and_a_childs_is_the_childs_alone() {
    let mut bench = Bench::new();
    let message = "Subagent 'worker' requested permission.\nSession ID: child-7\n\nmay it?";
    let no = bench.dialog("d1", "Permission Required (Subagent)", message);
    let raise = &bench.raised[0].1;
    assert_eq!((raise.session.as_str(), raise.parent.as_deref()), ("child-7", Some("root-1")));
    assert_eq!(raise.subagent.as_ref().unwrap().name.as_deref(), Some("worker"));
    let mut always = outcome(Verdict::Allow, "person");
    always.option = Some("allow_session".to_owned());
    bench.hears(News::Outcome { ask: no, outcome: always });
    assert_eq!(bench.reply_to("d1")[0]["value"], "Yes, allow bash \"touch *\" for this session");
    bench.says(&json!({"type": "extension_ui_request", "id": "s", "method": "select",
        "title": "Permission Required (Subagent)\nApply this session grant to:",
        "options": ["This subagent only", "The whole session"]}));
    assert_eq!(bench.reply_to("s")[0]["value"], "This subagent only");
    // A yes without a choice is the plain one.
    let no = bench.asks("c2");
    bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "timed") });
    assert_eq!(bench.reply_to("c2")[0]["value"], "Yes");
}

#[test]
fn a17_a_childs_request_that_the_daemon_serves_is_asked_once() {
    let mut bench = Bench::with(Dismiss::Ignore, true);
    bench.says(&json!({"type": "extension_ui_request", "id": "d", "method": "select",
        "title": "Permission Required (Subagent)\nSubagent 'w' requested permission.\nSession ID: c\n\nmay it?",
        "options": ["Yes", "No"]}));
    assert!(bench.raised.is_empty() && bench.host.len() == 1);
    bench.answers("d", "Yes");
    assert_eq!(bench.reply_to("d").len(), 1);
    bench.asks("c1");
    assert_eq!(bench.raised.len(), 1, "its own are asks");
}

#[test]
fn t1_the_hosts_answer_waits_for_the_journal_and_the_loser_is_told() {
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.answers("c1", "Yes");
    assert!(bench.reply_to("c1").is_empty() && bench.wanted("Answer {"));
    bench.hears(News::Answered { ask: no, how: Answered::Lost(outcome(Verdict::Deny, "person")) });
    assert_eq!(bench.reply_to("c1")[0]["value"], "No");
    // In time or not at all: it goes on, and askd hears of it later.
    let no = bench.asks("c2");
    bench.answers("c2", "Yes");
    bench.now += Duration::from_secs(3);
    bench.machine.tick(bench.now);
    bench.take();
    assert_eq!(bench.reply_to("c2")[0]["value"], "Yes");
    bench.hears(News::Answered { ask: no, how: Answered::Unreachable });
    assert!(bench.wanted("Record"));
}

#[test]
fn t2_a_cancelled_dialog_is_no_answer_while_others_are_there() {
    let cancel = json!({"type": "extension_ui_response", "id": "c1", "cancelled": true});
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.host_says(&cancel);
    bench.hears(News::Others { ask: no, attached: true });
    assert!(bench.reply_to("c1").is_empty());
    bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "person") });
    assert_eq!(bench.reply_to("c1")[0]["value"], "Yes");

    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.host_says(&cancel);
    bench.hears(News::Others { ask: no, attached: false });
    assert_eq!(bench.reply_to("c1"), [&cancel]);
    assert!(bench.wanted("Withdraw") && bench.wanted("cancelled"));

    let mut bench = Bench::with(Dismiss::Cancel, false);
    bench.asks("c1");
    bench.host_says(&cancel);
    assert_eq!(bench.reply_to("c1"), [&cancel]);
}

#[test]
fn a6_a_cancel_ends_every_dialog_and_nothing_is_allowed_afterwards() {
    for command in ["abort", "new_session", "switch_session", "fork", "clone"] {
        let mut bench = Bench::new();
        let (first, second) = (bench.asks("c1"), bench.asks("c2"));
        bench.host_says(&json!({"id": "1", "type": command}));
        let sent: Vec<&Value> = bench.agent.iter().collect();
        assert_eq!(sent[0]["type"], command, "the command goes first");
        assert!(sent[1..].iter().all(|line| line["cancelled"] == true) && sent.len() == 3, "{sent:?}");
        for no in [first, second] {
            bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "person") });
        }
        bench.answers("c1", "Yes");
        assert_eq!(bench.agent.len(), 3, "{command}");
        assert!(bench.wanted("TurnCancelled"));
    }
}

#[test]
fn c1_without_a_daemon_the_host_decides_alone_and_it_is_written_down_later() {
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.hears(News::Unavailable { ask: no, why: "no daemon".to_owned() });
    bench.answers("c1", "Yes");
    assert_eq!(bench.reply_to("c1")[0]["value"], "Yes");
    assert!(bench.wanted("Record"));
}

#[test]
fn a15_asks_outlive_the_host_for_the_grace_and_then_nobody_decided() {
    let mut bench = Bench::new();
    let no = bench.asks("c1");
    bench.machine.host_closed(bench.now);
    bench.take();
    assert!(!bench.wanted("CloseAgent"));
    bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "person") });
    assert_eq!(bench.reply_to("c1")[0]["value"], "Yes");
    assert!(bench.wanted("CloseAgent"), "nothing is worked on");

    let mut bench = Bench::new();
    bench.says(&json!({"type": "agent_start"}));
    bench.asks("c1");
    bench.machine.host_closed(bench.now);
    bench.now += GRACE;
    assert_eq!(bench.machine.next_tick(), Some(bench.now));
    bench.machine.tick(bench.now);
    bench.take();
    assert_eq!(bench.reply_to("c1")[0]["cancelled"], true);
    assert!(bench.wanted("requester_gone") && bench.wanted("CloseAgent"));
}

#[test]
fn t2_pis_own_time_out_ends_the_ask() {
    let mut bench = Bench::new();
    bench.says(&json!({"type": "extension_ui_request", "id": "d", "method": "select", "timeout": 5000,
        "title": "Permission Required\nmay it?", "options": ["Yes", "No"]}));
    assert_eq!(bench.raised[0].1.gives_up_secs, Some(5));
    bench.now += Duration::from_secs(5);
    bench.machine.tick(bench.now);
    bench.take();
    assert!(bench.wanted("requester_limit") && bench.reply_to("d").is_empty());
    bench.answers("d", "Yes");
    assert!(bench.reply_to("d").is_empty());
}

#[test]
fn s7_hostile_lines_of_either_side_end_nothing() {
    let mut bench = Bench::new();
    let lines: [&[u8]; 8] = [
        b"\n",
        b"{\"type\":\"extension_ui_request\",\"id\":1,\"method\":\"select\"}\n",
        b"{\"type\":\"extension_ui_request\",\"id\":\"a\",\"method\":\"select\",\"options\":[1]}\n",
        b"{\"type\":\"tool_execution_start\",\"toolCallId\":\"a\"}\n",
        b"{\"type\":\"response\",\"data\":{\"sessionId\":7}}\n",
        b"{\"type\":\"response\",\"data\":[{}]}\n",
        b"\xff\xfe{}\n",
        b"{\"type\":[\"abort\"],\"type\":\"abort\"",
    ];
    for line in lines {
        bench.machine.agent_line(line.to_vec(), bench.now);
        bench.machine.host_line(line.to_vec(), bench.now);
    }
    bench.take();
    assert_eq!(bench.host.len(), lines.len(), "each passed");
    let no = bench.asks("c1");
    bench.hears(News::Outcome { ask: no, outcome: outcome(Verdict::Allow, "person") });
    assert_eq!(bench.reply_to("c1").len(), 1);
}
