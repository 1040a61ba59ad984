//! The serving record: what tells a child of a newer pi that somebody answers its session's requests.

use std::time::Duration;

use askd_client::spool::{Dir, PlaceError, SERVING};
use serde::{Deserialize, Serialize};

use super::process;

/// An older record means that nobody serves.
const STALE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    session_id: String,
    pid: u32,
    /// Milliseconds since 1970.
    updated_at: i64,
}

/// Says that this process serves the session, now.
pub(super) fn beat(root: &Dir, session: &str, id: &str, now_ms: i64) -> Result<(), PlaceError> {
    let record = Record { session_id: id.to_owned(), pid: std::process::id(), updated_at: now_ms };
    root.make(SERVING)?.replace(&file(session), &serde_json::to_vec(&record).unwrap_or_default())
}

/// Takes this process's record away; another one's stays.
pub(super) fn withdraw(root: &Dir, session: &str) -> Result<(), PlaceError> {
    let Some(dir) = root.open(SERVING)? else { return Ok(()) };
    if read(&dir, session).is_some_and(|record| record.pid == std::process::id()) {
        dir.remove_file(&file(session))?;
    }
    Ok(())
}

/// The serving directory goes with its last record.
pub(super) fn remove_if_empty(root: &Dir) {
    askd_client::spool::clean::remove_if_empty(root, SERVING, &mut |_| {});
}

/// Another live process says that it serves the session.
pub(super) fn other_serves(root: &Dir, session: &str, now_ms: i64) -> bool {
    let Ok(Some(dir)) = root.open(SERVING) else { return false };
    read(&dir, session).is_some_and(|record| {
        let age = now_ms.saturating_sub(record.updated_at);
        let fresh = i64::try_from(STALE.as_millis()).is_ok_and(|stale| age.abs() < stale);
        record.pid != std::process::id() && fresh && process::start_of(record.pid).is_some()
    })
}

fn read(dir: &Dir, session: &str) -> Option<Record> {
    let (_, bytes) = dir.read(&file(session), 4096).ok()??;
    serde_json::from_slice(&bytes).ok()
}

fn file(session: &str) -> String {
    format!("{session}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f11_a_record_is_ours_or_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::root(temp.path()).unwrap().unwrap();
        beat(&root, "a%2Fb", "a/b", 1000).unwrap();
        let path = temp.path().join("serving/a%2Fb.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = format!(r#"{{"sessionId":"a/b","pid":{},"updatedAt":1000}}"#, std::process::id());
        assert_eq!(text, expected);
        assert!(!other_serves(&root, "a%2Fb", 1000));
        withdraw(&root, "a%2Fb").unwrap();
        assert!(!path.exists());

        let other = |pid: u32, at: i64| {
            std::fs::write(&path, format!(r#"{{"sessionId":"a/b","pid":{pid},"updatedAt":{at}}}"#)).unwrap();
            other_serves(&root, "a%2Fb", 10_000)
        };
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(other(child.id(), 9_000));
        assert!(!other(child.id(), 5_000), "stale");
        assert!(other(child.id(), 9_000));
        withdraw(&root, "a%2Fb").unwrap();
        assert!(path.exists(), "another's record stays");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!other(child.id(), 9_000), "dead");
        std::fs::write(&path, "torn{").unwrap();
        assert!(!other_serves(&root, "a%2Fb", 10_000));
        std::fs::remove_file(&path).unwrap();
        remove_if_empty(&root);
        assert!(!temp.path().join("serving").exists());
    }
}
