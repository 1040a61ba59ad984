//! The real Claude Code under askd: every ask is real, and what was allowed is proven by files that exist or not.

mod answers;
mod faults;
mod loops;
mod mcp;
mod settings;
mod temptation;
mod terminal;

use anyhow::{Context, Result};
use askd_tests::{Host, Version, children};

/// Who has to be at the other end of a headless agent for its `PermissionRequest` hooks to run: the older version
/// runs them only beside a host. The host then never answers unless the test says so.
fn host(version: Version) -> Host {
    match version {
        Version::Newest => Host::Nobody,
        Version::Older => Host::Stdio,
    }
}

/// The hook process that waits for the outcome of an agent's open ask.
fn hook_of(agent: u32) -> Result<u32> {
    let hooks = children(agent);
    let hook = hooks.iter().find(|(_, line)| line.contains(" hook claude-code"));
    Ok(hook.with_context(|| format!("no hook among {hooks:?}"))?.0)
}
