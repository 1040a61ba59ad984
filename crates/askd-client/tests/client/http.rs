//! Replies as they should be, and as they should not.

use std::io::{BufReader, Write};
use std::time::{Duration, Instant};

use askd_client::{Answers, CallError, Connection, HttpError};
use askd_wire::{Code, Health, StreamEvent};

use crate::support::{pair, read_request, reply, write};

#[test]
fn a_request_is_what_the_daemon_expects() {
    let (mut connection, server) = pair();
    connection.set_token(Some("abc".to_owned()));
    let mut peer = BufReader::new(server.try_clone().unwrap());
    let writer = write(server, format!("{}{}", reply(201, "one"), reply(200, "two")));
    assert_eq!(connection.request("POST", "/v1/asks?wait=5", Some(b"{}")).unwrap().body, b"one");
    assert_eq!(connection.request("GET", "/healthz", None).unwrap().body, b"two");
    let (head, body) = read_request(&mut peer).unwrap();
    assert_eq!(
        head,
        "POST /v1/asks?wait=5 HTTP/1.1\r\nhost: askd\r\nx-askd-version: 1\r\nauthorization: Bearer abc\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
    );
    assert_eq!(body, "{}");
    let (head, _) = read_request(&mut peer).unwrap();
    assert_eq!(
        head,
        "GET /healthz HTTP/1.1\r\nhost: askd\r\nx-askd-version: 1\r\nauthorization: Bearer abc\r\n\r\n"
    );
    writer.join().unwrap();
}

#[test]
fn a_reply_in_single_bytes_is_the_same_reply() {
    let (mut connection, mut server) = pair();
    let bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let writer = std::thread::spawn(move || {
        for byte in bytes.as_bytes() {
            server.write_all(&[*byte]).unwrap();
            std::thread::yield_now();
        }
        server
    });
    let got = connection.request("GET", "/", None).unwrap();
    assert_eq!((got.status, got.body.as_slice()), (200, &b"abcde"[..]));
    assert!(connection.is_reusable());
    drop(writer.join().unwrap());
}

