//! What one tree's thread sees, and whose session it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use askd_client::spool::{Stamp, decode_session};
use serde_json::Value;

use super::worker::{Worker, wall_ms};
use crate::spool::carry;
use crate::spool::lock::Taken;
use crate::spool::machine::{Evidence, Found, Id, Now};
use crate::spool::process;
use crate::spool::wire::{self, PI_LIMIT, Unreadable};

/// A request older than this that was written by a process which does not exist was left over.
const FRESH_MS: u64 = 10_000;
/// Odd names in one directory that are told of; more say nothing new.
const MOST_ODD: usize = 20;

/// Names that cannot be used, by the session in which they are, as long as they are there. Everybody who may write in a
/// directory makes as many as he likes: they must not keep anything else from being told.
#[derive(Debug, Default)]
pub(super) struct Odds(BTreeMap<String, BTreeSet<String>>);

impl Odds {
    /// Tells of those that are new; the others are forgotten.
    pub(super) fn tell<'a>(
        &mut self,
        session: &str,
        names: impl Iterator<Item = &'a String>,
        text: &dyn Fn(&str) -> String,
        tell: &dyn Fn(&str),
    ) {
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        if names.is_empty() {
            return self.forget(session);
        }
        let told = self.0.entry(session.to_owned()).or_default();
        // That there are more is told once, as the name that none has.
        told.retain(|name| name.is_empty() || names.contains(&**name));
        for name in names {
            if told.contains(name) {
                continue;
            }
            if told.len() < MOST_ODD {
                tell(&text(name));
                told.insert(name.to_owned());
            } else if told.insert(String::new()) {
                tell(&format!("{}; and more of the kind", text(name)));
            }
        }
    }

    pub(super) fn forget(&mut self, session: &str) {
        self.0.remove(session);
    }
}

impl Worker {
    pub(super) fn look_at_everything(&mut self, now: Now) {
        let known = self.machine.looked_at();
        if self.is_former.is_some() {
            for name in known {
                self.look(&name, now);
            }
            return self.see_who_died();
        }
        if !self.settle_root() {
            return;
        }
        self.eyes.watch_root(&self.tree.root.path);
        let found = match self.tree.sessions() {
            Ok(found) => {
                self.told.remove("tree");
                let odd =
                    found.names.iter().filter(|name| decode_session(name).is_none()).chain(&found.no_text);
                let text = |name: &str| format!("{name:?} is no session's name; what is in it is not read");
                self.odds.tell("", odd, &text, &*self.options.tell);
                if let Some(why) = self.eyes.blind() {
                    self.tell_once("blind", &format!("{why}: what happens is noticed within a second"));
                }
                if found.left_out {
                    let text = "more sessions are there than are served together; the others wait";
                    self.tell_once("sessions", text);
                } else {
                    self.told.remove("sessions");
                }
                found.names
            }
            Err(error) => {
                self.tell_once("tree", &error.to_string());
                // What cannot be read is not what is not there.
                return;
            }
        };
        // The root may be another one now, with nothing in it known.
        let known = self.machine.looked_at().into_iter().chain(self.only.iter().cloned());
        let names: BTreeSet<String> = found.into_iter().chain(known).collect();
        for name in names {
            self.look(&name, now);
        }
        self.see_who_died();
    }

    fn see_who_died(&mut self) {
        for (id, pid, start) in self.machine.processes() {
            if process::start_of(pid) != Some(start) {
                self.machine.died(&id);
                self.act();
            }
        }
    }

    /// Takes a session, unless another askd has it.
    fn take(&mut self, name: &str) -> bool {
        let served = format!("served {name}");
        match self.locks.take(name) {
            Ok(Taken::Before) => true,
            Ok(Taken::Now) => {
                self.told.remove(&served);
                self.tree.tidy(name);
                true
            }
            Ok(Taken::Other(who)) => {
                let who = who.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                let text = format!("{name}: another askd{who} serves it; this one does when that one ends");
                self.tell_once(&served, &text);
                false
            }
            Err(error) => {
                self.tell_once(&format!("lock {name}"), &format!("{name}: no lock for it: {error}"));
                false
            }
        }
    }

