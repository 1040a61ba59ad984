//! Three answer sources and the timed answer, with a remote surface that the test plays.

#![expect(clippy::unwrap_used, reason = "a failing step ends the test")]

mod common;
#[path = "sources/doom_loop.rs"]
mod doom_loop;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use askd_client::Events;
use askd_wire::{Ask, OutcomeKind, RegisterSurface, Scope, StreamEvent, SurfaceKind, SurfaceReport};
use common::{World, answer, ask, post, raise, refusal};
use serde_json::{Value, json};

/// A surface that the test plays.
struct Surface {
    id: String,
    events: Events,
}

impl Surface {
    fn attach(world: &World, kind: SurfaceKind, capacity: Option<u32>) -> Self {
        let surface = RegisterSurface { name: "phone".to_owned(), kind, scope: Scope::All, capacity };
        let id = world.person().register(&surface).unwrap().surface;
        let events = world.person().events(Some(&id), None).unwrap();
        let mut surface = Self { id, events };
        assert!(matches!(surface.next(), StreamEvent::Snapshot { .. }));
        surface
    }

    fn next(&mut self) -> StreamEvent {
        self.events.receive().unwrap().unwrap().event
    }

    /// The next thing that happens to an ask.
    fn next_ask(&mut self) -> (String, Ask) {
        loop {
            if let StreamEvent::Ask { what, ask, .. } = self.next() {
                return (what, *ask);
            }
        }
    }

    /// The next ask event of this name.
    fn until(&mut self, what: &str) -> Ask {
        loop {
            let (happened, ask) = self.next_ask();
            if happened == what {
                return ask;
            }
        }
    }

    fn shows(&self, world: &World, ask: &Ask) {
        world.person().report(&self.id, &SurfaceReport::Shown { ask: ask.id.clone() }).unwrap();
    }
}

fn background(key: &str) -> Value {
    let mut body = ask(key, key);
    body["attendance"] = json!("background");
    body
}

fn patch(world: &World, body: &Value) -> (u16, Value) {
    let reply = world
        .person_connection()
        .request("PATCH", "/v1/permissions", Some(body.to_string().as_bytes()))
        .unwrap();
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
}

fn typed(world: &World, text: &str, session: Option<&str>) -> String {
    let body = json!({"text": text, "session": session});
    let reply = post(&mut world.person_connection(), "/v1/permissions/command", &body);
    let value: Value = serde_json::from_slice(&reply.body).unwrap();
    value["text"].as_str().or(value["detail"].as_str()).unwrap().to_owned()
}

fn settled(world: &World, ask: &Ask) -> (OutcomeKind, String) {
    let outcome = world.until("the outcome", || world.show(&ask.id).outcome);
    (outcome.outcome, outcome.cause)
}

#[test]
fn t1_t17_every_source_sees_the_ask_and_the_first_answer_takes_it_from_the_others() {
    let world = World::start();
    let mut direct = Surface::attach(&world, SurfaceKind::Direct, None);
    let mut remote = Surface::attach(&world, SurfaceKind::Remote, None);
    let mut requester = world.requester();
    let mut job = background("job");
    job["job"] = json!("nightly build");
    let mut safety = background("loop");
    safety["class"] = json!("safety");
    for body in [&job, &safety] {
        let raised = raise(&mut requester, body);
        for surface in [&mut direct, &mut remote] {
            let seen = surface.until("asked");
            assert_eq!(
                (seen.id.as_str(), seen.lineage.job),
                (raised.id.as_str(), raised.lineage.job.clone())
            );
            assert!(seen.deadline.is_some());
        }
        let mut body = answer(&raised.digest, "allow");
        body["surface"] = json!(remote.id);
        assert_eq!(
            post(&mut world.person_connection(), &format!("/v1/asks/{}/answer", raised.id), &body).status,
            200
        );
        let told = direct.until("settled").outcome.unwrap();
        assert_eq!((told.source.as_deref(), told.text.as_str()), (Some("remote"), "allowed by you in phone"));
        remote.until("settled");
    }
}

