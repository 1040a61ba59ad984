//! The wrapper as a process: the agent as its child, a reader and a writer for each side, and the link to the daemon.
//! Readers lock the machine, which never waits for anything, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use askd_client::{Places, random_hex};
use askd_wire::Instance;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Action, End, HostKind, Machine, News, Settings};
use crate::foreground::terminal_has_sent_it;
use crate::proxy::clock::Due;
use crate::proxy::link::Link;
use crate::proxy::log::Log;
use crate::proxy::outlet::Outlet;
use crate::proxy::pipe::Patient;
use crate::proxy::{
    CHUNK, CannotStart, LAST_WORDS, LINGER, LOOK, exit_code, lock, next_line, private, spawn, widen,
};

/// What `askd claude` is started with.
pub struct Options {
    /// The agent's command line, not empty, with everything that makes it speak stream-json.
    pub command: Vec<OsString>,
    pub host: HostKind,
    pub places: Places,
    /// How long an ask waits for a daemon that never was there, with nobody else who could answer.
    pub unreached: Duration,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    /// Takes one line for standard error; it may block.
    pub log: fn(&str),
}

struct Wrapper {
    machine: Mutex<Machine>,
    link: Mutex<Option<Link>>,
    began: Duration,
    to_agent: Outlet,
    to_host: Outlet,
    /// Wakes the clock when something else is due.
    due: Due,
    agent: Pid,
    log: Log,
    /// Lines of the agent so far.
    heard: AtomicU64,
}

/// Runs the agent behind the wrapper until it ends; gives its exit status, 128 and the signal's number when a signal
/// ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let program = options.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    run_agent(options).map_err(|source| CannotStart { program, source })
}

fn run_agent(mut options: Options) -> io::Result<u8> {
    let mark = random_hex().map_err(io::Error::other)?;
    let token = random_hex().map_err(io::Error::other)?;
    let mut words = options.command.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Hooks of the agent raise nothing, and nothing below it may answer.
    command.env("ASKD_OWNER", format!("claude-{}", &mark[..8]));
    let mut child = command.spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipe to the agent"));
    };
    for pipe in [input.as_fd(), output.as_fd(), io::stdin().as_fd(), io::stdout().as_fd()] {
        widen(pipe);
    }
    let settings = Settings {
        mark,
        host: options.host,
        instance: Some(Instance { pid: child.id(), start: 0 }),
        cwd: std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned)),
        unreached: options.unreached,
    };
    let wrapper = Arc::new(Wrapper {
        machine: Mutex::new(Machine::new(settings)),
        link: Mutex::new(None),
        began: elapsed(),
        to_agent: Outlet::start("to-agent", File::from(OwnedFd::from(input)))?,
        to_host: Outlet::start("to-host", File::from(private(io::stdout())?))?,
        due: Due::default(),
        agent: Pid::from_child(&child),
        log: Log::start("askd claude", options.log)?,
        heard: AtomicU64::new(0),
    });
    // The host sees the end when the outlet closes: no other copy may stay open.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
    let hearing = Arc::clone(&wrapper);
    let sink = Arc::new(move |news: News| hearing.drive(|machine, now| machine.news(news, now)));
    *lock(&wrapper.link) = Some(Link::start(&options.places, options.exe.take(), token, sink)?);
    wrapper.forward_signals()?;
    let reading = Arc::clone(&wrapper);
    let (done, agent_is_done) = channel();
    spawn("from-agent", move || {
        reading.read_agent(output);
        let _ = done.send(());
    })?;
    let reading = Arc::clone(&wrapper);
    spawn("from-host", move || reading.read_host())?;
    let ticking = Arc::clone(&wrapper);
    spawn("clock", move || ticking.keep_time())?;

    let status = child.wait()?;
    // What it wrote last is still in the pipe.
    wrapper.hear_out(&agent_is_done);
    let end = if status.success() { End::Orderly } else { End::Lost };
    wrapper.drive(|machine, now| machine.agent_ended(end, now));
    let written = wrapper.to_host.drain(LAST_WORDS);
    let told = lock(&wrapper.link).take().is_none_or(|mut link| link.finish(LAST_WORDS));
    if !told {
        wrapper.say("not every answer of the host could be told to the askd daemon");
    }
    if !written {
        wrapper.say("the host did not read everything");
    }
    wrapper.log.finish(LAST_WORDS);
    Ok(exit_code(status))
}

/// A clock that goes on while the machine sleeps, as the daemon's for deadlines.
fn elapsed() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    let secs = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(secs, u32::try_from(now.tv_nsec).unwrap_or_default())
}

