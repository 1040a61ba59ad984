use askd_wire::{OutcomeKind, Verdict};
use serde_json::Map;

use super::super::wire;
use super::room::{MOST, MOST_OF_SESSION, PATIENCE};
use super::*;

const DIR: (u64, u64) = (1, 2);
const WALL: i64 = 1_796_026_230_778;

fn at(ms: u64) -> Now {
    Duration::from_secs(1000) + Duration::from_millis(ms)
}

fn id(stem: &str) -> Id {
    Id { session: "s".to_owned(), stem: stem.to_owned() }
}

fn stamp(n: u64) -> Stamp {
    Stamp { inode: n, size: 10, modified_ns: 1 }
}

fn found(stem: &str, tool: &str, limit: Option<u64>) -> Found {
    let mut text = format!(r#"{{"askd":1,"id":"{stem}","tool":"{tool}""#);
    if let Some(secs) = limit {
        text.push_str(&format!(r#","gives_up_secs":{secs}"#));
    }
    text.push('}');
    Found {
        stamp: stamp(1),
        request: wire::read(text.as_bytes(), stem, "s", Duration::from_secs(600)),
        evidence: Evidence::Unknown,
        age: Duration::ZERO,
        answered: None,
        outdated: false,
        kept_in: Some(DIR),
    }
}

fn outcome(verdict: Verdict, cause: &str) -> Outcome {
    Outcome {
        outcome: match verdict {
            Verdict::Allow => OutcomeKind::Allowed,
            Verdict::Deny => OutcomeKind::Denied,
            Verdict::None => OutcomeKind::Withdrawn,
        },
        cause: cause.to_owned(),
        source: None,
        surface: None,
        by: None,
        option: None,
        message: None,
        stop: false,
        settled_at: String::new(),
        verdict,
        reason_for_model: None,
        text: "text".to_owned(),
        extra: Map::new(),
    }
}

/// A machine, and directories that are as the test says.
struct World {
    machine: Machine,
    seen: Seen,
    /// Somebody took the directories, and the new ones got the numbers of the old.
    anew: bool,
    /// The last response that was to be put in place.
    bytes: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let seen = Seen { requests_dir: Some(DIR), kept: true, ..Seen::default() };
        Self { machine: Machine::new(), seen, anew: false, bytes: Vec::new() }
    }

    /// Everything that is to be done but what is only told.
    fn take(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for action in self.machine.take() {
            done.push(match action {
                Action::Keep(name) => {
                    let anew = self.anew;
                    let kept =
                        |requests_dir| Kept { requests_dir, requests_made: anew, requests_anew: anew, anew };
                    self.machine.kept(&name, self.seen.requests_dir.map(kept));
                    continue;
                }
                Action::Tell(_) | Action::Beat(_) => continue,
                Action::Raise(no, _) => format!("raise {no}"),
                Action::Recall(no, _, said) => format!("recall {no} {said:?}"),
                Action::Withdraw(no, cause) => format!("withdraw {no} {cause}"),
                Action::Handed(no) => format!("handed {no}"),
                Action::Confirmed(no) => format!("confirmed {no}"),
                Action::AnsweredElsewhere(no, _) => format!("elsewhere {no}"),
                Action::Over(no) => format!("over {no}"),
                Action::Answer(id, bytes, _) => {
                    self.bytes.clone_from(&bytes);
                    let text = String::from_utf8(bytes).unwrap();
                    let outcome = text.split(r#""outcome":""#).nth(1).unwrap().split('"').next().unwrap();
                    format!("answer {} {outcome}", id.stem)
                }
                Action::RemoveRequest(id) => format!("remove request {}", id.stem),
                Action::RemoveResponse(id, _) => format!("remove response {}", id.stem),
                Action::Unbeat(_) => "unbeat".to_owned(),
                Action::Leave(_) => "leave".to_owned(),
            });
        }
        done
    }

    fn ask(&mut self, stem: &str, limit: Option<u64>) {
        self.seen.requests.insert(stem.to_owned(), stamp(1));
        assert!(self.machine.wants(&id(stem), stamp(1), at(0)));
        self.machine.found(id(stem), found(stem, "T", limit), at(0), WALL);
        self.look(0);
    }

    /// It is written (anew).
    fn found(&mut self, stem: &str, n: u64, tool: &str, ms: u64) {
        self.seen.requests.insert(stem.to_owned(), stamp(n));
        assert!(self.machine.wants(&id(stem), stamp(n), at(ms)));
        let mut found = Found { stamp: stamp(n), ..found(stem, tool, None) };
        found.kept_in = self.seen.requests_dir.filter(|_| self.seen.kept);
        found.answered = self.seen.responses.contains(stem).then(|| self.bytes.clone());
        self.machine.found(id(stem), found, at(ms), WALL);
    }

    /// Asked, allowed and in place.
    fn answered(tool: &str) -> Self {
        let mut w = Self::new();
        w.found("a", 1, tool, 0);
        w.look(0);
        w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
        assert_eq!(w.take(), ["raise 1", "answer a allowed"]);
        w.place("a", 10);
        w.look(20);
        assert_eq!(w.take(), ["handed 1"]);
        w
    }

    fn look(&mut self, ms: u64) {
        let seen = self.seen.clone();
        self.machine.scanned("s", Some(&seen), at(ms));
        self.machine.tick(at(ms), WALL);
    }

    fn nothing_there(&mut self, ms: u64) {
        self.machine.scanned("s", None, at(ms));
        self.machine.tick(at(ms), WALL);
    }

    fn place(&mut self, stem: &str, ms: u64) {
        self.seen.responses.insert(stem.to_owned());
        self.machine.placed(&id(stem), Ok(Put::Placed), None, at(ms));
    }
}

const NONE: [&str; 0] = [];
/// Some response of an askd.
const ALLOWED: &[u8] = br#"{"askd":1,"id":"a","outcome":"allowed"}"#;

#[test]
fn f1_one_request_is_raised_once_answered_once_and_confirmed_when_it_was_fetched() {
    let mut w = World::new();
    w.ask("a", None);
    assert_eq!(w.take(), ["raise 1"]);
    for ms in [10, 1000, 2000, 60_000] {
        w.look(ms);
        assert_eq!(w.take(), NONE);
        assert!(!w.machine.wants(&id("a"), stamp(1), at(0)));
    }
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(60_000), WALL);
    assert_eq!(w.take(), ["answer a allowed"]);
    w.place("a", 60_001);
    assert_eq!(w.take(), ["handed 1"]);
    // An outcome that is told twice changes nothing.
    w.machine.outcome(1, &outcome(Verdict::Deny, "person"), at(60_001), WALL);
    w.look(60_500);
    assert_eq!(w.take(), NONE);
    w.seen.requests.clear();
    w.seen.responses.clear();
    w.look(61_000);
    assert_eq!(w.take(), NONE, "it may be somebody who takes everything away");
    w.look(61_500);
    assert_eq!(w.take(), ["confirmed 1"]);
    assert!(w.machine.is_idle());
}

#[test]
fn f2_every_request_gets_its_own_answer_in_whatever_order() {
    let mut w = World::new();
    for stem in ["a", "b", "c"] {
        w.ask(stem, None);
    }
    assert_eq!(w.take(), ["raise 1", "raise 2", "raise 3"]);
    w.machine.outcome(3, &outcome(Verdict::Deny, "person"), at(10), WALL);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    assert_eq!(w.take(), ["answer c denied", "answer a allowed"]);
    w.place("c", 11);
    w.place("a", 11);
    assert_eq!(w.take(), ["handed 3", "handed 1"]);
    w.look(700_000);
    assert_eq!(w.take(), NONE, "b waits as long as its requester does");
}

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
fn f2_an_answer_beside_no_request_goes_so_that_no_later_request_of_its_name_finds_it() {
    let mut w = World::answered("T");
    w.seen.requests.clear();
    w.look(1000);
    assert_eq!(w.take(), NONE);
    w.look(1400);
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
fn f14_the_first_response_stands() {
    // While the ask is open: what the other one said is what became of it.
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.seen.responses.insert("a".to_owned());
    w.look(1000);
    assert_eq!(w.take(), ["elsewhere 1"]);
    w.machine.outcome(1, &outcome(Verdict::Allow, "agent"), at(1001), WALL);
    assert_eq!(w.take(), ["over 1"]);
    w.seen.requests.clear();
    w.look(2000);
    w.look(3000);
    assert!(w.machine.is_idle());
    assert_eq!(w.take(), NONE, "not ours to remove");

    // At the moment of writing: ours is late.
    let mut w = World::new();
    w.ask("a", None);
    w.machine.outcome(1, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.take();
    w.machine.placed(&id("a"), Ok(Put::Taken), None, at(10));
    assert_eq!(w.take(), ["elsewhere 1"]);

    // Before askd came: it is not asked at all.
    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(1));
    w.seen.responses.insert("a".to_owned());
    w.machine.found(
        id("a"),
        Found { answered: Some(br#"{"approved":true}"#.to_vec()), ..found("a", "T", None) },
        at(0),
        WALL,
    );
    w.look(0);
    assert_eq!(w.take(), ["recall 1 Some(true)"]);
    w.machine.recalled(1, false);
    assert_eq!(w.take(), NONE);
}

#[test]
fn f10_a_requester_that_takes_its_request_away_or_dies_is_withdrawn() {
    let mut w = World::new();
    w.ask("a", None);
    w.take();
    w.seen.requests.clear();
    w.look(1000);
    assert_eq!(w.take(), NONE);
    w.look(1500);
    assert_eq!(w.take(), ["withdraw 1 requester_gone"]);
    assert!(w.machine.is_idle());

    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(1));
    let evidence = Evidence::Process { pid: 7, start: 3 };
    w.machine.found(id("a"), Found { evidence, ..found("a", "T", None) }, at(0), WALL);
    assert_eq!(w.machine.processes(), [(id("a"), 7, 3)]);
    w.take();
    w.machine.died(&id("a"));
    assert_eq!(w.take(), ["withdraw 1 requester_gone", "remove request a"]);

    // With an answer in place that nobody will fetch.
    w.machine.found(id("a"), Found { evidence, ..found("a", "T", None) }, at(0), WALL);
    w.machine.outcome(2, &outcome(Verdict::Allow, "person"), at(10), WALL);
    w.place("a", 10);
    w.take();
    w.machine.died(&id("a"));
    assert_eq!(w.take(), ["over 2", "remove response a", "remove request a"]);

    // A ghost is not shown.
    w.machine.found(id("g"), Found { evidence: Evidence::Gone, ..found("g", "T", None) }, at(0), WALL);
    assert_eq!(w.take(), ["remove request g"]);
    let age = Duration::from_secs(700);
    w.machine.found(id("h"), Found { age, ..found("h", "T", Some(600)) }, at(0), WALL);
    assert_eq!(w.take(), ["answer h unavailable"], "the clock may be wrong");
    w.seen.requests.insert("h".to_owned(), stamp(1));
    w.place("h", 0);
    w.look(4900);
    assert_eq!(w.take(), NONE);
    w.look(5000);
    assert_eq!(w.take(), ["remove response h", "remove request h"]);
    // Of one that lives the clock must have been set.
    w.machine.found(id("i"), Found { age, evidence, ..found("i", "T", Some(600)) }, at(0), WALL);
    assert_eq!(w.take(), ["raise 3"]);
    w.seen.requests.insert("i".to_owned(), stamp(1));
    w.look(596_000);
    assert_eq!(w.take(), NONE, "its time begins anew");
}

#[test]
fn f10_shortly_before_its_own_limit_it_gets_the_true_reason_or_the_answer_that_was_faster() {
    for (verdict, cause, told) in [
        (Verdict::None, "requester_limit", vec!["answer a withdrawn", "over 1"]),
        (Verdict::Allow, "person", vec!["answer a allowed"]),
    ] {
        let mut w = World::new();
        w.ask("a", Some(600));
        w.take();
        w.look(596_900);
        assert_eq!(w.take(), NONE);
        assert_eq!(w.machine.due(), Some(at(597_000)));
        w.look(597_000);
        assert_eq!(w.take(), ["withdraw 1 requester_limit"]);
        w.machine.outcome(1, &outcome(verdict, cause), at(597_001), WALL);
        assert_eq!(w.take(), told);
        w.place("a", 597_002);
        w.take();
        // It left without fetching it.
        w.look(604_999);
        assert_eq!(w.take(), NONE);
        w.look(605_000);
        let done = w.take();
        assert!(done.ends_with(&["remove response a".to_owned(), "remove request a".to_owned()]), "{done:?}");
    }
    // No daemon says anything: still in time.
    let mut w = World::new();
    w.ask("a", Some(600));
    w.look(597_000);
    w.take();
    w.look(599_000);
    assert_eq!(w.take(), ["answer a unavailable", "over 1"]);
}

#[test]
fn f11_an_unreadable_request_is_kept_shown_and_answered_only_after_it_stayed_as_it_was() {
    let torn = |n| Found {
        stamp: stamp(n),
        request: Err(Unreadable::Field("tool")),
        evidence: Evidence::Unknown,
        age: Duration::ZERO,
        answered: None,
        outdated: false,
        kept_in: Some(DIR),
    };
    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(1));
    w.machine.found(id("a"), torn(1), at(0), WALL);
    w.look(100);
    assert_eq!(w.take(), NONE);
    // It is still being written.
    assert!(w.machine.wants(&id("a"), stamp(2), at(0)));
    w.machine.found(id("a"), torn(2), at(4000), WALL);
    w.look(5100);
    assert_eq!(w.take(), ["raise 1"], "shown");
    w.look(8900);
    assert_eq!(w.take(), NONE);
    w.look(9000);
    assert_eq!(w.take(), ["answer a unavailable", "withdraw 1 cancelled"]);
    w.place("a", 9000);
    w.look(9_000_000);
    assert_eq!(w.take(), NONE, "never deleted");

    // One that cannot even be opened: it is tried again, and its time goes on all the same.
    let unread = || Found { request: Err(Unreadable::File("no access".to_owned())), ..torn(1) };
    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(1));
    for ms in (0..5000).step_by(100) {
        assert!(w.machine.wants(&id("a"), stamp(1), at(0)));
        w.machine.found(id("a"), unread(), at(ms), WALL);
        w.look(ms);
    }
    assert_eq!(w.take(), ["raise 1"], "shown once");
    w.look(5000);
    assert_eq!(w.take(), ["answer a unavailable", "withdraw 1 cancelled"]);
    w.place("a", 5000);
    assert!(!w.machine.wants(&id("a"), stamp(1), at(0)));
    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(1));
    w.machine.found(id("a"), unread(), at(0), WALL);
    w.machine.found(id("a"), found("a", "T", None), at(100), WALL);
    assert_eq!(w.take(), ["raise 1"], "it passed without a change of the file");

    // One that becomes whole is asked.
    let mut w = World::new();
    w.seen.requests.insert("a".to_owned(), stamp(2));
    w.machine.found(id("a"), torn(1), at(0), WALL);
    w.machine.found(id("a"), Found { stamp: stamp(2), ..found("a", "T", None) }, at(100), WALL);
    assert_eq!(w.take(), ["raise 1"]);
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
