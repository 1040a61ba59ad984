//! Forwarding directories with the real program and a real file system, among requesters that remove whatever is empty
//! and people who remove whatever there is.

mod again;
#[cfg(target_os = "linux")]
mod deaf;
#[cfg(target_os = "linux")]
mod fuse;
mod limits;
mod removed;
mod requesters;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Signal, getrlimit, prlimit};
use serde_json::{Value, json};

use crate::world::{Running, World, until};

struct Tree {
    dir: PathBuf,
}

impl Tree {
    fn new(world: &World) -> Self {
        Self { dir: world.path("agent/sessions/permission-forwarding") }
    }

    fn session(&self, session: &str) -> PathBuf {
        self.dir.join("sessions").join(session)
    }

    fn request(&self, session: &str, stem: &str) -> PathBuf {
        self.session(session).join("requests").join(format!("{stem}.json"))
    }

    fn response(&self, session: &str, stem: &str) -> PathBuf {
        self.session(session).join("responses").join(format!("{stem}.json"))
    }

    /// As requesters write: in a file of another name, then by renaming.
    fn write(&self, session: &str, stem: &str, text: &str) -> std::io::Result<()> {
        let requests = self.session(session).join("requests");
        fs::create_dir_all(&requests)?;
        let unfinished = requests.join(format!("{stem}.json.1.tmp"));
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, self.request(session, stem))
    }

    fn ask(&self, session: &str, stem: &str) {
        self.write(session, stem, &own(stem, stem, &[])).unwrap();
    }

    /// Waits for the response, which must be whole when it is first seen, and fetches it as a requester does.
    fn fetch(&self, session: &str, stem: &str) -> Value {
        let answer = self.answer(session, stem);
        fs::remove_file(self.response(session, stem)).unwrap();
        let _ = fs::remove_file(self.request(session, stem));
        answer
    }

    fn answer(&self, session: &str, stem: &str) -> Value {
        let text = until(&format!("a response to {stem}"), || fs::read(self.response(session, stem)).ok());
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("torn: {error}"))
    }

    /// The clean-up of versions before the fix: each directory by itself.
    fn rude_clean_up(&self, session: &str) {
        let session = self.session(session);
        for dir in ["requests", "responses"] {
            let _ = fs::remove_dir(session.join(dir));
        }
        let _ = fs::remove_dir(session);
    }

    fn requests_and_responses(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    dirs.push(entry.path());
                } else if entry.path().extension().is_some_and(|end| end == "json")
                    && !entry.path().parent().is_some_and(|dir| dir.ends_with("serving"))
                {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

fn own(stem: &str, command: &str, more: &[(&str, Value)]) -> String {
    let mut request = json!({"askd": 1, "id": stem, "tool": "Bash", "input": {"command": command}});
    for (name, value) in more {
        request[*name] = value.clone();
    }
    request.to_string()
}

fn serve(world: &World, tree: &Tree, more: &[&str]) -> Running {
    let dir = tree.dir.to_str().unwrap();
    let args: Vec<&str> = ["spool", "--dir", dir].iter().chain(more).copied().collect();
    let mut server = world.spawn(&args);
    server.line("serving");
    server
}

fn started() -> (World, Tree) {
    let world = World::new();
    world.start();
    let tree = Tree::new(&world);
    (world, tree)
}

fn answer(world: &World, what: &str, command: &str, more: &[&str]) {
    let handle = world.handle(command);
    let args: Vec<&str> = [what, &handle].iter().chain(more).copied().collect();
    world.must(&args);
}

/// How often an ask for this command was made.
fn times_asked(world: &World, command: &str) -> usize {
    let asks = world.json(&["ls", "--all", "--json"]);
    asks.as_array().unwrap().iter().filter(|ask| ask["action"]["input"]["command"] == command).count()
}

fn settled(world: &World, command: &str) -> Value {
    until(&format!("{command} is settled"), || {
        let asks = world.json(&["ls", "--all", "--json"]);
        asks.as_array()?
            .iter()
            .find(|ask| ask["action"]["input"]["command"] == command && ask["state"] == "settled")
            .cloned()
    })
}

fn delivery(world: &World, command: &str, wanted: &str) {
    until(&format!("{command} is {wanted}"), || {
        (settled(world, command)["delivery"] == wanted).then_some(())
    });
}

/// All of it, while askd makes it again.
fn remove(path: &Path) {
    until("removed", || match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => None,
        done => {
            done.unwrap();
            Some(())
        }
    });
}

