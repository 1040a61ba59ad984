//! An asker in front of a daemon that comes and goes.

use std::io::{BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;
use std::time::Instant;

use askd_client::{Asker, HookStop, OrStop, Places, Raced, Unavailable, Wake, Watch, race};
use askd_wire::RaiseAsk;
use serde_json::{Value, json};

use crate::support::{listen, read_request, reply};

fn places(temp: &tempfile::TempDir) -> Places {
    Places::at(temp.path())
}

fn raise() -> RaiseAsk {
    let raise = json!({
        "key": "k1", "action": {"tool": "Bash", "input": {"command": "ls"}}, "agent": "script", "session": "s",
        "requester": "script",
    });
    serde_json::from_str(&raise.to_string()).unwrap()
}

fn ask(state: &str, link: &str) -> Value {
    let outcome = json!({
        "outcome": "allowed", "cause": "person", "settled_at": "2026-11-30T08:00:00.000Z", "verdict": "allow",
        "text": "allowed by you",
    });
    json!({
        "id": "a1", "handle": "k7f", "state": state, "digest": "sha256:0", "class": "tool", "attendance": "foreground",
        "action": {"tool": "Bash", "kind": null, "title": null, "input": {"command": "ls"}, "cwd": null}, "display": [],
        "lineage": {"agent": "script", "session": "s", "root": "s"}, "options": [],
        "asked_at": "2026-11-30T08:00:00.000Z", "deadline": null, "default": null, "gives_up_at": null,
        "requester": {"link": link}, "outcome": if state == "settled" { outcome } else { Value::Null },
        "delivery": "none",
    })
}

fn raised(state: &str, link: &str) -> String {
    reply(201, &json!({ "ask": ask(state, link) }).to_string())
}

/// Plays one reply after the other, on the same connection as long as it is open; gives the heads and bodies it got.
/// An empty reply closes the connection.
fn play(listener: UnixListener, replies: Vec<String>) -> JoinHandle<Vec<(String, String)>> {
    std::thread::spawn(move || {
        let mut got = Vec::new();
        let mut replies = replies.into_iter().peekable();
        while replies.peek().is_some() {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while replies.peek().is_some() {
                let Some(request) = read_request(&mut reader) else { break };
                got.push(request);
                let reply = replies.next().unwrap();
                if reply.is_empty() {
                    break;
                }
                (&stream).write_all(reply.as_bytes()).unwrap();
            }
        }
        got
    })
}

fn token(head: &str) -> String {
    head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap().to_owned()
}

#[test]
fn c1_whatever_breaks_the_same_ask_is_asked_again_with_the_same_token() {
    let temp = tempfile::tempdir().unwrap();
    let listener = listen(&places(&temp));
    let problem = json!({"title": "No", "status": 503, "code": "not_recorded"}).to_string();
    let replies = vec![
        String::new(),
        reply(503, &problem),
        reply(500, "oops"),
        raised("open", "attached"),
        "garbage\r\n\r\n".to_owned(),
        reply(200, "{\"ask\":{}}"),
        raised("settled", "attached"),
        reply(200, "{}"),
        reply(200, "{}"),
    ];
    let count = replies.len();
    let daemon = play(listener, replies);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    let settled = asker.ask(&raise()).unwrap();
    assert_eq!(settled.outcome.unwrap().text, "allowed by you");
    asker.handed("a1").unwrap();
    asker.confirmed("a1").unwrap();
    let got = daemon.join().unwrap();
    assert_eq!(got.len(), count);
    for (head, body) in &got {
        assert_eq!(token(head), asker.token());
        assert_eq!(asker.token().len(), 32);
        if head.starts_with("POST /v1/asks?wait=") {
            assert_eq!(body, &got[0].1);
        }
    }
    assert!(got[count - 1].0.starts_with("POST /v1/asks/a1/confirmed "));
}

#[test]
fn s7_a_limit_is_no_decision_and_does_not_end_a_wait_that_is_on() {
    let temp = tempfile::tempdir().unwrap();
    let problem = json!({"title": "cap reached", "status": 429, "code": "cap_reached", "detail": "so many"});
    let full = reply(429, &problem.to_string());
    // Nobody has the ask: the host hears why, at once.
    let daemon = play(listen(&places(&temp)), vec![full.clone()]);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    let refused = asker.ask(&raise()).unwrap_err();
    assert!(matches!(refused, Unavailable::Refused(_)), "{refused:?}");
    assert_eq!(refused.to_string(), "the daemon refused: cap reached: so many");
    daemon.join().unwrap();
    // It is raised: whatever there is no room for, it waits on for its outcome.
    let temp = tempfile::tempdir().unwrap();
    let replies = vec![raised("open", "attached"), full.clone(), full, raised("settled", "attached")];
    let daemon = play(listen(&places(&temp)), replies);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    assert!(asker.ask(&raise()).unwrap().outcome.is_some());
    assert_eq!(daemon.join().unwrap().len(), 4);
}

/// In whose time nothing comes as often as it says, and then what comes comes.
struct Silent(u32);

impl Watch for Silent {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> std::io::Result<Wake> {
        if socket.is_some() && self.0 > 0 {
            self.0 -= 1;
            return Ok(Wake::TimedOut);
        }
        askd_client::JustWait.wait(socket, until)
    }
}

/// Seconds that a request asks the daemon to hold it.
fn held_for(head: &str) -> u64 {
    let (_, rest) = head.split_once("/v1/asks?wait=").unwrap();
    rest.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn c1_a_daemon_that_takes_a_first_ask_and_says_nothing_is_left_without_a_decision() {
    let temp = tempfile::tempdir().unwrap();
    // It would reply if it were asked a second time.
    let daemon = play(listen(&places(&temp)), vec![String::new()]);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    let unavailable = asker.ask_watched(&raise(), &mut Silent(1)).unwrap_err();
    assert!(matches!(unavailable, Unavailable::Fault(_)), "{unavailable:?}");
    let got = daemon.join().unwrap();
    assert!(held_for(&got[0].0) <= 2, "an agent does not wait longer for one that hangs: {}", got[0].0);
}

#[test]
fn c1_one_that_has_the_ask_and_falls_silent_is_asked_again() {
    let temp = tempfile::tempdir().unwrap();
    let daemon = play(
        listen(&places(&temp)),
        vec![raised("open", "attached"), String::new(), raised("settled", "attached")],
    );
    let mut asker = Asker::new(places(&temp), None).unwrap();
    asker.raise(&raise()).unwrap();
    assert!(asker.ask(&raise()).unwrap().outcome.is_some());
    assert_eq!(daemon.join().unwrap().len(), 3);
}

#[test]
fn what_ends_a_wait_comes_before_what_is_there_to_read() {
    let (stop, write) = std::io::pipe().unwrap();
    let (socket, mut sender) = std::io::pipe().unwrap();
    let patience = Instant::now() + std::time::Duration::from_secs(60);
    sender.write_all(b"x").unwrap();
    let mut watch = OrStop(stop.as_fd());
    assert_eq!(watch.wait(Some(socket.as_fd()), patience).unwrap(), Wake::Readable);
    assert_eq!(watch.wait(None, Instant::now()).unwrap(), Wake::TimedOut);
    drop(write);
    assert_eq!(watch.wait(Some(socket.as_fd()), patience).unwrap(), Wake::Stop);
}

#[test]
fn an_ask_is_taken_back_by_its_key_and_no_daemon_is_started_for_it() {
    let temp = tempfile::tempdir().unwrap();
    let asker = Asker::new(places(&temp), Some("/bin/false".into())).unwrap();
    // One that is away has the ask in its journal: it is to be told later.
    let away = asker.withdraw_key("k1", "cancelled").unwrap_err();
    assert!(matches!(away, Unavailable::NotRunning(_)), "{away:?}");
    assert!(!asker.may_be_known());
    let problem = json!({"title": "unknown", "status": 404, "code": "unknown_ask"}).to_string();
    let closed = json!({"title": "not yours", "status": 403, "code": "not_permitted"}).to_string();
    let replies = vec![reply(204, ""), String::new(), reply(404, &problem), reply(403, &closed)];
    let daemon = play(listen(&places(&temp)), replies);
    asker.withdraw_key("k1", "cancelled").unwrap();
    assert!(!asker.withdraw_key("k1", "cancelled").unwrap_err().is_final_refusal());
    asker.withdraw_key("k1", "cancelled").unwrap();
    assert!(asker.withdraw_key("k1", "cancelled").unwrap_err().is_final_refusal());
    let got = daemon.join().unwrap();
    assert!(got[0].0.starts_with("POST /v1/asks/withdraw "));
    assert_eq!(token(&got[0].0), asker.token());
    assert_eq!(serde_json::from_str::<Value>(&got[0].1).unwrap(), json!({"key": "k1", "cause": "cancelled"}));
}

/// A daemon of before hooks could tell what they decided.
#[test]
fn c3_an_older_daemon_is_told_of_a_hooks_decision_as_a_withdrawal_that_voids_nobodys_answer() {
    let temp = tempfile::tempdir().unwrap();
    let no_route = |status: u16| {
        reply(status, &json!({"title": "no", "status": status, "code": "malformed"}).to_string())
    };
    let settled =
        json!({"title": "no", "status": 409, "code": "already_settled", "ask": ask("settled", "attached")});
    let replies = vec![
        no_route(404),
        reply(204, ""),
        reply(204, ""),
        String::new(),
        no_route(405),
        reply(409, &settled.to_string()),
    ];
    let daemon = play(listen(&places(&temp)), replies);
    let asker = Asker::new(places(&temp), None).unwrap();
    let decision = askd_wire::Decision::Allow;
    asker.decided_by_hook(&raise(), Some("id"), decision, false).unwrap();
    asker.decided_by_hook(&raise(), None, decision, false).unwrap_err();
    let why = asker.decided_by_hook(&raise(), None, decision, false).unwrap_err();
    assert!(matches!(&why, Unavailable::Refused(problem) if problem.ask.is_some()), "{why:?}");
    let got = daemon.join().unwrap();
    let said: Vec<_> = got.iter().map(|(head, body)| (head.split(' ').nth(1).unwrap(), &**body)).collect();
    let hook = json!({"decision": "allow", "by": "hook", "went_on": false});
    assert_eq!((said[0].0, serde_json::from_str::<Value>(said[0].1).unwrap()), ("/v1/asks/id/decided", hook));
    let cause = |said: &(&str, &str)| {
        let body: Value = serde_json::from_str(said.1).unwrap();
        (said.0.to_owned(), body["cause"].as_str().unwrap().to_owned())
    };
    let withdrawn = |why: &str| ("/v1/asks/withdraw".to_owned(), why.to_owned());
    assert_eq!([cause(&said[1]), cause(&said[2])], [withdrawn("handed_back"), withdrawn("cancelled")]);
    assert_eq!(cause(&said[5]), withdrawn("handed_back"));
    assert_eq!(said.len(), 6, "what was settled is not cancelled");
}

#[test]
fn c3_what_people_recorded_stands_against_a_hook_also_when_the_first_raise_failed() {
    let temp = tempfile::tempdir().unwrap();
    let listener = listen(&places(&temp));
    let (arrived, has_arrived) = std::sync::mpsc::channel();
    let daemon = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        read_request(&mut reader).unwrap();
        let full = json!({"title": "No", "status": 503, "code": "not_recorded"}).to_string();
        (&stream).write_all(reply(503, &full).as_bytes()).unwrap();
        // Raised now, and not replied to: a person denies it in the moment in which the hook allows.
        read_request(&mut reader).unwrap();
        arrived.send(()).unwrap();
        assert!(read_request(&mut reader).is_none(), "the requester hangs up");
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (head, _) = read_request(&mut reader).unwrap();
        let mut denied = ask("settled", "attached");
        denied["outcome"]["outcome"] = json!("denied");
        denied["outcome"]["verdict"] = json!("deny");
        assert!(head.starts_with("POST /v1/asks/decided "), "its key names it: {head}");
        let first = json!({"title": "No", "status": 409, "code": "already_settled", "ask": denied});
        let answer = reply(409, &first.to_string());
        (&stream).write_all(answer.as_bytes()).unwrap();
    });
    let mut asker = Asker::new(places(&temp), None).unwrap();
    let hook = move |_: &HookStop| -> Result<_, String> {
        has_arrived.recv().unwrap();
        Ok(Some(askd_wire::Decision::Allow))
    };
    let raced = race(&mut asker, &raise(), std::time::Duration::from_secs(60), hook).unwrap();
    let Raced::Ask(ask) = raced else { panic!("{raced:?}") };
    assert_eq!(ask.outcome.unwrap().verdict, askd_wire::Verdict::Deny);
    daemon.join().unwrap();
}

