//! How much one requester may do at a time: requests a second, connections. Over a limit is a refusal that names it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use askd_core::{Owner, SessionKey};

/// What is counted, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Session(Kind, SessionKey, Owner),
    Process(Kind, u32),
    /// Whoever comes when more are known already than are told apart.
    Rest(Kind),
}

/// What requesters may do only so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Raise,
    Observe,
}

/// So many at once, then so many a second.
#[derive(Debug, Clone, Copy)]
struct Rate {
    at_once: u64,
    a_second: u64,
}

impl Kind {
    fn of_session(self) -> Rate {
        match self {
            Self::Raise => Rate { at_once: 5_000, a_second: 500 },
            Self::Observe => Rate { at_once: 20_000, a_second: 2_000 },
        }
    }

    /// One process may speak for several sessions.
    fn of_process(self) -> Rate {
        let Rate { at_once, a_second } = self.of_session();
        Rate { at_once: 4 * at_once, a_second: 4 * a_second }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Raise => "asks",
            Self::Observe => "observations",
        }
    }
}

/// Most observations of one request; more could never be taken.
pub(crate) const MOST_OBSERVATIONS: usize = 20_000;
/// Event streams of all owners; each that is not read may hold some hundred KiB.
pub(crate) const MOST_STREAMS: usize = 1024;
/// Sessions and processes that are told apart.
const MOST_KNOWN: usize = 4096;

/// What is left for one of them, in thousandths.
#[derive(Debug, Clone, Copy)]
struct Left {
    milli: u64,
    at_ms: u64,
}

impl Left {
    fn at(self, now_ms: u64, rate: Rate) -> u64 {
        let gained = now_ms.saturating_sub(self.at_ms).saturating_mul(rate.a_second);
        self.milli.saturating_add(gained).min(rate.at_once * 1000)
    }
}

/// How much everybody has left.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<BTreeMap<Who, Left>>);

impl Rates {
    /// Takes `count` off what an owner has left for a session, and what the process that speaks for it has; `Err`: the limit, and when to come
    /// back. `pid` 0: it is not known. `now_ms`: on a clock that only runs forward.
    pub(crate) fn take(
        &self,
        kind: Kind,
        (session, owner, pid): (&SessionKey, &Owner, u32),
        count: usize,
        now_ms: u64,
    ) -> Result<(), String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.retain(|who, left| {
                let rate = rate_of(who);
                left.at(now_ms, rate) < rate.at_once * 1000
            });
        }
        let full = known.len() >= MOST_KNOWN;
        let wanted = u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(1000);
        let both = [Who::Session(kind, session.clone(), owner.clone()), Who::Process(kind, pid)];
        let mut after = Vec::new();
        for who in both.into_iter().filter(|who| *who != Who::Process(kind, 0)) {
            let who = if full && !known.contains_key(&who) { Who::Rest(kind) } else { who };
            let rate = rate_of(&who);
            let left = known.get(&who).map_or(rate.at_once * 1000, |left| left.at(now_ms, rate));
            let Some(rest) = left.checked_sub(wanted) else {
                let wait_ms = (wanted - left).div_ceil(rate.a_second);
                return Err(refusal(kind, &who, rate, wait_ms));
            };
            after.push((who, Left { milli: rest, at_ms: now_ms }));
        }
        known.extend(after);
        Ok(())
    }
}

fn rate_of(who: &Who) -> Rate {
    match who {
        Who::Session(kind, ..) => kind.of_session(),
        Who::Process(kind, _) | Who::Rest(kind) => kind.of_process(),
    }
}

fn refusal(kind: Kind, who: &Who, rate: Rate, wait_ms: u64) -> String {
    let who = match who {
        Who::Session(_, session, owner) => format!("session {session}, from {owner},"),
        Who::Process(_, pid) => format!("process {pid}"),
        Who::Rest(_) => "everybody who came lately, together".to_owned(),
    };
    format!(
        "{who} sent more {} than the limit of {} at once and {} a second; wait {wait_ms} ms and send fewer",
        kind.words(),
        rate.at_once,
        rate.a_second
    )
}

/// Places of one kind, by owner. What one has, as a part of all there are, is at most the square of what is left then: no
/// one owner can take all, and no few together.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    all: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    each: BTreeMap<Owner, usize>,
}

