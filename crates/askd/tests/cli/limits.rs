//! What agents, large asks, a daemon that hangs and odd files do to askd: each is told clearly, and decides nothing.

use std::io::Write as _;
use std::process::{Command, Stdio};

use askd_client::{Answers, Connection, Places};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::pty::Pty;
use crate::world::{PATIENCE, World, until};

fn places(world: &World) -> Places {
    Places::at(&world.askd_dir())
}

fn requester(world: &World, token: &str) -> Connection {
    let mut connection = Connection::connect(&places(world).ask_sock(), None).unwrap();
    connection.set_timeout(PATIENCE);
    connection.set_token(Some(token.to_owned()));
    connection
}

fn post(connection: &mut Connection, target: &str, body: &Value) -> (u16, Value) {
    let reply = connection.request("POST", target, Some(body.to_string().as_bytes())).unwrap();
    (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
}

/// A shell that runs a script with askd as `$0`, in this world, and the first line that it prints.
fn shell(world: &World, script: &str, args: &[&str]) -> std::process::Child {
    let askd = world.command(&[]);
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(askd.get_program()).args(args).env_clear();
    for (name, value) in askd.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn s1_who_is_named_as_an_agent_keeps_no_person_from_denying_making_stricter_and_stopping() {
    let world = World::new();
    world.start();
    // This process plays the terminal program that an agent names as itself; what it starts is below it.
    let mut agent = requester(&world, &"a".repeat(32));
    let body = |key: &str| {
        json!({
            "key": key, "action": {"tool": "Bash", "input": {"command": key}}, "agent": "a", "session": "s",
            "requester": "library", "grace_secs": 600, "instance": {"pid": std::process::id()},
        })
    };
    let handle = |(status, raised): (u16, Value)| {
        assert_eq!(status, 201, "{raised}");
        raised["ask"]["handle"].as_str().unwrap().to_owned()
    };
    let one = handle(post(&mut agent, "/v1/asks", &body("one")));
    let two = handle(post(&mut agent, "/v1/asks", &body("two")));
    // A command by itself is what the agent starts.
    for args in [&["deny", &one][..], &["permissions", "skip", "off"], &["daemon", "stop"]] {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(7), "{args:?}: {ran:?}");
        assert!(ran.err.contains("names process"), "{ran:?}");
    }
    // A shell in another tab, with somebody who types.
    let askd = env!("CARGO_BIN_EXE_askd");
    let mut tab = Pty::start_program(&world, "bash", &["--norc", "-i"]);
    let mut count = 0;
    let mut types = |what: &str| {
        count += 1;
        let mark = format!("ended-{count}-");
        tab.keys(&format!("{askd} {what}; echo {mark}$?\r"));
        tab.sees_line(&mark).trim_start_matches(&mark).to_owned()
    };
    assert_eq!(types(&format!("allow {one}")), "7");
    assert_eq!(types("permissions skip on"), "7");
    assert_eq!(types(&format!("deny {two}")), "0");
    assert_eq!(types("permissions skip off"), "0");
    assert_eq!(types("daemon restart"), "0");
    assert_eq!(types("daemon stop"), "0");
}

#[test]
fn s1_an_agent_neither_stops_askd_nor_undoes_a_persons_stop() {
    let world = World::new();
    let agent = |args: &[&str]| {
        let mut command = world.command(args);
        let output = command.env("CLAUDECODE", "1").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let stopped = world.askd_dir().join("state/stopped");
    let (code, text) = agent(&["daemon", "stop"]);
    assert_eq!((code, text.contains("CLAUDECODE")), (Some(7), true), "{text}");
    assert!(!stopped.exists());
    world.start();
    assert_eq!(agent(&["daemon", "stop"]).0, Some(7));
    assert_eq!(world.run(&["status"]).code, Some(0));

    world.must(&["daemon", "stop"]);
    assert!(stopped.exists());
    let (code, text) = agent(&["daemon"]);
    assert_eq!((code, text.contains("stopped by a person")), (Some(1), true), "{text}");
    for open in [&["--plain"][..], &["ask", "--tool", "T"]] {
        let (code, text) = agent(open);
        assert_eq!((code, text.contains("askd was stopped")), (Some(4), true), "{open:?}: {text}");
    }
    assert!(stopped.exists());
    assert_eq!(world.run(&["status"]).code, Some(4));
    // A person does.
    world.start();
    assert!(!stopped.exists());
}

#[test]
fn s7_no_command_waits_for_ever_for_a_daemon_that_hangs() {
    let world = World::new();
    world.start();
    let daemon = until("the daemon says who it is", || world.daemon_pid());
    rustix::process::kill_process(daemon, Signal::STOP).unwrap();
    let commands: [&[&str]; 9] = [
        &["ls"],
        &["show", "k7f"],
        &["sessions"],
        &["log"],
        &["allow", "k7f"],
        &["status"],
        &["permissions"],
        &["config", "accept", "--yes"],
        &["daemon", "restart"],
    ];
    let mut queue = Pty::start(&world, &[]);
    let running: Vec<_> = commands.iter().map(|args| (args, world.spawn(args))).collect();
    for (args, running) in running {
        let (code, text) = running.end();
        assert_eq!(code, Some(4), "{args:?}: {text}");
        assert!(text.contains("does not answer"), "{args:?}: {text}");
        // A status bar has no room for more.
        if args[..] != ["status"] {
            let told = format!("(process {}) has said nothing for 3s", daemon.as_raw_nonzero());
            assert!(text.contains(&told), "{args:?}: {text}");
            assert!(text.contains("stopped by a signal"), "{args:?}: {text}");
        }
    }
    let (code, text) = world.spawn(&["config", "check"]).end();
    assert_eq!((code, text.contains("has said nothing for 3s")), (Some(0), true), "{text}");
    let asking = world.ask("make slow", &[]);
    let (_, text) = world.spawn(&["doctor"]).end();
    assert!(text.contains(&format!("→ kill -CONT {}", daemon.as_raw_nonzero())), "{text}");
    queue.sees("offline: the daemon says nothing");
    rustix::process::kill_process(daemon, Signal::CONT).unwrap();
    world.must(&["ls"]);
    let handle = world.handle("make slow");
    queue.sees(&format!("─ {handle} "));
    queue.keys("q");
    world.must(&["allow", &handle]);
    let (code, text) = asking.end();
    assert_eq!((code, text.contains("has said nothing for 3s")), (Some(0), true), "{text}");
}

#[test]
fn an_answer_that_nobody_is_there_to_take_says_so() {
    let world = World::new();
    world.start();
    let asked = world.ask("ls", &[]);
    let handle = world.handle("ls");
    // It takes its time to come back.
    asked.signal(Signal::STOP);
    world.kill_daemon();
    let other = world.ask("other", &[]);
    assert_eq!(world.open("ls")["requester"]["link"], "detached");
    let said = world.must(&["allow", &handle]);
    assert!(said.contains("its requester is gone; kept until"), "{said}");
    asked.signal(Signal::CONT);
    assert_eq!(asked.end().0, Some(0));
    drop(other);
    // Who was told not to come back does not: nobody can answer it any more.
    let asked = world.ask("stopped", &[]);
    let handle = world.handle("stopped");
    world.must(&["daemon", "stop"]);
    let (code, text) = asked.end();
    assert_eq!(code, Some(4), "{text}");
    world.start();
    assert_eq!(world.run(&["allow", &handle]).code, Some(5));
    // One that waits is told without it.
    let asked = world.ask("pwd", &[]);
    let said = world.must(&["allow", &world.handle("pwd")]);
    assert!(!said.contains("gone"), "{said}");
    assert_eq!(asked.end().0, Some(0));
}

#[test]
fn s7_a_config_that_is_a_pipe_is_an_error_at_once() {
    let world = World::new();
    std::fs::create_dir(world.askd_dir()).unwrap();
    let config = world.askd_dir().join("config.toml");
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    for args in [&["config", "check"][..], &["daemon"], &["doctor"]] {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains("config.toml"), "{args:?}: {ran:?}");
    }
    assert_eq!(world.run(&["ask", "--tool", "T"]).code, Some(4));
}

#[test]
fn s1_what_became_of_an_ask_is_believed_from_its_own_side_only() {
    let world = World::new();
    world.start();
    // An agent's session: from another agent's tree its end is not believed.
    let event = |name: &str| {
        let event = json!({
            "session_id": "s1", "transcript_path": "/nowhere", "cwd": "/tmp", "hook_event_name": name,
            "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1", "reason": "other",
        });
        let path = world.path(name);
        std::fs::write(&path, event.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hook = "CLAUDE_PID=$$ \"$0\" hook claude-code < \"$1\"; ";
    let mut agent = shell(&world, &format!("{hook} exec cat"), &[&event("PreToolUse")]);
    let session = |name: &str| {
        let all = world.json(&["sessions", "--json"]);
        all.as_array().unwrap().iter().find(|session| session["session"] == name).cloned()
    };
    until("the session", || session("s1").filter(|session| session["instance"].is_string()));
    let other = shell(&world, hook, &[&event("SessionEnd")]).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(other.status.success() && told.contains("belongs to process"), "{other:?}");
    assert_eq!(session("s1").unwrap()["ended_at"], Value::Null);
    agent.kill().unwrap();
    agent.wait().unwrap();
    until("the end that is true", || session("s1").is_none_or(|s| s["ended_at"].is_string()).then_some(()));

    // A script's session names no agent.
    let script = "\"$0\" ask --tool Bash --input '{\"command\":\"make\"}' --session mine; echo $?";
    let script = shell(&world, script, &[]);
    let ask = world.open("make");
    let ended = json!({"agent": "script", "session": "mine", "observations": [{"type": "session_ended"}]});
    let (status, problem) = post(&mut requester(&world, &"f".repeat(32)), "/v1/observations", &ended);
    assert_eq!((status, &problem["code"]), (403, &json!("not_permitted")), "{problem}");
    world.must(&["deny", ask["handle"].as_str().unwrap()]);
    let out = script.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&out.stdout).ends_with("1\n"), "{out:?}");
}

/// A shell with askd's hook, one step for each line that it is sent; it says when a step is over.
struct Agent {
    child: std::process::Child,
    said: std::io::BufReader<std::process::ChildStdout>,
}

impl Agent {
    /// Each step: hook events, those behind `&` are not waited for.
    fn start(world: &World, steps: &[&[&str]]) -> Self {
        let mut script = String::new();
        let mut paths = Vec::new();
        for step in steps {
            script.push_str("read go; ");
            for event in *step {
                let (event, end) = event.strip_prefix('&').map_or((*event, ";"), |event| (event, "&"));
                let (name, command) = event.split_once(' ').unwrap();
                let json = json!({
                    "session_id": "s1", "transcript_path": "/nowhere", "cwd": "/tmp", "hook_event_name": name,
                    "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": format!("t-{command}"),
                    "reason": "other", "source": "startup", "permission_mode": "default",
                });
                let path = world.path(&format!("{name}-{command}"));
                std::fs::write(&path, json.to_string()).unwrap();
                paths.push(path.to_str().unwrap().to_owned());
                let n = paths.len();
                script.push_str(&format!("CLAUDE_PID=$$ \"$0\" hook claude-code < \"${{{n}}}\" >&2 {end} "));
            }
            script.push_str("echo done; ");
        }
        script.push_str("exec cat >&2");
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut child = shell(world, &script, &paths);
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    fn step(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.said, &mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn s1_s2_another_agents_ask_in_a_sessions_name_takes_nothing_over_and_the_next_process_of_it_goes_on() {
    let world = World::new();
    world.start();
    let mut owner = Agent::start(
        &world,
        &[
            &["PreToolUse make", "&PermissionRequest make"],
            &["PostToolUse make"],
            &["&PermissionRequest left"],
        ],
    );
    owner.step();
    let ask = world.open("make");
    let show = |ask: &Value| world.json(&["show", ask["handle"].as_str().unwrap(), "--json"]);
    let session = || {
        let all = world.json(&["sessions", "--json"]);
        let session = all.as_array().unwrap().iter().find(|session| session["session"] == "s1").cloned();
        session.map(|session| (session["instance"].clone(), session["ended_at"].clone())).unwrap()
    };
    let before = session();
    assert!(before.0.is_string() && before.1.is_null(), "{before:?}");
    // Another agent asks in its name, and tells then that the call ran and that the session has ended.
    let mut other =
        Agent::start(&world, &[&["&PermissionRequest theirs"], &["PostToolUse make", "SessionEnd make"]]);
    other.step();
    let theirs = world.open("theirs");
    other.step();
    assert!(show(&ask)["outcome"].is_null(), "{}", show(&ask));
    assert_eq!(show(&theirs)["outcome"]["cause"], "session_ended", "its own ask is its own");
    assert_eq!(session(), before);
    drop(other);
    assert_eq!(session(), before);
    // Its own side is believed.
    owner.step();
    assert_eq!(show(&ask)["outcome"]["cause"], "agent");
    owner.step();
    let left = world.open("left");
    drop(owner);
    // The conversation goes on in another process, at once, and whatever that one tells is believed.
    let mut next =
        Agent::start(&world, &[&["PreToolUse next", "&PermissionRequest next"], &["PostToolUse next"]]);
    next.step();
    let ask = world.open("next");
    let after = session();
    assert!(after.0.is_string() && after.0 != before.0 && after.1.is_null(), "{after:?}");
    next.step();
    assert_eq!(show(&ask)["outcome"]["cause"], "agent");
    assert_eq!(show(&left)["outcome"]["cause"], "requester_gone");
}

#[test]
fn s7_t13_what_another_terminal_asks_in_a_sessions_name_takes_no_place_in_its_queue() {
    let world = World::new();
    world.start();
    let askd = env!("CARGO_BIN_EXE_askd");
    let asks = |terminal: &mut Pty, who: &str, count: usize| {
        // In shells below the terminal's own, as an agent's are; they stay, since who asks for nobody takes its ask back.
        let ask = format!(
            "(for n in {{1..{count}}}; do {askd} ask --tool Bash --input '{{\"command\":\"{who} '$n'\"}}' --session shared \
             --background & done; wait) &\r"
        );
        terminal.keys(&ask);
    };
    let all = |who: &str, state: &str| {
        let list = world.json(&["ls", "--all", "--json"]);
        let of = |ask: &&Value| {
            ask["state"] == state
                && ask["action"]["input"]["command"].as_str().is_some_and(|text| text.starts_with(who))
        };
        list.as_array().unwrap().iter().filter(of).cloned().collect::<Vec<_>>()
    };
    let mut one = Pty::start_program(&world, "bash", &["--norc", "-i"]);
    asks(&mut one, "stranger", 8);
    let over = until("a full queue", || Some(all("stranger", "settled")).filter(|asks| asks.len() == 2));
    assert!(over.iter().all(|ask| ask["outcome"]["cause"] == "overflow"), "{over:?}");
    assert_eq!(all("stranger", "open").len(), 6);
    // The same from another terminal, whose session it is: its queue is empty.
    let mut two = Pty::start_program(&world, "bash", &["--norc", "-i"]);
    asks(&mut two, "own", 6);
    until("its own asks", || (all("own", "open").len() + all("own", "settled").len() == 6).then_some(()));
    assert_eq!(all("own", "settled"), Vec::<Value>::new());
    world.must(&["daemon", "stop"]);
}

#[test]
fn s7_hundreds_of_megabytes_of_asks_are_refused_and_memory_stays_bounded() {
    const MIB: usize = 1024 * 1024;
    let world = World::new();
    world.start();
    // Somebody watches and does not read.
    let mut watcher = Answers::connect(&places(&world)).unwrap().events(None, None).unwrap();
    watcher.receive().unwrap();
    let sized = |key: &str, bytes: usize| {
        json!({
            // Each of a session of its own: one session alone has a smaller share.
            "key": key, "agent": "script", "session": key, "requester": "script", "grace_secs": 600,
            "action": {"tool": "Bash", "input": {"command": "y".repeat(bytes)}, "cwd": "/tmp"},
        })
    };
    let token = "0123456789abcdef0123456789abcdef";
    let (mut taken, mut refused) = (Vec::new(), 0);
    // The connections stay, and the asks with them.
    let (waiting, replies): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let send = |thread: usize| {
            let (mut requester, sized) = (requester(&world, token), &sized);
            move || {
                let send = |n| {
                    requester.set_timeout(PATIENCE);
                    post(&mut requester, "/v1/asks", &sized(&format!("{thread}-{n}"), 16 * MIB - 1024))
                };
                let replies: Vec<_> = (0..8).map(send).collect();
                (requester, replies)
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(send(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
    });
    let replies = replies.into_iter().flatten();
    for (status, body) in replies {
        match status {
            201 => taken.push(body["ask"]["id"].as_str().unwrap().to_owned()),
            _ => {
                assert_eq!((status, &body["code"]), (429, &json!("cap_reached")), "{}", body["detail"]);
                assert!(body["detail"].as_str().unwrap().contains("kept for others"), "{body}");
                refused += 1;
            }
        }
    }
    // Whatever names it uses, it has no more than a part of what all have.
    assert_eq!((taken.len(), refused), (3, 29));
    // An agent is told nothing, so it asks by itself; a script is told why.
    let mut requester = requester(&world, token);
    let event = json!({
        "session_id": "s2", "transcript_path": "/nowhere", "cwd": "/tmp", "hook_event_name": "PermissionRequest",
        "tool_name": "Bash", "tool_input": {"command": "z".repeat(2 * MIB)},
    });
    let mut hook = shell(&world, "exec \"$0\" hook claude-code", &[]);
    hook.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    let hook = hook.wait_with_output().unwrap();
    assert_eq!((hook.status.code(), hook.stdout.len()), (Some(0), 0));
    assert!(String::from_utf8_lossy(&hook.stderr).contains("kept for others"), "{hook:?}");
    let input = json!({"command": "z".repeat(2 * MIB)}).to_string();
    let ran = world.run_with(&["ask", "--tool", "Bash", "--input", "-"], &input);
    assert_eq!((ran.code, ran.err.contains("answer or withdraw")), (Some(4), true), "{ran:?}");
    // Small asks go on, and all of them can be listed.
    let small = world.ask("small", &[]);
    assert_eq!(world.open("small")["state"], "open");
    // Another terminal has room of its own.
    std::fs::write(world.home().join("large"), &input).unwrap();
    let mut tab = Pty::start_program(&world, "bash", &["--norc", "-i"]);
    let askd = env!("CARGO_BIN_EXE_askd");
    tab.keys(&format!("{askd} ask --tool Large --input - < ~/large\r"));
    let list = || Answers::connect(&places(&world)).unwrap().list(false).unwrap();
    until("its ask", || list().iter().any(|ask| ask.action.tool == "Large").then_some(()));
    assert_eq!(list().len(), 5);
    drop(tab);
    // Nothing was decided by it, and room comes back.
    for id in &taken {
        let (status, _) =
            post(&mut requester, &format!("/v1/asks/{id}/withdraw"), &json!({"cause": "cancelled"}));
        assert_eq!(status, 204);
    }
    requester.set_timeout(PATIENCE);
    assert_eq!(post(&mut requester, "/v1/asks", &sized("again", 16 * MIB - 1024)).0, 201);
    let pid = world.daemon_pid().unwrap().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 1536 * 1024, "{} MiB at its most", kib / 1024);
    drop((watcher, waiting));
    world.must(&["deny", &world.handle("small")]);
    assert_eq!(small.end().0, Some(1));
}