#[test]
fn a_handed_back_ask_ends_the_wait_open() {
    let temp = tempfile::tempdir().unwrap();
    let daemon = play(listen(&places(&temp)), vec![raised("open", "handed_back")]);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    assert!(asker.ask(&raise()).unwrap().outcome.is_none());
    daemon.join().unwrap();
}

#[test]
fn c1_what_is_no_outcome_is_unavailable() {
    let problem = |status: u16, code: &str| {
        reply(status, &json!({"title": "No", "status": status, "code": code}).to_string())
    };
    let released = reply(200, &json!({"ask": ask("open", "attached"), "released": true}).to_string());
    let skew = "HTTP/1.1 426 X\r\ncontent-length: 0\r\nx-askd-version: 7\r\n\r\n".to_owned();
    type Right = fn(&Unavailable) -> bool;
    let cases: [(Vec<String>, Right); 5] = [
        (vec![released], |e| matches!(e, Unavailable::Released)),
        (vec![problem(403, "not_permitted")], |e| matches!(e, Unavailable::Refused(_))),
        (vec![problem(429, "cap_reached")], |e| matches!(e, Unavailable::Refused(_))),
        (vec![skew], |e| matches!(e, Unavailable::Skew(_))),
        (vec![problem(503, "not_recorded"); 5], |e| matches!(e, Unavailable::Refused(_))),
    ];
    for (replies, right) in cases {
        let temp = tempfile::tempdir().unwrap();
        let daemon = play(listen(&places(&temp)), replies);
        let error = Asker::new(places(&temp), None).unwrap().ask(&raise()).unwrap_err();
        assert!(right(&error), "{error:?}");
        daemon.join().unwrap();
    }
}

