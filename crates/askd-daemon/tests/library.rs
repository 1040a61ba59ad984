//! What hosts link, against a real daemon: asks as futures, and a hook of the host's own beside an ask.
#![expect(clippy::unwrap_used, reason = "a failing step ends the test")]
#![expect(dead_code, reason = "the shared helpers serve other tests too")]

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use askd_client::{AskPort, Asker, HookStop, PendingAsk, Raced, Unavailable, Watch, race};
use askd_wire::{Answer, Ask, AskState, Decision, Delivery, OutcomeKind, RaiseAsk, Raised, Verdict};
use common::{PATIENCE, World, ask};

fn raise(key: &str) -> RaiseAsk {
    let raise: RaiseAsk = serde_json::from_value(ask(key, "ls")).unwrap();
    RaiseAsk { tool_call: Some(key.to_owned()), ..raise }
}

fn open(world: &World) -> Ask {
    world.until("the ask", || world.person().list(false).unwrap().into_iter().next())
}

fn answer(world: &World, ask: &Ask, decision: Decision) -> bool {
    let digest = ask.digest.clone();
    let answer = Answer { decision, digest, option: None, message: None, stop: false, surface: None };
    world.person().answer(&ask.id, &answer).is_ok()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future as a runtime would.
fn wait(pending: PendingAsk) -> Result<Ask, Unavailable> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut pending = pin!(pending);
    loop {
        match pending.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn c2_a_dropped_future_detaches_and_the_next_one_gets_the_answer_that_came_meanwhile() {
    let world = World::start();
    let asker = Asker::new(world.places.clone(), None).unwrap();
    let first = asker.pending(RaiseAsk { grace_secs: 600, ..raise("one") }).unwrap();
    let asked = open(&world);
    drop(first);
    world.until("the link lost", || (world.show(&asked.id).requester.link == "detached").then_some(()));
    assert!(answer(&world, &asked, Decision::Deny), "it is open still");
    let told = wait(asker.pending(RaiseAsk { grace_secs: 600, ..raise("one") }).unwrap()).unwrap();
    assert_eq!((told.id.as_str(), told.outcome.unwrap().verdict), (&*asked.id, Verdict::Deny));
    world.until("what was taken is told", || {
        (world.show(&asked.id).delivery == Delivery::Handed).then_some(())
    });

    // Only a cancel withdraws.
    let second = asker.pending(raise("two")).unwrap();
    let asked = open(&world);
    second.cancel();
    let gone = world.until("the ask withdrawn", || {
        Some(world.show(&asked.id)).filter(|ask| ask.state == AskState::Settled)
    });
    assert_eq!(gone.outcome.unwrap().cause, "cancelled");
}

#[test]
fn c3_a_hook_and_a_person_race_over_the_daemon() {
    let world = World::start();
    let mut asker = Asker::new(world.places.clone(), None).unwrap();
    // The hook has no opinion: the person decides.
    let raced = std::thread::scope(|scope| {
        scope.spawn(|| assert!(answer(&world, &open(&world), Decision::Allow)));
        let hook = |_: &HookStop| -> Result<Option<Decision>, String> { Ok(None) };
        race(&mut asker, &raise("one"), PATIENCE, hook).unwrap()
    });
    let Raced::Ask(ask) = raced else { panic!("{raced:?}") };
    assert_eq!(ask.outcome.unwrap().verdict, Verdict::Allow);
    asker.handed(&ask.id).unwrap();
    assert_eq!(asker.look(&ask.id).unwrap().delivery, Delivery::Handed);

    // The hook decides while a person looks: the ask goes away.
    let (seen, is_seen) = channel();
    let (raced, asked) = std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            let asked = open(&world);
            seen.send(()).unwrap();
            asked
        });
        let hook = move |_: &HookStop| -> Result<_, String> {
            is_seen.recv().unwrap();
            Ok(Some((Decision::Deny, "denied by a rule")))
        };
        (race(&mut asker, &raise("two"), PATIENCE, hook).unwrap(), person.join().unwrap())
    });
    assert!(matches!(raced, Raced::Hook((_, "denied by a rule"))), "{raced:?}");
    by_hook(&world.show(&asked.id), OutcomeKind::Denied);
    assert!(!answer(&world, &asked, Decision::Allow), "too late");
}