impl Wrapper {
    fn now(&self) -> Duration {
        elapsed().saturating_sub(self.began)
    }

    fn say(&self, text: &str) {
        self.log.say(format!("askd claude: {text}"));
    }

    /// Gives something to the machine and does what it wants done. Never blocks for long.
    fn drive(&self, give: impl FnOnce(&mut Machine, Duration)) {
        let mut machine = lock(&self.machine);
        give(&mut machine, self.now());
        // Under the lock, so that lines go out in the order in which the machine gave them.
        for action in machine.take() {
            self.act(action);
        }
        let next = machine.next_tick();
        self.due.publish(machine, next);
    }

    fn act(&self, action: Action) {
        match action {
            Action::ToAgent(line) => self.to_agent.push(line),
            Action::ToHost(line) => self.to_host.push(line),
            Action::Log(text) => self.say(&text),
            Action::CloseAgent => {
                self.to_agent.close();
                self.end_lingering();
            }
            Action::Handed { ask } => {
                let handle = lock(&self.link).as_ref().and_then(|link| link.handle(ask));
                if let Some(handle) = handle {
                    self.to_agent.then(move || handle.handed());
                }
            }
            Action::Daemon(errand) => {
                let failed = lock(&self.link).as_mut().and_then(|link| link.take(errand));
                if let Some(text) = failed {
                    self.say(&text);
                }
            }
        }
    }

    fn read_agent(&self, output: impl Read) {
        let mut output = BufReader::with_capacity(CHUNK, output);
        loop {
            self.to_host.wait_for_room();
            match next_line(&mut output) {
                Ok(Some(line)) => {
                    self.heard.fetch_add(1, Ordering::Relaxed);
                    self.drive(|machine, now| machine.agent_line(line, now));
                }
                Ok(None) => break,
                Err(error) => {
                    self.say(&format!("reading the agent: {error}"));
                    break;
                }
            }
        }
        // The agent may live on; the host sees that it says nothing more.
        self.to_host.close();
    }

    /// What the ended agent wrote last is read, as long as there is more of it or the host is slow. A process that it
    /// left behind may hold the pipe open for ever.
    fn hear_out(&self, done: &Receiver<()>) {
        loop {
            let heard = self.heard.load(Ordering::Relaxed);
            match done.recv_timeout(LAST_WORDS) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let goes_on = self.to_host.is_full() || self.heard.load(Ordering::Relaxed) != heard;
            if !goes_on || self.to_host.is_hurried() {
                return;
            }
        }
    }

    fn read_host(&self) {
        if let Ok(input) = private(io::stdin()).map(File::from) {
            let mut input = BufReader::with_capacity(CHUNK, Patient(Arc::new(input)));
            loop {
                self.to_agent.wait_for_room();
                match next_line(&mut input) {
                    Ok(Some(line)) => self.drive(|machine, now| machine.host_line(line, now)),
                    Ok(None) => break,
                    Err(error) => {
                        self.say(&format!("reading the host: {error}"));
                        break;
                    }
                }
            }
        }
        self.drive(|machine, now| machine.host_closed(now));
    }

    fn keep_time(&self) {
        loop {
            self.due.wait(|| self.now());
            self.drive(|machine, now| machine.tick(now));
        }
    }

    /// An agent that does not end by itself when its input was closed would live for ever with nobody at it. As long as
    /// somebody reads what it writes, somebody is at it.
    fn end_lingering(&self) {
        let (agent, to_host) = (self.agent, self.to_host.clone());
        let _ = spawn("linger", move || {
            while !to_host.is_deserted() {
                std::thread::sleep(LOOK);
            }
            std::thread::sleep(LINGER);
            // The wrapper ends with the agent, so it is still there when this thread is.
            let _ = kill_process(agent, Signal::TERM);
        });
    }

    fn forward_signals(self: &Arc<Self>) -> io::Result<()> {
        for (number, signal) in [(SIGTERM, Signal::TERM), (SIGINT, Signal::INT), (SIGHUP, Signal::HUP)] {
            let (mut read, write) = io::pipe()?;
            signal_hook::low_level::pipe::register(number, OwnedFd::from(write))?;
            let wrapper = Arc::clone(self);
            spawn("signal", move || {
                while matches!(read.read(&mut [0]), Ok(1)) {
                    // Before the agent hears of it.
                    wrapper.drive(|machine, now| machine.signalled(now));
                    if !(signal == Signal::INT && terminal_has_sent_it()) {
                        let _ = kill_process(wrapper.agent, signal);
                    }
                    wrapper.to_host.hurry();
                }
            })?;
        }
        Ok(())
    }
}
