//! Who is first, and what the other hears.

use std::time::Duration;

use askd_agents::claude::{Answered, AskLimit, HostKind, News};
use askd_wire::{Decision, Verdict};
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
fn c1_what_askd_took_stays_open_while_the_daemon_is_away_up_to_its_recorded_deadline() {
    let mut bench = Bench::answering();
    let first = bench.ask("p", "b");
    bench.raised_in_time(first);
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.close_host();
    bench.outcome(first, outcome(Verdict::Allow));
    bench.forget();
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    bench.pass(Duration::from_secs(100_000));
    assert_eq!(bench.to_agent, [""; 0], "no deadline is recorded");
    bench.raised_in_time(no);
    let (left, whole) = (Duration::from_secs(300), Duration::from_secs(360));
    let limit = |default| Some(AskLimit { left, whole, default });
    bench.news(News::Limit { ask: no, limit: limit(Some(Decision::Deny)) });
    bench.raised_in_time(no);
    bench.pass(Duration::from_secs(1000));
    assert_eq!(bench.to_agent, [""; 0], "the daemon is there, and its deadline is its own");
    bench.news(News::Limit { ask: no, limit: limit(Some(Decision::Deny)) });
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    bench.pass(Duration::from_secs(299));
    assert_eq!(bench.to_agent, [""; 0]);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.to_agent.len(), 1);
    assert!(
        bench.to_agent[0].contains("no answer within 6m0s; askd itself was away"),
        "{:?}",
        bench.to_agent
    );
    assert!(bench.did(&format!("withdraw {no} requester_limit")), "{:?}", bench.did);
}

#[test]
fn c1_a_recorded_allow_is_not_given_by_a_wrapper_that_cannot_write_it_down() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    let no = bench.ask("r", "c");
    let left = Duration::from_secs(60);
    bench.news(News::Limit {
        ask: no,
        limit: Some(AskLimit { left, whole: left, default: Some(Decision::Allow) }),
    });
    bench.raised_in_time(no);
    bench.news(News::Unavailable { ask: no, why: "gone".to_owned() });
    bench.pass(left);
    assert!(bench.to_agent[0].contains("Nobody denied it, and nobody allowed it"), "{:?}", bench.to_agent);
}

#[test]
fn c1_what_no_daemon_ever_took_is_tried_for_as_long_as_a_background_ask_has() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    let no = bench.ask("r", "c");
    bench.news(News::Unavailable { ask: no, why: "the config has a fault".to_owned() });
    bench.pass(Duration::from_secs(359));
    assert_eq!(bench.to_agent, [""; 0]);
    // It came up after all.
    bench.raised_in_time(no);
    bench.pass(Duration::from_secs(10_000));
    assert_eq!(bench.to_agent, [""; 0]);
    let never = bench.ask("q", "d");
    bench.news(News::Unavailable { ask: never, why: "the config has a fault".to_owned() });
    bench.pass(Duration::from_secs(360));
    assert!(bench.to_agent[0].contains("nobody could be asked: askd could not be reached for 6m0s"));
    assert!(bench.did(&format!("withdraw {never} requester_limit")));
}

#[test]
fn c1_a_final_refusal_is_told_at_once_with_its_own_words() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    let no = bench.ask("r", "c");
    bench.news(News::Refused { ask: no, why: "the body is larger than 16 MiB".to_owned() });
    assert!(
        bench.to_agent[0].contains("nobody could be asked: the body is larger than 16 MiB. Nobody denied")
    );
    // Where a host is, that decides.
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.news(News::Refused { ask: no, why: "the body is larger than 16 MiB".to_owned() });
    bench.pass(Duration::from_secs(10_000));
    assert_eq!(bench.to_agent, [""; 0]);
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {}}));
    assert_eq!(bench.to_agent.len(), 1);
}

#[test]
fn c1_a_host_that_may_not_answer_is_told_as_unable() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {}}));
    bench.news(News::Answered { ask: no, how: Answered::NotPermitted("not yours".to_owned()) });
    assert!(bench.did(&format!("unable {no}")), "{:?}", bench.did);
    bench.outcome(no, outcome(Verdict::Deny));
    assert!(bench.to_agent[0].contains("not that one"));
}

#[test]
fn c1_a_host_that_fails_at_a_question_is_shown_it_again() {
    let mut bench = Bench::answering();
    let no = bench.ask_with("r", "c", &json!({"tool_name": "AskUserQuestion"}));
    bench.raised_in_time(no);
    let shown = bench.to_host.clone();
    let fault = json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r", "error": "x"}});
    for _ in 0..3 {
        bench.host(&fault);
        assert_eq!(bench.to_agent, [""; 0]);
        bench.pass(Duration::from_secs(10));
    }
    assert_eq!(bench.to_host.iter().filter(|line| **line == shown[0]).count(), 4);
    bench.pass(Duration::from_secs(10_000));
    bench.respond("r", &json!({"behavior": "allow", "updatedInput": {"answers": {"q": "a"}}}));
    bench.news(News::Answered { ask: no, how: Answered::Won });
    assert!(bench.to_agent[0].contains("answers"));
    // One that never can ends it with the truth, and so does one that goes.
    for goes in [false, true] {
        let mut bench = Bench::answering();
        bench.ask_with("r", "c", &json!({"tool_name": "AskUserQuestion"}));
        for _ in 0..6 {
            bench.host(&fault);
            if goes {
                bench.close_host();
                break;
            }
            bench.pass(Duration::from_secs(60));
        }
        assert!(bench.to_agent[0].contains("nobody could be asked"), "{goes} {:?}", bench.to_agent);
    }
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
