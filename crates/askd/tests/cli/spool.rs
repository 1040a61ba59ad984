//! Forwarding directories with the real program and a real file system, among requesters that remove whatever is empty
//! and people who remove whatever there is.

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
fn f2_overlapping_requesters_with_the_old_clean_up_each_get_their_own_answer_once() {
    let (world, tree) = started();
    let _server = serve(&world, &tree, &[]);
    let many = 24_u32;
    std::thread::scope(|scope| {
        let children: Vec<_> = (0..many)
            .map(|n| {
                let tree = &tree;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(u64::from(n % 8) * 25));
                    let stem = format!("r{n}");
                    // The old requester gives up when its directory vanishes under it; a sibling's clean-up can do that
                    // until askd has seen the session.
                    until("written", || {
                        tree.write("p", &stem, &own(&stem, &stem, &[("session", json!(format!("c{n}")))]))
                            .ok()
                    });
                    let told = tree.fetch("p", &stem);
                    tree.rude_clean_up("p");
                    (n, told)
                })
            })
            .collect();
        for n in 0..many {
            let command = format!("r{n}");
            match n % 3 {
                0 => answer(&world, "deny", &command, &["-m", &format!("no {n}")]),
                _ => answer(&world, "allow", &command, &[]),
            }
        }
        for child in children {
            let (n, told) = child.join().unwrap();
            assert_eq!(told["id"], format!("r{n}"));
            match n % 3 {
                0 => assert_eq!(told["message"], format!("no {n}")),
                _ => assert_eq!(told["outcome"], "allowed"),
            }
        }
    });
    for n in 0..many {
        assert_eq!(times_asked(&world, &format!("r{n}")), 1);
    }
    assert_eq!(tree.requests_and_responses(), Vec::<PathBuf>::new());
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
fn f6_whatever_is_removed_between_asking_and_answering_the_answer_arrives() {
    let (world, tree) = started();
    let _server = serve(&world, &tree, &[]);
    let what = [
        ("responses", "sessions/s/responses"),
        ("session", "sessions/s"),
        ("sessions", "sessions"),
        ("root", ""),
    ];
    for (name, path) in what {
        tree.ask("s", name);
        world.open(name);
        remove(&tree.dir.join(path));
        // It is not withdrawn by that: its requester waits for a response, not for its request.
        until("made again", || tree.session("s").join("responses").is_dir().then_some(()));
        answer(&world, "allow", name, &[]);
        assert_eq!(tree.fetch("s", name)["outcome"], "allowed", "{name}");
        assert_eq!(times_asked(&world, name), 1, "{name}");
    }
    // Removed under an answer that is in place already: it is put beside its request again.
    tree.ask("s", "late");
    answer(&world, "allow", "late", &[]);
    tree.answer("s", "late");
    remove(&tree.session("s"));
    until("written again", || tree.write("s", "late", &own("late", "late", &[])).ok());
    assert_eq!(tree.fetch("s", "late")["outcome"], "allowed");
    assert_eq!(times_asked(&world, "late"), 1);
}

#[test]
fn f2_an_id_that_is_used_again_is_asked_again_and_never_gets_the_answer_to_another_request() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    // Fetched, and the next one has its name at once.
    tree.write("s", "deploy", &own("deploy", "stage", &[])).unwrap();
    answer(&world, "allow", "stage", &[]);
    tree.fetch("s", "deploy");
    tree.write("s", "deploy", &own("deploy", "production", &[])).unwrap();
    answer(&world, "deny", "production", &[]);
    assert_eq!(tree.fetch("s", "deploy")["outcome"], "denied");
    // Not fetched, by a requester that is gone; also when askd was started anew in between.
    tree.write("s", "job", &own("job", "make a", &[])).unwrap();
    answer(&world, "allow", "make a", &[]);
    tree.answer("s", "job");
    server.signal(Signal::KILL);
    drop(server);
    tree.write("s", "job", &own("job", "make b", &[])).unwrap();
    let _server = serve(&world, &tree, &[]);
    world.open("make b");
    until("the first answer is gone", || (!tree.response("s", "job").exists()).then_some(()));
    answer(&world, "deny", "make b", &[]);
    assert_eq!(tree.fetch("s", "job")["outcome"], "denied");
    // With its whole directory.
    tree.write("s", "once", &own("once", "make c", &[])).unwrap();
    answer(&world, "allow", "make c", &[]);
    tree.answer("s", "once");
    remove(&tree.session("s"));
    until("written", || tree.write("s", "once", &own("once", "make d", &[])).ok());
    answer(&world, "deny", "make d", &[]);
    assert_eq!(tree.fetch("s", "once")["outcome"], "denied");
}

