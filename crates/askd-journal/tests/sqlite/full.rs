//! No room left: told, nothing half-written, and on it goes when there is room again.

use std::fs;
use std::path::{Path, PathBuf};

use askd_core::event::Event;
use askd_journal::conformance::hand::{OPEN, Picture, ask, batch, closed, entry, one, picture};
use askd_journal::{
    Append, Batch, CommitError, Journal, JournalError, OpenOptions, Reader as _, SqliteJournal,
};
use tempfile::TempDir;

use crate::place::{Place, files, open};

/// A file system of its own, as small as wanted.
struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// `None` where this user may not mount; the size limit shows the same there.
    fn mount(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=700"), "askd-test"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self { dir }),
            other => {
                assert!(!rustix::process::geteuid().is_root() || !may_mount(), "{other:?}");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("askd/journal.db")
    }

    /// Fills what is left; the disk is full until the file is removed.
    fn hog(&self) -> PathBuf {
        let hog = self.dir.path().join("hog");
        let error = (0..).map(|_| append(&hog, &[0; 4_096])).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        hog
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
        assert!(done.unwrap().success());
    }
}

fn append(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}

fn may_mount() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

/// An ask with a body of this size.
fn asked(n: u128, size: usize) -> Batch {
    let event = Event::SurfaceFailed { surface: "x".repeat(size), reason: String::new() };
    batch([Append { stream: ask(n), expected: 0, entries: vec![entry(event)], head: closed(n as i64) }])
}

/// Commits until there is no room; returns how many were committed.
fn fill(journal: &mut dyn Journal, from: u128, size: usize) -> u128 {
    for n in from.. {
        let before = journal.last().unwrap();
        let tried = asked(n, size);
        match journal.commit(&tried) {
            Ok(done) => assert_eq!(done.first, before + 1),
            Err(CommitError::Failed(JournalError::Full { .. })) => {
                assert_eq!(journal.last().unwrap(), before);
                assert_eq!(journal.head(&ask(n)).unwrap(), None);
                assert!(!journal.contains(&tried.appends[0].stream, tried.appends[0].entries[0].id).unwrap());
                return n - from;
            }
            Err(e) => panic!("{e:?}"),
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_is_told_and_passes() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let mut journal = open(&disk.path()).unwrap();
    journal.commit(&asked(0, 10_000)).unwrap();
    let hog = disk.hog();
    let more = fill(&mut journal, 1, 50_000);
    let full = picture(&journal, &[]);
    // Full stays full, and a loser still hears that it lost.
    assert_eq!(fill(&mut journal, 1 + more, 50_000), 0);
    let tried = journal.try_writing();
    assert!(matches!(tried, Err(JournalError::Full { .. })), "{tried:?}");
    assert!(matches!(journal.commit(&asked(0, 10)), Err(CommitError::Conflict { .. })));
    assert_eq!(picture(&journal, &[]), full);
    let reader = journal.reader().unwrap();
    assert_eq!(picture(reader.as_ref(), &[]), full);
    drop(reader);
    fs::remove_file(&hog).unwrap();
    journal.try_writing().unwrap();
    let more_again = fill(&mut journal, 1 + more, 50_000);
    assert!(more_again > 10, "{more_again}");
    let full = picture(&journal, &[]);
    // A crash now: the file and the log as they are on the full disk.
    let saved = Place::new();
    drop(saved.open());
    for file in files(&disk.dir.path().join("askd")) {
        let copied = std::process::Command::new("cp").arg(&file).arg(saved.dir()).status();
        assert!(copied.unwrap().success());
    }
    drop(journal);
    assert_eq!(picture(&saved.open(), &[]), full);
    assert_eq!(picture(&open(&disk.path()).unwrap(), &[]), full);
}

#[test]
fn opening_on_a_full_disk_is_told_and_works_later() {
    let Some(disk) = SmallDisk::mount(2 << 20) else { return };
    fs::create_dir(disk.dir.path().join("askd")).unwrap();
    crate::place::mode(&disk.dir.path().join("askd"), 0o700);
    let hog = disk.hog();
    for _ in 0..2 {
        let opened = open(&disk.path());
        assert!(matches!(opened, Err(JournalError::Full { .. })), "{opened:?}");
        assert!(!disk.path().exists());
    }
    fs::remove_file(&hog).unwrap();
    let mut journal = open(&disk.path()).unwrap();
    journal.commit(&asked(0, 10)).unwrap();
    let before: Picture = picture(&journal, &[]);
    drop(journal);
    // The same with a journal that is there already.
    let hog = disk.hog();
    match open(&disk.path()) {
        // The log's index found room in what the disk keeps aside.
        Ok(mut journal) => assert!(fill(&mut journal, 1, 100_000) < 20),
        Err(e) => assert!(matches!(e, JournalError::Full { .. }), "{e:?}"),
    }
    fs::remove_file(&hog).unwrap();
    let journal = open(&disk.path()).unwrap();
    assert!(journal.last().unwrap() >= before.last);
    assert_eq!(journal.feed(0, 1).unwrap(), before.entries);
}

#[test]
fn s7_the_size_limit_refuses_clearly_and_pruning_makes_room() {
    let place = Place::new();
    let limited = || SqliteJournal::open(place.path(), OpenOptions::default().max_bytes(1 << 20));
    let mut journal = limited().unwrap();
    let fitted = fill(&mut journal, 0, 20_000);
    assert!((20..60).contains(&fitted), "{fitted}");
    // A batch that does not fit as a whole leaves nothing of itself.
    let mut large = batch((1_000..1_050).map(|n| one(&ask(n), 0, OPEN)));
    large.appends.extend((0..20).flat_map(|n| asked(2_000 + n, 100_000).appends));
    let before = picture(&journal, &[]);
    match journal.commit(&large) {
        Err(CommitError::Failed(e @ JournalError::Full { .. })) => {
            assert!(e.to_string().contains("journal.db"), "{e}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(picture(&journal, &[]), before);
    drop(journal);
    assert!(fs::metadata(place.path()).unwrap().len() <= 1 << 20);
    // Full as it is, it opens, is read, and is pruned; then it goes on.
    let mut journal = limited().unwrap();
    assert_eq!(picture(&journal, &[]), before);
    assert_eq!(fill(&mut journal, fitted, 20_000), 0);
    assert_eq!(journal.prune(10, 100).unwrap(), 10);
    assert!((5..15).contains(&fill(&mut journal, 3_000, 20_000)));
}

#[test]
fn pruning_gives_room_back_to_the_disk() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..100 {
        journal.commit(&asked(n, 200_000)).unwrap();
    }
    journal.commit(&batch([one(&ask(1_000), 0, OPEN)])).unwrap();
    drop(journal);
    let before = fs::metadata(place.path()).unwrap().len();
    assert!(before > 20_000_000);
    let mut journal = place.open();
    while journal.prune(1_000, 10).unwrap() > 0 {}
    drop(journal);
    let after = fs::metadata(place.path()).unwrap().len();
    assert!(after < before / 2, "{before} bytes became {after}");
    assert_eq!(place.open().last().unwrap(), 101);
}
