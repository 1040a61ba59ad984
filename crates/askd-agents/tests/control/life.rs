//! When the agent's input is closed: never with a turn to come, and at once when the agent says that none is.

use std::time::Duration;

use askd_agents::claude::HostKind;
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

const MINUTES: Duration = Duration::from_secs(600);

fn silent() -> Bench {
    Bench::new(HostKind::Silent { attended: false })
}

fn result() -> Value {
    json!({"type": "result", "subtype": "success", "session_id": "s"})
}

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s"})
}

fn message() -> Value {
    json!({"type": "user", "message": {"content": "more"}})
}

fn state(state: &str) -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": state, "session_id": "s"})
}

fn started(task: &str) -> Value {
    json!({"type": "system", "subtype": "task_started", "task_id": task, "subagent_type": "k", "is_backgrounded": true,
        "session_id": "s"})
}

fn ended(task: &str, status: &str) -> Value {
    json!({"type": "system", "subtype": "task_updated", "task_id": task, "patch": {"status": status}, "session_id": "s"})
}

/// The same, and replies to nothing unless the test says so.
fn slow() -> Bench {
    Bench { replies: false, ..silent() }
}

#[test]
fn c7_a_message_and_the_end_of_a_child_are_two_turns() {
    for child_first in [false, true] {
        let mut bench = silent();
        bench.agent(&started("t"));
        bench.host(&message());
        bench.close_host();
        if child_first {
            bench.agent(&ended("t", "completed"));
        }
        bench.agent(&result());
        if !child_first {
            bench.agent(&ended("t", "completed"));
        }
        for _ in 0..2 {
            bench.pass(MINUTES - Duration::from_secs(1));
            assert!(!bench.closed, "{child_first}");
            bench.agent(&init());
            bench.agent(&result());
        }
        bench.pass(Duration::from_secs(10));
        assert!(bench.closed, "nothing is to come");
    }
}

#[test]
fn c7_what_was_stopped_is_followed_by_a_turn_as_well() {
    let mut bench = silent();
    bench.agent(&started("t"));
    bench.host(&message());
    bench.host(&json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}));
    bench.agent(&ended("t", "killed"));
    bench.agent(&result());
    bench.close_host();
    for _ in 0..2 {
        bench.pass(MINUTES - Duration::from_secs(1));
        assert!(!bench.closed);
        bench.agent(&init());
        bench.agent(&result());
    }
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_a_turn_that_goes_on_without_a_message_is_waited_for() {
    let mut bench = Bench::resuming();
    bench.close_host();
    bench.pass(MINUTES - Duration::from_secs(1));
    assert!(!bench.closed);
    bench.agent(&init());
    bench.agent(&json!({"type": "assistant", "message": {"content": []}, "parent_tool_use_id": null, "session_id": "s"}));
    bench.pass(MINUTES * 3);
    let no = bench.ask("r", "c");
    bench.outcome(no, outcome(Verdict::Allow));
    assert!(!bench.closed);
    bench.agent(&result());
    assert!(bench.closed);
}

#[test]
fn c7_an_agent_that_says_it_is_idle_is_let_go_when_it_has_read_everything() {
    let mut bench = slow();
    bench.agent(&state("running"));
    bench.host(&message());
    bench.close_host();
    // Both messages in one turn.
    bench.agent(&result());
    assert_eq!((bench.closed, bench.question()), (false, None));
    bench.agent(&state("idle"));
    let id = bench.question().unwrap();
    assert!(!bench.closed);
    bench.reply(&id);
    assert!(bench.closed);
    assert!(
        !bench.to_host.iter().any(|line| line.contains("mcp_status") || line.contains(&id)),
        "{:?}",
        bench.to_host
    );
    assert!(!bench.to_host.iter().any(|line| line.contains("session_state_changed")), "{:?}", bench.to_host);
}

#[test]
fn c7_idle_counts_only_when_every_message_was_read() {
    let mut bench = slow();
    bench.agent(&state("running"));
    bench.agent(&result());
    bench.host(&message());
    bench.close_host();
    // Said before it read the message.
    bench.agent(&state("idle"));
    let stale = bench.question().unwrap();
    bench.agent(&state("running"));
    bench.reply(&stale);
    bench.pass(MINUTES * 9);
    assert!(!bench.closed, "a hook of the person holds up the turn");
    bench.agent(&init());
    bench.agent(&result());
    bench.agent(&state("idle"));
    let id = bench.question().unwrap();
    assert_ne!(id, stale);
    bench.reply(&stale);
    assert!(!bench.closed, "an old reply");
    bench.reply(&id);
    assert!(bench.closed);
}

