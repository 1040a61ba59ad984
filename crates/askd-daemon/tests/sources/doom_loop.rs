//! The library's doom-loop gate in front of a real daemon: its four results, with a person at the turn and without.

use askd_client::{Asker, Call, DoomLoop, LoopResult, Unavailable};
use askd_wire::{Ask, Attendance, Class, Delivery, RaiseAsk, SurfaceKind};
use serde_json::json;

use crate::common::{World, answer, ask, post};
use crate::{Surface, typed};

const MAKE: [Call<'static>; 1] = [Call { tool: "Bash", input: r#"{"command":"make test"}"# }];

fn like(attendance: Attendance) -> RaiseAsk {
    let mut like = ask("of another call", "ls");
    like["requester"] = json!("library");
    RaiseAsk { attendance: Some(attendance), ..serde_json::from_str(&like.to_string()).unwrap() }
}

/// A host whose agent makes the same call until it is stopped; what it was stopped by.
fn host(world: &World, attendance: Attendance) -> std::thread::JoinHandle<Option<LoopResult>> {
    let places = world.places.clone();
    std::thread::spawn(move || {
        let mut asker = Asker::new(places, None).unwrap();
        let mut gate = DoomLoop::new();
        assert!(gate.batch("main", &MAKE).is_none() && gate.batch("main", &MAKE).is_none());
        let seen = gate.batch("main", &MAKE).unwrap();
        let result = gate.ask(&mut asker, &seen, like(attendance)).unwrap();
        // Only an approval begins anew.
        let anew = gate.batch("main", &MAKE).is_none();
        assert_eq!(anew, result == Some(LoopResult::Approved));
        result
    })
}

fn open(world: &World) -> Ask {
    let ask = world.until("the safety ask", || world.person().list(false).unwrap().into_iter().next());
    assert_eq!((ask.class, ask.action.tool.as_str()), (Class::Safety, "doom_loop"));
    assert_eq!(ask.action.title.as_deref(), Some("Bash with the same input 3 times in a row"));
    let input: serde_json::Value = serde_json::from_str(ask.action.input.as_ref().unwrap().get()).unwrap();
    assert_eq!(input["repeated_call"], json!({"tool": "Bash", "input": {"command": "make test"}}));
    assert_eq!(input["times"], 3);
    ask
}

fn decide(world: &World, ask: &Ask, decision: &str, message: Option<&str>) {
    let mut body = answer(&ask.digest, decision);
    body["message"] = json!(message);
    assert_eq!(
        post(&mut world.person_connection(), &format!("/v1/asks/{}/answer", ask.id), &body).status,
        200
    );
}

const BOTH: [Attendance; 2] = [Attendance::Foreground, Attendance::Background];

#[test]
fn t8_a_host_hears_that_a_person_approved_or_declined() {
    let world = World::start();
    // A skip allows tools, not this.
    typed(&world, "/skip-permissions on", None);
    for attendance in BOTH {
        let agent = host(&world, attendance);
        let shown = open(&world);
        assert_eq!(shown.deadline.is_some(), attendance == Attendance::Background);
        decide(&world, &shown, "allow", None);
        assert_eq!(agent.join().unwrap(), Some(LoopResult::Approved));
        world.until("the delivery", || (world.show(&shown.id).delivery == Delivery::Handed).then_some(()));

        let agent = host(&world, attendance);
        decide(&world, &open(&world), "deny", Some("it fails for want of a file"));
        let result = agent.join().unwrap().unwrap();
        let message = Some("it fails for want of a file".to_owned());
        assert_eq!(result, LoopResult::Declined { message });
        assert_eq!(result.reason(), "the user declined to let it continue: it fails for want of a file");
    }
}

#[test]
fn t8_a_host_hears_that_nobody_answered_and_that_nobody_is_there() {
    let world = World::with_config("[permissions]\nsafety_timeout_secs = 1\n[remote]\ntimeout_secs = 1\n");
    assert_eq!(host(&world, Attendance::Background).join().unwrap(), Some(LoopResult::TimedOut));
    // In the foreground only the silence of a remote surface ends it.
    let mut phone = Surface::attach(&world, SurfaceKind::Remote, None);
    let agent = host(&world, Attendance::Foreground);
    let shown = phone.until("asked");
    phone.shows(&world, &shown);
    let result = agent.join().unwrap().unwrap();
    assert_eq!(result, LoopResult::TimedOut);
    assert_eq!(result.reason(), "no answer arrived before the deadline");

    let world = World::with_config("[permissions]\nunreachable = \"when_none_attached\"\n");
    for attendance in BOTH {
        let result = host(&world, attendance).join().unwrap().unwrap();
        assert_eq!(result, LoopResult::Unreachable);
        assert_eq!(result.reason(), "this context has no way to ask for confirmation");
    }
}

#[test]
fn t8_a_withdrawn_ask_is_no_result_and_no_daemon_is_no_decision() {
    let world = World::start();
    let agent = host(&world, Attendance::Foreground);
    let shown = open(&world);
    // The person interrupts the turn.
    let seen = json!({"agent": "script", "session": "s1", "observations": [{"type": "turn_cancelled"}]});
    assert_eq!(post(&mut world.requester(), "/v1/observations", &seen).status, 204);
    assert_eq!(agent.join().unwrap(), None);
    assert_eq!(world.show(&shown.id).outcome.unwrap().cause, "cancelled");

    let nowhere = tempfile::tempdir().unwrap();
    let mut asker = Asker::new(askd_client::Places::at(nowhere.path()), None).unwrap();
    let mut gate = DoomLoop::new();
    let seen = (0..3).find_map(|_| gate.batch("main", &MAKE)).unwrap();
    let error = gate.ask(&mut asker, &seen, like(Attendance::Foreground)).unwrap_err();
    assert!(matches!(error, Unavailable::NotRunning(_)), "{error}");
}

#[test]
fn t8_a_batch_of_several_calls_is_shown_with_all_of_them() {
    let world = World::start();
    let places = world.places.clone();
    let agent = std::thread::spawn(move || {
        let mut gate = DoomLoop::new();
        let calls = [MAKE[0], Call { tool: "Read", input: r#"{"file_path":"log"}"# }];
        let seen = (0..3).find_map(|_| gate.batch("main", &calls)).unwrap();
        let mut asker = Asker::new(places, None).unwrap();
        gate.ask(&mut asker, &seen, like(Attendance::Foreground)).unwrap()
    });
    let shown = world.until("the safety ask", || world.person().list(false).unwrap().into_iter().next());
    assert_eq!(shown.action.title.as_deref(), Some("the same 2 calls 3 times in a row"));
    let lines: Vec<_> = shown.display.iter().flat_map(|field| field.lines.iter()).collect();
    for part in ["make test", "log", "Read"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:?}");
    }
    decide(&world, &shown, "allow", None);
    assert_eq!(agent.join().unwrap(), Some(LoopResult::Approved));
}
