//! `askd demo`: a scripted agent whose asks behave like real ones, and a surface beside it to answer in.
//!
//! It uses the person's own daemon, so that another terminal, `askd ls` or `askd allow` answers it too. The agent is a
//! process of its own with nothing but the public client library: what it does, any program can do.

mod actions;
mod agent;
mod script;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use askd_client::{daemon, random_hex};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::DemoArgs;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::line::{self, Scene};
use crate::out;
use crate::queue;

use self::actions::{EDITED, FIRST, NOTES, REPORT, SECOND};
use self::agent::Part;

/// What the scripted agent calls itself.
const AGENT: &str = "demo-agent";
/// How long the agent may take to withdraw its asks when it is told to end.
const END_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn demo(desk: &Desk, plain: bool, args: DemoArgs) -> Done {
    if let (Some(dir), Some(session)) = (&args.as_agent, &args.session) {
        let (dir, session, queue_cap) = (dir.clone(), session.clone(), args.queue_cap);
        let part = Part { dir, session, queue_cap, slow: args.slow };
        return agent::play(desk, part, args.all);
    }
    let plain = plain || args.plain;
    let terminal = queue::is_terminal();
    // Whoever reads it by a program gets the short form, unless they say otherwise.
    let all = args.all || (terminal && !args.quick);
    stage(desk, Form { all, slow: args.slow, full_screen: !plain && queue::is_possible() })
}

/// How it is played.
#[derive(Clone, Copy)]
struct Form {
    all: bool,
    slow: bool,
    full_screen: bool,
}

/// The person's side: a directory, the agent, and a surface for its asks.
fn stage(desk: &Desk, form: Form) -> Done {
    let random = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let dir = std::env::temp_dir().join(format!("askd-demo-{}", &random[..8]));
    let made = fs::DirBuilder::new().mode(0o700).create(&dir);
    made.map_err(|error| Failure::unavailable(format!("{}: {error}", dir.display())))?;
    let played = play(desk, form, &dir, &random[..8]);
    match played {
        Ok(()) => out::print(&summary(&dir, form.all))?,
        Err(failure) => {
            tidy(&dir);
            return Err(failure);
        }
    }
    Ok(status::OK)
}

fn play(desk: &Desk, form: Form, dir: &Path, name: &str) -> Result<(), Failure> {
    let Form { all, slow, full_screen } = form;
    if all {
        let notes = dir.join(NOTES.0);
        fs::write(&notes, NOTES.1)
            .map_err(|error| Failure::unavailable(format!("{}: {error}", notes.display())))?;
    }
    // A person did this: the daemon is there before the agent looks for it.
    let cap = desk.open()?.permissions(None)?.queue_cap;
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let session = format!("demo-{name}");
    let mut command = Command::new(exe);
    command.args(["demo", "--session", &session, "--queue-cap", &cap.to_string()]);
    if all {
        command.arg("--all");
    }
    if slow {
        command.arg("--slow");
    }
    command.arg("--as-agent").arg(dir).stdin(Stdio::null()).stdout(Stdio::piped());
    if full_screen {
        // What it would say there has no place on the screen.
        command.stderr(Stdio::null());
    }
    let mut agent = command
        .spawn()
        .map_err(|error| Failure::unavailable(format!("the demo agent cannot be started: {error}")))?;
    let only = Some((AGENT.to_owned(), session));
    let feed = agent.stdout.take();
    let done = if full_screen {
        let greeting = format!("a scripted agent works in {}; ? tells the keys, q leaves", dir.display());
        queue::run(desk, Scene { only, feed, greeting: Some(greeting) })
    } else {
        let greeting = format!(
            "A small scripted agent works in {}.\n\
             It asks before it writes a file. Type allow, or deny, and the handle that\n\
             is shown, here or as `askd allow HANDLE` in another terminal. help tells more.\n",
            dir.display()
        );
        line::run(desk, Scene { only, feed, greeting: Some(greeting) })
    };
    end(&mut agent);
    done.map(drop)
}

/// The agent withdraws what it still asks for, and ends. One that has ended by itself hears nothing of it.
fn end(agent: &mut Child) {
    let give_up = Instant::now() + END_PATIENCE;
    if !matches!(agent.try_wait(), Ok(Some(_))) {
        let _ = kill_process(Pid::from_child(agent), Signal::TERM);
    }
    while Instant::now() < give_up {
        if !matches!(agent.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = agent.kill();
    let _ = agent.wait();
}

/// What is on the disk is the proof.
fn summary(dir: &Path, all: bool) -> String {
    let mut text = format!("\nIn {}:\n", dir.display());
    let written = |name: &str| if dir.join(name).exists() { "written" } else { "not written" };
    text.push_str(&format!("  {}: {}\n", FIRST.0, written(FIRST.0)));
    if all {
        let edited = fs::read_to_string(dir.join(NOTES.0)).is_ok_and(|notes| notes.contains(EDITED.1));
        text.push_str(&format!("  {}: {}\n", NOTES.0, if edited { "edited" } else { "not edited" }));
        text.push_str(&format!("  {}: {}\n", REPORT.0, written(REPORT.0)));
    } else {
        text.push_str(&format!("  {}: {}\n", SECOND.0, written(SECOND.0)));
    }
    if tidy(dir) || !dir.exists() {
        text.push_str("Nothing was allowed, so the directory is removed again.\n");
    }
    text.push_str("The daemon goes on; `askd log` tells what happened, `askd daemon stop` ends it.\n");
    if !all {
        text.push_str(
            "`askd demo --all` shows more: subagents, a diff, a countdown, a full queue, an agent in a loop.\n",
        );
    }
    text
}

/// Removes the directory when nothing is in it that a person allowed.
fn tidy(dir: &Path) -> bool {
    let notes = dir.join(NOTES.0);
    if fs::read_to_string(&notes).is_ok_and(|text| text == NOTES.1)
        && ![FIRST.0, SECOND.0, REPORT.0].iter().any(|name| dir.join(name).exists())
    {
        let _ = fs::remove_file(notes);
    }
    fs::remove_dir(dir).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_allowed_is_removed_and_what_was_allowed_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("demo");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(NOTES.0), NOTES.1).unwrap();
        let text = summary(&dir, true);
        assert!(text.contains("hello.txt: not written") && text.contains("notes.md: not edited"), "{text}");
        assert!(!dir.exists());

        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(NOTES.0), NOTES.1.replace(EDITED.0, EDITED.1)).unwrap();
        let text = summary(&dir, true);
        assert!(text.contains("notes.md: edited") && !text.contains("removed"), "{text}");
        assert!(dir.exists());
    }
}
