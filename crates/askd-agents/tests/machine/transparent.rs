//! What is not an ask passes byte for byte.

use proptest::prelude::*;
use serde_json::json;

use crate::support::Stage;

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![
        Just("0".to_owned()),
        Just("\"0\"".to_owned()),
        Just("null".to_owned()),
        Just("-1".to_owned()),
        Just("1.5".to_owned()),
        Just("9007199254740993".to_owned()),
        "\"[a-z]{0,4}\"",
    ];
    let method = prop_oneof![
        Just("session/update"),
        Just("session/request_permission"),
        Just("fs/read_text_file"),
        Just("elicitation/create"),
        Just("_qwencode/start_turn"),
        Just("craft/drainMidTurnQueue"),
        Just("$/whatever"),
    ];
    let params = prop_oneof![
        Just("{}".to_owned()),
        Just("null".to_owned()),
        Just("[1,2]".to_owned()),
        Just(
            r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"n":1.0e2}}}"#
                .to_owned()
        ),
        Just(
            r#"{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","zusätzlich":1}}"#
                .to_owned()
        ),
        Just(r#"{"sessionId":"s","update":{"sessionUpdate":"nobody_knows"}}"#.to_owned()),
        Just(r#"{ "sessionId" : "s" , "options":[] }"#.to_owned()),
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("")];
    prop_oneof![
        prop::collection::vec(any::<u8>().prop_filter("no line end", |b| *b != b'\n'), 0..200),
        (id.clone(), method.clone(), params.clone(), end.clone()).prop_map(|(id, method, params, end)| {
            format!("{{\"id\":{id},\"x\":[1.00],\"method\":\"{method}\",\"params\":{params}}}{end}")
                .into_bytes()
        }),
        (method, params, end.clone()).prop_map(|(method, params, end)| format!(
            "{{\"method\" :\"{method}\",\"params\":{params}}}{end}"
        )
        .into_bytes()),
        (id, end)
            .prop_map(|(id, end)| format!("{{\"id\":{id},\"error\":{{\"code\":-32601}}}}{end}").into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a13_everything_else_passes_byte_for_byte_and_in_order(
        lines in prop::collection::vec((any::<bool>(), any_line()), 1..40),
        known in any::<bool>(),
    ) {
        let mut stage = if known { Stage::new("agent", &json!({})) } else { Stage::bare(false) };
        let mut machine = std::mem::replace(&mut stage.machine, Stage::bare(false).machine);
        let (mut to_agent, mut to_client) = (Vec::new(), Vec::new());
        let (mut want_agent, mut want_client) = (Vec::new(), Vec::new());
        for (from_agent, line) in lines {
            if from_agent {
                want_client.push(line.clone());
                machine.agent_line(line, stage.now);
            } else {
                want_agent.push(line.clone());
                machine.client_line(line, stage.now);
            }
            for action in machine.take() {
                match action {
                    askd_agents::acp::Action::ToAgent(line) => to_agent.push(line),
                    askd_agents::acp::Action::ToClient(line) => to_client.push(line),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(to_agent, want_agent);
        prop_assert_eq!(to_client, want_client);
    }
}

#[test]
fn a13_an_ask_passes_as_it_was_written() {
    let mut stage = Stage::new("agent", &json!({}));
    let line = "{ \"id\":0, \"method\":\"session/request_permission\",\"extra\":1.50,\"params\":{\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\"c\",\"later\":{}},\"options\":[{\"optionId\":\"a\",\"name\":\"A\",\"kind\":\"allow_once\",\"z\":0}]}}\r\n";
    stage.agent_raw(line.as_bytes());
    assert_eq!(stage.to_client, [line]);
    assert_eq!(stage.raised.len(), 1);
}

#[test]
fn a16_questions_are_nobodys_asks() {
    let mut stage = Stage::new("agent", &json!({}));
    for method in ["elicitation/create", "terminal/create", "_custom/ask", "fs/write_text_file"] {
        stage.agent(&json!({"id":method,"method":method,"params":{"sessionId":"s","message":"May I?"}}));
    }
    assert_eq!((stage.to_client.len(), stage.raised.len()), (4, 0));
}

#[test]
fn a16_a_codex_mcp_approval_is_an_ask() {
    use askd_agents::acp::{Answered, News};
    use askd_wire::Verdict;
    let line = |id: u64| {
        json!({"jsonrpc":"2.0","id":id,"method":"elicitation/create","params":{"sessionId":"s","mode":"form",
            "message":"Allow the tiny MCP server to run tool \"poke\"?","requestedSchema":{"type":"object","properties":{}},
            "_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"poke","tool_params":{"n":1}}}})
    };
    let mut stage = Stage::new("codex-acp", &json!({"elicitation":{}}));
    stage.agent(&line(5));
    assert_eq!(stage.to_client, [format!("{}\n", line(5))]);
    let raise = &stage.raised[0].1;
    assert_eq!(
        (raise.action.tool.as_str(), raise.action.input.as_ref().unwrap().get()),
        ("poke", r#"{"n":1}"#)
    );
    let ask = stage.last_raised();
    stage.elsewhere(ask, "accept", Verdict::Allow);
    let answer: serde_json::Value = serde_json::from_str(&stage.to_agent[0]).unwrap();
    assert_eq!((&answer["result"]["action"], &answer["result"]["content"]), (&json!("accept"), &json!({})));
    assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 5);

    for (action, option) in [("accept", "accept"), ("decline", "decline")] {
        stage.clear();
        stage.agent(&line(6));
        let ask = stage.last_raised();
        let own = json!({"id":6,"result":{"action":action,"content":{"x":1}}});
        stage.client(&own);
        assert!(stage.was_told(&format!("option: Some(\"{option}\")")));
        stage.news(News::Answered { ask, how: Answered::Won });
        assert_eq!(stage.to_agent, [format!("{own}\n")]);
    }
    stage.clear();
    stage.agent(&line(7));
    let ask = stage.last_raised();
    stage.elsewhere(ask, "decline", Verdict::Deny);
    assert!(stage.to_agent[0].contains("\"action\":\"decline\""));
    stage.clear();
    stage.agent(&line(8));
    stage.last_raised();
    stage.client(&json!({"method":"session/cancel","params":{"sessionId":"s"}}));
    assert!(stage.to_agent[1].contains("\"action\":\"cancel\""));
}

#[test]
fn a11_what_the_agent_decides_by_itself_is_no_ask() {
    let mut stage = Stage::new("agent", &json!({}));
    for status in ["pending", "in_progress", "failed", "completed"] {
        stage.update(
            "s",
            json!({"sessionUpdate":"tool_call_update","toolCallId":status,"status":status,
            "_meta":{"review":{"held":true}}}),
        );
    }
    assert!(stage.raised.is_empty());
    assert_eq!(stage.to_client.len(), 4);
}

/// JSON with the names that the machine knows in places where it does not expect them.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![
        Just("s"),
        Just("k"),
        Just("c"),
        Just("tool_call_update"),
        Just("subagent_update"),
        Just("running"),
        Just("idle"),
        Just("completed"),
        Just("allow_once"),
        Just("reject_once"),
        Just("text"),
        Just("/permissions"),
        Just("mcp_tool_call"),
        Just("selected"),
        Just("cancelled"),
        Just("accept"),
        Just(""),
        Just("\u{0}\u{202e}é"),
    ];
    let leaf = prop_oneof![
        text.prop_map(|text| json!(text)),
        Just(json!(null)),
        Just(json!(0)),
        Just(json!(-1.5)),
        Just(json!(true)),
        Just(json!({})),
        Just(json!([])),
    ];
    let name = prop_oneof![
        Just("sessionId"),
        Just("subagentSessionId"),
        Just("toolCall"),
        Just("toolCallId"),
        Just("options"),
        Just("optionId"),
        Just("kind"),
        Just("name"),
        Just("update"),
        Just("sessionUpdate"),
        Just("state"),
        Just("stopReason"),
        Just("requestId"),
        Just("prompt"),
        Just("type"),
        Just("text"),
        Just("_meta"),
        Just("fx"),
        Just("subagent"),
        Just("claudeCode"),
        Just("parentToolUseId"),
        Just("availableCommands"),
        Just("codex_approval_kind"),
        Just("outcome"),
        Just("action"),
        Just("status"),
        Just("rawInput"),
        Just("clientCapabilities"),
        Just("agentInfo"),
        Just("cwd"),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| {
                serde_json::Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

fn any_message() -> impl Strategy<Value = (bool, String)> {
    let method = prop_oneof![
        Just("initialize"),
        Just("session/new"),
        Just("session/load"),
        Just("session/fork"),
        Just("session/prompt"),
        Just("session/cancel"),
        Just("session/close"),
        Just("session/update"),
        Just("session/request_permission"),
        Just("elicitation/create"),
        Just("$/cancel_request"),
    ];
    let id = prop_oneof![
        (0u8..6).prop_map(|n| json!(n)),
        Just(json!("0")),
        Just(json!("askd-m-3")),
        Just(json!(null))
    ];
    (any::<bool>(), prop::option::of(method), prop::option::of(id), any_json(), any_json()).prop_map(
        |(from_agent, method, id, params, sure)| {
            let mut message = serde_json::Map::new();
            if let Some(id) = id {
                message.insert("id".to_owned(), id);
            }
            match method {
                Some(method) => {
                    // Half of the time it is about a session that is there.
                    let mut params = params;
                    if let (Some(params), true) = (params.as_object_mut(), sure.is_string()) {
                        params.insert("sessionId".to_owned(), json!("s"));
                    }
                    message.insert("method".to_owned(), json!(method));
                    message.insert("params".to_owned(), params);
                }
                None => {
                    message.insert("result".to_owned(), params);
                }
            }
            (from_agent, serde_json::Value::Object(message).to_string() + "\n")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the two say, nothing breaks, what passes does so once, and no answer is made up.
    #[test]
    fn a13_no_message_breaks_the_proxy(
        messages in prop::collection::vec(any_message(), 1..30),
        translate in any::<bool>(),
    ) {
        let mut stage = Stage::with("codex-acp", &json!({}), translate);
        let mut machine = std::mem::replace(&mut stage.machine, Stage::bare(false).machine);
        for (from_agent, line) in &messages {
            if *from_agent {
                machine.agent_line(line.clone().into_bytes(), stage.now);
            } else {
                machine.client_line(line.clone().into_bytes(), stage.now);
            }
            let (mut to_agent, mut to_client) = (0, 0);
            for action in machine.take() {
                match action {
                    askd_agents::acp::Action::ToAgent(sent) => {
                        to_agent += usize::from(sent == line.as_bytes());
                        let text = String::from_utf8(sent).unwrap();
                        let allows = text.contains("allow_once") && text.contains("\"selected\"");
                        prop_assert!(!allows || text == *line, "made up: {text}");
                    }
                    askd_agents::acp::Action::ToClient(sent) => to_client += usize::from(sent == line.as_bytes()),
                    _ => {}
                }
            }
            let (there, back) = if *from_agent { (to_client, to_agent) } else { (to_agent, to_client) };
            prop_assert!(there <= 1 && back == 0);
        }
        machine.client_closed(stage.now);
        machine.agent_closed(stage.now);
        machine.tick(stage.now + std::time::Duration::from_secs(3600));
    }
}