#[test]
fn f1_a_request_becomes_an_ask_and_its_outcome_the_response_and_nothing_stays() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    tree.write("parent-1", "r1", &own("r1", "touch a", &[("session", json!("child-7"))])).unwrap();
    let ask = world.open("touch a");
    assert_eq!(ask["lineage"]["session"], "parent-1");
    assert_eq!(ask["lineage"]["subagent"]["work_id"], "child-7");
    assert_eq!(ask["lineage"]["root"], "parent-1");
    assert!(tree.session("parent-1").join("responses").is_dir(), "made before it is shown");
    answer(&world, "allow", "touch a", &[]);
    let told = tree.fetch("parent-1", "r1");
    assert_eq!((&told["outcome"], &told["cause"]), (&json!("allowed"), &json!("person")));
    delivery(&world, "touch a", "confirmed");

    tree.ask("parent-1", "r2");
    answer(&world, "deny", "r2", &["-m", "not in this folder"]);
    let told = tree.fetch("parent-1", "r2");
    assert_eq!((&told["outcome"], &told["message"]), (&json!("denied"), &json!("not in this folder")));
    assert_eq!(tree.requests_and_responses(), Vec::<PathBuf>::new());
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
    assert!(!tree.session("parent-1").exists() && !tree.dir.join("serving").exists(), "nothing is left");
    assert_eq!((times_asked(&world, "touch a"), times_asked(&world, "r2")), (1, 1));
}

/// The example of the documentation, run by a shell.
#[test]
fn f1_ten_lines_of_shell_are_a_requester() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spool.md");
    let text = fs::read_to_string(docs).unwrap();
    let script = text.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(script.lines().count() <= 14, "{script}");
    let (world, tree) = started();
    let _server = serve(&world, &tree, &[]);
    let path = world.path("ask.sh");
    world.script(&path, script);
    let run = |command: &str| {
        let mut shell = Command::new("sh");
        shell.arg(&path).arg(&tree.dir).arg(command).env_clear().env("PATH", "/usr/bin:/bin");
        Running::start(shell)
    };
    for (what, command, status) in [("allow", "make it", 0), ("deny", "break \"it\" \\ now", 1)] {
        let shell = run(command);
        answer(&world, what, command, &[]);
        assert_eq!(shell.end().0, Some(status), "{command}");
    }
    assert_eq!(tree.requests_and_responses(), Vec::<PathBuf>::new());
}

#[test]
fn f11_an_unreadable_request_is_shown_kept_and_answered_as_unavailable() {
    let (world, tree) = started();
    let mut server = serve(&world, &tree, &[]);
    tree.write("s", "torn", "{\"id\":").unwrap();
    tree.write("s", "alien", r#"{"askd":99,"id":"alien","tool":"T"}"#).unwrap();
    server.line("it is kept");
    for stem in ["torn", "alien"] {
        let told = tree.answer("s", stem);
        assert_eq!((&told["approved"], &told["outcome"]), (&json!(false), &json!("unavailable")));
        assert!(tree.request("s", stem).exists(), "never deleted");
    }
    assert!(tree.answer("s", "alien")["text"].as_str().unwrap().contains("upgrade"));
    let shown = world.must(&["ls", "--all"]);
    assert!(shown.contains("unreadable request"), "{shown}");
    // It holds up nobody.
    tree.ask("s", "r1");
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    let record = fs::read_to_string(tree.dir.join("serving/s.json")).unwrap();
    assert!(record.contains(&format!("\"pid\":{}", server.pid().as_raw_pid())), "{record}");
}

#[test]
fn a_directory_that_is_not_there_is_said_to_be_served_when_it_is() {
    let (world, tree) = started();
    let dir = tree.dir.join("typo");
    let mut server = world.spawn(&["spool", "--dir", dir.to_str().unwrap()]);
    assert!(server.line("serving").contains("is not there yet"), "{:?}", server.seen);
    assert!(!dir.exists());
}