#[test]
fn c7_one_that_is_idle_while_its_children_work_is_not_let_go_before_what_follows_on_them() {
    let mut bench = slow();
    bench.agent(&state("running"));
    bench.agent(&started("t"));
    bench.close_host();
    bench.agent(&result());
    bench.agent(&state("idle"));
    bench.pass(MINUTES * 9);
    assert_eq!((bench.closed, bench.question()), (false, None));
    bench.agent(&ended("t", "completed"));
    bench.pass(MINUTES - Duration::from_secs(1));
    assert_eq!((bench.closed, bench.question()), (false, None));
    bench.agent(&state("running"));
    bench.agent(&result());
    bench.agent(&state("idle"));
    let id = bench.question().unwrap();
    bench.reply(&id);
    assert!(bench.closed);
}

#[test]
fn c7_idle_in_the_moment_between_the_end_of_a_child_and_its_turn_is_not_believed() {
    let mut bench = slow();
    bench.agent(&state("running"));
    bench.agent(&started("t"));
    bench.close_host();
    bench.agent(&ended("t", "completed"));
    bench.agent(&result());
    bench.agent(&state("idle"));
    bench.pass(Duration::from_secs(9));
    assert_eq!((bench.closed, bench.question()), (false, None));
    bench.pass(Duration::from_secs(1));
    let id = bench.question().unwrap();
    bench.reply(&id);
    assert!(bench.closed);
}

#[test]
fn c7_one_that_was_never_told_anything_is_not_held_for_ever() {
    let mut bench = Bench::telling_state();
    bench.agent(&init());
    bench.close_host();
    bench.pass(MINUTES);
    assert!(bench.closed);
}

#[test]
fn c7_one_that_replies_to_nothing_any_more_is_not_held_for_ever() {
    let mut bench = slow();
    bench.agent(&state("running"));
    bench.close_host();
    bench.agent(&state("idle"));
    assert!(bench.question().is_some());
    bench.pass(MINUTES - Duration::from_secs(1));
    assert!(!bench.closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.closed);
}

#[test]
fn c1_a_host_that_asked_for_the_state_is_told_it() {
    let mut bench = Bench::telling_state();
    bench.agent(&state("running"));
    assert!(bench.to_host.last().unwrap().contains("session_state_changed"));
}

#[test]
fn c7_a_second_message_gets_its_turn_however_long_a_hook_holds_it_up() {
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    bench.host(&json!({"type": "user", "message": {"content": "more"}}));
    bench.close_host();
    bench.agent(&result());
    bench.pass(Duration::from_secs(500));
    assert!(!bench.closed);
    bench.agent(&json!({"type": "system", "subtype": "init", "session_id": "s"}));
    bench.agent(&result());
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed, "nothing is to come");
    // One that went into the turn before has none.
    let mut bench = Bench::new(HostKind::Silent { attended: false });
    bench.host(&json!({"type": "user", "message": {"content": "more"}}));
    bench.close_host();
    bench.agent(&result());
    bench.pass(Duration::from_secs(600));
    assert!(bench.closed);
}

#[test]
fn c7_a_host_that_closes_denies_nothing_and_the_input_stays_open() {
    let mut bench = Bench::answering();
    let no = bench.ask("r", "c");
    bench.raised_in_time(no);
    bench.close_host();
    bench.pass(Duration::from_secs(100_000));
    assert_eq!((bench.closed, bench.to_agent.len()), (false, 0));
    bench.outcome(no, outcome(Verdict::Allow));
    assert_eq!(bench.to_agent.len(), 1);
    bench.result("c", false, Value::Null);
    assert!(!bench.closed, "the turn goes on, and may ask again");
    let next = bench.ask("q", "d");
    assert_eq!(bench.raised.last().unwrap().1.attendance, Some(askd_wire::Attendance::Background));
    bench.outcome(next, outcome(Verdict::Allow));
    bench.result("d", false, Value::Null);
    bench.agent(&result());
    assert!(bench.closed);
}

