//! Many asks at once.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::{AskId, Cause, Command, Decision, Delivery, LinkId, OutcomeKind, Raise, Settings, Verdict};

use crate::common::World;
use crate::common::dice::Dice;
use crate::common::make::{action, background, call_ended, call_started, cancelled, child, hook, id, raise};

#[test]
fn t4_ten_thousand_asks_with_random_deadlines_settle_once_each_at_its_time() {
    let mut dice = Dice(4);
    let mut world =
        World::new(Settings { background_default: Decision::Allow, queue_cap: 0, ..Settings::default() });
    let start = world.now.boot_ms;
    let mut expected = BTreeMap::new();
    let mut answers: BTreeMap<u64, Vec<AskId>> = BTreeMap::new();
    for n in 0..10_000 {
        // Some deadlines meet in one millisecond; some asks have a limit of their own before it, or are answered.
        let deadline = 1 + dice.below(600_000);
        let gives_up = dice.once_in(5).then(|| 1 + dice.below(600_000));
        let ask =
            world.raise(&Raise { gives_up_ms: gives_up, ..background(n, &format!("s{}", n % 50), deadline) });
        let end = deadline.min(gives_up.unwrap_or(deadline));
        let cause = if end == deadline { Cause::Timed } else { Cause::RequesterLimit };
        let answered = 1 + dice.below(600_000);
        if dice.once_in(4) && answered < end {
            answers.entry(answered).or_default().push(ask);
            expected.insert(ask, (answered, Cause::Person));
        } else {
            expected.insert(ask, (end, cause));
        }
    }
    for (at, asks) in answers {
        world.pass(start + at - world.now.boot_ms);
        for ask in asks {
            world.answer(ask, Decision::Deny).unwrap();
        }
    }
    world.pass(start + 600_000 - world.now.boot_ms);
    assert_eq!(world.state.open().count(), 0);
    for (ask, (at, cause)) in expected {
        let outcome = world.outcome(ask);
        assert_eq!((outcome.at.boot_ms - start, outcome.cause), (at, cause));
        let kind = match cause {
            Cause::Person => OutcomeKind::Denied,
            Cause::Timed => OutcomeKind::Allowed,
            _ => OutcomeKind::Withdrawn,
        };
        assert_eq!(outcome.kind, kind);
        assert_eq!(world.story(ask).len(), 2, "settled once");
    }
}

/// One call of the agent, from its own side.
struct Call {
    raise: Raise,
    ask: AskId,
    scripted: Decision,
    answered: bool,
    cancelled: bool,
    attached: bool,
    ran: u32,
    told_no: bool,
}

/// What the agent does with what it is given, as any careful adapter: nothing after its cancel.
fn deliver(world: &mut World, call: &mut Call) {
    let Some(outcome) = &world.ask(call.ask).outcome else { return };
    if !call.attached || call.cancelled || world.ask(call.ask).delivery != Delivery::Pending {
        return;
    }
    let verdict = outcome.verdict();
    world.handed(call.ask).unwrap();
    match verdict {
        Verdict::Allow => {
            call.ran += 1;
            world.see("a", call_ended(call.raise.call.as_deref().unwrap()));
        }
        Verdict::Deny => call.told_no = true,
        Verdict::None => panic!("nothing to deliver"),
    }
}

