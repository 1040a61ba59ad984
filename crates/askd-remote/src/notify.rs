//! `notify.command`: a command that is run for every new ask, with the ask as JSON on its standard input, secrets
//! covered. It tells somebody; what it prints and how it ends decides nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use askd_config::Group;
use askd_wire::Ask;
use askd_words as words;
use serde_json::Value;

use crate::surface::{About, Back, Hands, Now, Out, Reply, Surface, Told};

/// A command that takes longer is ended, so that those of later asks get their turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// Asks that wait for their command; of more nobody is told one by one.
const MOST_WAITING: usize = 100;

/// Tells of each open ask once.
#[derive(Debug, Default)]
pub struct Notify {
    told: BTreeSet<String>,
}

impl Notify {
    fn tell(&mut self, ask: &Ask, out: &mut Out<String>) {
        if words::is_answerable(ask) && self.told.insert(ask.id.clone()) {
            out.deed(serde_json::to_string(ask).unwrap_or_default());
        }
    }
}

impl Surface for Notify {
    type Heard = ();
    /// The ask as JSON.
    type Deed = String;

    fn about(&self) -> About {
        About { name: "notify.command", capacity: None, onlooker: true }
    }

    fn begin(&mut self, _kept: Option<Value>, asks: Vec<Ask>, _now: Now, out: &mut Out<String>) {
        self.told.retain(|id| asks.iter().any(|ask| ask.id == *id));
        asks.iter().for_each(|ask| self.tell(ask, out));
    }

    fn show(&mut self, ask: Ask, _now: Now, out: &mut Out<String>) {
        self.tell(&ask, out);
    }

    fn update(&mut self, ask: Ask, _what: &str, _now: Now, _out: &mut Out<String>) {
        if !words::is_answerable(&ask) {
            self.told.remove(&ask.id);
        }
    }

    fn replied(&mut self, _reply: Reply, _now: Now, _out: &mut Out<String>) {}

    fn heard(&mut self, _heard: (), _now: Now, _out: &mut Out<String>) {}

    fn told(&mut self, _told: Told, _now: Now, _out: &mut Out<String>) {}

    fn due(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _now: Now, _out: &mut Out<String>) {}
}

/// Runs the command, one after the other. When it is dropped the one that runs is ended.
#[derive(Debug)]
pub(crate) struct Command {
    jobs: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Command {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.jobs = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Command {
    /// `line`: for the shell. `hidden`: a variable that it does not get.
    pub(crate) fn new(line: &str, hidden: &str) -> Self {
        let (sender, jobs) = sync_channel(MOST_WAITING);
        let (line, hidden) = (line.to_owned(), hidden.to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("notify".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || work(&line, &hidden, &jobs, &stop)
        });
        let thread = thread.ok();
        Self { jobs: thread.is_some().then_some(sender), thread, stop }
    }
}

impl Hands<Notify> for Command {
    fn act(&mut self, deed: String, _back: &Back<()>) {
        let given = self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(deed).is_ok());
        if !given {
            tracing::warn!("notify.command: more than {MOST_WAITING} asks wait for it; this one is left out");
        }
    }
}

fn work(line: &str, hidden: &str, jobs: &Receiver<String>, stop: &AtomicBool) {
    while let Ok(ask) = jobs.recv() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        if let Err(why) = run(line, hidden, ask, PATIENCE, stop) {
            tracing::warn!("notify.command: {why}");
        }
    }
}

fn run(line: &str, hidden: &str, ask: String, patience: Duration, stop: &AtomicBool) -> Result<(), String> {
    let set = |shell: &mut Process| {
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        if !hidden.is_empty() {
            shell.env_remove(hidden);
        }
    };
    let mut group = Group::run(line, set).map_err(|error| format!("cannot be started: {error}"))?;
    if let Some(mut stdin) = group.shell().stdin.take() {
        // Beside it, as a command may never read. One that does not want it closes its end.
        thread::spawn(move || {
            let _ = stdin.write_all(ask.as_bytes());
            let _ = stdin.write_all(b"\n");
        });
    }
    group.wait(patience, stop).map_err(|why| why.to_string())?;
    // A notification that it sends beside itself is not cut off.
    group.leave();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_command_that_hangs_or_fails_is_ended_with_everything_it_started() {
        // Each of them holds the pipe until it ends.
        let (mut held, keep) = std::io::pipe().unwrap();
        rustix::io::fcntl_setfd(&keep, rustix::io::FdFlags::empty()).unwrap();
        let line = "(sleep 3600 | cat) & sleep 3600 | (sleep 3600; cat)";
        // More than a pipe holds: whoever writes it is not left behind either.
        let ask = "x".repeat(1 << 20);
        let ended = run(line, "", ask.clone(), Duration::from_millis(100), &AtomicBool::new(false));
        assert!(ended.unwrap_err().contains("was ended"));
        let stopped = run(line, "", ask, Duration::from_secs(3600), &AtomicBool::new(true));
        assert!(stopped.unwrap_err().contains("not wanted"));
        let failed = run("sleep 3600 & exit 1", "", String::new(), PATIENCE, &AtomicBool::new(false));
        assert!(failed.unwrap_err().contains("exit status: 1"));
        drop(keep);
        // This would never come back.
        let mut rest = Vec::new();
        assert_eq!(held.read_to_end(&mut rest).unwrap(), 0);
    }
}
