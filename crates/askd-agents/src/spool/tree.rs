//! The file system's side of one tree: looks, directories, answers. Each step starts from the root again, as everything
//! below it may be another one by then.

use std::cell::Cell;
use std::path::Path;

use askd_client::spool::{
    Dir, Listing, MOST_BYTES, PlaceError, Put, REQUESTS, RESPONSES, SENTINEL, SESSIONS, Stamp, clean,
    digest_of, is_safe_stem, stem_of,
};

use super::machine::{Beside, Id, Kept, Seen};
use super::root::Root;
use super::serving;

/// Names that are read of one directory.
const MOST_NAMES: usize = 4096;
/// How often what others remove is made again before one write counts as failed.
const TRIES: u32 = 100;

/// One tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Root,
}

/// What a look saw besides what counts.
#[derive(Debug, Default)]
pub(super) struct Odd {
    /// Files in `requests/` whose names are not safe.
    pub(super) names: Vec<String>,
    pub(super) left_out: bool,
}

impl Tree {
    pub(super) fn new(dir: &Path) -> Self {
        Self { root: Root::new(dir) }
    }

    /// The time in milliseconds since 1970 where files get their time by another machine's clock; `None`: they get it
    /// by ours.
    pub(super) fn time_ms(&self) -> Option<i64> {
        let root = self.root.open().ok()??;
        if !askd_client::spool::is_shared(&root) {
            return None;
        }
        i64::try_from(root.time().ok()? / 1_000_000).ok()
    }

    /// Names of all sessions that are there.
    pub(super) fn sessions(&self) -> Result<Listing, PlaceError> {
        let Some(root) = self.root.open()? else { return Ok(Listing::default()) };
        let Some(sessions) = root.open(SESSIONS)? else { return Ok(Listing::default()) };
        sessions.list(MOST_NAMES)
    }

    /// `None`: the session's directory is not there. `known`: the requests that are served already; each is looked for by
    /// its own name, as a listing that was cut says nothing of what it left out.
    pub(super) fn look(
        &self,
        session: &str,
        known: &[String],
        now_ms: i64,
    ) -> Result<(Option<Seen>, Odd), PlaceError> {
        let mut odd = Odd::default();
        let Some(root) = self.root.open()? else { return Ok((None, odd)) };
        let Some(sessions) = root.open(SESSIONS)? else { return Ok((None, odd)) };
        let Some(dir) = sessions.open(session)? else { return Ok((None, odd)) };
        let mut seen =
            Seen { other_serves: serving::other_serves(&root, session, now_ms), ..Seen::default() };
        let mut kept = 0;
        // Responses first: a requester that fetches takes its response away before its request.
        if let Some(responses) = dir.open(RESPONSES)? {
            kept += u32::from(responses.has(SENTINEL)?);
            let listing = responses.list_of(MOST_NAMES, is_json)?;
            seen.responses =
                listing.names.iter().filter_map(|name| stem_of(name).map(str::to_owned)).collect();
            if listing.left_out {
                for stem in known {
                    if responses.has(&format!("{stem}.json"))? {
                        seen.responses.insert(stem.clone());
                    }
                }
            }
        }
        if let Some(requests) = dir.open(REQUESTS)? {
            seen.requests_dir = Some(requests.identity()?);
            kept += u32::from(requests.has(SENTINEL)?);
            let listing = requests.list_of(MOST_NAMES, is_json)?;
            odd.left_out = listing.left_out;
            odd.names.extend(listing.no_text.into_iter().filter(|name| name.ends_with(".json")));
            for name in listing.names {
                let Some(stem) = stem_of(&name) else { continue };
                if !is_safe_stem(stem) {
                    odd.names.push(name);
                } else if let Some(stamp) = stamp_of(&requests, &name)? {
                    seen.requests.insert(stem.to_owned(), stamp);
                }
            }
            for stem in known.iter().filter(|_| odd.left_out) {
                if let Some(stamp) = stamp_of(&requests, &format!("{stem}.json"))? {
                    seen.requests.insert(stem.clone(), stamp);
                }
            }
        }
        seen.kept = kept == 2;
        Ok((Some(seen), odd))
    }

