//! A permission request from standard input to the printed decision, by the real program.

use std::io::Read;

use crate::support::{Daemon, Hook, Seen, assert_silent, listen, open_ask, settled, stdout};
use askd_client::make_private_directory;
use askd_wire::{Attendance, Choice, ChoiceKind, OwnPrompt, RaiseAsk, RequesterKind, Verdict};

const SUGGESTION: &str = r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch x *"}],"behavior":"allow","destination":"localSettings"}"#;

fn event(tool: &str, input: &str, more: &str) -> String {
    format!(
        r#"{{"session_id":"s1","transcript_path":"/nowhere/s1.jsonl","cwd":"/work","prompt_id":"p1","permission_mode":"default","hook_event_name":"PermissionRequest","tool_name":"{tool}","tool_input":{input},"permission_suggestions":[{SUGGESTION}]{more}}}"#
    )
}

fn bash(command: &str) -> String {
    event("Bash", &format!(r#"{{"command":"{command}"}}"#), "")
}

/// Raises, settles, takes the report of the delivery; gives what was printed and what was raised.
fn outcome(
    event: &str,
    verdict: Verdict,
    option: Option<&str>,
    reason: Option<&str>,
    stop: bool,
) -> (String, RaiseAsk) {
    let daemon = Daemon::start();
    let mut child = daemon.hook().start(event);
    let request = daemon.request();
    let raise = request.raise();
    request.raised(
        settled(&raise, verdict, |outcome| {
            outcome.option = option.map(str::to_owned);
            outcome.reason_for_model = reason.map(str::to_owned);
            outcome.stop = stop;
        }),
        false,
    );
    let handed = daemon.request();
    assert_eq!(handed.target, "/v1/asks/0190-ask/handed");
    assert_eq!(handed.token, request.token);
    // It was printed before it was reported.
    let mut printed = vec![0; 64 * 1024];
    let length = child.stdout.as_mut().unwrap().read(&mut printed).unwrap();
    assert!(length > 0);
    handed.reply("200 OK", "{}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
    printed.truncate(length);
    printed.extend(output.stdout);
    (String::from_utf8(printed).unwrap(), raise)
}

#[test]
fn c13_an_allow_sends_back_exactly_the_bytes_that_were_asked_about() {
    for input in [
        r#"{"command":"ls"}"#,
        r#"{ "command" : "a",  "command":"b" }"#,
        r#"{"n":123456789012345678901234567890,"f":1.0,"e":1E+2,"z":-0}"#,
        r#"{"s":"\u0041\ud800 \/ é \u202e\u0000"}"#,
        "{\"nested\":{\"b\":[1,\t2],\r\n\"a\":null}}",
        "\"only text\"",
    ] {
        let (printed, raise) =
            outcome(&event("Bash", input, ""), Verdict::Allow, Some("allow_once"), None, false);
        assert_eq!(raise.action.input.unwrap().get(), input);
        let expected = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{{"behavior":"allow","updatedInput":{input}}}}}}}"#
        );
        assert_eq!(printed, format!("{expected}\n"));
    }
}

#[test]
fn c13_an_always_option_sends_back_the_suggestion_and_only_then() {
    let (printed, _) = outcome(&bash("ls"), Verdict::Allow, Some("allow_always_1"), None, false);
    assert!(
        printed
            .contains(&format!(r#""updatedInput":{{"command":"ls"}},"updatedPermissions":[{SUGGESTION}]"#))
    );
    for option in [None, Some("allow_once"), Some("allow_always_2")] {
        let (printed, _) = outcome(&bash("ls"), Verdict::Allow, option, None, false);
        assert!(!printed.contains("updatedPermissions"), "{printed}");
    }
}

#[test]
fn c12_a_deny_says_exactly_the_reason_and_stops_only_when_told() {
    let reason = "denied by you in the terminal: not \"this\" folder\n\u{1b}[0m";
    let written = serde_json::to_string(reason).unwrap();
    for (stop, tail) in [(false, ""), (true, r#","interrupt":true"#)] {
        let (printed, _) = outcome(&bash("ls"), Verdict::Deny, None, Some(reason), stop);
        let expected = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{{"behavior":"deny","message":{written}{tail}}}}}}}"#
        );
        assert_eq!(printed, format!("{expected}\n"));
    }
}