#[test]
fn f6_a_full_disk_holds_the_answer_and_asks_nobody_again() {
    let (world, tree) = started();
    // Files of this process may have no bytes, as on a disk that is full, until the test says otherwise.
    let line =
        format!("trap '' XFSZ; exec {} spool --dir {}", env!("CARGO_BIN_EXE_askd"), tree.dir.display());
    let mut server = Running::start(world.command_of(Path::new("/bin/sh"), &["-c", &line]));
    server.line("serving");
    tree.ask("s", "r1");
    world.open("r1");
    let mut limit = getrlimit(Resource::Fsize);
    let before = limit.current;
    limit.current = Some(0);
    prlimit(Some(server.pid()), Resource::Fsize, limit).unwrap();
    answer(&world, "allow", "r1", &[]);
    server.line("the answer cannot be put in place and is kept");
    assert!(!tree.response("s", "r1").exists());
    assert_eq!(settled(&world, "r1")["outcome"]["cause"], "person");
    limit.current = before;
    prlimit(Some(server.pid()), Resource::Fsize, limit).unwrap();
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    delivery(&world, "r1", "confirmed");
    assert_eq!(times_asked(&world, "r1"), 1);
}

#[test]
fn f7_without_hints_of_the_kernel_everything_works_the_same_and_no_empty_inbox_is_made() {
    let (world, tree) = started();
    fs::create_dir_all(&tree.dir).unwrap();
    let _server = serve(&world, &tree, &["--no-hints"]);
    tree.ask("s", "r1");
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    delivery(&world, "r1", "confirmed");
    let names: Vec<_> =
        fs::read_dir(tree.dir.join("sessions")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["s"]);
}

/// How often the threads of a process went to sleep by themselves.
fn sleeps(pid: rustix::process::Pid) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())).unwrap();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.flatten().filter_map(of).sum()
}

#[test]
fn f7_a_served_tree_wakes_for_its_look_and_its_record_and_for_nothing_else() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    tree.ask("s", "r1");
    // One that waits for its person costs nothing more either.
    tree.ask("s", "waits");
    answer(&world, "allow", "r1", &[]);
    tree.fetch("s", "r1");
    delivery(&world, "r1", "confirmed");
    world.open("waits");
    let record = || {
        let text = fs::read(tree.dir.join("serving/s.json")).ok()?;
        serde_json::from_slice::<Value>(&text).ok()?["updatedAt"].as_u64()
    };
    let beats = 5;
    let (before, mut last) = (sleeps(server.pid()), until("a record", record));
    for _ in 0..beats {
        last = until("the next record", || record().filter(|at| *at != last));
    }
    let woke = sleeps(server.pid()) - before;
    // A write or two may wait for the disk; a look every few milliseconds would be hundreds.
    assert!(woke <= 8 * beats, "{woke} times for {beats} records");
    assert_eq!(fs::read_dir(tree.dir.join("sessions")).unwrap().count(), 1, "no other inbox is made");
}

/// Two processes that make, write, delete and clean up: none of their writes fails while askd serves.
#[test]
fn f8_the_second_race_does_not_happen_while_askd_serves() {
    let (world, tree) = started();
    let _server = serve(&world, &tree, &["--session", "s"]);
    until("the sentinels", || {
        let session = tree.session("s");
        let there = |dir: &str| session.join(dir).join(".askd-keep").exists();
        (there("requests") && there("responses")).then_some(())
    });
    let run = |name: &str| {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "spool::f8_one_process_of_the_second_race", "--nocapture"]);
        other.env(RACE_DIR, tree.session("s")).env("RACE_NAME", name).stdout(Stdio::piped());
        other.spawn().unwrap()
    };
    for child in [run("a"), run("b")] {
        let told = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.status.success() && text.contains("cycles 3000 failures 0;"), "{text}");
    }
}

const RACE_DIR: &str = "RACE_DIR";

