//! One HTTP/1.1 keep-alive connection over a Unix socket, blocking, with deadlines.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use askd_wire::{API_VERSION, Problem, VERSION_HEADER};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::Body;
use crate::error::{CallError, HttpError, skew_text};
use crate::events::Events;
use crate::head::{self, Head};

/// Longest head of a reply.
const MOST_HEAD: usize = 16 * 1024;
/// Longest body of a reply. A request may hold 16 MiB, a list of asks many of them.
const MOST_BODY: usize = 512 * 1024 * 1024;
/// Room that is made at first: most replies are shorter, and every page that is touched costs a hook something.
const FIRST_STEP: usize = 4 * 1024;
/// Most that is made at once.
const MOST_STEP: usize = 64 * 1024;
/// Longest reply in place of a stream that is read for its words.
const MOST_REFUSAL: usize = 16 * 1024;

/// A connection to the daemon. After an error it must not be used again.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    token: Option<String>,
    deadline: Option<Instant>,
    /// Bytes read and not used; those before `start` are used up.
    buffer: Vec<u8>,
    start: usize,
    reusable: bool,
}

/// A whole reply.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    /// API version of the daemon, when it says one.
    pub api: Option<u32>,
    pub content_type: Option<String>,
}

impl Connection {
    /// Connects. A full backlog is waited for until `deadline`.
    pub fn connect(path: &Path, deadline: Option<Instant>) -> io::Result<Self> {
        Ok(Self::unblocked(connect_stream(path, deadline)?))
    }