#[test]
fn what_is_raised() {
    let (_, raise) = outcome(&bash("ls"), Verdict::Deny, None, Some("no"), false);
    assert_eq!(raise.action.tool, "Bash");
    assert_eq!(raise.action.kind.as_deref(), Some("execute"));
    assert_eq!(raise.action.cwd.as_deref(), Some("/work"));
    assert_eq!(
        (raise.agent.as_str(), raise.session.as_str(), raise.turn.as_deref()),
        ("claude-code", "s1", Some("p1"))
    );
    assert_eq!((raise.requester, raise.grace_secs), (RequesterKind::Hook, 0));
    assert_eq!(raise.gives_up_secs, Some(595), "Claude's own default of 600 s, less what handing back takes");
    assert_eq!(raise.attendance, Some(Attendance::Foreground));
    assert_eq!(raise.own_prompt, Some(OwnPrompt { at: "terminal".to_owned(), blocked: false }));
    assert_eq!(raise.instance.unwrap().pid, std::process::id());
    assert!(!raise.needs_own_prompt);
    assert_eq!(raise.key.len(), 32);
    let always = Choice {
        id: "allow_always_1".to_owned(),
        label: "Always allow Bash(touch x *)".to_owned(),
        kind: ChoiceKind::AllowAlways,
        grants: Some(
            "adds the allow rule Bash(touch x *) to this project, for you (.claude/settings.local.json)"
                .to_owned(),
        ),
        payload: serde_json::from_str(SUGGESTION).unwrap(),
    };
    assert_eq!(raise.options[1], always);
    assert_eq!((raise.options[0].id.as_str(), raise.options[2].id.as_str()), ("allow_once", "reject_once"));
}