/// Started as a process of its own by the test above: makes, writes, deletes and cleans up by the old rule. Its files are
/// no requests, so that nobody is asked 6 000 times; directories do not care.
#[test]
fn f8_one_process_of_the_second_race() {
    let Some(session) = std::env::var_os(RACE_DIR).map(PathBuf::from) else { return };
    let name = std::env::var("RACE_NAME").unwrap();
    let mut failures = 0;
    for n in 0..3000 {
        let made = ["requests", "responses"].map(|dir| fs::create_dir_all(session.join(dir)));
        let file = session.join("requests").join(format!("{name}.{n}.tmp"));
        let written = fs::write(&file, "{}").and_then(|()| fs::remove_file(&file));
        failures += i32::from(written.is_err() || made.iter().any(Result::is_err));
        for dir in ["requests", "responses"] {
            let _ = fs::remove_dir(session.join(dir));
        }
        let _ = fs::remove_dir(&session);
    }
    println!("cycles 3000 failures {failures};");
}

#[test]
fn f10_a_requester_that_dies_or_leaves_is_withdrawn_and_a_ghost_is_not_shown() {
    let (world, tree) = started();
    let mut ghost = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = ghost.id();
    ghost.kill().unwrap();
    ghost.wait().unwrap();
    tree.write("s", "ghost", &own("ghost", "ghost", &[("pid", json!(pid))])).unwrap();
    // Left by a crash a minute ago.
    let minute_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::open(tree.request("s", "ghost")).unwrap().set_modified(minute_ago).unwrap();
    let mut server = serve(&world, &tree, &[]);

    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    tree.write("s", "dies", &own("dies", "dies", &[("pid", json!(child.id()))])).unwrap();
    tree.ask("s", "leaves");
    world.open("dies");
    world.open("leaves");
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(tree.request("s", "leaves")).unwrap();
    for command in ["dies", "leaves"] {
        assert_eq!(settled(&world, command)["outcome"]["cause"], "requester_gone");
    }
    until("what the dead left is removed", || (!tree.request("s", "dies").exists()).then_some(()));
    assert!(!tree.response("s", "dies").exists() && !tree.response("s", "leaves").exists());
    // Where a number can be nobody else's, its request was never an ask.
    if times_asked(&world, "ghost") == 0 {
        assert!(!tree.request("s", "ghost").exists());
        server.has_said("its requester died before askd saw it");
    }
}

#[test]
fn f10_a_limit_of_the_requester_is_shown_and_it_hears_the_true_reason_in_time() {
    let (world, tree) = started();
    let _server = serve(&world, &tree, &[]);
    tree.write("s", "short", &own("short", "short", &[("gives_up_secs", json!(5))])).unwrap();
    assert!(world.open("short")["gives_up_at"].is_string());
    let told = tree.fetch("s", "short");
    assert_eq!((&told["outcome"], &told["cause"]), (&json!("withdrawn"), &json!("requester_limit")));
    assert_eq!(settled(&world, "short")["outcome"]["cause"], "requester_limit");

    // pi's children call every answer that is no yes the user's: the reason says that nobody denied it.
    let config = world.path("agent/extensions/pi-permission-system/config.json");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, r#"{"forwardingTimeoutMs": 5000}"#).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let request = json!({"id": "p1", "createdAt": u64::try_from(now).unwrap(), "requesterSessionId": "c",
        "targetSessionId": "s", "requesterAgentName": "gated", "message": "touch b?", "surface": "bash",
        "value": "touch b"});
    tree.write("s", "p1", &request.to_string()).unwrap();
    assert_eq!(world.open("touch b")["lineage"]["subagent"]["name"], "gated");
    let told = tree.fetch("s", "p1");
    assert_eq!((&told["approved"], &told["state"]), (&json!(false), &json!("denied_with_reason")));
    assert!(told["denialReason"].as_str().unwrap().contains("nobody denied it"), "{told}");
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
fn f13_and_s6_names_and_links_lead_nowhere_else() {
    let (world, tree) = started();
    let outside = world.path("outside");
    fs::create_dir(&outside).unwrap();
    let _server = serve(&world, &tree, &[]);
    for (stem, field, value) in [
        ("e1", "id", "../../../../outside/e1"),
        ("e2", "session", "../../../outside"),
        ("e3", "agent", "../x"),
        ("e4", "tool", "../x"),
    ] {
        tree.write("s", stem, &own(stem, stem, &[(field, json!(value))])).unwrap();
    }
    let pi = json!({"id": "e5", "createdAt": 1, "requesterSessionId": "../../outside", "targetSessionId": "../../outside",
        "requesterAgentName": "../../outside", "message": "m"});
    tree.write("s", "e5", &pi.to_string()).unwrap();
    for command in ["e2", "e4"] {
        answer(&world, "allow", command, &[]);
    }
    for stem in ["e2", "e4"] {
        assert_eq!(tree.fetch("s", stem)["outcome"], "allowed");
    }
    // No agent has such a name.
    for stem in ["e1", "e3", "e5"] {
        assert_eq!(tree.answer("s", stem)["outcome"], "unavailable");
    }
    // A session that is a link, and directories that become links under an open ask.
    std::os::unix::fs::symlink(&outside, tree.session("linked")).unwrap();
    fs::create_dir(outside.join("requests")).unwrap();
    fs::write(outside.join("requests/x.json"), own("x", "linked ask", &[])).unwrap();
    tree.ask("s2", "swapped");
    world.open("swapped");
    remove(&tree.session("s2").join("responses"));
    // askd makes it again at once, so the link may come too late; one of the two is there.
    let _ = std::os::unix::fs::symlink(&outside, tree.session("s2").join("responses"));
    answer(&world, "allow", "swapped", &[]);
    settled(&world, "swapped");
    if tree.session("s2").join("responses").is_symlink() {
        fs::remove_file(tree.session("s2").join("responses")).unwrap();
    }
    assert_eq!(tree.fetch("s2", "swapped")["outcome"], "allowed");
    let mut names: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["requests"], "nothing was written outside");
    assert_eq!(times_asked(&world, "linked ask"), 0);
}

