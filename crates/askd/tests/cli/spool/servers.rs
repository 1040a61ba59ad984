//! Who serves a tree, and which one it is.

use rustix::fs::{CWD, RenameFlags};

use super::*;

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

/// Makes the link lead there, in one step.
fn lead(link: &Path, to: &Path) {
    let new = link.with_extension("new");
    std::os::unix::fs::symlink(to, &new).unwrap();
    fs::rename(new, link).unwrap();
}

#[test]
fn f14_when_the_path_leads_elsewhere_what_is_open_is_answered_where_it_waits_and_nowhere_else() {
    let (world, _) = started();
    let at = |name: &str| Tree { dir: world.path(name) };
    let (a, b, link) = (at("a"), at("b"), at("link"));
    for tree in [&a, &b] {
        fs::create_dir(&tree.dir).unwrap();
    }
    lead(&link.dir, &a.dir);
    let mut server = serve(&world, &link, &[]);
    for stem in ["r1", "waits"] {
        a.ask("s", stem);
        world.open(stem);
    }
    lead(&link.dir, &b.dir);
    server.has_said("what is open in the one before is served there to its end");
    // The same name, and another request.
    b.write("s", "r1", &own("r1", "rm b", &[])).unwrap();
    world.open("rm b");
    answer(&world, "allow", "r1", &[]);
    assert_eq!(a.fetch("s", "r1")["outcome"], "allowed");
    delivery(&world, "r1", "confirmed");
    assert!(!b.response("s", "r1").exists());
    answer(&world, "deny", "rm b", &[]);
    assert_eq!(b.fetch("s", "r1")["outcome"], "denied");
    // To one that cannot be used: what is open before it is answered all the same.
    b.ask("s", "r2");
    world.open("r2");
    let open = Tree { dir: world.path("open") };
    fs::create_dir(&open.dir).unwrap();
    fs::set_permissions(&open.dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    lead(&link.dir, &open.dir);
    server.has_said("can be changed by other users");
    answer(&world, "allow", "r2", &[]);
    assert_eq!(b.fetch("s", "r2")["outcome"], "allowed");
    // Back again, what waits there is the same ask, and new ones are taken.
    lead(&link.dir, &a.dir);
    a.ask("s", "new");
    for stem in ["new", "waits"] {
        answer(&world, "allow", stem, &[]);
        assert_eq!(a.fetch("s", stem)["outcome"], "allowed");
        assert_eq!(times_asked(&world, stem), 1, "{stem}");
    }
    until("nothing is left where nobody serves", || (!b.session("s").exists()).then_some(()));
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
    assert!(!a.session("s").exists());
}

#[test]
fn f14_a_tree_that_was_moved_away_from_another_one_gets_its_answers_and_is_left() {
    let (world, tree) = started();
    fs::create_dir_all(&tree.dir).unwrap();
    let _server = serve(&world, &tree, &["--session", "s"]);
    for stem in ["r1", "r2"] {
        tree.ask("s", stem);
        world.open(stem);
    }
    let other = Tree { dir: world.path("other") };
    other.write("s", "r2", &own("r2", "theirs", &[])).unwrap();
    // One that has nothing to do with the other takes its place, in one step.
    let (here, there) = (&tree.dir, &other.dir);
    rustix::fs::renameat_with(CWD, here, CWD, there, RenameFlags::EXCHANGE).unwrap();
    let moved = other;
    world.open("theirs");
    answer(&world, "allow", "r1", &[]);
    answer(&world, "deny", "r2", &[]);
    assert_eq!(moved.fetch("s", "r1")["outcome"], "allowed");
    assert_eq!(moved.fetch("s", "r2")["outcome"], "denied");
    assert!(!tree.response("s", "r2").exists() && !tree.response("s", "r1").exists());
    until("the moved one is left", || (!moved.session("s").exists()).then_some(()));
    answer(&world, "allow", "theirs", &[]);
    assert_eq!(tree.fetch("s", "r2")["outcome"], "allowed");
    assert_eq!((times_asked(&world, "r1"), times_asked(&world, "r2")), (1, 1));
}

/// The locks of a tree, whoever holds them.
fn locks_of(tree: &Tree) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(&tree.dir).unwrap();
    let prefix = format!("{:x}-{:x}-", meta.dev(), meta.ino());
    let place = format!("/tmp/askd-{}-spool", rustix::process::geteuid().as_raw());
    let names = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    names
        .filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        })
        .collect()
}

#[test]
fn f14_one_whose_lock_was_tidied_away_lets_go_when_another_has_it_and_nothing_is_told_that_is_not_so() {
    let (world, tree) = started();
    let mut one = serve(&world, &tree, &[]);
    tree.ask("s", "r1");
    world.open("r1");
    let mut two = serve(&world, &tree, &[]);
    two.has_said("another askd (process ");
    one.signal(Signal::STOP);
    for lock in locks_of(&tree) {
        fs::remove_file(lock).unwrap();
    }
    let pid = |server: &Running| server.pid().as_raw_pid();
    until("the other one has it", || {
        let holder = fs::read_to_string(locks_of(&tree).first()?).ok()?;
        (holder == pid(&two).to_string()).then_some(())
    });
    one.signal(Signal::CONT);
    one.has_said("another askd (process ");
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.answer("s", "r1")["outcome"], "allowed");
    // Its record is that of the one which serves, from here on.
    let record = || {
        let record: Value = serde_json::from_slice(&fs::read(tree.dir.join("serving/s.json")).ok()?).ok()?;
        (record["pid"] == pid(&two)).then_some(record["updatedAt"].as_u64()?)
    };
    let mut last = until("its record", record);
    for _ in 0..3 {
        last = until("the next record", || record().filter(|at| *at != last));
    }
    assert_eq!(settled(&world, "r1")["delivery"], "handed", "it lies there");
    tree.fetch("s", "r1");
    delivery(&world, "r1", "confirmed");
    two.signal(Signal::KILL);
    drop(two);
    tree.ask("s", "r2");
    answer(&world, "allow", "r2", &[]);
    assert_eq!(tree.fetch("s", "r2")["outcome"], "allowed");
    assert_eq!((times_asked(&world, "r1"), times_asked(&world, "r2")), (1, 1));
}