#[test]
fn c1_broken_replies_are_errors_and_never_replies() {
    let big_header = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    let endless_head = "HTTP/1.1 200 OK\r\nX: ".to_owned() + &"a".repeat(100_000);
    for (bytes, why) in [
        ("", "closed the connection"),
        ("HTTP/1.1 200 OK\r\ncontent-le", "closed the connection"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", "closed the connection"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "closed the connection"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n", "closed the connection"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
            "longer than its size",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nbody until the end", "neither content-length"),
        ("SSH-2.0-OpenSSH\r\n", "does not start with HTTP/1.1"),
        ("\0\0\0", "does not start with HTTP/1.1"),
        (&big_header, "too large: its head"),
        (&endless_head, "too large: its head"),
    ] {
        let (mut connection, server) = pair();
        let writer = write(server, bytes);
        let error = connection.request("GET", "/", None).unwrap_err();
        assert!(error.to_string().contains(why), "{why}: {error}");
        assert!(!connection.is_reusable());
        assert!(matches!(connection.request("GET", "/", None), Err(HttpError::Closed)));
        drop(connection);
        writer.join().unwrap();
    }
}

#[test]
fn c1_a_silent_daemon_is_left_at_the_deadline() {
    for bytes in ["", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"] {
        let (mut connection, mut server) = pair();
        server.write_all(bytes.as_bytes()).unwrap();
        connection.set_deadline(Some(Instant::now() + Duration::from_millis(50)));
        assert!(matches!(connection.request("GET", "/", None), Err(HttpError::TimedOut)));
    }
    // Also one that does not even read.
    let (mut connection, _server) = pair();
    connection.set_deadline(Some(Instant::now() + Duration::from_millis(50)));
    let big = vec![b' '; 4 * 1024 * 1024];
    assert!(matches!(connection.request("POST", "/", Some(&big)), Err(HttpError::TimedOut)));
}

#[test]
fn an_early_refusal_is_heard_though_the_request_is_not_read() {
    let big = vec![b' '; 4 * 1024 * 1024];
    let problem = r#"{"type":"about:blank","title":"Too large","status":413,"detail":"at most 16 MiB","code":"malformed"}"#;
    for close in [false, true] {
        let (mut connection, mut server) = pair();
        server.write_all(reply(413, problem).as_bytes()).unwrap();
        let held = (!close).then_some(server);
        let error = connection.request("POST", "/", Some(&big)).unwrap().into_success().unwrap_err();
        assert_eq!(error.to_string(), "Too large: at most 16 MiB");
        assert_eq!(error.problem().unwrap().code, Code::Malformed);
        drop(held);
    }
}

#[test]
fn a_closing_reply_is_read_and_ends_the_connection() {
    let (mut connection, server) = pair();
    write(server, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx").join().unwrap();
    assert_eq!(connection.request("GET", "/", None).unwrap().body, b"x");
    assert!(!connection.is_reusable());
}

#[test]
fn version_skew_says_which_side_to_upgrade() {
    for (api, why) in
        [("0", "restart the daemon"), ("2", "upgrade this program"), ("?", "the older of the two")]
    {
        let (mut connection, server) = pair();
        write(server, format!("HTTP/1.1 426 X\r\nx-askd-version: {api}\r\ncontent-length: 0\r\n\r\n"))
            .join()
            .unwrap();
        let error = connection.call::<Health>("GET", "/healthz", None::<&()>).unwrap_err();
        assert!(matches!(error, CallError::Skew(_)));
        assert!(error.to_string().contains(why), "{error}");
    }
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[test]
fn events_come_with_their_positions_and_unknown_ones_are_passed_over() {
    let (connection, server) = pair();
    let mut peer = BufReader::new(server.try_clone().unwrap());
    let mut text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    for piece in [
        ": hello\n\nid: 7\nevent: snapshot\ndata: {\"type\":\"snapshot\",\n",
        "data: \"position\":7,\"asks\":[]}\n\nid: 8\ndata: {\"type\":\"of_later\",\"x\":1}\n\nid",
        ": 9\r\ndata: {\"type\":\"notice\",\"text\":\"a\"}\r\n\r\n",
        "data: {\"type\":\"bye\",\"restart\":true}\n\ndata: {\"type\":\"notice\",\"text\":\"never ended\"}\n",
    ] {
        text.push_str(&chunk(piece));
    }
    let writer = write(server, text + "0\r\n\r\n");
    let mut events = Answers::over(connection).events(Some("s 1"), Some(5)).unwrap();
    let first = events.next().unwrap().unwrap();
    assert!(matches!(first.event, StreamEvent::Snapshot { position: 7, .. }));
    assert_eq!(first.id, Some(7));
    let second = events.next().unwrap().unwrap();
    assert!(matches!(&second.event, StreamEvent::Notice { text } if text == "a"));
    assert_eq!(second.id, Some(9));
    assert!(matches!(events.next().unwrap().unwrap().event, StreamEvent::Bye { restart: true }));
    assert!(events.next().is_none());
    assert_eq!(events.position(), Some(9));
    let (head, _) = read_request(&mut peer).unwrap();
    assert!(head.starts_with("GET /v1/events?surface=s%201 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("last-event-id: 5\r\n"));
    writer.join().unwrap();
}

#[test]
fn a_broken_event_is_an_error_and_a_refused_stream_says_why() {
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for data in ["{\"type\":\"notice\"}", "not json"] {
        let (connection, server) = pair();
        let writer = write(server, format!("{stream}{}", chunk(&format!("data: {data}\n\n"))));
        let mut events = connection.events("/v1/events", None).unwrap();
        assert!(events.next().unwrap().unwrap_err().to_string().contains("a broken event"));
        writer.join().unwrap();
    }
    let problem = r#"{"type":"about:blank","title":"No","status":403,"code":"not_permitted"}"#;
    for (bytes, why) in [
        (reply(403, problem), "No"),
        (reply(200, "{}"), "not an event stream"),
        (reply(500, "oops"), "unexpected reply 500: oops"),
    ] {
        let (connection, server) = pair();
        let writer = write(server, bytes);
        let error = connection.events("/v1/events", None).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        writer.join().unwrap();
    }
}

#[test]
fn a_full_backlog_is_waited_for_until_the_deadline() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let mut held = Vec::new();
    let error = loop {
        match Connection::connect(&path, Some(Instant::now() + Duration::from_millis(50))) {
            Ok(connection) => held.push(connection),
            Err(error) => break error,
        }
        assert!(held.len() < 1000);
    };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}
