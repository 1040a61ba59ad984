//! A proxy as a process: the agent as its child, a reader and a writer for each side, and the link to the daemon.
//! Readers lock the machine, which never waits for anything, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use askd_client::{Places, random_hex};
use askd_wire::Instance;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::clock::{Due, elapsed};
use super::link::Link;
use super::log::Log;
use super::outlet::Outlet;
use super::pipe::Patient;
use super::reply::deliver;
use super::{
    Action, AskNo, CHUNK, CannotStart, End, LAST_WORDS, LINGER, LOOK, News, exit_code, lock, next_line,
    private, spawn, widen,
};
use crate::foreground::terminal_has_sent_it;
use crate::hidden::{HiddenAdapter, HiddenEvent, HiddenOption, HiddenReply, HiddenSource, HiddenTold};

/// A line protocol as a pure machine, for [`serve`]: input with the time since the start, output as [`Action`]s. The
/// client is whoever the agent works for: an editor, a host.
pub(crate) trait Protocol: Send + 'static {
    fn client_line(&mut self, line: Vec<u8>, now: Duration);
    fn agent_line(&mut self, line: Vec<u8>, now: Duration);
    fn news(&mut self, news: News, now: Duration);
    fn client_closed(&mut self, now: Duration);
    /// The agent says nothing more; its process may live on.
    fn agent_closed(&mut self, _now: Duration) {}
    /// The agent's process ended, and everything that it wrote was given.
    fn agent_ended(&mut self, end: End, now: Duration);
    /// A signal to end came, and the agent does not know yet.
    fn signalled(&mut self, _now: Duration) {}
    fn tick(&mut self, now: Duration);
    /// When [`Self::tick`] has something to do.
    fn next_tick(&self) -> Option<Duration>;
    /// What is to be done now, in order.
    fn take(&mut self) -> Vec<Action>;
    fn hidden(&mut self, _event: HiddenEvent, _now: Duration) {}
    /// What became of [`Action::HiddenReply`].
    fn hidden_replied(&mut self, _ask: AskNo, _told: Option<HiddenTold>, _now: Duration) {}
    fn set_hidden_options(&mut self, _options: &'static [HiddenOption]) {}
}

/// What a proxy of any protocol is started with.
pub(crate) struct Start {
    /// What its lines on standard error begin with, e.g. `askd acp`.
    pub(crate) name: &'static str,
    /// What the client is in those lines, e.g. `host`.
    pub(crate) client: &'static str,
    /// The agent's command line, not empty; its input and output become the proxy's.
    pub(crate) command: Vec<OsString>,
    /// What the agent finds in its environment besides ours.
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) owner: Owner,
    pub(crate) places: Places,
    /// The askd program that may be started as the daemon.
    pub(crate) exe: Option<PathBuf>,
    /// For agents that keep asks to themselves.
    pub(crate) adapter: Option<Box<dyn HiddenAdapter>>,
    /// Takes one line for standard error; it may block.
    pub(crate) log: fn(&str),
}

