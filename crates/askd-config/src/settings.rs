//! The settings as the programs use them, with their defaults.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Everything that can be set.
// Descriptions of the schema are the meanings in `keys`; a test holds the two together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "askd config.toml", description = "The settings of askd.")]
pub struct Settings {
    /// How asks are settled when nobody answers.
    pub permissions: Permissions,
    /// The hook programs of agents.
    pub hook: Hook,
    /// The proxy between an ACP client and an ACP agent.
    pub acp: Acp,
    /// Claude Code behind `askd claude`.
    pub claude: Claude,
    /// What a silence on remote surfaces means.
    pub remote: Remote,
    /// How a new ask makes itself known.
    pub notify: Notify,
    /// Asks in a Telegram chat.
    pub telegram: Telegram,
    /// Where asks are written down.
    pub journal: Journal,
    /// The daemon itself.
    pub daemon: Daemon,
    /// Forwarding directories.
    pub spool: Spool,
}

/// `[spool]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Spool {
    /// Forwarding directories that the daemon serves, as absolute paths; for pi the directory sessions/permission-forwarding in its agent directory.
    pub dirs: Vec<PathBuf>,
}

/// `[permissions]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Seconds that a background ask waits for an answer before `background_default` settles it.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub background_timeout_secs: u64,
    /// What settles a background ask at its deadline.
    pub background_default: TimedDefault,
    /// Seconds that a background safety ask waits for an answer before `safety_default` settles it.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub safety_timeout_secs: u64,
    /// What settles a background safety ask at its deadline.
    pub safety_default: TimedDefault,
    /// What a timed deny of a background ask does to the turn: the agent goes on with the deny, or stops.
    pub background_deny: BackgroundDeny,
    /// Background tool asks of one root session that wait behind the one in front; the next is answered by its default at once. 0: no cap.
    #[schemars(range(min = 0, max = 10_000))]
    pub queue_cap: u64,
    /// Allows every tool ask everywhere without asking anybody, and never a safety ask.
    pub dangerously_skip_permissions: bool,
    /// When an ask counts as unreachable and is denied at once: only when no surface can exist, or already when none is attached and no remote is configured.
    pub unreachable: Unreachable,
    /// Seconds for which a person's answer that came too late may still settle one later ask for the same call; 0 keeps none.
    #[schemars(range(min = 0, max = 600))]
    pub late_answer_secs: u64,
}

/// `[remote]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Remote {
    /// Seconds after which a silence on a remote surface settles a foreground ask that it shows; 0: a silence decides nothing.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_secs: u64,
    /// What settles it then; a safety ask is only ever denied.
    pub timeout_action: TimedDefault,
}

impl Default for Remote {
    fn default() -> Self {
        Self { timeout_secs: 0, timeout_action: TimedDefault::Deny }
    }
}

/// `[notify]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// Whether the terminal queue rings the bell when an ask arrives.
    pub bell: bool,
    /// A command that is run by the shell for every new ask, with the ask as JSON on its standard input, secrets covered.
    pub command: String,
}

impl Default for Notify {
    fn default() -> Self {
        Self { bell: true, command: String::new() }
    }
}

/// `[telegram]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telegram {
    /// The file with the bot's token, readable by its owner only. Of the three ways to give a token the first that is set counts.
    pub token_file: String,
    /// The name of the environment variable with the bot's token; it counts only for a daemon that you start by `askd daemon`.
    pub token_env: String,
    /// A command that is run by the shell and prints the bot's token.
    pub token_cmd: String,
    /// Ids of the chats that asks are sent to; from other chats nothing is taken.
    pub chat_ids: Vec<i64>,
    /// Ids of the people who may answer there; others are not heard.
    pub user_ids: Vec<i64>,
    /// Asks that are shown there at once; the others wait in order. 1: one after the other.
    #[schemars(range(min = 1, max = 100))]
    pub max_open: u64,
    /// The Bot API server.
    pub api_url: String,
    /// The proxy on the way to the Bot API server; without it there is none, whatever the environment says.
    pub proxy: String,
    /// Fingerprint of the token that was read; not a key, so that a token is in force only after a person accepted it.
    #[serde(skip)]
    #[schemars(skip)]
    pub token: Option<String>,
}

/// The Bot API server of Telegram itself.
pub(crate) const TELEGRAM_API: &str = "https://api.telegram.org";

