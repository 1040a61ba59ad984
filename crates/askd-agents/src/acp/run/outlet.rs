//! The way out of the proxy to one side: a queue of whole lines and a thread that writes them.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that may wait before whoever reads the other side has to wait too.
const MOST_WAITING: usize = 128 * 1024 * 1024;

enum Item {
    Line(Vec<u8>),
    /// Done when everything before it was written, and not at all when it could not be.
    Then(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "{} bytes", line.len()),
            Self::Then(_) => f.write_str("then"),
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Item>,
    bytes: usize,
    /// A line is being written.
    busy: bool,
    closing: bool,
    /// Closed, or the other end is gone: lines are dropped.
    over: bool,
}

/// Never blocks whoever pushes.
#[derive(Debug, Clone, Default)]
pub(super) struct Outlet(Arc<(Mutex<Queue>, Condvar)>);

impl Outlet {
    /// Starts the thread that writes to `file`.
    pub(super) fn start(name: &str, file: File) -> std::io::Result<Self> {
        let outlet = Self::default();
        let writer = outlet.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || writer.write_all(file))?;
        Ok(outlet)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, line: Vec<u8>) {
        let mut queue = self.queue();
        if queue.over || queue.closing {
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(Item::Line(line));
        self.0.1.notify_all();
    }

    /// Does something as soon as everything that was pushed before is written.
    pub(super) fn then(&self, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue();
        if !queue.over && !queue.closing {
            queue.lines.push_back(Item::Then(Box::new(work)));
            self.0.1.notify_all();
        }
    }

    /// Blocks while too much waits; for whoever reads the other side.
    pub(super) fn wait_for_room(&self) {
        let mut queue = self.queue();
        while queue.bytes > MOST_WAITING && !queue.over {
            queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes it behind what waits.
    pub(super) fn close(&self) {
        self.queue().closing = true;
        self.0.1.notify_all();
    }

    /// Waits until everything was written. False: not in time.
    pub(super) fn drain(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut queue = self.queue();
        while !queue.over && (queue.busy || !queue.lines.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.0.1.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn write_all(self, mut file: File) {
        loop {
            let mut queue = self.queue();
            let item = loop {
                if let Some(item) = queue.lines.pop_front() {
                    break item;
                }
                if queue.closing {
                    queue.over = true;
                    self.0.1.notify_all();
                    return;
                }
                queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            queue.busy = true;
            drop(queue);
            let (written, bytes) = match item {
                Item::Line(line) => (file.write_all(&line), line.len()),
                Item::Then(work) => {
                    work();
                    (Ok(()), 0)
                }
            };
            let mut queue = self.queue();
            queue.busy = false;
            queue.bytes = queue.bytes.saturating_sub(bytes);
            if written.is_err() {
                queue.over = true;
                queue.lines.clear();
                queue.bytes = 0;
            }
            self.0.1.notify_all();
            if queue.over {
                return;
            }
        }
    }
}
