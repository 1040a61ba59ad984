//! Private, ours, not through a link, and used by one daemon.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use askd_journal::conformance::hand::{OPEN, ask, batch, one};
use askd_journal::{Journal as _, JournalError, Reader as _};
use rustix::fs::Mode;

use crate::child::{as_child, child};
use crate::place::{Place, beside, files, mode, open};

fn refused(path: &Path) -> String {
    match open(path) {
        Err(JournalError::Unsafe { path: _, detail }) => detail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_are_private_from_the_first_moment_whatever_the_umask() {
    let place = Place::new();
    let done = child("files::open_with_no_umask", &place.path()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("looked at 4 files"), "{done:?}");
}

/// The umask is of the whole process, so this runs alone in one.
#[test]
fn open_with_no_umask() {
    let Some(path) = as_child() else { return };
    rustix::process::umask(Mode::empty());
    let mut journal = open(&path).unwrap();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let dir = path.parent().unwrap();
    assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
    let found = files(dir);
    for file in &found {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    println!("looked at {} files", found.len());
}

#[test]
fn links_are_refused() {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let place = Place::new();
        drop(place.open());
        let elsewhere = place.dir().join("elsewhere");
        File::create(&elsewhere).unwrap();
        mode(&elsewhere, 0o600);
        let path = beside(&place.path(), suffix);
        let _ = fs::remove_file(&path);
        symlink(&elsewhere, &path).unwrap();
        assert!(refused(&place.path()).contains("symbolic link"), "{suffix}");
        // A link to nowhere is a link.
        fs::remove_file(&elsewhere).unwrap();
        assert!(refused(&place.path()).contains("symbolic link"), "{suffix}");
        assert!(!elsewhere.exists());
    }
    let place = Place::new();
    drop(place.open());
    let link = place.dir().parent().unwrap().join("link");
    symlink(place.dir(), &link).unwrap();
    assert!(refused(&link.join("journal.db")).contains("symbolic link"));
}

#[test]
fn what_others_can_open_is_refused() {
    let place = Place::new();
    drop(place.open());
    for suffix in ["", ".lock"] {
        let path = beside(&place.path(), suffix);
        for bad in [0o640, 0o604, 0o660, 0o777] {
            mode(&path, bad);
            let said = refused(&place.path());
            assert!(said.contains("chmod 600") && said.contains(&format!("{bad:o}")), "{said}");
        }
        mode(&path, 0o600);
    }
    for bad in [0o750, 0o755, 0o1777] {
        mode(&place.dir(), bad);
        assert!(refused(&place.path()).contains("chmod 700"));
    }
    mode(&place.dir(), 0o700);
    place.open();
}

#[test]
fn foreign_owners_are_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can give files away; root's own directory is foreign to everybody else.
        assert!(refused(Path::new("/journal.db")).contains("belongs to user 0"));
        return;
    }
    let place = Place::new();
    drop(place.open());
    for path in [place.path(), beside(&place.path(), ".lock"), place.dir()] {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let said = refused(&place.path());
        assert!(said.contains("belongs to user 65534"), "{said}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    place.open();
}

#[test]
fn only_plain_files_are_opened() {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let place = Place::new();
        drop(place.open());
        let path = beside(&place.path(), suffix);
        let _ = fs::remove_file(&path);
        // A pipe without a writer would block whoever opens it.
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        assert!(refused(&place.path()).contains("not a plain file"), "{suffix}");
    }
}

#[test]
fn a_second_daemon_is_refused_at_once() {
    let place = Place::new();
    let mut journal = place.open();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let started = Instant::now();
    let second = open(&place.path());
    assert!(
        matches!(&second, Err(JournalError::InUse { path }) if Path::new(path).ends_with("askd/journal.db"))
    );
    // From another process too, and by another way to the same directory.
    let by_dots = place.dir().join("../askd/journal.db");
    let done = child("files::find_it_in_use", &by_dots).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("found it in use"), "{done:?}");
    // Nobody waited for the other one to end.
    assert!(started.elapsed() < Duration::from_secs(60));
    journal.commit(&batch([one(&ask(1), 1, OPEN)])).unwrap();
    let reader = journal.reader().unwrap();
    drop(journal);
    // A reader that is still about does not keep the next daemon out.
    let next = place.open();
    assert_eq!(next.last().unwrap(), 2);
    assert_eq!(reader.last().unwrap(), 2);
}

#[test]
fn s7_a_journal_of_two_names_is_refused_by_either() {
    let place = Place::new();
    let mut journal = place.open();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    let other = place.dir().join("other.db");
    fs::hard_link(place.path(), &other).unwrap();
    // A lock and a log are found by name: two daemons would write one file without knowing of each other.
    assert!(refused(&other).contains("another name"), "{}", refused(&other));
    drop(journal);
    assert!(refused(&place.path()).contains("another name"));
    fs::remove_file(&other).unwrap();
    assert_eq!(place.open().last().unwrap(), 1);
    // Nor is a log taken that another journal may have.
    for suffix in ["-wal", "-shm"] {
        let (here, there) = (beside(&place.path(), suffix), place.dir().join("elsewhere"));
        drop(fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&here).unwrap());
        fs::hard_link(&here, &there).unwrap();
        assert!(refused(&place.path()).contains("another name"), "{suffix}");
        fs::remove_file(&there).unwrap();
    }
}

#[test]
fn find_it_in_use() {
    let Some(path) = as_child() else { return };
    let second = open(&path);
    assert!(matches!(second, Err(JournalError::InUse { .. })), "{second:?}");
    println!("found it in use");
}

#[test]
fn a_directory_is_made_and_left_overs_go() {
    let place = Place::new();
    let path = place.dir().join("a/b/journal.db");
    drop(open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    // A crash while the journal was being made.
    for suffix in [".new", ".new-journal"] {
        fs::write(beside(&path, suffix), "half a journal").unwrap();
    }
    let mut journal = open(&path).unwrap();
    journal.commit(&batch([one(&ask(1), 0, OPEN)])).unwrap();
    drop(journal);
    let names: Vec<_> =
        files(path.parent().unwrap()).into_iter().map(|f| f.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["journal.db", "journal.db.lock"]);
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
}

#[test]
fn a_path_without_a_name_is_refused() {
    for path in ["/", "..", ""] {
        assert!(matches!(open(Path::new(path)), Err(JournalError::Other(_))), "{path}");
    }
    let place = Place::new();
    drop(place.open());
    assert!(open(&place.path().join("journal.db")).is_err());
}
