//! The proxy as a process: the agent as its child, a reader and a writer for each side, and the link to the daemon.
//! Readers lock the machine, which never waits for anything, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use askd_client::{Places, random_hex};
use askd_wire::Instance;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Action, Dismiss, Machine, News, Settings};
use crate::foreground::terminal_has_sent_it;
use crate::hidden::{HiddenAdapter, HiddenError, HiddenEvent, HiddenOption, HiddenReply, HiddenSource};
use crate::proxy::clock::Due;
use crate::proxy::link::Link;
use crate::proxy::log::Log;
use crate::proxy::outlet::Outlet;
use crate::proxy::pipe::Patient;
use crate::proxy::{
    self, CHUNK, CannotStart, LAST_WORDS, LINGER, LOOK, exit_code, lock, next_line, private, spawn, widen,
};

/// Between two attempts to tell the agent's server an answer.
const BETWEEN_REPLIES: Duration = Duration::from_secs(2);

/// What `askd acp` is started with.
pub struct Options {
    /// The agent's command line, not empty.
    pub command: Vec<OsString>,
    pub places: Places,
    /// The askd program that may be started as the daemon.
    pub exe: Option<PathBuf>,
    pub dismiss: Dismiss,
    pub grace: Duration,
    pub translate: bool,
    /// For agents that keep asks to themselves.
    pub adapter: Option<Box<dyn HiddenAdapter>>,
    /// Takes one line for standard error; it may block.
    pub log: fn(&str),
}

/// A line protocol as a pure machine, for [`serve`]: input with the time since the start, output as [`Action`]s.
pub(crate) trait Protocol: Send + 'static {
    fn client_line(&mut self, line: Vec<u8>, now: Duration);
    fn agent_line(&mut self, line: Vec<u8>, now: Duration);
    fn news(&mut self, news: News, now: Duration);
    fn client_closed(&mut self, now: Duration);
    fn agent_closed(&mut self, now: Duration);
    fn tick(&mut self, now: Duration);
    /// When [`Self::tick`] has something to do.
    fn next_tick(&self) -> Option<Duration>;
    /// What is to be done now, in order.
    fn take(&mut self) -> Vec<Action>;
    fn hidden(&mut self, _event: HiddenEvent, _now: Duration) {}
    fn set_hidden_options(&mut self, _options: &'static [HiddenOption]) {}
}

impl Protocol for Machine {
    fn client_line(&mut self, line: Vec<u8>, now: Duration) {
        Self::client_line(self, line, now);
    }

    fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        Self::agent_line(self, line, now);
    }

    fn news(&mut self, news: News, now: Duration) {
        Self::news(self, news, now);
    }

    fn client_closed(&mut self, now: Duration) {
        Self::client_closed(self, now);
    }

    fn agent_closed(&mut self, now: Duration) {
        Self::agent_closed(self, now);
    }

    fn tick(&mut self, now: Duration) {
        Self::tick(self, now);
    }

    fn next_tick(&self) -> Option<Duration> {
        Self::next_tick(self)
    }

    fn take(&mut self) -> Vec<Action> {
        Self::take(self)
    }

    fn hidden(&mut self, event: HiddenEvent, now: Duration) {
        Self::hidden(self, event, now);
    }

    fn set_hidden_options(&mut self, options: &'static [HiddenOption]) {
        Self::set_hidden_options(self, options);
    }
}

/// What a proxy of any protocol is started with.
pub(crate) struct Start {
    /// What its lines on standard error begin with, e.g. `askd acp`.
    pub(crate) name: &'static str,
    /// The agent's program and arguments; its input and output become the proxy's.
    pub(crate) command: Command,
    pub(crate) places: Places,
    pub(crate) exe: Option<PathBuf>,
    pub(crate) adapter: Option<Box<dyn HiddenAdapter>>,
    pub(crate) log: fn(&str),
}

struct Proxy<M> {
    name: &'static str,
    /// For threads that tell it something later.
    own: Weak<Self>,
    machine: Mutex<M>,
    link: Mutex<Option<Link>>,
    began: Instant,
    to_agent: Outlet,
    to_client: Outlet,
    /// Wakes the clock when something else is due.
    due: Due,
    agent: Pid,
    hidden: OnceLock<Arc<dyn HiddenSource>>,
    log: Log,
    /// Lines of the agent so far.
    heard: AtomicU64,
}

/// Runs the agent behind the proxy until it ends; gives its exit status, 128 and the signal's number when a signal
/// ended it.
pub fn run(options: Options) -> Result<u8, CannotStart> {
    let program = options.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    run_agent(options).map_err(|source| CannotStart { program, source })
}

fn run_agent(options: Options) -> io::Result<u8> {
    let mark = random_hex().map_err(io::Error::other)?;
    let mut words = options.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words);
    // Hooks of the agent raise nothing, and nothing below it may answer.
    command.env("ASKD_OWNER", format!("acp-{}", &mark[..8]));
    let (dismiss, grace, translate) = (options.dismiss, options.grace, options.translate);
    let start = Start {
        name: "askd acp",
        command,
        places: options.places,
        exe: options.exe,
        adapter: options.adapter,
        log: options.log,
    };
    serve(start, |instance| {
        let agent = PathBuf::from(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Machine::new(Settings { dismiss, grace, translate, mark, agent, instance: Some(instance) })
    })
}