#[test]
fn t4_t11_a_background_ask_is_answered_at_its_deadline_and_nobody_is_blamed() {
    let world = World::with_config("[permissions]\nbackground_timeout_secs = 1\n");
    let mut requester = world.requester();
    let raised = raise(&mut requester, &background("k1"));
    assert_eq!(serde_json::to_value(raised.default).unwrap(), json!("deny"));
    assert_eq!(settled(&world, &raised), (OutcomeKind::Denied, "timed".to_owned()));
    let outcome = world.show(&raised.id).outcome.unwrap();
    assert_eq!(outcome.text, "timed out: auto-denied after 1s");
    assert_eq!(outcome.reason_for_model.as_deref(), Some("no answer arrived within 1s; nobody denied it"));
    assert_eq!(outcome.source.as_deref(), Some("timed"));
}

#[test]
fn t10_a_remote_decline_beats_the_timer() {
    let world = World::with_config("[permissions]\nbackground_timeout_secs = 3600\n");
    let remote = Surface::attach(&world, SurfaceKind::Remote, None);
    let raised = raise(&mut world.requester(), &background("k1"));
    let mut body = answer(&raised.digest, "deny");
    body["surface"] = json!(remote.id);
    assert_eq!(
        post(&mut world.person_connection(), &format!("/v1/asks/{}/answer", raised.id), &body).status,
        200
    );
    assert_eq!(settled(&world, &raised), (OutcomeKind::Denied, "person".to_owned()));
}

#[test]
fn t2_t3_a_remote_silence_means_what_is_configured_and_nothing_otherwise() {
    let world = World::with_config("[remote]\ntimeout_secs = 1\n");
    let mut requester = world.requester();
    let remote = Surface::attach(&world, SurfaceKind::Remote, None);
    let direct = Surface::attach(&world, SurfaceKind::Direct, None);
    // Shown only in the terminal: the clock of the remote side does not run.
    let unseen = raise(&mut requester, &ask("k1", "one"));
    direct.shows(&world, &unseen);
    assert_eq!(world.show(&unseen.id).deadline, None);
    let seen = raise(&mut requester, &ask("k2", "two"));
    remote.shows(&world, &seen);
    // The countdown is the same for every surface.
    assert!(world.show(&seen.id).deadline.is_some() || world.show(&seen.id).outcome.is_some());
    assert_eq!(settled(&world, &seen), (OutcomeKind::Denied, "remote_timeout".to_owned()));
    assert!(world.show(&unseen.id).outcome.is_none());
    // Background asks have their own timer; a silence there decides nothing.
    let background = raise(&mut requester, &background("k3"));
    remote.shows(&world, &background);
    assert_eq!(serde_json::to_value(world.show(&background.id).default).unwrap(), json!("deny"));
    let log = world.person().log(None, Some("s1")).unwrap();
    assert!(
        log.iter()
            .all(|e| e.event["outcome"]["cause"] != json!("remote_timeout") || e.stream.ends_with(&seen.id))
    );
}

#[test]
fn t13_a_full_queue_sends_the_next_to_its_default_with_its_own_cause() {
    let world = World::with_config("[permissions]\nqueue_cap = 2\n");
    let mut requester = world.requester();
    let queued: Vec<_> = (0..3).map(|n| raise(&mut requester, &background(&format!("q{n}")))).collect();
    let over = raise(&mut requester, &background("over"));
    let outcome = over.outcome.unwrap();
    assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Denied, "overflow"));
    assert_eq!(outcome.text, "queue full: auto-denied");
    // Foreground and safety asks, and other sessions, are not capped.
    assert!(raise(&mut requester, &ask("front", "front")).outcome.is_none());
    let mut safety = background("safety");
    safety["class"] = json!("safety");
    assert!(raise(&mut requester, &safety).outcome.is_none());
    let mut elsewhere = background("elsewhere");
    elsewhere["session"] = json!("s2");
    assert!(raise(&mut requester, &elsewhere).outcome.is_none());
    // Room again.
    let route = format!("/v1/asks/{}/answer", queued[0].id);
    assert_eq!(post(&mut world.person_connection(), &route, &answer(&queued[0].digest, "deny")).status, 200);
    assert!(raise(&mut requester, &background("next")).outcome.is_none());
}

