//! A program's own HTTP server on this machine (an agent's, say), asked without anything of askd in the requests.
//!
//! One connection for each request, so that a server that hangs holds nothing else; streams of events have their own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::body::Body;
use crate::error::HttpError;
use crate::head::{self, Head};

/// Longest head of a reply.
const MOST_HEAD: usize = 64 * 1024;
/// Longest body of a reply, and longest single event.
const MOST_BODY: usize = 64 * 1024 * 1024;
const READ_STEP: usize = 16 * 1024;

/// A server on a loopback address.
#[derive(Debug, Clone)]
pub struct Loopback {
    address: SocketAddr,
    /// Value of the `authorization` header.
    authorization: Option<String>,
}

/// A whole reply, whatever its status.
#[derive(Debug)]
pub struct LoopbackReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A stream of server-sent events; only their data matters here.
#[derive(Debug)]
pub struct LoopbackEvents {
    socket: Socket,
    body: Body,
    text: Vec<u8>,
    /// Where the next line begins in it, and up to where no line end was found.
    line: usize,
    looked: usize,
    data: Vec<u8>,
}

/// Ends a [`LoopbackEvents`] from another thread.
#[derive(Debug)]
pub struct Hangup(TcpStream);

impl Loopback {
    /// `authorization`: the whole value of that header, if the server wants one.
    pub fn new(address: SocketAddr, authorization: Option<String>) -> Self {
        Self { address, authorization }
    }

    /// Sends one request with a JSON body, or none, and waits for the whole reply at most `patience`.
    pub fn call(
        &self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        patience: Duration,
    ) -> Result<LoopbackReply, HttpError> {
        let (mut socket, head) = self.send(method, target, body, "application/json", patience)?;
        let mut decoder = Body::new(head.framing);
        let mut whole = Vec::new();
        loop {
            socket.decode(&mut decoder, &mut whole)?;
            if decoder.is_done() {
                return Ok(LoopbackReply { status: head.status, body: whole });
            }
            if whole.len() > MOST_BODY {
                return Err(HttpError::TooLarge("its body"));
            }
            socket.fill()?;
        }
    }

    /// Opens a stream of events; the head of the reply must come within `patience`.
    pub fn events(&self, target: &str, patience: Duration) -> Result<LoopbackEvents, HttpError> {
        let (socket, head) = self.send("GET", target, None, "text/event-stream", patience)?;
        let is_stream =
            head.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream"));
        if head.status != 200 || !is_stream {
            return Err(HttpError::Malformed("it is no stream of events"));
        }
        let body = Body::new(head.framing);
        Ok(LoopbackEvents { socket, body, text: Vec::new(), line: 0, looked: 0, data: Vec::new() })
    }

    fn send(
        &self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        accept: &str,
        patience: Duration,
    ) -> Result<(Socket, Head), HttpError> {
        let deadline = Instant::now() + patience;
        let stream = TcpStream::connect_timeout(&self.address, patience)
            .map_err(|source| HttpError::Io { step: "connecting", source })?;
        let mut socket = Socket { stream, held: Vec::new(), deadline: Some(deadline) };
        let mut request =
            format!("{method} {target} HTTP/1.1\r\nhost: {}\r\naccept: {accept}\r\n", self.address);
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("authorization: {authorization}\r\n"));
        }
        if let Some(body) = body {
            request
                .push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        } else if method != "GET" {
            request.push_str("content-length: 0\r\n");
        }
        request.push_str("connection: close\r\n\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        socket.write_all(&bytes)?;
        let head = socket.receive_head()?;
        Ok((socket, head))
    }
}