impl Seats {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, taken: Arc::default() }
    }

    /// A place for one more of this owner's, until it is dropped; `Err`: it has so many, and may have no more now.
    pub(crate) fn take(&self, owner: &Owner) -> Result<Seat, usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.each.get(owner).copied().unwrap_or(0);
        let left = self.all.saturating_sub(taken.all + 1);
        // The last place but one is somebody's who has none.
        if taken.all >= self.all || own > 0 && (own + 1) * self.all > left * left {
            return Err(own);
        }
        taken.all += 1;
        *taken.each.entry(owner.clone()).or_default() += 1;
        Ok(Seat { owner: owner.clone(), of: self.clone() })
    }
}

/// One place.
#[derive(Debug)]
pub(crate) struct Seat {
    owner: Owner,
    of: Seats,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.each.get_mut(&self.owner) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.each.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner { name: name.to_owned(), since: 0 }
    }

    fn session(name: &str) -> SessionKey {
        SessionKey { agent: "script".to_owned(), session: name.to_owned() }
    }

    #[test]
    fn s7_a_session_that_asks_too_fast_is_told_the_limit_and_when_to_come_back() {
        let rates = Rates::default();
        let take =
            |name: &str, count, now| rates.take(Kind::Raise, (&session(name), &owner("o"), 7), count, now);
        assert_eq!(take("a", 5_000, 1_000), Ok(()));
        let text = take("a", 1, 1_000).unwrap_err();
        assert!(text.contains("session script/a") && text.contains("wait 2 ms"), "{text}");
        assert!(text.contains("5000 at once and 500 a second"), "{text}");
        assert_eq!(take("a", 1, 1_002), Ok(()));
        assert!(take("a", 1, 1_002).is_err());
        // Others, and other kinds, have their own; what is refused costs nothing.
        assert_eq!(take("b", 5_000, 1_002), Ok(()));
        assert_eq!(rates.take(Kind::Observe, (&session("a"), &owner("o"), 7), 20_000, 1_002), Ok(()));
        // Nor does it count what somebody else asks in its name.
        assert_eq!(rates.take(Kind::Raise, (&session("a"), &owner("p"), 8), 5_000, 1_002), Ok(()));
        // It never has more than at the beginning.
        assert!(take("a", 5_001, 10_000_000).is_err());
        assert_eq!(take("a", 5_000, 10_000_000), Ok(()));
        // A clock that stands still or jumps back gives nothing away.
        assert!(take("a", 1, 5).is_err());
    }

    #[test]
    fn s7_new_names_do_not_help_one_process_and_memory_stays_flat() {
        let rates = Rates::default();
        let mut refused = None;
        for n in 0..30_000 {
            if let Err(text) = rates.take(Kind::Raise, (&session(&n.to_string()), &owner("o"), 7), 1, 0) {
                refused = Some((n, text));
                break;
            }
        }
        let (n, text) = refused.unwrap();
        assert!((20_000..=20_001).contains(&n) || n <= 24_096, "{n}: {text}");
        for pid in 0..20_000 {
            let _ = rates.take(Kind::Raise, (&session(&format!("s{pid}")), &owner("o"), pid), 1, 0);
        }
        assert!(rates.0.lock().unwrap().len() <= MOST_KNOWN + 2);
        // When the flood is over everybody is told apart again.
        assert_eq!(rates.take(Kind::Raise, (&session("new"), &owner("o"), 9), 5_000, 60_000), Ok(()));
    }

    #[test]
    fn s7_no_few_owners_take_every_place() {
        let seats = Seats::new(1_000);
        let take_all = |name: &str| {
            let mut held = Vec::new();
            while let Ok(seat) = seats.take(&owner(name)) {
                held.push(seat);
            }
            assert_eq!(seats.take(&owner(name)).unwrap_err(), held.len());
            held
        };
        let mut each = Vec::new();
        for n in 0..20 {
            each.push(take_all(&n.to_string()));
        }
        let counts: Vec<usize> = each.iter().map(Vec::len).collect();
        assert!((350..400).contains(&counts[0]) && counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        assert!(seats.take(&owner("who has none")).is_ok(), "{counts:?}");
        // What is given back is there for whoever had none left.
        each.remove(0);
        assert!(seats.take(&owner("19")).is_ok());
        drop(each);
        assert!(seats.taken.lock().unwrap().each.is_empty());
        assert_eq!(seats.taken.lock().unwrap().all, 0);
    }
}