#[test]
fn f14_two_on_one_directory_ask_once_and_the_other_takes_over_when_one_is_killed() {
    let (world, tree) = started();
    let one = serve(&world, &tree, &[]);
    let mut two = serve(&world, &tree, &[]);
    for n in 0..10 {
        tree.ask(&format!("s{}", n % 3), &format!("r{n}"));
    }
    for n in 0..5 {
        answer(&world, "allow", &format!("r{n}"), &[]);
        assert_eq!(tree.fetch(&format!("s{}", n % 3), &format!("r{n}"))["outcome"], "allowed");
    }
    for n in 5..10 {
        world.open(&format!("r{n}"));
    }
    // Killed with asks open, and with an answer that comes while nobody serves.
    one.signal(Signal::KILL);
    drop(one);
    answer(&world, "allow", "r5", &[]);
    for n in 6..10 {
        answer(&world, "deny", &format!("r{n}"), &[]);
    }
    for n in 5..10 {
        let expected = if n == 5 { "allowed" } else { "denied" };
        assert_eq!(tree.fetch(&format!("s{}", n % 3), &format!("r{n}"))["outcome"], expected);
    }
    for n in 0..10 {
        assert_eq!(times_asked(&world, &format!("r{n}")), 1, "r{n}");
    }
    assert!(two.is_running());

    // Beside somebody else who answers: the first response stands, and what it said is what became of the ask.
    tree.ask("s0", "theirs");
    world.open("theirs");
    fs::write(
        tree.session("s0").join("responses/.tmp"),
        r#"{"approved":true,"state":"approved","responderSessionId":"s0"}"#,
    )
    .unwrap();
    fs::rename(tree.session("s0").join("responses/.tmp"), tree.response("s0", "theirs")).unwrap();
    let ask = settled(&world, "theirs");
    assert_eq!((&ask["outcome"]["outcome"], &ask["outcome"]["cause"]), (&json!("allowed"), &json!("agent")));
    assert_eq!(tree.fetch("s0", "theirs")["approved"], true);
}