    /// Over a stream that is connected already.
    pub fn over(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::unblocked(stream))
    }

    /// Over a stream that does not block.
    fn unblocked(stream: UnixStream) -> Self {
        Self { stream, token: None, deadline: None, buffer: Vec::new(), start: 0, reusable: true }
    }

    /// Bearer token of every request that follows.
    pub fn set_token(&mut self, token: Option<String>) {
        self.token = token;
    }

    /// Point in time after which every operation fails with [`HttpError::TimedOut`]; `None`: no limit.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// The same as a span from now.
    pub fn set_timeout(&mut self, span: Duration) {
        self.deadline = Instant::now().checked_add(span);
    }

    /// Another request may be sent: nothing failed and the daemon keeps the connection.
    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Sends a request with a JSON body (or none) and waits for the whole reply, whatever its status.
    pub fn request(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> Result<Reply, HttpError> {
        self.send(method, target, body)?;
        self.receive()
    }

    /// Sends a request only; [`Connection::receive`] must follow.
    pub fn send(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> Result<(), HttpError> {
        if !self.reusable {
            return Err(HttpError::Closed);
        }
        // Until the reply was read to its end.
        self.reusable = false;
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nhost: askd\r\n{VERSION_HEADER}: {API_VERSION}\r\n");
        if let Some(token) = &self.token {
            request.push_str("authorization: Bearer ");
            request.push_str(token);
            request.push_str("\r\n");
        }
        if let Some(body) = body {
            request.push_str("content-type: application/json\r\ncontent-length: ");
            request.push_str(&body.len().to_string());
            request.push_str("\r\n");
        } else if method != "GET" {
            request.push_str("content-length: 0\r\n");
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.write_all(&bytes)
    }

    /// Waits for the whole reply to what [`Connection::send`] sent.
    pub fn receive(&mut self) -> Result<Reply, HttpError> {
        let head = self.receive_head()?;
        let mut decoder = Body::new(head.framing);
        let mut body = Vec::new();
        loop {
            self.decode(&mut decoder, &mut body)?;
            if decoder.is_done() {
                break;
            }
            if body.len() > MOST_BODY {
                return Err(HttpError::TooLarge("its body"));
            }
            self.fill()?;
        }
        self.reusable = !head.close;
        Ok(Reply { status: head.status, body, api: head.api, content_type: head.content_type })
    }

    /// Part of a reply was read already, so that the socket alone does not tell whether more is to come.
    pub fn has_buffered(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// A request with typed bodies: a status of 2xx gives the reply, everything else an error.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, CallError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(CallError::Encode)?;
        self.request(method, target, body.as_deref())?.into_typed()
    }

    /// The same for routes whose reply has nothing to say.
    pub fn command(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), CallError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(CallError::Encode)?;
        self.request(method, target, body.as_deref())?.into_success().map(drop)
    }

    /// Opens a server-sent event stream. `after`: resume behind this journal position.
    pub fn events(mut self, target: &str, after: Option<u64>) -> Result<Events, CallError> {
        let mut request = format!(
            "GET {target} HTTP/1.1\r\nhost: askd\r\n{VERSION_HEADER}: {API_VERSION}\r\naccept: text/event-stream\r\n"
        );
        if let Some(token) = &self.token {
            request.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        if let Some(after) = after {
            request.push_str(&format!("last-event-id: {after}\r\n"));
        }
        request.push_str("\r\n");
        self.reusable = false;
        self.write_all(request.as_bytes())?;
        let head = self.receive_head()?;
        let is_stream =
            head.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream"));
        if head.status == 200 && is_stream {
            return Ok(Events::new(self, Body::new(head.framing)));
        }
        let (status, api, content_type) = (head.status, head.api, head.content_type.clone());
        let mut decoder = Body::new(head.framing);
        let mut body = Vec::new();
        while !decoder.is_done() && body.len() < MOST_REFUSAL {
            self.decode(&mut decoder, &mut body)?;
            if !decoder.is_done() {
                self.fill()?;
            }
        }
        let reply = Reply { status, body, api, content_type };
        match reply.into_success() {
            Ok(reply) => {
                Err(CallError::Unexpected { status: reply.status, text: "not an event stream".to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a head, skipping interim replies.
    fn receive_head(&mut self) -> Result<Head, HttpError> {
        loop {
            let held = &self.buffer[self.start..];
            if let Some(end) = head::end_of_head(held) {
                if end > MOST_HEAD {
                    return Err(HttpError::TooLarge("its head"));
                }
                let head = head::parse(&held[..end])?;
                self.start += end;
                if head.status / 100 == 1 {
                    continue;
                }
                return Ok(head);
            }
            if held.len() > MOST_HEAD {
                return Err(HttpError::TooLarge("its head"));
            }
            // Garbage is told at once, not when the daemon closes.
            let prefix = b"HTTP/1.1 ";
            let seen = held.len().min(prefix.len());
            if held[..seen] != prefix[..seen] {
                return Err(HttpError::Malformed("it does not start with HTTP/1.1"));
            }
            self.fill()?;
        }
    }

    /// Decodes what is held.
    pub(crate) fn decode(&mut self, body: &mut Body, out: &mut Vec<u8>) -> Result<(), HttpError> {
        let used = body.decode(&self.buffer[self.start..], out)?;
        self.start += used;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        Ok(())
    }

    /// Reads at least one byte more, waiting for it.
    pub(crate) fn fill(&mut self) -> Result<(), HttpError> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.len() == self.buffer.capacity() {
            self.buffer.reserve(self.buffer.len().clamp(FIRST_STEP, MOST_STEP));
        }
        loop {
            match rustix::io::read(&self.stream, spare_capacity(&mut self.buffer)) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(HttpError::Closed),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => drop(self.wait(PollFlags::IN)?),
                Err(error) => {
                    return Err(HttpError::Io { step: "reading from the daemon", source: error.into() });
                }
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), HttpError> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = self.wait(PollFlags::IN | PollFlags::OUT)?;
                    if !ready.contains(PollFlags::OUT) {
                        // An early refusal: the daemon does not read the rest, its reply says why.
                        return Ok(());
                    }
                }
                // The same when it has closed already. Without a reply, reading tells that it closed.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
                {
                    return Ok(());
                }
                Err(source) => return Err(HttpError::Io { step: "writing to the daemon", source }),
            }
        }
        Ok(())
    }

    fn wait(&self, flags: PollFlags) -> Result<PollFlags, HttpError> {
        match poll_one(self.stream.as_fd(), flags, self.deadline) {
            Ok(Some(ready)) => Ok(ready),
            Ok(None) => Err(HttpError::TimedOut),
            Err(source) => Err(HttpError::Io { step: "waiting for the daemon", source }),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Reply {
    /// The reply when its status is 2xx; the daemon's refusal otherwise.
    pub fn into_success(self) -> Result<Self, CallError> {
        if self.status / 100 == 2 {
            return Ok(self);
        }
        if self.status == 426 {
            return Err(CallError::Skew(skew_text(self.api)));
        }
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => Err(CallError::Refused(Box::new(problem))),
            // An older or newer side may know codes that the other does not.
            Err(_) => Err(CallError::Unexpected { status: self.status, text: self.start_of_body() }),
        }
    }

    /// The body as `T` when the status is 2xx.
    pub fn into_typed<T: DeserializeOwned>(self) -> Result<T, CallError> {
        let reply = self.into_success()?;
        serde_json::from_slice(&reply.body).map_err(|error| CallError::Unexpected {
            status: reply.status,
            text: match reply.api {
                Some(api) if api != API_VERSION => skew_text(Some(api)),
                _ => format!("{error} in: {}", reply.start_of_body()),
            },
        })
    }

    fn start_of_body(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(200)])
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }
}

/// Waits until `fd` is ready; `None`: the deadline passed.
pub(crate) fn poll_one(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    deadline: Option<Instant>,
) -> io::Result<Option<PollFlags>> {
    loop {
        let timeout = deadline.map(|deadline| span(deadline.saturating_duration_since(Instant::now())));
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(fds[0].revents())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A span as poll wants it.
pub(crate) fn span(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// A connect on a Unix socket blocks without limit while the backlog is full, so it is done without blocking.
#[cfg(target_os = "linux")]
fn connect_stream(path: &Path, deadline: Option<Instant>) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(UnixStream::from(socket)),
            Err(Errno::AGAIN) => {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the daemon takes no connection"));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn connect_stream(path: &Path, _deadline: Option<Instant>) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
