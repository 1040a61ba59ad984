//! Lines for standard error, written by a thread of their own: a reader that is slow or stuck stops nobody.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that may wait; more are dropped and counted.
const MOST_LINES: usize = 256;

/// Never blocks whoever says something.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    lines: SyncSender<Line>,
    dropped: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Line {
    Text(String),
    /// Everything before it is written.
    Done(SyncSender<()>),
}

impl Log {
    /// `write` takes one line, and may block. `name`: whose lines they are.
    pub(crate) fn start(name: &'static str, write: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let (lines, received) = sync_channel(MOST_LINES);
        let dropped = Arc::new(AtomicUsize::new(0));
        let lost = Arc::clone(&dropped);
        super::spawn("log", move || write_all(name, &received, &lost, write))?;
        Ok(Self { lines, dropped })
    }

    pub(crate) fn say(&self, text: String) {
        if self.lines.try_send(Line::Text(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was said is written, if it is in time.
    pub(crate) fn finish(&self, patience: Duration) {
        let (done, is_done) = sync_channel(1);
        // With a full queue nobody reads.
        if self.lines.try_send(Line::Done(done)).is_ok() {
            let _ = is_done.recv_timeout(patience);
        }
    }
}

fn write_all(name: &str, lines: &Receiver<Line>, dropped: &AtomicUsize, write: impl Fn(&str)) {
    for line in lines {
        match line {
            Line::Text(text) => write(&text),
            Line::Done(done) => {
                let _ = done.send(());
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            write(&format!("{name}: {lost} lines were dropped, as nobody read them"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_stuck_reader_stops_nobody() {
        let stuck = Arc::new(Mutex::new(()));
        let written = Arc::new(Mutex::new(Vec::new()));
        let held = stuck.lock().unwrap();
        let log = {
            let (stuck, written) = (Arc::clone(&stuck), Arc::clone(&written));
            Log::start("askd acp", move |text| {
                drop(stuck.lock().unwrap());
                written.lock().unwrap().push(text.to_owned());
            })
            .unwrap()
        };
        for number in 0..2 * MOST_LINES {
            log.say(number.to_string());
        }
        drop(held);
        // A queue that is full takes no mark either.
        while written.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        log.finish(Duration::from_secs(60));
        let written = written.lock().unwrap();
        assert_eq!(written[0], "0");
        assert!(written.iter().any(|line| line.contains("lines were dropped")), "{written:?}");
    }
}
