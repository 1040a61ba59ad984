//! The hook program: spawned, connected, told an outcome that is there at once, ended.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::BODY;
use super::report::{Report, Target, micros};
use super::samples::Samples;
use super::world::World;

/// Spawn → connect → outcome known at once → exit.
const HOOK: &str = "hook program, spawn to exit";

/// The hook of the default build, and as it ships, linked statically.
pub(crate) fn measure(world: &World, report: &mut Report) {
    if let Err(error) = against_true(world, report) {
        report.failed(HOOK, &error);
    }
}

fn against_true(world: &World, report: &mut Report) -> Result<()> {
    let place = world.place("hook")?;
    stand_in(&place)?;
    let event = event(&place);
    let hook = |program: &Path| {
        let mut command = World::clean(program, &place);
        command.args(["hook", "claude-code"]);
        command
    };
    let mut plain = World::clean(Path::new("/bin/true"), &place);
    let mut node = World::clean(Path::new("node"), &place);
    node.args(["-e", "0"]);
    let mut default = hook(world.hook());
    let mut fixed = hook(world.fixed());

    expect_allow(&mut default, &event)?;
    expect_allow(&mut fixed, &event)?;
    let mut samples: [Samples; 4] = Default::default();
    for turn in 0..world.count(1000) {
        samples[0].push(spawn(&mut plain, &event)?);
        samples[1].push(spawn(&mut default, &event)?);
        samples[2].push(spawn(&mut fixed, &event)?);
        if turn % 20 == 0 {
            samples[3].push(spawn(&mut node, &event)?);
        }
    }
    let [plain, default, fixed, node] = samples;
    report.samples("spawn_true", &plain);
    report.samples("spawn_hook", &default);
    report.samples("spawn_node", &node);
    let (base, own) = (plain.p50(), default.p50());
    let row = |form: &str| format!("{HOOK}, {form}");
    report.row(
        &row("default build"),
        micros(own),
        format!("/bin/true {}", micros(base)),
        own / base,
        Target::AtMost(2.0),
    );
    report.samples("spawn_hook_static", &fixed);
    let own = fixed.p50();
    let baseline = format!("/bin/true {}", micros(base));
    report.row(&row("as it ships, static"), micros(own), baseline, own / base, Target::AtMost(1.0));
    let slow = node.p50();
    let baseline = format!("node -e 0 {}", micros(slow));
    report.row(&row("how much faster than node"), micros(own), baseline, slow / own, Target::AtLeast(30.0));
    Ok(())
}

/// From the start of a program to its end, with the event on its standard input.
fn spawn(command: &mut Command, event: &str) -> Result<Duration> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} cannot be started", command.get_program().to_string_lossy()))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input may be gone already.
        let _ = input.write_all(event.as_bytes());
    }
    let mut output = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut output)?;
    }
    child.wait()?;
    Ok(start.elapsed())
}

/// A hook that falls back to no opinion would be fast and useless.
fn expect_allow(command: &mut Command, event: &str) -> Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(event.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !printed.contains("\"allow\"") {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("the hook printed {printed:?} and said {:?}", complaint.trim());
    }
    Ok(())
}

fn event(place: &Path) -> String {
    json!({
        "session_id": "bench", "transcript_path": "/dev/null", "cwd": place, "prompt_id": "p1",
        "permission_mode": "default", "hook_event_name": "PermissionRequest", "tool_name": "Bash",
        "tool_input": { "command": format!("echo {}", "x".repeat(BODY)) },
        "permission_suggestions": [],
    })
    .to_string()
}

/// In the daemon's place a server that knows every outcome at once: what is measured is the hook alone.
fn stand_in(place: &Path) -> Result<()> {
    for dir in ["state", "run"] {
        fs::create_dir(place.join(dir))?;
    }
    let (ask, answer) = (place.join("run/ask.sock"), place.join("run/answer.sock"));
    let listener = UnixListener::bind(&ask)?;
    let told = json!({
        "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"), "api": 1,
        "ask_sock": ask, "answer_sock": answer,
    });
    let file = place.join("state/daemon.json");
    fs::write(&file, told.to_string())?;
    for path in [place.join("run"), place.join("state")] {
        private(&path, 0o700)?;
    }
    for path in [ask, file] {
        private(&path, 0o600)?;
    }
    thread::spawn(move || {
        let mut known = Vec::new();
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, &mut known);
        }
    });
    Ok(())
}

fn private(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Answers every request of one connection: an ask is allowed, all else is empty. `known` is the answer to the ask once
/// it was made: every hook here asks the same, and the time to make it is not the hook's.
fn serve(stream: UnixStream, known: &mut Vec<u8>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        if first.starts_with("POST /v1/asks?") || first.starts_with("POST /v1/asks ") {
            if known.is_empty() {
                *known = message("201 Created", &allowed(&body)?.to_string());
            }
            stream.get_mut().write_all(known)?;
        } else {
            stream.get_mut().write_all(&message("200 OK", "{}"))?;
        }
    }
}

fn message(status: &str, answer: &str) -> Vec<u8> {
    let length = answer.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{answer}")
        .into_bytes()
}

/// The ask of this request as if a person had just allowed it.
fn allowed(body: &[u8]) -> Result<Value> {
    let raised: Value = serde_json::from_slice(body)?;
    let part = |name: &str| raised.get(name).cloned().unwrap_or_default();
    let at = "2026-11-30T08:00:00.000Z";
    Ok(json!({ "ask": {
        "id": "0190b5a0-0000-7000-8000-000000000000", "handle": "k7f", "state": "settled",
        "digest": "sha256:00", "class": "tool", "attendance": "foreground", "action": part("action"),
        "display": [],
        "lineage": { "agent": part("agent"), "session": part("session"), "root": part("session") },
        "options": part("options"), "asked_at": at, "deadline": null, "default": null, "gives_up_at": null,
        "requester": { "link": "attached" },
        "outcome": {
            "outcome": "allowed", "cause": "person", "source": "direct", "surface": "bench", "by": "bench",
            "option": "allow_once", "message": null, "stop": false, "settled_at": at, "verdict": "allow",
            "reason_for_model": null, "text": "allowed by you",
        },
        "delivery": "pending",
    }}))
}
