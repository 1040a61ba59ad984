//! What surrounds the hook: its arguments, the agent that called it, and whether a person is there.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::time::Duration;

use askd_client::{Places, PlacesError};
use askd_wire::{Instance, Place};

use crate::process::{self, Stat};

/// Claude's own time-out of a hook that has none configured.
const DEFAULT_TIMEOUT_SECS: u64 = 600;

/// Arguments behind `askd hook claude-code`. Unknown ones are ignored: an older askd may run with newer settings.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) places: Option<Places>,
    /// The time-out that is configured for this hook, in seconds.
    pub(crate) timeout_secs: u64,
    /// The settings say it; those of an older askd do so for permission requests only.
    pub(crate) timeout_is_told: bool,
    pub(crate) owner: Option<String>,
}

impl Arguments {
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, PlacesError> {
        let mut args: Vec<OsString> = args.into_iter().collect();
        let places = Places::take_from_args(&mut args)?;
        let value = |name: &str| {
            let at = args.iter().position(|arg| arg == name)?;
            args.get(at + 1)?.to_str().map(str::to_owned)
        };
        let timeout_secs = value("--timeout").and_then(|secs| secs.parse().ok());
        Ok(Self {
            places,
            timeout_secs: timeout_secs.unwrap_or(DEFAULT_TIMEOUT_SECS),
            timeout_is_told: timeout_secs.is_some(),
            owner: value("--owner"),
        })
    }

    /// How long to wait for an outcome, so that handing back is done before Claude ends the hook.
    pub(crate) fn patience(&self, used: Duration) -> u64 {
        let margin = (self.timeout_secs / 10).clamp(1, 5);
        self.timeout_secs.saturating_sub(margin + used.as_secs())
    }
}

/// Who can answer besides askd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// Claude's terminal interface with its dialog.
    Terminal,
    /// A program that answers over the control protocol or by a permission tool.
    Host,
    /// Nobody: `claude -p` without a host. `tty`: a person started it in a terminal.
    Nobody { tty: bool },
}

/// The agent process and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) instance: Instance,
    pub(crate) place: Option<Place>,
    /// Another part of askd raises the asks of this agent.
    pub(crate) owned: bool,
    has_tty: bool,
    /// Those that the agent was started with, once they were read.
    arguments: OnceCell<Vec<String>>,
}

impl Around {
    pub(crate) fn look(arguments: &Arguments) -> Self {
        let parent = std::os::unix::process::parent_id();
        let parent_stat = Stat::of(parent);
        let told = var("CLAUDE_PID").and_then(|pid| pid.parse().ok());
        let pid = agent_pid(parent, told, parent_stat.as_ref());
        let stat = if pid == parent { parent_stat } else { Stat::of(pid) };
        let tty = stat.as_ref().and_then(Stat::tty_path);
        let tmux_pane = var("TMUX_PANE");
        let read = OnceCell::new();
        Self {
            has_tty: stat.as_ref().is_some_and(|stat| stat.tty != 0),
            instance: Instance { pid, start: stat.map_or(0, |stat| stat.start) },
            place: (tty.is_some() || tmux_pane.is_some()).then_some(Place { tty, tmux_pane }),
            owned: is_owned(var("ASKD_OWNER").as_deref(), arguments.owner.as_deref(), pid, || {
                read.get_or_init(|| process::arguments(pid))
            }),
            arguments: read,
        }
    }

    fn arguments(&self) -> &[String] {
        self.arguments.get_or_init(|| process::arguments(self.instance.pid))
    }

    /// Claude asks askd's own permission tool for the same call.
    pub(crate) fn asks_our_tool(&self) -> bool {
        names_our_tool(self.arguments())
    }

    /// Who can answer besides askd.
    pub(crate) fn front(&self) -> Front {
        front(var("CLAUDE_CODE_ENTRYPOINT").as_deref(), self.arguments(), self.has_tty)
    }
}

/// An empty variable counts as unset.
fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The agent's process. `told` is what the environment says, which may be inherited from an agent further up whose
/// version tells while the caller's does not. In exec form the agent is the parent, in shell form a shell is between.
fn agent_pid(parent: u32, told: Option<u32>, stat: Option<&Stat>) -> u32 {
    if told == Some(parent) {
        return parent;
    }
    match stat {
        Some(shell) if shell.parent > 1 && matches!(shell.name.as_str(), "sh" | "dash" | "bash" | "zsh") => {
            shell.parent
        }
        _ => parent,
    }
}

/// `entrypoint` is `cli` for the terminal interface and `sdk-…` for everything without one.
fn front(entrypoint: Option<&str>, agent_arguments: &[String], has_tty: bool) -> Front {
    if asks_a_host(agent_arguments) {
        return Front::Host;
    }
    let has = |flag: &str| has(agent_arguments, flag);
    match entrypoint {
        Some("cli") => Front::Terminal,
        // Without the arguments nobody can tell; a host that may be there keeps its own prompt.
        Some(_) if agent_arguments.is_empty() => Front::Host,
        Some("sdk-cli") => Front::Nobody { tty: has_tty },
        Some(_) => Front::Host,
        None if has("-p") || has("--print") => Front::Nobody { tty: has_tty },
        None => Front::Terminal,
    }
}

fn has(agent_arguments: &[String], flag: &str) -> bool {
    let is =
        |arg: &String| arg.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    agent_arguments.iter().any(is)
}

/// A program or a tool gets its permission requests.
fn asks_a_host(agent_arguments: &[String]) -> bool {
    has(agent_arguments, "--permission-prompt-tool")
}

