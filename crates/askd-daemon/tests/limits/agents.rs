//! What agents can make the daemon hold, write down and wait for.

use std::fs;

use askd_client::Connection;
use askd_wire::{Ask, StreamEvent};
use serde_json::{Value, json};

use crate::common::{World, answer, ask, post, raise, refusal};

fn tell(world: &World, session: &str, what: &str) {
    let body = json!({
        "agent": "script",
        "session": session,
        "instance": {"pid": std::process::id()},
        "observations": [{"type": what}],
    });
    assert_eq!(post(&mut world.requester(), "/v1/observations", &body).status, 204);
}

/// Descriptors by which this process, which the daemon is a part of, watches others.
fn watches() -> usize {
    let held = fs::read_dir("/proc/self/fd").unwrap().flatten();
    held.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("pidfd"))).count()
}

#[test]
fn s7_a_process_with_one_session_after_the_other_is_watched_once() {
    let world = World::start();
    for n in 0..50 {
        let session = format!("s{n}");
        tell(&world, &session, "session_started");
        world.until("its watch", || (watches() > 0).then_some(()));
        tell(&world, &session, "session_ended");
    }
    assert_eq!(watches(), 1);
}

/// This process as an agent, with an ask of its own.
fn as_agent(requester: &mut Connection) -> Ask {
    let mut body = ask("k1", "ls");
    body["instance"] = json!({"pid": std::process::id()});
    raise(requester, &body)
}

/// From then on it is nobody's agent.
fn ends(requester: &mut Connection) {
    let ended = json!({"agent": "script", "session": "s1", "observations": [{"type": "session_ended"}]});
    assert_eq!(post(requester, "/v1/observations", &ended).status, 204);
}

#[test]
fn s7_an_agents_attempts_fill_neither_the_journal_nor_anybodys_screen() {
    let world = World::start();
    let mut requester = world.requester();
    let raised = as_agent(&mut requester);
    let mut events = world.person().events(None, None).unwrap();
    let mut agent = world.person_connection();
    let route = format!("/v1/asks/{}/answer", raised.id);
    let short = json!({"decision": "allow", "digest": raised.digest, "surface": "A".repeat(10_000)});
    for _ in 0..100 {
        let told = post(&mut agent, &route, &short);
        assert_eq!(refusal(&told), (403, "not_permitted".to_owned()));
        // It says what made this process an agent, for the case that this is wrong.
        let told: Value = serde_json::from_slice(&told.body).unwrap();
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("ask {} names process", raised.handle)), "{detail}");
        assert_eq!(refusal(&post(&mut agent, "/v1/daemon/stop", &json!({}))).0, 403);
    }
    let log = world.person().log(None, Some("s1")).unwrap();
    let tries: Vec<_> = log.iter().filter(|entry| entry.what == "self_answer_refused").collect();
    assert_eq!(tries.len(), 1, "{tries:?}");
    assert!(tries[0].event.to_string().len() < 1000, "{tries:?}");
    // The end of what is told: another ask.
    let mut last = ask("last", "ls");
    last["session"] = json!("s2");
    raise(&mut world.requester(), &last);
    let mut notices = 0;
    loop {
        match events.receive().unwrap().unwrap().event {
            StreamEvent::Notice { .. } => notices += 1,
            StreamEvent::Ask { ask, .. } if ask.lineage.session == "s2" => break,
            _ => {}
        }
    }
    assert_eq!(notices, 2, "one for the answers, one for the stop");
    ends(&mut requester);
}

#[test]
fn s7_who_may_not_answer_takes_no_room_of_those_who_may() {
    let world = World::start();
    let mut requester = world.requester();
    let raised = as_agent(&mut requester);
    let mut agent = world.person_connection();
    let mut bulk = vec![answer(&raised.digest, "allow"); 1000];
    bulk.iter_mut().for_each(|one| one["id"] = json!(raised.id));
    let told = post(&mut agent, "/v1/answers", &json!(bulk));
    assert_eq!(refusal(&told), (403, "not_permitted".to_owned()));
    let told: Value = serde_json::from_slice(&told.body).unwrap();
    assert!(told["detail"].as_str().unwrap().contains("no more than 16384 bytes"), "{told}");
    ends(&mut requester);
    assert_eq!(post(&mut world.person_connection(), "/v1/answers", &json!(bulk)).status, 200);
}
