//! `askd run -- pi …`: starts pi with what its subagents need to ask at askd, for this run only. `--mode rpc`: between
//! its host and pi, so that pi's own asks come to askd too; without a screen of its own pi asks askd alone; in its
//! terminal pi's own asks stay there.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use askd_agents::acp::Dismiss;
use askd_agents::pi::rpc;
use askd_client::daemon::Door;
use askd_config::{Acp, ClientDismiss};
use std::os::unix::process::CommandExt;

use super::config;
use super::run::{not_started, start_watch};
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
    if mode != Mode::Other {
        // Without a daemon pi asks by itself, or denies by itself; it runs all the same.
        if let Err(why) = desk.start(Door::Ask) {
            out::tell(&format!("askd: {}; pi asks by itself", one_line(&why.to_string())));
        }
    }
    if mode != Mode::Rpc {
        let error = Command::new(program).args(args).env("ASKD_OWNER", owner).exec();
        return Err(not_started(program, &error));
    }
    start_watch(exe);
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
        env: Vec::new(),
        places: desk.places.clone(),
        exe: Some(exe.to_owned()),
        dismiss: match settings.client_dismiss {
            ClientDismiss::Ignore => Dismiss::Ignore,
            ClientDismiss::Cancel => Dismiss::Cancel,
        },
        grace: Duration::from_secs(settings.client_grace_secs),
        owner: owner.to_owned(),
        log: |text| out::tell(&one_line(text)),
    };
    rpc::run(options).map_err(|error| -> Failure { not_started(program, &error.source) })
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
