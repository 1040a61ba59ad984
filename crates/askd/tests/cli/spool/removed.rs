//! Directories and answers that are taken away, and disks that are full.

use super::*;

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
        other.args(["--exact", "spool::removed::f8_one_process_of_the_second_race", "--nocapture"]);
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
