//! `askd allow` and `askd deny`: one answer settles, everybody else is told who was first.

use crate::world::World;
use serde_json::Value;

#[test]
fn c5_duplicate_and_opposite_answers_do_no_harm() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    assert_eq!(world.run(&["allow", &handle]).code, Some(0));
    let again = world.run(&["allow", &handle]);
    assert_eq!(
        (again.code, again.err.contains("already settled: allowed by you")),
        (Some(5), true),
        "{again:?}"
    );
    let opposite = world.run(&["deny", &handle]);
    assert_eq!((opposite.code, opposite.err.contains("allowed by you")), (Some(5), true), "{opposite:?}");
    assert_eq!(asked.end().0, Some(0));
}

#[test]
fn c5_of_two_opposite_answers_at_once_one_counts() {
    let world = World::new();
    for round in 0..10 {
        let command = format!("round {round}");
        let asked = world.ask(&command, &[]);
        let handle = world.handle(&command);
        let allow = world.spawn(&["allow", &handle]);
        let deny = world.spawn(&["deny", &handle]);
        let (allowed, denied) = (allow.end().0, deny.end().0);
        let (code, _) = asked.end();
        match code {
            Some(0) => assert_eq!((allowed, denied), (Some(0), Some(5))),
            Some(1) => assert_eq!((allowed, denied), (Some(5), Some(0))),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn c5_unknown_and_shortened_ids_answer_nothing() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let ask = world.open("ls");
    let (id, handle) = (ask["id"].as_str().unwrap(), ask["handle"].as_str().unwrap());
    for wrong in ["zzzz", &handle[..2], &id[..8], "", "../x", "k7f\u{1b}[2J"] {
        let ran = world.run(&["allow", "--", wrong]);
        assert_eq!(ran.code, Some(6), "{wrong:?}: {ran:?}");
        assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    }
    let ran = world.run(&["allow", &handle[..2]]);
    assert!(ran.err.contains(&format!("only the beginning of {handle}")), "{ran:?}");
    assert_eq!(world.open("ls")["state"], "open");
    // The full id, in any case, is the ask.
    assert_eq!(world.run(&["allow", &id.to_uppercase()]).code, Some(0));
    assert_eq!(asked.end().0, Some(0));
}

#[test]
fn several_ids_get_a_line_each_and_the_worst_status() {
    let world = World::new();
    let (one, two) = (world.ask("one", &[]), world.ask("two", &[]));
    let (first, second) = (world.handle("one"), world.handle("two"));
    assert_eq!(world.run(&["deny", &second]).code, Some(0));
    let ran = world.run(&["allow", &first, "nope", &second, &first]);
    assert_eq!(ran.code, Some(6));
    assert_eq!(ran.out.lines().count(), 1, "{ran:?}");
    assert_eq!(ran.err.lines().count(), 2, "{ran:?}");
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(1)));
}

#[test]
fn an_option_is_given_by_its_id_and_the_wrong_one_is_named() {
    let world = World::new();
    let asked = world.ask("ls", &["--json"]);
    let handle = world.handle("ls");
    let wrong = world.run(&["allow", &handle, "--option", "always"]);
    assert_eq!(
        (wrong.code, wrong.err.contains("it has allow_once, reject_once")),
        (Some(2), true),
        "{wrong:?}"
    );
    let opposite = world.run(&["allow", &handle, "--option", "reject_once"]);
    assert_eq!((opposite.code, opposite.err.contains("denies")), (Some(2), true), "{opposite:?}");
    assert_eq!(world.run(&["deny", &handle, "--option", "reject_once", "--stop"]).code, Some(0));
    let settled: Value = serde_json::from_str(&asked.end().1).unwrap();
    assert_eq!(settled["option"], "reject_once");
    assert_eq!(world.json(&["show", &handle, "--json"])["outcome"]["stop"], true);
}

#[test]
fn s1_an_agents_shell_cannot_answer() {
    let world = World::new();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    // What an agent's own shell has in its environment.
    let ran = world.command(&["allow", &handle]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = world.command(&["withdraw", &handle]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(7));
    let ran = world.command(&["daemon", "stop"]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!(world.open("ls")["state"], "open");
    drop(asked);
}

#[test]
fn t12_all_background_settles_exactly_the_background_asks() {
    let world = World::new();
    world.start();
    assert!(world.must(&["allow", "--all-background", "--yes"]).contains("no background ask is open"));
    let jobs: Vec<_> = (0..3).map(|n| world.ask(&format!("job {n}"), &["--background"])).collect();
    let handles: Vec<String> = (0..3).map(|n| world.handle(&format!("job {n}"))).collect();
    let front = world.ask("front", &[]);
    let safety = world.ask("loop", &["--background", "--safety", "doom_loop"]);
    let (front_handle, safety_handle) = (world.handle("front"), world.handle("loop"));

    // Nobody is at a terminal, and nobody said that this is meant.
    let ran = world.run(&["allow", "--all-background"]);
    assert_eq!((ran.code, ran.err.contains("add --yes")), (Some(2), true), "{ran:?}");
    assert!(handles.iter().all(|handle| ran.err.contains(handle.as_str())), "{ran:?}");
    assert!(!ran.err.contains(&front_handle), "{ran:?}");
    let ran = world.command(&["allow", "--all-background", "--yes"]).env("CLAUDECODE", "1").output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    for n in 0..3 {
        assert_eq!(world.open(&format!("job {n}"))["state"], "open");
    }

    let ran = world.run(&["allow", "--all-background", "--yes"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 3), "{ran:?}");
    assert!(ran.err.contains(&format!("{safety_handle}: left open: a safety ask")), "{ran:?}");
    for job in jobs {
        assert_eq!(job.end().0, Some(0));
    }
    assert_eq!(world.open("loop")["state"], "open");
    let ran = world.run(&["deny", "--all-background", "--yes", "-m", "enough"]);
    assert_eq!((ran.code, ran.out.contains("denied by you in the command line: enough")), (Some(0), true));
    assert_eq!(safety.end().0, Some(1));
    assert_eq!(world.open("front")["state"], "open");
    for wrong in [
        &["allow", "--all-background", "k7f"][..],
        &["allow", "--yes", "k7f"],
        &["allow", "--all-background", "--option", "x"],
    ] {
        assert_eq!(world.run(wrong).code, Some(2), "{wrong:?}");
    }
    drop(front);
}

#[test]
fn without_a_daemon_there_is_nothing_to_answer() {
    let world = World::new();
    for args in [
        &["ls"][..],
        &["show", "k7f"],
        &["allow", "k7f"],
        &["sessions"],
        &["log"],
        &["daemon", "restart"],
        &["permissions"],
        &["deny", "--all-background"],
    ] {
        let ran = world.run(args);
        assert_eq!(
            (ran.code, ran.err.contains("no askd daemon runs") || ran.err.contains("no daemon runs")),
            { (Some(4), true) },
            "{args:?}: {ran:?}"
        );
    }
    // Nobody started one by looking.
    assert!(!world.askd_dir().join("state/daemon.json").exists());
}
