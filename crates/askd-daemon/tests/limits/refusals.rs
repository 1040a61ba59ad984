//! Limits against a real daemon: each refuses by name, says what to do, decides nothing, and ends with its cause.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::common::{PATIENCE, World, answer, ask, post, raise, refusal};
use askd_client::{Asker, CallError, Connection, Events, Reply, Unavailable};
use askd_wire::{AskState, Code, RaiseAsk, StreamEvent};
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;

fn raw(world: &World) -> UnixStream {
    let stream = UnixStream::connect(world.places.ask_sock()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the other side closes, which this side asked for.
fn rest(stream: &mut UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The problem in a whole reply, and that it says it is one.
fn problem(reply: &str) -> Value {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/problem+json"), "{reply}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn s7_a_wrong_query_or_path_is_told_like_every_other_refusal() {
    let world = World::start();
    let mut person = world.person_connection();
    for target in [
        "/v1/asks?limit=many",
        "/v1/asks/k7f?wait=-1",
        "/v1/log?after=x",
        "/v1/asks?limit=1&limit=2",
        "/v1/asks/%ff",
    ] {
        let reply = person.request("GET", target, None).unwrap();
        assert_eq!(refusal(&reply), (400, "malformed".to_owned()), "{target}");
        assert_eq!(reply.content_type.as_deref(), Some("application/problem+json"), "{target}");
    }
    let reply = post(&mut world.requester(), "/v1/asks?wait=soon", &ask("k1", "ls"));
    assert_eq!(refusal(&reply), (400, "malformed".to_owned()));
    assert_eq!(world.person().list(false).unwrap().len(), 0);
}

#[test]
fn s7_whoever_sends_too_much_gets_to_read_why() {
    let world = World::start();
    let big = vec![b' '; 17 * MIB];
    // A sender that reads nothing before it has sent everything.
    let mut stream = raw(&world);
    let head = "POST /v1/asks HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n", big.len()).unwrap();
    stream.write_all(&big).unwrap();
    let reply = rest(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
    let told = problem(&reply);
    assert_eq!(told["code"], "malformed");
    assert!(told["detail"].as_str().unwrap().contains("16 MiB"), "{told}");
    // The same without saying the length first.
    let mut stream = raw(&world);
    write!(stream, "{head}transfer-encoding: chunked\r\n\r\n").unwrap();
    for piece in big.chunks(MIB) {
        write!(stream, "{:x}\r\n", piece.len()).unwrap();
        stream.write_all(piece).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let reply = rest(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
    problem(&reply);
    // Whoever asks first sends nothing.
    let mut stream = raw(&world);
    write!(stream, "{head}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", big.len()).unwrap();
    let reply = rest(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
    // And the library tells it as what it is.
    let mut body = ask("k1", "x");
    body["action"]["input"]["command"] = json!("y".repeat(17 * MIB));
    let reply = post(&mut world.requester(), "/v1/asks", &body);
    assert_eq!(refusal(&reply), (413, "malformed".to_owned()));
    assert!(world.person().health().unwrap().ok);
}

/// A body so large that it has to have room, before any of it is sent.
fn with_room(world: &World, size: usize) -> UnixStream {
    let mut stream = raw(world);
    let head = "POST /v1/asks HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n";
    write!(stream, "{head}content-length: {size}\r\n\r\n").unwrap();
    let mut go_ahead = [0; 25];
    stream.read_exact(&mut go_ahead).unwrap();
    assert_eq!(go_ahead, *b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn s7_however_much_requesters_send_at_once_people_have_room_of_their_own() {
    let world = World::start();
    let open = raise(&mut world.requester(), &ask("k0", "ls"));
    // All the room there is, held by requests that never come to an end.
    let mut full: Vec<UnixStream> = (0..4).map(|_| with_room(&world, 16 * MIB)).collect();
    let next = {
        let mut connection = world.requester();
        let mut body = ask("k1", &"y".repeat(MIB));
        body["session"] = json!("s2");
        std::thread::spawn(move || post(&mut connection, "/v1/asks", &body).status)
    };
    let mut answer = answer(&open.digest, "allow");
    answer["message"] = json!("why not ".repeat(4000));
    let reply = post(&mut world.person_connection(), &format!("/v1/asks/{}/answer", open.id), &answer);
    let told = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(
        matches!(reply.status, 200 | 400),
        "a reply, and not that it has to wait: {} {told}",
        reply.status
    );
    assert!(!next.is_finished(), "there was no room for it");
    full.pop();
    assert_eq!(next.join().unwrap(), 201, "what waited gets the room that became free");
}

#[test]
fn s7_a_session_that_tells_too_much_at_once_is_refused_for_a_while() {
    let world = World::start();
    let mut requester = world.requester();
    let many = |count: usize| {
        let seen: Vec<_> = (0..count).map(|_| json!({"type": "session_started"})).collect();
        json!({"agent": "script", "session": "s1", "observations": seen})
    };
    let reply = post(&mut requester, "/v1/observations", &many(20_001));
    assert_eq!(refusal(&reply), (429, "cap_reached".to_owned()));
    let reply = world.until("the limit", || {
        let reply = post(&mut requester, "/v1/observations", &many(20_000));
        assert!([204, 429].contains(&reply.status), "{}", String::from_utf8_lossy(&reply.body));
        (reply.status == 429).then_some(reply)
    });
    assert_eq!(refusal(&reply).1, "cap_reached");
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("20000 at once and 2000 a second") && text.contains("wait"), "{text}");
    // Asking is another thing, and after the wait it goes on.
    raise(&mut requester, &ask("k1", "ls"));
    world.until("the end of the limit", || {
        (post(&mut requester, "/v1/observations", &many(1)).status == 204).then_some(())
    });
}

#[test]
fn s7_a_session_that_asks_too_fast_gets_no_opinion_and_keeps_what_it_has() {
    let world = World::start();
    let mut requester = world.requester();
    let held = raise(&mut requester, &ask("k1", "ls"));
    // What is wrong in itself counts too, and costs no commit.
    let wrong = ask("", "ls");
    let began = std::time::Instant::now();
    let refused = loop {
        assert!(began.elapsed() < PATIENCE, "no limit");
        // One of several that are under way at a time: the limit must be reached before it is forgotten again.
        let replies = std::thread::scope(|scope| {
            let send = || {
                let mut requester = world.requester();
                (0..500).map(|_| post(&mut requester, "/v1/asks", &wrong)).last().unwrap()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        if let Some(refused) = replies.into_iter().find(|reply| reply.status == 429) {
            break refused;
        }
    };
    assert_eq!(refusal(&refused).1, "cap_reached");
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("session script/s1") && text.contains("500 a second"), "{text}");
    // Another content under the key of an ask that one has is another ask.
    let refused = loop {
        assert!(began.elapsed() < PATIENCE, "no limit");
        let replies = std::thread::scope(|scope| {
            let send = |thread: usize| {
                let mut requester = world.requester();
                (0..500).for_each(|_| drop(post(&mut requester, "/v1/asks", &wrong)));
                post(&mut requester, "/v1/asks", &ask("k1", &format!("ls {thread} {:?}", began.elapsed())))
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || send(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        if let Some(refused) = replies.into_iter().find(|reply| reply.status == 429) {
            break refused;
        }
    };
    assert_eq!(refusal(&refused).1, "cap_reached");
    // Who has an ask comes back to it however fast; nothing was decided.
    for _ in 0..200 {
        let back = post(&mut requester, "/v1/asks", &ask("k1", "ls"));
        assert_eq!(back.status, 200, "{}", String::from_utf8_lossy(&back.body));
    }
    assert!(world.show(&held.id).outcome.is_none());
}

/// Connections that this process gets on a socket before it is turned away, and the refusal.
fn fill(socket: &Path) -> (Vec<Connection>, Reply) {
    let mut open = Vec::new();
    loop {
        let mut connection = Connection::connect(socket, None).unwrap();
        connection.set_timeout(PATIENCE);
        let reply = connection.request("GET", "/healthz", None).unwrap();
        if reply.status != 200 {
            return (open, reply);
        }
        open.push(connection);
        assert!(open.len() < 10_000, "no limit");
    }
}

#[test]
fn s7_agents_together_leave_most_of_the_peoples_socket_to_people() {
    let world = World::start();
    let as_person = fill(&world.places.answer_sock()).0.len();
    let mut body = ask("k1", "ls");
    body["instance"] = json!({"pid": std::process::id()});
    let mut requester = world.requester();
    raise(&mut requester, &body);
    // Those of the first round are let go of by and by.
    world.until("the share of agents", || {
        let (open, reply) = fill(&world.places.answer_sock());
        assert_eq!(refusal(&reply), (429, "cap_reached".to_owned()));
        assert!(open.len() * 2 <= as_person, "{} of {as_person}", open.len());
        (open.len() * 5 >= as_person * 2).then_some(())
    });
    // A person again, who ends the daemon.
    let ended = json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    assert_eq!(post(&mut requester, "/v1/observations", &ended).status, 204);
}

#[test]
fn s7_one_process_cannot_take_every_connection() {
    let world = World::start();
    let (mut open, reply) = fill(&world.places.ask_sock());
    assert_eq!(refusal(&reply), (429, "cap_reached".to_owned()));
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains(&open.len().to_string()) && text.contains("close some of them"), "{text}");
    // For who only asks it is no opinion, at once and with the reason.
    let body: RaiseAsk = serde_json::from_value(ask("k1", "ls")).unwrap();
    match Asker::new(world.places.clone(), None).unwrap().ask(&body) {
        Err(Unavailable::Refused(problem)) => assert!(problem.detail.unwrap().contains("connections")),
        other => panic!("{other:?}"),
    }
    // People come in by their own door.
    assert!(world.person().health().unwrap().ok);
    open.clear();
    world.until("a place", || {
        let mut requester = world.requester();
        let reply = requester.request("GET", "/healthz", None).unwrap();
        (reply.status == 200).then_some(())
    });
}

#[test]
fn s7_one_owner_cannot_take_every_stream() {
    let world = World::start();
    let open_one = |open: &mut Vec<Events>| {
        let opened = world.person().events(None, None);
        opened.map(|events| open.push(events))
    };
    let mut open = Vec::new();
    let refused = loop {
        if let Err(refused) = open_one(&mut open) {
            break refused;
        }
        assert!(open.len() < 10_000, "no limit");
    };
    let CallError::Refused(problem) = refused else { panic!("{refused:?}") };
    assert_eq!((problem.status, problem.code), (429, Code::CapReached));
    let text = problem.detail.unwrap();
    assert!(text.contains(&format!("has {} event streams", open.len())), "{text}");
    assert!(open.len() >= 256, "{}", open.len());
    // Everything else goes on, and a requester that hears of its own has the same limit.
    let raised = raise(&mut world.requester(), &ask("k1", "ls"));
    assert_eq!(world.show(&raised.id).id, raised.id);
    let own = world.requester().request("GET", "/v1/events", None).unwrap();
    assert_eq!(refusal(&own), (429, "cap_reached".to_owned()));
    open.pop();
    world.until("a stream", || open_one(&mut open).ok());
}

#[test]
fn s7_a_stream_that_nobody_reads_holds_no_asks() {
    const MANY: usize = 3_000;
    let world = World::start();
    let mut requester = world.requester();
    let asks: Vec<_> =
        (0..MANY).map(|n| raise(&mut requester, &ask(&format!("k{n}"), &"x".repeat(1_000)))).collect();
    let mut events = world.person().events(None, None).unwrap();
    // More than it has room for; so the last ones are looked up when they are read.
    let (last, first) = (asks.last().unwrap(), &asks[0]);
    let mut person = world.person_connection();
    for settled in [last, first] {
        let route = format!("/v1/asks/{}/answer", settled.id);
        assert_eq!(post(&mut person, &route, &answer(&settled.digest, "deny")).status, 200);
    }
    let StreamEvent::Snapshot { asks: shown, .. } = events.receive().unwrap().unwrap().event else {
        panic!("a stream begins with a snapshot")
    };
    let shown: Vec<_> = shown.into_iter().map(|ask| ask.id).collect();
    assert!(shown.iter().eq(asks[..MANY - 1].iter().map(|ask| &ask.id)), "{} are shown", shown.len());
    // What became of either is told behind it.
    for settled in [last, first] {
        let (what, id) = loop {
            if let StreamEvent::Ask { what, ask, .. } = events.receive().unwrap().unwrap().event {
                break (what, ask.id);
            }
        };
        assert_eq!((what.as_str(), &id), ("settled", &settled.id));
    }
    // The same for a list.
    let listed = world.person().list(false).unwrap();
    assert_eq!(listed.len(), MANY - 2);
}

#[test]
fn s7_a_subscriber_that_does_not_read_is_told_what_it_missed_and_goes_on() {
    let world = World::start();
    let mut slow = world.person().events(None, None).unwrap();
    assert!(matches!(slow.receive().unwrap().unwrap().event, StreamEvent::Snapshot { .. }));
    let (mut requester, mut person) = (world.requester(), world.person_connection());
    // Each of a session of its own: one alone may not hold so much.
    let sized = |key: &str| {
        let mut sized = ask(key, &"x".repeat(2 * MIB));
        sized["session"] = json!(format!("session of {key}"));
        sized
    };
    for n in 0..20 {
        let raised = raise(&mut requester, &sized(&format!("k{n}")));
        let route = format!("/v1/asks/{}/answer", raised.id);
        assert_eq!(post(&mut person, &route, &answer(&raised.digest, "deny")).status, 200);
        assert_eq!(post(&mut requester, &format!("/v1/asks/{}/handed", raised.id), &json!({})).status, 204);
    }
    let left = raise(&mut requester, &sized("left"));
    // What it had room for comes, then the gap with everything that is open then, and what follows: in the end it knows
    // what is true.
    let mut events = std::iter::from_fn(|| slow.receive().unwrap()).map(|event| event.event);
    let (mut open, mut gaps, mut newest) = (BTreeSet::new(), 0, 0);
    while open != BTreeSet::from([left.id.clone()]) {
        match events.next().unwrap() {
            StreamEvent::Gap { .. } => {
                gaps += 1;
                let Some(StreamEvent::Snapshot { asks, position }) = events.next() else {
                    panic!("no snapshot")
                };
                open = asks.into_iter().map(|ask| ask.id).collect();
                newest = position;
            }
            StreamEvent::Ask { ask, position, .. } => {
                assert!(position > newest, "once, in order");
                newest = position;
                if ask.state == AskState::Open {
                    open.insert(ask.id)
                } else {
                    open.remove(&ask.id)
                };
            }
            _ => {}
        }
    }
    assert!(gaps > 0);
    // From there on it is live.
    let next = raise(&mut requester, &ask("next", "ls"));
    assert!(events.any(|event| matches!(event, StreamEvent::Ask { ask, .. } if ask.id == next.id)));
}

#[test]
fn s7_large_lists_and_logs_come_whole() {
    let world = World::start();
    let mut requester = world.requester();
    for n in 0..4 {
        raise(&mut requester, &ask(&format!("k{n}"), &"x".repeat(MIB)));
    }
    let open = world.person().list(false).unwrap();
    assert_eq!(open.len(), 4);
    assert!(open.iter().all(|ask| ask.action.input.as_ref().unwrap().get().len() > MIB));
    assert_eq!(world.person().list(true).unwrap().len(), 4);
    let log = world.person().log(None, None).unwrap();
    assert_eq!(log.iter().filter(|entry| entry.what == "asked").count(), 4);
    let mut events = world.person().events(None, None).unwrap();
    let first = events.receive().unwrap().unwrap();
    let StreamEvent::Snapshot { asks, position } = first.event else { panic!("no snapshot") };
    assert_eq!((asks.len(), first.id), (4, Some(position)));
}

#[test]
fn s7_a_config_that_never_ends_holds_nothing_up() {
    let world = World::start();
    std::fs::remove_file(world.config_path()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(world.config_path()).status().unwrap();
    assert!(made.success());
    // Somebody writes into it and never stops.
    let config = world.config_path();
    let _writer = std::fs::OpenOptions::new().read(true).write(true).open(config).unwrap();
    let raised = raise(&mut world.requester(), &ask("k1", "ls"));
    assert!(raised.outcome.is_none());
    let notices = world.person().health().unwrap().notices;
    assert!(notices.iter().any(|text| text.contains("the old settings stay")), "{notices:?}");
}

#[test]
fn s1_a_session_of_scripts_is_ended_by_its_own_side_and_by_who_has_a_token_of_it() {
    let world = World::start();
    let ended = |session: &str| json!({"agent": "script", "session": session, "observations": [{"type": "session_ended"}]});
    let withdrawn = |id: &str| {
        let outcome = world.until("the end", || world.show(id).outcome);
        assert_eq!(outcome.cause, "session_ended");
    };
    // What the same process started is believed without a token, of the child and of the session above it.
    let mut child = ask("k1", "ls");
    child["session"] = json!("child");
    child["parent"] = json!("above");
    let raised = raise(&mut world.requester(), &child);
    let mut beside = world.requester();
    beside.set_token(None);
    assert_eq!(post(&mut beside, "/v1/observations", &ended("above")).status, 204);
    withdrawn(&raised.id);
    // Whoever is asked nothing of yet may say anything.
    assert_eq!(post(&mut beside, "/v1/observations", &ended("nobody's")).status, 204);
    let raised = raise(&mut world.requester(), &ask("k2", "ls"));
    assert_eq!(post(&mut world.requester(), "/v1/observations", &ended("s1")).status, 204);
    withdrawn(&raised.id);
}
