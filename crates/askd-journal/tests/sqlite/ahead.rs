//! Entries are ahead of the tables of heads and claims most of the time. Beside the engine in memory, which has no such
//! tables, nothing of that is to be seen: not while it runs, not after a crash, not by a second reader.

use std::collections::BTreeMap;
use std::process::Command;

use askd_core::id::StreamId;
use askd_journal::conformance::hand::{OPEN, ask, batch, claim, closed, due, picture, session, some};
use askd_journal::{
    Batch, Claim, Head, HeadState, Journal, MemoryJournal, OpenOptions, Reader, SqliteJournal,
};

use crate::place::{Place, open};

/// Numbers that look like chance and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What was committed so far, as far as the next batch has to know it.
#[derive(Default)]
struct World {
    versions: BTreeMap<StreamId, u64>,
    claims: BTreeMap<String, StreamId>,
    next: u128,
}

impl World {
    fn head(&mut self, chance: &mut Chance) -> Head {
        match chance.below(4) {
            0 => closed(i64::try_from(chance.below(100)).unwrap()),
            1 => due(i64::try_from(chance.below(100)).unwrap()),
            2 => Head { state: HeadState::Unfinished, root: Some("a/b".to_owned()), ..OPEN },
            _ => OPEN,
        }
    }

    /// New asks, more of old ones, heads alone, sessions; claims taken, given up and handed on.
    fn batch(&mut self, chance: &mut Chance) -> Batch {
        let mut tried = Batch::default();
        let mut appends = BTreeMap::new();
        for _ in 0..100 {
            let (stream, count) = match chance.below(20) {
                0..=9 => {
                    self.next += 1;
                    (ask(self.next << 64), 1 + chance.below(2) as usize)
                }
                // Lower than all that are there.
                10 => (ask(u128::from(chance.below(1_000))), 1),
                11 => (session(&format!("s{}", chance.below(9))), 1),
                // A head alone.
                12 => (ask(u128::from(1 + chance.below(300)) << 64), 0),
                _ => (ask(u128::from(1 + chance.below(self.next as u64 + 1)) << 64), 1),
            };
            let expected = self.versions.get(&stream).copied().unwrap_or(0);
            if expected == 0 && count == 0 {
                continue;
            }
            let head = self.head(chance);
            appends.entry(stream.clone()).or_insert_with(|| some(&stream, expected, count, head));
        }
        tried.appends = appends.into_values().collect();
        for append in &tried.appends {
            *self.versions.entry(append.stream.clone()).or_default() += append.entries.len() as u64;
            match chance.below(3) {
                0 => {
                    let name = format!("handle/{}", chance.below(5_000));
                    let holder = self.claims.get(&name).cloned();
                    if tried.take.iter().any(|taken: &Claim| taken.name == name) {
                        continue;
                    }
                    if let Some(holder) = &holder {
                        tried.release.push(claim(&name, holder));
                    }
                    tried.take.push(claim(&name, &append.stream));
                    self.claims.insert(name, append.stream.clone());
                }
                // Of a name that another holds: that stays as it is.
                1 => tried
                    .release
                    .push(claim(&format!("handle/{}", 5_000 + chance.below(100)), &append.stream)),
                _ => {}
            }
        }
        // Claims alone.
        for _ in 0..3 {
            let stream = ask(u128::from(1 + chance.below(self.next as u64)) << 64);
            let is_free = tried.appends.iter().all(|append| append.stream != stream);
            if !is_free || !self.versions.contains_key(&stream) {
                continue;
            }
            let held =
                self.claims.iter().find(|(_, holder)| **holder == stream).map(|(name, _)| name.clone());
            match held {
                Some(name) if tried.take.iter().all(|taken| taken.name != name) => {
                    tried.release.push(claim(&name, &stream));
                    self.claims.remove(&name);
                }
                Some(_) => {}
                None => {
                    let name = format!("handle/alone-{}", chance.below(50));
                    if !self.claims.contains_key(&name) && tried.take.iter().all(|taken| taken.name != name) {
                        tried.take.push(claim(&name, &stream));
                        self.claims.insert(name, stream);
                    }
                }
            }
        }
        tried
    }
}

