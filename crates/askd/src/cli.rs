//! The command line: what may be typed, and the words of `--help`.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The permission-ask daemon for coding agents.
///
/// Without a command: starts the daemon if none runs and opens the queue of asks (y allows, n denies, ? tells the keys).
/// Where no terminal is, or with --plain: prints asks as they come and takes answers by line (`allow k7f`,
/// `deny k7f not this folder`).
#[derive(Debug, Parser)]
#[command(name = "askd", version = askd_wire::VERSION, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Line mode, readable by a screen reader
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon in the foreground; stop or restart the one that runs
    Daemon(DaemonArgs),
    /// Raise an ask from a script and wait: exit status 0 allowed, 1 denied, 3 withdrawn, 4 nobody to ask
    Ask(AskArgs),
    /// List the open asks
    Ls {
        /// Settled ones too
        #[arg(long)]
        all: bool,
        /// Print JSON: an array of asks
        #[arg(long)]
        json: bool,
    },
    /// Show one ask in full
    Show {
        /// Handle or id of the ask
        id: String,
        /// Print JSON: the ask
        #[arg(long)]
        json: bool,
    },
    /// List the agents' sessions and how many asks each waits for
    Sessions {
        /// Print JSON: an array of sessions
        #[arg(long)]
        json: bool,
    },
    /// Allow asks: exit status 0 settled by this call, 5 settled before, 6 unknown, 7 not permitted
    Allow(AllowArgs),
    /// Deny asks; exit status as for allow
    Deny(DenyArgs),
    /// Withdraw asks: nobody decides them
    Withdraw {
        /// Handles or ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// What happens without a person: show it, or change it for asks made afterwards; never written to the config
    Permissions(PermissionsArgs),
    /// What happened, oldest first
    Log {
        /// Only this session
        #[arg(long)]
        session: Option<String>,
        /// From a time on: 2h, 30m, 3d, a date, or an RFC 3339 time
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Print JSON: one entry a line
        #[arg(long)]
        json: bool,
    },
    /// One line for a status bar: how many wait, and where nothing is asked; starts nothing
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Hook program of an agent: an event as JSON on standard input, the decision on standard output
    Hook {
        /// The agent (claude-code) and what setup wrote behind it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "AGENT")]
        args: Vec<OsString>,
    },
    /// Connect an agent to askd
    Setup(SetupArgs),
    /// Start an agent under askd, for this run only: askd run -- claude …, opencode …, pi …
    #[command(after_help = "\
Nothing on disk changes, and what stands behind the agent's name is the agent's own; so are its signals and its exit
status (126: it cannot be run, 127: it is not there). Where no permission mode of Claude Code is chosen anywhere, the run
uses `default`, in which it asks. With `claude -p`, and nobody looking, standard error says what to type. A run of claude
or pi that takes messages on its standard input goes through askd, which holds that input for it.")]
    Run {
        /// The agent's command line
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Between an ACP client (an editor, acpx) and an ACP agent: every ask reaches the client and every other surface
    Acp(AcpArgs),
    /// Between a host of the Claude agent SDK (stream-json) and Claude Code: every ask reaches the host and every other surface
    Claude(ClaudeArgs),
    /// MCP server with the permission tool, for claude -p --permission-prompt-tool mcp__askd__ask
    Mcp(McpArgs),
    /// Serve a forwarding directory, for agents and scripts that have only a file system
    Spool(SpoolArgs),
    /// A scripted agent whose asks behave like real ones, to try askd without any agent
    Demo(DemoArgs),
    /// Check the hooks, the agent, the daemon and the settings, and say what to do
    Doctor,
    /// Settings: print them all, check, explain one, accept what waits, or print the schema
    Config {
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// Tells on standard error what the agent of `askd run` waits for
    #[command(hide = true, name = "run-watch")]
    RunWatch {
        pid: u32,
        #[arg(long)]
        root: Option<String>,
        #[arg(long)]
        detached: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit status 9: a daemon already runs here. A forwarding directory ([spool] dirs) starts no daemon: where one is served, run
`askd daemon` at log-in.")]
pub(crate) struct DaemonArgs {
    #[arg(value_enum)]
    pub(crate) action: Option<DaemonAction>,
    /// Where asks are written down: sqlite: (the default place) or sqlite:PATH
    #[arg(long, value_name = "URL", conflicts_with = "action")]
    pub(crate) journal: Option<String>,
    /// Nobody can be asked here: every ask is settled at once as unreachable
    #[arg(long, conflicts_with = "action")]
    pub(crate) no_surfaces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DaemonAction {
    /// Stop it; agents ask by themselves until a person runs askd again
    Stop,
    /// Restart it under its requesters; open asks stay open
    Restart,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The tool that would run, e.g. Bash
    #[arg(long)]
    pub(crate) tool: String,
    /// Its input as JSON; - reads it from standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,
    /// Headline for people
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Session that the ask belongs to; default: one for the calling process and directory
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Parent session
    #[arg(long)]
    pub(crate) parent: Option<String>,
    /// Name of the subagent that asks
    #[arg(long, value_name = "NAME")]
    pub(crate) subagent: Option<String>,
    /// Job or workflow step that it is part of
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
    /// Nobody is at this turn: the ask gets the timed answer
    #[arg(long)]
    pub(crate) background: bool,
    /// Seconds until the timed answer; only together with --background
    #[arg(long, value_name = "SECS", requires = "background", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) deadline: Option<u64>,
    /// A safety ask, and why it is asked
    #[arg(long, value_name = "REASON")]
    pub(crate) safety: Option<String>,
    /// Name of this call: the same call made again with it finds its ask, or the answer that waits
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Print JSON: the settled ask
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AllowArgs {
    /// Handles or ids, as `askd ls` prints them
    #[arg(conflicts_with = "all_background", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    /// One of the options that `askd show` lists, instead of a plain yes
    #[arg(long, value_name = "OPTION", conflicts_with = "all_background")]
    pub(crate) option: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// Handles or ids, as `askd ls` prints them
    #[arg(conflicts_with = "all_background", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    /// Your words, told to the agent
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Stop the agent's turn too
    #[arg(long)]
    pub(crate) stop: bool,
    /// One of the options that `askd show` lists, instead of a plain no
    #[arg(long, value_name = "OPTION", conflicts_with = "all_background")]
    pub(crate) option: Option<String>,
}

/// Many at once.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    /// Every background ask that is open now: lists them and asks back
    #[arg(long)]
    pub(crate) all_background: bool,
    /// Do not ask back
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Holds for asks made afterwards: of one session's whole tree and until it ends (--session), else of every session and
until the daemon stops; what only makes things stricter outlives both. Tool asks and safety asks have settings of their own; changing one never changes the other.")]
pub(crate) struct PermissionsArgs {
    #[command(subcommand)]
    pub(crate) change: Option<PermissionsChange>,
    /// One session, as `askd sessions` prints it: AGENT/SESSION, or SESSION alone where no other agent has it
    #[arg(long, global = true, value_name = "S")]
    pub(crate) session: Option<String>,
    /// Print JSON: what is in force
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsChange {
    /// The timed answer of background asks; with `safety`: of background safety asks
    Default {
        #[arg(value_enum, value_name = "allow|deny")]
        answer: TimedAnswer,
        #[arg(value_enum, value_name = "safety")]
        of: Option<Safety>,
    },
    /// Seconds until the timed answer; with `safety`: of background safety asks
    Timeout {
        #[arg(value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
        secs: u64,
        #[arg(value_enum, value_name = "safety")]
        of: Option<Safety>,
    },
    /// Allow every tool ask without asking anybody, and never a safety ask
    Skip {
        #[arg(value_enum, value_name = "on|off")]
        state: Switch,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimedAnswer {
    Allow,
    Deny,
}

/// The word that says whose setting it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Safety {
    Safety,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    #[arg(value_enum)]
    pub(crate) agent: SetupAgent,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take out exactly what setup put in
    #[arg(long)]
    pub(crate) undo: bool,
    /// Another Bot API server, for `telegram`
    #[arg(long, hide = true, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// A proxy on the way to the Bot API server, for `telegram`: http://127.0.0.1:3128
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// The agent's command line, for what is printed: askd setup acp -- opencode acp
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupAgent {
    /// Hooks in Claude Code's settings
    ClaudeCode,
    /// `askd acp --` before every agent with a command in Zed's settings
    Zed,
    /// The same in acpx's configuration
    Acpx,
    /// pi's forwarding directory in askd's settings, so that its subagents' asks come to askd
    Pi,
    /// Print what to put into any other ACP client's configuration
    Acp,
    /// Asks in a chat with a bot of yours: asks for its token, finds you by a message, sends a test
    Telegram,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Put `askd acp --` in front of the agent's command in the client's configuration. Everything passes byte for byte; the
first answer wins, in the client or elsewhere, and the other dialogs are withdrawn. Typed in the client, /permissions
and /skip-permissions are answered by askd. Without a daemon the client alone is asked, as it would be without askd, and
its answers are written down when the daemon is back. Settings: [acp] in config.toml.")]
pub(crate) struct AcpArgs {
    /// For a client without subagent sessions: auto passes asks of subagents as the agent sends them, translate turns
    /// subagent sessions on at the agent and shows their asks on the parent's session (default: the setting acp.subagents)
    #[arg(long, value_enum, value_name = "auto|translate")]
    pub(crate) subagents: Option<AcpSubagents>,
    /// Where askd is, as setup wrote it
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) dir: Option<OsString>,
    #[arg(long, hide = true, requires = "state_home", conflicts_with = "dir")]
    pub(crate) config_home: Option<OsString>,
    #[arg(long, hide = true, requires = "config_home")]
    pub(crate) state_home: Option<OsString>,
    /// The agent's command line
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "AGENT")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Claude Code starts it; standard input and output are the protocol's. In Claude's MCP configuration:

  {\"mcpServers\":{\"askd\":{\"command\":\"askd\",\"args\":[\"mcp\"]}}}

`askd run -- claude -p --permission-prompt-tool mcp__askd__ask …` puts it there for one run. Every call that a person
would be asked about becomes an ask; the answer goes back with the input that was shown. Hooks of askd then only watch.
Without a daemon a call fails, which is no denial.")]
pub(crate) struct McpArgs {
    /// Where askd is, as setup wrote it
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) dir: Option<OsString>,
    #[arg(long, hide = true, requires = "state_home", conflicts_with = "dir")]
    pub(crate) config_home: Option<OsString>,
    #[arg(long, hide = true, requires = "config_home")]
    pub(crate) state_home: Option<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Put `askd claude --` in front of Claude's command in the host. The first answer wins, at the host or elsewhere, and the
others are withdrawn. A host that fails, closes its end or dies denies nothing: the ask stays open elsewhere. What is no
permission request passes byte for byte, and without a daemon such a host decides alone.

A host without permission requests needs no change: askd answers for it. Claude then asks its person no questions
(--disallowedTools AskUserQuestion,EnterPlanMode,ExitPlanMode). While the daemon is away an ask waits: one that it had
taken up to the deadline that was recorded for it, any other for background_timeout_secs; standard error says so.

When the host has closed its end, Claude's input stays open until every ask is answered, every task in the background has
ended and every message has had its turn; for a shell in the background 10 minutes after the last turn.")]
pub(crate) struct ClaudeArgs {
    /// Where askd is, as setup wrote it
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) dir: Option<OsString>,
    #[arg(long, hide = true, requires = "state_home", conflicts_with = "dir")]
    pub(crate) config_home: Option<OsString>,
    #[arg(long, hide = true, requires = "config_home")]
    pub(crate) state_home: Option<OsString>,
    /// Claude Code's command line
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpSubagents {
    Auto,
    Translate,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every request in DIR/sessions/SESSION/requests becomes an ask; its answer is written to DIR/sessions/SESSION/responses.
Several may serve one directory: each session has one server at a time, and another one takes over when it ends. To have
the daemon serve directories itself: [spool] dirs in config.toml. The format is described in docs/spool.md.")]
pub(crate) struct SpoolArgs {
    /// The forwarding directory; for pi: sessions/permission-forwarding in its agent directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: std::path::PathBuf,
    /// Serve only this session and make its directories before anybody asks; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) session: Vec<String>,
    /// Do not use hints of the kernel: look every second, as on file systems that give none
    #[arg(long)]
    pub(crate) no_hints: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Line mode, readable by a screen reader
    #[arg(long)]
    pub(crate) plain: bool,
    /// Two files and nothing else; without a terminal it is so unless --all is said
    #[arg(long, conflicts_with = "all")]
    pub(crate) quick: bool,
    /// All of it: subagents, a diff, hostile text, a countdown, a full queue, an agent in a loop; so it is in a terminal
    #[arg(long)]
    pub(crate) all: bool,
    /// Timed answers come three times later, to read at leisure
    #[arg(long)]
    pub(crate) slow: bool,
    /// The scripted agent itself, in this directory
    #[arg(long, hide = true, value_name = "DIR", requires = "session")]
    pub(crate) as_agent: Option<std::path::PathBuf>,
    #[arg(long, hide = true)]
    pub(crate) session: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) queue_cap: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Check the settings: exit status 0 when they are right, 1 with every error named
    Check,
    /// Say what a setting is, where it comes from and what may be written
    Explain {
        /// section.key
        key: String,
    },
    /// Let loosened settings that wait for a person come into force
    Accept {
        /// Only this one: section.key
        key: Option<String>,
        /// Do not ask back
        #[arg(long)]
        yes: bool,
    },
    /// Print the JSON Schema of config.toml
    Schema,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_deadline_needs_background_and_a_positive_number() {
        let parse = |args: &str| Cli::try_parse_from(args.split(' '));
        assert!(parse("askd ask --tool T --deadline 5").is_err());
        assert!(parse("askd ask --tool T --background --deadline 0").is_err());
        assert!(parse("askd ask --tool T --background --deadline 5").is_ok());
        assert!(parse("askd daemon stop --no-surfaces").is_err());
        assert!(parse("askd allow k7f --all-background").is_err());
    }

    #[test]
    fn help_names_only_what_is_built() {
        let help = Cli::command().render_long_help().to_string();
        for word in ["web", "run-watch"] {
            assert!(!help.contains(&format!("\n  {word} ")), "{word} is in the help: {help}");
        }
    }

    #[test]
    fn the_agents_own_flags_stay_with_the_agent() {
        let cli = Cli::try_parse_from(["askd", "run", "--", "claude", "-p", "--json"]).unwrap();
        let Some(Command::Run { command }) = cli.command else { panic!("not run") };
        assert_eq!(command, ["claude", "-p", "--json"]);
    }
}
