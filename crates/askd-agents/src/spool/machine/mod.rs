//! What askd does with a forwarding tree, given what was seen in it: pure, with no clock and no file system.
//!
//! Input: what a look at one session's directories saw ([`Machine::scanned`]), the content of files that it wants
//! ([`Machine::wants`], [`Machine::found`]), what the daemon said, what became of writes, and the time. Output:
//! [`Action`]s. The scan is the truth; hints only make it sooner.
//!
//! | seen | what follows |
//! |---|---|
//! | a new request | both directories are made and kept, it is raised once |
//! | an outcome | its response is put in place, again and again until it is; it is never asked again |
//! | a response of somebody else | the first response stands; the ask ends as answered there |
//! | the request was taken away | its requester left: withdrawn |
//! | its whole directory was taken away | the ask stays open; everything is made again |
//! | the requester died, or its own time passed | withdrawn; what is left of it is removed |
//! | no room for it within half a minute | it is told so; nobody was asked |
//! | its own time is nearly over | withdrawn, and it gets the true reason |
//! | unreadable, and unchanged for 5 s | shown, kept, and answered as unavailable |

mod again;
mod item;
mod leave;
mod room;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askd_client::spool::{Put, Stamp};
use askd_wire::{Instance, Outcome, RaiseAsk};

use super::wire::{self, Request, Unreadable};
use item::{Item, Over, Phase};
use room::Room;
use session::Session;

/// A point in time, as a span since some beginning, on a clock that only runs forward.
pub type Now = Duration;
/// Number of one ask within a run.
pub type AskNo = u64;

/// How long a request must stay unreadable and unchanged until it is answered as that.
pub const TORN: Duration = Duration::from_secs(5);
/// How long files must be away, with their directories in place, until somebody took them on purpose.
const SETTLED: Duration = Duration::from_millis(400);
/// How long a response may lie beside no request: a requester that fetches takes the response first, so that this one
/// left without it. Whoever uses its name again in the meantime finds an answer that is not his.
const LEFT: Duration = Duration::from_millis(50);
/// How long a response may be away beside its request until it is put in place again.
const LOST_RESPONSE: Duration = Duration::from_secs(2);
/// How long an answer that went with its directories waits for its request to be there again.
const GONE: Duration = Duration::from_secs(30);
/// How long before a requester stops waiting it gets the true reason.
const MARGIN: Duration = Duration::from_secs(3);
/// How long after a requester's own time what is left of it is removed.
const AFTER: Duration = Duration::from_secs(5);
/// A session without a request for this long is left.
pub const IDLE: Duration = Duration::from_secs(600);
/// Between two serving records of one session, a little less than the second in which they are due.
const BEAT: Duration = Duration::from_millis(900);
/// A daemon that is away for longer than this does not serve.
const AWAY: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

const DIED: Over = Over { cause: "requester_gone", why: "its requester died" };
const STOPPED: Over = Over { cause: "requester_limit", why: "its requester stopped waiting" };

/// Where one request is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Name of the session's directory.
    pub session: String,
    pub stem: String,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.session, self.stem)
    }
}

/// What one look at a session's directories saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Every request whose name is safe.
    pub requests: BTreeMap<String, Stamp>,
    /// Every response.
    pub responses: BTreeSet<String>,
    /// Which directory `requests/` is; `None`: there is none.
    pub requests_dir: Option<(u64, u64)>,
    /// Both directories are there, with their sentinels.
    pub kept: bool,
    /// Somebody else's fresh serving record of a live process.
    pub other_serves: bool,
}

/// Both directories of a session as [`Action::Keep`] left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Which directory `requests/` is.
    pub requests_dir: (u64, u64),
    /// `requests/` itself was away.
    pub requests_made: bool,
    /// Its sentinel was away, or all of it.
    pub requests_anew: bool,
    /// A directory or a sentinel was away: somebody had taken it. The number of a directory alone does not say so, as the
    /// next one may get the same.
    pub anew: bool,
}

/// What is known of a requester when its request is first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    Unknown,
    /// This process (its number and start) waits; it began before the request was made.
    Process {
        pid: u32,
        start: u64,
    },
    /// It is dead for certain.
    Gone,
}

/// A file that was read for the machine.
#[derive(Debug)]
pub struct Found {
    pub stamp: Stamp,
    pub request: Result<Request, Unreadable>,
    pub evidence: Evidence,
    /// How long ago it was written.
    pub age: Duration,
    /// The response that is there already.
    pub answered: Option<Vec<u8>>,
    /// That response was written before the request was.
    pub outdated: bool,
    /// Which directory the request is in, where both are in place with their sentinels.
    pub kept_in: Option<(u64, u64)>,
}

