//! How long a session is served, and by whom.

use super::*;

#[test]
fn f9_an_idle_session_is_left_after_ten_minutes_and_comes_back_with_its_next_request() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.place("a", 10);
    w.seen.requests.clear();
    w.seen.responses.clear();
    w.look(20);
    w.look(500);
    w.take();
    w.look(590_000);
    assert_eq!(w.take(), NONE);
    // A parent that lives keeps it.
    w.seen.other_serves = true;
    w.look(700_000);
    assert_eq!(w.take(), NONE);
    w.seen.other_serves = false;
    w.look(700_100);
    assert_eq!(w.take(), ["unbeat", "leave"]);
    w.seen.kept = false;
    w.look(701_000);
    assert_eq!(w.take(), NONE, "what could not be removed is not kept again");
    w.ask("b", None);
    assert_eq!(w.take(), ["raise 2"]);
    w.machine.stop();
    assert_eq!(w.take(), ["unbeat", "leave"]);
}

#[test]
fn f11_a_session_is_announced_while_it_is_served_and_the_daemon_is_there() {
    let beats =
        |w: &mut World| w.machine.take().iter().filter(|action| matches!(action, Action::Beat(_))).count();
    let mut w = World::new();
    w.look(0);
    assert_eq!(beats(&mut w), 0, "an inbox without a request has no parent that waits");
    w.ask("a", None);
    assert_eq!(beats(&mut w), 1, "at once");
    w.look(500);
    assert_eq!(beats(&mut w), 0);
    w.look(1000);
    assert_eq!(beats(&mut w), 1);
    w.machine.lost(at(1000));
    w.look(15_000);
    assert_eq!(beats(&mut w), 1);
    w.look(16_000);
    assert_eq!(w.take(), ["unbeat"]);
    w.look(17_000);
    assert_eq!(beats(&mut w), 0);
    w.machine.raised();
    w.look(18_000);
    assert_eq!(beats(&mut w), 1);
    w.seen.other_serves = true;
    w.look(19_000);
    assert_eq!(beats(&mut w), 0, "another's record is not written over");
}

#[test]
fn f7_a_directory_that_cannot_be_looked_at_is_not_looked_at_without_end() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.seen.requests.clear();
    w.look(1000);
    assert_eq!(w.machine.looks().count(), 1);
    w.machine.not_seen("s");
    assert_eq!(w.machine.looks().count(), 0, "the usual look does");
    w.look(2000);
    assert_eq!(w.take(), ["withdraw 1 requester_gone"]);
}

#[test]
fn f14_a_session_that_another_has_is_let_go_with_all_that_is_open_in_it_and_nothing_of_the_others_is_touched()
{
    let mut w = World::answered("T");
    w.ask("b", None);
    assert_eq!(w.take(), ["raise 2"]);
    w.machine.other_has("s", Some(&w.seen));
    assert_eq!(w.take(), ["over 1", "over 2", "unbeat"]);
    assert!(w.machine.is_idle());
    // What is still told of them goes nowhere.
    w.machine.outcome(2, &outcome(Verdict::Allow, "person"), at(100), WALL);
    assert_eq!(w.take(), ["over 2"]);
    w.machine.tick(at(2000), WALL);
    w.machine.other_has("s", Some(&w.seen));
    assert_eq!(w.take(), NONE);
    // Ours again, it is all there.
    w.found("b", 1, "T", 3000);
    w.found("a", 1, "T", 3000);
    w.look(3000);
    assert_eq!(w.take(), ["raise 3", "recall 4 Some(true)"]);
}

#[test]
fn f14_a_request_that_went_before_another_had_its_session_is_answered_by_who_saw_it() {
    let asked = || {
        let mut w = World::new();
        w.ask("a", None);
        w.take();
        w.seen.requests.clear();
        w.machine.other_has("s", Some(&w.seen));
        assert_eq!(w.take(), ["unbeat"]);
        w
    };
    // Nobody else can know what was decided.
    let mut w = asked();
    w.machine.outcome(1, &outcome(Verdict::Deny, "person"), at(100), WALL);
    let answer = w.machine.take().into_iter().find_map(|action| match action {
        Action::Answer(_, _, beside) => Some(beside),
        _ => None,
    });
    assert!(answer.is_some_and(|beside| beside.or_none && beside.digest.is_some()));
    w.place("a", 100);
    assert_eq!(w.machine.sessions().count(), 0, "it is the other's session all the same");
    w.machine.other_has("s", Some(&w.seen));
    assert_eq!(w.take(), ["handed 1", "over 1"]);
    assert!(w.machine.is_idle());

    // It is there again: the other one sees it.
    let mut w = asked();
    w.seen.requests.insert("a".to_owned(), stamp(2));
    w.machine.other_has("s", Some(&w.seen));
    assert_eq!(w.take(), ["over 1"]);

    // Its requester died: whatever has its name by now is not touched.
    let mut w = asked();
    w.machine.died(&id("a"));
    assert_eq!(w.take(), ["withdraw 1 requester_gone"]);

    // The session is ours again.
    let mut w = asked();
    w.look(1000);
    w.look(5000);
    assert_eq!(w.take(), NONE);
    w.found("a", 2, "T", 6000);
    w.look(6000);
    assert_eq!(w.take(), NONE, "it is the same one");
    w.machine.outcome(1, &outcome(Verdict::Deny, "person"), at(6100), WALL);
    assert_eq!(w.take(), ["answer a denied"]);
}

#[test]
fn f14_a_tree_that_its_path_does_not_lead_to_any_more_is_served_to_the_end_of_what_is_open() {
    let mut w = World::new();
    w.ask("a", None);
    w.look(10);
    w.take();
    w.machine.close();
    assert_eq!(w.take(), ["unbeat"]);
    assert!(w.machine.has_open() && !w.machine.wants(&id("b"), stamp(1), at(20)));
    let beats = |w: &mut World| w.machine.take().iter().any(|action| matches!(action, Action::Beat(_)));
    w.look(5000);
    assert!(!beats(&mut w));
    w.machine.outcome(1, &outcome(Verdict::Deny, "person"), at(6000), WALL);
    assert_eq!(w.take(), ["answer a denied"]);
    w.place("a", 6000);
    assert!(!w.machine.has_open() && !w.machine.is_idle());
    w.look(6001);
    w.seen.requests.clear();
    w.seen.responses.clear();
    w.look(6010);
    w.look(6500);
    assert_eq!(w.take(), ["handed 1", "confirmed 1"]);
    assert!(w.machine.is_idle());

    // It was removed where it was.
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.close();
    w.machine.withdraw_all(at(10));
    assert!(w.take().contains(&"withdraw 1 requester_gone".to_owned()) && w.machine.is_idle());
}
