//! Between `opencode run --attach` and its server: everything passes, but for the news that something is asked. Hearing
//! of that, this client would reject it at once; unheard, it waits like for any long call, and a person answers.
//!
//! This client also goes as soon as its prompt has its reply, whether or not it has printed what it was told. So that
//! reply waits until it has closed its stream of events, which it does at the end of the turn.
//!
//! It has no password of its own: each request brings the client's, and the server judges it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use askd_client::{HttpError, Loopback};
use serde_json::Value;

use crate::proxy::lock;

/// Longest head of a request or a reply.
const MOST_HEAD: usize = 64 * 1024;
/// For the head of a stream of events, and between two looks for the next event.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time that a prompt's reply waits for the client to have heard everything.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How many streams of events the client has open.
#[derive(Debug, Default)]
struct Streams {
    open: Mutex<usize>,
    fewer: Condvar,
}

impl Streams {
    fn count(&self) -> MutexGuard<'_, usize> {
        lock(&self.open)
    }

    fn opened(&self) {
        *self.count() += 1;
    }

    fn closed(&self) {
        let mut open = self.count();
        *open = open.saturating_sub(1);
        self.fewer.notify_all();
    }

    fn wait_for_none(&self, span: Duration) {
        let _ = self.fewer.wait_timeout_while(self.count(), span, |open| *open > 0);
    }
}

/// Serves on a free loopback port until the process ends; gives the port.
pub(super) fn start(server: SocketAddr) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let streams = Arc::<Streams>::default();
    thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes away in the middle is its own affair.
            let streams = Arc::clone(&streams);
            let _ = thread::Builder::new()
                .name("gateway".to_owned())
                .spawn(move || serve(client, server, &streams));
        }
    })?;
    Ok(port)
}

fn serve(mut client: TcpStream, server: SocketAddr, streams: &Arc<Streams>) -> io::Result<()> {
    let (head, rest) = read_head(&mut client)?;
    let first = head.lines().next().unwrap_or_default();
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let route = target.split('?').next().unwrap_or_default();
    if method == "GET" && matches!(route, "/event" | "/global/event") {
        return events(client, server, target, header(&head, "authorization"), streams);
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(closing(&head).as_bytes())?;
    upstream.write_all(&rest)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, upstream.try_clone()?);
    let up = thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
    })?;
    let (reply, mut rest) = read_head(&mut upstream)?;
    if method == "POST" && is_prompt(route) {
        upstream.read_to_end(&mut rest)?;
        streams.wait_for_none(LAST_WORDS);
    }
    client.write_all(closing(&reply).as_bytes())?;
    client.write_all(&rest)?;
    io::copy(&mut upstream, &mut client)?;
    client.shutdown(Shutdown::Both)?;
    let _ = up.join();
    Ok(())
}

/// Its reply comes at the end of the turn.
fn is_prompt(route: &str) -> bool {
    let mut parts = route.trim_matches('/').split('/');
    parts.next() == Some("session")
        && matches!((parts.nth(1), parts.next()), (Some("message" | "command" | "shell"), None))
}

/// Passes a stream of events on, without those that somebody is asked.
fn events(
    mut client: TcpStream,
    server: SocketAddr,
    target: &str,
    authorization: Option<String>,
    streams: &Arc<Streams>,
) -> io::Result<()> {
    let Ok(mut events) = Loopback::new(server, authorization).events(target, PATIENCE) else {
        return client
            .write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    };
    client.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n",
    )?;
    streams.opened();
    let (mut from_client, hangup, watching) = (client.try_clone()?, events.hangup()?, Arc::clone(streams));
    let watch = move || {
        // It sends nothing more; the end of this is its end.
        let _ = io::copy(&mut from_client, &mut io::sink());
        watching.closed();
        hangup.now();
    };
    thread::Builder::new().name("gateway".to_owned()).spawn(watch)?;
    loop {
        match events.next_data(PATIENCE) {
            Ok(Some(data)) if asks(&data) => {}
            Ok(Some(data)) => {
                client.write_all(b"data: ")?;
                client.write_all(&data)?;
                client.write_all(b"\n\n")?;
            }
            Err(HttpError::TimedOut) => {}
            Ok(None) | Err(_) => return client.shutdown(Shutdown::Both),
        }
    }
}

