//! The real daemon dies at every named point of every step of an ask's life, and nothing that was told is lost.
//!
//! The points are those of the writer (`askd_writer::Point`); each ends in `abort()`, none is hit by waiting.

#![expect(clippy::unwrap_used, reason = "a failing step ends the test")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use askd_client::{Connection, Places};
use askd_wire::{Ask, Delivery, OutcomeKind, Raised};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const POINTS: [&str; 4] = ["drained", "applied", "committed", "released"];
/// More batches than the longest life has.
const MOST_BATCHES: u32 = 40;

struct Daemon {
    child: Child,
}

impl Daemon {
    fn start(places: &Places, crash: Option<String>) -> Self {
        let _ = std::fs::remove_file(places.daemon_file());
        let mut command = Command::new(env!("CARGO_BIN_EXE_askd"));
        command.arg("daemon").env_clear().envs(places.to_env()).env("HOME", "/nonexistent");
        command.envs(crash.map(|at| ("ASKD_CRASH_AT", at)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut daemon = Self { child: command.spawn().unwrap() };
        // A daemon that dies while it starts is as good as one that is up and dead.
        until(|| places.read_daemon_file().is_some() || daemon.is_dead());
        daemon
    }

    fn is_dead(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was told about the ask, by replies that arrived.
#[derive(Debug, Default)]
struct Told {
    raised: Option<Ask>,
    settled: bool,
    handed: bool,
    confirmed: bool,
}

/// Does the next things in the life of one ask, as far as the daemon lets it. `None`: the daemon died.
fn live(places: &Places, told: &mut Told) -> Option<()> {
    let call = |door: &std::path::Path, target: &str, body: &Value| -> Option<(u16, Vec<u8>)> {
        let mut connection = Connection::connect(door, None).ok()?;
        connection.set_token(Some("0123456789abcdef0123456789abcdef".to_owned()));
        connection.set_timeout(PATIENCE);
        let reply = connection.request("POST", target, Some(body.to_string().as_bytes())).ok()?;
        Some((reply.status, reply.body))
    };
    let (ask_sock, answer_sock) = (places.ask_sock(), places.answer_sock());
    let body = json!({
        "key": "k1", "agent": "script", "session": "s1", "requester": "script", "grace_secs": 60,
        "action": {"tool": "Bash", "input": {"command": "make"}, "cwd": "/tmp"},
    });
    // A requester that knows its outcome hands it over; one that does not comes back with the same key.
    let ask = match told.raised.clone().filter(|_| told.settled) {
        Some(ask) => ask,
        None => {
            let (status, reply) = call(&ask_sock, "/v1/asks", &body)?;
            assert!(status == 201 || status == 200, "{status} {}", String::from_utf8_lossy(&reply));
            let ask = serde_json::from_slice::<Raised>(&reply).unwrap().ask;
            if let Some(before) = told.raised.replace(ask.clone()) {
                assert_eq!(before.id, ask.id, "asked again although it was told before");
            }
            ask
        }
    };
    let id = ask.id;
    let (status, _) = call(
        &answer_sock,
        &format!("/v1/asks/{id}/answer"),
        &json!({"decision": "allow", "digest": ask.digest}),
    )?;
    assert!(if told.settled { status == 409 } else { status == 200 || status == 409 }, "{status}");
    told.settled = true;
    // Somebody else says no: they are late, always.
    let (status, _) = call(
        &answer_sock,
        &format!("/v1/asks/{id}/answer"),
        &json!({"decision": "deny", "digest": ask.digest}),
    )?;
    assert_eq!(status, 409);
    let (status, _) = call(&ask_sock, &format!("/v1/asks/{id}/handed"), &json!({}))?;
    assert_eq!(status, 204);
    told.handed = true;
    let (status, _) = call(&ask_sock, &format!("/v1/asks/{id}/confirmed"), &json!({}))?;
    assert_eq!(status, 204);
    told.confirmed = true;
    Some(())
}

fn shown(places: &Places, id: &str) -> Ask {
    let mut person = askd_client::Answers::connect(places).unwrap();
    person.show(id).unwrap()
}

#[test]
fn c1_c5_a_daemon_that_dies_between_any_two_steps_loses_nothing() {
    let mut deaths = 0;
    for point in POINTS {
        let mut survived = false;
        for batch in 1..MOST_BATCHES {
            let dir = tempfile::Builder::new().prefix("askd").tempdir().unwrap();
            let places = Places::at(dir.path());
            let mut told = Told::default();
            let mut dying = Daemon::start(&places, Some(format!("{point}:{batch}")));
            if live(&places, &mut told).is_some() {
                survived = true;
                break;
            }
            deaths += 1;
            until(|| dying.is_dead());
            // What was told before it died is so afterwards.
            let _next = Daemon::start(&places, None);
            if let Some(ask) = &told.raised {
                let now = shown(&places, &ask.id);
                if told.settled {
                    assert_eq!(
                        now.outcome.as_ref().unwrap().outcome,
                        OutcomeKind::Allowed,
                        "{point}:{batch}"
                    );
                }
                if told.handed {
                    assert!(
                        matches!(now.delivery, Delivery::Handed | Delivery::Confirmed),
                        "{point}:{batch}"
                    );
                }
            }
            if !told.handed {
                live(&places, &mut told).unwrap();
                let end = shown(&places, &told.raised.as_ref().unwrap().id);
                assert_eq!(end.delivery, Delivery::Confirmed, "{point}:{batch}");
                assert_eq!(end.outcome.unwrap().outcome, OutcomeKind::Allowed);
            }
        }
        assert!(survived, "{point}: the life of an ask has fewer than {MOST_BATCHES} batches");
    }
    assert!(deaths >= 20, "only {deaths} deaths");
}
