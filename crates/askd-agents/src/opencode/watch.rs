//! The watcher's threads: one reads opencode's events and looks at its lists, one brings it what may wait or has to be
//! tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use askd_client::{Hangup, HttpError, LoopbackEvents};
use serde_json::Value;

use super::OPTIONS;
use super::api::Server;
use super::book::{Book, Next, Tell};
use super::shape::{self, Permission, Session};
use crate::hidden::{
    Hidden, HiddenAsk, HiddenEnd, HiddenError, HiddenEvent, HiddenOption, HiddenReply, HiddenSource,
    HiddenSubagent, HiddenTold,
};
use crate::proxy::lock;

/// Between two looks at the lists, which make up for whatever the events did not tell.
const LOOK: Duration = Duration::from_secs(5);
/// Before a connection, or a no, is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a server may take to come up before it is said that it is not heard.
const STARTS: Duration = Duration::from_secs(20);
/// How often the lineage of a new ask is tried to be read. An ask with too short a lineage is better than none.
const TRIES: u32 = 4;
/// Longest chain of parents that is followed.
const DEEPEST: usize = 64;

/// Starts the threads.
pub(super) fn start(server: Server) -> io::Result<Hidden> {
    let (news, events) = channel();
    let (errands, todo) = channel();
    let shared = Arc::new(Shared {
        server,
        book: Mutex::default(),
        hangup: Mutex::default(),
        stopped: AtomicBool::new(false),
        errands,
    });
    let watcher = Watcher {
        shared: Arc::clone(&shared),
        news,
        sessions: BTreeMap::new(),
        spawns: BTreeMap::new(),
        asked_about: BTreeSet::new(),
        directories: BTreeSet::new(),
        looked: None,
    };
    thread::Builder::new().name("opencode-events".to_owned()).spawn(move || watcher.run())?;
    let runner = Arc::clone(&shared);
    thread::Builder::new().name("opencode-errands".to_owned()).spawn(move || runner.run_errands(&todo))?;
    Ok(Hidden { events, source: Arc::new(Source(shared)) })
}

#[derive(Debug)]
struct Shared {
    server: Server,
    book: Mutex<Book>,
    /// Of the stream that is open now.
    hangup: Mutex<Option<Hangup>>,
    stopped: AtomicBool,
    errands: Sender<Errand>,
}

#[derive(Debug)]
enum Errand {
    /// Something of this session was answered: perhaps a held no is due.
    Due(String),
    /// An ask whose turn is over is still listed.
    Clear {
        id: String,
        session: String,
        directory: Option<String>,
    },
    Stop,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn do_later(&self, errand: Errand) {
        // Nobody runs them any more after a stop.
        let _ = self.errands.send(errand);
    }

    fn tell(&self, tell: &Tell) -> Result<bool, super::api::ApiError> {
        self.server.reply(&tell.id, tell.directory.as_deref(), tell.reply, tell.message.as_deref())
    }