/// Runs an agent behind a proxy of this protocol until it ends; gives its exit status, 128 and the signal's number when
/// a signal ended it.
pub(crate) fn serve<M: Protocol>(start: Start, machine: impl FnOnce(Instance) -> M) -> io::Result<u8> {
    let Start { name, mut command, places, exe, mut adapter, log } = start;
    let token = random_hex().map_err(io::Error::other)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(adapter) = &mut adapter {
        adapter.prepare(&mut command);
    }
    let mut child = command.spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipe to the agent"));
    };
    for pipe in [input.as_fd(), output.as_fd(), io::stdin().as_fd(), io::stdout().as_fd()] {
        widen(pipe);
    }
    let agent = Pid::from_child(&child);
    let to_agent = Outlet::start("to-agent", File::from(OwnedFd::from(input)))?;
    let to_client = Outlet::start("to-client", File::from(private(io::stdout())?))?;
    let log = Log::start(name, log)?;
    let machine = machine(Instance { pid: child.id(), start: 0 });
    let proxy = Arc::new_cyclic(|own| Proxy {
        name,
        own: Weak::clone(own),
        machine: Mutex::new(machine),
        link: Mutex::new(None),
        began: Instant::now(),
        to_agent,
        to_client,
        due: Due::default(),
        agent,
        hidden: OnceLock::new(),
        log,
        heard: AtomicU64::new(0),
    });
    // The client sees the end when the outlet closes: no other copy may stay open.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
    let hearing = Arc::clone(&proxy);
    let sink = Arc::new(move |news: proxy::News| {
        if let Some(news) = News::from_askd(news) {
            hearing.hear(news);
        }
    });
    let link = Link::start(&places, exe, token, sink)?;
    *lock(&proxy.link) = Some(link);
    proxy.forward_signals()?;
    if let Some(adapter) = &mut adapter {
        proxy.watch_hidden(&mut **adapter);
    }
    let reading = Arc::clone(&proxy);
    let (done, agent_is_done) = channel();
    spawn("from-agent", move || {
        reading.read_agent(output);
        let _ = done.send(());
    })?;
    let reading = Arc::clone(&proxy);
    spawn("from-client", move || reading.read_client())?;
    let ticking = Arc::clone(&proxy);
    spawn("clock", move || ticking.keep_time())?;

    let status = child.wait()?;
    // What it wrote last is still in the pipe.
    proxy.hear_out(&agent_is_done);
    proxy.drive(|machine, now| {
        machine.agent_closed(now);
    });
    let written = proxy.to_client.drain(LAST_WORDS);
    let link = lock(&proxy.link).take();
    let told = link.is_none_or(|mut link| link.finish(LAST_WORDS));
    if !told {
        proxy.say("not every answer of the client could be told to the askd daemon");
    }
    if !written {
        proxy.say("the client did not read everything");
    }
    proxy.log.finish(LAST_WORDS);
    Ok(exit_code(status))
}

