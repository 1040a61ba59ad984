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
mod answers;
mod item;
mod leave;
mod room;
mod session;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askd_wire::Instance;

use super::wire::{self, Unreadable};
use item::{Item, Over, Phase};
use room::Room;
use session::Session;
pub use types::{Action, Beside, Evidence, Found, Id, Kept, Seen};

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

    /// Sessions to look at: those that are served, and those that another has and in which something is open here.
    pub fn looked_at(&self) -> BTreeSet<String> {
        self.sessions.keys().chain(self.items.keys().map(|id| &id.session)).cloned().collect()
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
                self.keep(&id.session);
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
        // In a session that another has, what is there under its name is another request.
        if self.sessions.contains_key(&id.session) {
            self.actions.push(Action::RemoveRequest(id.clone()));
        }
    }

    fn withdraw(&mut self, id: &Id, cause: &'static str) {
        if let Some(Item { phase: Phase::Waiting { no } | Phase::Ending { no }, .. }) = self.items.get(id) {
            self.actions.push(Action::Withdraw(*no, cause));
        }
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
