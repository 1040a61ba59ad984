//! Names that are used again, and answers of an earlier run.

use super::*;

#[test]
fn f2_an_answer_beside_no_request_goes_so_that_no_later_request_of_its_name_finds_it() {
    let mut w = World::answered("T");
    w.seen.requests.clear();
    w.look(1000);
    assert_eq!(w.take(), NONE);
    // Looked at once more, soon: until then the next one of its name would find it.
    let soon = w.machine.looks().next().unwrap().0;
    assert_eq!(soon, at(1000) + LEFT);
    w.look(1000 + u64::try_from(LEFT.as_millis()).unwrap());
    assert_eq!(w.take(), ["remove response a", "over 1"]);
    // When askd stops it does not stay either.
    let mut w = World::answered("T");
    w.seen.requests.clear();
    w.look(1000);
    w.machine.stop();
    assert_eq!(w.take(), ["remove response a", "unbeat", "leave"]);
    // One that is to be put in place where its request is not is held, and goes with its requester.
    let mut w = World::new();
    w.ask("a", None);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.take();
    w.machine.not_beside(&id("a"), at(10));
    w.seen.requests.clear();
    w.look(10);
    w.look(420);
    assert_eq!(w.take(), ["answer a allowed", "over 1"][1..]);
    assert!(w.machine.is_idle());
}

#[test]
fn f2_an_id_that_is_used_again_is_another_ask_in_every_phase() {
    for (tool, fetched) in [("Other", true), ("T", true), ("Other", false), ("T", false)] {
        // It has its answer, fetched or not, and the next one has its name before askd looks.
        let mut w = World::answered("T");
        if fetched {
            w.seen.responses.clear();
        }
        w.found("a", 2, tool, 100);
        let end: &[&str] = if fetched { &["confirmed 1"] } else { &["over 1", "remove response a"] };
        w.look(100);
        assert_eq!(w.take(), [end, &["raise 2"]].concat(), "{tool} {fetched}");
        w.seen.responses.clear();
        for ms in [1000, 2000, 5000, 60_000] {
            w.look(ms);
            assert_eq!(w.take(), NONE, "the first answer comes to nobody else");
        }
        w.machine.outcome(2, &outcome(Verdict::Deny, "person"), at(60_000), WALL);
        assert_eq!(w.take(), ["answer a denied"]);
    }
    // Its answer is not in place yet, or its time is nearly over.
    let mut w = World::new();
    w.found("a", 1, "T", 0);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.machine.placed(&id("a"), Err("no space".to_owned()), None, at(10));
    w.take();
    w.found("a", 2, "Other", 20);
    assert_eq!(w.take(), ["over 1", "raise 2"]);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(30), WALL);
    assert_eq!(w.take(), ["over 1"]);
}

#[test]
fn f2_the_daemon_knows_each_request_by_what_it_asks_and_by_its_turn() {
    let keys = |w: &mut World| -> Vec<String> {
        let all = w.machine.take();
        all.into_iter()
            .filter_map(|a| if let Action::Raise(_, raise) = a { Some(raise.key) } else { None })
            .collect()
    };
    let mut w = World::new();
    w.found("a", 1, "T", 0);
    w.look(0);
    let first = keys(&mut w).pop().unwrap();
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.take();
    w.place("a", 10);
    w.seen.responses.clear();
    w.found("a", 2, "Other", 100);
    let other = keys(&mut w).pop().unwrap();
    assert_ne!(first, other);
    w.found("a", 3, "T", 200);
    assert_eq!(keys(&mut w), [format!("{first}{}", wire::AGAIN)], "the very same again");
}

#[test]
fn f2_an_answer_of_an_earlier_run_to_another_request_is_no_answer_to_this_one() {
    let other = br#"{"askd":1,"id":"a","outcome":"allowed","request":"sha256:00"}"#;
    for (response, outdated) in [(&other[..], false), (ALLOWED, true)] {
        let mut w = World::new();
        w.seen.requests.insert("a".to_owned(), stamp(1));
        w.seen.responses.insert("a".to_owned());
        let found = Found { answered: Some(response.to_vec()), outdated, ..found("a", "T", None) };
        w.machine.found(id("a"), found, at(0), WALL);
        w.look(0);
        assert_eq!(w.take(), ["remove response a", "raise 1"]);
        w.seen.responses.clear();
        w.look(1000);
        assert_eq!(w.take(), NONE);
    }
}

#[test]
fn a_request_that_is_written_anew_under_its_name_is_another_ask() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.found(id("a"), Found { stamp: stamp(2), ..found("a", "T", None) }, at(10), WALL);
    assert_eq!(w.take(), NONE, "the same content");
    w.machine.found(id("a"), Found { stamp: stamp(3), ..found("a", "Other", None) }, at(20), WALL);
    assert_eq!(w.take(), ["withdraw 1 superseded", "raise 2"]);
}

#[test]
fn f5_an_answer_that_an_earlier_run_put_in_place_is_known_again() {
    const OURS: &[u8] = br#"{"askd":1,"id":"a","outcome":"allowed"}"#;
    const WHOSE: &[u8] = br#"{"approved":true,"state":"approved"}"#;
    let there = |response: &[u8], evidence| {
        let mut w = World::new();
        w.seen.requests.insert("a".to_owned(), stamp(1));
        w.seen.responses.insert("a".to_owned());
        let found = Found { answered: Some(response.to_vec()), evidence, ..found("a", "T", Some(600)) };
        w.machine.found(id("a"), found, at(0), WALL);
        w.look(0);
        w
    };
    // Whether the daemon says so before or after it was fetched.
    for early in [true, false] {
        let mut w = there(WHOSE, Evidence::Unknown);
        assert_eq!(w.take(), ["recall 1 Some(true)"], "and nobody is asked");
        if early {
            w.machine.recalled(1, true);
        }
        w.seen.requests.clear();
        w.seen.responses.clear();
        w.look(1000);
        assert_eq!(w.take(), NONE);
        w.look(1500);
        assert_eq!(w.take(), ["confirmed 1"]);
        assert!(w.machine.is_idle());
    }
    // Nobody comes for it any more: ours goes, another one's stays.
    let removed = ["over 1", "remove response a", "remove request a"];
    let mut w = there(OURS, Evidence::Unknown);
    w.take();
    w.machine.died(&id("a"));
    assert_eq!(w.take(), removed, "an askd's response says so by itself");
    for (ours, expected) in [(true, &removed[..]), (false, &removed[2..])] {
        let mut w = there(WHOSE, Evidence::Unknown);
        w.take();
        w.machine.tick(at(605_000), WALL);
        assert_eq!((w.take(), w.machine.due()), (Vec::new(), None), "not known yet");
        w.machine.recalled(1, ours);
        assert_eq!(w.take(), expected);
    }
    let mut w = there(OURS, Evidence::Gone);
    let all = w.take();
    assert_eq!(all[all.len() - 2..], removed[1..], "{all:?}");
    // Taken from under its requester, it is put there again and told as handed by nobody.
    let mut w = there(WHOSE, Evidence::Unknown);
    w.take();
    w.machine.recalled(1, true);
    w.seen.responses.clear();
    w.look(1000);
    w.look(3100);
    assert!(
        w.machine.take().iter().any(|action| matches!(action, Action::Answer(_, bytes, _) if bytes == WHOSE))
    );
}
