//! Killed at any moment: what was acknowledged is there, what is there is whole, and there are no gaps.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use askd_core::event::Event;
use askd_journal::conformance::hand::{OPEN, ask, batch, claim, closed, entry, one, session};
use askd_journal::{Append, Batch, HeadState, Journal as _, Reader as _};

use crate::child::{as_child, child};
use crate::place::{Place, open};

const ROUNDS: usize = 12;
/// Entries of one batch of the child, on as many streams.
const BATCH: u64 = 3;

/// Commits without end and says each position once it was acknowledged.
#[test]
fn commit_without_end() {
    let Some(path) = as_child() else { return };
    let mut journal = open(&path).unwrap();
    let mut counted = journal.head(&session("counter")).unwrap().map_or(0, |(version, _)| version);
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready").unwrap();
    loop {
        // Ids of the asks go on where the last child ended, also when its last batch was not acknowledged.
        let n = u128::from(counted);
        // Bodies of all sizes, some larger than many pages.
        let size = [10, 700, 5_000, 300_000][(counted % 4) as usize];
        let event = Event::SurfaceFailed { surface: "x".repeat(size), reason: String::new() };
        let mut tried = Batch {
            take: vec![claim(&format!("key/{n}"), &ask(n))],
            ..batch([
                one(&session("counter"), counted, OPEN),
                Append { stream: ask(n), expected: 0, entries: vec![entry(event)], head: OPEN },
            ])
        };
        if let Some(before) = n.checked_sub(1) {
            tried.appends.push(one(&ask(before), 1, closed(before as i64)));
            tried.release.push(claim(&format!("key/{before}"), &ask(before)));
        }
        for entry in tried.appends.iter_mut().flat_map(|a| &mut a.entries) {
            entry.id = uuid::Uuid::from_u128(u128::from(std::process::id()) << 96 | entry.id.as_u128() >> 32);
        }
        let done = journal.commit(&tried).unwrap();
        counted += 1;
        writeln!(out, "acknowledged {}", done.last).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_it_is_killed_at_any_moment() {
    let place = Place::new();
    let mut last = 0;
    for round in 0..ROUNDS {
        let mut running = child("crash::commit_without_end", &place.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("ready")), "round {round}: the child did not start");
        // Somewhere in the work on the commits that follow this many acknowledged ones; the process's scheduling makes
        // the moment within a commit a different one each time.
        let wanted = 1 + round * 7 % 40;
        let mut acknowledged: Vec<u64> = Vec::new();
        for line in lines.by_ref() {
            acknowledged.extend(position(&line));
            if acknowledged.len() >= wanted {
                break;
            }
        }
        assert_eq!(acknowledged.len(), wanted, "round {round}: the child ended by itself");
        for _ in 0..round * 10_000 {
            std::hint::spin_loop();
        }
        running.kill().unwrap();
        // What it still said before the kernel ended it counts as well.
        acknowledged.extend(lines.filter_map(|line| position(&line)));
        running.wait().unwrap();
        last = check(&place, &acknowledged, last);
    }
    assert!(last > ROUNDS as u64);
}

/// The position in a whole line; the last line may be torn.
fn position(line: &str) -> Option<u64> {
    line.strip_prefix("acknowledged ")?.parse().ok()
}

/// Everything must fit together; returns the newest position.
fn check(place: &Place, acknowledged: &[u64], before: u64) -> u64 {
    let journal = place.open();
    let last = journal.last().unwrap();
    let feed = journal.feed(0, usize::MAX).unwrap();
    assert!(feed.iter().map(|e| e.position).eq(1..=last), "gaps");
    let newest = acknowledged.iter().max().copied().unwrap_or(0);
    assert!(last >= newest, "{newest} was acknowledged, {last} is there");
    assert!(last > before);
    // Batches are whole: the first has one entry less than the others.
    assert_eq!((last + 1) % BATCH, 0, "half a batch at {last}");
    let mut versions = BTreeMap::new();
    for found in &feed {
        let version = versions.entry(found.stream.clone()).or_insert(0);
        *version += 1;
        assert_eq!(found.version, *version);
    }
    for (stream, version) in &versions {
        assert_eq!(journal.head(stream).unwrap().map(|(found, _)| found), Some(*version), "{stream}");
    }
    let batches = u128::from((last + 1) / BATCH);
    for n in 0..batches {
        let newest = n + 1 == batches;
        let holder = newest.then(|| ask(n));
        assert_eq!(journal.holder(&format!("key/{n}")).unwrap(), holder, "key/{n}");
        let state = if newest { HeadState::Open } else { HeadState::Closed };
        assert_eq!(journal.head(&ask(n)).unwrap().map(|(_, head)| head.state), Some(state));
    }
    last
}
