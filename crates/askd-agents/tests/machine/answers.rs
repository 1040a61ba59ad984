//! What the client answers, and what counts of it.

use std::time::Duration;

use askd_agents::acp::{Answered, News};
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Stage, outcome};

#[test]
fn a8_a_late_answer_of_any_form_is_swallowed() {
    let late = [
        json!({"id":4,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}),
        json!({"id":4,"result":{"outcome":{"outcome":"cancelled"}}}),
        json!({"id":4,"error":{"code":-32800,"message":"Request cancelled"}}),
        json!({"id":4,"result":null}),
    ];
    for late in late {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.elsewhere(ask, "ok", Verdict::Allow);
        assert_eq!(stage.at_client("$/cancel_request")["params"]["requestId"], 4);
        assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["optionId"], "ok");
        stage.clear();
        stage.pass(Duration::from_secs(3600));
        stage.client(&late);
        stage.client(&late);
        assert!(stage.to_agent.is_empty(), "{late}");
        assert!(stage.was_told("late answer"), "{late}");
    }
}

#[test]
fn a8_an_id_that_the_agent_gives_again_is_another_request() {
    let read = |id: &Value| json!({"jsonrpc":"2.0","method":"fs/read_text_file","id":id,"params":{"sessionId":"s","path":"/x"}});
    let content = json!({"id":4,"result":{"content":"x"}});
    for late in [0, 1, 2] {
        let mut stage = Stage::new("agent", &json!({}));
        // So many dialogs were withdrawn and are not responded to yet; one before that was.
        let ask = stage.ask(&json!(4), "s", "c");
        stage.select(&json!(4), "ok");
        stage.news(News::Answered { ask, how: Answered::Won });
        for n in 0..late {
            let ask = stage.ask(&json!(4), "s", &format!("c{n}"));
            stage.elsewhere(ask, "no", Verdict::Deny);
        }
        stage.agent(&read(&json!(4)));
        stage.clear();
        for _ in 0..late {
            stage.select(&json!(4), "ok");
            assert!(stage.to_agent.is_empty(), "a late allow is no answer to another request");
        }
        stage.client(&content);
        assert_eq!(stage.to_agent, [format!("{content}\n")], "{late}");
        // The same for an ask: what is late allows nothing that was asked later.
        let old = stage.ask(&json!(5), "s", "d");
        stage.elsewhere(old, "no", Verdict::Deny);
        let new = stage.ask(&json!(5), "s", "e");
        stage.clear();
        stage.select(&json!(5), "ok");
        assert!(!stage.was_told("Answer {"));
        stage.select(&json!(5), "no");
        assert!(stage.was_told("Answer {"));
        stage.news(News::Answered { ask: new, how: Answered::Won });
        assert_eq!(stage.answers(&json!(5))[0]["result"]["outcome"]["optionId"], "no");
    }
}