/// The request that an answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// Of its bytes; `None`: it could not be read, and its answer says no more than that.
    pub digest: Option<String>,
    /// It was taken away with its whole directory: its requester may wait all the same.
    pub or_none: bool,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Action {
    /// Make both directories and their sentinels; told by [`Machine::kept`].
    Keep(String),
    Raise(AskNo, Box<RaiseAsk>),
    /// Find the ask that was raised as this in an earlier run, and that has the outcome which its response says; told by
    /// [`Machine::recalled`].
    Recall(AskNo, Box<RaiseAsk>, Option<bool>),
    /// Nobody decides it; told by [`Machine::outcome`] when somebody had already.
    Withdraw(AskNo, &'static str),
    /// The response is in place.
    Handed(AskNo),
    /// It was fetched.
    Confirmed(AskNo),
    /// Somebody else's response is in place: what it says is what became of the ask.
    AnsweredElsewhere(AskNo, Id),
    /// Nothing more comes for this ask.
    Over(AskNo),
    /// Put the response in place if the request that it is for is there, and never beside another one; told by
    /// [`Machine::placed`], or by [`Machine::not_beside`].
    Answer(Id, Vec<u8>, Beside),
    RemoveRequest(Id),
    /// Remove the response if it has these bytes; without any: whatever it has.
    RemoveResponse(Id, Vec<u8>),
    /// Rewrite the serving record.
    Beat(String),
    /// Take the serving record away.
    Unbeat(String),
    /// Take the sentinels and what is empty away, and let others have the session.
    Leave(String),
    /// For people.
    Tell(String),
}

/// The whole tree. Its owner does what [`Machine::take`] gives.
#[derive(Debug, Default)]
pub struct Machine {
    items: BTreeMap<Id, Item>,
    sessions: BTreeMap<String, Session>,
    next: AskNo,
    /// Since when the daemon is away.
    away: Option<Now>,
    room: Room,
    /// Nothing new is taken.
    closing: bool,
    /// Requests that had their answer, with how often they had one: the very same again is asked again.
    had: BTreeMap<(Id, String), (u32, Now)>,
    /// The last point in time that was told.
    at: Now,
    actions: Vec<Action>,
}

impl Machine {
    pub fn new() -> Self {
        Self::default()
    }

    /// What is to be done now.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When [`Machine::tick`] has something to do; the look every second comes besides.
    pub fn due(&self) -> Option<Now> {
        self.items.values().filter_map(Item::due).min()
    }

    /// Processes whose end matters.
    pub fn processes(&self) -> Vec<(Id, u32, u64)> {
        let process = |(id, item): (&Id, &Item)| item.process.map(|(pid, start)| (id.clone(), pid, start));
        self.items.iter().filter_map(process).collect()
    }

    /// Sessions that are served, for a look at each.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.keys().map(String::as_str)
    }

    /// Whether a session has anything open.
    pub fn is_busy(&self, session: &str) -> bool {
        self.of_session(session).next().is_some()
    }

    /// Whether anything at all waits for the daemon, for a write or for its requester.
    pub fn is_idle(&self) -> bool {
        self.items.is_empty()
    }

    /// A file that was wanted.
    pub fn found(&mut self, id: Id, found: Found, now: Now, wall_ms: i64) {
        let mut found = found;
        let in_place = found.kept_in.is_some()
            && self.sessions.get(&id.session).is_some_and(|session| session.is_kept_in(found.kept_in));
        if let Some(item) = self.items.get_mut(&id) {
            let same = match (&item.request, &found.request) {
                (Some(old), Ok(new)) => old.digest == new.digest,
                _ => false,
            };
            // Written anew in directories that stayed, beside its answer or after that was fetched: it is asked again.
            let anew = matches!(item.phase, Phase::Placed { .. })
                && item.stamp != found.stamp
                && in_place
                && !item.disturbed
                && !item.displaced;
            item.reread = false;
            match &item.phase {
                _ if same && !anew => {
                    item.stamp = found.stamp;
                    return;
                }
                // Nothing changed but perhaps the reason: its time goes on.
                Phase::Torn { .. } if item.stamp == found.stamp && found.request.is_err() => return,
                Phase::Torn { .. } => {}
                Phase::Waiting { .. } => self.withdraw(&id, "superseded"),
                Phase::Ending { .. } | Phase::Holding { .. } | Phase::Placed { .. } => {}
            }
            self.replaced(&id, &mut found, in_place, now);
        }
        if let (Some(response), Ok(request)) = (&found.answered, &found.request) {
            // One that an askd left there, and that answers another request of this name.
            let other = wire::answers(response).map_or(found.outdated, |digest| digest != request.digest);
            if other && wire::is_askds(response) {
                self.tell(format!(
                    "{id}: an answer to an earlier request of this name lay there; it is removed"
                ));
                self.actions.push(Action::RemoveResponse(id.clone(), response.clone()));
                (found.answered, found.outdated) = (None, true);
            }
        }
        let cleared = found.outdated && found.answered.is_none();
        let turn = self.turn(&id, &found);
        self.session(&id.session, now).active(now);
        let limit = found.request.as_ref().ok().and_then(|request| request.limit);
        let is_past = limit.is_some_and(|limit| found.age >= limit + AFTER);
        let turned_away = self.is_turned_away(&id);
        if let Some(response) = found.answered {
            let died = (found.evidence == Evidence::Gone).then_some(DIED);
            let mut item = Item::new(found.stamp, None, limit, found.age, now);
            item.turn = turn;
            item.over = died;
            item.phase = Phase::placed(None, response, false);
            item.request = found.request.ok();
            if let Evidence::Process { pid, start } = found.evidence {
                item.process = Some((pid, start));
            }
            self.items.insert(id.clone(), item);
            self.known_again(&id, now);
            return;
        }
        if found.evidence == Evidence::Gone {
            self.tell(format!("{id}: its requester died before askd saw it; the request is removed"));
            self.actions.push(Action::RemoveRequest(id));
            return;
        }
        let process = match found.evidence {
            Evidence::Process { pid, start } => Some((pid, start)),
            Evidence::Unknown | Evidence::Gone => None,
        };
        // A requester that lives past its time has another clock than ours by now: then its age says nothing.
        let age = if is_past && process.is_some() { Duration::ZERO } else { found.age };
        let mut item = Item::new(found.stamp, process, limit, age, now);
        item.unread = matches!(found.request, Err(Unreadable::File(_)));
        (item.turn, item.cleared) = (turn, cleared);
        self.actions.push(Action::Keep(id.session.clone()));
        self.opened(&id.session, now);
        match found.request {
            // By the clock alone nobody is dead: it is told why, and only what stays after that is removed.
            Ok(request) if is_past && process.is_none() => {
                let why = "its time was over when askd saw it";
                self.tell(format!("{id}: {why}"));
                let bytes = request.unavailable(why, wall_ms);
                item.request = Some(request);
                item.limit_at = Some(now);
                self.items.insert(id.clone(), item);
                self.hold(id, None, bytes, now);
                return;
            }
            Ok(request) if turned_away.is_some() => {
                let bytes = request.unavailable(turned_away.unwrap_or_default(), wall_ms);
                item.request = Some(request);
                self.items.insert(id.clone(), item);
                self.hold(id, None, bytes, now);
                return;
            }
            Ok(request) => {
                let no = self.number();
                let left = item.left(now);
                let grace = left.unwrap_or(IDLE).max(Duration::from_secs(30));
                let mut raise = request.raise(left, grace, turn);
                raise.instance = process.map(|(pid, start)| Instance { pid, start });
                self.actions.push(Action::Raise(no, Box::new(raise)));
                item.phase = Phase::Waiting { no };
                item.request = Some(request);
            }
            Err(_) if turned_away.is_some() => {
                let Some(target) = decoded(&id.session) else { return };
                let bytes = wire::unreadable(&id.stem, &target, turned_away.unwrap_or_default(), wall_ms);
                self.items.insert(id.clone(), item);
                self.hold(id, None, bytes, now);
                return;
            }
            Err(why) => {
                item.phase = Phase::Torn { why: why.to_string(), since: now, no: None };
            }
        }
        self.items.insert(id, item);
    }

    /// The daemon took an ask: it is there.
    pub fn raised(&mut self) {
        self.away = None;
    }

    /// The daemon could not be reached; the ask is tried again by whoever raises it.
    pub fn lost(&mut self, now: Now) {
        self.away.get_or_insert(now);
    }

    /// The daemon has no room for this ask now: it is there, and the ask is tried again by whoever raises it.
    pub fn no_room(&mut self, no: AskNo, why: &str) {
        self.away = None;
        let Some((id, _)) = self.by_number(no) else { return };
        self.tell(format!("{id}: it waits, the daemon has no room for it now: {why}"));
    }

    /// An ask was settled or withdrawn.
    pub fn outcome(&mut self, no: AskNo, outcome: &Outcome, now: Now, wall_ms: i64) {
        self.away = None;
        let Some((id, item)) = self.by_number(no) else {
            // Its requester left meanwhile.
            self.actions.push(Action::Over(no));
            return;
        };
        let (Phase::Waiting { .. } | Phase::Ending { .. }, Some(request)) = (&item.phase, &item.request)
        else {
            return;
        };
        let bytes = request.answer(outcome, wall_ms);
        let decided = outcome.verdict != askd_wire::Verdict::None;
        self.hold(id, decided.then_some(no), bytes, now);
        if !decided {
            self.actions.push(Action::Over(no));
        }
    }

    /// The daemon will not take this ask.
    pub fn refused(&mut self, no: AskNo, why: &str, now: Now, wall_ms: i64) {
        self.away = None;
        self.actions.push(Action::Over(no));
        let Some((id, item)) = self.by_number(no) else { return };
        match (&item.phase, &item.request) {
            (Phase::Waiting { .. } | Phase::Ending { .. }, Some(request)) => {
                let bytes = request.unavailable(&format!("askd could not take this request: {why}"), wall_ms);
                self.tell(format!("{id}: {why}"));
                self.hold(id, None, bytes, now);
            }
            _ => self.tell(format!("{id}: {why}")),
        }
    }

    /// What became of [`Action::Answer`].
    /// `there`: where one was there already, what it says.
    pub fn placed(&mut self, id: &Id, result: Result<Put, String>, there: Option<&[u8]>, now: Now) {
        let Some(item) = self.items.get_mut(id) else { return };
        let Phase::Holding { no, bytes, tries, again, .. } = &mut item.phase else { return };
        match result {
            Ok(Put::Placed) => {
                let (no, again) = (*no, *again);
                if *tries > 0 {
                    self.actions.push(Action::Tell(format!("{id}: the answer is in place now")));
                }
                item.phase = Phase::placed(no, std::mem::take(bytes), true);
                (item.missing_since, item.lost_since, item.disturbed) = (None, None, false);
                if let (Some(no), false) = (no, again) {
                    self.actions.push(Action::Handed(no));
                }
            }
            Ok(Put::Taken) => {
                let (no, again) = (*no, *again);
                let (said, says) = (wire::says(bytes), there.and_then(wire::says));
                let is_ours = again || there == Some(&**bytes);
                let there = there.map(<[u8]>::to_vec).unwrap_or_default();
                item.phase = Phase::placed(None, Vec::new(), again);
                match no {
                    // What we put there ourselves came back, or never was away.
                    Some(no) if again => item.phase = Phase::placed(Some(no), there, true),
                    // Another server put it there, with the outcome that the ask has.
                    Some(no) if is_ours || said.is_some() && said == says => {
                        item.phase = Phase::placed(Some(no), there, is_ours);
                        self.actions.push(Action::Handed(no));
                    }
                    Some(no) => {
                        let text = "somebody else answered it first; the answer given here came too late";
                        self.actions.push(Action::Tell(format!("{id}: {text}")));
                        self.actions.push(Action::AnsweredElsewhere(no, id.clone()));
                    }
                    None => {}
                }
            }
            Err(why) => {
                if *tries == 0 {
                    let text = "the answer cannot be put in place and is kept";
                    self.actions.push(Action::Tell(format!("{id}: {text}: {why}")));
                }
                let pause = FIRST_PAUSE * 2_u32.pow((*tries).min(6));
                *tries += 1;
                if let Phase::Holding { next, .. } = &mut item.phase {
                    *next = Some(now + pause.min(LONGEST_PAUSE));
                }
            }
        }
    }

    /// The request that an answer is for is not there, or is another one by now: nothing was put in place.
    pub fn not_beside(&mut self, id: &Id, now: Now) {
        let Some(item) = self.items.get_mut(id) else { return };
        if let Phase::Holding { next, .. } = &mut item.phase {
            // What became of it is seen at the next look, which is before that.
            *next = Some(now + SETTLED);
            (item.reread, item.look_at) = (true, Some(now));
        }
    }

    /// The process of this requester has ended.
    pub fn died(&mut self, id: &Id) {
        self.end(id, DIED);
    }

    /// Time has passed. `wall_ms`: milliseconds since 1970, for what is written.
    pub fn tick(&mut self, now: Now, wall_ms: i64) {
        self.at = now;
        let due: Vec<Id> =
            self.items.iter().filter(|(_, i)| i.is_due(now)).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.tick_item(&id, now, wall_ms);
        }
        self.tick_sessions(now);
    }

    fn tick_item(&mut self, id: &Id, now: Now, wall_ms: i64) {
        let Some(item) = self.items.get_mut(id) else { return };
        let (limit, margin) = (item.limit_at, item.margin);
        if limit.is_some_and(|limit| now >= limit + AFTER) {
            self.end(id, STOPPED);
            return;
        }
        match &mut item.phase {
            Phase::Torn { why, since, no } if now >= *since + TORN => {
                let bytes = match decoded(&id.session) {
                    Some(target) => wire::unreadable(&id.stem, &target, why, wall_ms),
                    None => return,
                };
                let no = *no;
                self.hold(id.clone(), None, bytes, now);
                self.actions.extend(no.map(|no| Action::Withdraw(no, "cancelled")));
            }
            Phase::Waiting { no } if limit.is_some_and(|limit| now >= limit.saturating_sub(margin)) => {
                let no = *no;
                item.phase = Phase::Ending { no };
                self.actions.push(Action::Withdraw(no, "requester_limit"));
            }
            Phase::Ending { no } if limit.is_some_and(|limit| now >= limit.saturating_sub(margin / 3)) => {
                let no = *no;
                let Some(request) = &item.request else { return };
                let bytes = request.unavailable("nobody could be asked in time", wall_ms);
                self.hold(id.clone(), None, bytes, now);
                self.actions.push(Action::Over(no));
            }
            Phase::Holding { bytes, next, .. } if next.is_some_and(|next| now >= next) => {
                *next = None;
                let bytes = bytes.clone();
                let beside = item.beside();
                self.actions.push(Action::Keep(id.session.clone()));
                self.actions.push(Action::Answer(id.clone(), bytes, beside));
            }
            _ => {}
        }
    }

    /// The requester is gone for good: what is left of it goes too.
    fn end(&mut self, id: &Id, over: Over) {
        let Over { cause, why } = over;
        self.withdraw(id, cause);
        if let Some(item) = self.items.get_mut(id).filter(|item| item.may_be_ours()) {
            // Whose response it is will be known in a moment, or when the daemon is there again.
            item.over = Some(over);
            return;
        }
        let Some(item) = self.items.remove(id) else { return };
        match item.phase {
            // The first response is not ours to remove.
            Phase::Placed { ours: false, no, .. } => self.actions.extend(no.map(Action::Over)),
            Phase::Placed { no, bytes, .. } => {
                self.tell(format!("{id}: {why} and did not fetch its answer"));
                self.actions.extend(no.or(item.recall).map(Action::Over));
                self.actions.push(Action::RemoveResponse(id.clone(), bytes));
                self.remember(id, item.request.as_ref(), item.turn, self.at);
            }
            Phase::Holding { no, .. } => {
                self.tell(format!("{id}: {why} before its answer could be put in place"));
                self.actions.extend(no.map(Action::Over));
            }
            Phase::Torn { no, .. } => self.actions.extend(no.map(|no| Action::Withdraw(no, "cancelled"))),
            Phase::Waiting { .. } | Phase::Ending { .. } => self.tell(format!("{id}: {why}")),
        }
        self.actions.push(Action::RemoveRequest(id.clone()));
    }

    fn withdraw(&mut self, id: &Id, cause: &'static str) {
        if let Some(Item { phase: Phase::Waiting { no } | Phase::Ending { no }, .. }) = self.items.get(id) {
            self.actions.push(Action::Withdraw(*no, cause));
        }
    }

    /// From here on there is an answer, and it is put in place until it is there.
    fn hold(&mut self, id: Id, no: Option<AskNo>, bytes: Vec<u8>, now: Now) {
        let Some(item) = self.items.get_mut(&id) else { return };
        item.phase = Phase::Holding { no, bytes: bytes.clone(), tries: 0, next: None, again: false };
        self.session(&id.session, now).active(now);
        let beside = self.items.get(&id).map(Item::beside);
        self.actions.push(Action::Keep(id.session.clone()));
        self.actions.extend(beside.map(|beside| Action::Answer(id, bytes, beside)));
    }

    fn number(&mut self) -> AskNo {
        self.next += 1;
        self.next
    }

    fn by_number(&self, no: AskNo) -> Option<(Id, &Item)> {
        self.items.iter().find(|(_, item)| item.number() == Some(no)).map(|(id, item)| (id.clone(), item))
    }

    fn of_session(&self, session: &str) -> impl Iterator<Item = (&Id, &Item)> {
        let from = Id { session: session.to_owned(), stem: String::new() };
        self.items.range(from..).take_while({
            let session = session.to_owned();
            move |(id, _)| id.session == session
        })
    }

    fn tell(&mut self, text: String) {
        self.actions.push(Action::Tell(text));
    }
}

fn decoded(session: &str) -> Option<String> {
    askd_client::spool::decode_session(session)
}

#[cfg(test)]
mod tests;
