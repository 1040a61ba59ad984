//! What finds no room.

use super::*;

#[test]
fn s6_one_session_cannot_take_all_the_room_and_what_waits_is_taken_later() {
    let of = |session: &str, n: usize| Id { session: session.to_owned(), stem: n.to_string() };
    let mut w = World::new();
    let garbage = |n: usize| Found {
        request: Err(Unreadable::Field("tool")),
        stamp: stamp(1),
        evidence: Evidence::Unknown,
        age: Duration::ZERO,
        answered: (n == MOST).then(Vec::new),
        outdated: false,
        kept_in: Some(DIR),
    };
    for n in 0..MOST {
        let session = format!("s{}", n / MOST_OF_SESSION);
        w.machine.found(of(&session, n), garbage(n), at(0), WALL);
    }
    w.take();
    assert!(!w.machine.wants(&of("s0", MOST), stamp(1), at(0)));
    // A session that has nothing open gets a place; one of many does not get more than its share.
    assert!(w.machine.wants(&of("t", 0), stamp(1), at(0)));
    w.machine.found(of("t", 0), garbage(0), at(0), WALL);
    assert!(!w.machine.wants(&of("t", 1), stamp(1), at(0)));
    // What has its answer takes nobody's place, also when it is never fetched.
    w.machine.tick(at(5000), WALL);
    let answered: Vec<Id> = w
        .machine
        .take()
        .into_iter()
        .filter_map(|action| match action {
            Action::Answer(id, _, _) => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(answered.len(), MOST + 1);
    for id in &answered {
        w.machine.placed(id, Ok(Put::Placed), None, at(5000));
    }
    w.machine.tick(at(5001), WALL);
    assert!(
        w.machine.wants(&of("s0", MOST), stamp(1), at(0)) && w.machine.wants(&of("t", 1), stamp(1), at(0))
    );
}

#[test]
fn s7_what_finds_no_room_is_told_of_once_and_answered_as_unavailable_and_what_has_none_is_not_hurt() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    // Descriptors for one more, which is for a session that has nothing open.
    w.machine.has_room_for(1, 1);
    let lines = |w: &mut World| {
        let told = |action: &Action| matches!(action, Action::Tell(text) if text.contains("more requests"));
        w.machine.take().iter().filter(|action| told(action)).count()
    };
    for ms in (0..30_000).step_by(1000) {
        w.seen.requests.insert("b".to_owned(), stamp(1));
        assert!(!w.machine.wants(&id("b"), stamp(1), at(ms)));
        w.look(ms);
        assert_eq!(lines(&mut w), usize::from(ms == 0), "said once");
    }
    let other = Id { session: "t".to_owned(), stem: "x".to_owned() };
    assert!(w.machine.wants(&other, stamp(1), at(1000)));
    // Its turn never came.
    let late = 30_000;
    assert_eq!(PATIENCE, Duration::from_millis(late));
    assert!(w.machine.wants(&id("b"), stamp(1), at(late)));
    w.machine.found(id("b"), found("b", "T", None), at(late), WALL);
    w.look(late);
    assert_eq!(w.take(), ["answer b unavailable"]);
    w.place("b", late);
    w.look(late + 1);
    // There is room again, and the next time that there is none is told again.
    w.machine.has_room_for(9, 1);
    assert!(w.machine.wants(&id("c"), stamp(1), at(late + 2)));
    w.machine.has_room_for(1, 1);
    w.look(late + 3);
    w.take();
    assert!(!w.machine.wants(&id("d"), stamp(1), at(late + 4)));
    assert_eq!(lines(&mut w), 1);
}

#[test]
fn f11_an_ask_that_the_daemon_has_no_room_for_takes_no_serving_record_away() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    for ms in (0..60_000).step_by(1000) {
        w.machine.no_room(1, "the limit is reached");
        w.look(ms);
        assert_eq!(w.take(), NONE, "at {ms}");
    }
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(60_000), WALL);
    assert_eq!(w.take(), ["answer a allowed"], "it was tried again");
}

#[test]
fn s7_what_waited_for_room_in_a_directory_that_is_gone_waits_no_more() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.has_room_for(0, 0);
    let told = |w: &mut World| {
        let is_it = |action: &Action| matches!(action, Action::Tell(text) if text.contains("more requests"));
        w.machine.take().iter().any(is_it)
    };
    let other = Id { session: "t".to_owned(), stem: "x".to_owned() };
    assert!(!w.machine.wants(&other, stamp(1), at(0)));
    assert!(told(&mut w));
    // Nothing was ever open in it.
    w.machine.scanned("t", None, at(1000));
    w.machine.tick(at(1000), WALL);
    w.take();
    // The next one of its name has its own half minute, and is told of.
    let late = at(1000) + PATIENCE;
    assert!(!w.machine.wants(&other, stamp(2), late));
    assert!(told(&mut w));
    assert!(w.machine.wants(&other, stamp(2), late + PATIENCE));
}

#[test]
fn s7_a_request_that_cannot_be_read_and_finds_no_room_is_answered_as_unavailable_too() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.has_room_for(0, 0);
    w.seen.requests.insert("b".to_owned(), stamp(1));
    assert!(!w.machine.wants(&id("b"), stamp(1), at(0)));
    w.look(0);
    let late = u64::try_from(PATIENCE.as_millis()).unwrap();
    assert!(w.machine.wants(&id("b"), stamp(1), at(late)));
    let unreadable = Found { request: Err(Unreadable::NotJson("torn".to_owned())), ..found("b", "T", None) };
    w.machine.found(id("b"), unreadable, at(late), WALL);
    w.look(late);
    assert_eq!(w.take(), ["answer b unavailable"]);
}
