//! An ask as a future, for hosts with a runtime of their own. No runtime is needed: the wait is a thread's.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use askd_wire::{Ask, AskState, RaiseAsk};

use crate::error::Unavailable;
use crate::port::AskPort;
use crate::stop::{Stop, Stopper, stop};
use crate::withdraw::take_back;

/// An ask that is under way. Awaiting it gives what [`AskPort::ask`] gives. Dropping it detaches: the ask stays open for
/// its grace, and the same ask raised again comes back to it. Only [`PendingAsk::cancel`] withdraws it.
#[derive(Debug)]
pub struct PendingAsk {
    shared: Arc<Shared>,
    stopper: Stopper,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    result: Option<Result<Ask, Unavailable>>,
    waker: Option<Waker>,
    end: Option<End>,
}

/// What became of the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Taken,
    Dropped,
    Cancelled,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, how: End) {
        let mut inner = self.lock();
        inner.end.get_or_insert(how);
        self.changed.notify_all();
    }
}

impl PendingAsk {
    /// Raises the ask on a thread of its own.
    pub fn start(port: impl AskPort + Send + 'static, raise: RaiseAsk) -> io::Result<Self> {
        let (stopper, stopped) = stop()?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("ask".to_owned())
            .stack_size(512 * 1024)
            .spawn(move || wait(port, &raise, stopped, &theirs))?;
        Ok(Self { shared, stopper })
    }

    /// Takes the ask back: nobody decides it any more. An allow that was given and not taken yet is void. A daemon that
    /// is away is told when it comes back, as long as this process lives.
    pub fn cancel(self) {
        self.shared.end(End::Cancelled);
    }
}

impl Future for PendingAsk {
    type Output = Result<Ask, Unavailable>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.shared.lock();
        match inner.result.take() {
            Some(result) => {
                inner.end.get_or_insert(End::Taken);
                self.shared.changed.notify_all();
                Poll::Ready(result)
            }
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for PendingAsk {
    fn drop(&mut self) {
        self.shared.end(End::Dropped);
        self.stopper.stop();
    }
}

fn wait(mut port: impl AskPort, raise: &RaiseAsk, mut stopped: Stop, shared: &Shared) {
    let result = port.ask_watched(raise, &mut stopped);
    let decided = result.as_ref().ok().filter(|ask| ask.state == AskState::Settled).map(|ask| ask.id.clone());
    let mut inner = shared.lock();
    inner.result = Some(result);
    if let Some(waker) = inner.waker.take() {
        waker.wake();
    }
    // Nothing is handed over before somebody took it.
    let end = loop {
        match inner.end {
            Some(end) => break end,
            None => inner = shared.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
        }
    };
    drop(inner);
    match (end, decided) {
        // Both are facts that the log wants; the outcome counts without them.
        (End::Taken, Some(id)) => drop(port.handed(&id)),
        (End::Cancelled, _) => drop(take_back(&mut port, raise, "cancelled")),
        (End::Taken, None) | (End::Dropped, _) => {}
    }
}
