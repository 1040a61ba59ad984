//! Who is first, and what the other hears.

use std::time::Duration;

use askd_agents::claude::{Answered, News};
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

#[test]
fn c3_the_first_decision_wins_and_the_hosts_dialog_goes_away() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    assert_eq!(bench.to_host.len(), 1, "the host is asked at once");
    bench.raised_in_time(no);
    bench.forget();
    bench.outcome(no, outcome(Verdict::Allow));
    assert_eq!(bench.to_host, ["{\"type\":\"control_cancel_request\",\"request_id\":\"r\"}\n"]);
    assert_eq!(bench.did, ["to agent", "to host", &format!("handed {no}")]);
    bench.respond("r", &json!({"behavior": "deny", "message": "no"}));
    assert_eq!(bench.to_agent.len(), 1, "late: dropped");
}

#[test]
fn c3_the_host_wins_by_its_own_bytes_once_it_is_written_down() {
    let mut bench = Bench::answering();
    let no = bench.ask_with(
        "r",
        "c",
        &json!({"permission_suggestions": [
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
            {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}]}),
    );
    bench.raised_in_time(no);
    bench.forget();
    let line = r#"{"type":"control_response", "response":{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedInput":{"command":"touch c"},"updatedPermissions":[{"destination":"session","type":"addRules","behavior":"allow","rules":[{"toolName":"Bash"}]}]}}}"#;
    bench.host_bytes(format!("{line}\n").as_bytes());
    assert_eq!(bench.to_agent, [""; 0], "not before the journal has it");
    assert_eq!(bench.did, [format!("answer {no} Allow allow_always_2")]);
    bench.news(News::Answered { ask: no, how: Answered::Won });
    assert_eq!(bench.to_agent, [format!("{line}\n")]);
    assert!(bench.did(&format!("handed {no}")));
    assert_eq!(bench.to_host, [""; 0]);
}

#[test]
fn c3_a_host_that_lost_the_race_is_dropped() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {"command": "touch c"}}));
    bench.news(News::Answered { ask: no, how: Answered::Lost(Box::new(outcome(Verdict::Deny))) });
    assert_eq!(bench.to_agent.len(), 1);
    assert!(bench.to_agent[0].contains("not that one"));
    bench.outcome(no, outcome(Verdict::Deny));
    assert_eq!(bench.to_agent.len(), 1, "once");
}

#[test]
fn c1_without_a_daemon_the_hosts_answer_counts_and_is_written_down_later() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {"command": "touch c"}}));
    assert_eq!(bench.to_agent, [""; 0]);
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    assert_eq!(bench.to_agent.len(), 1);
    assert!(bench.did(&format!("record {no} true")));
    // And one that never answers in time.
    let no = bench.ask("q", "d");
    bench.raised_in_time(no);
    bench.respond("q", &json!({"behavior": "deny", "message": "no"}));
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.to_agent.len(), 2);
    bench.news(News::Answered { ask: no, how: Answered::Unreachable });
    assert!(bench.did(&format!("record {no} false")));
}

#[test]
fn c1_with_nobody_to_ask_a_daemon_that_is_away_is_waited_for_and_then_the_truth_is_told() {
    let mut bench = Bench::answering();
    let first = bench.ask("p", "b");
    bench.raised_in_time(first);
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.close_host();
    bench.outcome(first, outcome(Verdict::Allow));
    bench.forget();
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    bench.pass(Duration::from_secs(10));
    assert_eq!(bench.to_agent, [""; 0]);
    // It came back in time.
    bench.raised_in_time(no);
    bench.pass(Duration::from_secs(100));
    assert_eq!(bench.to_agent, [""; 0]);
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    bench.pass(Duration::from_secs(15));
    assert_eq!(bench.to_agent.len(), 1);
    assert!(bench.to_agent[0].contains("nobody could be asked: askd could not be reached. Nobody denied it"));
}

