//! Background shells that run on when the host is gone: a turn may follow on their end, and asks.

use std::time::Duration;

use askd_agents::claude::HostKind;
use askd_wire::Verdict;
use serde_json::{Value, json};

use crate::support::{Bench, outcome};

const HOUR: Duration = Duration::from_secs(3600);

fn started(task: &str) -> Value {
    json!({"type": "system", "subtype": "task_started", "task_id": task, "task_type": "local_bash",
        "description": "the long build", "session_id": "s"})
}

fn ended(task: &str, status: &str) -> Value {
    json!({"type": "system", "subtype": "task_notification", "task_id": task, "status": status, "session_id": "s"})
}

fn state(state: &str) -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": state, "session_id": "s"})
}

fn result() -> Value {
    json!({"type": "result", "subtype": "success", "session_id": "s"})
}

/// A turn that left a shell running, and a host that is gone.
fn left_running(mut bench: Bench, tells: bool) -> Bench {
    if tells {
        bench.agent(&state("running"));
    }
    bench.agent(&started("b"));
    bench.agent(&result());
    if tells {
        bench.agent(&state("idle"));
    }
    bench.close_host();
    bench
}

/// The turn that follows on the shell's end asks, is answered, and the agent is let go after it.
fn a_turn_follows(bench: &mut Bench, tells: bool) {
    if tells {
        bench.agent(&state("running"));
    }
    bench.agent(&json!({"type": "system", "subtype": "init", "session_id": "s"}));
    let no = bench.ask("r", "c");
    bench.outcome(no, outcome(Verdict::Allow));
    let last = bench.to_agent.last();
    assert!(last.is_some_and(|line| line.contains("\"allow\"")), "{:?}", bench.to_agent);
    assert!(!bench.closed);
    bench.agent(&result());
    if tells {
        bench.agent(&state("idle"));
    }
    bench.pass(Duration::from_secs(10));
    assert!(bench.closed);
}

#[test]
fn c7_what_follows_on_a_shell_is_asked_about_however_long_the_shell_runs() {
    for tells in [true, false] {
        let silent = Bench::new(HostKind::Silent { attended: false });
        let mut bench = left_running(silent, tells);
        assert!(bench.said("a background shell (\"the long build\") runs"), "{:?}", bench.logs);
        bench.pass(HOUR * 50);
        assert!(!bench.closed && bench.question().is_none());
        bench.agent(&ended("b", "completed"));
        a_turn_follows(&mut bench, tells);
    }
}

#[test]
fn c7_another_thing_that_is_waited_for_is_said_at_once() {
    let mut bench = Bench::untouched();
    bench.host(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
    bench.close_host();
    bench.pass(Duration::from_secs(11));
    assert!(bench.said("a turn may follow, for up to 10 minutes"), "{:?}", bench.logs);
    bench.agent(&state("running"));
    bench.agent(&started("b"));
    bench.agent(&result());
    bench.agent(&state("idle"));
    assert!(bench.said("still open: a background shell (\"the long build\") runs"), "{:?}", bench.logs);
    assert_eq!(bench.logs.len(), 2);
}

#[test]
fn c7_what_the_input_is_kept_open_for_is_said_again_while_it_lasts() {
    let mut bench = left_running(Bench::new(HostKind::Silent { attended: false }), true);
    assert_eq!(bench.logs.len(), 1);
    for n in 2..5 {
        let at = bench.machine.next_tick().unwrap();
        assert_eq!(at, bench.now + Duration::from_secs(600));
        bench.pass(at - bench.now);
        assert_eq!(bench.logs.len(), n, "{:?}", bench.logs);
        assert!(bench.logs.last().unwrap().starts_with("still open: a background shell"), "{:?}", bench.logs);
    }
}

#[test]
fn c7_a_shell_that_runs_for_longer_than_it_may_is_stopped_and_what_follows_is_asked_about() {
    for tells in [true, false] {
        let mut bench = left_running(Bench::with_shell_patience(HOUR), tells);
        assert!(bench.said("for up to 60 minutes (claude.shell_patience_secs)"), "{:?}", bench.logs);
        bench.pass(HOUR - Duration::from_secs(1));
        assert!(bench.to_agent.is_empty() && !bench.closed);
        bench.pass(Duration::from_secs(1));
        let line: Value = serde_json::from_str(bench.to_agent.last().unwrap()).unwrap();
        assert_eq!(
            (&line["request"]["subtype"], &line["request"]["task_id"]),
            (&json!("stop_task"), &json!("b"))
        );
        assert!(bench.said("ran on for 60 minutes"), "{:?}", bench.logs);
        bench.agent(&ended("b", "stopped"));
        let before = bench.to_host.len();
        bench.reply(line["request_id"].as_str().unwrap());
        assert_eq!(bench.to_host.len(), before, "the host asked for nothing");
        assert!(!bench.closed);
        a_turn_follows(&mut bench, tells);
    }
}

#[test]
fn c7_the_time_of_a_shell_begins_when_nothing_else_is_waited_for() {
    let mut bench = Bench::with_shell_patience(HOUR);
    bench.agent(&started("b"));
    bench.pass(HOUR * 3);
    bench.agent(&result());
    // Whatever it has run before, the host was there.
    bench.pass(HOUR * 3);
    bench.close_host();
    bench.pass(HOUR - Duration::from_secs(1));
    assert!(bench.to_agent.is_empty() && !bench.closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.to_agent.last().unwrap().contains("stop_task"));
}

#[test]
fn c7_a_shell_that_cannot_be_stopped_holds_nobody_for_ever() {
    let mut bench = left_running(Bench::with_shell_patience(HOUR), true);
    bench.pass(HOUR);
    assert!(bench.to_agent.last().unwrap().contains("stop_task"));
    bench.pass(Duration::from_secs(599));
    assert!(!bench.closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.closed && bench.said("has not stopped its background shell"), "{:?}", bench.logs);
    assert_eq!(bench.to_agent.iter().filter(|line| line.contains("stop_task")).count(), 1);
}