#[test]
fn c10_ten_thousand_calls_with_aborts_breaks_and_restarts_lose_and_double_nothing() {
    let mut dice = Dice(10);
    let mut world = World::new(Settings::default());
    let mut running: Vec<Call> = Vec::new();
    let mut links = 1_000_000u64;
    let (mut started, mut finished, mut denied, mut aborted) = (0u32, 0, 0, 0);
    while finished < 10_000 {
        match dice.below(16) {
            0..=4 if started < 10_000 && running.len() < 40 => {
                let work = dice.below(4);
                let raise = Raise {
                    call: Some(format!("c{started}")),
                    action: action(&format!("echo {}", dice.below(20))),
                    subagent: (work > 0).then(|| child(&format!("w{work}"))),
                    grace_ms: 600_000,
                    ..raise(started, "a")
                };
                let ask = world.raise(&raise);
                assert!(world.ask(ask).is_open(), "a fresh call is asked about");
                let scripted = if dice.once_in(3) { Decision::Deny } else { Decision::Allow };
                running.push(Call {
                    raise,
                    ask,
                    scripted,
                    answered: false,
                    cancelled: false,
                    attached: true,
                    ran: 0,
                    told_no: false,
                });
                started += 1;
            }
            5..=8 if !running.is_empty() => {
                let n = dice.below(running.len() as u64) as usize;
                let call = &mut running[n];
                call.answered |= world.answer(call.ask, call.scripted).is_ok();
                // Others answer too, the other way and again.
                let other = if call.scripted == Decision::Allow { Decision::Deny } else { Decision::Allow };
                for decision in [other, call.scripted] {
                    assert!(world.answer(call.ask, decision).is_err());
                }
                if dice.once_in(2) {
                    deliver(&mut world, call);
                }
            }
            9 | 10 if !running.is_empty() => {
                // The stream breaks; the client comes back with the same request.
                let n = dice.below(running.len() as u64) as usize;
                let call = &mut running[n];
                if call.attached {
                    world.run(&Command::LinkClosed { link: call.raise.link }).unwrap();
                    call.attached = false;
                }
            }
            11 if !running.is_empty() => {
                // A random abort of one call.
                let n = dice.below(running.len() as u64) as usize;
                world.withdraw(running[n].ask, Cause::Cancelled).unwrap();
                running[n].cancelled = true;
            }
            12 if dice.once_in(40) => {
                world.see("a", cancelled(None));
                running.iter_mut().for_each(|c| c.cancelled = true);
            }
            13 if dice.once_in(40) => {
                world.crash();
                running.iter_mut().for_each(|c| c.attached = false);
            }
            14 => world.pass(dice.below(2_000)),
            _ => {}
        }
        for call in running.iter_mut().filter(|c| !c.attached && !c.cancelled) {
            if dice.once_in(3) {
                links += 1;
                call.raise.link = LinkId(links);
                let back = Raise { id: id(u128::from(links)), ..call.raise.clone() };
                assert_eq!(world.raise(&back), call.ask, "an answered or open ask is not asked again");
                call.attached = true;
                deliver(&mut world, call);
            }
        }
        running.iter_mut().filter(|c| c.attached).for_each(|call| {
            if dice.once_in(8) {
                deliver(&mut world, call);
            }
        });
        running.retain(|call| {
            let over = call.cancelled || call.ran > 0 || call.told_no;
            if over {
                finished += 1;
                assert!(call.ran <= 1, "ran twice");
                assert!(call.ran == 0 || call.scripted == Decision::Allow, "ran although it was denied");
                assert!(!call.told_no || call.scripted == Decision::Deny, "a false deny");
                denied += u32::from(call.told_no);
                aborted += u32::from(call.cancelled);
                let outcome = world.outcome(call.ask);
                if call.answered {
                    assert_eq!(
                        (outcome.cause, outcome.kind),
                        (Cause::Person, call.scripted.into()),
                        "a lost answer"
                    );
                } else {
                    assert_eq!(outcome.cause, Cause::Cancelled);
                }
            }
            !over
        });
        let open: BTreeSet<_> = world.state.open().map(|(id, _)| id).collect();
        assert_eq!(
            u32::try_from(open.len()).unwrap(),
            world.state.waiting(&crate::common::make::session("a"))
        );
    }
    assert!(denied > 1_000 && aborted > 500, "{denied} {aborted}");
    assert_eq!(world.state.open().count(), 0);
    world.see("a", askd_core::Seen::SessionEnded);
    // Who was away when its call was cancelled may still come back to hear it.
    world.pass(600_000);
    assert_eq!(world.state.asks().count(), 0, "nothing is left in memory");
}

#[test]
fn c10_hooks_of_parallel_calls_are_told_apart_by_content() {
    let mut world = World::new(Settings::default());
    let mut asks = Vec::new();
    for n in 0..1_000u32 {
        let what = action(&format!("echo {n}"));
        world.see("a", call_started(&format!("c{n}"), None, what.digest()));
        asks.push(world.raise(&Raise { action: what, ..hook(n, "a") }));
    }
    for (n, ask) in asks.iter().enumerate().rev() {
        assert_eq!(world.ask(*ask).call(), Some(format!("c{n}").as_str()));
        world.see("a", call_ended(&format!("c{n}")));
        assert_eq!(world.outcome(*ask).cause, Cause::Agent);
    }
    assert_eq!(world.state.open().count(), 0);
}
