//! One session's directories, as a file system has them: a directory goes only when it is empty, or with everything.

use std::collections::BTreeMap;

use askd_agents::spool::machine::{Kept, Seen};
use askd_client::spool::{Put, Stamp};

/// A directory and what is in it.
#[derive(Debug)]
pub(super) struct Dir {
    id: u64,
    sentinel: bool,
    /// Content by stem.
    pub(super) files: BTreeMap<String, (u64, String)>,
}

/// `None`: not there. Without its session neither directory can be.
#[derive(Debug, Default)]
pub(super) struct Disk {
    session: bool,
    requests: Option<Dir>,
    responses: Option<Dir>,
    pub(super) full: bool,
    /// A new directory has the number of an old one.
    reuses: bool,
    count: u64,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Requests,
    Responses,
}

impl Disk {
    pub(super) fn new(reuses: bool) -> Self {
        Self { reuses, ..Self::default() }
    }

    fn at(&mut self, which: Which) -> &mut Option<Dir> {
        match which {
            Which::Requests => &mut self.requests,
            Which::Responses => &mut self.responses,
        }
    }

    /// True: it was away.
    pub(super) fn make(&mut self, which: Which) -> bool {
        self.session = true;
        self.count += 1;
        // Some file systems give the number of what was removed to what is made next.
        let id = if self.reuses { 0 } else { self.count };
        let away = self.at(which).is_none();
        self.at(which).get_or_insert(Dir { id, sentinel: false, files: BTreeMap::new() });
        away
    }

    /// False: its directory is gone.
    pub(super) fn write(&mut self, which: Which, stem: &str, text: &str) -> bool {
        self.count += 1;
        let number = self.count;
        let Some(dir) = self.at(which) else { return false };
        dir.files.insert(stem.to_owned(), (number, text.to_owned()));
        true
    }

    pub(super) fn read(&mut self, which: Which, stem: &str) -> Option<(Stamp, String)> {
        let (number, text) = self.at(which).as_ref()?.files.get(stem)?.clone();
        Some((stamp(number), text))
    }

    pub(super) fn remove(&mut self, which: Which, stem: &str) {
        if let Some(dir) = self.at(which) {
            dir.files.remove(stem);
        }
    }

    /// As a response is put in place: whole, once, never over another.
    pub(super) fn put(&mut self, stem: &str, text: &str) -> Result<Put, String> {
        if self.full {
            return Err("no space".to_owned());
        }
        self.make(Which::Responses);
        if self.read(Which::Responses, stem).is_some() {
            return Ok(Put::Taken);
        }
        self.write(Which::Responses, stem, text);
        Ok(Put::Placed)
    }

    /// Makes and keeps both.
    pub(super) fn keep(&mut self) -> Option<Kept> {
        if self.full && (self.requests.is_none() || self.responses.is_none()) {
            return None;
        }
        let requests_made = self.make(Which::Requests);
        let mut anew = self.make(Which::Responses) | requests_made;
        let unmarked = |dir: &mut Dir| !std::mem::replace(&mut dir.sentinel, true);
        let requests_anew = self.requests.as_mut().is_some_and(unmarked);
        anew |= self.responses.as_mut().is_some_and(unmarked) | requests_anew;
        let kept = |dir: &Dir| Kept { requests_dir: (1, dir.id), requests_made, requests_anew, anew };
        self.requests.as_ref().map(kept)
    }

    fn remove_if_empty(&mut self, which: Which) -> bool {
        let dir = self.at(which);
        if dir.as_ref().is_some_and(|dir| !dir.sentinel && dir.files.is_empty()) {
            *dir = None;
        }
        dir.is_none()
    }

    /// The old rule of requesters: each by itself.
    pub(super) fn rude_clean_up(&mut self) {
        self.remove_if_empty(Which::Requests);
        self.remove_if_empty(Which::Responses);
        self.session &= self.requests.is_some() || self.responses.is_some();
    }

    /// The rule of askd.
    pub(super) fn leave(&mut self) {
        if let Some(dir) = &mut self.requests {
            dir.sentinel = false;
        }
        if !self.remove_if_empty(Which::Requests) {
            return;
        }
        if let Some(dir) = &mut self.responses {
            dir.sentinel = false;
        }
        if self.remove_if_empty(Which::Responses) {
            self.session = false;
        }
    }

    /// Whatever is in it.
    pub(super) fn remove_all(&mut self, which: Option<Which>) {
        match which {
            Some(which) => *self.at(which) = None,
            None => {
                self.requests = None;
                self.responses = None;
                self.session = false;
            }
        }
    }

    pub(super) fn remove_sentinel(&mut self, which: Which) {
        if let Some(dir) = self.at(which) {
            dir.sentinel = false;
        }
    }

    pub(super) fn look(&self) -> Option<Seen> {
        self.session.then(|| Seen {
            requests: self
                .requests
                .iter()
                .flat_map(|dir| dir.files.iter().map(|(stem, (n, _))| (stem.clone(), stamp(*n))))
                .collect(),
            responses: self.responses.iter().flat_map(|dir| dir.files.keys().cloned()).collect(),
            requests_dir: self.requests.as_ref().map(|dir| (1, dir.id)),
            kept: [&self.requests, &self.responses]
                .into_iter()
                .all(|dir| dir.as_ref().is_some_and(|dir| dir.sentinel)),
            other_serves: false,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        !self.session
    }

    /// Stems of the files that are there.
    pub(super) fn files(&self) -> Vec<String> {
        [&self.requests, &self.responses]
            .into_iter()
            .flatten()
            .flat_map(|dir| dir.files.keys().cloned())
            .collect()
    }
}

fn stamp(number: u64) -> Stamp {
    Stamp { inode: number, size: 1, modified_ns: 1 }
}
