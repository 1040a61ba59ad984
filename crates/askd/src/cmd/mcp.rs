//! `askd mcp`: the permission tool that Claude Code calls, on standard input and output.

use std::fs;
use std::time::Duration;

use askd_client::daemon;
use askd_mcp::Options;
use askd_wire::{Attendance, Instance};

use super::acp;
use crate::cli::McpArgs;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, one_line};

/// What of a program's arguments says that a host drives Claude.
const HOST_INPUT: &str = "stream-json";

pub(crate) fn mcp(desk: &Desk, args: &McpArgs) -> Done {
    let installed = acp::places(&args.dir, &args.config_home, &args.state_home)?;
    let agent = std::os::unix::process::parent_id();
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let options = Options {
        places: installed.unwrap_or_else(|| desk.places.clone()),
        exe: daemon::own_exe(),
        // Claude tells its servers which session it is; another client is told by its process.
        session: var("CLAUDE_CODE_SESSION_ID").unwrap_or_else(|| format!("mcp-{agent}")),
        instance: Instance { pid: agent, start: 0 },
        attendance: attendance(agent),
        // Claude's own limit of a tool call, in milliseconds; it has none by itself.
        gives_up: var("MCP_TOOL_TIMEOUT").and_then(|ms| ms.parse().ok()).map(Duration::from_millis),
        log: |text| out::tell(&format!("askd mcp: {}", one_line(text))),
    };
    askd_mcp::run(options).map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(status::OK)
}

/// An agent with nobody at it, neither in a terminal nor as a host that drives it, is in the background. Of every other
/// the daemon knows best who is there.
fn attendance(agent: u32) -> Option<Attendance> {
    let stat = fs::read_to_string(format!("/proc/{agent}/stat")).ok()?;
    let arguments = fs::read(format!("/proc/{agent}/cmdline")).ok()?;
    alone(&stat, &arguments).then_some(Attendance::Background)
}

/// `stat` and `cmdline` of a process as `/proc` tells them.
fn alone(stat: &str, arguments: &[u8]) -> bool {
    // Behind the name, which may hold anything; field 7 of proc(5), the terminal, is the fifth there.
    let tty = stat.rfind(')').and_then(|at| stat.get(at + 1..)?.split_ascii_whitespace().nth(4));
    let hosted = arguments.split(|byte| *byte == 0).any(|argument| {
        let input = argument.strip_prefix(b"--input-format=").unwrap_or(argument);
        input == HOST_INPUT.as_bytes()
    });
    tty == Some("0") && !hosted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t19_only_an_agent_with_neither_terminal_nor_host_is_alone() {
        let stat = |tty: &str| format!("7 (a ) 9) S 1 7 7 {tty} -1");
        assert!(alone(&stat("0"), b"claude\0-p\0do it\0"));
        assert!(!alone(&stat("34816"), b"claude\0-p\0do it\0"));
        assert!(!alone(&stat("0"), b"claude\0-p\0--input-format\0stream-json\0"));
        assert!(!alone(&stat("0"), b"claude\0-p\0--input-format=stream-json\0"));
        assert!(!alone("broken", b""));
    }
}
