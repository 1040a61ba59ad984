//! What is due next, for the thread that keeps the time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::lock;

/// The wait itself may stand still while the machine sleeps; what is due then is late by no more than this.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// A clock that goes on while the machine sleeps, as the daemon's for deadlines.
pub(super) fn elapsed() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    let secs = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(secs, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The moment at which something is due, on the clock of the proxy.
#[derive(Debug, Default)]
pub(crate) struct Due(Mutex<Option<Duration>>, Condvar);

impl Due {
    /// Says what is due next according to the guarded state. The guard is kept until it is said, so that no older
    /// word of another thread comes after it.
    pub(crate) fn publish<T>(&self, state: MutexGuard<'_, T>, next: Option<Duration>) {
        let mut due = lock(&self.0);
        drop(state);
        if *due != next {
            *due = next;
            self.1.notify_all();
        }
    }

    /// Waits until something is due. `now` reads the clock.
    pub(crate) fn wait(&self, now: impl Fn() -> Duration) {
        let mut due = lock(&self.0);
        loop {
            due = match *due {
                None => self.1.wait(due).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_sub(now());
                    if left.is_zero() {
                        *due = None;
                        return;
                    }
                    self.1.wait_timeout(due, left.min(LONGEST_WAIT)).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn nobody_changes_the_state_before_what_is_due_by_it_is_said() {
        let (due, state) = (Arc::new(Due::default()), Arc::new(Mutex::new(())));
        let publishing = Arc::new(AtomicBool::new(false));
        let slow = lock(&due.0);
        let other = {
            let (due, state, publishing) = (Arc::clone(&due), Arc::clone(&state), Arc::clone(&publishing));
            std::thread::spawn(move || {
                let guard = lock(&state);
                publishing.store(true, Ordering::SeqCst);
                due.publish(guard, None);
            })
        };
        while !publishing.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            assert!(state.try_lock().is_err(), "the state is free, and its deadline is not known yet");
            std::thread::yield_now();
        }
        drop(slow);
        other.join().unwrap();
        due.publish(lock(&state), Some(Duration::from_secs(5)));
        due.wait(|| Duration::from_secs(5));
        assert_eq!(*lock(&due.0), None);
    }
}
