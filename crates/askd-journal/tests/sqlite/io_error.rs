//! The system refuses a write for a reason that SQLite cannot name. Whether the batch is there must be certain, or the
//! caller must hear that it is not.

use std::collections::BTreeMap;
use std::process::Command;

use askd_core::event::Event;
use askd_journal::conformance::hand::{ask, batch, closed, entry};
use askd_journal::{Append, CommitError, Journal as _, JournalError, Reader as _};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::child::{as_child, child};
use crate::place::{Place, open};

/// No file of the child may become larger than this.
const LIMIT: u64 = 1 << 20;
const TRIES: u128 = 60;

#[test]
fn commit_until_files_may_not_grow() {
    let Some(path) = as_child() else { return };
    setrlimit(Resource::Fsize, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    let mut journal = open(&path).unwrap();
    // Ends the harness's own line.
    println!();
    for n in 0..TRIES {
        let event = Event::SurfaceFailed { surface: "x".repeat(60_000), reason: String::new() };
        let tried =
            batch([Append { stream: ask(n), expected: 0, entries: vec![entry(event)], head: closed(1) }]);
        let before = journal.last().unwrap();
        let said = match journal.commit(&tried) {
            Ok(done) => {
                assert_eq!((done.first, done.last), (before + 1, before + 1));
                println!("said {n} written");
                continue;
            }
            Err(CommitError::Failed(JournalError::Other(_))) => "failed",
            Err(CommitError::Unknown(_)) => "unknown",
            Err(e) => panic!("{e:?}"),
        };
        // Whatever a restart would find, this daemon goes on from what it knew.
        assert_eq!(journal.last().unwrap(), before);
        assert!(!journal.contains(&tried.appends[0].stream, tried.appends[0].entries[0].id).unwrap());
        let said = match said {
            "unknown" if journal.settle().is_ok() => "settled",
            said => said,
        };
        println!("said {n} {said}");
    }
}

#[test]
fn a_refused_write_is_certain_or_said_to_be_unknown() {
    let place = Place::new();
    let test = child("io_error::commit_until_files_may_not_grow", &place.path());
    // Refused writes are also signalled, which ends a process that does not ask for the contrary.
    let mut quiet = Command::new("sh");
    quiet.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(test.get_program()).args(test.get_args());
    quiet.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = quiet.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said: BTreeMap<u128, String> = String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("said ")?.split_once(' '))
        .map(|(n, what)| (n.parse().unwrap(), what.to_owned()))
        .collect();
    assert_eq!(said.len() as u128, TRIES);
    let count = |what| said.values().filter(|said| *said == what).count();
    // The log meets the limit first: emptying it settles what failed, and makes room. Then the file itself meets it.
    assert!(count("written") > 8 && count("failed") > 0 && count("unknown") > 0, "{said:?}");
    let journal = place.open();
    let last = journal.last().unwrap();
    assert!(journal.feed(0, usize::MAX).unwrap().iter().map(|e| e.position).eq(1..=last));
    for (n, what) in &said {
        let there = journal.head(&ask(*n)).unwrap().is_some();
        match what.as_str() {
            "written" => assert!(there, "{n} was acknowledged"),
            "failed" | "settled" => assert!(!there, "{n} was refused"),
            _ => {}
        }
    }
}