#[test]
fn the_daemon_serves_the_directories_of_its_config_and_dies_without_losing_an_answer() {
    let world = World::new();
    let tree = Tree::new(&world);
    fs::create_dir_all(world.askd_dir()).unwrap();
    let config = world.askd_dir().join("config.toml");
    world.start();
    tree.ask("s", "r1");
    // An edit is enough.
    fs::write(&config, format!("[spool]\ndirs = [{:?}]\n", tree.dir)).unwrap();
    world.open("r1");
    tree.ask("s", "r2");
    world.open("r2");
    world.kill_daemon();
    until("it is gone", || (world.run(&["status"]).code != Some(0)).then_some(()));
    world.start();
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    world.must(&["daemon", "restart"]);
    answer(&world, "deny", "r2", &[]);
    assert_eq!(tree.fetch("s", "r2")["outcome"], "denied");
    assert_eq!((times_asked(&world, "r1"), times_asked(&world, "r2")), (1, 1));
    // Taken out again: nothing of it stays.
    fs::write(&config, "").unwrap();
    until("it is not served any more", || (!tree.session("s").exists()).then_some(()));
    world.must(&["daemon", "stop"]);
}

#[test]
fn s7_many_requests_through_the_daemons_own_process_are_not_its_limit() {
    let world = World::new();
    let tree = Tree::new(&world);
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), format!("[spool]\ndirs = [{:?}]\n", tree.dir)).unwrap();
    world.start();
    let many = 400;
    for n in 0..many {
        tree.ask(&format!("s{}", n % 4), &format!("r{n}"));
    }
    until("all are open", || {
        let open = world.json(&["ls", "--json"]);
        (open.as_array()?.len() == many).then_some(())
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let open = world.json(&["ls", "--json"]);
                let handles: Vec<&str> =
                    open.as_array().unwrap().iter().filter_map(|ask| ask["handle"].as_str()).collect();
                if !handles.is_empty() {
                    let args: Vec<&str> = ["allow"].iter().chain(&handles).copied().collect();
                    world.run(&args);
                }
            }
        });
        for n in 0..many {
            assert_eq!(tree.fetch(&format!("s{}", n % 4), &format!("r{n}"))["outcome"], "allowed");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn s7_a_flood_of_requests_does_not_take_the_daemons_descriptors() {
    let world = World::new();
    let tree = Tree::new(&world);
    fs::create_dir_all(world.askd_dir()).unwrap();
    fs::write(world.askd_dir().join("config.toml"), format!("[spool]\ndirs = [{:?}]\n", tree.dir)).unwrap();
    world.start();
    let mut limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum) = (Some(600), Some(600));
    prlimit(world.daemon_pid(), Resource::Nofile, limit).unwrap();
    let (many, most) = (300, 600 / 12);
    for n in 0..many {
        tree.ask(&format!("s{}", n % 3), &format!("r{n}"));
    }
    let count = || world.json(&["ls", "--json"]).as_array().map_or(0, Vec::len);
    until("some are open", || (count() > most / 2).then_some(()));
    // Everybody else is served all the same, a session that has nothing open too.
    let other = world.ask("another", &[]);
    world.open("another");
    tree.ask("quiet", "calm");
    answer(&world, "allow", "calm", &[]);
    assert_eq!(tree.fetch("quiet", "calm")["outcome"], "allowed");
    answer(&world, "allow", "another", &[]);
    assert_eq!(other.end().0, Some(0));
    // What found no room is told so, and nobody decided it.
    let responses = || (0..many).filter(|n| tree.response(&format!("s{}", n % 3), &format!("r{n}")).exists());
    until("the others are told", || (responses().count() + count() == many).then_some(()));
    assert!(count() <= most, "{}", count());
    for n in responses() {
        let answer = tree.answer(&format!("s{}", n % 3), &format!("r{n}"));
        assert_eq!(answer["outcome"], "unavailable", "{answer}");
    }
}

#[test]
fn f14_a_tree_that_is_reached_through_a_link_which_came_later_has_one_server_too() {
    let (world, tree) = started();
    let real = world.path("dotfiles");
    fs::create_dir(&real).unwrap();
    // The first one is there before the link is.
    let by_link = Tree { dir: world.path("agent-link/sessions/permission-forwarding") };
    let _one = serve(&world, &by_link, &[]);
    std::os::unix::fs::symlink(&real, world.path("agent-link")).unwrap();
    let by_name = Tree { dir: real.join("sessions/permission-forwarding") };
    by_name.ask("s", "r1");
    world.open("r1");
    let mut two = serve(&world, &by_name, &[]);
    two.has_said("another askd (process ");
    by_name.ask("s", "r2");
    for stem in ["r1", "r2"] {
        answer(&world, "allow", stem, &[]);
        assert_eq!(by_name.fetch("s", stem)["outcome"], "allowed");
        assert_eq!(times_asked(&world, stem), 1, "{stem}");
    }
    drop(tree);
}

