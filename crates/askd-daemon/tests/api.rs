//! The HTTP contract against a real daemon with a real journal.

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use askd_wire::{Code, Delivery, OutcomeKind, Raised, StreamEvent, Verdict};
use common::{PATIENCE, World, answer, ask, post, raise, refusal};
use serde_json::{Value, json};

#[test]
fn an_ask_is_held_listed_answered_and_delivered() {
    let world = World::start();
    let held = {
        let mut requester = world.requester();
        std::thread::spawn(move || {
            let reply = post(&mut requester, "/v1/asks?wait=600", &ask("k1", "ls  -la"));
            (reply, requester)
        })
    };
    let listed = world.until("the ask", || world.person().list(false).unwrap().into_iter().next());
    assert_eq!(listed.action.input.as_ref().unwrap().get(), r#"{"command":"ls  -la"}"#);
    assert_eq!(listed.requester.link, "attached");
    assert_eq!(world.person().sessions().unwrap()[0].waiting, 1);

    let mut person = world.person_connection();
    let told =
        post(&mut person, &format!("/v1/asks/{}/answer", listed.handle), &answer(&listed.digest, "allow"));
    assert_eq!(told.status, 200);
    let (reply, mut requester) = held.join().unwrap();
    assert_eq!(reply.status, 201);
    let raised: Raised = serde_json::from_slice(&reply.body).unwrap();
    let outcome = raised.ask.outcome.unwrap();
    assert_eq!((outcome.outcome, outcome.verdict), (OutcomeKind::Allowed, Verdict::Allow));
    assert_eq!((outcome.cause.as_str(), outcome.surface.as_deref()), ("person", Some("test")));
    assert_eq!(raised.ask.delivery, Delivery::Pending);
    assert_eq!(post(&mut requester, &format!("/v1/asks/{}/handed", listed.id), &json!({})).status, 204);
    assert_eq!(world.show(&listed.handle).delivery, Delivery::Handed);
    assert_eq!(world.person().sessions().unwrap()[0].waiting, 0);
}

#[test]
fn c5_duplicate_late_unknown_and_wrong_answers_are_refused_by_name() {
    let world = World::start();
    let mut requester = world.requester();
    let raised = raise(&mut requester, &ask("k1", "ls"));
    let route = format!("/v1/asks/{}/answer", raised.id);
    let mut person = world.person_connection();
    let other = askd_core::Digest::of("x", None, None, "").to_string();
    assert_eq!(
        refusal(&post(&mut person, &route, &answer(&other, "allow"))),
        (412, "digest_mismatch".to_owned())
    );
    let mut always = answer(&raised.digest, "allow");
    always["option"] = json!("always");
    assert_eq!(refusal(&post(&mut person, &route, &always)), (422, "option_not_offered".to_owned()));
    let bad = json!({"decision": "maybe", "digest": raised.digest});
    assert_eq!(refusal(&post(&mut person, &route, &bad)), (400, "malformed".to_owned()));
    let unknown = "/v1/asks/0190aaaa-0000-7000-8000-000000000000/answer";
    assert_eq!(
        refusal(&post(&mut person, unknown, &answer(&raised.digest, "deny"))),
        (404, "unknown_ask".to_owned())
    );
    assert_eq!(refusal(&post(&mut person, "/v1/asks/zzz/answer", &answer(&raised.digest, "deny"))).0, 404);

    let mut deny = answer(&raised.digest, "deny");
    deny["message"] = json!("not this folder");
    assert_eq!(post(&mut person, &route, &deny).status, 200);
    let late = post(&mut person, &route, &answer(&raised.digest, "allow"));
    assert_eq!(refusal(&late), (409, "already_settled".to_owned()));
    let problem: askd_wire::Problem = serde_json::from_slice(&late.body).unwrap();
    let settled = problem.ask.unwrap().outcome.unwrap();
    assert_eq!(settled.outcome, OutcomeKind::Denied);
    assert_eq!(settled.reason_for_model.as_deref(), Some("not this folder"));
}

#[test]
fn two_opposite_answers_at_once_have_one_winner() {
    let world = World::start();
    let mut requester = world.requester();
    for round in 0..50 {
        let raised = raise(&mut requester, &ask(&format!("k{round}"), "ls"));
        let route = format!("/v1/asks/{}/answer", raised.id);
        let race: Vec<_> = ["allow", "deny", "allow", "deny"]
            .map(|decision| {
                let (mut person, route) = (world.person_connection(), route.clone());
                let body = answer(&raised.digest, decision);
                std::thread::spawn(move || (decision, post(&mut person, &route, &body).status))
            })
            .into_iter()
            .map(|t| t.join().unwrap())
            .collect();
        let winners: Vec<_> = race.iter().filter(|(_, status)| *status == 200).collect();
        assert_eq!(winners.len(), 1, "{race:?}");
        assert!(race.iter().all(|(_, status)| [200, 409].contains(status)), "{race:?}");
        let outcome = world.show(&raised.id).outcome.unwrap().outcome;
        assert_eq!(outcome == OutcomeKind::Allowed, winners[0].0 == "allow");
    }
}

#[test]
fn c1_a_lost_requester_comes_back_to_its_answer() {
    let mut world = World::start();
    let raised = raise(&mut world.requester(), &ask("k1", "ls"));
    // The connection is gone; the ask stays open for its grace and over a restart.
    world
        .until("the link to be lost", || (world.show(&raised.id).requester.link == "detached").then_some(()));
    world.leave("restart");
    world.up();
    assert!(world.show(&raised.handle).outcome.is_none());
    let mut person = world.person_connection();
    let route = format!("/v1/asks/{}/answer", raised.id);
    assert_eq!(post(&mut person, &route, &answer(&raised.digest, "allow")).status, 200);
    // Another token with the same key is another requester.
    let mut stranger = world.requester();
    stranger.set_token(Some("f".repeat(32)));
    assert_ne!(raise(&mut stranger, &ask("k1", "ls")).id, raised.id);
    let back = post(&mut world.requester(), "/v1/asks?wait=600", &ask("k1", "ls"));
    assert_eq!(back.status, 200);
    let back: Raised = serde_json::from_slice(&back.body).unwrap();
    assert_eq!(back.ask.id, raised.id);
    assert_eq!(back.ask.outcome.unwrap().verdict, Verdict::Allow);
}

#[test]
fn c4_c5_what_was_taken_down_between_two_requests_is_told_with_the_second() {
    let world = World::start();
    let mut requester = world.requester();
    let first = raise(&mut requester, &ask("k1", "ls"));
    let dismiss = |handle: &str| {
        let reply = post(&mut world.person_connection(), &format!("/v1/asks/{handle}/withdraw"), &json!({}));
        assert_eq!(reply.status, 204);
    };
    dismiss(&first.handle);
    let again = || post(&mut world.requester(), "/v1/asks?wait=5", &ask("k1", "ls"));
    let told = post(&mut requester, "/v1/asks?wait=5", &ask("k1", "ls"));
    let raised: Raised = serde_json::from_slice(&told.body).unwrap();
    assert_eq!((told.status, &raised.ask.id), (200, &first.id));
    assert_eq!(raised.ask.outcome.unwrap().cause, "cancelled");
    // It knows now: who asks once more asks anew.
    let (reply, fresh) = std::thread::scope(|scope| {
        let waits = scope.spawn(again);
        let fresh = world.until("the new one", || world.person().list(false).unwrap().pop());
        dismiss(&fresh.handle);
        (waits.join().unwrap(), fresh)
    });
    assert_eq!(reply.status, 201);
    assert_ne!(fresh.id, raised.ask.id);
}

#[test]
fn a_hook_that_ends_withdraws_and_its_late_answer_waits_for_the_same_call() {
    let world = World::start();
    let mut hook = ask("nonce-1", "make");
    hook["requester"] = json!("hook");
    hook["grace_secs"] = json!(0);
    let raised = raise(&mut world.requester(), &hook);
    world.until("the withdrawal", || world.show(&raised.id).outcome);
    let mut person = world.person_connection();
    let late = post(&mut person, &format!("/v1/asks/{}/answer", raised.id), &answer(&raised.digest, "allow"));
    let problem: Value = serde_json::from_slice(&late.body).unwrap();
    assert_eq!((late.status, &problem["recorded"]), (409, &json!("late")), "{problem}");
    hook["key"] = json!("nonce-2");
    let mut requester = world.requester();
    let again = raise(&mut requester, &hook);
    assert_eq!(again.outcome.unwrap().verdict, Verdict::Allow);
    hook["key"] = json!("nonce-3");
    assert!(raise(&mut requester, &hook).outcome.is_none(), "it was used once already");
}

#[test]
fn c8_waiting_is_the_number_of_open_asks_also_in_the_stream() {
    let world = World::start();
    let mut events = world.person().events(None, None).unwrap();
    assert!(
        matches!(events.receive().unwrap().unwrap().event, StreamEvent::Snapshot { ref asks, .. } if asks.is_empty())
    );
    let mut requester = world.requester();
    let asks: Vec<_> = (0..3).map(|n| raise(&mut requester, &ask(&format!("k{n}"), "ls"))).collect();
    let mut person = world.person_connection();
    for raised in &asks {
        let route = format!("/v1/asks/{}/answer", raised.id);
        assert_eq!(post(&mut person, &route, &answer(&raised.digest, "deny")).status, 200);
    }
    let mut counts = Vec::new();
    while counts.len() < 6 {
        if let StreamEvent::Waiting { waiting, .. } = events.receive().unwrap().unwrap().event {
            counts.push(waiting);
        }
    }
    assert_eq!(counts, [1, 2, 3, 2, 1, 0]);
}

#[test]
fn a_stream_resumes_without_a_gap_and_says_when_it_cannot() {
    let world = World::start();
    let mut requester = world.requester();
    let first = raise(&mut requester, &ask("k1", "one"));
    let mut events = world.person().events(None, None).unwrap();
    let StreamEvent::Snapshot { position, asks } = events.receive().unwrap().unwrap().event else {
        panic!("a stream begins with a snapshot")
    };
    assert_eq!(asks.iter().map(|a| &a.id).collect::<Vec<_>>(), [&first.id]);
    drop(events);
    let second = raise(&mut requester, &ask("k2", "two"));
    let mut events = world.person().events(None, Some(position)).unwrap();
    let next = events.receive().unwrap().unwrap().event;
    assert!(
        matches!(&next, StreamEvent::Ask { what, ask, .. } if what == "asked" && ask.id == second.id),
        "{next:?}"
    );
    // Live from here.
    let third = raise(&mut requester, &ask("k3", "three"));
    let live = std::iter::from_fn(|| events.receive().unwrap())
        .find_map(|e| match e.event {
            StreamEvent::Ask { what, ask, .. } => Some((what, ask.id)),
            _ => None,
        })
        .unwrap();
    assert_eq!(live, ("asked".to_owned(), third.id));
    // A position of another journal.
    let mut events = world.person().events(None, Some(9_999)).unwrap();
    assert!(matches!(events.receive().unwrap().unwrap().event, StreamEvent::Gap { after: 9_999 }));
    assert!(
        matches!(events.receive().unwrap().unwrap().event, StreamEvent::Snapshot { asks, .. } if asks.len() == 3)
    );
}

#[test]
fn s1_the_ask_socket_answers_nothing_and_shows_nobody_elses_asks() {
    let world = World::start();
    let mut requester = world.requester();
    let raised = raise(&mut requester, &ask("k1", "ls"));
    let route = format!("/v1/asks/{}/answer", raised.id);
    assert_eq!(
        refusal(&post(&mut requester, &route, &answer(&raised.digest, "allow"))),
        (403, "not_permitted".to_owned())
    );
    assert_eq!(refusal(&post(&mut requester, "/v1/answers", &json!([]))), (403, "not_permitted".to_owned()));
    for target in ["/v1/config/accept", "/v1/daemon/stop", "/v1/surfaces"] {
        assert_eq!(post(&mut requester, target, &json!({})).status, 404, "{target}");
    }
    let mut stranger = world.requester();
    stranger.set_token(Some("e".repeat(32)));
    let own = format!("/v1/asks/{}", raised.id);
    assert_eq!(requester.request("GET", &own, None).unwrap().status, 200);
    assert_eq!(stranger.request("GET", &own, None).unwrap().status, 404);
    assert_eq!(
        refusal(&post(&mut stranger, &format!("{own}/withdraw"), &json!({"cause": "cancelled"}))).0,
        404
    );
    assert!(world.show(&raised.id).outcome.is_none());
}

#[test]
fn s1_an_agents_own_tree_is_refused_and_the_attempt_is_logged() {
    let world = World::start();
    let mut body = ask("k1", "ls");
    // The test plays the agent: its own process is the instance.
    body["instance"] = json!({"pid": std::process::id()});
    let mut requester = world.requester();
    let raised = raise(&mut requester, &body);
    let mut events = world.person().events(None, None).unwrap();
    let told = post(
        &mut world.person_connection(),
        &format!("/v1/asks/{}/answer", raised.id),
        &answer(&raised.digest, "allow"),
    );
    assert_eq!(refusal(&told), (403, "not_permitted".to_owned()));
    assert!(world.show(&raised.id).outcome.is_none());
    let log = world.person().log(None, Some("s1")).unwrap();
    assert!(log.iter().any(|e| e.what == "self_answer_refused"), "{log:?}");
    let notice = std::iter::from_fn(|| events.receive().unwrap()).find_map(|e| match e.event {
        StreamEvent::Notice { text } => Some(text),
        _ => None,
    });
    assert!(notice.unwrap().contains("tried to answer"));
    let mut agent = world.person_connection();
    for target in ["/v1/daemon/stop", "/v1/daemon/restart"] {
        assert_eq!(refusal(&post(&mut agent, target, &json!({}))).0, 403, "{target}");
    }
    let loosen = json!({"key": "permissions.background_default", "value": "allow"});
    assert_eq!(refusal(&post(&mut agent, "/v1/config/accept", &loosen)).0, 403);
    // The agent ends its session: from then on the process is nobody's agent.
    let ended = json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    assert_eq!(post(&mut requester, "/v1/observations", &ended).status, 204);
}

#[test]
fn s1_an_agent_plays_no_surface_and_names_no_foreign_process() {
    let world = World::start();
    let mut requester = world.requester();
    // A claim on a process that is not above the requester would keep that one's people from answering.
    let mut claims = ask("k1", "ls");
    claims["instance"] = json!({"pid": 1});
    let raised = raise(&mut requester, &claims);
    assert_eq!(raised.lineage.instance, None);
    let route = format!("/v1/asks/{}/answer", raised.id);
    assert_eq!(post(&mut world.person_connection(), &route, &answer(&raised.digest, "deny")).status, 200);
    // From here on this process is an agent.
    let mut own = ask("k2", "ls");
    own["instance"] = json!({"pid": std::process::id()});
    let raised = raise(&mut requester, &own);
    let mut agent = world.person_connection();
    let phone = json!({"name": "my phone", "kind": "remote", "scope": "all"});
    assert_eq!(refusal(&post(&mut agent, "/v1/surfaces", &phone)).0, 403);
    let shown = json!({"type": "shown", "ask": raised.id});
    assert_eq!(refusal(&post(&mut agent, "/v1/surfaces/s1/report", &shown)).0, 403);
    assert_eq!(world.person().health().unwrap().surfaces, 0);
    let ended = json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    assert_eq!(post(&mut requester, "/v1/observations", &ended).status, 204);
}

#[test]
fn who_can_see_a_root_is_counted_by_its_name() {
    let world = World::start();
    let mut streams = Vec::new();
    for scope in [json!("all"), json!({"roots": ["a/one", "a/two/x"]})] {
        let surface = json!({"name": "tty", "kind": "direct", "scope": scope});
        let reply = post(&mut world.person_connection(), "/v1/surfaces", &surface);
        let id: askd_wire::Registered = serde_json::from_slice(&reply.body).unwrap();
        streams.push(world.person().events(Some(&id.surface), None).unwrap());
    }
    let seen = |root: &str, count: u32| {
        world.until(root, || (world.person().health_of(root).unwrap().surfaces == count).then_some(()))
    };
    seen("a/one", 2);
    seen("a/two/x", 2);
    seen("a/other", 1);
    seen("b/one", 1);
    streams.remove(0);
    seen("a/one", 1);
    seen("a/other", 0);
}

#[test]
fn a_surface_is_attached_while_a_stream_of_it_is_open_and_no_longer() {
    let world = World::start();
    let surface = json!({"name": "tty", "kind": "direct"});
    let reply = post(&mut world.person_connection(), "/v1/surfaces", &surface);
    let id: askd_wire::Registered = serde_json::from_slice(&reply.body).unwrap();
    let attached = |count: u32| {
        world.until("the surfaces", || (world.person().health().unwrap().surfaces == count).then_some(()))
    };
    let shown = json!({"type": "shown", "ask": "k7f"});
    let early = post(&mut world.person_connection(), &format!("/v1/surfaces/{}/report", id.surface), &shown);
    assert_eq!(refusal(&early), (400, "malformed".to_owned()));
    // Two streams, one ends: still there.
    let first = world.person().events(Some(&id.surface), None).unwrap();
    let mut second = world.person().events(Some(&id.surface), None).unwrap();
    second.receive().unwrap();
    attached(1);
    drop(first);
    raise(&mut world.requester(), &ask("k1", "ls"));
    attached(1);
    drop(second);
    attached(0);
    // A stream that never came to be leaves nothing behind, nor does one that is closed at once.
    let target = format!("/v1/events?surface={}", id.surface);
    let mut raw = UnixStream::connect(world.places.answer_sock()).unwrap();
    write!(raw, "GET {target} HTTP/1.1\r\nhost: a\r\nlast-event-id: junk\r\n\r\n").unwrap();
    let mut start = [0; 12];
    raw.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 400");
    for _ in 0..40 {
        let mut raw = UnixStream::connect(world.places.answer_sock()).unwrap();
        write!(raw, "GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    }
    attached(0);
}

#[test]
fn an_ask_without_an_option_to_reject_can_be_denied_all_the_same() {
    let world = World::start();
    let mut body = ask("k1", "ls");
    body["options"] = json!([{"id": "r", "label": "Always", "kind": "allow_always"}]);
    let raised = raise(&mut world.requester(), &body);
    let route = format!("/v1/asks/{}/answer", raised.id);
    let mut person = world.person_connection();
    assert_eq!(refusal(&post(&mut person, &route, &answer(&raised.digest, "allow"))).0, 422);
    assert_eq!(post(&mut person, &route, &answer(&raised.digest, "deny")).status, 200);
}

#[test]
fn s2_a_loosened_default_waits_for_a_person_and_a_tightened_one_does_not() {
    let mut world = World::start();
    std::fs::write(
        world.config_path(),
        "[permissions]\nbackground_default = \"allow\"\nbackground_timeout_secs = 3600\n",
    )
    .unwrap();
    let background = |key: &str| {
        let mut body = ask(key, "ls");
        body["attendance"] = json!("background");
        body
    };
    let mut requester = world.requester();
    let before = raise(&mut requester, &background("k1"));
    assert_eq!(serde_json::to_value(before.default).unwrap(), json!("deny"));
    let waiting = world.person().health().unwrap().waiting_loosenings;
    assert_eq!(
        (waiting[0].key.as_str(), waiting[0].value.as_str()),
        ("permissions.background_default", "allow")
    );
    // Also over a restart.
    drop(requester);
    world.leave("restart");
    world.up();
    let mut requester = world.requester();
    assert_eq!(
        serde_json::to_value(raise(&mut requester, &background("k2")).default).unwrap(),
        json!("deny")
    );
    let accept = json!({"key": "permissions.background_default", "value": "allow"});
    assert_eq!(post(&mut world.person_connection(), "/v1/config/accept", &accept).status, 204);
    assert_eq!(
        serde_json::to_value(raise(&mut requester, &background("k3")).default).unwrap(),
        json!("allow")
    );
    // Tightened: at once, and what was accepted is forgotten.
    std::fs::write(world.config_path(), "[permissions]\nbackground_timeout_secs = 3600\n").unwrap();
    assert_eq!(
        serde_json::to_value(raise(&mut requester, &background("k4")).default).unwrap(),
        json!("deny")
    );
    std::fs::write(
        world.config_path(),
        "[permissions]\nbackground_default = \"allow\"\nbackground_timeout_secs = 7200\n",
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(raise(&mut requester, &background("k5")).default).unwrap(),
        json!("deny")
    );
}

#[test]
fn s7_limits_and_broken_requests_are_refused_by_name() {
    let world = World::start();
    let mut requester = world.requester();
    for (body, part) in [
        (json!({"key": "k"}), "missing field"),
        (json!([1]), "expected"),
        (
            {
                let mut b = ask("", "x");
                b["key"] = json!("");
                b
            },
            "key is empty",
        ),
        (
            {
                let mut b = ask("k", "x");
                b["agent"] = json!("a/b");
                b
            },
            "without '/'",
        ),
        (
            {
                let mut b = ask("k", "x");
                b["deadline_secs"] = json!(5);
                b
            },
            "background",
        ),
        (
            {
                let mut b = ask("k", "x");
                b["key"] = json!("k".repeat(5000));
                b
            },
            "1024 bytes",
        ),
    ] {
        let reply = post(&mut requester, "/v1/asks", &body);
        assert_eq!(refusal(&reply), (400, "malformed".to_owned()));
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains(part), "{text}");
    }
    // Exactly at the limit a body is taken, beyond it it is not.
    let mut big = ask("big", "x");
    let room = 16 * 1024 * 1024 - big.to_string().len();
    big["action"]["input"]["command"] = json!("y".repeat(room + 1));
    assert_eq!(raise(&mut requester, &big).action.tool, "Bash");
    big["action"]["input"]["command"] = json!("y".repeat(room + 2));
    let mut raw = UnixStream::connect(world.places.ask_sock()).unwrap();
    raw.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = big.to_string();
    write!(raw, "POST /v1/asks HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
    // The daemon may refuse and close before it has read everything.
    let _ = raw.write_all(body.as_bytes());
    let mut start = [0; 12];
    raw.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    // A head beyond 16 KiB.
    let mut raw = UnixStream::connect(world.places.ask_sock()).unwrap();
    raw.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = write!(raw, "GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "z".repeat(20_000));
    raw.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 431");
    // Not HTTP at all.
    let mut raw = UnixStream::connect(world.places.answer_sock()).unwrap();
    raw.write_all(&[0, 159, 146, 150, 10, 10]).unwrap();
    let mut rest = Vec::new();
    let _ = raw.read_to_end(&mut rest);
    assert!(world.person().health().unwrap().ok);
}

#[test]
fn a_newer_caller_is_told_what_to_upgrade() {
    let world = World::start();
    let mut raw = UnixStream::connect(world.places.ask_sock()).unwrap();
    raw.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(raw, "GET /healthz HTTP/1.1\r\nhost: a\r\nx-askd-version: 99\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    raw.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 426") && text.contains("askd daemon restart"), "{text}");
}

#[test]
fn stopping_releases_who_waits_and_blocks_autostart() {
    let mut world = World::start();
    let mut hook = ask("n1", "ls");
    hook["requester"] = json!("hook");
    hook["grace_secs"] = json!(0);
    hook["own_prompt"] = json!({"where": "terminal"});
    let wait = |body: Value| {
        let mut requester = world.requester();
        std::thread::spawn(move || post(&mut requester, "/v1/asks?wait=600", &body))
    };
    let mut proxy = ask("k2", "ls");
    proxy["requester"] = json!("proxy");
    let (hook, script, proxy) = (wait(hook), wait(ask("k1", "ls")), wait(proxy));
    world.until("all asks", || (world.person().list(false).unwrap().len() == 3).then_some(()));
    world.leave("stop");
    let hook: Raised = serde_json::from_slice(&hook.join().unwrap().body).unwrap();
    assert_eq!((hook.ask.requester.link.as_str(), hook.released), ("handed_back", false));
    let script: Raised = serde_json::from_slice(&script.join().unwrap().body).unwrap();
    assert!(script.released);
    let proxy: Raised = serde_json::from_slice(&proxy.join().unwrap().body).unwrap();
    assert!(proxy.released && proxy.ask.outcome.is_none());
    assert!(world.places.stopped_file().exists());
    // A person starts it again: what comes back is still there, nobody was answered, and nobody is asked for who was let go.
    world.up();
    assert!(!world.places.stopped_file().exists());
    // Raised at the same time, in whatever order.
    let open: BTreeSet<_> = world.person().list(false).unwrap().into_iter().map(|ask| ask.id).collect();
    assert_eq!(open, BTreeSet::from([hook.ask.id.clone(), proxy.ask.id.clone()]));
    let let_go = world.show(&script.ask.id).outcome.unwrap();
    assert_eq!((let_go.outcome, let_go.cause.as_str()), (OutcomeKind::Withdrawn, "requester_gone"));
    assert_eq!(let_go.message.as_deref(), Some("askd was stopped"));
    let refused = post(
        &mut world.person_connection(),
        &format!("/v1/asks/{}/answer", hook.ask.id),
        &answer(&hook.ask.digest, "allow"),
    );
    assert_eq!(
        refusal(&refused),
        (409, serde_json::to_value(Code::HandedBack).unwrap().as_str().unwrap().to_owned())
    );
}

#[test]
fn c11_a_background_childs_dialog_is_only_held_while_somebody_can_answer() {
    let world = World::start();
    let child = |key: &str| {
        let mut body = ask(key, key);
        body["requester"] = json!("hook");
        body["grace_secs"] = json!(0);
        body["own_prompt"] = json!({"where": "terminal", "blocked": true});
        body["subagent"] = json!({"work_id": "w1"});
        body
    };
    let mut requester = world.requester();
    assert_eq!(raise(&mut requester, &child("nobody there")).requester.link, "handed_back");
    let surface = world
        .person()
        .register(&askd_wire::RegisterSurface {
            name: "test".to_owned(),
            kind: askd_wire::SurfaceKind::Direct,
            scope: askd_wire::Scope::All,
            capacity: None,
        })
        .unwrap()
        .surface;
    let mut events = world.person().events(Some(&surface), None).unwrap();
    events.receive().unwrap().unwrap();
    let held = raise(&mut requester, &child("held"));
    assert_eq!(held.requester.link, "attached");
    drop(events);
    world.until("the hand-back", || (world.show(&held.id).requester.link == "handed_back").then_some(()));
}