impl LoopbackEvents {
    /// Data of the next event; `None` when the server closed the stream.
    /// [`HttpError::TimedOut`] after `patience` without a whole one; it may be called again then.
    pub fn next_data(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, HttpError> {
        self.socket.deadline = Some(Instant::now() + patience);
        loop {
            // Each byte is looked at once and moved once, however long the lines are.
            while let Some(length) = self.text[self.looked..].iter().position(|byte| *byte == b'\n') {
                let end = self.looked + length;
                let line = &self.text[self.line..end];
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                (self.line, self.looked) = (end + 1, end + 1);
                if line.is_empty() {
                    if !self.data.is_empty() {
                        return Ok(Some(std::mem::take(&mut self.data)));
                    }
                } else if let Some(value) = line.strip_prefix(b"data:") {
                    if !self.data.is_empty() {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                }
            }
            self.text.drain(..self.line);
            (self.line, self.looked) = (0, self.text.len());
            if self.body.is_done() {
                return Ok(None);
            }
            if self.text.len().max(self.data.len()) > MOST_BODY {
                return Err(HttpError::TooLarge("an event"));
            }
            let before = self.text.len();
            self.socket.decode(&mut self.body, &mut self.text)?;
            if self.text.len() == before && !self.body.is_done() {
                match self.socket.fill() {
                    Err(HttpError::Closed) => return Ok(None),
                    outcome => outcome?,
                }
            }
        }
    }

    /// A way to end the stream from elsewhere.
    pub fn hangup(&self) -> io::Result<Hangup> {
        Ok(Hangup(self.socket.stream.try_clone()?))
    }
}

impl Hangup {
    /// Ends the stream; whoever waits for its next event is told that it is over.
    pub fn now(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    held: Vec<u8>,
    deadline: Option<Instant>,
}

impl Socket {
    fn receive_head(&mut self) -> Result<Head, HttpError> {
        loop {
            if let Some(end) = head::end_of_head(&self.held) {
                let head = head::parse(&self.held[..end])?;
                self.held.drain(..end);
                if head.status / 100 != 1 {
                    return Ok(head);
                }
                continue;
            }
            if self.held.len() > MOST_HEAD {
                return Err(HttpError::TooLarge("its head"));
            }
            self.fill()?;
        }
    }

    fn decode(&mut self, body: &mut Body, out: &mut Vec<u8>) -> Result<(), HttpError> {
        let used = body.decode(&self.held, out)?;
        self.held.drain(..used);
        Ok(())
    }

    /// Reads at least one byte more.
    fn fill(&mut self) -> Result<(), HttpError> {
        let mut bytes = [0; READ_STEP];
        loop {
            self.stream
                .set_read_timeout(Some(self.left()?))
                .map_err(|source| HttpError::Io { step: "waiting", source })?;
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(HttpError::Closed),
                Ok(count) => {
                    self.held.extend_from_slice(&bytes[..count]);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
                    io::ErrorKind::ConnectionReset => return Err(HttpError::Closed),
                    _ => return Err(HttpError::Io { step: "reading", source: error }),
                },
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), HttpError> {
        let failed = |source| HttpError::Io { step: "writing", source };
        self.stream.set_write_timeout(Some(self.left()?)).map_err(failed)?;
        self.stream.write_all(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HttpError::TimedOut,
            _ => failed(source),
        })
    }

    /// What is left until the deadline; never zero, which the system would take for no limit.
    fn left(&self) -> Result<Duration, HttpError> {
        let left = self
            .deadline
            .map_or(Duration::from_secs(3600), |deadline| deadline.saturating_duration_since(Instant::now()));
        if left < Duration::from_millis(1) { Err(HttpError::TimedOut) } else { Ok(left) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Serves one connection with `reply`, cut into pieces of `step` bytes; gives what was asked.
    fn serve(reply: &'static [u8], step: usize) -> (SocketAddr, thread::JoinHandle<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                asked.push(byte[0]);
            }
            for piece in reply.chunks(step) {
                stream.write_all(piece).unwrap();
            }
            String::from_utf8(asked).unwrap()
        });
        (address, server)
    }

    #[test]
    fn a_reply_is_read_whole_and_the_password_is_sent() {
        let reply = b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n3\r\n\":1\r\n1\r\n}\r\n0\r\n\r\n";
        for step in [1, 7, 1000] {
            let (address, server) = serve(reply, step);
            let server_of = Loopback::new(address, Some("Basic eA==".to_owned()));
            let reply = server_of.call("GET", "/x?y=1", None, PATIENCE).unwrap();
            assert_eq!((reply.status, reply.body.as_slice()), (404, &b"{\"a\":1}"[..]));
            let asked = server.join().unwrap();
            assert!(
                asked.starts_with("GET /x?y=1 HTTP/1.1\r\n")
                    && asked.contains("authorization: Basic eA==\r\n")
            );
            assert!(!asked.contains("askd"), "{asked}");
        }
    }

    #[test]
    fn events_come_one_after_the_other_until_the_server_closes() {
        let reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n17\r\ndata: one\r\n\r\n: ping\n\nda\r\n10\r\nta: two\ndata:2\n\n\r\n0\r\n\r\n";
        for step in [1, 5, 1000] {
            let (address, server) = serve(reply, step);
            let mut events = Loopback::new(address, None).events("/e", PATIENCE).unwrap();
            assert_eq!(events.next_data(PATIENCE).unwrap().as_deref(), Some(&b"one"[..]));
            assert_eq!(events.next_data(PATIENCE).unwrap().as_deref(), Some(&b"two\n2"[..]));
            assert_eq!(events.next_data(PATIENCE).unwrap(), None);
            server.join().unwrap();
        }
    }

    #[test]
    fn a_server_that_hangs_is_left_and_one_that_lies_is_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let silent = Loopback::new(listener.local_addr().unwrap(), None);
        let error = silent.call("GET", "/", None, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, HttpError::TimedOut), "{error}");
        let (address, _server) = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 1000);
        assert!(Loopback::new(address, None).events("/e", PATIENCE).is_err());
    }
}
