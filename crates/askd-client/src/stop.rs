//! Ends a wait for an outcome from another thread.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use crate::asker::{OrStop, Wake, Watch};

/// A [`Stop`] and what ends the wait that it watches.
pub fn stop() -> io::Result<(Stopper, Stop)> {
    let (read, write) = io::pipe()?;
    Ok((Stopper(Arc::new(write)), Stop(read)))
}

/// Ends the wait when told so, or when the last clone of it is dropped. Once ended, every later wait ends at once.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<PipeWriter>);

impl Stopper {
    pub fn stop(&self) {
        // A full pipe and a reader that is gone both mean that it was told before.
        let _ = (&*self.0).write(&[1]);
    }
}

/// Waits for the daemon and for its [`Stopper`].
#[derive(Debug)]
pub struct Stop(PipeReader);

impl Stop {
    /// Whether it was told to stop.
    pub fn is_stopped(&mut self) -> bool {
        matches!(self.wait(None, Instant::now()), Ok(Wake::Stop))
    }
}

impl Watch for Stop {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        OrStop(self.0.as_fd()).wait(socket, until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wait(stop: &mut Stop, socket: Option<BorrowedFd<'_>>) -> Wake {
        stop.wait(socket, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn a_stop_is_seen_in_every_later_wait_and_before_the_socket() {
        let (stopper, mut stop) = stop().unwrap();
        let (socket, mut other) = io::pipe().unwrap();
        other.write_all(&[1]).unwrap();
        assert!(!stop.is_stopped());
        assert_eq!(wait(&mut stop, Some(socket.as_fd())), Wake::Readable);
        std::thread::spawn(move || stopper.stop()).join().unwrap();
        assert_eq!(wait(&mut stop, Some(socket.as_fd())), Wake::Stop);
        assert!(stop.is_stopped());
    }

    #[test]
    fn nobody_left_who_could_stop_it_is_a_stop() {
        let (stopper, mut stop) = stop().unwrap();
        let clone = stopper.clone();
        drop(stopper);
        assert!(!stop.is_stopped());
        drop(clone);
        assert_eq!(wait(&mut stop, None), Wake::Stop);
    }
}