#[test]
fn c5_doubled_unknown_and_late_answers_do_nothing() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    let yes = json!({"behavior": "allow", "updatedInput": {"command": "touch c"}});
    bench.respond("r", &yes);
    bench.respond("r", &json!({"behavior": "deny", "message": "no"}));
    bench.news(News::Answered { ask: no, how: Answered::Won });
    bench.respond("r", &yes);
    assert_eq!(bench.to_agent.len(), 1);
    assert!(bench.to_agent[0].contains("allow"));
    bench.outcome(no, outcome(Verdict::Deny));
    assert_eq!(bench.to_agent.len(), 1);
}

#[test]
fn c3_what_a_hook_decided_is_learned_from_the_result() {
    for (failed, meta, seen) in [
        (false, json!({"decision": "accept", "source": "hook"}), Some("true, by: Some(\"hook\")")),
        (true, json!({"decision": "reject", "source": "hook"}), Some("false, by: Some(\"hook\")")),
        (true, json!({"decision": "accept", "source": "hook"}), Some("true, by: Some(\"hook\")")),
        // Older versions do not tell.
        (false, Value::Null, Some("true, by: None")),
        (true, Value::Null, None),
    ] {
        let mut bench = Bench::answering();
        let no = bench.ask("r", "c");
        bench.raised_in_time(no);
        bench.forget();
        bench.agent(&json!({"type": "control_cancel_request", "request_id": "r"}));
        assert_eq!(bench.did, [format!("withdraw {no} handed_back"), "to host".to_owned()]);
        // What crosses it runs nothing.
        bench.outcome(no, outcome(Verdict::Allow));
        bench.respond("r", &json!({"behavior": "allow", "updatedInput": {}}));
        assert_eq!(bench.to_agent, [""; 0]);
        bench.result("c", failed, meta);
        match seen {
            Some(seen) => assert!(
                bench.did.iter().any(|did| did.contains("DecidedByAgent") && did.contains(seen)),
                "{:?}",
                bench.did
            ),
            None => assert!(bench.did(&format!("withdraw {no} cancelled"))),
        }
    }
}

#[test]
fn c3_a_hook_that_was_first_after_all_corrects_the_record() {
    for (verdict, decision, what) in
        [(Verdict::Allow, "reject", "allowed: false"), (Verdict::Deny, "accept", "allowed: true")]
    {
        let mut bench = Bench::answering();
        let no = bench.ask("r", "c");
        bench.raised_in_time(no);
        bench.outcome(no, outcome(verdict));
        bench.agent(&json!({"type": "control_cancel_request", "request_id": "r"}));
        bench.result("c", decision == "reject", json!({"decision": decision, "source": "hook"}));
        assert!(
            bench.did.iter().any(|did| did.contains("DecidedByAgent") && did.contains(what)),
            "{:?}",
            bench.did
        );
    }
}

#[test]
fn c12_results_confirm_what_was_said() {
    let mut bench = Bench::answering();
    let yes = bench.ask("r", "c");
    bench.outcome(yes, outcome(Verdict::Allow));
    bench.result("c", true, json!({"decision": "accept", "source": "user"}));
    assert!(
        bench.did.iter().any(|did| did.contains("CallEnded { call: \"c\", ok: false")),
        "it ran, and failed"
    );
    let no = bench.ask("q", "d");
    bench.outcome(no, outcome(Verdict::Deny));
    bench.result("d", true, Value::Null);
    assert!(bench.did(&format!("confirmed {no}")));
    assert_eq!(bench.machine.held(), (0, 0));
}

#[test]
fn c1_an_answer_that_the_journal_refused_after_all_is_told_although_its_call_is_over() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.respond("r", &json!({"behavior": "deny", "message": "no"}));
    bench.pass(Duration::from_secs(3));
    bench.result("c", true, json!({"decision": "reject", "source": "user"}));
    bench.forget();
    bench.news(News::Answered { ask: no, how: Answered::Lost(Box::new(outcome(Verdict::Allow))) });
    assert_eq!(bench.did, [format!("record {no} false")]);
    assert_eq!(bench.machine.held(), (0, 0));
}
