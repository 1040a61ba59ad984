//! The way out of the proxy to one side: a queue of whole lines and a thread that writes them.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lock;
use super::pipe::{Patient, is_deserted};

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
    /// The last line that was pushed has no end: its sender ended within it, and only our own lines can follow.
    unended: bool,
    /// Somebody wants us to end: what is not written soon is not written.
    hurried: bool,
    /// What is written to, as long as it is open.
    file: Option<Arc<File>>,
}

/// Never blocks whoever pushes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlet(Arc<(Mutex<Queue>, Condvar)>);

impl Outlet {
    /// Starts the thread that writes to `file`.
    pub(crate) fn start(name: &str, file: File) -> std::io::Result<Self> {
        let file = Arc::new(file);
        let outlet = Self::default();
        outlet.queue().file = Some(Arc::clone(&file));
        let writer = outlet.clone();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || writer.write_all(file))?;
        Ok(outlet)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.0.0)
    }

    pub(crate) fn push(&self, mut line: Vec<u8>) {
        let mut queue = self.queue();
        if queue.over || queue.closing || line.is_empty() {
            return;
        }
        if queue.unended {
            line.insert(0, b'\n');
        }
        queue.unended = !line.ends_with(b"\n");
        queue.bytes += line.len();
        queue.lines.push_back(Item::Line(line));
        self.0.1.notify_all();
    }

    /// Does something as soon as everything that was pushed before is written.
    pub(crate) fn then(&self, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue();
        if !queue.over && !queue.closing {
            queue.lines.push_back(Item::Then(Box::new(work)));
            self.0.1.notify_all();
        }
    }

    /// Blocks while too much waits; for whoever reads the other side.
    pub(crate) fn wait_for_room(&self) {
        let mut queue = self.queue();
        while queue.bytes > MOST_WAITING && !queue.over {
            queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes it behind what waits.
    pub(crate) fn close(&self) {
        self.queue().closing = true;
        self.0.1.notify_all();
    }

    /// Too much waits for the other end to read.
    pub(crate) fn is_full(&self) -> bool {
        self.queue().bytes > MOST_WAITING
    }

    /// Nobody reads any more what is written here.
    pub(crate) fn is_deserted(&self) -> bool {
        let file = self.queue().file.clone();
        file.is_none_or(|file| is_deserted(file.as_fd()))
    }

    /// From now on [`Self::drain`] waits for its patience only.
    pub(crate) fn hurry(&self) {
        self.queue().hurried = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.queue().hurried
    }

    /// Waits until everything was written or nobody reads any more, for `patience` at most when it is hurried. False:
    /// not in time.
    pub(crate) fn drain(&self, patience: Duration) -> bool {
        let mut until = None;
        let mut queue = self.queue();
        while !queue.over && (queue.busy || !queue.lines.is_empty()) {
            if !queue.hurried {
                queue = self.0.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.0.1.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn write_all(self, file: Arc<File>) {
        let mut file = Patient(file);
        loop {
            let mut queue = self.queue();
            let item = loop {
                if let Some(item) = queue.lines.pop_front() {
                    break item;
                }
                if queue.closing {
                    queue.over = true;
                    queue.file = None;
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
                queue.file = None;
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

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};
    use std::os::fd::OwnedFd;

    use super::*;

    fn outlet() -> (Outlet, PipeReader) {
        let (read, write) = std::io::pipe().unwrap();
        (Outlet::start("test", File::from(OwnedFd::from(write))).unwrap(), read)
    }

    #[test]
    fn a13_a_line_of_ours_does_not_run_into_one_without_an_end() {
        let (outlet, mut read) = outlet();
        for line in ["{}\n", "cut", "ours\n", "more\n"] {
            outlet.push(line.as_bytes().to_vec());
        }
        outlet.close();
        let mut all = String::new();
        read.read_to_string(&mut all).unwrap();
        assert_eq!(all, "{}\ncut\nours\nmore\n");
    }

    #[test]
    fn a13_a_slow_reader_gets_everything_unless_somebody_hurries() {
        let much = vec![b'x'; 1 << 20];
        let (outlet, mut read) = outlet();
        outlet.push(much.clone());
        let waiting = outlet.clone();
        let drained = std::thread::spawn(move || waiting.drain(Duration::ZERO));
        let mut first = [0; 100_000];
        read.read_exact(&mut first).unwrap();
        assert!(!drained.is_finished());
        let mut rest = vec![0; much.len() - first.len()];
        read.read_exact(&mut rest).unwrap();
        assert!(drained.join().unwrap());
        outlet.push(much.clone());
        outlet.hurry();
        assert!(!outlet.drain(Duration::ZERO));
        assert!(!outlet.is_deserted());
        drop(read);
        assert!(outlet.drain(Duration::from_secs(60)));
        assert!(outlet.is_deserted());
    }
}
