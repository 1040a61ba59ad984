//! A daemon that is away at the wrong moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use askd_client::{bind_private_socket, make_private_directory};
use askd_wire::RaiseAsk;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn listen(places: &Places) -> UnixListener {
    make_private_directory(&places.run_dir()).unwrap();
    bind_private_socket(&places.ask_sock()).unwrap()
}

/// The next request: its first line and its body; connections that end without one are passed over.
fn request(listener: &UnixListener) -> (UnixStream, String, String) {
    loop {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            continue;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.strip_prefix("content-length: ") {
                Some(text) => length = text.trim().parse().unwrap(),
                None if line == "\r\n" => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        return (stream, first, String::from_utf8(body).unwrap());
    }
}

#[test]
fn c6_an_ask_whose_reply_was_lost_is_taken_back_when_the_daemon_is_there_again() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    let daemon = listen(&places);
    let (sink, news) = channel();
    let sink = Arc::new(move |news| drop(sink.send(news)));
    let mut link = Link::start(&places, None, "0".repeat(32), sink).unwrap();
    let raise: RaiseAsk = serde_json::from_str(
        r#"{"key":"k1","action":{"tool":"Bash"},"agent":"a","session":"s","requester":"proxy","grace_secs":60}"#,
    )
    .unwrap();
    assert!(link.take(Errand::Raise { ask: 1, raise: Box::new(raise) }).is_none());

    // It has the ask and dies before it has replied.
    let (stream, first, _) = request(&daemon);
    assert!(first.starts_with("POST /v1/asks?"), "{first}");
    drop(daemon);
    std::fs::remove_file(places.ask_sock()).unwrap();
    drop(stream);
    let told = news.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(told, News::Unavailable { ask: 1, .. }), "{told:?}");

    assert!(link.take(Errand::Withdraw { ask: 1, cause: "cancelled" }).is_none());
    assert!(!link.around.busy.wait(Duration::from_secs(1)), "it is still to be told");
    let daemon = listen(&places);
    let (mut stream, first, body) = request(&daemon);
    assert!(first.starts_with("POST /v1/asks/withdraw "), "{first}");
    assert_eq!(body, r#"{"key":"k1","cause":"cancelled"}"#);
    stream.write_all(b"HTTP/1.1 204 X\r\ncontent-length: 0\r\nx-askd-version: 1\r\n\r\n").unwrap();
    assert!(link.around.busy.wait(PATIENCE), "it is told");
}

#[test]
fn c1_the_end_of_a_turn_that_could_not_be_told_is_not_told_later() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    let mut link = Link::start(&places, None, "0".repeat(32), Arc::new(|_| {})).unwrap();
    for seen in [r#"{"type":"turn_ended"}"#, r#"{"type":"call_ended","call":"c","ok":true}"#] {
        let batch = format!(r#"{{"agent":"a","session":"s","observations":[{seen}]}}"#);
        let batch: ObservationBatch = serde_json::from_str(&batch).unwrap();
        assert!(link.take(Errand::Observe(Box::new(batch))).is_none());
    }
    link.around.unheard.wait(PATIENCE);
    assert_eq!(*lock(&link.around.unheard.told.0), 2, "nobody waits for a daemon that is away");

    let daemon = listen(&places);
    let (_stream, first, body) = request(&daemon);
    assert!(first.starts_with("POST /v1/observations "), "{first}");
    assert!(body.contains("call_ended") && !body.contains("turn_ended"), "{body}");
}

#[test]
fn c7_the_end_of_a_child_that_runs_again_is_not_told_later() {
    let temp = tempfile::tempdir().unwrap();
    let places = Places::at(temp.path());
    let mut link = Link::start(&places, None, "0".repeat(32), Arc::new(|_| {})).unwrap();
    for seen in [
        r#"{"type":"subagent_ended","work_id":"one"}"#,
        r#"{"type":"subagent_ended","work_id":"two"}"#,
        r#"{"type":"subagent_started","work_id":"one"}"#,
    ] {
        let batch = format!(r#"{{"agent":"a","session":"s","observations":[{seen}]}}"#);
        let batch: ObservationBatch = serde_json::from_str(&batch).unwrap();
        assert!(link.take(Errand::Observe(Box::new(batch))).is_none());
    }
    link.around.unheard.wait(PATIENCE);
    let daemon = listen(&places);
    let (_stream, first, body) = request(&daemon);
    assert!(first.starts_with("POST /v1/observations "), "{first}");
    assert!(body.contains("subagent_ended") && body.contains("two"), "{body}");
}
