//! `askd claude -- CMD…`: between a host that speaks stream-json and Claude Code. Standard input and output are the
//! protocol's. Also what `askd run` does for a headless Claude that gets its messages on standard input.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use askd_agents::claude::{HostKind, Options};
use askd_client::daemon;

use super::acp::places;
use super::config;
use super::run::{self, NOT_FOUND, NOT_RUN, start_watch};
use crate::claude;
use crate::cli::ClaudeArgs;
use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out::{self, one_line, safe};

pub(super) const PROMPT_TOOL: &str = "--permission-prompt-tool";
/// Tools that Claude offers its model only where somebody can be asked questions, which askd cannot do.
pub(super) const QUESTIONS: &str = "AskUserQuestion,EnterPlanMode,ExitPlanMode";

/// What the agent's arguments say of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    /// Permission requests go to the host.
    Answers,
    /// It sends messages, and hears of no permission requests.
    Messages,
    /// One prompt, a terminal, or something else than an agent.
    Nothing,
    /// Permission requests go to a tool that is no business of this program.
    Elsewhere,
}

pub(crate) fn claude(desk: &Desk, args: ClaudeArgs) -> Done {
    let installed = places(&args.dir, &args.config_home, &args.state_home)?.map(|places| Desk { places });
    let desk = installed.as_ref().unwrap_or(desk);
    let (program, words) = args.command.split_first().ok_or_else(|| Failure::wrong_use("no command"))?;
    match speaks(words) {
        Speaks::Answers => wrap(desk, args.command, HostKind::Answers),
        Speaks::Messages => {
            // Nobody but askd shows what waits.
            if let Some(exe) = daemon::own_exe() {
                start_watch(&exe);
            }
            wrap(desk, silent(args.command), silent_kind())
        }
        // The hooks of `askd run` are all that such a run needs.
        Speaks::Nothing if is_claude(program) && asks_by_itself(words) => run::run(desk, args.command),
        Speaks::Nothing | Speaks::Elsewhere => {
            let error = Command::new(program).args(words).exec();
            Err(run::not_started(program, &error))
        }
    }
}

/// Whether `askd run` leaves this Claude to [`serve`].
pub(super) fn takes_messages(args: &[OsString]) -> bool {
    matches!(speaks(args), Speaks::Messages | Speaks::Answers)
}

/// Nothing is said of where permission requests go: no tool, no host.
pub(super) fn names_nobody(args: &[OsString]) -> bool {
    speaks(args) == Speaks::Nothing
}

/// For `askd run`: `args` has our hooks, which only watch beside this.
pub(super) fn serve(desk: &Desk, program: OsString, args: Vec<OsString>, exe: &Path) -> Done {
    let kind = match speaks(&args) {
        Speaks::Answers => HostKind::Answers,
        _ => silent_kind(),
    };
    let command: Vec<OsString> = [program].into_iter().chain(args).collect();
    if kind == HostKind::Answers {
        return wrap(desk, command, kind);
    }
    start_watch(exe);
    wrap(desk, silent(command), kind)
}

fn wrap(desk: &Desk, command: Vec<OsString>, host: HostKind) -> Done {
    // Without a daemon the time of an ask in the background is what its config says, or would if it could be read.
    let settings = config::load(desk).map(|config| config.settings().clone()).unwrap_or_default();
    let shell_patience = match settings.claude.shell_patience_secs {
        0 => None,
        seconds => Some(Duration::from_secs(seconds)),
    };
    let options = Options {
        version: version(&command),
        command,
        host,
        places: desk.places.clone(),
        unreached: Duration::from_secs(settings.permissions.background_timeout_secs),
        shell_patience,
        exe: daemon::own_exe(),
        log: |text| out::tell(&one_line(text)),
    };
    askd_agents::claude::run(options).map_err(|error| {
        let named = safe(&error.program);
        match error.source.kind() {
            io::ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{named}: there is no such program")),
            _ => Failure::new(NOT_RUN, format!("{named}: {}", error.source)),
        }
    })
}

fn silent_kind() -> HostKind {
    HostKind::Silent { attended: io::stdin().is_terminal() }
}

/// The command with what makes the agent send its permission requests, and with no tool that its host would not have
/// had without that.
fn silent(mut command: Vec<OsString>) -> Vec<OsString> {
    let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
    let flags = [PROMPT_TOOL, "stdio", "--disallowedTools", QUESTIONS].map(OsString::from);
    command.splice(end..end, flags);
    command
}

fn speaks(args: &[OsString]) -> Speaks {
    match (value(args, PROMPT_TOOL), value(args, "--input-format")) {
        (Some("stdio"), _) => Speaks::Answers,
        (Some(_), _) => Speaks::Elsewhere,
        (None, Some("stream-json")) => Speaks::Messages,
        (None, _) => Speaks::Nothing,
    }
}

/// The last value of a flag, as `--flag value` or `--flag=value`.
fn value<'a>(args: &'a [OsString], flag: &str) -> Option<&'a str> {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let texts: Vec<&str> = args[..end].iter().map(|arg| arg.to_str().unwrap_or_default()).collect();
    let at = |(n, text): (usize, &&'a str)| match text.strip_prefix(flag) {
        Some("") => texts.get(n + 1).copied(),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    };
    texts.iter().enumerate().filter_map(at).next_back()
}

/// The agent's version, when the command is Claude Code or ends with it in front of all flags, such as `env A=1 claude`.
fn version(command: &[OsString]) -> Option<String> {
    let words: Vec<&OsString> =
        command.iter().take_while(|word| !word.as_encoded_bytes().starts_with(b"-")).collect();
    let (program, rest) = words.split_first()?;
    if !words.last().is_some_and(|last| is_claude(last)) {
        return None;
    }
    let mut command = Command::new(program);
    command.args(rest);
    claude::version_of(command)
}

fn is_claude(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "claude")
}

/// Not only something like `--version`.
pub(super) fn asks_by_itself(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "-p" || arg == "--print")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_host_is_known_by_the_agents_own_flags() {
        let stream = "--output-format stream-json --verbose --input-format stream-json";
        for (text, expected) in [
            (format!("{stream} --permission-prompt-tool stdio"), Speaks::Answers),
            (format!("--permission-prompt-tool=stdio {stream}"), Speaks::Answers),
            (format!("-p {stream}"), Speaks::Messages),
            (format!("-p {stream} --permission-prompt-tool mcp__a__b"), Speaks::Elsewhere),
            ("-p --output-format stream-json hello".to_owned(), Speaks::Nothing),
            ("-p -- --input-format stream-json".to_owned(), Speaks::Nothing),
            ("--version".to_owned(), Speaks::Nothing),
        ] {
            assert_eq!(speaks(&args(&text)), expected, "{text}");
        }
    }

    #[test]
    fn what_askd_adds_stays_in_front_of_a_double_dash() {
        let all = silent(args("claude -p --input-format stream-json -- x"));
        let expected = format!(
            "claude -p --input-format stream-json --permission-prompt-tool stdio --disallowedTools {QUESTIONS} -- x"
        );
        assert_eq!(all, args(&expected));
    }

    #[test]
    fn only_a_print_run_is_one_that_asks() {
        assert!(asks_by_itself(&args("-p x")) && asks_by_itself(&args("--print x")));
        assert!(!asks_by_itself(&args("--version")) && !asks_by_itself(&args("mcp list")));
    }
}