    pub(super) fn look(&mut self, name: &str, now: Now) {
        let Some(target) = decode_session(name) else { return };
        if !self.only.is_empty() && !self.only.contains(name) {
            return;
        }
        let known = self.machine.sessions().any(|known| known == name);
        self.eyes.watch_session(&self.tree.root.path, name);
        let stems = self.machine.stems(name);
        let (seen, odd) = match self.tree.look(name, &stems, wall_ms()) {
            Ok(looked) => looked,
            Err(error) if error.is_gone() => return self.machine.not_seen(name),
            Err(error) => {
                self.machine.not_seen(name);
                self.tell_once(&format!("session {name}"), &error.to_string());
                return;
            }
        };
        self.told.remove(&format!("session {name}"));
        let chosen = self.only.contains(name);
        let open = self.machine.is_busy(name);
        if !known && !chosen && !open && seen.as_ref().is_none_or(|seen| seen.requests_dir.is_none()) {
            return self.odds.forget(name);
        }
        if !self.take(name) {
            return self.machine.other_has(name, seen.as_ref());
        }
        self.tree.root.serves(true);
        if !known && chosen {
            self.machine.choose(name, now);
        }
        let crowded = format!("crowd {name}");
        if odd.left_out {
            let text =
                format!("{name}: more requests are there than are looked at together; the others wait");
            self.tell_once(&crowded, &text);
        } else {
            self.told.remove(&crowded);
        }
        let text = |odd: &str| {
            format!("{name}: a request has an unsafe name and is not read: {}", odd.escape_debug())
        };
        self.odds.tell(name, odd.names.iter(), &text, &*self.options.tell);
        if let Some(seen) = &seen {
            let (left, most) = carry::room();
            self.machine.has_room_for(left, most / 4);
            for (stem, stamp) in &seen.requests {
                let id = Id { session: name.to_owned(), stem: stem.clone() };
                if self.machine.wants(&id, *stamp, now)
                    && let Some(mut found) = self.find(&id, *stamp, &target, seen.responses.contains(stem))
                {
                    found.kept_in = seen.requests_dir.filter(|_| seen.kept);
                    self.machine.found(id, found, now, wall_ms());
                }
            }
        }
        self.machine.scanned(name, seen.as_ref(), now);
        self.act();
    }

    /// Reads one request; `None`: it is gone by now. `seen`: as the look saw it, for a file that cannot be read.
    fn find(&mut self, id: &Id, seen: Stamp, target: &str, answered: bool) -> Option<Found> {
        let limit = self.options.limit.unwrap_or_else(|| pi_limit(&self.tree.root.path));
        let (stamp, request) = match self.tree.read(id) {
            Ok(Some((stamp, bytes))) => (stamp, wire::read(&bytes, &id.stem, target, limit)),
            Ok(None) => return None,
            Err(error) if error.is_gone() => return None,
            Err(error) => (seen, Err(Unreadable::File(error.to_string()))),
        };
        let wall = self.tree_time.get_or_insert_with(|| self.tree.time_ms()).unwrap_or_else(wall_ms);
        // The younger of both: a clock that is wrong must not make a request look old.
        let written = i64::try_from(stamp.modified_ns / 1_000_000).unwrap_or(0);
        let made = request.as_ref().ok().and_then(|request| request.created_ms).unwrap_or(0).max(written);
        let age_ms = u64::try_from(wall.saturating_sub(made)).unwrap_or(0);
        let pid = request.as_ref().ok().and_then(|request| request.pid);
        let evidence =
            pid.map_or(Evidence::Unknown, |pid| process::evidence(pid, age_ms, &self.tree.root.path));
        // One that was written just now has a requester, whoever's numbers it uses.
        let fresh = age_ms < FRESH_MS && evidence == Evidence::Gone;
        let evidence = if fresh { Evidence::Unknown } else { evidence };
        let (mut response, mut outdated) = (None, false);
        if answered {
            match self.tree.read_response(id) {
                Ok(Some((written, bytes))) => {
                    outdated = written.modified_ns < stamp.modified_ns;
                    response = Some(bytes);
                }
                // It is being fetched, and its request may be the next one of its name already: the next look says.
                Ok(None) => return None,
                Err(error) if error.is_gone() => return None,
                Err(_) => response = Some(Vec::new()),
            }
        }
        let age = Duration::from_millis(age_ms);
        Some(Found { stamp, request, evidence, age, answered: response, outdated, kept_in: None })
    }
}

/// How long children wait, as pi-permission-system's configuration of the same agent directory says.
fn pi_limit(root: &Path) -> Duration {
    let read = || {
        let agent = root.parent()?.parent()?;
        let path = agent.join("extensions/pi-permission-system/config.json");
        let bytes = std::fs::read(path).ok()?;
        let config: Value = serde_json::from_slice(&bytes).ok()?;
        config.get("forwardingTimeoutMs")?.as_u64().filter(|ms| *ms > 0).map(Duration::from_millis)
    };
    read().unwrap_or(PI_LIMIT)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn s7_however_many_odd_names_there_are_a_new_one_elsewhere_is_told_and_a_directory_says_no_more_than_its_share()
     {
        let (mut odds, told) = (Odds::default(), RefCell::new(Vec::new()));
        let mut see = |session: &str, count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("a b{n}.json")).collect();
            let tell = |text: &str| told.borrow_mut().push(text.to_owned());
            odds.tell(session, names.iter(), &|name| format!("{session}: {name}"), &tell);
            told.borrow_mut().drain(..).collect::<Vec<_>>()
        };
        assert_eq!(see("s", 2000).len(), MOST_ODD + 1);
        assert_eq!(see("s", 2000), Vec::<String>::new(), "once");
        assert_eq!(see("other", 1), ["other: a b0.json"]);
        // What is gone and comes back is new.
        assert_eq!(see("s", 0), Vec::<String>::new());
        assert_eq!(see("s", 1), ["s: a b0.json"]);
    }
}
