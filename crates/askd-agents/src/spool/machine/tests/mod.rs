mod again;
mod removed;
mod room;
mod sessions;

use askd_client::spool::{Put, Stamp};
use askd_wire::{Outcome, OutcomeKind, Verdict};
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
