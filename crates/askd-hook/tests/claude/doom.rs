//! A call that repeats itself, from the events to what Claude is told, by the real program.

use askd_wire::{Ask, Attendance, ChoiceKind, Class, OwnPrompt, RaiseAsk, Verdict};
use serde_json::{Value, json};

use crate::support::{Daemon, Hook, Seen, assert_silent, open_ask, settled, stdout};

const SEEN: &str = r#"{"call":"toolu_3","times":3,"since":"2026-11-30T08:00:00.000Z"}"#;
const INPUT: &str = r#"{"command":"ls",  "n":1e2}"#;

fn event(name: &str, more: &str) -> String {
    format!(
        r#"{{"session_id":"s1","transcript_path":"/nowhere/s1.jsonl","cwd":"/work","prompt_id":"p1","permission_mode":"default","hook_event_name":"{name}",{more}}}"#
    )
}

fn call(id: &str) -> String {
    event("PreToolUse", &format!(r#""tool_name":"Bash","tool_input":{INPUT},"tool_use_id":"{id}""#))
}

fn permission() -> String {
    event("PermissionRequest", &format!(r#""tool_name":"Bash","tool_input":{INPUT}"#))
}

/// A batch of one call.
fn batch(id: &str, input: &str) -> String {
    let call = format!(
        r#"{{"tool_name":"Bash","tool_input":{input},"tool_use_id":"{id}","tool_response":{{"stdout":"x"}}}}"#
    );
    event("PostToolBatch", &format!(r#""tool_calls":[{call}]"#))
}

fn hook(daemon: &Daemon) -> Hook {
    daemon.hook().arg("--timeout").arg("604800")
}

/// Ends two equal batches.
fn twice(daemon: &Daemon) {
    for id in ["toolu_1", "toolu_2"] {
        assert_silent(&hook(daemon).run(&batch(id, INPUT)), "");
    }
}

/// What is raised and printed when the third batch is about to run and the ask becomes what `end` makes of it.
fn third(
    daemon: &Daemon,
    hook: Hook,
    end: impl FnOnce(&RaiseAsk) -> Ask,
    is_handed: bool,
) -> (RaiseAsk, String) {
    twice(daemon);
    let child = hook.start(&call("toolu_3"));
    let announced = daemon.request();
    assert_eq!(announced.target, "/v1/observations");
    assert_eq!(announced.json()["observations"][0]["batch"], "after toolu_2");
    announced.reply("200 OK", SEEN);
    let request = daemon.request();
    let raise = request.raise();
    request.raised(end(&raise), false);
    if is_handed {
        let handed = daemon.request();
        assert_eq!((handed.target.as_str(), &handed.token), ("/v1/asks/0190-ask/handed", &request.token));
        handed.reply("204 No Content", "");
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    (raise, stdout(&output).to_owned())
}

fn denied(cause: &'static str, message: Option<&'static str>) -> impl FnOnce(&RaiseAsk) -> Ask {
    move |raise| {
        settled(raise, Verdict::Deny, |outcome| {
            outcome.cause = cause.to_owned();
            outcome.message = message.map(str::to_owned);
        })
    }
}

#[test]
fn t8_the_ask_shows_the_call_how_often_and_since_when() {
    let daemon = Daemon::start();
    let allowed = |raise: &RaiseAsk| settled(raise, Verdict::Allow, |_| {});
    let (raise, printed) = third(&daemon, hook(&daemon), allowed, true);
    assert_eq!(printed, "", "it goes on as every other call");
    assert_eq!((raise.class, raise.action.tool.as_str()), (Class::Safety, "doom_loop"));
    assert_eq!(raise.action.title.as_deref(), Some("Bash with the same input 3 times in a row"));
    let shown = format!(
        r#"{{"repeated_call":{{"tool":"Bash","input":{INPUT}}},"times":3,"since":"2026-11-30T08:00:00.000Z"}}"#
    );
    assert_eq!(raise.action.input.as_deref().unwrap().get(), shown);
    assert_eq!(raise.action.cwd.as_deref(), Some("/work"));
    let options: Vec<_> = raise.options.iter().map(|o| (o.id.as_str(), o.label.as_str(), o.kind)).collect();
    assert_eq!(
        options,
        [
            ("allow_once", "Let it continue", ChoiceKind::AllowOnce),
            ("reject_once", "Stop the turn", ChoiceKind::RejectOnce)
        ]
    );
    assert_eq!((raise.tool_call.as_deref(), raise.turn.as_deref()), (Some("toolu_3"), Some("p1")));
    assert_eq!(raise.own_prompt, Some(OwnPrompt { at: "terminal".to_owned(), blocked: true }));
    assert_eq!(raise.attendance, Some(Attendance::Foreground));
    assert_eq!((raise.deadline_secs, raise.gives_up_secs), (None, Some(604_795)));

    // The same call may need a permission too. That is another ask, about a call that is known now.
    let child = hook(&daemon).start(&permission());
    let request = daemon.request();
    let raise = request.raise();
    assert_eq!((raise.class, raise.tool_call.as_deref()), (Class::Tool, Some("toolu_3")));
    request.raised(settled(&raise, Verdict::None, |_| {}), false);
    assert_silent(&child.wait_with_output().unwrap(), "");
    assert_silent(&hook(&daemon).run(&batch("toolu_3", INPUT)), "");
    let child = hook(&daemon).start(&permission());
    let request = daemon.request();
    assert_eq!(request.raise().tool_call, None, "the batch is over");
    request.raised(settled(&request.raise(), Verdict::None, |_| {}), false);
    assert_silent(&child.wait_with_output().unwrap(), "");
}

#[test]
fn t8_every_denial_stops_the_turn_and_says_who_or_what_it_was() {
    for (cause, message, why) in [
        ("person", None, "the user declined to let it continue"),
        ("person", Some(" try \"x\"\n"), "the user declined to let it continue: try \"x\""),
        ("timed", None, "no answer arrived before the deadline"),
        ("overflow", None, "no answer arrived before the deadline"),
        ("remote_timeout", None, "no answer arrived before the deadline"),
        ("unreachable", None, "this context has no way to ask for confirmation"),
    ] {
        let daemon = Daemon::start();
        let (_, printed) = third(&daemon, hook(&daemon), denied(cause, message), true);
        let stop = format!("Bash with the same input 3 times in a row: {why}");
        let expected = json!({
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": why,
            },
            "continue": false,
            "stopReason": stop,
        });
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);

        // An older Claude goes on after that, so the end of the batch says it again; once, and for this call only.
        let ended = hook(&daemon).run(&batch("toolu_3", INPUT));
        let expected = json!({"continue": false, "stopReason": stop});
        assert_eq!(serde_json::from_str::<Value>(stdout(&ended)).unwrap(), expected);
        assert_silent(&hook(&daemon).run(&batch("toolu_4", INPUT)), "");
    }
    let daemon = Daemon::start();
    third(&daemon, hook(&daemon), denied("person", None), true);
    assert_silent(&hook(&daemon).run(&batch("toolu_9", INPUT)), "");
    assert_silent(&hook(&daemon).run(&batch("toolu_3", INPUT)), "");
}

#[test]
fn t20_handed_back_in_a_terminal_claude_itself_asks_and_nothing_else_answers() {
    let handed_back = |raise: &RaiseAsk| {
        let mut ask = open_ask(raise);
        ask.requester.link = "handed_back".to_owned();
        ask
    };
    let daemon = Daemon::start();
    let (_, printed) = third(&daemon, hook(&daemon), handed_back, false);
    let expected = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "ask",
        "permissionDecisionReason": "askd: Bash with the same input 3 times in a row. Let it continue?",
    }});
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);
    // Skipped permissions would answer the permission request, and with it the repetition.
    assert_silent(&hook(&daemon).run(&permission()), "");
    assert!(daemon.seen.try_iter().all(|seen| matches!(seen, Seen::Closed)));
    let child = hook(&daemon).start(&permission().replace("ls", "pwd"));
    let request = daemon.request();
    assert_eq!(request.raise().tool_call, None);
    request.raised(settled(&request.raise(), Verdict::None, |_| {}), false);
    assert_silent(&child.wait_with_output().unwrap(), "");

    // Without a terminal there is no prompt of Claude's own.
    let daemon = Daemon::start();
    let host = hook(&daemon).env("CLAUDE_CODE_ENTRYPOINT", "sdk-ts");
    let (raise, printed) = third(&daemon, host, handed_back, false);
    assert_eq!((printed.as_str(), raise.own_prompt), ("", None));
}

#[test]
fn t19_with_nobody_there_it_is_a_background_ask() {
    let daemon = Daemon::start();
    // Without the agent's arguments nobody can say that there is no host, so an agent is played.
    let alone = Hook::under_an_agent(daemon.dir.path()).arg("--timeout").arg("604800");
    let alone = alone.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
    let withdrawn = |raise: &RaiseAsk| settled(raise, Verdict::None, |_| {});
    let (raise, printed) = third(&daemon, alone, withdrawn, false);
    assert_eq!((printed.as_str(), raise.own_prompt), ("", None));
    let has_tty = std::fs::read_to_string("/proc/self/stat").unwrap();
    let has_tty = has_tty.rsplit_once(')').unwrap().1.split_whitespace().nth(4).unwrap() != "0";
    let expected = if has_tty { Attendance::Foreground } else { Attendance::Background };
    assert_eq!(raise.attendance, Some(expected));
}

#[test]
fn t8_what_is_no_loop_is_not_asked_about() {
    let other = r#"{"command":"pwd"}"#;
    for (case, batches, id) in [
        (
            "a call that never started was between",
            vec![("toolu_1", INPUT), ("x", other), ("toolu_2", INPUT)],
            "toolu_3",
        ),
        ("only one batch has ended", vec![("toolu_2", INPUT)], "toolu_3"),
        ("another call of the batch was meant", vec![("toolu_1", INPUT), ("toolu_2", INPUT)], "toolu_4"),
    ] {
        let daemon = Daemon::start();
        for (id, input) in batches {
            assert_silent(&hook(&daemon).run(&batch(id, input)), "");
        }
        let child = hook(&daemon).start(&call(id));
        daemon.request().reply("200 OK", SEEN);
        assert_silent(&child.wait_with_output().unwrap(), "");
        daemon.closed();
        assert!(daemon.seen.try_recv().is_err(), "{case}");
    }
}

#[test]
fn t8_an_installation_that_would_end_the_hook_early_asks_nothing() {
    let daemon = Daemon::start();
    twice(&daemon);
    let child = daemon.hook().start(&call("toolu_3"));
    let announced = daemon.request();
    assert_eq!(announced.json()["observations"][0]["batch"], Value::Null);
    announced.reply("200 OK", SEEN);
    assert_silent(&child.wait_with_output().unwrap(), "");
}

#[test]
fn c1_whatever_goes_wrong_while_it_is_asked_nothing_is_said() {
    for case in ["refused", "other content", "released", "gave up"] {
        let daemon = Daemon::start();
        twice(&daemon);
        let hook = match case {
            "gave up" => daemon.hook().arg("--timeout").arg("3").env("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"),
            _ => hook(&daemon),
        };
        let child = hook.start(&call("toolu_3"));
        daemon.request().reply("200 OK", SEEN);
        let request = daemon.request();
        let raise = request.raise();
        let mut why = "";
        match case {
            "refused" => {
                let body = r#"{"type":"about:blank","title":"No","status":429,"detail":"because","code":"cap_reached"}"#;
                request.raw(&format!("HTTP/1.1 429 X\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
                why = "because";
            }
            "other content" => {
                let mut ask = settled(&raise, Verdict::Deny, |_| {});
                ask.action.input = Some(serde_json::from_str(INPUT).unwrap());
                request.raised(ask, false);
                why = "other content";
            }
            "released" => request.raised(open_ask(&raise), true),
            _ => {
                let mut request = request;
                while !request.target.ends_with("/withdraw") {
                    request.raised(open_ask(&raise), false);
                    request = daemon.request();
                }
                assert_eq!(request.body, r#"{"cause":"handed_back"}"#);
                request.reply("204 No Content", "");
            }
        }
        assert_silent(&child.wait_with_output().unwrap(), why);
    }
}

#[test]
fn c6_an_interrupt_while_it_is_asked_cancels() {
    let daemon = Daemon::start();
    twice(&daemon);
    let child = hook(&daemon).start(&call("toolu_3"));
    daemon.request().reply("200 OK", SEEN);
    let request = daemon.request();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let told = daemon.request();
    assert_eq!((told.target.as_str(), &told.token), ("/v1/asks/withdraw", &request.token));
    assert_eq!(told.json(), json!({"key": request.raise().key, "cause": "cancelled"}));
    told.reply("204 No Content", "");
    let output = child.wait_with_output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("", Some(0)));
    // Nothing is left that would stop the next turn.
    assert_silent(&hook(&daemon).run(&batch("toolu_3", INPUT)), "");
}

#[test]
fn what_is_remembered_ends_with_the_session() {
    let daemon = Daemon::start();
    twice(&daemon);
    let left = || std::fs::read_dir(daemon.dir.path().join("run/claude-code")).unwrap().count();
    assert_eq!(left(), 1);
    for (name, session, expected) in [("SessionEnd", "s2", 1), ("Stop", "s1", 1), ("SessionEnd", "s1", 0)] {
        let child = daemon.hook().start(&event(name, r#""reason":"other""#).replace("s1", session));
        daemon.request().reply("204 No Content", "");
        assert_silent(&child.wait_with_output().unwrap(), "");
        assert_eq!(left(), expected, "{name} of {session}");
    }
}