fn asks(event: &[u8]) -> bool {
    let Ok(event) = serde_json::from_slice::<Value>(event) else { return false };
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    [kind(&event), kind(&event["payload"])].iter().any(|kind| {
        matches!(kind.as_str(), "permission.asked" | "permission.updated" | "permission.v2.asked")
    })
}

/// A head with its empty line, and what was read behind it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut held = Vec::new();
    let mut bytes = [0; 8 * 1024];
    loop {
        if let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = held.split_off(end + 4);
            let head = String::from_utf8(held).map_err(io::Error::other)?;
            return Ok((head, rest));
        }
        if held.len() > MOST_HEAD {
            return Err(io::Error::other("the head is too long"));
        }
        match stream.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => held.extend_from_slice(&bytes[..count]),
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// The same head for a connection that serves one exchange.
fn closing(head: &str) -> String {
    let mut out = String::with_capacity(head.len() + 24);
    for line in head.trim_end_matches("\r\n").split("\r\n") {
        let name = line.split(':').next().unwrap_or_default();
        if !name.eq_ignore_ascii_case("connection") && !name.eq_ignore_ascii_case("keep-alive") {
            out.push_str(line);
            out.push_str("\r\n");
        }
    }
    out + "connection: close\r\n\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers one connection with `reply`; gives what it was asked.
    fn server(reply: &'static str) -> (SocketAddr, thread::JoinHandle<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, mut body) = read_head(&mut stream).unwrap();
            // The body may come in a packet of its own.
            while head.contains("content-length: 2") && body.len() < 2 {
                let mut more = [0; 2];
                let read = stream.read(&mut more).unwrap();
                assert_ne!(read, 0);
                body.extend_from_slice(&more[..read]);
            }
            stream.write_all(reply.as_bytes()).unwrap();
            format!("{head}{}", String::from_utf8(body).unwrap())
        });
        (address, served)
    }

    fn through(address: SocketAddr, request: &str) -> String {
        let port = start(address).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn a_request_and_its_reply_pass_with_the_clients_own_password() {
        let (address, served) = server("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nKeep-Alive: 5\r\n\r\ntrue");
        let request = "POST /x?y HTTP/1.1\r\nauthorization: Basic eA==\r\nConnection: keep-alive\r\ncontent-length: 2\r\n\r\n{}";
        let reply = through(address, request);
        assert_eq!(reply, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrue");
        let asked = served.join().unwrap();
        assert_eq!(
            asked,
            "POST /x?y HTTP/1.1\r\nauthorization: Basic eA==\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
        );
    }

    #[test]
    fn the_reply_of_a_prompt_waits_for_the_stream_to_be_closed() {
        assert!(is_prompt("/session/ses_1/message") && is_prompt("/session/ses_1/command"));
        assert!(!is_prompt("/session/ses_1") && !is_prompt("/session/ses_1/message/msg_1"));
        let streams = Arc::<Streams>::default();
        streams.opened();
        let closing = Arc::clone(&streams);
        let closer = thread::spawn(move || closing.closed());
        streams.wait_for_none(Duration::from_secs(60));
        assert_eq!(*streams.count(), 0);
        closer.join().unwrap();
    }

    #[test]
    fn all_events_pass_but_those_that_ask() {
        let (address, served) = server(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 150\r\n\r\n\
             data: {\"type\":\"session.idle\"}\n\ndata: {\"type\":\"permission.asked\"}\n\n\
             data: {\"payload\":{\"type\":\"permission.asked\"}}\n\ndata: {\"type\":\"permission.replied\"}\n\n",
        );
        let reply = through(address, "GET /event?a=b HTTP/1.1\r\nAuthorization: Basic eA==\r\n\r\n");
        let (_, events) = reply.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            events,
            "data: {\"type\":\"session.idle\"}\n\ndata: {\"type\":\"permission.replied\"}\n\n"
        );
        assert!(served.join().unwrap().contains("authorization: Basic eA==\r\n"));
    }
}