#[test]
fn t16_a_surface_with_one_slot_gets_one_at_a_time_and_never_what_was_settled_meanwhile() {
    let world = World::start();
    let mut remote = Surface::attach(&world, SurfaceKind::Remote, Some(1));
    let mut requester = world.requester();
    let asks: Vec<_> =
        (0..3).map(|n| raise(&mut requester, &ask(&format!("k{n}"), &format!("c{n}")))).collect();
    let answer_it = |raised: &Ask| {
        let route = format!("/v1/asks/{}/answer", raised.id);
        assert_eq!(post(&mut world.person_connection(), &route, &answer(&raised.digest, "deny")).status, 200);
    };
    assert_eq!(remote.until("asked").id, asks[0].id);
    // Settled while it waits for a slot: never shown.
    answer_it(&asks[1]);
    answer_it(&asks[0]);
    let (what, first) = remote.next_ask();
    assert_eq!((what.as_str(), &first.id), ("settled", &asks[0].id));
    let (what, next) = remote.next_ask();
    assert_eq!((what.as_str(), &next.id), ("asked", &asks[2].id));
}

#[test]
fn t7_t18_overrides_hold_for_one_sessions_tree_and_end_with_it() {
    let world = World::start();
    let mut requester = world.requester();
    raise(&mut requester, &ask("hello", "hello"));
    let deadline = |body: &Value| {
        let raised = raise(&mut world.requester(), body);
        (serde_json::to_value(raised.default).unwrap(), raised.deadline.is_some())
    };
    let before = raise(&mut requester, &background("before"));
    let said = typed(&world, "/permissions default allow", Some("script/s1"));
    assert!(said.contains("background asks: auto-allow in 6m0s  (session override for s1)"), "{said}");
    assert!(typed(&world, "/permissions timeout 90", Some("script/s1")).contains("auto-allow in 1m30s"));
    // Only asks made afterwards, in this session and below it.
    assert_eq!(serde_json::to_value(world.show(&before.id).default).unwrap(), json!("deny"));
    assert_eq!(deadline(&background("after")).0, json!("allow"));
    let mut child = background("child");
    (child["session"], child["parent"]) = (json!("s1-child"), json!("s1"));
    assert_eq!(deadline(&child).0, json!("allow"));
    let mut other = background("other");
    other["session"] = json!("s2");
    assert_eq!(deadline(&other).0, json!("deny"));
    // Safety has its own pair.
    let mut safety = background("safety");
    safety["class"] = json!("safety");
    assert_eq!(deadline(&safety).0, json!("deny"));
    let listing = typed(&world, "/permissions", Some("script/s1"));
    assert!(listing.contains("(session override)") && listing.contains(&before.handle), "{listing}");
    assert!(listing.contains("auto-deny in"), "{listing}");
    assert!(typed(&world, "/permissions default perhaps", None).contains("usage:"));
    assert!(typed(&world, "/permissions default allow", Some("script/nobody")).contains("no live session"));
    let ended = json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    assert_eq!(post(&mut requester, "/v1/observations", &ended).status, 204);
    assert_eq!(deadline(&background("resumed")).0, json!("deny"));
    assert_eq!(std::fs::read_to_string(world.config_path()).unwrap(), "");
}

/// A stream of one root, as it comes.
struct OfRoot(UnixStream, String);

impl OfRoot {
    fn open(world: &World, root: &str) -> Self {
        let mut stream = Self::from(world, root, "");
        stream.until("event: snapshot");
        stream.until("]}");
        stream
    }

