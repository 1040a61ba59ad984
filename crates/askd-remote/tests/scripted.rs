//! A remote surface in one file, as the next service would implement it: it draws what it shows, and answers as a test
//! tells it to. Run by the shipped loop against a real daemon.

#![expect(clippy::unwrap_used, reason = "a test's helpers end the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use askd_client::{Answers, Connection, Places};
use askd_remote::{About, Back, Hands, Now, Out, Reply, Surface, Told, Wish, driver};
use askd_wire::{Answer, Ask, AskState, Decision, Raised};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// What happens there.
enum Heard {
    Answers(String, Decision),
    /// It cannot be shown.
    Fails(String),
    Burns,
}

/// What it shows: the words for each ask, by handle.
#[derive(Default)]
struct Screen {
    shown: BTreeMap<String, String>,
    most: usize,
    kept: Option<Value>,
}

/// What it draws: a handle, or `kept`, and the words.
type Line = (String, String);

struct Scripted {
    asks: BTreeMap<String, Ask>,
    capacity: u32,
}

impl Scripted {
    fn draw(&mut self, ask: Ask, out: &mut Out<Line>) {
        let words = ask.outcome.as_ref().map_or("open", |outcome| outcome.text.as_str());
        out.deed((ask.handle.clone(), words.to_owned()));
        self.asks.insert(ask.handle.clone(), ask);
    }
}

impl Surface for Scripted {
    type Heard = Heard;
    type Deed = Line;

    fn about(&self) -> About {
        About { name: "Scripted", capacity: Some(self.capacity), onlooker: false }
    }

    fn begin(&mut self, kept: Option<Value>, asks: Vec<Ask>, now: Now, out: &mut Out<Line>) {
        out.deed(("kept".to_owned(), kept.unwrap_or_default().to_string()));
        for ask in asks {
            self.show(ask, now, out);
        }
        out.wish(Wish::Keep { state: json!({"seen": self.asks.len()}) });
        out.wish(Wish::Polled);
    }

    fn show(&mut self, ask: Ask, _now: Now, out: &mut Out<Line>) {
        out.wish(Wish::Shown { ask: ask.id.clone() });
        self.draw(ask, out);
    }

    fn update(&mut self, ask: Ask, _what: &str, _now: Now, out: &mut Out<Line>) {
        if self.asks.contains_key(&ask.handle) {
            self.draw(ask, out);
        }
    }

    fn replied(&mut self, reply: Reply, _now: Now, out: &mut Out<Line>) {
        if let Reply::Answered { result: Ok(ask), .. } = reply {
            self.draw(*ask, out);
        }
    }

    fn heard(&mut self, heard: Heard, _now: Now, out: &mut Out<Line>) {
        match heard {
            Heard::Answers(handle, decision) => {
                let ask = &self.asks[&handle];
                let digest = ask.digest.clone();
                let answer =
                    Answer { decision, digest, option: None, message: None, stop: false, surface: None };
                let by = Some("Carla".to_owned());
                out.wish(Wish::Answer { ticket: 1, ask: ask.id.clone(), answer, by });
            }
            Heard::Fails(handle) => {
                let ask = self.asks.remove(&handle).unwrap();
                out.deed((handle, "failed".to_owned()));
                out.wish(Wish::Failed { ask: ask.id, reason: "no paper".to_owned() });
            }
            Heard::Burns => out.wish(Wish::Trouble(Some("it is on fire".to_owned()))),
        }
    }

    fn told(&mut self, _told: Told, _now: Now, _out: &mut Out<Line>) {}

    fn due(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _now: Now, _out: &mut Out<Line>) {}
}

/// Draws, and gives the test the way in.
struct Pen {
    screen: Arc<Mutex<Screen>>,
    back: Arc<Mutex<Option<Back<Heard>>>>,
}

impl Hands<Scripted> for Pen {
    fn act(&mut self, (handle, words): Line, back: &Back<Heard>) {
        self.back.lock().unwrap().get_or_insert_with(|| back.clone());
        let mut screen = self.screen.lock().unwrap();
        match (handle.as_str(), words.as_str()) {
            ("kept", words) => screen.kept = serde_json::from_str(words).ok(),
            (_, "failed") => drop(screen.shown.remove(&handle)),
            _ => drop(screen.shown.insert(handle, words)),
        }
        let open = screen.shown.values().filter(|words| *words == "open").count();
        screen.most = screen.most.max(open);
    }
}

