//! A daemon in a thread, asks of scripts, and another surface.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use askd_client::{Answers, Connection, Places};
use askd_wire::{Answer, Ask, AskState, Decision, OutcomeKind, Raised};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) places: Places,
    daemon: Option<JoinHandle<Result<(), askd_daemon::StartError>>>,
    raised: u32,
}

impl World {
    pub(crate) fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("askd").tempdir().unwrap();
        let places = Places::at(dir.path());
        let mut world = Self { dir, places, daemon: None, raised: 0 };
        world.up();
        world
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn up(&mut self) {
        let options = askd_daemon::Options {
            places: self.places.clone(),
            journal: None,
            no_surfaces: false,
            autostarted: false,
            watch: None,
        };
        self.daemon = Some(std::thread::spawn(move || askd_daemon::run(options)));
        until("the daemon to be ready", || self.places.read_daemon_file().map(drop));
    }

    /// `stop` or `restart`.
    pub(crate) fn leave(&mut self, how: &str) {
        let mut person = Connection::connect(&self.places.answer_sock(), None).unwrap();
        person.set_timeout(PATIENCE);
        let reply = person.request("POST", &format!("/v1/daemon/{how}"), None).unwrap();
        assert_eq!(reply.status, 204, "{}", String::from_utf8_lossy(&reply.body));
        self.daemon.take().unwrap().join().unwrap().unwrap();
    }

    pub(crate) fn person(&self) -> Answers {
        Answers::connect(&self.places).unwrap()
    }

    /// Raises an ask that stays open without its requester.
    pub(crate) fn ask(&mut self, command: &str) -> Ask {
        self.ask_with(command, &json!({}))
    }

    pub(crate) fn background(&mut self, command: &str) -> Ask {
        self.ask_with(command, &json!({"attendance": "background"}))
    }

    pub(crate) fn ask_with(&mut self, command: &str, more: &Value) -> Ask {
        self.raised += 1;
        let mut body = json!({
            "key": format!("call-{}", self.raised),
            "action": {"tool": "Bash", "input": {"command": command}, "cwd": "/tmp"},
            "agent": "script", "session": "s1", "requester": "script", "grace_secs": 3600,
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let mut requester = Connection::connect(&self.places.ask_sock(), None).unwrap();
        requester.set_token(Some(TOKEN.to_owned()));
        requester.set_timeout(PATIENCE);
        let reply = requester.request("POST", "/v1/asks", Some(body.to_string().as_bytes())).unwrap();
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        serde_json::from_slice::<Raised>(&reply.body).unwrap().ask
    }

    /// Another surface answers.
    pub(crate) fn answer(&self, ask: &Ask, decision: Decision, surface: &str) {
        let answer = Answer {
            decision,
            digest: ask.digest.clone(),
            option: None,
            message: None,
            stop: false,
            surface: Some(surface.to_owned()),
        };
        self.person().answer(&ask.id, &answer).unwrap();
    }

    /// Waits until it is settled.
    pub(crate) fn outcome(&self, ask: &Ask) -> askd_wire::Outcome {
        until("the ask to be settled", || self.person().show(&ask.id).unwrap().outcome)
    }

    pub(crate) fn decided(&self, ask: &Ask) -> OutcomeKind {
        self.outcome(ask).outcome
    }

    pub(crate) fn is_open(&self, ask: &Ask) -> bool {
        self.person().show(&ask.id).unwrap().state == AskState::Open
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.daemon.as_ref().is_some_and(|it| !it.is_finished()) && !std::thread::panicking() {
            self.leave("restart");
        }
    }
}

/// Looks until there is something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