/// The record says that the host's own hook decided, and what.
fn by_hook(ask: &Ask, kind: OutcomeKind) {
    let outcome = ask.outcome.as_ref().unwrap();
    assert_eq!((outcome.outcome, outcome.cause.as_str()), (kind, "agent"));
    assert!(outcome.text.contains("by the agent's own hook"), "{}", outcome.text);
}

/// An asker that says how each of its withdrawals ended.
struct Telling(Asker, Sender<bool>);

impl AskPort for Telling {
    fn raise(&mut self, raise: &RaiseAsk) -> Result<Raised, Unavailable> {
        self.0.raise(raise)
    }

    fn ask_watched(&mut self, raise: &RaiseAsk, watch: &mut dyn Watch) -> Result<Ask, Unavailable> {
        self.0.ask_watched(raise, watch)
    }

    fn look(&mut self, id: &str) -> Result<Ask, Unavailable> {
        self.0.look(id)
    }

    fn handed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.0.handed(id)
    }

    fn confirmed(&mut self, id: &str) -> Result<(), Unavailable> {
        self.0.confirmed(id)
    }

    fn withdraw_key(&mut self, key: &str, cause: &str) -> Result<(), Unavailable> {
        let told = self.0.withdraw_key(key, cause);
        let _ = self.1.send(told.is_ok());
        told
    }

    fn decided_by_hook(
        &mut self,
        raise: &RaiseAsk,
        id: Option<&str>,
        decision: Decision,
        went_on: bool,
    ) -> Result<(), Unavailable> {
        let told = self.0.decided_by_hook(raise, id, decision, went_on);
        let _ = self.1.send(told.is_ok());
        told
    }

    fn may_be_known(&self) -> bool {
        self.0.may_be_known()
    }

    fn again(&self) -> Option<Box<dyn AskPort + Send>> {
        AskPort::again(&self.0)
    }
}

fn wait_withdrawn(world: &World, id: &str) {
    let gone = world
        .until("the ask withdrawn", || Some(world.show(id)).filter(|ask| ask.state == AskState::Settled));
    assert_eq!(gone.outcome.unwrap().cause, "cancelled");
    assert!(!answer(world, &world.show(id), Decision::Allow), "nobody can answer it");
}

#[test]
fn c6_a_cancel_while_the_daemon_is_away_is_told_when_it_is_back() {
    let mut world = World::start();
    let (told, is_told) = channel();
    let asker = Asker::new(world.places.clone(), None).unwrap();
    let lasting = RaiseAsk { grace_secs: 600, ..raise("one") };
    let pending = PendingAsk::start(Telling(asker, told), lasting).unwrap();
    let asked = open(&world);
    world.leave("restart");
    pending.cancel();
    assert!(!is_told.recv_timeout(PATIENCE).unwrap(), "nobody is there");
    world.up();
    wait_withdrawn(&world, &asked.id);
}