    /// `headers`: whole lines.
    fn from(world: &World, root: &str, headers: &str) -> Self {
        let mut socket = UnixStream::connect(world.places.answer_sock()).unwrap();
        socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
        write!(socket, "GET /v1/events?root=script/{root} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
        Self(socket, String::new())
    }

    /// Reads on until this was there, and returns what came up to it.
    fn until(&mut self, text: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.1.find(text) {
                return self.1.drain(..at + text.len()).collect();
            }
            let n = self.0.read(&mut buffer).unwrap();
            assert_ne!(n, 0, "no {text} in {}", self.1);
            self.1.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }
}

#[test]
fn c6_c14_streams_of_a_root_get_the_ask_of_a_session_that_is_linked_to_it_later() {
    let world = World::start();
    let mut body = ask("hello", "hello");
    body["session"] = json!("root");
    raise(&mut world.requester(), &body);
    let (mut first, mut of_root) = (ask("k1", "late link"), OfRoot::open(&world, "root"));
    first["session"] = json!("child");
    let first = raise(&mut world.requester(), &first);
    let mut of_child = OfRoot::open(&world, "child");
    let mut of_all = world.person().events(None, None).unwrap();
    let link = json!({
        "agent": "script", "session": "child", "parent": "root", "observations": [{"type": "session_started"}],
    });
    assert_eq!(post(&mut world.requester(), "/v1/observations", &link).status, 204);
    of_root.until("\"what\":\"asked\"");
    of_root.until(&first.id);
    // Who has it already hears whose it is now.
    of_child.until("\"what\":\"moved\"");
    of_child.until("\"root\":\"root\"");
    let moved = std::iter::from_fn(|| of_all.receive().unwrap()).find_map(|event| match event.event {
        StreamEvent::Ask { what, ask, .. } => Some((what, ask.id, ask.lineage.root)),
        _ => None,
    });
    assert_eq!(moved.unwrap(), ("moved".to_owned(), first.id.clone(), "root".to_owned()));
    // Both hear what becomes of it.
    let target = format!("/v1/asks/{}/answer", first.id);
    assert_eq!(post(&mut world.person_connection(), &target, &answer(&first.digest, "deny")).status, 200);
    for stream in [&mut of_root, &mut of_child] {
        stream.until("\"what\":\"settled\"");
        stream.until(&first.id);
    }
}

#[test]
fn c6_a_stream_of_a_root_that_is_resumed_knows_what_was_linked_into_its_tree_and_out_of_it() {
    let world = World::start();
    let mut body = ask("hello", "hello");
    body["session"] = json!("root");
    raise(&mut world.requester(), &body);
    let mut first = ask("k1", "late link");
    first["session"] = json!("child");
    let first = raise(&mut world.requester(), &first);
    let shown = world.person().events(None, None).unwrap().receive().unwrap().unwrap();
    let StreamEvent::Snapshot { position, .. } = shown.event else { panic!("{shown:?}") };
    let resumed = |root| {
        let mut stream = OfRoot::from(&world, root, &format!("last-event-id: {position}\r\n"));
        let before = stream.until("event: snapshot");
        (before.contains("event: gap"), stream.until("]}\n\n").contains(&first.id))
    };
    // Nothing happened meanwhile: nothing was missed.
    assert_eq!((resumed("root"), resumed("child")), ((false, false), (false, true)));
    let link = json!({
        "agent": "script", "session": "child", "parent": "root", "observations": [{"type": "session_started"}],
    });
    assert_eq!(post(&mut world.requester(), "/v1/observations", &link).status, 204);
    assert_eq!((resumed("root"), resumed("child")), ((true, true), (true, false)));
}

#[test]
fn s2_what_is_stricter_for_every_session_is_told_and_outlives_a_restart() {
    let mut world = World::start();
    raise(&mut world.requester(), &ask("hello", "hello"));
    assert!(typed(&world, "/skip-permissions on", Some("script/s1")).contains("session override"));
    let mut events = world.person().events(None, None).unwrap();
    let said = typed(&world, "/skip-permissions off", None);
    assert!(said.contains("skip-permissions off  (for every session, also after a restart)"), "{said}");
    let heard = std::iter::from_fn(|| events.receive().unwrap()).find_map(|event| match event.event {
        StreamEvent::Notice { text } => Some(text),
        _ => None,
    });
    assert_eq!(heard.unwrap(), "override for every session, also after a restart: skip-permissions off");
    assert!(raise(&mut world.requester(), &ask("k1", "ls")).outcome.is_none(), "the session had it looser");
    let log = world.person().log(None, None).unwrap();
    let names: Vec<_> =
        log.iter().map(|entry| entry.what.as_str()).filter(|w| w.starts_with("over")).collect();
    assert_eq!(names, ["overrides_set", "overrides_set", "overrides_lifted"]);
    drop(events);
    world.leave("restart");
    world.up();
    assert!(typed(&world, "/permissions", None).contains("skip-permissions: off  (override)"));
}

#[test]
fn c8_an_ask_right_after_a_restart_waits_for_the_surfaces_that_were_attached_before() {
    let mut world = World::with_config("[permissions]\nunreachable = \"when_none_attached\"\n");
    let unreachable = |world: &World, key: &str| raise(&mut world.requester(), &ask(key, "ls")).outcome;
    assert_eq!(unreachable(&world, "k1").unwrap().cause, "unreachable");
    let surface = Surface::attach(&world, SurfaceKind::Direct, None);
    world.until("the surface", || (world.person().health().unwrap().surfaces == 1).then_some(()));
    world.leave("restart");
    drop(surface);
    world.up();
    assert!(unreachable(&world, "k2").is_none(), "it comes back in a moment");
    let _surface = Surface::attach(&world, SurfaceKind::Direct, None);
    assert!(unreachable(&world, "k3").is_none());
    // Told once: nobody is awaited twice.
    drop(_surface);
    world.until("nobody", || (world.person().health().unwrap().surfaces == 0).then_some(()));
    world.leave("restart");
    world.up();
    assert_eq!(unreachable(&world, "k4").unwrap().cause, "unreachable");
}

#[test]
fn t9_skip_allows_tools_everywhere_and_never_a_safety_ask() {
    let world = World::start();
    let (status, view) = patch(&world, &json!({"skip": true}));
    assert_eq!((status, &view["skip"]), (200, &json!(true)));
    let mut requester = world.requester();
    for body in [ask("front", "x"), background("back")] {
        let outcome = raise(&mut requester, &body).outcome.unwrap();
        assert_eq!((outcome.outcome, outcome.cause.as_str()), (OutcomeKind::Allowed, "skip"));
    }
    let mut safety = ask("safety", "x");
    safety["class"] = json!("safety");
    assert!(raise(&mut requester, &safety).outcome.is_none());
    assert!(typed(&world, "/skip-permissions", None).contains("skip-permissions off"));
    assert!(raise(&mut requester, &ask("again", "x")).outcome.is_none());
}

#[test]
fn t8_the_third_equal_call_is_told_to_its_adapter_and_a_yes_starts_anew() {
    let world = World::start();
    let mut requester = world.requester();
    let mut call = |n: u32| {
        let body = json!({"agent": "script", "session": "s1", "cwd": "/tmp", "observations": [
            {"type": "call_started", "call": format!("c{n}"), "tool": "Bash", "input_json": "{\"command\":\"make\"}"},
        ]});
        let reply = post(&mut requester, "/v1/observations", &body);
        let ended = json!({"agent": "script", "session": "s1", "observations": [
            {"type": "call_ended", "call": format!("c{n}"), "ok": true},
        ]});
        assert_eq!(post(&mut requester, "/v1/observations", &ended).status, 204);
        (reply.status, serde_json::from_slice::<Value>(&reply.body).unwrap_or_default())
    };
    assert_eq!((call(1).0, call(2).0), (204, 204));
    let (status, seen) = call(3);
    assert_eq!((status, &seen["times"], &seen["call"]), (200, &json!(3), &json!("c3")));
    let mut safety = ask("loop", "make");
    (safety["class"], safety["action"]["tool"]) = (json!("safety"), json!("doom_loop"));
    let raised = raise(&mut world.requester(), &safety);
    let route = format!("/v1/asks/{}/answer", raised.id);
    assert_eq!(post(&mut world.person_connection(), &route, &answer(&raised.digest, "allow")).status, 200);
    assert_eq!((call(4).0, call(5).0, call(6).0), (204, 204, 200));
}

#[test]
fn t20_an_agent_with_a_prompt_of_its_own_is_handed_back_at_a_deadline_that_nobody_set() {
    let own = |key: &str| {
        let mut body = background(key);
        body["own_prompt"] = json!({"where": "terminal"});
        body
    };
    let world = World::start();
    let nobody_set = raise(&mut world.requester(), &own("k1"));
    assert_eq!((nobody_set.default, nobody_set.deadline.is_some()), (None, true));
    // Set by a person: the configured answer applies to it as well.
    let world = World::with_config("[permissions]\nbackground_timeout_secs = 1\n");
    let raised = raise(&mut world.requester(), &own("k1"));
    assert_eq!(settled(&world, &raised), (OutcomeKind::Denied, "timed".to_owned()));
}

#[test]
fn t12_a_bulk_answer_settles_exactly_the_asks_that_it_names() {
    let world = World::start();
    let mut requester = world.requester();
    let asks: Vec<_> = (0..4).map(|n| raise(&mut requester, &background(&format!("k{n}")))).collect();
    let named: Vec<Value> = asks[..3]
        .iter()
        .map(|a| json!({"id": a.id, "decision": "allow", "digest": a.digest}))
        .chain([json!({"id": "zzz", "decision": "allow", "digest": asks[3].digest})])
        .collect();
    let reply = post(&mut world.person_connection(), "/v1/answers", &json!(named));
    let reports: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
    let statuses: Vec<_> = reports.iter().map(|r| r["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 200, 200, 404]);
    assert!(world.show(&asks[3].id).outcome.is_none());
    let wrong =
        post(&mut world.person_connection(), "/v1/permissions/command", &json!({"text": "allow all"}));
    assert_eq!(refusal(&wrong).0, 400);
}

#[test]
fn t12_many_answers_at_once_are_one_commit_each_with_its_own_result_and_in_their_order() {
    let world = World::with_config("[permissions]\nqueue_cap = 0\n");
    let mut requester = world.requester();
    let asks: Vec<_> = (0..300).map(|n| raise(&mut requester, &background(&format!("k{n}")))).collect();
    let named = |ask: &Ask, decision| json!({"id": ask.id, "decision": decision, "digest": ask.digest});
    // Two of one ask, one that is malformed, one of other content, and one of nobody's among them.
    let mut bulk: Vec<Value> = asks.iter().map(|ask| named(ask, "deny")).collect();
    bulk.insert(0, named(&asks[7], "allow"));
    bulk.insert(1, json!({"id": asks[8].id, "decision": "allow", "digest": "sha256:zz"}));
    let other = format!("sha256:{}", "0".repeat(64));
    bulk.insert(2, json!({"id": asks[9].id, "decision": "allow", "digest": other}));
    bulk.push(json!({"id": "zzz", "decision": "deny", "digest": asks[0].digest}));
    let mut person = world.person_connection();
    let reply = post(&mut person, "/v1/answers", &json!(bulk));
    let reports: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
    assert!(reports.iter().zip(&bulk).all(|(report, sent)| report["id"] == sent["id"]), "in their order");
    let statuses: Vec<_> = reports.iter().map(|r| r["status"].as_u64().unwrap()).collect();
    assert_eq!((&statuses[..3], statuses.last()), (&[200, 400, 412][..], Some(&404)));
    let twice = 3 + 7;
    assert_eq!(statuses[twice], 409, "the first of both counts");
    assert!(statuses[3..303].iter().enumerate().all(|(n, s)| *s == 200 || n + 3 == twice), "{statuses:?}");
    // What was settled together stands together in the log.
    let log = world.person().log(None, None).unwrap();
    let settled: Vec<_> =
        log.iter().filter(|entry| entry.what == "settled").map(|entry| entry.at.clone()).collect();
    assert_eq!(settled.len(), 300);
    assert!(settled.iter().all(|at| *at == settled[0]), "of one moment: {settled:?}");
}

#[test]
fn what_goes_to_a_remote_surface_has_its_secrets_covered_and_is_answered_all_the_same() {
    let world = World::start();
    // Put together here, so that no scanner takes it for a leaked one.
    let secret = "aB3dE5gH7jK9".repeat(3);
    let mut body = ask("k1", &format!("curl -H 'Authorization: Bearer {secret}' http://host/x"));
    body["action"]["title"] = json!(format!("call with ghp_{secret}"));
    body["job"] = json!(format!("deploy ghp_{secret}"));
    body["options"] = json!([
        {"id": "once", "label": "Yes", "kind": "allow_once"},
        {"id": "ever", "label": format!("Always ghp_{secret}"), "kind": "allow_always",
         "grants": format!("curl with ghp_{secret}"), "payload": {"rule": secret}},
        {"id": "no", "label": "No", "kind": "reject_once"},
    ]);
    let mut direct = Surface::attach(&world, SurfaceKind::Direct, None);
    let mut all = Surface::attach(&world, SurfaceKind::Remote, None);
    let mut slots = Surface::attach(&world, SurfaceKind::Remote, Some(3));
    let raised = raise(&mut world.requester(), &body);

    let here = direct.until("asked");
    assert!(serde_json::to_string(&here).unwrap().contains(&secret));
    assert_eq!(here.action.input.unwrap().get(), raised.action.input.as_ref().unwrap().get());
    let covered = |what: &str, text: &str| {
        assert!(!text.contains("aB3dE5gH7jK9"), "{what}: {text}");
        assert!(text.contains("36 masked"), "{what}: {text}");
    };
    let is_covered = |what: &str, ask: &Ask| {
        covered(what, &serde_json::to_string(ask).unwrap());
        assert!(ask.action.input.is_none() && ask.options[1].payload.is_none(), "{what}");
        assert_eq!((&ask.id, &ask.digest, &ask.handle), (&raised.id, &raised.digest, &raised.handle));
        let last = ask.display.last().unwrap();
        assert_eq!(last.label, "masked");
        assert!(last.lines[0].starts_with("2 texts that look like secrets"), "{:?}", last.lines);
        let command = ask.display.iter().find(|field| field.label == "command").unwrap();
        assert_eq!(command.lines, ["curl -H 'Authorization: Bearer \\u{36 masked}' http://host/x"]);
    };
    is_covered("event", &all.until("asked"));
    is_covered("slot", &slots.until("asked"));
    for (what, capacity) in [("snapshot", None), ("snapshot of slots", Some(1))] {
        let surface = RegisterSurface {
            name: "phone".to_owned(),
            kind: SurfaceKind::Remote,
            scope: Scope::All,
            capacity,
        };
        let id = world.person().register(&surface).unwrap().surface;
        let mut events = world.person().events(Some(&id), None).unwrap();
        let StreamEvent::Snapshot { asks, .. } = events.receive().unwrap().unwrap().event else {
            panic!("no snapshot")
        };
        // A slot may be given after the snapshot.
        asks.iter().for_each(|ask| is_covered(what, ask));
        assert!(capacity.is_some() || asks.len() == 1);
    }
    let id = all.id.clone();
    let mut resumed = world.person().events(Some(&id), Some(0)).unwrap();
    loop {
        if let StreamEvent::Ask { ask, .. } = resumed.receive().unwrap().unwrap().event {
            break is_covered("resumed", &ask);
        }
    }
    let get = |target: &str| {
        let reply = world.person_connection().request("GET", target, None).unwrap();
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    for state in ["open", "all"] {
        let (_, text) = get(&format!("/v1/asks?state={state}&surface={id}"));
        is_covered(state, &serde_json::from_str::<Vec<Ask>>(&text).unwrap()[0]);
    }
    is_covered(
        "show",
        &serde_json::from_str(&get(&format!("/v1/asks/{}?surface={id}", raised.id)).1).unwrap(),
    );
    let typed = json!({"text": "/permissions", "surface": id});
    let reply = post(&mut world.person_connection(), "/v1/permissions/command", &typed);
    covered("/permissions", &String::from_utf8(reply.body).unwrap());
    // Who says that it is a surface and is none is shown nothing, rather than everything.
    for target in ["/v1/asks?surface=s999".to_owned(), format!("/v1/asks/{}?surface=s999", raised.id)] {
        let (status, text) = get(&target);
        assert_eq!(status, 400);
        assert!(!text.contains(&secret) && text.contains("is not registered"), "{text}");
    }

    let route = format!("/v1/asks/{}/answer", raised.id);
    let mut deny = answer(&raised.digest, "deny");
    deny["surface"] = json!(id);
    deny["message"] = json!(format!("use ghp_{secret} instead"));
    let told = post(&mut world.person_connection(), &route, &deny);
    assert_eq!(told.status, 200);
    is_covered("reply", &serde_json::from_slice(&told.body).unwrap());
    let again = post(&mut world.person_connection(), &route, &deny);
    assert_eq!(refusal(&again), (409, "already_settled".to_owned()));
    covered("refusal", &String::from_utf8(again.body).unwrap());
    let shown = json!({"type": "shown", "ask": raised.id});
    let late = post(&mut world.person_connection(), &format!("/v1/surfaces/{id}/report"), &shown);
    assert_eq!(refusal(&late), (409, "already_settled".to_owned()));
    covered("refusal of a report", &String::from_utf8(late.body).unwrap());
    is_covered("settled", &all.until("settled"));
    is_covered("settled with slots", &slots.until("settled"));
    // The agent and who sits at the machine get the person's words as they are.
    let words = direct.until("settled").outcome.unwrap().message.unwrap();
    assert_eq!(words, format!("use ghp_{secret} instead"));
    assert_eq!(world.show(&raised.id).outcome.unwrap().message.unwrap(), words);
}