impl Default for Telegram {
    fn default() -> Self {
        Self {
            token_file: String::new(),
            token_env: String::new(),
            token_cmd: String::new(),
            chat_ids: Vec::new(),
            user_ids: Vec::new(),
            max_open: 5,
            api_url: TELEGRAM_API.to_owned(),
            proxy: String::new(),
            token: None,
        }
    }
}

impl Telegram {
    /// Somebody began to set it up.
    pub fn is_wanted(&self) -> bool {
        [&self.token_file, &self.token_env, &self.token_cmd].iter().any(|way| !way.is_empty())
    }

    /// A token that was read, somebody to send to and somebody to hear: it can work.
    pub fn is_complete(&self) -> bool {
        self.token.is_some() && !self.chat_ids.is_empty() && !self.user_ids.is_empty()
    }
}

/// `[hook]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hook {
    /// Whether the hook holds the ask of a background subagent, whose dialog in the agent's terminal waits as long: auto holds it while a surface is attached or a remote is configured, never hands it back at once.
    pub hold_background: HoldBackground,
}

/// `[acp]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Acp {
    /// What a dialog means that the client closed without an answer and without cancelling the turn: ignore leaves the ask open while other surfaces are attached, cancel tells the agent that it was cancelled.
    pub client_dismiss: ClientDismiss,
    /// Seconds for which asks stay open on other surfaces, and their agent runs, after the client is gone.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub client_grace_secs: u64,
    /// How a client without subagent sessions sees asks of subagents: auto as the agent sends them, translate asks the agent for subagent sessions and shows their asks on the parent's session.
    pub subagents: Subagents,
}

impl Default for Acp {
    fn default() -> Self {
        Self { client_dismiss: ClientDismiss::Ignore, client_grace_secs: 60, subagents: Subagents::Auto }
    }
}

/// `[claude]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Claude {
    /// Seconds for which background shells may run on after the last turn when the host has closed its end; then Claude is told to stop them, and a turn that follows is still asked about. 0: as long as they run.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub shell_patience_secs: u64,
}

/// What a dismissed dialog means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ClientDismiss {
    Ignore,
    Cancel,
}

/// Subagents of an agent whose client has no subagent sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Subagents {
    Auto,
    Translate,
}

/// `[journal]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Journal {
    /// The journal: `sqlite:` in its default place, or `sqlite:` and a path.
    pub url: JournalUrl,
    /// Days for which settled asks are kept.
    #[schemars(range(min = 1, max = 36_500))]
    pub retention_days: u64,
}

/// `[daemon]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    /// Whether a requester starts the daemon when none runs.
    pub autostart: bool,
}

impl Default for Permissions {
    fn default() -> Self {
        Self {
            background_timeout_secs: 360,
            background_default: TimedDefault::Deny,
            safety_timeout_secs: 360,
            safety_default: TimedDefault::Deny,
            background_deny: BackgroundDeny::Continue,
            queue_cap: 5,
            dangerously_skip_permissions: false,
            unreachable: Unreachable::WhenNoSurface,
            late_answer_secs: 60,
        }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self { url: JournalUrl::default(), retention_days: 30 }
    }
}

impl Default for Daemon {
    fn default() -> Self {
        Self { autostart: true }
    }
}

/// The answer of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TimedDefault {
    Allow,
    Deny,
}

/// What a timed deny does to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum BackgroundDeny {
    Continue,
    Stop,
}

/// When nobody can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Unreachable {
    WhenNoSurface,
    WhenNoneAttached,
}

/// Whether a hook holds the ask of a background subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HoldBackground {
    #[default]
    Auto,
    Always,
    Never,
}

/// Which journal: SQLite, in its default place or at a path. Written `sqlite:` or `sqlite:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalUrl {
    path: Option<PathBuf>,
}

impl JournalUrl {
    /// The journal at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()) }
    }

    /// The path of the SQLite file; none for the default place in the state directory. Relative only when a flag
    /// said so, and then to the working directory of the program that was given the flag.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for JournalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "sqlite:{}", path.display()),
            None => f.write_str("sqlite:"),
        }
    }
}

impl Serialize for JournalUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for JournalUrl {
    fn schema_name() -> Cow<'static, str> {
        "JournalUrl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^sqlite:(/.*)?$" })
    }
}