    /// The content of a request; `None`: it is gone by now.
    pub(super) fn read(&self, id: &Id) -> Result<Option<(Stamp, Vec<u8>)>, PlaceError> {
        self.in_session(id, REQUESTS)?.map_or(Ok(None), |dir| dir.read(&file(id), MOST_BYTES))
    }

    /// `None`: it is gone by now.
    pub(super) fn read_response(&self, id: &Id) -> Result<Option<(Stamp, Vec<u8>)>, PlaceError> {
        self.in_session(id, RESPONSES)?.map_or(Ok(None), |dir| dir.read(&file(id), MOST_BYTES))
    }

    /// Makes both directories and their sentinels, whoever takes them away meanwhile.
    pub(super) fn keep(&self, session: &str) -> Result<Kept, PlaceError> {
        // What one attempt made counts, also when it is taken away again before the next.
        let (made, requests_anew, anew) = (Cell::new(false), Cell::new(false), Cell::new(false));
        self.retried(|| {
            let dir = self.root.make()?.make(SESSIONS)?.make(session)?;
            let (requests, requests_made) = dir.make_or_open(REQUESTS)?;
            made.set(made.get() | requests_made);
            let (responses, responses_made) = dir.make_or_open(RESPONSES)?;
            anew.set(anew.get() | requests_made | responses_made);
            requests_anew.set(requests.touch(SENTINEL)? | requests_made | requests_anew.get());
            anew.set(responses.touch(SENTINEL)? | requests_anew.get() | anew.get());
            Ok(Kept {
                requests_dir: requests.identity()?,
                requests_made: made.get(),
                requests_anew: requests_anew.get(),
                anew: anew.get(),
            })
        })
    }

    /// Takes away what an askd that died left half-written.
    pub(super) fn tidy(&self, session: &str) {
        let dirs = || -> Result<(), PlaceError> {
            let Some(root) = self.root.open()? else { return Ok(()) };
            let Some(dir) = root.open(SESSIONS)?.map_or(Ok(None), |sessions| sessions.open(session))? else {
                return Ok(());
            };
            dir.open(RESPONSES)?.map_or(Ok(()), |dir| dir.remove_unfinished())
        };
        let _ = dirs();
    }

    /// Puts a response in place, whole and once; `None`: the request that it is for is not there.
    pub(super) fn answer(&self, id: &Id, bytes: &[u8], beside: &Beside) -> Result<Option<Put>, PlaceError> {
        if !self.is_beside(id, beside)?.unwrap_or(beside.or_none) {
            return Ok(None);
        }
        let put = self.retried(|| {
            let dir = self.root.make()?.make(SESSIONS)?.make(&id.session)?;
            dir.make(RESPONSES)?.put_new(&file(id), bytes)
        })?;
        // Another one that came in between must not have it.
        if put == Put::Placed && matches!(self.is_beside(id, beside), Ok(Some(false))) {
            self.remove_response(id, bytes)?;
            return Ok(None);
        }
        Ok(Some(put))
    }