impl<M: Protocol> Proxy<M> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Gives something to the machine and does what it wants done. Never blocks for long.
    fn drive(&self, give: impl FnOnce(&mut M, Duration)) {
        let mut machine = lock(&self.machine);
        give(&mut machine, self.now());
        // Under the lock, so that lines go out in the order in which the machine gave them.
        for action in machine.take() {
            self.act(action);
        }
        let next = machine.next_tick();
        self.due.publish(machine, next);
    }

    /// One line for whoever started it.
    fn say(&self, text: &str) {
        self.log.say(format!("{}: {text}", self.name));
    }

    fn hear(&self, news: News) {
        self.drive(|machine, now| machine.news(news, now));
    }

    fn act(&self, action: Action) {
        match action {
            Action::ToAgent(line) => self.to_agent.push(line),
            Action::ToClient(line) => self.to_client.push(line),
            Action::Log(text) => self.say(&text),
            Action::CloseAgent => {
                self.to_agent.close();
                self.end_lingering();
            }
            Action::HiddenReply { ask, id, reply, message } => {
                let Some(source) = self.hidden.get().cloned() else { return };
                let hearing = self.own.upgrade();
                let (name, log) = (self.name, self.log.clone());
                let _ = spawn("hidden-reply", move || {
                    let mut failed = false;
                    let delivered = deliver(&*source, &id, reply, message.as_deref(), |why| {
                        if !std::mem::replace(&mut failed, true) {
                            log.say(format!("{name}: the answer did not reach the agent yet: {why}"));
                        }
                        std::thread::sleep(BETWEEN_REPLIES);
                    });
                    // A no may wait in the watcher for its siblings; that the agent has it is told when it is gone.
                    if let Some(proxy) = hearing.filter(|_| !(delivered && reply == HiddenReply::Reject)) {
                        proxy.hear(News::HiddenReplied { ask, delivered });
                    }
                });
            }
            Action::Handed { ask } => {
                let handle = lock(&self.link).as_ref().and_then(|link| link.handle(ask));
                if let Some(handle) = handle {
                    self.to_agent.then(move || handle.handed());
                }
            }
            other => {
                let Ok(errand) = other.into_errand() else { return };
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
            self.to_client.wait_for_room();
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
        self.drive(|machine, now| machine.agent_closed(now));
        // The agent may live on; the client sees that it says nothing more.
        self.to_client.close();
    }

    /// What the ended agent wrote last is read, as long as there is more of it or the client is slow. A process that
    /// it left behind may hold the pipe open for ever.
    fn hear_out(&self, done: &Receiver<()>) {
        loop {
            let heard = self.heard.load(Ordering::Relaxed);
            match done.recv_timeout(LAST_WORDS) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let goes_on = self.to_client.is_full() || self.heard.load(Ordering::Relaxed) != heard;
            if !goes_on || self.to_client.is_hurried() {
                return;
            }
        }
    }

    fn read_client(&self) {
        let input = private(io::stdin()).map(File::from);
        if let Ok(input) = input {
            let mut input = BufReader::with_capacity(CHUNK, Patient(Arc::new(input)));
            loop {
                self.to_agent.wait_for_room();
                match next_line(&mut input) {
                    Ok(Some(line)) => self.drive(|machine, now| machine.client_line(line, now)),
                    Ok(None) => break,
                    Err(error) => {
                        self.say(&format!("reading the client: {error}"));
                        break;
                    }
                }
            }
        }
        self.drive(|machine, now| machine.client_closed(now));
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
        let (agent, to_client) = (self.agent, self.to_client.clone());
        let _ = spawn("linger", move || {
            while !to_client.is_deserted() {
                std::thread::sleep(LOOK);
            }
            std::thread::sleep(LINGER);
            // The proxy ends with the agent, so it is still there when this thread is.
            let _ = kill_process(agent, Signal::TERM);
        });
    }

    fn forward_signals(&self) -> io::Result<()> {
        for (number, signal) in [(SIGTERM, Signal::TERM), (SIGINT, Signal::INT), (SIGHUP, Signal::HUP)] {
            let (mut read, write) = io::pipe()?;
            signal_hook::low_level::pipe::register(number, OwnedFd::from(write))?;
            let (agent, to_client) = (self.agent, self.to_client.clone());
            spawn("signal", move || {
                while matches!(read.read(&mut [0]), Ok(1)) {
                    if !(signal == Signal::INT && terminal_has_sent_it()) {
                        let _ = kill_process(agent, signal);
                    }
                    to_client.hurry();
                }
            })?;
        }
        Ok(())
    }

    fn watch_hidden(self: &Arc<Self>, adapter: &mut dyn HiddenAdapter) {
        match adapter.watch() {
            Ok(hidden) => {
                lock(&self.machine).set_hidden_options(hidden.source.options());
                let _ = self.hidden.set(hidden.source);
                let proxy = Arc::clone(self);
                let _ = spawn("hidden", move || {
                    for event in hidden.events {
                        proxy.drive(|machine, now| machine.hidden(event, now));
                    }
                });
            }
            Err(error) => self.say(&format!("asks of subagents cannot be seen: {error}")),
        }
    }
}

/// Answers the agent's server again and again until it took the answer or no longer asks. False: it no longer asks.
fn deliver(
    source: &dyn HiddenSource,
    id: &str,
    reply: HiddenReply,
    message: Option<&str>,
    mut failed: impl FnMut(&str),
) -> bool {
    loop {
        match source.reply(id, reply, message) {
            Ok(()) => return true,
            Err(HiddenError::Gone) => return false,
            Err(HiddenError::Failed(why)) => failed(&why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hidden::HiddenOption;

    /// A server that fails so often before it says what it says.
    struct Failing(AtomicU64, bool);

    impl HiddenSource for Failing {
        fn options(&self) -> &'static [HiddenOption] {
            &[]
        }

        fn reply(&self, _: &str, _: HiddenReply, _: Option<&str>) -> Result<(), HiddenError> {
            match self.0.load(Ordering::Relaxed) {
                0 if self.1 => Ok(()),
                0 => Err(HiddenError::Gone),
                left => {
                    self.0.store(left - 1, Ordering::Relaxed);
                    Err(HiddenError::Failed("it is busy".to_owned()))
                }
            }
        }

        fn stop(&self) {}
    }

    #[test]
    fn an_answer_that_did_not_reach_the_agent_is_told_again() {
        for taken in [true, false] {
            let (source, mut failures) = (Failing(AtomicU64::new(3), taken), 0);
            assert_eq!(deliver(&source, "per_1", HiddenReply::Once, None, |_| failures += 1), taken);
            assert_eq!(failures, 3);
        }
    }
}
