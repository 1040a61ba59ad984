//! `askd run -- pi …`: starts pi with what its subagents need to ask at askd, for this run only. `--mode rpc`: between
//! its host and pi, so that pi's own asks come to askd too; without a screen of its own pi asks askd alone; in its
//! terminal pi's own asks stay there.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use askd_agents::acp::Dismiss;
use askd_agents::pi::{found, rpc};
use askd_agents::spool::run::{Options, Server, prepare};
use askd_client::daemon::Door;
use askd_client::random_hex;
use askd_config::{Acp, ClientDismiss};

use super::beside::{Signals, status_of};
use super::run::{not_started, start_watch_of};
use super::{config, setup_pi};
use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out::{self, one_line};

/// How pi is asked to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The terminal UI.
    Terminal,
    /// Without any prompt of its own.
    Headless,
    Rpc,
    /// Something that asks nothing.
    Other,
}

/// Subcommands that ask nothing.
const OTHERS: [&str; 8] = ["install", "remove", "uninstall", "update", "list", "config", "auth", "mcp"];

/// Flags that take the next word.
const WITH_VALUE: [&str; 22] = [
    "--provider",
    "--model",
    "--api-key",
    "--system-prompt",
    "--append-system-prompt",
    "--session",
    "--session-id",
    "--fork",
    "--session-dir",
    "--name",
    "-n",
    "--models",
    "--tools",
    "-t",
    "--exclude-tools",
    "-xt",
    "--thinking",
    "--extension",
    "-e",
    "--skill",
    "--prompt-template",
    "--theme",
];

/// Runs pi; `exe`: this program's own file, `owner`: the mark of what it starts.
pub(crate) fn run(desk: &Desk, exe: &Path, owner: &str, program: &OsString, args: &[OsString]) -> Done {
    let texts: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or_default()).collect();
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mode = mode(&texts, on_terminal);
    if mode == Mode::Other {
        let error = Command::new(program).args(args).env("ASKD_OWNER", owner).exec();
        return Err(not_started(program, &error));
    }
    // Without a daemon pi asks by itself, or denies by itself; it runs all the same.
    if let Err(why) = desk.start(Door::Ask) {
        out::tell(&format!("askd: {}; pi asks by itself", one_line(&why.to_string())));
    }
    let random = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let session = format!("askd-{}", &random[..12]);
    let forwarding = Forwarding::start(desk, exe, &session, &texts);
    let env = forwarding.as_ref().map(|_| children_env(&session)).unwrap_or_default();
    if mode != Mode::Terminal {
        start_watch_of(exe, Some(&session));
    }
    let done = match mode {
        Mode::Rpc => between(desk, exe, owner, program, args, env),
        _ => beside(owner, program, args, env),
    };
    if let Some(forwarding) = forwarding {
        forwarding.0.stop();
    }
    done
}

