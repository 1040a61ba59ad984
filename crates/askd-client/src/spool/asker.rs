//! The requester's side of a forwarding directory, for hosts that have nothing but a file system in common with askd.
//!
//! | seen | what is done |
//! |---|---|
//! | the response | both files are removed, and what is empty then; it is the outcome |
//! | the request was taken away, and no response is there | it is written again, with everything above it |
//! | a response that cannot be read | kept for a moment, then it is told as a fault; never a decision |
//! | nobody serves for too long, the own time is over, nobody waits any more | the request is taken back |

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use askd_wire::{SPOOL_VERSION, SpoolOutcome, SpoolRequest, SpoolResponse};

use super::hints::Hints;
use super::place::{Dir, PlaceError, Stamp};
use super::{
    MOST_BYTES, REQUESTS, RESPONSES, SERVING, SESSIONS, clean, digest_of, encode_session, is_safe_stem,
};
use crate::asker::{JustWait, Wake, Watch, random_hex};
use crate::error::{Unavailable, UnsafePlace};

/// Between two looks at first, and where the kernel tells nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_BLIND: Duration = Duration::from_millis(250);
/// The longest time between two looks where the kernel tells what happens.
const LONGEST_TOLD: Duration = Duration::from_secs(1);
/// How long nobody may serve, unless it is set otherwise: a daemon that restarts is back by then.
const UNSERVED: Duration = Duration::from_secs(30);
/// How long a response may be unreadable, as one is that is not written in one step.
const TORN: Duration = Duration::from_secs(5);
/// Attempts to put the request in place while others take the directories away.
const MOST_ATTEMPTS: u32 = 1000;

/// Asks through a forwarding directory: one identity (a session), any number of asks.
#[derive(Debug, Clone)]
pub struct SpoolAsker {
    root: PathBuf,
    /// As the caller names it, and as its directory is named.
    session: String,
    directory: String,
    unserved: Duration,
    hints: bool,
}

/// What one look saw.
enum Look {
    Answered(Box<SpoolResponse>),
    /// There is a response, and it is none.
    Torn(String),
    /// With what whoever serves wrote last.
    Waiting(Option<Record>),
}

/// The request is in place.
struct Put {
    /// What will tell of changes.
    hints: Option<Hints>,
    /// It tells of all.
    told: bool,
    /// It was missing.
    again: bool,
}

/// Why a look, or a write, came to nothing.
enum Fault {
    /// Somebody removed a directory meanwhile: it is made again.
    Removed,
    Final(Unavailable),
}

impl From<PlaceError> for Fault {
    fn from(error: PlaceError) -> Self {
        if error.is_gone() { Self::Removed } else { Self::Final(place(&error)) }
    }
}

fn place(error: &PlaceError) -> Unavailable {
    match error {
        PlaceError::NotADirectory(name) => {
            Unavailable::Unsafe(UnsafePlace::new(Path::new(name), error.to_string()))
        }
        PlaceError::NotOurs { name, why } => {
            Unavailable::Unsafe(UnsafePlace::new(Path::new(name), why.clone()))
        }
        PlaceError::Io { .. } => Unavailable::Fault(error.to_string()),
    }
}

/// Who serves; written by them every second. That it is another one than before says that they live; the time in it is
/// that of their clock, which need not be ours.
#[derive(PartialEq)]
struct Record(Stamp, Vec<u8>);

impl SpoolAsker {
    /// Asks in the directory `root`, which `askd spool` (or a daemon by `[spool] dirs`) serves, as this session.
    pub fn new(root: impl Into<PathBuf>, session: &str) -> Result<Self, Unavailable> {
        let directory = encode_session(session)
            .ok_or_else(|| Unavailable::Fault(format!("{session:?} cannot be the name of a session")))?;
        let (root, session) = (root.into(), session.to_owned());
        Ok(Self { root, session, directory, unserved: UNSERVED, hints: true })
    }

    /// How long nobody may serve until [`Unavailable::Unserved`] is told.
    #[must_use]
    pub fn unserved_after(self, patience: Duration) -> Self {
        Self { unserved: patience, ..self }
    }

    /// Looks by itself only, as on a file system of which the kernel tells nothing.
    #[must_use]
    pub fn without_hints(self) -> Self {
        Self { hints: false, ..self }
    }

    /// A request with a fresh id for this process.
    pub fn request(&self, tool: impl Into<String>) -> Result<SpoolRequest, Unavailable> {
        let id = random_hex().map_err(|error| Unavailable::Fault(format!("no random bits: {error}")))?;
        Ok(SpoolRequest {
            askd: SPOOL_VERSION,
            id,
            tool: tool.into(),
            input: None,
            title: None,
            cwd: None,
            agent: None,
            session: None,
            subagent: None,
            job: None,
            class: askd_wire::Class::default(),
            attendance: None,
            deadline_secs: None,
            gives_up_secs: None,
            pid: Some(std::process::id()),
            extra: serde_json::Map::new(),
        })
    }

