//! A hook of the host's own against people.

#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

use std::sync::mpsc::channel;
use std::time::Duration;

use askd_client::{AskPort, HookStop, Raced, Unavailable, race};
use askd_embed::{Embedded, Journal, Surface, settings};
use askd_wire::{Answer, Ask, Decision, Delivery, OutcomeKind, RaiseAsk, Verdict};

const LONG: Duration = Duration::from_secs(60);

fn ask(key: &str) -> RaiseAsk {
    serde_json::from_value(serde_json::json!({
        "key": key, "agent": "host", "session": "s", "requester": "library", "grace_secs": 60, "tool_call": key,
        "action": {"tool": "Bash", "input": {"command": "touch a"}},
    }))
    .unwrap()
}

fn embedded() -> (Embedded, Surface) {
    let askd = Embedded::open(&Journal::Memory, settings()).unwrap();
    let surface = askd.surface("screen");
    (askd, surface)
}

fn answer(surface: &Surface, ask: &Ask, decision: Decision) -> bool {
    let digest = ask.digest.clone();
    let answer = Answer { decision, digest, option: None, message: None, stop: false, surface: None };
    surface.answer(&ask.id, answer).is_ok()
}

fn asked(surface: &Surface) -> Ask {
    loop {
        let shown = surface.receive().unwrap();
        if shown.what == "asked" {
            return shown.ask;
        }
    }
}

type Said = Result<Option<(Decision, &'static str)>, String>;

#[test]
fn c3_a_hook_that_takes_too_long_is_no_decision() {
    let (askd, surface) = embedded();
    let person = std::thread::spawn(move || answer(&surface, &asked(&surface), Decision::Deny));
    // Whatever it says comes after its time.
    let hook = |_: &HookStop| -> Said { Ok(Some((Decision::Allow, "allowed by a rule"))) };
    let raced = race(&mut askd.asker().unwrap(), &ask("one"), Duration::ZERO, hook).unwrap();
    assert!(person.join().unwrap());
    let Raced::Ask(ask) = raced else { panic!("{raced:?}") };
    assert_eq!(ask.outcome.unwrap().verdict, Verdict::Deny);
}

#[test]
fn c3_a_hook_that_lost_is_told_and_not_heard() {
    let (askd, surface) = embedded();
    let (told, is_told) = channel();
    let (ended, end) = channel();
    let person = std::thread::spawn(move || {
        assert!(answer(&surface, &asked(&surface), Decision::Allow));
        told.send(()).unwrap();
    });
    let hook = move |stop: &HookStop| -> Said {
        is_told.recv().unwrap();
        while !stop.is_stopped() {
            std::thread::yield_now();
        }
        ended.send(()).unwrap();
        Ok(Some((Decision::Deny, "denied by a rule")))
    };
    let raced = race(&mut askd.asker().unwrap(), &ask("one"), LONG, hook).unwrap();
    assert!(matches!(raced, Raced::Ask(_)), "{raced:?}");
    end.recv_timeout(LONG).unwrap();
    person.join().unwrap();
}

#[test]
fn c3_an_ask_that_nobody_decides_leaves_it_to_the_hook() {
    let (askd, surface) = embedded();
    let (gone, is_gone) = channel();
    let inside = askd.clone();
    let person = std::thread::spawn(move || {
        asked(&surface);
        inside.cancel("host", "s", false);
        gone.send(()).unwrap();
    });
    let hook = move |_: &HookStop| -> Said {
        is_gone.recv().unwrap();
        Ok(Some((Decision::Allow, "allowed by a rule")))
    };
    let raced = race(&mut askd.asker().unwrap(), &ask("one"), LONG, hook).unwrap();
    assert!(matches!(raced, Raced::Hook((_, "allowed by a rule"))), "{raced:?}");
    person.join().unwrap();
}

/// An ask of the host without a call, beside another one with the same call.
#[test]
fn c3_a_hook_decides_its_own_ask_and_no_other_of_its_call() {
    for call in [Some("call-1".to_owned()), None] {
        let (askd, surface) = embedded();
        let of_call = |key: &str| RaiseAsk { tool_call: call.clone(), ..ask(key) };
        let mut other = askd.asker().unwrap();
        let other = other.raise(&of_call("other")).map(|raised| (raised.ask, other)).unwrap();
        asked(&surface);
        let (shown, is_shown) = channel();
        let hook = move |_: &HookStop| -> Said {
            is_shown.recv().unwrap();
            Ok(Some((Decision::Allow, "allowed by a rule")))
        };
        let (mut asker, raise) = (askd.asker().unwrap(), of_call("own"));
        let racing = std::thread::spawn(move || race(&mut asker, &raise, LONG, hook).unwrap());
        let own = asked(&surface);
        shown.send(()).unwrap();
        let raced = racing.join().unwrap();
        assert!(matches!(raced, Raced::Hook((_, "allowed by a rule"))), "{raced:?}");
        let mut told = std::iter::from_fn(|| surface.receive());
        let over = told.find(|told| told.what == "settled").unwrap();
        assert_eq!(over.ask.id, own.id);
        let outcome = over.ask.outcome.unwrap();
        assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Allowed, "agent"));
        assert!(outcome.text.contains("by the agent's own hook"), "{}", outcome.text);
        let (ask, mut other) = other;
        assert!(answer(&surface, &ask, Decision::Deny), "the other ask is open still");
        assert_eq!(other.look(&ask.id).unwrap().outcome.unwrap().cause, "person");
    }
}

