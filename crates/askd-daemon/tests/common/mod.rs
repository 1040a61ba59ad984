//! A daemon in a thread, a requester and a person.

#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use askd_client::{Answers, Connection, Places, Reply};
use askd_wire::{Ask, Raised};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) places: Places,
    thread: Option<JoinHandle<Result<(), askd_daemon::StartError>>>,
}

impl World {
    pub(crate) fn start() -> Self {
        Self::with_config("")
    }

    pub(crate) fn with_config(config: &str) -> Self {
        let mut world = Self::unstarted(config);
        world.up();
        world
    }

    pub(crate) fn unstarted(config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("askd").tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        Self { places: Places::at(dir.path()), dir, thread: None }
    }

    /// Starts the daemon and waits until it says that it is ready.
    pub(crate) fn up(&mut self) {
        self.up_with(None);
    }

    pub(crate) fn up_with(&mut self, watch: Option<askd_daemon::SettingsWatch>) {
        let options = askd_daemon::Options {
            places: self.places.clone(),
            journal: None,
            no_surfaces: false,
            autostarted: false,
            watch,
        };
        self.thread = Some(std::thread::spawn(move || askd_daemon::run(options)));
        self.until("the daemon to be ready", || self.places.read_daemon_file().map(drop));
    }

    pub(crate) fn leave(&mut self, how: &str) {
        let mut person = self.person_connection();
        let reply = person.request("POST", &format!("/v1/daemon/{how}"), None).unwrap();
        assert_eq!(reply.status, 204, "{}", String::from_utf8_lossy(&reply.body));
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    pub(crate) fn requester(&self) -> Connection {
        let mut connection = Connection::connect(&self.places.ask_sock(), None).unwrap();
        connection.set_token(Some(TOKEN.to_owned()));
        connection.set_timeout(PATIENCE);
        connection
    }

    pub(crate) fn person_connection(&self) -> Connection {
        let mut connection = Connection::connect(&self.places.answer_sock(), None).unwrap();
        connection.set_timeout(PATIENCE);
        connection
    }

    pub(crate) fn person(&self) -> Answers {
        Answers::over(self.person_connection())
    }

    pub(crate) fn show(&self, id: &str) -> Ask {
        self.person().show(id).unwrap()
    }

    /// Waits until `look` finds something.
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.thread.as_ref().is_some_and(|t| !t.is_finished()) && !std::thread::panicking() {
            self.leave("restart");
        }
    }
}

/// A script's ask that outlives its connection for a minute.
pub(crate) fn ask(key: &str, command: &str) -> Value {
    json!({
        "key": key,
        "action": {"tool": "Bash", "input": {"command": command}, "cwd": "/tmp"},
        "agent": "script",
        "session": "s1",
        "requester": "script",
        "grace_secs": 60,
    })
}

pub(crate) fn post(connection: &mut Connection, target: &str, body: &Value) -> Reply {
    connection.request("POST", target, Some(body.to_string().as_bytes())).unwrap()
}

/// Raises an ask and returns at once.
pub(crate) fn raise(connection: &mut Connection, body: &Value) -> Ask {
    let reply = post(connection, "/v1/asks", body);
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice::<Raised>(&reply.body).unwrap().ask
}

pub(crate) fn answer(digest: &str, decision: &str) -> Value {
    json!({"decision": decision, "digest": digest, "surface": "test"})
}

/// Status and code of a refusal.
pub(crate) fn refusal(reply: &Reply) -> (u16, String) {
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    (reply.status, problem["code"].as_str().unwrap().to_owned())
}
