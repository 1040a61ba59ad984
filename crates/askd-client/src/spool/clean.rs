//! Removal of empty directories in a forwarding tree that others use at the same time.
//!
//! | seen by [`remove_if_empty`] | absent? | told |
//! |---|---|---|
//! | absent on entry | true | |
//! | unreadable | false | yes |
//! | not found while reading | true | |
//! | not empty (a sentinel counts) | false | |
//! | removed | true | |
//! | vanished meanwhile | true | |
//! | refilled meanwhile | false | |
//! | any other error | false | yes |
//!
//! `responses/` goes only when `requests/` is absent after the attempt to remove it, a session only when both are: an
//! answer can be put in place as long as anybody's request is there.

use rustix::io::Errno;

use super::place::{Dir, PlaceError};
use super::{REQUESTS, RESPONSES, SENTINEL};

/// Is told of what went wrong.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

/// Removes the directory if it is empty. True: it is absent now.
pub fn remove_if_empty(above: &Dir, name: &str, tell: Tell<'_>) -> bool {
    attempt(&mut Real { above, name }, name, tell)
}

/// Removes what is empty of one session by the rule above. True: the whole session is absent now.
pub fn remove_session_if_empty(sessions: &Dir, session: &str, tell: Tell<'_>) -> bool {
    match sessions.open(session) {
        Ok(None) => true,
        Ok(Some(dir)) => {
            remove_if_empty(&dir, REQUESTS, tell)
                && remove_if_empty(&dir, RESPONSES, tell)
                && remove_if_empty(sessions, session, tell)
        }
        Err(error) => {
            tell(&format!("cleaning up: {error}"));
            false
        }
    }
}

/// Gives a session up: takes the sentinels away, that of `responses/` only when `requests/` is absent, and what is
/// empty then. True: the whole session is absent now.
pub fn leave_session(sessions: &Dir, session: &str, tell: Tell<'_>) -> bool {
    let dir = match sessions.open(session) {
        Ok(None) => return true,
        Ok(Some(dir)) => dir,
        Err(error) => {
            tell(&format!("cleaning up: {error}"));
            return false;
        }
    };
    leave(&dir, REQUESTS, tell) && leave(&dir, RESPONSES, tell) && remove_if_empty(sessions, session, tell)
}

fn leave(session: &Dir, name: &str, tell: Tell<'_>) -> bool {
    let removed = match session.open(name) {
        Ok(None) => return true,
        Ok(Some(dir)) => dir.remove_file(SENTINEL),
        Err(error) => Err(error),
    };
    if let Err(error) = removed
        && !error.is_gone()
    {
        tell(&format!("cleaning up: {error}"));
        return false;
    }
    remove_if_empty(session, name, tell)
}

/// The steps of one removal, each of which others may come in between.
trait Steps {
    fn is_there(&mut self) -> Result<bool, PlaceError>;
    fn is_empty(&mut self) -> Result<bool, PlaceError>;
    fn remove(&mut self) -> Result<(), Errno>;
}

struct Real<'a> {
    above: &'a Dir,
    name: &'a str,
}

impl Steps for Real<'_> {
    fn is_there(&mut self) -> Result<bool, PlaceError> {
        self.above.has(self.name)
    }

    fn is_empty(&mut self) -> Result<bool, PlaceError> {
        match self.above.open(self.name)? {
            Some(dir) => dir.is_empty(),
            None => {
                Err(PlaceError::Io { name: self.name.to_owned(), error: std::io::Error::from(Errno::NOENT) })
            }
        }
    }

    fn remove(&mut self) -> Result<(), Errno> {
        self.above.remove_dir(self.name)
    }
}