    /// Writes the request and blocks until its response is there. After `gives_up_secs`: [`Unavailable::GaveUp`]. An
    /// outcome `unavailable` is told as [`Unavailable::Fault`]; `withdrawn` means that nobody decided.
    pub fn ask(&self, request: &SpoolRequest) -> Result<SpoolResponse, Unavailable> {
        self.ask_watched(request, &mut JustWait)
    }

    /// The same, waiting by `watch`. When that says stop the request is taken back, by which whoever serves knows.
    pub fn ask_watched(
        &self,
        request: &SpoolRequest,
        watch: &mut dyn Watch,
    ) -> Result<SpoolResponse, Unavailable> {
        if !is_safe_stem(&request.id) {
            return Err(Unavailable::Fault(
                "the id of a request has characters that are not allowed".to_owned(),
            ));
        }
        let bytes = serde_json::to_vec(request)
            .map_err(|error| Unavailable::Fault(format!("the request cannot be written as JSON: {error}")))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
            return Err(Unavailable::Fault(format!("the request has more than {MOST_BYTES} bytes")));
        }
        let name = format!("{}.json", request.id);
        // What lies there belongs to another request, and is neither read nor removed.
        if self.is_used(&name).map_err(|error| place(&error))? {
            let why = format!(
                "the id {} is used already: a request or a response of that name is there",
                request.id
            );
            return Err(Unavailable::Fault(why));
        }
        let asked = self.wait(&name, &bytes, request.gives_up_secs.map(Duration::from_secs), watch);
        // An answer that came in the same moment counts.
        let last = self.take_back(&name, &bytes);
        let response = match (asked, last) {
            (Ok(response), _) | (Err(_), Some(response)) => response,
            (Err(why), None) => return Err(why),
        };
        if response.outcome == SpoolOutcome::Unavailable {
            return Err(Unavailable::Fault(response.text));
        }
        Ok(response)
    }

    fn wait(
        &self,
        name: &str,
        bytes: &[u8],
        limit: Option<Duration>,
        watch: &mut dyn Watch,
    ) -> Result<SpoolResponse, Unavailable> {
        let began = Instant::now();
        let give_up = limit.and_then(|limit| began.checked_add(limit));
        let (mut served_at, mut torn_since, mut pause) = (began, None, FIRST_PAUSE);
        let mut record = None;
        loop {
            let Put { hints, told, again } = self.put(name, bytes)?;
            if again {
                // Somebody is at work here: what he takes away is soon missed.
                pause = FIRST_PAUSE;
            }
            let longest = if told { LONGEST_TOLD } else { LONGEST_BLIND };
            match self.look(name, bytes) {
                Ok(Look::Answered(response)) => return Ok(*response),
                Ok(Look::Torn(why)) => {
                    let since = *torn_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= TORN {
                        return Err(Unavailable::Fault(why));
                    }
                }
                Ok(Look::Waiting(seen)) => {
                    torn_since = None;
                    // The first one may have been left by somebody who is gone.
                    let before = record.replace(seen);
                    if before.is_some() && before != record && record.as_ref().is_some_and(Option::is_some) {
                        served_at = Instant::now();
                    }
                }
                // Made again after the next wait, which is over at once when it was told.
                Err(Fault::Removed) => {}
                Err(Fault::Final(why)) => return Err(why),
            }
            let now = Instant::now();
            if give_up.is_some_and(|give_up| now >= give_up) {
                return Err(Unavailable::GaveUp(None));
            }
            if now >= served_at + self.unserved {
                return Err(Unavailable::Unserved(self.root.clone()));
            }
            let until =
                [Some(now + pause), give_up, Some(served_at + self.unserved)].into_iter().flatten().min();
            match watch.wait(hints.as_ref().map(Hints::fd), until.unwrap_or(now + pause)) {
                Ok(Wake::Stop) => return Err(Unavailable::Abandoned),
                // What was told is looked at, from new watches: directories may be others now.
                Ok(Wake::Readable) => {}
                Ok(Wake::TimedOut) => pause = (pause * 2).min(longest),
                Err(error) => return Err(Unavailable::Fault(format!("waiting: {error}"))),
            }
        }
    }

    /// Makes what is missing and sees to it that the request is there, or its response.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<Put, Unavailable> {
        for _ in 0..MOST_ATTEMPTS {
            match self.try_put(name, bytes) {
                Ok(done) => return Ok(done),
                Err(Fault::Removed) => {}
                Err(Fault::Final(why)) => return Err(why),
            }
        }
        Err(Unavailable::Fault(format!("{} is removed again and again", self.root.display())))
    }

    fn try_put(&self, name: &str, bytes: &[u8]) -> Result<Put, Fault> {
        let root = Dir::make_root(&self.root)?;
        let sessions = root.make(SESSIONS)?;
        let session = sessions.make(&self.directory)?;
        let responses = session.make(RESPONSES)?;
        let requests = session.make(REQUESTS)?;
        let hints = if self.hints { Hints::open() } else { None };
        // Watched before it is looked at, so that nothing falls in between.
        let told = hints.as_ref().is_some_and(|hints| {
            [&root, &sessions, &session, &requests, &responses].into_iter().all(|dir| hints.watch(dir))
        });
        // Whoever answers may take the request away behind its response: that is looked for last.
        let again = !requests.has(name)? && !responses.has(name)?;
        if again {
            requests.put_new(name, bytes)?;
            if let Some(hints) = &hints {
                hints.drain();
            }
        }
        // It is there by its path, and not in a directory that was taken away meanwhile.
        let (dir, answers) = self.open()?;
        if !dir.has(name)? && !answers.has(name)? {
            return Err(Fault::Removed);
        }
        Ok(Put { hints, told, again })
    }

    /// Both directories as they are now.
    fn open(&self) -> Result<(Dir, Dir), Fault> {
        let open = |dir: &Dir, name: &str| dir.open(name)?.ok_or(Fault::Removed);
        let root = Dir::root(&self.root)?.ok_or(Fault::Removed)?;
        let session = open(&open(&root, SESSIONS)?, &self.directory)?;
        Ok((open(&session, REQUESTS)?, open(&session, RESPONSES)?))
    }

    /// A request or a response of this name is there.
    fn is_used(&self, name: &str) -> Result<bool, PlaceError> {
        let Some(root) = Dir::root(&self.root)? else { return Ok(false) };
        let Some(sessions) = root.open(SESSIONS)? else { return Ok(false) };
        let Some(session) = sessions.open(&self.directory)? else { return Ok(false) };
        for of in [REQUESTS, RESPONSES] {
            if let Some(dir) = session.open(of)?
                && dir.has(name)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn look(&self, name: &str, request: &[u8]) -> Result<Look, Fault> {
        let (_, responses) = self.open()?;
        match responses.read(name, MOST_BYTES)? {
            Some((_, bytes)) => Ok(match read(&bytes, name, request) {
                Ok(response) => Look::Answered(Box::new(response)),
                Err(why) => Look::Torn(why),
            }),
            None => Ok(Look::Waiting(self.record())),
        }
    }

    /// What whoever serves this session wrote last.
    fn record(&self) -> Option<Record> {
        let serving = Dir::root(&self.root).ok()??.open(SERVING).ok()??;
        let (stamp, bytes) = serving.read(&format!("{}.json", self.directory), 4096).ok()??;
        Some(Record(stamp, bytes))
    }

    /// Removes the request, then what answers it, then what is empty. A response that came in the meantime is given.
    fn take_back(&self, name: &str, request: &[u8]) -> Option<SpoolResponse> {
        let sessions = Dir::root(&self.root).ok()??.open(SESSIONS).ok()??;
        let session = sessions.open(&self.directory).ok()??;
        // Nothing is removed that was not read: an answer that comes in between is found by the second.
        let answer = || -> Option<SpoolResponse> {
            let responses = session.open(RESPONSES).ok()??;
            let bytes = responses.take(name, MOST_BYTES).ok()??;
            read(&bytes, name, request).ok()
        };
        // In this order whoever serves knows that it was fetched.
        let before = answer();
        if let Ok(Some(requests)) = session.open(REQUESTS) {
            let _ = requests.remove_file(name);
        }
        let response = before.or_else(answer);
        // What others did not let us remove is theirs to remove.
        clean::remove_session_if_empty(&sessions, &self.directory, &mut |_| {});
        response
    }

    /// The session that is asked for.
    pub fn session(&self) -> &str {
        &self.session
    }
}

fn read(bytes: &[u8], name: &str, request: &[u8]) -> Result<SpoolResponse, String> {
    let response: SpoolResponse =
        serde_json::from_slice(bytes).map_err(|error| format!("the response cannot be read: {error}"))?;
    if response.askd == 0 || response.askd > SPOOL_VERSION {
        return Err(format!("the response has version {}, which this program cannot read", response.askd));
    }
    if name.strip_suffix(".json") != Some(&*response.id) {
        return Err("the response is one to another request".to_owned());
    }
    if response.request.as_ref().is_some_and(|digest| *digest != digest_of(request)) {
        return Err("the response is one to another request of the same id".to_owned());
    }
    Ok(response)
}

/// For callers that keep the directory in an `io` context.
impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Io { error, .. } => error,
            other => Self::other(other.to_string()),
        }
    }
}
