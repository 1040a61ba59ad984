//! The calls that are open, by the id that the client gave them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use askd_client::{Stop, Stopper, stop};

/// What a call's thread hears after it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The client does not want the result any more.
    Cancelled,
    /// The result's line was written.
    Written,
    /// It could not be written: the client has gone.
    Lost,
}

/// How long the threads may take to tell the daemon what became of their asks, when the client has gone.
const LAST_WORDS: Duration = Duration::from_secs(3);

#[derive(Debug, Default, Clone)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    book: Mutex<Book>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    open: HashMap<String, Entry>,
    /// Inputs as they came, for calls that rmcp has not handed over yet.
    inputs: HashMap<String, String>,
    /// Threads that have something to do or to tell.
    busy: usize,
}

#[derive(Debug)]
struct Entry {
    said: Sender<Said>,
    stopper: Stopper,
}

/// A call's own end.
pub(crate) struct Heard {
    pub(crate) said: Receiver<Said>,
    pub(crate) stop: Stop,
    _busy: Busy,
}

struct Busy(Calls);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.0.changed.notify_all();
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the input of a call until its handler takes it. False: a call with this id is under way.
    pub(crate) fn keep_input(&self, id: &str, input: String) -> bool {
        let mut book = self.lock();
        if book.open.contains_key(id) || book.inputs.contains_key(id) {
            return false;
        }
        book.inputs.insert(id.to_owned(), input);
        true
    }

    /// No handler will take it.
    pub(crate) fn forget_input(&self, id: &str) {
        self.lock().inputs.remove(id);
    }

    /// A call begins; gives its input too. None when it was cancelled before, or has no input.
    pub(crate) fn begin(&self, id: &str) -> std::io::Result<Option<(Heard, String)>> {
        let (stopper, stopped) = stop()?;
        let (said, heard) = channel();
        // In one step with taking the input: a cancel finds either the input or the open call.
        let mut book = self.lock();
        if book.open.contains_key(id) {
            return Ok(None);
        }
        let Some(input) = book.inputs.remove(id) else { return Ok(None) };
        book.open.insert(id.to_owned(), Entry { said, stopper });
        book.busy += 1;
        Ok(Some((Heard { said: heard, stop: stopped, _busy: Busy(self.clone()) }, input)))
    }

    /// The client cancelled the request with this id; one that is not open is none of ours, or was answered.
    pub(crate) fn cancel(&self, id: &str) {
        self.lock().inputs.remove(id);
        self.end(id, Said::Cancelled);
    }

    /// The response to this id was written, or could not be.
    pub(crate) fn responded(&self, id: &str, said: Said) {
        self.end(id, said);
    }

    fn end(&self, id: &str, what: Said) {
        if let Some(entry) = self.lock().open.remove(id) {
            let _ = entry.said.send(what);
            if what != Said::Written {
                entry.stopper.stop();
            }
        }
        self.0.changed.notify_all();
    }

    pub(crate) fn any_open(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// Lets go of what is still open, and waits a little for what the threads have to tell.
    pub(crate) fn finish(&self) {
        let ids: Vec<String> = self.lock().open.keys().cloned().collect();
        for id in ids {
            self.end(&id, Said::Lost);
        }
        let until = Instant::now() + LAST_WORDS;
        let mut book = self.lock();
        while book.busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            book = self.0.changed.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(calls: &Calls, id: &str) -> Heard {
        assert!(calls.keep_input(id, "{}".to_owned()));
        calls.begin(id).unwrap().unwrap().0
    }

    #[test]
    fn c6_a_cancel_that_overtakes_its_call_is_not_forgotten() {
        let calls = Calls::default();
        assert!(calls.keep_input("1", "{}".to_owned()));
        calls.cancel("1");
        assert!(calls.begin("1").unwrap().is_none() && !calls.any_open());
    }

    #[test]
    fn c5_an_unknown_and_a_second_cancel_change_nothing() {
        let calls = Calls::default();
        let mut one = begin(&calls, "1");
        let mut two = begin(&calls, "2");
        assert!(!calls.keep_input("1", "{}".to_owned()), "an id is one call");
        calls.cancel("7");
        assert!(!one.stop.is_stopped() && !two.stop.is_stopped());
        calls.cancel("1");
        calls.cancel("1");
        calls.responded("1", Said::Written);
        assert_eq!(one.said.try_iter().collect::<Vec<_>>(), [Said::Cancelled]);
        assert!(one.stop.is_stopped() && !two.stop.is_stopped());
        assert!(calls.any_open());
        calls.responded("2", Said::Written);
        assert!(!calls.any_open());
    }

    #[test]
    fn the_end_waits_for_what_threads_have_to_tell() {
        let calls = Calls::default();
        let mut heard = begin(&calls, "1");
        let (told, tell) = channel();
        let thread = std::thread::spawn(move || {
            assert_eq!(heard.said.recv(), Ok(Said::Lost));
            assert!(heard.stop.is_stopped());
            told.send(()).unwrap();
        });
        calls.finish();
        assert_eq!(tell.try_recv(), Ok(()));
        thread.join().unwrap();
    }
}
