//! The requester's side of a forwarding directory, against somebody who answers as rudely as the file system allows.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use askd_client::spool::SpoolAsker;
use askd_client::{Unavailable, Wake, Watch};
use askd_wire::{SpoolOutcome, SpoolResponse};

/// Longer than any machine stalls.
const PATIENCE: Duration = Duration::from_secs(60);

fn response(id: &str) -> SpoolResponse {
    SpoolResponse {
        askd: 1,
        id: id.to_owned(),
        outcome: SpoolOutcome::Denied,
        cause: "person".to_owned(),
        message: Some(format!("to {id}")),
        option: None,
        by: None,
        surface: None,
        text: "denied".to_owned(),
        settled_at: None,
        request: None,
    }
}

fn write(session: &Path, id: &str, bytes: &[u8]) -> std::io::Result<()> {
    let dir = session.join("responses");
    fs::create_dir_all(&dir)?;
    let tmp = dir.join(format!("{id}.tmp"));
    fs::write(&tmp, bytes)?;
    fs::rename(tmp, dir.join(format!("{id}.json")))
}

fn requests(session: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(session.join("requests")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

/// Until the request is there, or the patience is over.
fn wait_for_request(session: &Path) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(id) = requests(session).pop() {
            return id;
        }
        assert!(Instant::now() < end, "no request in {}", session.display());
        thread::sleep(Duration::from_millis(2));
    }
}

/// No request and no response is left anywhere.
fn left(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.path().is_dir() { dirs.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("spool")
    }

    fn session(&self) -> PathBuf {
        self.path().join("sessions/a%2Fb")
    }

    fn asker(&self) -> SpoolAsker {
        SpoolAsker::new(self.path(), "a/b").unwrap().unserved_after(PATIENCE)
    }
}

/// Every request is answered, at some moment after it was seen, until it is gone.
fn answer_all(session: &Path, stop: &AtomicBool, seen: &Mutex<BTreeMap<String, u32>>) {
    let mut turn = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        for id in requests(session) {
            let count = {
                let mut seen = seen.lock().unwrap();
                let count = seen.entry(id.clone()).or_default();
                *count += 1;
                *count
            };
            if u64::from(count) > (turn + id.len() as u64) % 7 {
                // The directory may be taken away in the middle: then it is written the next time.
                let _ = write(session, &id, &serde_json::to_vec(&response(&id)).unwrap());
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn survives_removals(hints: bool) {
    let root = Root::new();
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        scope.spawn(|| answer_all(&root.session(), &stop, &seen));
        scope.spawn(|| {
            let victims = [
                root.session().join("responses"),
                root.session().join("requests"),
                root.session(),
                root.path().join("sessions"),
                root.path(),
            ];
            for turn in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let _ = fs::remove_dir_all(&victims[turn % victims.len()]);
                thread::sleep(Duration::from_millis(if hints { 3 } else { 20 }));
            }
        });
        let askers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let asker = if hints { root.asker() } else { root.asker().without_hints() };
                    for _ in 0..25 {
                        let request = asker.request("Bash").unwrap();
                        let answer = asker.ask(&request).unwrap();
                        assert_eq!(answer.message, Some(format!("to {}", request.id)), "its own answer");
                    }
                })
            })
            .collect();
        let all: Vec<_> = askers.into_iter().map(|asker| asker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(all.into_iter().all(|asked| asked.is_ok()));
    });
    assert_eq!(seen.lock().unwrap().len(), 100, "each ask was one request");
}

#[test]
fn f15_a_requester_survives_every_removal_and_gets_its_own_answer() {
    survives_removals(true);
}

#[test]
fn f15_a_requester_that_is_told_nothing_by_the_kernel_looks_by_itself() {
    survives_removals(false);
}

#[test]
fn f15_f9_one_ask_leaves_nothing_behind() {
    let root = Root::new();
    let answering = {
        let session = root.session();
        thread::spawn(move || {
            let id = wait_for_request(&session);
            write(&session, &id, &serde_json::to_vec(&response(&id)).unwrap()).unwrap();
        })
    };
    let asker = root.asker();
    let mut request = asker.request("Bash").unwrap();
    request.input = Some(serde_json::value::RawValue::from_string("{\"n\": 1.0e2}".to_owned()).unwrap());
    assert_eq!(asker.ask(&request).unwrap().outcome, SpoolOutcome::Denied);
    answering.join().unwrap();
    assert_eq!(left(&root.path()), Vec::<PathBuf>::new());
    assert!(!root.session().exists());
}

