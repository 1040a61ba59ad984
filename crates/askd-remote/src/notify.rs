//! `notify.command`: a command that is run for every new ask, with the ask as JSON on its standard input, secrets
//! covered. It tells somebody; what it prints and how it ends decides nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Child, Command as Process, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use askd_wire::Ask;
use askd_words as words;
use serde_json::Value;

use crate::surface::{About, Back, Hands, Now, Out, Reply, Surface, Told};

/// A command that takes longer is ended, so that those of later asks get their turn.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
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

/// Runs the command, one after the other.
#[derive(Debug)]
pub(crate) struct Command {
    jobs: Option<SyncSender<String>>,
}

impl Command {
    /// `line`: for the shell. `hidden`: a variable that it does not get.
    pub(crate) fn new(line: &str, hidden: &str) -> Self {
        let (sender, jobs) = sync_channel(MOST_WAITING);
        let (line, hidden) = (line.to_owned(), hidden.to_owned());
        let thread = thread::Builder::new().name("notify".to_owned());
        let jobs = thread.spawn(move || work(&line, &hidden, &jobs)).ok().map(|_| sender);
        Self { jobs }
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

fn work(line: &str, hidden: &str, jobs: &Receiver<String>) {
    while let Ok(ask) = jobs.recv() {
        if let Err(why) = run(line, hidden, ask) {
            tracing::warn!("notify.command: {why}");
        }
    }
}

fn run(line: &str, hidden: &str, ask: String) -> Result<(), String> {
    let mut shell = Process::new("/bin/sh");
    shell.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if !hidden.is_empty() {
        shell.env_remove(hidden);
    }
    let mut child = shell.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Beside it, as a command may never read. One that does not want it closes its end.
        thread::spawn(move || {
            let _ = stdin.write_all(ask.as_bytes());
            let _ = stdin.write_all(b"\n");
        });
    }
    wait(&mut child)
}

fn wait(child: &mut Child) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if Instant::now() < end => thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s and was ended", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}
