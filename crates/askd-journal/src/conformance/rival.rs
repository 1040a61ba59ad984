//! First answer wins, round after round.

use std::collections::BTreeSet;
use std::sync::Barrier;

use uuid::Uuid;

use super::hand::{OPEN, ask, batch, claim, closed, one};
use crate::contract::{Batch, CommitError, Journal};

const ROUNDS: u64 = 10_000;

/// Two writers who believe the same version, through one handle: the second is always stale.
pub(super) fn one_wins(journal: &mut dyn Journal) {
    let stream = ask(1);
    journal.commit(&batch([one(&ask(2), 0, OPEN), one(&ask(3), 0, OPEN)])).unwrap();
    for version in 0..ROUNDS {
        // They also race for a name, which the winner of the round before held.
        let rivals = [ask(2), ask(3)].map(|holder| {
            let name = format!("key/{version}");
            Batch { take: vec![claim(&name, &holder)], ..batch([one(&stream, version, OPEN)]) }
        });
        let [first, second] = if version % 2 == 0 { [0, 1] } else { [1, 0] }.map(|n: usize| &rivals[n]);
        assert_eq!(journal.commit(first).unwrap().last, version + 3);
        match journal.commit(second) {
            Err(CommitError::Conflict { streams, claims }) => {
                assert_eq!(streams, std::slice::from_ref(&stream));
                assert_eq!(claims, first.take);
            }
            other => panic!("round {version}: both won, or neither: {other:?}"),
        }
        // What is not there is looked for in the whole stream.
        if version % 100 == 0 {
            assert!(journal.contains(&stream, first.appends[0].entries[0].id).unwrap());
            assert!(!journal.contains(&stream, second.appends[0].entries[0].id).unwrap());
        }
    }
    assert_eq!(journal.head(&stream).unwrap().unwrap().0, ROUNDS);
    assert_eq!(journal.last().unwrap(), ROUNDS + 2);
}

/// Two daemons on one journal, each on a thread of its own, answer the same asks: every ask has one winner, the loser
/// knows that it lost, and the feed has exactly the winners.
pub fn rivals(mut journals: [Box<dyn Journal>; 2]) {
    let asks = u128::from(ROUNDS);
    for from in (0..asks).step_by(1_000) {
        journals[0].commit(&batch((from..from + 1_000).map(|n| one(&ask(n), 0, OPEN)))).unwrap();
    }
    let start = Barrier::new(2);
    let won: Vec<Vec<(u128, Uuid)>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            journals.iter_mut().map(|journal| scope.spawn(|| answer_all(journal.as_mut(), &start))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let asked: BTreeSet<u128> = won.iter().flatten().map(|(n, _)| *n).collect();
    assert_eq!(won.iter().map(Vec::len).sum::<usize>() as u128, asks, "an ask has two winners, or none");
    assert_eq!(asked.len() as u128, asks);
    for journal in &journals {
        let feed = journal.feed(0, usize::MAX).unwrap();
        assert!(feed.iter().map(|e| e.position).eq(1..=2 * ROUNDS));
        let answers: BTreeSet<Uuid> = feed.iter().filter(|e| e.version == 2).map(|e| e.entry.id).collect();
        assert_eq!(answers, won.iter().flatten().map(|(_, id)| *id).collect());
        assert_eq!(journal.open_heads().unwrap(), []);
    }
}

/// Answers every ask once; returns what it won.
fn answer_all(journal: &mut dyn Journal, start: &Barrier) -> Vec<(u128, Uuid)> {
    start.wait();
    let mut won = Vec::new();
    for n in 0..u128::from(ROUNDS) {
        let tried = batch([one(&ask(n), 1, closed(1))]);
        match journal.commit(&tried) {
            Ok(_) => won.push((n, tried.appends[0].entries[0].id)),
            Err(CommitError::Conflict { streams, claims }) => {
                assert_eq!((streams, claims), (vec![ask(n)], vec![]));
                assert_eq!(journal.read(&ask(n)).unwrap().len(), 2);
            }
            Err(e) => panic!("ask {n}: {e}"),
        }
    }
    won
}