#[test]
fn f15_giving_up_is_told_with_its_true_cause_and_takes_the_request_back() {
    let root = Root::new();
    let asker = root.asker().unserved_after(Duration::from_millis(50));
    let request = asker.request("Bash").unwrap();
    let error = asker.ask(&request).unwrap_err();
    assert!(matches!(&error, Unavailable::Unserved(dir) if *dir == root.path()), "{error}");
    assert!(error.to_string().contains("nobody serves"));

    // What nobody writes any more is nobody's, however fresh it looks here.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    fs::create_dir_all(root.path().join("serving")).unwrap();
    let record = format!(r#"{{"sessionId":"a/b","pid":1,"updatedAt":{now}}}"#);
    fs::write(root.path().join("serving/a%2Fb.json"), record).unwrap();
    let error = asker.ask(&asker.request("Bash").unwrap()).unwrap_err();
    assert!(matches!(error, Unavailable::Unserved(_)), "{error}");

    let mut request = asker.request("Bash").unwrap();
    request.gives_up_secs = Some(1);
    let error = root.asker().ask(&request).unwrap_err();
    assert!(matches!(error, Unavailable::GaveUp(None)), "{error}");

    struct Leaves;
    impl Watch for Leaves {
        fn wait(&mut self, _: Option<BorrowedFd<'_>>, _: Instant) -> std::io::Result<Wake> {
            Ok(Wake::Stop)
        }
    }
    let request = asker.request("Bash").unwrap();
    assert!(matches!(root.asker().ask_watched(&request, &mut Leaves), Err(Unavailable::Abandoned)));
    assert_eq!(left(&root.path().join("sessions")), Vec::<PathBuf>::new());
}

#[test]
fn f15_whoever_serves_by_a_clock_that_is_hours_off_serves() {
    let root = Root::new();
    fs::create_dir_all(root.path().join("serving")).unwrap();
    let (place, over) = (root.path().join("serving"), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 0;
            while !over.load(Ordering::Relaxed) {
                at += 1;
                let record = format!(r#"{{"sessionId":"a/b","pid":1,"updatedAt":{at}}}"#);
                fs::write(place.join("new"), record).unwrap();
                fs::rename(place.join("new"), place.join("a%2Fb.json")).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        let asker = root.asker().unserved_after(Duration::from_secs(5));
        let mut request = asker.request("Bash").unwrap();
        request.gives_up_secs = Some(7);
        let error = asker.ask(&request).unwrap_err();
        over.store(true, Ordering::Relaxed);
        assert!(matches!(error, Unavailable::GaveUp(None)), "{error}");
    });
}

#[test]
fn f12_what_is_no_response_is_no_decision() {
    let root = Root::new();
    for bytes in [
        &b"{\"askd\":1,\"outcome\":\"allowed\""[..],
        b"true",
        b"{\"askd\":1,\"id\":\"another\",\"outcome\":\"allowed\",\"cause\":\"person\",\"text\":\"\"}",
        b"{\"approved\":true,\"state\":\"approved\",\"responderSessionId\":\"s\"}",
    ] {
        let session = root.session();
        let answering = thread::spawn(move || {
            let id = wait_for_request(&session);
            write(&session, &id, bytes).unwrap();
        });
        let asker = root.asker();
        let error = asker.ask(&asker.request("Bash").unwrap()).unwrap_err();
        assert!(matches!(&error, Unavailable::Fault(why) if why.contains("response")), "{error}");
        answering.join().unwrap();
    }
    assert_eq!(left(&root.path()), Vec::<PathBuf>::new());
}

#[test]
fn f13_names_that_lead_elsewhere_are_refused_before_anything_is_written() {
    let root = Root::new();
    for session in ["", "..", ".hidden", "unknown"] {
        assert!(SpoolAsker::new(root.path(), session).is_err(), "{session:?}");
    }
    let asker = root.asker();
    for id in ["../../x", "", ".x", "a/b"] {
        let mut request = asker.request("Bash").unwrap();
        request.id = id.to_owned();
        assert!(matches!(asker.ask(&request), Err(Unavailable::Fault(_))), "{id:?}");
    }
    // A link in the way is not followed.
    let outside = root.0.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(root.path()).unwrap();
    std::os::unix::fs::symlink(&outside, root.path().join("sessions")).unwrap();
    assert!(matches!(asker.ask(&asker.request("Bash").unwrap()), Err(Unavailable::Unsafe(_))));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