/// `askd mcp` under the name that the guide and `askd run` give it.
fn names_our_tool(agent_arguments: &[String]) -> bool {
    let flag = "--permission-prompt-tool";
    let tool = "mcp__askd__ask";
    agent_arguments.windows(2).any(|two| two[0] == flag && two[1] == tool)
        || agent_arguments
            .iter()
            .any(|arg| arg.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) == Some(tool))
}

/// `owner` is a name, or `name@PID` where only the agent with this process id is owned and not one that it starts. The
/// proxies of askd own the agent that sends its permission requests to them; one that this agent starts in a shell has
/// the mark by inheritance and sends them to nobody. They cannot name a process: the agent may be behind a script.
fn is_owned<A: AsRef<[String]>>(
    owner: Option<&str>,
    ours: Option<&str>,
    agent: u32,
    agent_arguments: impl FnOnce() -> A,
) -> bool {
    let Some(owner) = owner else { return false };
    if ["claude-", "acp-"].iter().any(|proxy| owner.starts_with(proxy)) {
        let arguments = agent_arguments();
        let arguments = arguments.as_ref();
        if !arguments.is_empty() && !asks_a_host(arguments) {
            return false;
        }
    }
    let other_agent =
        owner.rsplit_once('@').and_then(|(_, pid)| pid.parse::<u32>().ok()).is_some_and(|pid| pid != agent);
    !other_agent && ours != Some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, parent: u32) -> Stat {
        Stat { name: name.to_owned(), parent, tty: 0, start: 1 }
    }

    #[test]
    fn s1_the_agent_is_the_caller_and_not_one_further_up() {
        let (claude, shell) = (stat("claude", 5), stat("sh", 5));
        // Exec form, told and not told.
        assert_eq!(agent_pid(10, Some(10), None), 10);
        assert_eq!(agent_pid(10, None, Some(&claude)), 10);
        // An outer agent told its own id and the inner one does not tell.
        assert_eq!(agent_pid(10, Some(5), Some(&claude)), 10);
        // Shell form.
        assert_eq!(agent_pid(10, Some(5), Some(&shell)), 5);
        assert_eq!(agent_pid(10, None, Some(&shell)), 5);
    }

    #[test]
    fn a17_an_agent_that_a_proxied_agent_starts_asks_by_its_own_hook() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for owner in ["claude-abcd1234", "acp-abcd1234"] {
            let is = |text: &str| is_owned(Some(owner), None, 7, || args(text));
            assert!(is("claude -p --input-format stream-json --permission-prompt-tool stdio"), "{owner}");
            assert!(!is("claude -p hello") && !is("claude"), "{owner}");
            assert!(is_owned(Some(owner), None, 7, Vec::<String>::new), "nobody can tell");
            assert!(!is_owned(Some(owner), Some(owner), 7, Vec::<String>::new));
        }
        let run = |agent| is_owned(Some("run-abcd1234@7"), None, agent, || args("claude -p x"));
        assert!(run(7) && !run(8));
    }

    #[test]
    fn who_else_can_answer() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let nobody = Front::Nobody { tty: false };
        assert_eq!(front(Some("cli"), &args("claude"), true), Front::Terminal);
        assert_eq!(front(Some("sdk-cli"), &args("claude -p hello"), false), nobody);
        assert_eq!(
            front(Some("sdk-cli"), &args("claude -p --permission-prompt-tool stdio"), false),
            Front::Host
        );
        assert_eq!(
            front(Some("sdk-ts"), &args("claude --permission-prompt-tool=mcp__a__b"), false),
            Front::Host
        );
        assert_eq!(front(Some("claude-vscode"), &args("claude"), false), Front::Host);
        assert_eq!(front(Some("sdk-cli"), &[], false), Front::Host);
        assert_eq!(front(None, &args("claude --print x"), true), Front::Nobody { tty: true });
        assert_eq!(front(None, &args("claude"), true), Front::Terminal);
    }

    #[test]
    fn a17_an_agent_that_asks_our_permission_tool_is_not_asked_for_by_its_hook_too() {
        let names = |text: &str| names_our_tool(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(names("claude -p --permission-prompt-tool mcp__askd__ask x"));
        assert!(names("claude --permission-prompt-tool=mcp__askd__ask"));
        assert!(!names("claude -p --permission-prompt-tool stdio"));
        assert!(!names("claude -p --permission-prompt-tool mcp__other__ask mcp__askd__ask"));
        assert!(!names("claude"));
    }

    #[test]
    fn an_owner_is_for_one_agent() {
        assert!(!is_owned(None, None, 7, Vec::<String>::new));
        assert!(is_owned(Some("proxy"), None, 7, Vec::<String>::new));
        assert!(is_owned(Some("proxy"), Some("other"), 7, Vec::<String>::new));
        assert!(!is_owned(Some("proxy"), Some("proxy"), 7, Vec::<String>::new));
        assert!(is_owned(Some("run@7"), None, 7, Vec::<String>::new));
        assert!(
            !is_owned(Some("run@6"), None, 7, Vec::<String>::new),
            "started by the owned agent, and nobody else asks for it"
        );
    }

    #[test]
    fn arguments_are_read_and_unknown_ones_ignored() {
        let parse = |text: &str| Arguments::parse(text.split(' ').map(OsString::from)).unwrap();
        let args = parse("--dir /d --timeout 604800 --later x --owner o");
        assert_eq!(args.places, Some(Places::at(std::path::Path::new("/d"))));
        assert_eq!((args.timeout_secs, args.owner.as_deref()), (604_800, Some("o")));
        assert_eq!(args.patience(Duration::from_secs(3)), 604_792);
        let wrong = parse("--timeout x");
        assert_eq!((wrong.timeout_secs, wrong.timeout_is_told), (DEFAULT_TIMEOUT_SECS, false));
        assert_eq!(parse("--timeout 10").patience(Duration::ZERO), 9);
    }
}
