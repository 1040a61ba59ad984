//! pi with the extension pi-permission-system: its RPC mode behind a proxy, and where pi keeps what. It never decides an
//! ask. Asks that travel through pi's forwarding directory are another module's.
//!
//! Read [`rpc`] first, and [`found`]: what keeps pi's asks from askd.

use std::env;
use std::path::PathBuf;

pub mod found;
pub mod rpc;

/// How askd names this agent.
pub const AGENT: &str = "pi";

/// pi's own directory for settings, sessions and extensions: `PI_CODING_AGENT_DIR`, else `~/.pi/agent`. None: no home.
pub fn agent_dir() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let home = || set("HOME").map(PathBuf::from);
    match set("PI_CODING_AGENT_DIR").map(PathBuf::from) {
        // As pi itself expands it.
        Some(dir) => match dir.strip_prefix("~") {
            Ok(rest) => Some(home()?.join(rest)),
            Err(_) => Some(dir),
        },
        None => Some(home()?.join(".pi/agent")),
    }
}
