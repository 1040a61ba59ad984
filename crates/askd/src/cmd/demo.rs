//! `askd demo`: a scripted agent that asks before it writes, and the line mode beside it to answer in.
//!
//! It uses the person's own daemon, so that another terminal, `askd ls` or `askd allow` answers it too. The agent is a
//! process of its own with nothing but the public client library: what it does, any program can do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use askd_client::{Asker, Unavailable, daemon, random_hex};
use askd_wire::{Action, Ask, Attendance, Class, OutcomeKind, RaiseAsk, RequesterKind, Verdict};
use serde_json::{Map, json};

use crate::cli::DemoArgs;
use crate::cmd::ask::take_back;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::identity;
use crate::line::{self, Scene};
use crate::out;
use crate::waiting::CallerWatch;

const AGENT: &str = "demo-agent";
/// What the agent wants to write.
const FILES: [(&str, &str); 2] = [
    ("hello.txt", "Hello! An agent wrote this, after a person allowed it."),
    ("second.txt", "A second file. Deny this one and see that it is not written."),
];

pub(crate) fn demo(desk: &Desk, args: DemoArgs) -> Done {
    match (args.as_agent, args.session) {
        (Some(dir), Some(session)) => agent(desk, &dir, &session),
        _ => stage(desk),
    }
}

/// The person's side: a directory, the agent, and a surface for its asks.
fn stage(desk: &Desk) -> Done {
    let random = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let dir = std::env::temp_dir().join(format!("askd-demo-{}", &random[..8]));
    private_dir(&dir)?;
    let session = format!("demo-{}", &random[..8]);
    // A person did this: the daemon is there before the agent looks for it.
    drop(desk.open()?);
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let mut agent = Command::new(exe)
        .args(["demo", "--session", &session, "--as-agent"])
        .arg(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::unavailable(format!("the demo agent cannot be started: {error}")))?;
    let greeting = format!(
        "A small scripted agent works in {}.\n\
         It asks before it writes a file. Type allow, or deny, and the handle that is shown,\n\
         here or as `askd allow HANDLE` in another terminal. help tells more.\n",
        dir.display()
    );
    let scene = Scene {
        only: Some((AGENT.to_owned(), session)),
        feed: agent.stdout.take(),
        greeting: Some(greeting),
    };
    let done = line::run(desk, scene);
    // Its output is closed now, by which it knows that nobody waits for it any more.
    let _ = agent.wait();
    done?;
    out::print(&summary(&dir))?;
    Ok(status::OK)
}

fn private_dir(dir: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().mode(0o700).create(dir);
    made.map_err(|error| Failure::unavailable(format!("{}: {error}", dir.display())))
}

/// What is on the disk is the proof.
fn summary(dir: &Path) -> String {
    let mut text = format!("\nIn {}:\n", dir.display());
    let mut written = 0;
    for (name, _) in FILES {
        let there = dir.join(name).exists();
        written += usize::from(there);
        text.push_str(&format!("  {name}: {}\n", if there { "written" } else { "not written" }));
    }
    if written == 0 && fs::remove_dir(dir).is_ok() {
        text.push_str("Nothing was allowed, so the directory is removed again.\n");
    }
    text.push_str("The daemon goes on; `askd log` tells what happened, `askd daemon stop` ends it.\n");
    text
}

/// The agent's side.
fn agent(desk: &Desk, dir: &Path, session: &str) -> Done {
    let mut asker = Asker::new(desk.places.clone(), daemon::own_exe())?;
    let mut watch = CallerWatch::new(true)
        .map_err(|error| Failure::unavailable(format!("signals cannot be received: {error}")))?;
    for (name, content) in FILES {
        let path = dir.join(name);
        out::print_line(&format!("I would like to write {name}."))?;
        let raise = raise(dir, &path, content, session)?;
        match asker.ask_watched(&raise, &mut watch) {
            Ok(ask) => act(&mut asker, &ask, &path, name, content)?,
            Err(Unavailable::Abandoned) => {
                let _ = take_back(desk, &asker, &raise, "cancelled");
                return Ok(status::WITHDRAWN);
            }
            Err(error) => {
                out::print_line(&format!("I got no answer ({error}), so I write nothing."))?;
                return Err(error.into());
            }
        }
    }
    out::print_line("I am done.")?;
    Ok(status::OK)
}

fn act(asker: &mut Asker, ask: &Ask, path: &PathBuf, name: &str, content: &str) -> Result<(), Failure> {
    let Some(outcome) = &ask.outcome else {
        return out::print_line(&format!("Nobody decided, so {name} is not written."));
    };
    match (outcome.outcome, outcome.verdict) {
        (OutcomeKind::Allowed, Verdict::Allow) => {
            // An outcome that is handed twice does no harm; one that is not handed would look undelivered.
            let _ = asker.handed(&ask.id);
            fs::write(path, format!("{content}\n"))
                .map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))?;
            let _ = asker.confirmed(&ask.id);
            out::print_line(&format!("I was allowed and have written {name}."))
        }
        (OutcomeKind::Denied, Verdict::Deny) => {
            let _ = asker.handed(&ask.id);
            let _ = asker.confirmed(&ask.id);
            let reason = outcome.reason_for_model.as_deref().unwrap_or("no reason was given");
            out::print_line(&format!(
                "I was not allowed, so {name} is not written. I was told: {}",
                out::safe(reason)
            ))
        }
        _ => out::print_line(&format!("Nobody decided, so {name} is not written.")),
    }
}

fn raise(dir: &Path, path: &Path, content: &str, session: &str) -> Result<RaiseAsk, Failure> {
    let key = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let input = json!({"file_path": path.to_string_lossy(), "content": content});
    let input = serde_json::value::to_raw_value(&input)
        .map_err(|error| Failure::unavailable(format!("cannot be written as JSON: {error}")))?;
    Ok(RaiseAsk {
        key,
        action: Action {
            tool: "Write".to_owned(),
            kind: Some("edit".to_owned()),
            title: None,
            input: Some(input),
            cwd: Some(dir.to_string_lossy().into_owned()),
        },
        class: Class::Tool,
        attendance: Some(Attendance::Foreground),
        agent: AGENT.to_owned(),
        session: session.to_owned(),
        parent: None,
        subagent: None,
        job: None,
        tool_call: None,
        turn: None,
        session_title: Some("askd demo".to_owned()),
        options: Vec::new(),
        deadline_secs: None,
        gives_up_secs: None,
        requester: RequesterKind::Library,
        grace_secs: 60,
        instance: Some(identity::own_instance()),
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: Map::new(),
    })
}
