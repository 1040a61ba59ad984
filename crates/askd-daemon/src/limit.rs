//! Time limits on requests that are hardly ever reached, many of them with one timer.
//!
//! Each limit with a timer of its own would be set and taken back for every request, and the runtime wakes itself when one
//! is set that comes before all others. Limits that end within the same few seconds share one: they may end that much later.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// How much later than it was set a limit may end.
const LATEST: Duration = Duration::from_secs(5);

/// Where limits are set; cheap to clone. It is used within a runtime.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits(Arc<Mutex<Option<Arc<Round>>>>);

/// Limits that end together.
#[derive(Debug)]
struct Round {
    at: Instant,
    is_over: AtomicBool,
    over: Arc<Notify>,
}

impl Limits {
    /// The round in which a limit of this moment ends.
    fn round(&self, limit: Instant) -> Arc<Round> {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(round) = newest.as_ref().filter(|round| (limit..=limit + LATEST).contains(&round.at)) {
            return Arc::clone(round);
        }
        let over = Arc::new(Notify::new());
        let round = Arc::new(Round { at: limit + LATEST, is_over: AtomicBool::new(false), over });
        *newest = Some(Arc::clone(&round));
        let this = Arc::clone(&round);
        tokio::spawn(async move {
            tokio::time::sleep_until(this.at.into()).await;
            this.is_over.store(true, Ordering::Release);
            this.over.notify_waiters();
        });
        round
    }
}

impl Timer for Limits {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let round = self.round(deadline);
        let told = Arc::clone(&round.over).notified_owned();
        Box::pin(Limit { round, told: Box::pin(told) })
    }
}

struct Limit {
    round: Arc<Round>,
    told: Pin<Box<OwnedNotified>>,
}

impl Future for Limit {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // In this order: what is over after the look is told.
        if self.told.as_mut().poll(context).is_ready() || self.round.is_over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Sleep for Limit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn limits_of_the_same_seconds_share_a_round_that_is_never_early() {
        let limits = Limits::default();
        let now = Instant::now();
        let at = |secs| now + Duration::from_secs(secs);
        let first = limits.round(at(30));
        for secs in [30, 31, 35] {
            assert!(Arc::ptr_eq(&first, &limits.round(at(secs))), "{secs}");
        }
        for secs in [36, 90, 10] {
            let other = limits.round(at(secs));
            assert!(
                !Arc::ptr_eq(&first, &other) && other.at >= at(secs) && other.at <= at(secs) + LATEST,
                "{secs}"
            );
        }
    }

    #[tokio::test]
    async fn all_limits_of_a_round_end_also_one_that_is_waited_for_late() {
        let limits = Limits::default();
        let start = Instant::now();
        // Its round is over at once.
        let past = start.checked_sub(LATEST).unwrap();
        let (one, other) = (limits.sleep_until(past), limits.sleep_until(past));
        drop(limits.sleep_until(past));
        one.await;
        other.await;
        let late = limits.sleep_until(past);
        limits.round(past).over.notify_waiters();
        late.await;
        // One in the future ends as well, and not before its time.
        limits.sleep(Duration::from_millis(1)).await;
        assert!(start.elapsed() >= Duration::from_millis(1));
    }
}