fn same(found: &dyn Reader, expected: &dyn Reader, world: &World, chance: &mut Chance) {
    let mut names: Vec<String> = (0..30).map(|_| format!("handle/{}", chance.below(5_100))).collect();
    names.extend((0..50).map(|n| format!("handle/alone-{n}")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(picture(found, &names), picture(expected, &names));
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found.holders(&owned).unwrap(), expected.holders(&owned).unwrap());
    for wall_ms in [0, 50, 100] {
        assert_eq!(found.due(wall_ms, 20).unwrap(), expected.due(wall_ms, 20).unwrap());
    }
    let streams: Vec<&StreamId> = world.versions.keys().collect();
    for _ in 0..100 {
        let stream = streams[chance.below(streams.len() as u64) as usize];
        one_stream(found, expected, stream);
    }
    one_stream(found, expected, &ask(u128::MAX));
    one_stream(found, expected, &session("nobody's"));
}

fn one_stream(found: &dyn Reader, expected: &dyn Reader, stream: &StreamId) {
    assert_eq!(found.head(stream).unwrap(), expected.head(stream).unwrap(), "{stream}");
    let entries = found.read(stream).unwrap();
    assert_eq!(entries, expected.read(stream).unwrap());
    for entry in &entries {
        assert!(found.contains(stream, entry.entry.id).unwrap());
    }
    assert!(!found.contains(stream, uuid::Uuid::from_u128(3)).unwrap());
}

/// Stale writers, on streams and names of all ages.
fn stale(journal: &mut dyn Journal, memory: &mut dyn Journal, world: &World, chance: &mut Chance) {
    let streams: Vec<&StreamId> = world.versions.keys().collect();
    let stream = streams[chance.below(streams.len() as u64) as usize];
    let wrong = world.versions[stream] + 1 - 2 * chance.below(2);
    let (name, holder) = world.claims.iter().nth(chance.below(world.claims.len() as u64) as usize).unwrap();
    let other = ask(1 << 100);
    for tried in [
        batch([some(stream, wrong, 1, OPEN)]),
        Batch { take: vec![claim(name, &other)], ..batch([some(&other, 0, 1, OPEN)]) },
    ] {
        let (found, expected) = (journal.commit(&tried), memory.commit(&tried));
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name} of {holder}");
        assert!(expected.is_err());
    }
}

/// The files as a kill would leave them.
fn crashed(place: &Place) -> Place {
    let copy = Place::new();
    let copied = Command::new("cp").arg("-rp").arg(place.dir()).arg(copy.dir()).status();
    assert!(copied.unwrap().success());
    copy
}

#[test]
fn nobody_sees_that_the_tables_come_later() {
    for seed in 0..4 {
        let mut chance = Chance(seed);
        let mut place = Place::new();
        let mut journal = place.open();
        let mut memory = MemoryJournal::new();
        let mut world = World::default();
        let mut reader = journal.reader().unwrap();
        for round in 0..90 {
            let tried = world.batch(&mut chance);
            assert_eq!(journal.commit(&tried).unwrap(), memory.commit(&tried).unwrap(), "round {round}");
            match chance.below(25) {
                0 => {
                    // Killed: what was ahead is made of the entries again.
                    let copy = crashed(&place);
                    drop(reader);
                    drop(journal);
                    place = copy;
                    journal = place.open();
                    reader = journal.reader().unwrap();
                }
                1 => {
                    drop(reader);
                    drop(journal);
                    journal = open(&place.path()).unwrap();
                    reader = journal.reader().unwrap();
                }
                2 => {
                    let before = i64::try_from(chance.below(60)).unwrap();
                    let limit = chance.below(200) as usize;
                    assert_eq!(
                        journal.prune(before, limit).unwrap(),
                        memory.prune(before, limit).unwrap(),
                        "round {round}"
                    );
                    world.versions.retain(|stream, _| memory.head(stream).unwrap().is_some());
                    world.claims.retain(|name, holder| memory.holder(name).unwrap().as_ref() == Some(holder));
                }
                3 => stale(&mut journal, &mut memory, &world, &mut chance),
                _ => {}
            }
            if round % 9 == 0 {
                same(&journal, &memory, &world, &mut chance);
                same(reader.as_ref(), &memory, &world, &mut chance);
            }
        }
        same(&journal, &memory, &world, &mut chance);
        drop(reader);
        drop(journal);
        same(&place.open(), &memory, &world, &mut chance);
    }
}

/// A disk with a place for the entries and none for the tables that follow them: what fits is committed, and a start
/// needs no more room either.
#[test]
fn a_disk_too_full_for_the_tables_takes_entries() {
    const ROOM: u64 = 600 * 4_096;
    let place = Place::new();
    drop(place.open());
    let full = || SqliteJournal::open(place.path(), OpenOptions::default().max_bytes(ROOM)).unwrap();
    let mut journal = full();
    let mut count: u128 = 0;
    let mut add = |journal: &mut SqliteJournal, some_of: u128| {
        let new = (count..count + some_of).map(|n| some(&ask(n << 64), 0, 1, OPEN));
        let done = journal.commit(&batch(new)).is_ok();
        count += if done { some_of } else { 0 };
        done
    };
    while add(&mut journal, 50) {}
    // Until not even one entry has a place.
    while add(&mut journal, 1) {}
    let seen = picture(&journal, &[]);
    // Killed, and started on the full disk.
    let copy = crashed(&place);
    drop(journal);
    for path in [copy.path(), place.path()] {
        let journal = SqliteJournal::open(path, OpenOptions::default().max_bytes(ROOM)).unwrap();
        assert_eq!(picture(&journal, &[]), seen);
    }
    // All of it was entries but for the tables' first pages: with the tables they need more than the room there was.
    let journal = place.open();
    assert_eq!(picture(&journal, &[]), seen);
    assert_eq!(seen.open.len() as u128, count);
    drop(journal);
    let size = std::fs::metadata(place.path()).unwrap().len();
    assert!(size > ROOM, "{size} bytes would have fitted");
}