#[test]
fn c3_without_askd_the_hook_is_alone_and_no_decision_is_invented() {
    let (askd, _surface) = embedded();
    let mut asker = askd.asker().unwrap();
    askd.close();
    let raced =
        race(&mut asker, &ask("one"), LONG, |_| -> Said { Ok(Some((Decision::Deny, "denied by a rule"))) })
            .unwrap();
    assert!(matches!(raced, Raced::Hook((_, "denied by a rule"))));
    let silent: [fn(&HookStop) -> Said; 3] =
        [|_| Ok(None), |_| Err("broken".to_owned()), |_| panic!("a fault of the hook")];
    for hook in silent {
        let raced = race(&mut asker, &ask("one"), LONG, hook);
        assert!(matches!(raced, Err(Unavailable::Fault(_))), "{raced:?}");
    }
}

#[test]
fn c3_two_decisions_at_the_same_moment_are_one_and_the_record_says_which() {
    let (askd, surface) = embedded();
    let mut asker = askd.asker().unwrap();
    let (shown, to_answer) = channel::<()>();
    let person = std::thread::spawn(move || {
        for _ in 0..300 {
            let ask = asked(&surface);
            shown.send(()).unwrap();
            answer(&surface, &ask, Decision::Allow);
        }
    });
    let to_answer = std::sync::Arc::new(std::sync::Mutex::new(to_answer));
    let mut winners = [0, 0];
    for round in 0..300 {
        let to_answer = to_answer.clone();
        let hook = move |_: &HookStop| -> Said {
            to_answer.lock().unwrap().recv().unwrap();
            Ok(Some((Decision::Deny, "denied by a rule")))
        };
        let key = format!("call-{round}");
        match race(&mut asker, &ask(&key), LONG, hook).unwrap() {
            Raced::Ask(ask) => {
                winners[0] += 1;
                let ask = asker.look(&ask.id).unwrap();
                assert_eq!(ask.outcome.unwrap().verdict, Verdict::Allow);
                assert_eq!(ask.delivery, Delivery::Pending);
                asker.confirmed(&ask.id).unwrap();
            }
            Raced::Hook(_) => {
                winners[1] += 1;
                assert!(askd.open_asks().is_empty(), "nobody can answer it any more");
                let outcome = asker.raise(&ask(&key)).unwrap().ask.outcome.unwrap();
                assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Denied, "agent"));
                assert!(outcome.text.contains("hook"), "{}", outcome.text);
            }
        }
    }
    person.join().unwrap();
    assert!(winners.iter().sum::<i32>() == 300, "{winners:?}");
}