#[test]
fn a8_a_late_answer_is_swallowed_however_it_is_written() {
    let selected = r#"{"outcome":{"outcome":"selected","optionId":"no"}}"#;
    let late = [
        format!(r#"{{"jsonrpc":"2.0","id":4.0,"result":{selected}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":40e-1,"result":{selected}}}"#),
        format!(r#"{{"result":{{}},"result":{selected},"id":4}}"#),
        format!(r#"{{"result":{selected},"error":null,"id":4}}"#),
        r#"{"jsonrpc":"2.0","id":4}"#.to_owned(),
    ];
    for late in late {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.elsewhere(ask, "ok", Verdict::Allow);
        stage.clear();
        stage.client_raw(format!("{late}\n").as_bytes());
        assert!(stage.to_agent.is_empty(), "{late}");
    }
}

#[test]
fn a4_an_answer_counts_with_a_null_error_or_another_form_of_the_number() {
    let selected = r#"{"outcome":{"outcome":"selected","optionId":"ok"}}"#;
    for (asked, answer) in [
        ("4", format!(r#"{{"error":null,"id":4,"result":{selected}}}"#)),
        ("4", format!(r#"{{"id":4,"result":{selected},"error":null}}"#)),
        ("4.0", format!(r#"{{"id":4,"result":{selected}}}"#)),
        ("1e2", format!(r#"{{"id":100,"result":{selected}}}"#)),
    ] {
        let mut stage = Stage::new("agent", &json!({}));
        let id: Value = serde_json::from_str(asked).unwrap();
        let ask = stage.ask(&id, "s", "c");
        let answer = format!("{answer}\n");
        stage.client_raw(answer.as_bytes());
        stage.news(News::Answered { ask, how: Answered::Won });
        assert_eq!(stage.to_agent, [answer]);
    }
}

#[test]
fn a8_an_answer_that_crosses_loses() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    // The client's answer is on its way to the journal when another one turns out to have been first.
    stage.select(&json!(4), "ok");
    stage.elsewhere(ask, "no", Verdict::Deny);
    stage.news(News::Answered { ask, how: Answered::Lost(Box::new(outcome("no", Verdict::Deny))) });
    let answers = stage.answers(&json!(4));
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["result"]["outcome"]["optionId"], "no");
    assert_eq!(answers[0]["result"]["_meta"]["askd"]["message"], "not this one");
}

#[test]
fn a9_a_client_that_cannot_show_it_leaves_the_race() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.client(&json!({"id":4,"error":{"code":-32602,"message":"unknown session"}}));
    assert!(stage.answers(&json!(4)).is_empty());
    assert!(stage.was_told("Unable"));
    stage.elsewhere(ask, "ok", Verdict::Allow);
    assert_eq!(stage.answers(&json!(4)).len(), 1);
    assert!(stage.all_at_client("$/cancel_request").is_empty(), "it has no dialog");
}

#[test]
fn a9_a_daemon_that_is_away_for_a_moment_ends_no_ask_that_the_client_left() {
    for comes_back in [true, false] {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.client(&json!({"id":4,"error":{"code":-32602,"message":"unknown session"}}));
        stage.news(News::Unavailable { ask, why: "restarting".to_owned() });
        stage.pass(Duration::from_secs(5));
        assert!(stage.answers(&json!(4)).is_empty());
        if comes_back {
            stage.news(News::Raised { ask, timed: None });
            stage.pass(Duration::from_secs(60));
            stage.elsewhere(ask, "ok", Verdict::Allow);
            assert_eq!(stage.answers(&json!(4))[0]["result"]["outcome"]["optionId"], "ok");
        } else {
            stage.news(News::Unavailable { ask, why: "stopped".to_owned() });
            stage.pass(Duration::from_secs(11));
            assert!(stage.to_agent.last().is_some_and(|line| line.contains("-32602")), "its own words go on");
        }
    }
}

#[test]
fn s1_a_refused_answer_is_never_delivered() {
    for alone in [true, false] {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.select(&json!(4), "ok");
        stage.news(News::Answered { ask, how: Answered::NotPermitted("a descendant".to_owned()) });
        assert!(stage.answers(&json!(4)).is_empty());
        assert!(stage.was_told("CountOthers"), "it must not hang where nobody else can answer");
        if alone {
            stage.news(News::Others { ask, attached: false });
        } else {
            stage.news(News::Others { ask, attached: true });
            stage.news(News::Unavailable { ask, why: "stopped".to_owned() });
            stage.pass(Duration::from_secs(16));
        }
        let answers = stage.answers(&json!(4));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0]["result"]["outcome"], json!({"outcome":"cancelled"}), "{alone}");
    }
}

#[test]
fn a9_where_nobody_else_is_the_agent_hears_the_clients_error() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    let error = json!({"id":4,"error":{"code":-32601,"message":"Method not found"}});
    stage.client(&error);
    assert!(stage.was_told("Unable") && stage.was_told("CountOthers"));
    stage.news(News::Others { ask, attached: false });
    assert_eq!(stage.to_agent, [format!("{error}\n")]);
}

#[test]
fn a4_options_that_askd_has_no_word_for_are_the_clients_alone() {
    let lists = [
        json!([]),
        json!([{"optionId":"ok","name":"?","kind":"allow_until_noon"}]),
        json!([{"optionId":"ok","name":"Yes","kind":"allow_once"},{"optionId":"ok","name":"No","kind":"reject_once"}]),
    ];
    for list in lists {
        for dismissed in [true, false] {
            let mut stage = Stage::new("agent", &json!({}));
            stage.agent(&json!({"id":4,"method":"session/request_permission","params":{"sessionId":"s",
                "toolCall":{"toolCallId":"c","title":"t"},"options":list}}));
            let raise = &stage.raised[0].1;
            assert!(raise.needs_own_prompt && raise.options.is_empty(), "nobody else may allow it");
            assert_eq!(raise.own_prompt.as_ref().unwrap().at, "The Client");
            let answer = if dismissed {
                json!({"id":4,"result":{"outcome":{"outcome":"cancelled"}}})
            } else {
                json!({"id":4,"result":{"outcome":{"outcome":"selected","optionId":"ok"}}})
            };
            stage.client(&answer);
            assert_eq!(stage.to_agent, [format!("{answer}\n")], "its own bytes");
        }
    }
}

#[test]
fn a9_an_option_that_was_not_offered_is_no_answer() {
    let mut stage = Stage::new("agent", &json!({}));
    stage.ask(&json!(4), "s", "c");
    stage.select(&json!(4), "allow_forever");
    assert!(stage.answers(&json!(4)).is_empty() && stage.was_told("Unable"));
}

#[test]
fn a_dismissed_dialog_means_nothing_while_others_are_attached() {
    for attached in [true, false] {
        let mut stage = Stage::new("agent", &json!({}));
        let ask = stage.ask(&json!(4), "s", "c");
        stage.client(&json!({"id":4,"result":{"outcome":{"outcome":"cancelled"},"_meta":{"esc":1}}}));
        assert!(stage.was_told("CountOthers"));
        stage.news(News::Others { ask, attached });
        let answers = stage.answers(&json!(4));
        if attached {
            assert!(answers.is_empty());
            stage.elsewhere(ask, "ok", Verdict::Allow);
            assert_eq!(stage.answers(&json!(4)).len(), 1);
        } else {
            assert_eq!(answers[0]["result"]["_meta"]["esc"], 1, "its own bytes");
        }
    }
}

#[test]
fn without_askd_it_is_a_pipe_and_what_was_answered_is_recorded() {
    let lines = [
        (
            r#"{"id":4,"result":{"outcome":{"outcome":"selected","optionId":"ok"},"x":1.0}}"#,
            "Record { ask: 1, allowed: true }",
        ),
        (
            r#"{"id":4,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}"#,
            "Record { ask: 1, allowed: false }",
        ),
        (r#"{"id":4,"result":{"outcome":{"outcome":"cancelled"}}}"#, "Withdraw"),
        (r#"{"id":4,"error":{"code":-32601,"message":"?"}}"#, "Withdraw"),
    ];
    for (line, told) in lines {
        for late in [false, true] {
            let mut stage = Stage::new("agent", &json!({}));
            let ask = stage.ask(&json!(4), "s", "c");
            let gone = News::Unavailable { ask, why: "no askd daemon runs".to_owned() };
            let line = format!("{line}\n");
            // Either way round: it is away before the answer, or while the answer waits for it.
            if late {
                stage.client_raw(line.as_bytes());
                stage.news(gone);
                // Where the client left, a daemon that is away for a moment may still bring an answer.
                stage.pass(Duration::from_secs(16));
            } else {
                stage.news(gone);
                stage.client_raw(line.as_bytes());
            }
            assert_eq!(stage.to_agent, [line.as_str()], "{late}");
            assert!(stage.was_told(told), "{line} {late}: {:?}", stage.told);
        }
    }
}

#[test]
fn an_answer_that_askd_never_heard_of_is_recorded() {
    let mut stage = Stage::new("agent", &json!({}));
    stage.agent(&json!({"id":4,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},
        "options":[{"optionId":"ok","name":"Allow","kind":"allow_once"}]}}));
    stage.select(&json!(4), "ok");
    stage.pass(Duration::from_secs(3));
    assert_eq!(stage.answers(&json!(4)).len(), 1);
    assert!(stage.was_told("Record { ask: 1, allowed: true }"), "{:?}", stage.told);
}

#[test]
fn a10_a_deny_is_a_reject_option() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.elsewhere(ask, "", Verdict::Deny);
    assert_eq!(
        stage.answers(&json!(4))[0]["result"]["outcome"],
        json!({"outcome":"selected","optionId":"no"})
    );
}

#[test]
fn an_ask_that_the_client_left_to_others_does_not_outlive_them() {
    let mut stage = Stage::new("agent", &json!({}));
    let ask = stage.ask(&json!(4), "s", "c");
    stage.client(&json!({"id":4,"result":{"outcome":{"outcome":"cancelled"}}}));
    stage.news(News::Others { ask, attached: true });
    assert!(stage.answers(&json!(4)).is_empty());
    // Once more than nobody is not enough: after a restart the daemon hears late of those who are there.
    for (attached, over) in [
        (true, false),
        (false, false),
        (false, false),
        (true, false),
        (false, false),
        (false, false),
        (false, true),
    ] {
        stage.clear();
        assert_eq!(stage.machine.next_tick(), Some(stage.now + Duration::from_secs(5)));
        stage.pass(Duration::from_secs(5));
        assert!(stage.was_told("CountOthers"), "{:?}", stage.told);
        stage.news(News::Others { ask, attached });
        assert!(!stage.was_told("Log"), "said once: {:?}", stage.told);
        assert_eq!(stage.answers(&json!(4)).len(), usize::from(over));
    }
    assert_eq!(stage.machine.next_tick(), None);
}
