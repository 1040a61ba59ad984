//! Directories and answers that are taken away.

use super::*;

#[test]
fn f6_an_answer_that_cannot_be_placed_is_held_and_tried_again_and_nothing_is_asked_again() {
    let mut w = World::new();
    w.ask("a", None);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    assert_eq!(w.take(), ["raise 1", "answer a allowed"]);
    let mut now = 10;
    for _ in 0..20 {
        w.machine.placed(&id("a"), Err("no space".to_owned()), None, at(now));
        assert_eq!(w.take(), NONE);
        let due = w.machine.due().unwrap();
        assert!(due > at(now) && due <= at(now + 2000), "{due:?}");
        now = u64::try_from((due - at(0)).as_millis()).unwrap();
        w.machine.tick(due, WALL);
        assert_eq!(w.take(), ["answer a allowed"]);
    }
    w.place("a", now);
    assert_eq!(w.take(), ["handed 1"]);
}

#[test]
fn f6_what_takes_the_whole_session_away_takes_no_ask_and_no_answer() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.nothing_there(1000);
    w.take();
    // It was made again, and is another directory now.
    w.seen = Seen { requests_dir: Some((1, 3)), kept: true, ..Seen::default() };
    for ms in [2000, 3000, 60_000] {
        w.look(ms);
        assert_eq!(w.take(), NONE, "the requester may well wait");
    }
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(60_000), WALL);
    assert_eq!(w.take(), ["answer a allowed"]);
    w.place("a", 60_000);
    assert_eq!(w.take(), ["handed 1"]);
    // Taken away again: whether it was fetched before cannot be told, so it goes to its request and to nothing else.
    w.nothing_there(61_000);
    assert_eq!(w.take(), NONE);
    w.seen = Seen { requests_dir: Some((1, 4)), kept: true, ..Seen::default() };
    w.look(61_001);
    w.look(61_600);
    assert_eq!(w.take(), NONE);
    w.found("a", 2, "T", 62_000);
    w.look(62_000);
    w.look(64_000);
    assert_eq!(w.take(), ["answer a allowed"], "nobody is asked twice");
    w.place("a", 64_000);
    w.look(64_001);
    w.seen.requests.clear();
    w.seen.responses.clear();
    w.look(65_000);
    w.look(65_500);
    assert_eq!(w.take(), ["confirmed 1"], "and was told as handed once");
}

#[test]
fn f6_an_answer_that_went_with_directories_which_were_made_again_between_two_looks_was_not_fetched() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    assert_eq!(w.take(), ["answer a allowed"]);
    w.place("a", 10);
    w.look(20);
    assert_eq!(w.take(), ["handed 1"]);
    // Both directories went with all that was in them; another one's answer makes them again, with the same numbers.
    w.ask("b", None);
    w.seen.requests.remove("a");
    w.seen.responses.clear();
    w.anew = true;
    w.take();
    w.anew = false;
    w.look(1000);
    w.look(2000);
    assert_eq!(w.take(), NONE, "nor is it put where its request is not");
    w.found("a", 2, "T", 2000);
    w.look(2000);
    w.look(3500);
    assert_eq!(w.take(), ["answer a allowed"]);
    w.place("a", 3500);
    w.look(3600);
    w.seen.requests.remove("a");
    w.seen.responses.clear();
    w.look(4000);
    w.look(4500);
    assert_eq!(w.take(), ["confirmed 1"], "from directories that stayed, it was fetched");
}

#[test]
fn f5_what_lies_unfetched_or_was_taken_away_is_not_told_as_fetched_when_askd_stops() {
    // Removed beside its request; gone with its directories; fetched.
    for (request, kept, told) in [(true, true, false), (false, false, false), (false, true, true)] {
        let mut w = World::new();
        w.ask("a", None);
        w.take();
        w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
        w.take();
        w.place("a", 10);
        w.look(20);
        w.take();
        w.seen.responses.clear();
        w.seen.kept = kept;
        if !request {
            w.seen.requests.clear();
        }
        w.look(1000);
        w.take();
        w.machine.stop();
        assert_eq!(w.take().contains(&"confirmed 1".to_owned()), told);
    }
}

#[test]
fn f6_a_response_that_vanishes_beside_its_request_is_put_there_again() {
    let mut w = World::new();
    w.ask("a", None);
    w.machine.outcome(1, &outcome(Verdict::Deny, "person"), at(10), WALL);
    w.take();
    w.place("a", 10);
    w.take();
    w.seen.responses.clear();
    w.look(1000);
    w.look(2000);
    assert_eq!(w.take(), NONE, "it is being fetched");
    w.look(3100);
    assert_eq!(w.take(), ["answer a denied"]);
    w.place("a", 3100);
    assert_eq!(w.take(), NONE, "handed once");
}

#[test]
fn f5_a_response_that_nobody_fetched_stays_until_its_requester_is_dead_or_out_of_time() {
    for (limit, end) in [(None, 100_000_000), (Some(600), 604_999)] {
        let mut w = World::new();
        w.ask("a", limit);
        w.take();
        w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
        w.take();
        w.place("a", 10);
        assert_eq!(w.take(), ["handed 1"]);
        for ms in [1000, 2000, 300_000, end] {
            w.look(ms);
            assert_eq!(w.take(), NONE, "{limit:?} at {ms}");
        }
        if limit.is_some() {
            w.look(605_000);
            assert_eq!(w.take(), ["over 1", "remove response a", "remove request a"]);
        }
    }
}

#[test]
fn f6_an_answer_that_is_taken_away_is_put_in_place_again_however_often_everything_is_taken_meanwhile() {
    let mut w = World::answered("T");
    w.seen.responses.clear();
    let late = u64::try_from(LOST_RESPONSE.as_millis()).unwrap();
    for (n, ms) in (1000..).step_by(100).take_while(|ms| *ms < 1000 + late).enumerate() {
        // Now with its request and now without, in directories that are new each time.
        w.seen.requests.clear();
        if n % 2 == 0 {
            w.seen.requests.insert("a".to_owned(), stamp(1));
        }
        (w.seen.kept, w.anew) = (false, true);
        w.look(ms);
        assert_eq!(w.take(), NONE);
        (w.seen.kept, w.anew) = (true, false);
    }
    w.seen.requests.insert("a".to_owned(), stamp(1));
    w.look(1000 + late);
    assert_eq!(w.take(), ["answer a allowed"]);
}
