//! What can be seen of a forwarding directory from outside: whether it can be served, by whom its sessions are, and what
//! waits there. For people who look for a fault; it changes nothing.

use std::path::Path;

use askd_client::check_directory;
use askd_client::spool::{PlaceError, REQUESTS, RESPONSES, SESSIONS, decode_session, stem_of};

use super::lock;
use super::root::Way;
use super::tree::Tree;

/// Names that are read of one directory.
const MOST: usize = 4096;

/// One session that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    pub id: String,
    /// Requests without a response.
    pub waiting: usize,
    /// Who serves it; `Some(None)`: a process whose number is not known.
    pub server: Option<Option<u32>>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// The root is there.
    pub is_there: bool,
    /// Why the directory cannot be served: what is wrong with it.
    pub directory: Option<String>,
    /// Why nothing at all can be served: what is wrong with the place for locks.
    pub locks: Option<String>,
    pub sessions: Vec<FoundSession>,
}

/// Looks at one forwarding directory, and at the place for locks of this user.
pub fn look(dir: &Path) -> Findings {
    look_with(dir, &lock::default_dir())
}

fn look_with(dir: &Path, locks: &Path) -> Findings {
    let mut found = Findings {
        locks: check_directory(locks).err().map(|error| error.to_string()),
        ..Findings::default()
    };
    if let Err(error) = sessions(dir, locks, &mut found) {
        found.directory = Some(error.to_string());
    }
    found
}

fn sessions(dir: &Path, locks: &Path, found: &mut Findings) -> Result<(), PlaceError> {
    let mut tree = Tree::new(dir);
    let Way::There(identity) = tree.root.resolve()? else { return Ok(()) };
    let Some(root) = tree.root.open()? else { return Ok(()) };
    found.is_there = true;
    let Some(sessions) = root.open(SESSIONS)? else { return Ok(()) };
    for name in sessions.list(MOST)?.names {
        let (Some(id), Some(session)) = (decode_session(&name), sessions.open(&name)?) else { continue };
        let responses = session.open(RESPONSES)?;
        let requests = session.open(REQUESTS)?.map_or(Ok(Vec::new()), |requests| {
            requests.list_of(MOST, |name| stem_of(name).is_some()).map(|listing| listing.names)
        })?;
        let is_answered = |name: &str| {
            responses.as_ref().is_some_and(|responses| responses.has(name).is_ok_and(|answered| answered))
        };
        let waiting = requests.iter().filter(|name| !is_answered(name)).count();
        found.sessions.push(FoundSession { id, waiting, server: lock::server_of(locks, identity, &name) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::lock::{Locks, Taken};
    use super::*;

    #[test]
    fn what_keeps_a_directory_from_being_served_and_who_serves_it_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, locks) = (temp.path().join("tree"), temp.path().join("locks"));
        let found = look_with(&dir, &locks);
        assert!(!found.is_there && found.directory.is_none() && found.locks.is_none());
        for session in ["a", "b"] {
            fs::create_dir_all(dir.join("sessions").join(session).join("requests")).unwrap();
        }
        for name in ["x.json", "y.json", ".askd-keep", "z.json.tmp"] {
            fs::write(dir.join("sessions/a/requests").join(name), "{}").unwrap();
        }
        fs::create_dir(dir.join("sessions/a/responses")).unwrap();
        fs::write(dir.join("sessions/a/responses/y.json"), "{}").unwrap();
        let mut ours = Locks::open(&locks).unwrap();
        let Way::There(identity) = Tree::new(&dir).root.resolve().unwrap() else { panic!("it is there") };
        ours.of(identity);
        assert_eq!(ours.take("b").unwrap(), Taken::Now);
        let found = look_with(&dir, &locks);
        let session = |id: &str, waiting, server| FoundSession { id: id.to_owned(), waiting, server };
        let expected = [session("a", 1, None), session("b", 0, Some(Some(std::process::id())))];
        assert_eq!(found.sessions, expected);
        assert!(found.is_there && found.directory.is_none() && found.locks.is_none());

        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&locks, fs::Permissions::from_mode(0o755)).unwrap();
        let found = look_with(&dir, &locks);
        assert!(found.directory.unwrap().contains("can be changed by other users"));
        assert!(found.locks.unwrap().contains("locks"));
    }
}