    fn run_errands(&self, todo: &Receiver<Errand>) {
        let mut again: Vec<Tell> = Vec::new();
        loop {
            let errand = match again.is_empty() {
                true => todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => todo.recv_timeout(PAUSE),
            };
            match errand {
                Ok(Errand::Due(session)) => again.extend(self.book().due(&session)),
                Ok(Errand::Clear { id, session, directory }) => {
                    if self.book().may_clear(&session) {
                        // One that fails stays listed in the agent, where it was left.
                        let _ = self.server.reply(&id, directory.as_deref(), HiddenReply::Reject, None);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Errand::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            again.retain(|tell| {
                if !self.book().is_open(&tell.id) {
                    return false;
                }
                match self.tell(tell) {
                    Ok(true) => false,
                    Ok(false) => {
                        self.book().refused(&tell.id);
                        self.do_later(Errand::Due(tell.session.clone()));
                        false
                    }
                    Err(_) => true,
                }
            });
        }
    }
}

/// The way back.
#[derive(Debug)]
struct Source(Arc<Shared>);

impl HiddenSource for Source {
    fn options(&self) -> &'static [HiddenOption] {
        &OPTIONS
    }

    fn reply(&self, id: &str, reply: HiddenReply, message: Option<&str>) -> Result<HiddenTold, HiddenError> {
        let next = self.0.book().answer(id, reply, message);
        match next {
            Next::Gone => Err(HiddenError::Gone),
            Next::No { held } => {
                let session = self.0.book().session_of(id).map(str::to_owned);
                self.0.do_later(Errand::Due(session.unwrap_or_default()));
                Ok(if held { HiddenTold::Held } else { HiddenTold::AsSaid })
            }
            Next::Now(tell) => self.allow(&tell),
        }
    }

    fn forget(&self, id: &str) {
        self.0.book().forget(id);
    }

    fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.do_later(Errand::Stop);
        if let Some(hangup) = lock(&self.0.hangup).take() {
            hangup.now();
        }
    }
}

impl Source {
    /// A yes for a turn that is over could still run the call, so the agent is asked right before whether it works.
    fn allow(&self, tell: &Tell) -> Result<HiddenTold, HiddenError> {
        let failed = |error: super::api::ApiError| {
            self.0.book().not_told(&tell.id);
            HiddenError::Failed(error.to_string())
        };
        let busy = self.0.server.busy(tell.directory.as_deref()).map_err(failed)?;
        let word = self.0.book().word(tell).filter(|_| works(&busy, &tell.session));
        let Some((reply, told)) = word else { return Err(HiddenError::Gone) };
        match self.0.tell(&Tell { reply, ..tell.clone() }).map_err(failed)? {
            true => Ok(told),
            false => {
                self.0.book().refused(&tell.id);
                self.0.do_later(Errand::Due(tell.session.clone()));
                Err(HiddenError::Gone)
            }
        }
    }
}

struct Watcher {
    shared: Arc<Shared>,
    news: Sender<HiddenEvent>,
    sessions: BTreeMap<String, Session>,
    /// Child session: the task call that started it.
    spawns: BTreeMap<String, String>,
    /// Sessions and calls that were asked about and are not over.
    asked_about: BTreeSet<(String, String)>,
    directories: BTreeSet<String>,
    looked: Option<Instant>,
}

impl Watcher {
    fn run(mut self) {
        // Since when nothing is heard; none: it was said.
        let mut silent = Some(Instant::now());
        while !self.shared.is_stopped() {
            match self.shared.server.events() {
                Ok(events) => {
                    self.follow(events);
                    silent = Some(Instant::now());
                }
                Err(why) => {
                    if silent.is_some_and(|since| since.elapsed() >= STARTS) {
                        silent = None;
                        let (address, why) = (self.shared.server.address(), why.to_string());
                        let _ = self.news.send(HiddenEvent::Unheard { address, why });
                    }
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Subscribed first, listed after: nothing falls between.
    fn follow(&mut self, mut events: LoopbackEvents) {
        *lock(&self.shared.hangup) = events.hangup().ok();
        if self.shared.is_stopped() {
            return;
        }
        self.look();
        loop {
            let left = LOOK.saturating_sub(self.looked.map_or(LOOK, |at| at.elapsed()));
            if left.is_zero() {
                self.look();
                continue;
            }
            match events.next_data(left) {
                Ok(Some(data)) => self.take(&data),
                Err(HttpError::TimedOut) => {}
                Ok(None) | Err(_) => return,
            }
            if self.shared.is_stopped() {
                return;
            }
        }
    }

    fn take(&mut self, data: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        let payload = &event["payload"];
        let about = &payload["properties"];
        let directory = shape::text(&event, "directory");
        if let Some(directory) = &directory
            && !self.directories.contains(directory)
        {
            self.directories.insert(directory.clone());
        }
        match payload["type"].as_str().unwrap_or_default() {
            "permission.asked" => {
                if let Some(permission) = Permission::read(about) {
                    self.asked(&permission, directory.as_deref());
                }
            }
            "permission.replied" => {
                let id = about["requestID"].as_str().unwrap_or_default();
                let reply = about["reply"].as_str().unwrap_or_default();
                self.gone_by(id, |book| book.replied(id, reply));
            }
            "session.created" | "session.updated" => {
                if let Some((id, session)) = Session::read(&about["info"]) {
                    self.sessions.insert(id, session);
                }
            }
            "session.idle" => self.ended(about["sessionID"].as_str().unwrap_or_default()),
            "session.status" if about["status"]["type"] == "idle" => {
                self.ended(about["sessionID"].as_str().unwrap_or_default());
            }
            "session.deleted" => {
                let id = shape::text(&about["info"], "id").or_else(|| shape::text(about, "sessionID"));
                self.ended(id.as_deref().unwrap_or_default());
            }
            "message.part.updated" => {
                if let Some((child, call)) = shape::spawned(&about["part"]) {
                    self.spawns.insert(child, call);
                }
                if let Some((session, call, ok)) = shape::ended(&about["part"])
                    && self.asked_about.remove(&(session.clone(), call.clone()))
                {
                    let _ = self.news.send(HiddenEvent::CallEnded { session, call, ok });
                }
            }
            _ => {}
        }
    }

    /// Looks at the lists of every directory that was heard of, and of the one that the server was started in.
    fn look(&mut self) {
        self.shared.book().swept_all();
        let all: Vec<Option<String>> =
            [None].into_iter().chain(self.directories.iter().cloned().map(Some)).collect();
        for directory in all {
            if self.shared.is_stopped() {
                return;
            }
            let directory = directory.as_deref();
            let server = &self.shared.server;
            // Asks first: a session that works by then worked when they were listed, or its ask is not listed.
            let (Ok(asks), Ok(busy)) = (server.asks(directory), server.busy(directory)) else { continue };
            let listed: Vec<Permission> = asks.iter().filter_map(Permission::read).collect();
            for permission in &listed {
                if works(&busy, &permission.session) {
                    self.asked(permission, directory);
                }
            }
            let is_there = |id: &str, session: &str| {
                listed.iter().any(|permission| permission.id == id) && works(&busy, session)
            };
            let missing = self.shared.book().missing(directory, is_there);
            for id in missing {
                self.gone_by(&id, |book| book.gone(&id, HiddenEnd::Vanished));
            }
        }
        self.looked = Some(Instant::now());
    }

    fn asked(&mut self, permission: &Permission, directory: Option<&str>) {
        if !self.shared.book().asked(&permission.id, &permission.session, directory) {
            return;
        }
        if let Some(call) = &permission.call {
            self.asked_about.insert((permission.session.clone(), call.clone()));
        }
        let ask = self.describe(permission, directory);
        // Nobody listens any more: the owner is about to stop this.
        let _ = self.news.send(HiddenEvent::Asked(Box::new(ask)));
    }

    fn gone_by(&mut self, id: &str, seen: impl FnOnce(&mut Book) -> Option<HiddenEnd>) {
        let (session, how) = {
            let mut book = self.shared.book();
            let session = book.session_of(id).map(str::to_owned);
            (session, seen(&mut book))
        };
        if let (Some(session), Some(how)) = (session, how) {
            let _ = self.news.send(HiddenEvent::Gone { id: id.to_owned(), how });
            self.shared.do_later(Errand::Due(session));
        }
    }

    /// The turn of a session is over, whatever it still seems to ask.
    fn ended(&mut self, session: &str) {
        let known = self.sessions.get(session);
        let directory = known.and_then(|known| known.directory.clone());
        let is_child = known.is_some_and(|known| known.parent.is_some());
        let dead = self.shared.book().ended(session);
        for id in dead {
            let _ = self.news.send(HiddenEvent::Gone { id: id.clone(), how: HiddenEnd::Vanished });
            let (session, directory) = (session.to_owned(), directory.clone());
            self.shared.do_later(Errand::Clear { id, session, directory });
        }
        self.asked_about.retain(|(of, _)| of != session);
        if is_child {
            let _ = self.news.send(HiddenEvent::ChildEnded { session: session.to_owned() });
        }
    }

    fn describe(&mut self, permission: &Permission, directory: Option<&str>) -> HiddenAsk {
        let mut root = permission.session.clone();
        for _ in 0..DEEPEST {
            match self.session(&root, directory).and_then(|session| session.parent.clone()) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        let session = self.session(&permission.session, directory).cloned().unwrap_or_default();
        let subagent = session.parent.clone().map(|parent| HiddenSubagent {
            title: session.own_title(),
            agent_type: session.agent_type(),
            work: self.work(&permission.session, &parent, directory),
            parent,
        });
        let message = permission
            .message
            .as_deref()
            .and_then(|id| self.shared.server.message(&permission.session, id, directory).ok());
        let call = permission.call.as_deref().zip(message.as_ref());
        let call_input = call.and_then(|(call, message)| shape::input_of(message, call));
        let cwd = call_input.and_then(|input| shape::text(input, "workdir"));
        let home = session.directory.or_else(|| directory.map(str::to_owned));
        let cwd = match (cwd, home) {
            (Some(cwd), Some(home)) => {
                // Without the dots that mean nothing.
                let path: PathBuf = Path::new(&home).join(cwd).components().collect();
                Some(path.to_string_lossy().into_owned())
            }
            (cwd, home) => cwd.or(home),
        };
        HiddenAsk {
            id: permission.id.clone(),
            session: permission.session.clone(),
            root,
            subagent,
            tool: permission.name.clone(),
            kind: permission.kind().to_owned(),
            title: permission.title(),
            input: permission.input(call_input),
            call: permission.call.clone(),
            cwd,
            always: permission.always.clone(),
        }
    }

    fn session(&mut self, id: &str, directory: Option<&str>) -> Option<&Session> {
        let mut tries = 0;
        while !self.sessions.contains_key(id) && tries < TRIES && !self.shared.is_stopped() {
            match self.shared.server.session(id, directory) {
                Ok(found) => {
                    let (id, session) = Session::read(&found)?;
                    self.sessions.insert(id, session);
                }
                Err(_) => thread::sleep(PAUSE),
            }
            tries += 1;
        }
        self.sessions.get(id)
    }

    /// The call of the parent that started this child.
    fn work(&mut self, child: &str, parent: &str, directory: Option<&str>) -> Option<String> {
        if !self.spawns.contains_key(child) {
            let messages = self.shared.server.messages(parent, directory).ok()?;
            let parts = messages.as_array()?.iter().flat_map(|message| message["parts"].as_array());
            self.spawns.extend(parts.flatten().filter_map(shape::spawned));
        }
        self.spawns.get(child).cloned()
    }
}

/// A session that is not listed does nothing.
fn works(busy: &Value, session: &str) -> bool {
    busy[session]["type"].as_str().is_some_and(|status| status != "idle")
}