#[test]
fn without_a_daemon_the_asker_says_so_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let error = Asker::new(places(&temp), None).unwrap().ask(&raise()).unwrap_err();
    assert!(matches!(error, Unavailable::NotRunning(_)));
    // A stale socket is no daemon.
    drop(listen(&places(&temp)));
    assert!(places(&temp).ask_sock().exists());
    let error = Asker::new(places(&temp), None).unwrap().ask(&raise()).unwrap_err();
    assert!(error.to_string().contains("no askd daemon runs"), "{error}");
}

#[test]
fn its_own_limit_leaves_the_ask_open_until_it_withdraws() {
    let temp = tempfile::tempdir().unwrap();
    let listener = listen(&places(&temp));
    // More than it will ask for: it pauses between, since this daemon does not hold the request.
    let daemon = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((head, body)) = read_request(&mut reader) {
            if head.starts_with("POST /v1/asks/a1/withdraw ") {
                (&stream).write_all(reply(200, "{}").as_bytes()).unwrap();
                return body;
            }
            (&stream).write_all(raised("open", "attached").as_bytes()).unwrap();
        }
        panic!("never withdrawn");
    });
    let mut asker = Asker::new(places(&temp), None).unwrap();
    let raise = RaiseAsk { gives_up_secs: Some(2), ..raise() };
    let Err(Unavailable::GaveUp(Some(ask))) = asker.ask(&raise) else { panic!("did not give up") };
    asker.withdraw(&ask.id, "handed_back").unwrap();
    assert_eq!(daemon.join().unwrap(), r#"{"cause":"handed_back"}"#);
}

