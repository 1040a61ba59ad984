//! What a tree takes: wake-ups, descriptors, room.

use super::*;

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

/// Waits for this many serving records of the session, which come once a second.
pub(super) fn records(tree: &Tree, many: u64) {
    let record = || {
        let text = fs::read(tree.dir.join("serving/s.json")).ok()?;
        serde_json::from_slice::<Value>(&text).ok()?["updatedAt"].as_u64()
    };
    let mut last = until("a record", record);
    for _ in 0..many {
        last = until("the next record", || record().filter(|at| *at != last));
    }
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
    let beats = 5;
    until("a record", || tree.dir.join("serving/s.json").exists().then_some(()));
    let before = sleeps(server.pid());
    records(&tree, beats);
    let woke = sleeps(server.pid()) - before;
    // A write or two may wait for the disk; a look every few milliseconds would be hundreds.
    assert!(woke <= 8 * beats, "{woke} times for {beats} records");
    assert_eq!(fs::read_dir(tree.dir.join("sessions")).unwrap().count(), 1, "no other inbox is made");
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

/// A daemon that serves the tree and may have this many files open.
fn daemon_with(world: &World, tree: &Tree, files: u64) {
    fs::create_dir_all(world.askd_dir()).unwrap();
    world.start();
    let mut limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum) = (Some(files), Some(files));
    prlimit(world.daemon_pid(), Resource::Nofile, limit).unwrap();
    fs::write(world.askd_dir().join("config.toml"), format!("[spool]\ndirs = [{:?}]\n", tree.dir)).unwrap();
}

#[test]
fn s7_answers_that_nobody_fetches_take_nobodys_room_and_are_known_after_a_restart() {
    let world = World::new();
    let tree = Tree::new(&world);
    daemon_with(&world, &tree, 600);
    world.must(&["permissions", "skip", "on"]);
    let many = 3 * 600 / 12;
    for n in 0..many {
        tree.ask("greedy", &format!("r{n}"));
    }
    for n in 0..many {
        assert_eq!(tree.answer("greedy", &format!("r{n}"))["outcome"], "allowed", "r{n}");
    }
    tree.ask("quiet", "q1");
    assert_eq!(tree.fetch("quiet", "q1")["outcome"], "allowed");
    // What is fetched while the daemon stops may stay as handed.
    delivery(&world, "q1", "confirmed");
    world.must(&["daemon", "restart"]);
    world.must(&["permissions", "skip", "on"]);
    tree.ask("quiet", "q2");
    assert_eq!(tree.fetch("quiet", "q2")["outcome"], "allowed");
    for n in 0..many {
        assert_eq!(tree.fetch("greedy", &format!("r{n}"))["outcome"], "allowed");
    }
    for stem in ["r0", "r99", "q1", "q2"] {
        delivery(&world, stem, "confirmed");
    }
}

#[test]
fn s7_however_many_answers_lie_there_at_a_start_the_daemon_has_files_for_everybody_else() {
    let world = World::new();
    let tree = Tree::new(&world);
    let (many, files) = (600, 120);
    for n in 0..many {
        let stem = format!("r{n}");
        tree.ask("s", &stem);
        fs::create_dir_all(tree.session("s").join("responses")).unwrap();
        let text = json!({"askd": 1, "id": stem, "outcome": "allowed", "cause": "person", "text": ""});
        fs::write(tree.response("s", &stem), text.to_string()).unwrap();
    }
    daemon_with(&world, &tree, files);
    let proc = PathBuf::from(format!("/proc/{}", world.daemon_pid().unwrap().as_raw_pid()));
    tree.ask("other", "new");
    let mut most = 0;
    let mut count = || {
        for of in ["fd", "task"] {
            most = most.max(fs::read_dir(proc.join(of)).unwrap().count());
        }
    };
    until("a request is asked", || {
        count();
        (times_asked(&world, "new") == 1).then_some(())
    });
    for n in 0..10 {
        let ask = world.ask(&format!("ask {n}"), &[]);
        answer(&world, "allow", &format!("ask {n}"), &[]);
        assert_eq!(ask.end().0, Some(0));
        count();
    }
    answer(&world, "allow", "new", &[]);
    assert_eq!(tree.fetch("other", "new")["outcome"], "allowed");
    assert!(most < 80, "{most} of {files} files or as many threads");
    assert_eq!(tree.requests_and_responses().len(), 2 * many, "whose they are is not known: they stay");
}
