//! Cancels, ends, and when the agent's input is closed.

use std::time::Duration;

use askd_agents::claude::{End, HostKind, News};
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

fn interrupt() -> Value {
    json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})
}

fn reply() -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": "i"}})
}

#[test]
fn c6_an_interrupt_withdraws_before_it_is_forwarded_and_no_allow_follows() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.forget();
    bench.host(&interrupt());
    let cancelled = "observe [TurnCancelled { subagent: None }]".to_owned();
    assert_eq!(bench.did, [format!("withdraw {no} cancelled"), cancelled, "to agent".to_owned()]);
    bench.outcome(no, outcome(Verdict::Allow));
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {}}));
    assert_eq!(bench.to_agent.len(), 1, "nothing but the interrupt");
    // One that the agent sent before it heard of the interrupt.
    bench.ask("q", "d");
    assert_eq!(bench.raised.len(), 1);
    for id in ["r", "q"] {
        bench.agent(&json!({"type": "control_cancel_request", "request_id": id}));
    }
    bench.agent(&reply());
    assert_eq!((bench.raised.len(), bench.to_agent.len()), (1, 1));
}

#[test]
fn c6_what_an_interrupt_did_not_reach_is_still_asked() {
    let mut bench = Bench::answering();
    bench.ask("r", "c");
    bench.host(&interrupt());
    bench.ask("q", "d");
    // The agent refuses, or does not care.
    bench.agent(&reply());
    let again: Vec<_> = bench.raised.iter().map(|(_, raise)| raise.tool_call.clone().unwrap()).collect();
    assert_eq!(again, ["c", "c", "d"]);
    let (no, raise) = &bench.raised[1];
    assert_eq!(raise.action.input.as_ref().unwrap().get(), r#"{"command":"touch c"}"#);
    let no = *no;
    bench.outcome(no, outcome(Verdict::Allow));
    assert!(bench.to_agent.last().unwrap().contains(r#""request_id":"r""#));
}

#[test]
fn c6_stopping_a_task_ends_its_asks_and_no_others() {
    let mut bench = Bench::answering();
    for id in ["t1", "t2"] {
        bench.agent(&json!({"type": "system", "subtype": "task_started", "task_id": id, "subagent_type": "k", "session_id": "s"}));
    }
    let one = bench.ask_with("r", "c", &json!({"agent_id": "t1"}));
    let two = bench.ask_with("q", "d", &json!({"agent_id": "t2"}));
    bench.forget();
    bench.host(&json!({"type": "control_request", "request_id": "i", "request": {"subtype": "stop_task", "task_id": "t1"}}));
    assert!(
        bench.did(&format!("withdraw {one} cancelled")) && !bench.did(&format!("withdraw {two} cancelled"))
    );
    bench.agent(&json!({"type": "control_cancel_request", "request_id": "r"}));
    bench.agent(&reply());
    bench.outcome(two, outcome(Verdict::Allow));
    assert_eq!(bench.to_agent.len(), 2);
}

#[test]
fn c6_a_denial_that_stops_the_turn_ends_its_other_asks() {
    let mut bench = Bench::answering();
    let (one, two) = (bench.ask("r", "c"), bench.ask("q", "d"));
    bench.forget();
    let stop = askd_wire::Outcome { stop: true, ..outcome(Verdict::Deny) };
    bench.outcome(one, stop);
    assert!(bench.to_agent[0].contains(r#""interrupt":true"#));
    assert!(bench.did(&format!("withdraw {two} cancelled")));
    bench.outcome(two, outcome(Verdict::Allow));
    bench.agent(&json!({"type": "control_cancel_request", "request_id": "q"}));
    assert_eq!(bench.to_agent.len(), 1);
}

fn started(bench: &mut Bench, task: &str, more: &Value) {
    let mut line = json!({"type": "system", "subtype": "task_started", "task_id": task, "subagent_type": "k", "session_id": "s"});
    for (name, value) in more.as_object().into_iter().flatten() {
        line[name] = value.clone();
    }
    bench.agent(&line);
}

#[test]
fn c6_a_denial_that_stops_a_background_child_ends_nothing_of_the_main_thread() {
    let mut bench = Bench::answering();
    started(&mut bench, "t", &json!({"is_backgrounded": true}));
    started(&mut bench, "u", &json!({"parent_task_id": "t"}));
    started(&mut bench, "v", &json!({}));
    let child = bench.ask_with("r", "c", &json!({"agent_id": "t"}));
    let below = bench.ask_with("q", "d", &json!({"agent_id": "u"}));
    let (main, front) = (bench.ask("p", "e"), bench.ask_with("o", "f", &json!({"agent_id": "v"})));
    bench.forget();
    bench.outcome(child, askd_wire::Outcome { stop: true, ..outcome(Verdict::Deny) });
    assert!(bench.did(&format!("withdraw {below} cancelled")), "{:?}", bench.did);
    for other in [main, front] {
        assert!(!bench.did(&format!("withdraw {other} cancelled")), "{:?}", bench.did);
    }
    bench.respond("p", &json!({"behavior": "allow", "updatedInput": {}}));
    bench.news(News::Unavailable { ask: main, why: "gone".to_owned() });
    assert!(bench.to_agent.iter().any(|line| line.contains(r#""request_id":"p""#)), "{:?}", bench.to_agent);
}

#[test]
fn c1_what_the_agent_does_not_cancel_after_a_stop_is_asked_again() {
    let mut bench = Bench::answering();
    let (one, two) = (bench.ask("r", "c"), bench.ask("q", "d"));
    bench.outcome(one, askd_wire::Outcome { stop: true, ..outcome(Verdict::Deny) });
    assert!(bench.did(&format!("withdraw {two} cancelled")));
    bench.pass(Duration::from_secs(4));
    assert_eq!(bench.raised.len(), 2);
    bench.pass(Duration::from_secs(1));
    let (again, raise) = &bench.raised[2];
    assert_eq!(raise.tool_call.as_deref(), Some("d"));
    let again = *again;
    bench.outcome(again, outcome(Verdict::Allow));
    assert!(bench.to_agent.last().unwrap().contains(r#""request_id":"q""#));
    assert_eq!(bench.machine.next_tick(), None);
}

#[test]
fn c6_a_cancel_that_comes_late_withdraws_what_was_asked_again_as_cancelled() {
    let mut bench = Bench::answering();
    bench.ask_with("r", "c", &json!({"decision_reason": "outside the project"}));
    bench.host(&interrupt());
    bench.pass(Duration::from_secs(5));
    let (again, raise) = bench.raised.pop().unwrap();
    assert_eq!(raise.tool_call.as_deref(), Some("c"));
    let reason = raise.extra["reason"].as_str().unwrap();
    assert!(reason.contains("the same call once more") && reason.contains("outside the project"), "{reason}");
    bench.raised_in_time(again);
    bench.forget();
    bench.agent(&json!({"type": "control_cancel_request", "request_id": "r"}));
    assert!(bench.did(&format!("withdraw {again} cancelled")), "{:?}", bench.did);
    bench.agent(&reply());
    bench.result("c", true, Value::Null);
    bench.outcome(again, outcome(Verdict::Allow));
    assert!(bench.to_agent.is_empty(), "{:?}", bench.to_agent);
}

#[test]
fn c3_what_stops_a_task_explains_no_cancel_of_another_thread() {
    let mut bench = Bench::answering();
    started(&mut bench, "t", &json!({"is_backgrounded": true}));
    let main = bench.ask("r", "c");
    let stop = json!({"subtype": "stop_task", "task_id": "t"});
    bench.host(&json!({"type": "control_request", "request_id": "i", "request": stop}));
    bench.forget();
    bench.agent(&json!({"type": "control_cancel_request", "request_id": "r"}));
    assert!(bench.did(&format!("withdraw {main} handed_back")), "{:?}", bench.did);
    bench.result("c", true, json!({"decision": "deny", "source": "hook"}));
    assert!(bench.did.iter().any(|did| did.contains("DecidedByAgent")), "{:?}", bench.did);
}

#[test]
fn c1_an_interrupt_without_a_reply_holds_nothing_for_ever() {
    let mut bench = Bench::answering();
    bench.ask("r", "c");
    bench.host(&interrupt());
    bench.ask("q", "d");
    let yes = json!({"behavior": "allow", "updatedInput": {}});
    bench.respond("q", &yes);
    // An answer that crossed the interrupt.
    bench.respond("r", &yes);
    bench.forget();
    let due = bench.machine.next_tick().unwrap();
    assert_eq!(due, bench.now + Duration::from_secs(5), "the clock has nothing to do before");
    bench.pass(Duration::from_secs(5));
    let asked: Vec<_> =
        bench.raised[1..].iter().map(|(no, raise)| (*no, raise.tool_call.clone().unwrap())).collect();
    assert_eq!(asked.iter().map(|(_, call)| call.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    for (no, _) in asked {
        bench.raised_in_time(no);
        bench.news(News::Answered { ask: no, how: askd_agents::claude::Answered::Won });
    }
    for id in ["r", "q"] {
        let id = format!(r#""request_id":"{id}""#);
        assert!(
            bench.to_agent.iter().any(|line| line.contains(&id) && line.contains("allow")),
            "{:?}",
            bench.to_agent
        );
    }
    assert_eq!(bench.machine.next_tick(), None);
}

#[test]
fn c6_a_signal_withdraws_before_it_is_forwarded_and_no_allow_follows() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.forget();
    bench.machine.signalled(bench.now);
    bench.collect();
    assert_eq!(bench.did, [format!("withdraw {no} cancelled")]);
    bench.outcome(no, outcome(Verdict::Allow));
    bench.ask("q", "d");
    assert_eq!((bench.to_agent.len(), bench.raised.len()), (0, 1));
    // An agent that does not care still gets its answers.
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.raised.len(), 3);
}

#[test]
fn c1_members_of_another_shape_are_no_reason_to_deny() {
    for (name, value, own) in [
        ("requires_user_interaction", Value::Null, false),
        ("blocked_path", json!({"path": "/x"}), false),
        ("permission_suggestions", json!({"a": 1}), false),
        ("tool_use_id", json!(7), false),
        ("agent_id", json!(["t"]), false),
        ("title", json!(1), false),
        ("decision_reason", json!([1]), false),
        ("requires_user_interaction", json!("yes"), true),
    ] {
        let mut bench = Bench::answering();
        bench.ask_with("r", "c", &json!({name: value}));
        assert_eq!(bench.raised.len(), 1, "{name}");
        assert_eq!(bench.raised[0].1.needs_own_prompt, own, "{name}");
        let mut bench = Bench::new(HostKind::Silent { attended: false });
        bench.ask_with("r", "c", &json!({name: value}));
        assert_eq!(bench.to_agent.is_empty(), !own, "{name} {:?}", bench.to_agent);
    }
    // What cannot be shown at all is told, also when a host was there once.
    let mut bench = Bench::answering();
    bench.close_host();
    bench.forget();
    bench.ask_with("r", "c", &json!({"tool_name": 7}));
    assert!(bench.to_agent[0].contains("could not be read by askd") && bench.to_host.is_empty());
}

#[test]
fn c6_an_answer_that_crossed_one_stop_is_void_by_the_next() {
    let stop =
        |id: &str| json!({"type": "control_request", "request_id": id, "request": {"subtype": "interrupt"}});
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.host(&stop("i"));
    // The agent does not hear of the stop, and this would count when it still waits.
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {"command": "touch c"}}));
    bench.pass(Duration::from_secs(3));
    bench.host(&stop("j"));
    bench.forget();
    bench.pass(Duration::from_secs(4));
    assert!(bench.to_agent.is_empty() && bench.did.is_empty(), "{:?}", bench.did);
    bench.pass(Duration::from_secs(1));
    let (again, _) = bench.raised.last().unwrap();
    assert_ne!(*again, no, "it still waits, and is asked again");
    let again = *again;
    bench.raised_in_time(again);
    bench.pass(Duration::from_secs(10));
    assert!(bench.to_agent.is_empty(), "{:?}", bench.to_agent);
}

#[test]
fn c1_only_an_orderly_end_ends_the_session() {
    for (end, cause) in [(End::Orderly, "session_ended"), (End::Lost, "requester_gone")] {
        let mut bench = Bench::answering();
        let no = bench.ask("r", "c");
        bench.raised_in_time(no);
        bench.machine.agent_ended(end, bench.now);
        bench.collect();
        assert!(bench.did(&format!("withdraw {no} {cause}")));
        assert_eq!(bench.did.iter().any(|did| did.contains("SessionEnded")), end == End::Orderly);
    }
}

#[test]
fn a_question_is_the_hosts_alone() {
    let mut bench = Bench::answering();
    let no = bench.ask_with("r", "c", &json!({"tool_name": "AskUserQuestion"}));
    assert!(bench.raised[0].1.needs_own_prompt);
    bench.raised_in_time(no);
    bench.news(News::Unavailable { ask: no, why: "handed back".to_owned() });
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {"answers": {"q": "a"}}}));
    assert!(bench.to_agent[0].contains("answers"));
    assert!(bench.did(&format!("record {no} true")));
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    bench.ask_with("r", "c", &json!({"requires_user_interaction": true}));
    assert!(bench.to_agent[0].contains("nobody is at this run") && bench.raised.is_empty());
}

#[test]
fn c8_a_task_that_ends_leaves_no_ask_behind() {
    let mut bench = Bench::answering();
    bench.agent(&json!({"type": "system", "subtype": "task_started", "task_id": "t", "subagent_type": "k", "session_id": "s"}));
    let done = bench.ask_with("r", "c", &json!({"agent_id": "t"}));
    bench.outcome(done, outcome(Verdict::Deny));
    let open = bench.ask_with("q", "d", &json!({"agent_id": "t"}));
    let main = bench.ask("p", "e");
    let killed = json!({"type": "system", "subtype": "task_updated", "task_id": "t", "patch": {"status": "killed"}, "session_id": "s"});
    bench.agent(&killed);
    bench.agent(&killed);
    assert!(
        bench.did(&format!("withdraw {open} session_ended"))
            && !bench.did(&format!("withdraw {main} cancelled"))
    );
    assert_eq!(bench.machine.held(), (1, 1));
}