/// What a child raises, with what Claude wrote down about it.
fn raised_by_child(entrypoint: &str, shape: &str) -> RaiseAsk {
    let daemon = Daemon::start();
    let subagents = daemon.dir.path().join("s1/subagents");
    std::fs::create_dir_all(&subagents).unwrap();
    let meta = format!(r#"{{"description":"look","toolUseId":"t9","spawnDepth":2{shape}}}"#);
    std::fs::write(subagents.join("agent-a1.meta.json"), meta).unwrap();
    let event = event("Bash", "{}", r#","agent_id":"a1","agent_type":"explore""#)
        .replace("/nowhere", daemon.dir.path().to_str().unwrap());
    let child =
        daemon.hook().env("CLAUDE_CODE_ENTRYPOINT", entrypoint).arg("--timeout").arg("604800").start(&event);
    let request = daemon.request();
    let raise = request.raise();
    request.raised(settled(&raise, Verdict::None, |_| {}), false);
    assert_silent(&child.wait_with_output().unwrap(), "");
    raise
}

#[test]
fn c14_t19_a_childs_lineage_attendance_and_own_prompt() {
    let background = raised_by_child("cli", r#","requestShape":"background""#);
    let subagent = background.subagent.unwrap();
    assert_eq!((subagent.work_id.as_str(), subagent.kind.as_deref()), ("a1", Some("explore")));
    assert_eq!((subagent.name.as_deref(), subagent.depth), (Some("look"), Some(2)));
    assert_eq!(background.attendance, Some(Attendance::Background));
    assert!(background.own_prompt.unwrap().blocked);
    assert_eq!(background.gives_up_secs, Some(604_795));

    let foreground = raised_by_child("cli", r#","requestShape":"foreground""#);
    assert_eq!(foreground.attendance, Some(Attendance::Foreground));
    assert!(!foreground.own_prompt.unwrap().blocked);

    let unknown = raised_by_child("cli", "");
    assert_eq!(unknown.attendance, None, "the daemon decides from what it saw");
    assert!(unknown.own_prompt.unwrap().blocked);

    let hosted = raised_by_child("sdk-ts", "");
    assert_eq!(hosted.own_prompt, Some(OwnPrompt { at: "host".to_owned(), blocked: false }));
}

#[test]
fn c11_no_opinion_prints_nothing() {
    for case in ["none", "handed back", "released"] {
        let daemon = Daemon::start();
        let child = daemon.hook().start(&bash("ls"));
        let request = daemon.request();
        let raise = request.raise();
        let mut ask = match case {
            "none" => settled(&raise, Verdict::None, |_| {}),
            _ => open_ask(&raise),
        };
        if case == "handed back" {
            ask.requester.link = "handed_back".to_owned();
        }
        request.raised(ask, case == "released");
        assert_silent(&child.wait_with_output().unwrap(), "");
        daemon.closed();
    }
}

#[test]
fn c11_a_question_needs_the_persons_own_interaction() {
    for event in [
        event("AskUserQuestion", r#"{"questions":[]}"#, ""),
        event("ExitPlanMode", "{}", ""),
        event("New", "{}", r#","requires_user_interaction":true"#),
    ] {
        let daemon = Daemon::start();
        let child = daemon.hook().start(&event);
        let request = daemon.request();
        let raise = request.raise();
        assert!(raise.needs_own_prompt);
        // Even if a daemon said yes: a yes would invent an answer.
        request.raised(settled(&raise, Verdict::Allow, |_| {}), false);
        assert_silent(&child.wait_with_output().unwrap(), "");
        daemon.closed();

        // And a daemon that says nothing does not hold up Claude's own dialog.
        let child = daemon.hook().start(&event);
        let request = daemon.request();
        assert_silent(&child.wait_with_output().unwrap(), "nobody waits");
        drop(request);
    }
}

#[test]
fn c13_an_outcome_for_something_else_is_no_outcome() {
    let daemon = Daemon::start();
    for change in ["tool", "input", "no input"] {
        let child = daemon.hook().start(&bash("ls"));
        let request = daemon.request();
        let raise = request.raise();
        let mut ask = settled(&raise, Verdict::Allow, |_| {});
        match change {
            "tool" => ask.action.tool = "Write".to_owned(),
            "input" => ask.action.input = Some(serde_json::from_str(r#"{"command":"rm"}"#).unwrap()),
            _ => ask.action.input = None,
        }
        request.raised(ask, false);
        assert_silent(&child.wait_with_output().unwrap(), "other content");
        daemon.closed();
    }
}

#[test]
fn c1_whatever_is_wrong_with_the_event_claude_asks_by_itself() {
    let daemon = Daemon::start();
    let cut = &bash("ls")[..40];
    for (event, why) in [
        ("", "EOF while parsing"),
        ("not json", "expected"),
        (cut, "EOF while parsing"),
        ("[]", "not what Claude sends"),
        ("{}", "missing field"),
        (r#"{"hook_event_name":"PermissionRequest"}"#, "missing field `session_id`"),
        (r#"{"hook_event_name":"PermissionRequest","session_id":"s"}"#, "without tool_name"),
        (
            r#"{"hook_event_name":"PermissionRequest","session_id":"s","tool_name":"Bash"}"#,
            "without tool_input",
        ),
        (r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash"}"#, "without tool_use_id"),
        (r#"{"hook_event_name":"SubagentStop","session_id":"s"}"#, "without agent_id"),
        (r#"{"hook_event_name":7,"session_id":"s"}"#, "invalid type"),
        (r#"{"hook_event_name":"Stop","hook_event_name":"Stop","session_id":"s"}"#, "duplicate field"),
        (r#"{"hook_event_name":"Stop","session_id":"s"} x"#, "trailing characters"),
    ] {
        assert_silent(&daemon.hook().run(event), why);
    }
    let huge = bash(&"x".repeat(16 * 1024 * 1024));
    assert_silent(&daemon.hook().run(&huge), "larger than 16 MiB");
    let mut child = daemon.hook().start("");
    child.wait().unwrap();
    assert!(daemon.seen.try_recv().is_err(), "the daemon heard of none of it");
}

#[test]
fn c1_a_stopped_daemon_is_not_started() {
    let temp = tempfile::tempdir().unwrap();
    make_private_directory(&temp.path().join("state")).unwrap();
    std::fs::write(temp.path().join("state/stopped"), "").unwrap();
    assert_silent(&Hook::new(temp.path()).run(&bash("ls")), "askd was stopped");
    assert!(!temp.path().join("state/daemon.log").exists());
}

#[test]
fn c1_a_daemon_that_refuses_the_ask_leaves_it_to_claude() {
    let problem = |status: u16, code: &str| {
        let body = format!(
            r#"{{"type":"about:blank","title":"No","status":{status},"detail":"because","code":"{code}"}}"#
        );
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let skew = "HTTP/1.1 426 X\r\ncontent-length: 0\r\nx-askd-version: 0\r\n\r\n";
    for (reply, why) in [
        (problem(429, "cap_reached"), "refused: No: because"),
        (problem(413, "malformed"), "refused: No: because"),
        (skew.to_owned(), "restart the daemon with the newer askd"),
        (problem(403, "a_code_of_later"), "unexpected reply 403"),
    ] {
        let daemon = Daemon::start();
        let child = daemon.hook().start(&bash("ls"));
        let output = std::thread::spawn(move || child.wait_with_output().unwrap());
        // What it does not understand it tries some times again.
        while let Seen::Request(request) = daemon.next() {
            request.raw(&reply);
        }
        assert_silent(&output.join().unwrap(), why);
    }
}

#[test]
fn c1_a_lost_daemon_is_found_again_with_the_same_key_and_token() {
    let daemon = Daemon::start();
    let child = daemon.hook().start(&bash("ls"));
    let first = daemon.request();
    let raise = first.raise();
    first.raised(open_ask(&raise), false);
    let mut last = daemon.request();
    for breaking in ["garbage", "half a reply", "closed", "gone", "closed"] {
        match breaking {
            "garbage" => last.raw("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
            "half a reply" => {
                last.raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"ask\":");
                last.hang_up();
            }
            "gone" => {
                // Another daemon at the same place, and for a time none.
                let socket = daemon.dir.path().join("run/ask.sock");
                std::fs::remove_file(&socket).unwrap();
                last.hang_up();
                let seen = listen(daemon.dir.path());
                last = loop {
                    match seen.recv_timeout(crate::support::PATIENCE).unwrap() {
                        Seen::Request(request) => break request,
                        Seen::Closed => {}
                    }
                };
                assert_eq!((last.raise().key, &last.token), (raise.key.clone(), &first.token));
                let ask = settled(&raise, Verdict::Allow, |_| {});
                last.raised(ask, false);
                break;
            }
            _ => last.hang_up(),
        }
        last = daemon.request();
        assert_eq!((last.raise().key, &last.token), (raise.key.clone(), &first.token), "after {breaking}");
    }
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).contains(r#""behavior":"allow""#), "{output:?}");
}

#[test]
fn c1_before_its_own_time_is_over_the_hook_hands_the_ask_back() {
    let daemon = Daemon::start();
    let child = daemon.hook().arg("--timeout").arg("4").start(&bash("ls"));
    let output = std::thread::spawn(move || child.wait_with_output().unwrap());
    loop {
        let request = daemon.request();
        if let Some(wait) = request.target.strip_prefix("/v1/asks?wait=") {
            assert!(wait.parse::<u64>().unwrap() <= 3);
            request.raised(open_ask(&request.raise()), false);
        } else {
            assert_eq!(request.target, "/v1/asks/0190-ask/withdraw");
            assert_eq!(request.body, r#"{"cause":"handed_back"}"#);
            request.reply("200 OK", "{}");
            break;
        }
    }
    assert_silent(&output.join().unwrap(), "");
}

#[test]
fn when_claude_dies_the_hook_goes_at_once() {
    let daemon = Daemon::start();
    let mut agent = Hook::under_an_agent(daemon.dir.path()).start(&bash("ls"));
    let request = daemon.request();
    assert_eq!(request.raise().instance.unwrap().pid, agent.id());
    agent.kill().unwrap();
    daemon.closed();
    let output = agent.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"", "the hook has ended too: it held the pipe");
}

#[test]
fn when_nobody_reads_the_hook_goes_at_once() {
    let daemon = Daemon::start();
    let mut child = daemon.hook().start(&bash("ls"));
    let _request = daemon.request();
    drop(child.stdout.take());
    daemon.closed();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn c6_a_terminated_hook_cancels_before_it_goes() {
    let daemon = Daemon::start();
    let child = daemon.hook().start(&bash("ls"));
    let request = daemon.request();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let told = daemon.request();
    assert_eq!((told.target.as_str(), &told.token), ("/v1/asks/withdraw", &request.token));
    assert_eq!(told.json(), serde_json::json!({"key": request.raise().key, "cause": "cancelled"}));
    told.reply("204 No Content", "");
    daemon.closed();
    daemon.closed();
    let output = child.wait_with_output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn c1_a_decision_counts_also_when_its_delivery_cannot_be_told() {
    let daemon = Daemon::start();
    let child = daemon.hook().start(&bash("ls"));
    let request = daemon.request();
    request.raised(settled(&request.raise(), Verdict::Allow, |_| {}), false);
    let handed = daemon.request();
    let output = child.wait_with_output().unwrap();
    drop(handed);
    assert!(stdout(&output).ends_with("}}}}\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn under_an_owner_only_the_owners_hooks_raise() {
    let daemon = Daemon::start();
    assert_silent(&daemon.hook().env("ASKD_OWNER", "run-1").run(&bash("ls")), "");
    assert_silent(&daemon.hook().env("ASKD_OWNER", "run-1").arg("--owner").arg("run-2").run(&bash("ls")), "");
    assert!(daemon.seen.try_recv().is_err());
    let stop = bash("ls").replace("PermissionRequest", "Stop");
    let child = daemon.hook().env("ASKD_OWNER", "run-1").start(&stop);
    let request = daemon.request();
    assert_eq!(request.target, "/v1/observations");
    request.reply("200 OK", "{}");
    assert_silent(&child.wait_with_output().unwrap(), "");
    daemon.closed();
    let child = daemon.hook().env("ASKD_OWNER", "run-1").arg("--owner").arg("run-1").start(&bash("ls"));
    let request = daemon.request();
    request.raised(settled(&request.raise(), Verdict::None, |_| {}), false);
    assert_silent(&child.wait_with_output().unwrap(), "");
}