/// The mark by which hooks of the agent raise nothing, and nothing below it may answer.
pub(crate) enum Owner {
    /// A name of its own for this run, after what it is, e.g. `acp`.
    Of(&'static str),
    Named(String),
}

struct Proxy<M> {
    name: &'static str,
    client: &'static str,
    /// For threads that tell it something later.
    own: Weak<Self>,
    machine: Mutex<M>,
    link: Mutex<Option<Link>>,
    began: Duration,
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

/// Runs an agent behind a proxy of this protocol until it ends; gives its exit status, 128 and the signal's number when
/// a signal ended it. The machine is made of random text in hexadecimal digits and the agent's process.
pub(crate) fn serve<M: Protocol>(
    start: Start,
    machine: impl FnOnce(String, Instance) -> M,
) -> Result<u8, CannotStart> {
    let program = start.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    serve_agent(start, machine).map_err(|source| CannotStart { program, source })
}

fn serve_agent<M: Protocol>(start: Start, machine: impl FnOnce(String, Instance) -> M) -> io::Result<u8> {
    let Start { name, client, command: words, env, owner, places, exe, mut adapter, log } = start;
    let mark = random_hex().map_err(io::Error::other)?;
    let token = random_hex().map_err(io::Error::other)?;
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    let (its_input, input) = io::pipe()?;
    if let Some(pipe) = inode(its_input.as_fd()) {
        let watched = if adapter.is_some() { WATCHED } else { "" };
        command.env(INPUT, format!("{name}:{pipe}{watched}"));
    }
    command.args(words).envs(env).stdin(its_input).stdout(Stdio::piped());
    command.env(
        "ASKD_OWNER",
        match owner {
            Owner::Of(what) => format!("{what}-{}", &mark[..8]),
            Owner::Named(name) => name,
        },
    );
    if let Some(adapter) = &mut adapter {
        adapter.prepare(&mut command);
    }
    let mut child = command.spawn()?;
    // The agent's end of its input is the agent's alone, or nobody would hear that it was closed.
    drop(command);
    let Some(output) = child.stdout.take() else { return Err(io::Error::other("no pipe to the agent")) };
    for pipe in [input.as_fd(), output.as_fd(), io::stdin().as_fd(), io::stdout().as_fd()] {
        widen(pipe);
    }
    let agent = Pid::from_child(&child);
    let to_agent = Outlet::start("to-agent", File::from(OwnedFd::from(input)))?;
    let to_client = Outlet::start("to-client", File::from(private(io::stdout())?))?;
    let log = Log::start(name, log)?;
    let machine = machine(mark, Instance { pid: child.id(), start: 0 });
    let proxy = Arc::new_cyclic(|own| Proxy {
        name,
        client,
        own: Weak::clone(own),
        machine: Mutex::new(machine),
        link: Mutex::new(None),
        began: elapsed(),
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
    let sink = Arc::new(move |news: News| hearing.drive(|machine, now| machine.news(news, now)));
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
    let end = if status.success() { End::Orderly } else { End::Lost };
    proxy.drive(|machine, now| machine.agent_ended(end, now));
    let written = proxy.to_client.drain(LAST_WORDS);
    let link = lock(&proxy.link).take();
    let told = link.is_none_or(|mut link| link.finish(LAST_WORDS));
    if !told {
        proxy.say(&format!("not every answer of the {client} could be told to the askd daemon"));
    }
    if !written {
        proxy.say(&format!("the {client} did not read everything"));
    }
    proxy.log.finish(LAST_WORDS);
    Ok(exit_code(status))
}

/// Tells a proxy which input the agent was given by another one.
const INPUT: &str = "ASKD_INPUT";
/// The other one sees what the agent keeps to itself.
const WATCHED: &str = ":watched";

/// Whether this process reads what another proxy of this name writes to its agent, past nothing but programs that hand
/// their input on (`env`, a script): the same asks would be asked twice. True: the other one watches the agent's server.
pub(crate) fn behind_another(name: &str) -> Option<bool> {
    let told = std::env::var(INPUT).ok()?;
    let told = told.strip_prefix(name)?.strip_prefix(':')?;
    let (pipe, watched) = told.strip_suffix(WATCHED).map_or((told, false), |pipe| (pipe, true));
    (inode(io::stdin().as_fd())?.to_string() == pipe).then_some(watched)
}

fn inode(of: BorrowedFd<'_>) -> Option<u64> {
    let metadata = File::from(of.try_clone_to_owned().ok()?).metadata().ok()?;
    Some(metadata.ino()).filter(|inode| *inode != 0)
}

impl<M: Protocol> Proxy<M> {
    fn now(&self) -> Duration {
        elapsed().saturating_sub(self.began)
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
                    let told = deliver(&*source, &id, reply, message.as_deref(), (name, &log));
                    // A no may wait in the watcher for its siblings; that the agent has it is told when it is gone.
                    let now_there = told == Some(HiddenTold::AsSaid) && reply == HiddenReply::Reject;
                    if let Some(proxy) = hearing.filter(|_| !now_there) {
                        proxy.drive(|machine, now| machine.hidden_replied(ask, told, now));
                    }
                });
            }
            Action::HiddenForget { id } => {
                if let Some(source) = self.hidden.get() {
                    source.forget(&id);
                }
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
                        self.say(&format!("reading the {}: {error}", self.client));
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

    fn forward_signals(self: &Arc<Self>) -> io::Result<()> {
        for (number, signal) in [(SIGTERM, Signal::TERM), (SIGINT, Signal::INT), (SIGHUP, Signal::HUP)] {
            let (mut read, write) = io::pipe()?;
            signal_hook::low_level::pipe::register(number, OwnedFd::from(write))?;
            let proxy = Arc::clone(self);
            spawn("signal", move || {
                while matches!(read.read(&mut [0]), Ok(1)) {
                    // Before the agent hears of it.
                    proxy.drive(|machine, now| machine.signalled(now));
                    if !(signal == Signal::INT && terminal_has_sent_it()) {
                        let _ = kill_process(proxy.agent, signal);
                    }
                    proxy.to_client.hurry();
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