/// What makes pi's children ask the session that askd serves for this run: the first two name it, and the third makes
/// older extensions believe that they are in a child. The first one beats what a spawner of children sets by itself.
fn children_env(session: &str) -> Vec<(String, OsString)> {
    [
        ("PI_AGENT_ROUTER_PARENT_SESSION_ID", session),
        ("PI_SUBAGENT_PARENT_SESSION", session),
        ("PI_IS_SUBAGENT", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect()
}

/// What pi's children forward is answered for as long as this lives.
struct Forwarding(Server);

impl Forwarding {
    /// `None`: it cannot be, and was told.
    fn start(desk: &Desk, exe: &Path, session: &str, args: &[&str]) -> Option<Self> {
        let agent_dir = match setup_pi::agent_dir() {
            Ok(dir) => dir,
            Err(failure) => {
                out::tell(&format!("askd: {}; subagents ask as if askd were not there", failure.text));
                return None;
            }
        };
        let project = std::env::current_dir().ok();
        let mut findings = found::look(&agent_dir, project.as_deref());
        if let Some(given) = args.iter().find(|arg| arg.contains("pi-permission-system")) {
            findings.extension.get_or_insert_with(|| given.into());
        }
        for (problem, todo) in setup_pi::gaps(&findings) {
            out::tell(&format!("askd: {problem} ({todo})"));
        }
        let dir = found::forwarding_dir(&agent_dir);
        let options = Options {
            exe: Some(exe.to_owned()),
            sessions: vec![session.to_owned()],
            tell: Arc::new(|text| out::tell(&format!("askd run: {}", one_line(text)))),
            ..Options::new(dir.clone(), desk.places.clone())
        };
        // The directories are there before anybody asks.
        let started = prepare(&dir, session)
            .map_err(|error| error.to_string())
            .and_then(|()| Server::start(options).map_err(|error| error.to_string()));
        match started {
            Ok(server) => Some(Self(server)),
            Err(why) => {
                out::tell(&format!("askd: {}; subagents ask as if askd were not there", one_line(&why)));
                None
            }
        }
    }
}

/// `--mode rpc`: between its host and pi.
fn between(
    desk: &Desk,
    exe: &Path,
    owner: &str,
    program: &OsString,
    args: &[OsString],
    env: Vec<(String, OsString)>,
) -> Done {
    let settings = match config::load(desk) {
        Ok(config) => config.settings().acp.clone(),
        Err(errors) => {
            for error in errors {
                out::tell(&format!("askd run: {error}; the defaults of [acp] are used"));
            }
            Acp::default()
        }
    };
    let mut command = vec![program.clone()];
    command.extend(args.iter().cloned());
    let options = rpc::Options {
        command,
        env,
        places: desk.places.clone(),
        exe: Some(exe.to_owned()),
        dismiss: match settings.client_dismiss {
            ClientDismiss::Ignore => Dismiss::Ignore,
            ClientDismiss::Cancel => Dismiss::Cancel,
        },
        grace: Duration::from_secs(settings.client_grace_secs),
        served: setup_pi::agent_dir()
            .is_ok_and(|dir| setup_pi::is_served(desk, &found::forwarding_dir(&dir))),
        owner: owner.to_owned(),
        log: |text| out::tell(&one_line(text)),
    };
    rpc::run(options).map_err(|error| not_started(program, &error.source))
}

/// In a terminal, or without any prompt: this process only stays until pi ends.
fn beside(owner: &str, program: &OsString, args: &[OsString], env: Vec<(String, OsString)>) -> Done {
    let signals = Signals::catch()?;
    let mut command = Command::new(program);
    command.args(args).envs(env).env("ASKD_OWNER", owner);
    let mut child = command.spawn().map_err(|error| not_started(program, &error))?;
    signals.hand_on_to(&child)?;
    let ended = child.wait().map_err(|error| Failure::unavailable(format!("waiting for pi: {error}")))?;
    Ok(status_of(ended))
}

fn mode(args: &[&str], on_terminal: bool) -> Mode {
    let own = || args.iter().take_while(|arg| **arg != "--");
    if own().any(|arg| {
        matches!(*arg, "-h" | "--help" | "-v" | "--version" | "--list-models" | "--export")
            || arg.starts_with("--export=")
    }) {
        return Mode::Other;
    }
    if args.first().is_some_and(|first| OTHERS.contains(first)) {
        return Mode::Other;
    }
    let mut words = own();
    let mut found = if on_terminal { Mode::Terminal } else { Mode::Headless };
    while let Some(word) = words.next() {
        match *word {
            "-p" | "--print" => found = Mode::Headless,
            "--mode" => match words.next() {
                Some(&"rpc") => return Mode::Rpc,
                Some(_) => found = Mode::Headless,
                None => {}
            },
            word if WITH_VALUE.contains(&word) => {
                words.next();
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_what_pi_itself_makes_of_the_words() {
        for (args, expected) in [
            (&[][..], Mode::Terminal),
            (&["do it"], Mode::Terminal),
            (&["--name", "--print", "x"], Mode::Terminal),
            (&["-p", "do it"], Mode::Headless),
            (&["--mode", "json", "do it"], Mode::Headless),
            (&["--mode", "rpc", "-e", "x"], Mode::Rpc),
            (&["--", "--mode", "rpc"], Mode::Terminal),
            (&["install", "npm:x"], Mode::Other),
            (&["--mode", "rpc", "--help"], Mode::Other),
        ] {
            assert_eq!(mode(args, true), expected, "{args:?}");
        }
        assert_eq!(mode(&["do it"], false), Mode::Headless);
    }
}