#[test]
fn a_stale_connection_is_replaced_when_the_delivery_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let daemon =
        play(listen(&places(&temp)), vec![raised("settled", "attached"), String::new(), reply(200, "{}")]);
    let mut asker = Asker::new(places(&temp), None).unwrap();
    asker.ask(&raise()).unwrap();
    asker.handed("a1").unwrap();
    let heads: Vec<_> = daemon.join().unwrap().into_iter().map(|(head, _)| head).collect();
    assert!(
        heads[1].starts_with("POST /v1/asks/a1/handed ") && heads[2].starts_with("POST /v1/asks/a1/handed ")
    );
}

#[test]
fn daemon_json_leads_to_sockets_elsewhere_but_only_to_private_ones() {
    let temp = tempfile::tempdir().unwrap();
    let places = places(&temp);
    askd_client::make_private_directory(places.state_dir()).unwrap();
    let elsewhere = temp.path().join("elsewhere");
    askd_client::make_private_directory(&elsewhere).unwrap();
    let listener = askd_client::bind_private_socket(&elsewhere.join("a.sock")).unwrap();
    let file = json!({
        "pid": 1, "version": "0", "api": 1, "ask_sock": elsewhere.join("a.sock"), "answer_sock": elsewhere.join("b.sock"),
    });
    std::fs::write(places.daemon_file(), file.to_string()).unwrap();
    askd_client::daemon::connect_ask(&places).unwrap();
    assert!(matches!(askd_client::daemon::connect_answer(&places), Err(Unavailable::NotRunning(_))));
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o750)).unwrap();
    assert!(matches!(askd_client::daemon::connect_ask(&places), Err(Unavailable::Unsafe(_))));
    drop(listener);
}