#[test]
fn a_directory_that_is_not_there_is_said_to_be_served_when_it_is() {
    let (world, tree) = started();
    let dir = tree.dir.join("typo");
    let mut server = world.spawn(&["spool", "--dir", dir.to_str().unwrap()]);
    assert!(server.line("serving").contains("is not there yet"), "{:?}", server.seen);
    assert!(!dir.exists());
}

#[test]
fn the_daemon_serves_a_directory_as_soon_as_what_was_in_its_way_is_gone() {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let world = World::new();
    let tree = Tree::new(&world);
    let place = world.askd_dir().join("state/spool");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place.parent().unwrap()).unwrap();
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(world.askd_dir().join("config.toml"), format!("[spool]\ndirs = [{:?}]\n", tree.dir)).unwrap();
    world.start();
    tree.ask("s", "r1");
    assert_eq!(times_asked(&world, "r1"), 0);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
}

#[test]
fn s1_s2_whoever_asks_and_what_it_starts_neither_allows_its_own_request_nor_loosens_anything() {
    let (world, tree) = started();
    let _server = serve(&world, &tree, &[]);
    let askd = env!("CARGO_BIN_EXE_askd");
    let (go, other, told) = (world.path("go"), world.path("other"), world.path("told"));
    // Its marks, if it had any, are gone from its environment; what it starts is let go of.
    let script = format!(
        "until [ -s {go} ]; do sleep 0.05; done
         setsid sh -c '{askd} permissions skip on --session spool/s; a=$?; {askd} allow $(cat {go}); b=$?; {askd} permissions skip off; c=$?; {askd} deny $(cat {other}); echo $a $b $c $? >{told}.new; mv {told}.new {told}' </dev/null &
         sleep 600",
        go = go.display(),
        other = other.display(),
        told = told.display(),
    );
    let mut command = world.command_of(Path::new("/bin/sh"), &["-c", &script]);
    let mut requester = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    tree.write("s", "r1", &own("r1", "r1", &[("pid", json!(requester.id()))])).unwrap();
    tree.write("s", "r2", &own("r2", "r2", &[("pid", json!(requester.id()))])).unwrap();
    fs::write(&other, world.handle("r2")).unwrap();
    let handle = world.handle("r1");
    fs::write(&go, &handle).unwrap();
    let codes = until("it tried", || fs::read_to_string(&told).ok());
    // A file may name anybody: nobody is kept by one from denying, tightening or stopping.
    assert_eq!(codes.trim(), "7 7 0 0");
    assert_eq!(world.open("r1")["state"], "open");
    // Everybody else may, and other asks are not its affair.
    world.must(&["allow", &handle]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    requester.kill().unwrap();
    requester.wait().unwrap();
}

#[test]
fn f5_an_answer_that_lies_in_place_when_askd_is_started_anew_is_confirmed_or_removed() {
    let (world, tree) = started();
    let server = serve(&world, &tree, &[]);
    let mut requester = Command::new("sleep").arg("600").spawn().unwrap();
    for (stem, more) in [("fetched", vec![]), ("left", vec![("pid", json!(requester.id()))])] {
        tree.write("s", stem, &own(stem, stem, &more)).unwrap();
        answer(&world, "allow", stem, &[]);
        tree.answer("s", stem);
        delivery(&world, stem, "handed");
    }
    server.signal(Signal::KILL);
    drop(server);
    let server = serve(&world, &tree, &[]);
    until("the next one serves it", || {
        let record = fs::read(tree.dir.join("serving/s.json")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        (record["pid"] == server.pid().as_raw_pid()).then_some(())
    });
    assert_eq!(tree.fetch("s", "fetched")["outcome"], "allowed");
    delivery(&world, "fetched", "confirmed");
    requester.kill().unwrap();
    requester.wait().unwrap();
    until("what nobody comes for is gone", || tree.requests_and_responses().is_empty().then_some(()));
    assert_eq!(settled(&world, "left")["delivery"], "handed", "nobody fetched it");
    assert_eq!((times_asked(&world, "fetched"), times_asked(&world, "left")), (1, 1));
}
