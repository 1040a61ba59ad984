//! One request and where it stands.

use std::time::Duration;

use askd_client::spool::Stamp;

use super::{AFTER, AskNo, Beside, MARGIN, Now, SETTLED, TORN};
use crate::spool::wire::Request;

#[derive(Debug)]
pub(super) struct Item {
    pub(super) stamp: Stamp,
    /// `None`: it could not be read.
    pub(super) request: Option<Request>,
    /// Its file itself could not be read: that may pass without any change of it.
    pub(super) unread: bool,
    pub(super) phase: Phase,
    pub(super) process: Option<(u32, u64)>,
    /// When its requester stops waiting.
    pub(super) limit_at: Option<Now>,
    /// How long before that it is told why.
    pub(super) margin: Duration,
    /// Since when a file of it is away although its directory is in place.
    pub(super) missing_since: Option<Now>,
    /// Since when its request has been seen without its response, which was in place; what is taken away in between and
    /// made again changes nothing of that.
    pub(super) lost_since: Option<Now>,
    /// It was answered in an earlier run, perhaps by us: that is being found out.
    pub(super) recall: Option<AskNo>,
    /// Nobody waits any more, and what is left of it waits for that.
    pub(super) over: Option<Over>,
    /// The last look saw its request.
    pub(super) has_request: bool,
    /// The last look saw its response.
    pub(super) has_response: bool,
    /// How often the very same request was there before and had its answer.
    pub(super) turn: u32,
    /// An answer to another request lay there when the look began that found it.
    pub(super) cleared: bool,
    /// Its content may be another one, whatever its stamp is.
    pub(super) reread: bool,
    /// When a look at its files is wanted sooner than the usual one.
    pub(super) look_at: Option<Now>,
    /// Its request went with the whole directory: its requester may well wait.
    pub(super) displaced: bool,
    /// Its directories were disturbed since its answer was last seen in place: an answer that is missing then was not
    /// fetched, as far as anybody can say.
    pub(super) disturbed: bool,
}

/// Why nobody waits any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over {
    pub(super) cause: &'static str,
    pub(super) why: &'static str,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Unreadable; `no`: shown at the daemon.
    Torn { why: String, since: Now, no: Option<AskNo> },
    /// Asked.
    Waiting { no: AskNo },
    /// Its requester's time is nearly over, and the daemon was told.
    Ending { no: AskNo },
    /// It has an answer that is not in place. `no`: somebody decided; `again`: it was in place before.
    Holding { no: Option<AskNo>, bytes: Vec<u8>, tries: u32, next: Option<Now>, again: bool },
    /// A response is in place.
    Placed { no: Option<AskNo>, bytes: Vec<u8>, ours: bool },
}

impl Phase {
    pub(super) fn placed(no: Option<AskNo>, bytes: Vec<u8>, ours: bool) -> Self {
        Self::Placed { no, bytes, ours }
    }
}

impl Item {
    pub(super) fn new(
        stamp: Stamp,
        process: Option<(u32, u64)>,
        limit: Option<Duration>,
        age: Duration,
        now: Now,
    ) -> Self {
        Self {
            stamp,
            request: None,
            unread: false,
            phase: Phase::Torn { why: String::new(), since: now, no: None },
            process,
            limit_at: limit.map(|limit| (now + limit).saturating_sub(age)),
            margin: limit.map_or(MARGIN, |limit| (limit / 4).min(MARGIN)),
            missing_since: None,
            lost_since: None,
            recall: None,
            over: None,
            has_request: true,
            has_response: false,
            turn: 0,
            cleared: false,
            reread: false,
            look_at: None,
            displaced: false,
            disturbed: false,
        }
    }

    pub(super) fn left(&self, now: Now) -> Option<Duration> {
        self.limit_at.map(|at| at.saturating_sub(now))
    }

    pub(super) fn number(&self) -> Option<AskNo> {
        match &self.phase {
            Phase::Waiting { no } | Phase::Ending { no } => Some(*no),
            Phase::Torn { no, .. } => *no,
            Phase::Holding { no, .. } | Phase::Placed { no, .. } => no.or(self.recall),
        }
    }

    /// Its response was there at first sight, and it is not known yet whose it is.
    pub(super) fn may_be_ours(&self) -> bool {
        self.recall.is_some() && matches!(self.phase, Phase::Placed { ours: false, .. })
    }

    /// Beside what its answer may be put.
    pub(super) fn beside(&self) -> Beside {
        let again = matches!(self.phase, Phase::Holding { again: true, .. });
        let digest = self.request.as_ref().map(|request| request.digest.clone());
        // One that was in place may have been fetched before everything was taken away: it goes to its request only.
        Beside { digest, or_none: self.displaced && !again }
    }

    /// While its request is away it may go on without it: its answer was not in place yet, or lies there until its
    /// requester's time is over.
    pub(super) fn goes_on_alone(&self, is_answered: bool) -> bool {
        match &self.phase {
            Phase::Waiting { .. } | Phase::Ending { .. } | Phase::Holding { again: false, .. } => true,
            Phase::Placed { ours: true, bytes, .. } => {
                is_answered && self.limit_at.is_some() && !bytes.is_empty()
            }
            Phase::Torn { .. } | Phase::Holding { .. } | Phase::Placed { .. } => false,
        }
    }

    /// Somebody may still answer it, or its answer is to be put in place.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Placed { .. })
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    /// When time alone changes something.
    pub(super) fn due(&self) -> Option<Now> {
        if self.over.is_some() {
            return None;
        }
        let phase = match &self.phase {
            Phase::Torn { since, .. } => Some(*since + TORN),
            Phase::Waiting { .. } => self.limit_at.map(|at| at.saturating_sub(self.margin)),
            Phase::Ending { .. } => self.limit_at.map(|at| at.saturating_sub(self.margin / 3)),
            Phase::Holding { next, .. } => *next,
            Phase::Placed { .. } => None,
        };
        phase.into_iter().chain(self.limit_at.map(|at| at + AFTER)).min()
    }

    /// Notes whether a file of it is away. Gives for how long it has been.
    pub(super) fn missing(&mut self, is: bool, now: Now) -> Option<Duration> {
        self.missing_for(is, SETTLED, now)
    }

    /// The same, with another look when it is so for this long.
    pub(super) fn missing_for(&mut self, is: bool, long: Duration, now: Now) -> Option<Duration> {
        self.look_at = None;
        if !is {
            self.missing_since = None;
            return None;
        }
        if self.missing_since.is_none() {
            self.look_at = Some(now + long);
        }
        let since = *self.missing_since.get_or_insert(now);
        Some(now.saturating_sub(since))
    }
}
