//! Requesters that die, leave, stop waiting, or write what they like.

use super::*;

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