    /// Whether the request that is there is this one; `None`: there is none.
    fn is_beside(&self, id: &Id, beside: &Beside) -> Result<Option<bool>, PlaceError> {
        let Some(digest) = &beside.digest else { return Ok(Some(true)) };
        match self.read(id) {
            Ok(found) => Ok(found.map(|(_, bytes)| digest_of(&bytes) == *digest)),
            Err(error) if error.is_gone() => Ok(None),
            // One that cannot be read is another one: this one could be.
            Err(PlaceError::NotOurs { .. }) => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// Removes a response that has these bytes; without any: whatever it has.
    pub(super) fn remove_response(&self, id: &Id, bytes: &[u8]) -> Result<(), PlaceError> {
        let Some(dir) = self.in_session(id, RESPONSES)? else { return Ok(()) };
        if !bytes.is_empty() && dir.read(&file(id), MOST_BYTES)?.is_none_or(|(_, there)| there != bytes) {
            return Ok(());
        }
        dir.remove_file(&file(id)).map(drop)
    }

    pub(super) fn remove(&self, id: &Id, of: &str) -> Result<(), PlaceError> {
        self.in_session(id, of)?.map_or(Ok(()), |dir| dir.remove_file(&file(id)).map(drop))
    }

    pub(super) fn beat(&self, session: &str, id: &str, now_ms: i64) -> Result<(), PlaceError> {
        // Of a tree that was taken away nothing but a record would be there again.
        self.root.open()?.map_or(Ok(()), |root| serving::beat(&root, session, id, now_ms))
    }

    pub(super) fn unbeat(&self, session: &str) -> Result<(), PlaceError> {
        self.root.open()?.map_or(Ok(()), |root| serving::withdraw(&root, session))
    }

    /// Takes the sentinels and what is empty away.
    pub(super) fn leave(&self, session: &str, tell: &mut dyn FnMut(&str)) {
        let Ok(Some(root)) = self.root.open() else { return };
        if let Ok(Some(sessions)) = root.open(SESSIONS) {
            clean::leave_session(&sessions, session, tell);
        }
        serving::remove_if_empty(&root);
    }

    fn in_session(&self, id: &Id, of: &str) -> Result<Option<Dir>, PlaceError> {
        let Some(root) = self.root.open()? else { return Ok(None) };
        let Some(sessions) = root.open(SESSIONS)? else { return Ok(None) };
        sessions.open(&id.session)?.map_or(Ok(None), |session| session.open(of))
    }

    fn retried<T>(&self, step: impl Fn() -> Result<T, PlaceError>) -> Result<T, PlaceError> {
        let mut left = TRIES;
        loop {
            match step() {
                Err(error) if error.is_gone() && left > 0 => left -= 1,
                done => return done,
            }
        }
    }
}

/// Another user's file, or no file at all, has a stamp too: it is read once, and that says what is wrong with it.
fn stamp_of(requests: &Dir, name: &str) -> Result<Option<Stamp>, PlaceError> {
    match requests.stamp(name)? {
        Some(stamp) => Ok(Some(stamp)),
        None if requests.has(name)? => Ok(Some(Stamp { inode: 0, size: 0, modified_ns: 0 })),
        None => Ok(None),
    }
}

/// What else lies there takes nobody's place.
fn is_json(name: &str) -> bool {
    stem_of(name).is_some()
}

fn file(id: &Id) -> String {
    format!("{}.json", id.stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_what_else_lies_in_a_directory_takes_no_request_away_and_a_known_one_is_always_seen() {
        let temp = tempfile::tempdir().unwrap();
        let tree = Tree::new(temp.path());
        tree.keep("s").unwrap();
        let at = |of: &str, name: String| temp.path().join("sessions/s").join(of).join(name);
        let write = |of: &str, name: String| std::fs::write(at(of, name), "{}").unwrap();
        for n in 0..2 * MOST_NAMES {
            write(REQUESTS, format!("{n}.tmp"));
        }
        let no_text = std::os::unix::ffi::OsStrExt::from_bytes(&b"\xff.json"[..]);
        std::fs::write(temp.path().join("sessions/s/requests").join::<&std::ffi::OsStr>(no_text), "")
            .unwrap();
        write(REQUESTS, "one.json".to_owned());
        let (seen, odd) = tree.look("s", &[], 0).unwrap();
        assert!(seen.unwrap().requests.contains_key("one") && !odd.left_out);
        assert_eq!(odd.names.len(), 1, "a name that is no text is told of as odd, and hides nothing");

        // More than are listed: whichever is left out, the known ones are there.
        for of in [REQUESTS, RESPONSES] {
            for n in 0..MOST_NAMES + 100 {
                write(of, format!("r{n}.json"));
            }
        }
        let known: Vec<String> = (0..MOST_NAMES + 100).map(|n| format!("r{n}")).collect();
        let (seen, odd) = tree.look("s", &known[..], 0).unwrap();
        let seen = seen.unwrap();
        assert!(odd.left_out);
        assert!(known.iter().all(|stem| seen.requests.contains_key(stem) && seen.responses.contains(stem)));
        std::fs::remove_file(at(REQUESTS, "r7.json".to_owned())).unwrap();
        let (seen, _) = tree.look("s", &known[..], 0).unwrap();
        assert!(!seen.unwrap().requests.contains_key("r7"));
    }
}