struct Rig {
    places: Places,
    daemon: Option<std::thread::JoinHandle<()>>,
    screen: Arc<Mutex<Screen>>,
    back: Arc<Mutex<Option<Back<Heard>>>>,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("askd-").tempdir().unwrap();
        let places = Places::at(dir.path());
        let mut rig = Self { places, daemon: None, screen: Arc::default(), back: Arc::default(), _dir: dir };
        rig.start();
        rig
    }

    fn start(&mut self) {
        let options = askd_daemon::Options {
            places: self.places.clone(),
            journal: None,
            no_surfaces: false,
            autostarted: false,
            watch: None,
        };
        self.daemon = Some(std::thread::spawn(move || askd_daemon::run(options).unwrap()));
        self.until("the daemon", |rig| rig.places.read_daemon_file().map(drop));
    }

    fn leave(&mut self) {
        let mut connection = Connection::connect(&self.places.answer_sock(), None).unwrap();
        connection.request("POST", "/v1/daemon/restart", None).unwrap();
        self.daemon.take().unwrap().join().unwrap();
    }

    fn people(&self) -> Answers {
        Answers::connect(&self.places).unwrap()
    }

    fn surface(&self, capacity: u32) -> driver::Running<Heard> {
        let pen = Pen { screen: Arc::clone(&self.screen), back: Arc::clone(&self.back) };
        driver::run(self.places.clone(), Scripted { asks: BTreeMap::new(), capacity }, pen).unwrap()
    }

    fn ask(&self, command: &str) -> Ask {
        let body = json!({
            "key": command, "action": {"tool": "Bash", "input": {"command": command}},
            "agent": "host", "session": "s", "requester": "library", "grace_secs": 600,
        });
        let mut connection = Connection::connect(&self.places.ask_sock(), None).unwrap();
        connection.set_token(Some("ab".repeat(16)));
        let reply = connection.request("POST", "/v1/asks", Some(body.to_string().as_bytes())).unwrap();
        serde_json::from_slice::<Raised>(&reply.body).unwrap().ask
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {:?}",
                self.screen.lock().unwrap().shown
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn shows(&self, ask: &Ask, words: &str) {
        self.until(words, |rig| {
            let screen = rig.screen.lock().unwrap();
            screen.shown.get(&ask.handle).filter(|shown| shown.contains(words)).map(drop)
        });
    }

    fn hear(&self, heard: Heard) {
        self.back.lock().unwrap().as_ref().unwrap().give(heard);
    }
}

#[test]
fn t1_t2_t16_a_surface_of_one_file_shows_answers_fails_and_keeps_its_capacity() {
    let mut rig = Rig::new();
    let running = rig.surface(2);
    let asks: Vec<Ask> = (0..4).map(|n| rig.ask(&format!("make {n}"))).collect();
    rig.shows(&asks[0], "open");
    rig.shows(&asks[1], "open");
    rig.hear(Heard::Answers(asks[0].handle.clone(), Decision::Allow));
    rig.shows(&asks[0], "allowed by Carla in Scripted");
    rig.shows(&asks[2], "open");
    // A failure is no answer, and frees its slot.
    rig.hear(Heard::Fails(asks[1].handle.clone()));
    rig.shows(&asks[3], "open");
    assert_eq!(rig.people().show(&asks[1].id).unwrap().state, AskState::Open);
    assert_eq!(rig.screen.lock().unwrap().most, 2);
    rig.hear(Heard::Burns);
    rig.until("the trouble to be told", |rig| {
        let lines = rig.people().health().unwrap().warnings();
        lines.iter().any(|line| line.contains("Scripted does not work: it is on fire")).then_some(())
    });
    // Over a restart it is attached again and gets what it kept.
    rig.leave();
    rig.start();
    rig.until("what was kept", |rig| {
        rig.screen.lock().unwrap().kept.as_ref().filter(|kept| kept["seen"].is_u64()).map(drop)
    });
    rig.hear(Heard::Answers(asks[2].handle.clone(), Decision::Deny));
    rig.shows(&asks[2], "denied by Carla in Scripted");
    running.stop();
    rig.until("its detachment", |rig| (rig.people().health().unwrap().surfaces == 0).then_some(()));
    rig.leave();
}
