//! Events that were told and that some stream has not taken yet, bounded in number and in bytes. A stream that is
//! further behind is told so and begins anew; it never makes memory grow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::publish::Ready;

/// Most events, and most bytes of them, that the slowest stream may be behind. One event alone may have more.
const MOST_EVENTS: usize = 4096;
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// Where events are put in and streams take them out, each at its own pace.
#[derive(Debug)]
pub(crate) struct Backlog {
    ring: Mutex<Ring>,
    /// Number of the event that comes next.
    grew: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Arc<Ready>>,
    /// Number of the first of them.
    first: u64,
    bytes: usize,
    /// Number of the event that each reader takes next.
    readers: BTreeMap<u64, u64>,
    reader: u64,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn drop_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.frame.len();
            self.first += 1;
        }
    }

    /// What every reader has taken is of no more use.
    fn drop_taken(&mut self) {
        let taken = self.readers.values().min().copied().unwrap_or(u64::MAX);
        while self.first < taken && !self.events.is_empty() {
            self.drop_first();
        }
    }
}

/// More happened than was kept for this reader; it goes on with what comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lagged;

impl Backlog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { ring: Mutex::default(), grew: watch::channel(0).0 })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_readers(&self) -> bool {
        !self.ring().readers.is_empty()
    }

    /// A reader of everything that is put in from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Taker {
        let mut ring = self.ring();
        ring.reader += 1;
        let (id, next) = (ring.reader, ring.end());
        ring.readers.insert(id, next);
        drop(ring);
        Taker { id, grew: self.grew.subscribe(), of: Arc::clone(self) }
    }

    pub(crate) fn put(&self, event: Ready) {
        let mut ring = self.ring();
        if ring.readers.is_empty() {
            return;
        }
        ring.bytes += event.frame.len();
        ring.events.push_back(Arc::new(event));
        while ring.events.len() > 1 && (ring.events.len() > MOST_EVENTS || ring.bytes > MOST_BYTES) {
            ring.drop_first();
        }
        let end = ring.end();
        drop(ring);
        self.grew.send_replace(end);
    }

    /// Something could not be put in: every reader is behind.
    pub(crate) fn lose(&self) {
        let mut ring = self.ring();
        ring.events.clear();
        ring.bytes = 0;
        // One number is used up by what was lost, so that those who had taken everything are behind too.
        ring.first = ring.readers.values().max().map_or(ring.first, |next| (*next).max(ring.first)) + 1;
        let end = ring.end();
        drop(ring);
        self.grew.send_replace(end);
    }
}

/// One stream's place in the backlog.
#[derive(Debug)]
pub(crate) struct Taker {
    id: u64,
    of: Arc<Backlog>,
    grew: watch::Receiver<u64>,
}

impl Taker {
    /// The next event, waiting for it.
    pub(crate) async fn take(&mut self) -> Result<Arc<Ready>, Lagged> {
        loop {
            self.grew.borrow_and_update();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            // The sender is held by `of`.
            let _ = self.grew.changed().await;
        }
    }

    fn try_take(&self) -> Option<Result<Arc<Ready>, Lagged>> {
        let mut ring = self.of.ring();
        let (first, end) = (ring.first, ring.end());
        let next = ring.readers.get_mut(&self.id)?;
        if *next < first {
            *next = end;
            ring.drop_taken();
            return Some(Err(Lagged));
        }
        let at = usize::try_from(*next - first).ok()?;
        *next += u64::from(*next < end);
        let event = ring.events.get(at).cloned()?;
        if at == 0 {
            ring.drop_taken();
        }
        Some(Ok(event))
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut ring = self.of.ring();
        ring.readers.remove(&self.id);
        ring.drop_taken();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(position: u64, bytes: usize) -> Ready {
        Ready::of_test(position, bytes)
    }

    /// Events and bytes that are kept.
    fn kept(backlog: &Backlog) -> (usize, usize) {
        let ring = backlog.ring();
        (ring.events.len(), ring.bytes)
    }

    fn position(taken: Option<Result<Arc<Ready>, Lagged>>) -> Option<Result<u64, Lagged>> {
        taken.map(|taken| taken.map(|event| event.position.unwrap()))
    }

    #[test]
    fn every_reader_gets_what_came_after_it_and_nothing_stays_behind() {
        let backlog = Backlog::new();
        backlog.put(event(1, 10));
        let (one, two) = (backlog.subscribe(), backlog.subscribe());
        assert_eq!(position(one.try_take()), None);
        backlog.put(event(2, 10));
        backlog.put(event(3, 10));
        assert_eq!([position(one.try_take()), position(one.try_take())], [Some(Ok(2)), Some(Ok(3))]);
        assert_eq!((position(one.try_take()), kept(&backlog)), (None, (2, 20)));
        assert_eq!(position(two.try_take()), Some(Ok(2)));
        assert_eq!(kept(&backlog), (1, 10));
        drop(two);
        assert_eq!(kept(&backlog), (0, 0));
        backlog.put(event(4, 10));
        assert_eq!(position(one.try_take()), Some(Ok(4)));
    }

    #[test]
    fn s7_a_slow_reader_is_behind_by_bytes_or_number_and_the_others_are_not() {
        for (count, bytes) in [(40, 1024 * 1024), (5_000, 1)] {
            let backlog = Backlog::new();
            let (slow, fast) = (backlog.subscribe(), backlog.subscribe());
            for n in 1..=count {
                backlog.put(event(n, bytes));
                assert_eq!(position(fast.try_take()), Some(Ok(n)));
                let (events, bytes) = kept(&backlog);
                assert!(bytes <= MOST_BYTES && events <= MOST_EVENTS);
            }
            assert_eq!(position(slow.try_take()), Some(Err(Lagged)));
            assert_eq!(position(slow.try_take()), None);
            assert_eq!(kept(&backlog), (0, 0), "what only it had not taken is gone");
            backlog.put(event(9_999, 1));
            assert_eq!(position(slow.try_take()), Some(Ok(9_999)));
            assert_eq!(position(fast.try_take()), Some(Ok(9_999)));
        }
    }

    #[test]
    fn s7_one_event_above_the_limit_still_comes_and_a_lost_one_is_told() {
        let backlog = Backlog::new();
        let reader = backlog.subscribe();
        backlog.put(event(1, MOST_BYTES + 1));
        assert_eq!(position(reader.try_take()), Some(Ok(1)));
        backlog.lose();
        assert_eq!(position(reader.try_take()), Some(Err(Lagged)));
        backlog.put(event(2, 1));
        assert_eq!(position(reader.try_take()), Some(Ok(2)));
    }
}