#[test]
fn c6_a_hook_that_decides_while_the_daemon_is_away_is_recorded_when_it_is_back() {
    let mut world = World::start();
    let (told, is_told) = channel();
    let mut port = Telling(Asker::new(world.places.clone(), None).unwrap(), told);
    let lasting = RaiseAsk { grace_secs: 600, ..raise("one") };
    let (decide, is_to) = channel::<()>();
    let raced = std::thread::spawn(move || {
        let hook = move |_: &HookStop| -> Result<_, String> {
            is_to.recv().unwrap();
            Ok(Some((Decision::Allow, "allowed by a rule")))
        };
        race(&mut port, &lasting, PATIENCE, hook).unwrap()
    });
    let asked = open(&world);
    world.leave("restart");
    decide.send(()).unwrap();
    assert!(matches!(raced.join().unwrap(), Raced::Hook((_, "allowed by a rule"))));
    assert!(!is_told.recv_timeout(PATIENCE).unwrap(), "nobody is there");
    world.up();
    let over = world.until("the hook's decision in the journal", || {
        Some(world.show(&asked.id)).filter(|ask| ask.state == AskState::Settled)
    });
    by_hook(&over, OutcomeKind::Allowed);
    assert!(!answer(&world, &over, Decision::Deny), "nobody can answer it");
}

#[test]
fn c3_a_hook_over_the_daemon_decides_its_own_ask_and_a_person_the_other_of_the_call() {
    let world = World::start();
    let of_call = |key: &str| RaiseAsk { tool_call: Some("call-1".to_owned()), ..raise(key) };
    let mut second = Asker::new(world.places.clone(), None).unwrap();
    let other = second.raise(&of_call("second")).unwrap().ask;
    let mut first = Asker::new(world.places.clone(), None).unwrap();
    let own = first.raise(&of_call("first")).unwrap().ask;
    let hook = |_: &HookStop| -> Result<_, String> { Ok(Some(Decision::Allow)) };
    assert!(matches!(race(&mut first, &of_call("first"), PATIENCE, hook).unwrap(), Raced::Hook(_)));
    by_hook(&world.show(&own.id), OutcomeKind::Allowed);
    assert!(answer(&world, &world.show(&other.id), Decision::Deny), "the other one is open");
    assert_eq!(world.show(&other.id).outcome.unwrap().cause, "person");
    // Told by its key, for a reply that was lost, and again: nothing changes, and an answer for the agent stands.
    first.decided_by_hook(&of_call("first"), None, Decision::Allow, false).unwrap();
    first.decided_by_hook(&of_call("first"), Some(&own.id), Decision::Allow, true).unwrap();
    let why = second.decided_by_hook(&of_call("second"), None, Decision::Allow, false).unwrap_err();
    let Unavailable::Refused(problem) = why else { panic!("{why:?}") };
    assert_eq!(problem.ask.unwrap().outcome.unwrap().verdict, Verdict::Deny);
    // What was never raised has nothing to be told.
    first.decided_by_hook(&of_call("third"), None, Decision::Allow, true).unwrap();
}

#[test]
fn c10_a_hook_that_decides_what_a_person_took_down_is_in_the_record() {
    let world = World::start();
    let mut asker = Asker::new(world.places.clone(), None).unwrap();
    let (down, is_down) = channel::<()>();
    let (raced, asked) = std::thread::scope(|scope| {
        let person = scope.spawn(|| {
            let asked = open(&world);
            world.person().withdraw(&asked.id, "cancelled").unwrap();
            down.send(()).unwrap();
            asked
        });
        let hook = move |_: &HookStop| -> Result<_, String> {
            is_down.recv().unwrap();
            Ok(Some(Decision::Allow))
        };
        let without_call = RaiseAsk { tool_call: None, ..raise("one") };
        (race(&mut asker, &without_call, PATIENCE, hook).unwrap(), person.join().unwrap())
    });
    assert!(matches!(raced, Raced::Hook(Decision::Allow)), "{raced:?}");
    let ask = world.show(&asked.id);
    assert_eq!((ask.outcome.unwrap().outcome, ask.delivery), (OutcomeKind::Withdrawn, Delivery::Overtaken));
    let log = world.person().log(None, None).unwrap();
    let last = log.iter().rfind(|line| line.what == "overtaken").unwrap();
    assert_eq!(last.stream, format!("ask/{}", asked.id));
    assert!(last.text.contains("allowed by the agent's own hook"), "{}", last.text);
}