fn attempt(steps: &mut impl Steps, name: &str, tell: Tell<'_>) -> bool {
    match steps.is_there() {
        Ok(true) => {}
        Ok(false) => return true,
        Err(error) => {
            tell(&format!("cleaning up: {error}"));
            return error.is_gone();
        }
    }
    match steps.is_empty() {
        Ok(true) => {}
        Ok(false) => return false,
        Err(error) if error.is_gone() => return true,
        Err(error) => {
            tell(&format!("cleaning up: {error}"));
            return false;
        }
    }
    match steps.remove() {
        Ok(()) | Err(Errno::NOENT) => true,
        Err(Errno::NOTEMPTY | Errno::EXIST) => false,
        Err(error) => {
            tell(&format!("cleaning up: {name} cannot be removed: {}", std::io::Error::from(error)));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// One outcome for each step.
    struct Script(Result<bool, Errno>, Result<bool, Errno>, Result<(), Errno>);

    fn failed<T>(result: Result<T, Errno>) -> Result<T, PlaceError> {
        result.map_err(|error| PlaceError::Io { name: "x".to_owned(), error: error.into() })
    }

    impl Steps for Script {
        fn is_there(&mut self) -> Result<bool, PlaceError> {
            failed(self.0)
        }
        fn is_empty(&mut self) -> Result<bool, PlaceError> {
            failed(self.1)
        }
        fn remove(&mut self) -> Result<(), Errno> {
            self.2
        }
    }

    const ERRORS: [Errno; 9] = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::BUSY,
        Errno::IO,
        Errno::MFILE,
        Errno::ROFS,
        Errno::NOTDIR,
        Errno::STALE,
        Errno::LOOP,
    ];

    #[test]
    fn f4_every_way_a_removal_can_go_says_truly_whether_the_directory_is_absent() {
        let run = |script: Script| {
            let mut told = 0;
            let absent = attempt(&mut { script }, "x", &mut |_| told += 1);
            (absent, told > 0)
        };
        let (there, empty) = (Ok(true), Ok(true));
        // Absent on entry: nothing else is tried.
        assert_eq!(run(Script(Ok(false), Err(Errno::IO), Err(Errno::IO))), (true, false));
        for error in ERRORS {
            assert_eq!(run(Script(Err(error), empty, Ok(()))), (false, true), "{error:?} on entry");
            assert_eq!(run(Script(there, Err(error), Ok(()))), (false, true), "{error:?} while reading");
            assert_eq!(run(Script(there, empty, Err(error))), (false, true), "{error:?} while removing");
        }
        assert_eq!(run(Script(there, Err(Errno::NOENT), Ok(()))), (true, false), "vanished while reading");
        assert_eq!(run(Script(there, Ok(false), Ok(()))), (false, false), "not empty");
        assert_eq!(run(Script(there, empty, Ok(()))), (true, false), "removed");
        assert_eq!(run(Script(there, empty, Err(Errno::NOENT))), (true, false), "vanished meanwhile");
        for refilled in [Errno::NOTEMPTY, Errno::EXIST] {
            assert_eq!(run(Script(there, empty, Err(refilled))), (false, false), "refilled meanwhile");
        }
    }

    fn tree() -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("t/s/requests")).unwrap();
        fs::create_dir_all(temp.path().join("t/s/responses")).unwrap();
        let sessions = Dir::root(&temp.path().join("t")).unwrap().unwrap();
        (temp, sessions)
    }

    fn quiet(text: &str) {
        panic!("nothing is to be told: {text}");
    }

    #[test]
    fn f3_responses_stay_as_long_as_requests_are_there_and_the_root_as_long_as_either_is() {
        let (temp, sessions) = tree();
        let at = |name: &str| temp.path().join("t/s").join(name);
        fs::write(at("requests/a.json"), "{}").unwrap();
        assert!(!remove_session_if_empty(&sessions, "s", &mut quiet));
        assert!(at("responses").is_dir() && at("requests/a.json").exists());
        fs::remove_file(at("requests/a.json")).unwrap();
        fs::write(at("responses/a.json"), "{}").unwrap();
        assert!(!remove_session_if_empty(&sessions, "s", &mut quiet));
        assert!(!at("requests").exists() && at("responses/a.json").exists());
        fs::remove_file(at("responses/a.json")).unwrap();
        assert!(remove_session_if_empty(&sessions, "s", &mut quiet));
        assert!(!temp.path().join("t/s").exists());
        assert!(remove_session_if_empty(&sessions, "s", &mut quiet), "absent already");
    }

    #[test]
    fn f9_sentinels_go_from_requests_first_and_from_responses_only_when_requests_are_gone() {
        let (temp, sessions) = tree();
        let at = |name: &str| temp.path().join("t/s").join(name);
        for dir in ["requests", "responses"] {
            fs::write(at(dir).join(SENTINEL), "").unwrap();
        }
        assert!(!remove_session_if_empty(&sessions, "s", &mut quiet), "a sentinel counts");
        assert!(at("requests").is_dir());
        fs::write(at("requests/a.json"), "{}").unwrap();
        assert!(!leave_session(&sessions, "s", &mut quiet));
        assert!(!at("requests").join(SENTINEL).exists() && at("responses").join(SENTINEL).exists());
        fs::remove_file(at("requests/a.json")).unwrap();
        assert!(leave_session(&sessions, "s", &mut quiet));
        assert!(!temp.path().join("t/s").exists());
    }

    /// The old rule of some requesters: each directory by itself.
    fn rude_clean_up(session: &std::path::Path) {
        for dir in ["requests", "responses"] {
            let _ = fs::remove_dir(session.join(dir));
        }
        let _ = fs::remove_dir(session);
    }

    #[test]
    fn f4_with_others_interfering_what_is_said_to_be_absent_was_and_nothing_that_is_full_goes() {
        let (temp, sessions) = tree();
        let session = temp.path().join("t/s");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut written = 0_u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::create_dir_all(session.join("requests"));
                    let file = session.join("requests/a.json");
                    if fs::write(&file, "{}").is_ok() {
                        written += 1;
                        assert!(file.exists(), "a directory that was not empty was removed");
                        let _ = fs::remove_file(&file);
                    }
                    rude_clean_up(&session);
                }
                written
            });
            let mut absent = 0;
            for _ in 0..20_000 {
                if remove_session_if_empty(&sessions, "s", &mut quiet) {
                    absent += 1;
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(other.join().unwrap() > 0 && absent > 0);
        });
        rude_clean_up(&session);
        assert!(remove_session_if_empty(&sessions, "s", &mut quiet));
    }
}