#[test]
fn c7_the_input_stays_open_for_background_tasks_and_what_follows_them() {
    let mut bench = Bench::answering();
    bench.agent(&json!({"type": "system", "subtype": "task_started", "task_id": "t", "subagent_type": "k", "session_id": "s"}));
    bench.agent(&result());
    bench.close_host();
    bench.pass(Duration::from_secs(5000));
    assert!(!bench.closed);
    bench
        .agent(&json!({"type": "system", "subtype": "task_notification", "task_id": "t", "session_id": "s"}));
    // A hook of the person may hold up the turn.
    bench.pass(Duration::from_secs(60));
    assert!(!bench.closed, "a turn follows on it");
    bench.agent(&json!({"type": "system", "subtype": "init", "session_id": "s"}));
    bench.pass(Duration::from_secs(5000));
    assert!(!bench.closed);
    bench.agent(&result());
    bench.pass(Duration::from_secs(2));
    assert!(bench.closed);
}

#[test]
fn c7_a_turn_that_has_not_begun_is_waited_for() {
    let mut bench = Bench::answering();
    bench.agent(&result());
    bench.host(&message());
    bench.close_host();
    bench.pass(Duration::from_secs(300));
    assert!(!bench.closed);
    bench.agent(&init());
    bench.pass(Duration::from_secs(700));
    assert!(!bench.closed);
    bench.agent(&result());
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_one_that_has_said_nothing_yet_is_asked_before_it_is_let_go() {
    for told in [true, false] {
        let mut bench = Bench { replies: false, ..Bench::untouched() };
        bench.close_host();
        let id = bench.question().unwrap();
        assert!(!bench.closed);
        if told {
            // It begins a turn by itself, and says so before it replies.
            bench.agent(&state("running"));
        }
        bench.reply(&id);
        assert_eq!(bench.closed, !told);
        if told {
            bench.pass(MINUTES * 3);
            bench.agent(&init());
            let no = bench.ask("r", "c");
            bench.outcome(no, outcome(Verdict::Allow));
            assert!(!bench.closed);
            bench.agent(&result());
            bench.agent(&state("idle"));
            let id = bench.question().unwrap();
            bench.reply(&id);
            assert!(bench.closed);
        }
    }
}

#[test]
fn c7_one_that_does_not_say_after_its_turn_that_it_is_idle_is_not_held_for_ever() {
    let mut bench = silent();
    bench.agent(&state("running"));
    bench.agent(&result());
    bench.close_host();
    assert!(bench.logs.is_empty(), "mostly it says so in the next moment");
    assert_eq!(bench.machine.next_tick(), Some(bench.now + Duration::from_secs(10)));
    bench.pass(Duration::from_secs(10));
    assert!(bench.said("has not said for 10 s that it is idle"), "{:?}", bench.logs);
    // It says something, whatever it is: it is there.
    bench.pass(Duration::from_secs(500));
    bench.agent(&json!({"type": "something", "session_id": "s"}));
    bench.pass(MINUTES - Duration::from_secs(1));
    assert!(!bench.closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.closed && bench.said("said nothing for 10 minutes"), "{:?}", bench.logs);
    // With a message that a hook of the person holds up.
    let mut bench = silent();
    bench.agent(&state("running"));
    bench.host(&message());
    bench.agent(&result());
    bench.close_host();
    bench.pass(MINUTES * 6 - Duration::from_secs(1));
    assert!(!bench.closed && bench.said("for up to 60 minutes"), "{:?}", bench.logs);
    bench.pass(Duration::from_secs(1));
    assert!(bench.closed);
    // During its turn it may be silent for as long as it likes.
    let mut bench = silent();
    bench.agent(&state("running"));
    bench.close_host();
    bench.pass(MINUTES * 9);
    assert!(!bench.closed && bench.said("its turn goes on, and it has said nothing for"), "{:?}", bench.logs);
}

/// Versions that tell no state: a call that the agent made, with its result.
fn called(bench: &mut Bench, tool: &str, input: &Value, said: &str) {
    let call = json!({"type": "tool_use", "id": "w", "name": tool, "input": input});
    bench.agent(&json!({"type": "assistant", "message": {"content": [call]}, "parent_tool_use_id": null,
        "session_id": "s"}));
    let block = json!({"type": "tool_result", "tool_use_id": "w", "content": said});
    bench.agent(&json!({"type": "user", "message": {"role": "user", "content": [block]}, "session_id": "s"}));
}

#[test]
fn c7_a_turn_of_its_own_uses_up_no_message_that_is_queued_behind_it() {
    for (tool, input, said) in [
        ("CronCreate", json!({"cron": "* * * * *"}), "Scheduled"),
        ("ScheduleWakeup", json!({"delaySeconds": 20}), "Next wakeup scheduled (in 20s)"),
        ("Monitor", json!({"command": "x"}), "Monitor started"),
    ] {
        let mut bench = silent();
        if tool == "Monitor" {
            let call = json!({"type": "tool_use", "id": "w", "name": tool, "input": input});
            bench.agent(&json!({"type": "assistant", "message": {"content": [call]}, "session_id": "s"}));
            bench.agent(
                &json!({"type": "system", "subtype": "task_started", "task_id": "b", "tool_use_id": "w",
                "task_type": "local_bash", "session_id": "s"}),
            );
        }
        called(&mut bench, tool, &input, said);
        bench.agent(&result());
        bench.pass(Duration::from_secs(20));
        bench.host(&message());
        bench.close_host();
        // It begins by itself, in front of the message.
        bench.agent(&init());
        bench.agent(&result());
        if tool == "Monitor" {
            bench.agent(
                &json!({"type": "system", "subtype": "task_notification", "task_id": "b", "session_id": "s"}),
            );
            bench.agent(&init());
            bench.agent(&result());
        }
        bench.pass(MINUTES - Duration::from_secs(1));
        assert!(!bench.closed && bench.said("a turn may follow"), "{tool}: {:?}", bench.logs);
        bench.agent(&init());
        let no = bench.ask("r", "c");
        bench.outcome(no, outcome(Verdict::Allow));
        assert!(!bench.closed);
        bench.agent(&result());
        bench.pass(MINUTES);
        assert!(bench.closed, "{tool}");
    }
}

#[test]
fn c7_a_turn_that_nothing_announced_is_followed_by_that_of_the_message() {
    let mut bench = silent();
    bench.host(&message());
    bench.close_host();
    for _ in 0..2 {
        bench.agent(&init());
        bench.agent(&result());
    }
    bench.pass(Duration::from_secs(9));
    assert!(!bench.closed);
    bench.agent(&init());
    let no = bench.ask("r", "c");
    bench.outcome(no, outcome(Verdict::Allow));
    bench.agent(&result());
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_a_turn_that_is_scheduled_is_waited_for() {
    let wakeup = |input: &Value| {
        let call = json!({"type": "tool_use", "id": "w", "name": "ScheduleWakeup", "input": input});
        json!({"type": "assistant", "message": {"content": [call]}, "parent_tool_use_id": null, "session_id": "s"})
    };
    let told = |text: &str| {
        let block = json!({"type": "tool_result", "tool_use_id": "w", "content": text});
        json!({"type": "user", "message": {"role": "user", "content": [block]}, "session_id": "s"})
    };
    for tells in [true, false] {
        let mut bench = silent();
        if tells {
            bench.agent(&state("running"));
        }
        bench.agent(&wakeup(&json!({"delaySeconds": 1800, "prompt": "x"})));
        bench.agent(&told("Next wakeup scheduled for 20:30:00 (in 1845s). Until then"));
        bench.agent(&result());
        if tells {
            bench.agent(&state("idle"));
        }
        bench.close_host();
        assert!(bench.said("a turn of its own in 1845 s"), "{:?}", bench.logs);
        bench.pass(Duration::from_secs(1790));
        assert!(!bench.closed);
        if tells {
            bench.agent(&state("running"));
        }
        bench.agent(&init());
        bench.pass(MINUTES * 2);
        assert!(!bench.closed);
        bench.agent(&result());
        if tells {
            bench.agent(&state("idle"));
        }
        assert!(bench.closed);
        // A turn that begins shortly before it is another one.
        let mut bench = silent();
        if tells {
            bench.agent(&state("running"));
        }
        bench.agent(&wakeup(&json!({"delaySeconds": 1800, "prompt": "x"})));
        bench.agent(&told("Next wakeup scheduled for 20:30:00 (in 1845s). Until then"));
        bench.close_host();
        bench.pass(Duration::from_secs(1790));
        for at_last in [false, true] {
            bench.agent(&init());
            bench.agent(&result());
            if tells {
                bench.agent(&state("idle"));
            }
            bench.pass(Duration::from_secs(54));
            assert_eq!(bench.closed, at_last && tells);
            if tells && !at_last {
                bench.agent(&state("running"));
            }
        }
        // It never comes, and how long it takes was said in other words.
        let mut bench = silent();
        bench.agent(&wakeup(&json!({})));
        bench.agent(&told("soon"));
        bench.agent(&result());
        bench.close_host();
        bench.pass(MINUTES - Duration::from_secs(1));
        assert!(!bench.closed);
        bench.pass(Duration::from_secs(1));
        assert!(bench.closed);
    }
}
