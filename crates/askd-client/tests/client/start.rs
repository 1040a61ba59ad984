//! Starting a daemon: once, cleanly, and with the reason when it does not work.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use askd_client::daemon::{self, ALREADY_RUNNING_STATUS, Door};
use askd_client::{Places, Unavailable, bind_private_socket, make_private_directory};
use rustix::fs::{FlockOperation, flock};

use crate::support::PATIENCE;

/// A program that does as `askd daemon` does, for as long as a test needs it: this very test program, told by a variable.
/// `prelude` is run before.
fn program(dir: &Path, prelude: &str) -> PathBuf {
    let path = dir.join("askd");
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n{prelude}\n[ \"$*\" = daemon ] || exit 2\nASKD_TEST_DAEMON=1 exec '{}' --exact start::played_daemon --nocapture\n",
        own.display()
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path).unwrap();
    file.write_all(script.as_bytes()).unwrap();
    path
}

/// Not a test of its own: what [`program`] runs.
#[test]
fn played_daemon() {
    if std::env::var_os("ASKD_TEST_DAEMON").is_none() {
        return;
    }
    let places = Places::from_env().unwrap();
    let note = |text: &str| {
        let mut file =
            OpenOptions::new().append(true).create(true).open(places.state_dir().join("notes")).unwrap();
        file.write_all(format!("{text}\n").as_bytes()).unwrap();
    };
    rustix::process::setsid().unwrap();
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).open(places.daemon_lock()).unwrap();
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        note("second");
        std::process::exit(ALREADY_RUNNING_STATUS.into());
    }
    let mut names: Vec<_> =
        std::env::vars().map(|(name, _)| name).filter(|name| name != "ASKD_TEST_DAEMON").collect();
    names.sort();
    note(&format!("first {}", names.join(" ")));
    note(&format!("cwd {}", std::env::current_dir().unwrap().display()));
    make_private_directory(&places.run_dir()).unwrap();
    let listener = bind_private_socket(&places.ask_sock()).unwrap();
    let start = Instant::now();
    listener.set_nonblocking(true).unwrap();
    // It ends with its directory, so that no test leaves it behind.
    while places.daemon_lock().exists() && start.elapsed() < PATIENCE {
        match listener.accept() {
            Ok((stream, _)) => drop(stream),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
    std::process::exit(0);
}

fn notes(places: &Places) -> Vec<String> {
    let text = fs::read_to_string(places.state_dir().join("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn start(places: &Places, exe: &Path) -> Result<(), Unavailable> {
    daemon::connect_or_start(places, Door::Ask, Some(exe), Instant::now() + PATIENCE).map(drop)
}

#[test]
fn many_starters_make_one_daemon() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    let exe = program(temp.path(), "");
    let barrier = Arc::new(Barrier::new(24));
    let threads: Vec<_> = (0..24)
        .map(|_| {
            let (places, exe, barrier) = (places.clone(), exe.clone(), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                start(&places, &exe)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    let notes = notes(&places);
    assert_eq!(notes.iter().filter(|note| note.starts_with("first")).count(), 1, "{notes:?}");
    assert!(!notes.contains(&"second".to_owned()), "{notes:?}");
}

#[test]
fn s2_the_daemon_starts_with_a_cleaned_environment_in_the_root_directory() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    start(&places, &program(temp.path(), "")).unwrap();
    let notes = notes(&places);
    assert_eq!(notes[1], "cwd /");
    let names: Vec<_> = notes[0].split(' ').skip(1).collect();
    // `PWD` and its like come from the shell of the played program.
    let allowed = [
        "ASKD_AUTOSTARTED",
        "ASKD_DIR",
        "HOME",
        "PATH",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    for name in &names {
        assert!(allowed.contains(name) || name.starts_with("LC_") || name.starts_with("XDG_"), "{name}");
    }
    assert!(names.contains(&"ASKD_AUTOSTARTED") && names.contains(&"ASKD_DIR"));
    let mode = fs::metadata(places.daemon_log()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_that_runs_already_is_waited_for_and_none_is_started_beside_it() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    make_private_directory(places.state_dir()).unwrap();
    // A daemon that a person started holds its lock and does not listen yet.
    let lock = fs::File::create(places.daemon_lock()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let exe = program(temp.path(), "");
    let starter = std::thread::spawn({
        let places = places.clone();
        move || start(&places, &exe)
    });
    while !notes(&places).contains(&"second".to_owned()) {
        std::thread::yield_now();
    }
    make_private_directory(&places.run_dir()).unwrap();
    let _listener = bind_private_socket(&places.ask_sock()).unwrap();
    starter.join().unwrap().unwrap();
    assert_eq!(notes(&places), ["second"]);
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    for (prelude, why) in [
        (
            "echo first >&2; echo 'askd: permissions.queue_cap = -1: must be 0 or more' >&2; exit 1",
            "must be 0 or more",
        ),
        ("exit 3", "it ended with exit status: 3"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let places = Places::at(temp.path());
        let error = start(&places, &program(temp.path(), prelude)).unwrap_err();
        assert!(matches!(error, Unavailable::CannotStart(_)));
        assert!(error.to_string().contains(why), "{error}");
    }
    let temp = tempfile::tempdir().unwrap();
    let error = start(&Places::at(temp.path()), Path::new("/nowhere/askd")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/askd: No such file"), "{error}");
    // One that never answers is left at the deadline.
    let places = Places::at(temp.path());
    let exe = program(temp.path(), "exec sleep 1");
    let soon = Instant::now() + std::time::Duration::from_millis(100);
    let error = daemon::connect_or_start(&places, Door::Ask, Some(&exe), soon).unwrap_err();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
}

#[test]
fn after_a_stop_only_a_person_starts_it() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    make_private_directory(places.state_dir()).unwrap();
    fs::write(places.stopped_file(), "").unwrap();
    let exe = program(temp.path(), "");
    assert!(matches!(start(&places, &exe), Err(Unavailable::Stopped)));
    assert!(notes(&places).is_empty());
    daemon::forget_stop(&places).unwrap();
    daemon::forget_stop(&places).unwrap();
    start(&places, &exe).unwrap();
}

#[test]
fn s7_state_that_others_can_change_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    make_private_directory(places.state_dir()).unwrap();
    let exe = program(temp.path(), "");
    fs::set_permissions(places.state_dir(), PermissionsExt::from_mode(0o770)).unwrap();
    assert!(start(&places, &exe).unwrap_err().to_string().contains("0770"));
    fs::remove_dir(places.state_dir()).unwrap();
    let other = temp.path().join("other");
    make_private_directory(&other).unwrap();
    std::os::unix::fs::symlink(&other, places.state_dir()).unwrap();
    assert!(start(&places, &exe).unwrap_err().to_string().contains("symbolic link"));
    // A symlink in place of a file of ours is not followed.
    fs::remove_file(places.state_dir()).unwrap();
    make_private_directory(places.state_dir()).unwrap();
    std::os::unix::fs::symlink(temp.path().join("target"), places.start_lock()).unwrap();
    assert!(matches!(start(&places, &exe), Err(Unavailable::CannotStart(_))));
    assert!(!temp.path().join("target").exists());
}
