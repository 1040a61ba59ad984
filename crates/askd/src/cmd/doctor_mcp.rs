//! What `askd doctor` says of the permission tool: whether `claude -p` needs it, where it is set up, whether it replies.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use askd_hook::claude::settings::asks_headless;
use serde_json::{Value, json};

use super::doctor::Report;
use crate::out::{one_line, safe};

/// For the first replies of a server.
const PATIENCE: Duration = Duration::from_secs(10);
const ADD: &str =
    "put it right in that file: {\"mcpServers\":{\"askd\":{\"command\":\"askd\",\"args\":[\"mcp\"]}}}";

/// A server of ours in Claude's MCP configuration.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    file: PathBuf,
    name: String,
    command: String,
    args: Vec<String>,
}

/// `version`: of the Claude Code that is installed.
pub(super) fn permission_tool(version: Option<&str>, report: &mut Report) {
    let project = std::env::current_dir().ok();
    let mut servers = Vec::new();
    for file in files(project.as_deref()) {
        match std::fs::read(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => report.note(format!("{}: {error}", named(&file)), "make it readable"),
            // Whether it is JSON at all is Claude's to say.
            Ok(bytes) => servers.extend(ours(&file, project.as_deref(), &bytes)),
        }
    }
    for server in &servers {
        let tool = format!("mcp__{}__{}", safe(&server.name), askd_mcp::TOOL);
        match replies(server) {
            Ok(()) => report.good(format!(
                "permission tool {tool} in {}: claude -p --permission-prompt-tool {tool}",
                named(&server.file)
            )),
            Err(why) => report.problem(
                format!("permission tool {tool} in {}: {}", named(&server.file), one_line(&why)),
                ADD,
            ),
        }
    }
    match version.and_then(|version| Some((version, asks_headless(version)?))) {
        Some((_, true)) if servers.is_empty() => {
            report.good("claude -p asks by its hooks; the permission tool is not set up, and not needed");
        }
        Some((version, false)) => report.note(
            format!(
                "claude -p of {} runs no permission hooks: what it would ask there is denied",
                safe(version)
            ),
            if servers.is_empty() {
                "askd run -- claude -p …, which adds the permission tool by itself"
            } else {
                "askd run -- claude -p …, or name the permission tool as above"
            },
        ),
        _ => {}
    }
}

/// Where Claude keeps MCP servers, the project's first.
fn files(project: Option<&Path>) -> Vec<PathBuf> {
    let given = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let own = given.or_else(std::env::home_dir).map(|dir| dir.join(".claude.json"));
    project.map(|project| project.join(".mcp.json")).into_iter().chain(own).collect()
}

/// The servers in this file that are `askd mcp`, for everybody or for this project.
fn ours(file: &Path, project: Option<&Path>, bytes: &[u8]) -> Vec<Server> {
    let Ok(text) = serde_json::from_slice::<Value>(bytes) else { return Vec::new() };
    let here = project.and_then(|project| text["projects"].get(project.to_str()?)).unwrap_or(&Value::Null);
    let servers = [&text["mcpServers"], &here["mcpServers"]];
    let all = servers.into_iter().filter_map(Value::as_object).flatten();
    all.filter_map(|(name, server)| {
        let command = server["command"].as_str()?.to_owned();
        let args: Vec<String> =
            server["args"].as_array()?.iter().filter_map(|arg| Some(arg.as_str()?.to_owned())).collect();
        let is_ours = Path::new(&command).file_name()? == "askd" && args.first()? == "mcp";
        is_ours.then(|| Server { file: file.to_owned(), name: name.clone(), command, args })
    })
    .collect()
}

/// Starts the server as Claude does, and looks for the tool among those that it names.
fn replies(server: &Server) -> Result<(), String> {
    let mut child = Command::new(&server.command)
        .args(&server.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", safe(&server.command)))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (lines, line) = mpsc::channel();
    std::thread::spawn(move || {
        for text in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok))
        {
            if lines.send(text).is_err() {
                return;
            }
        }
    });
    let info = json!({"name": "askd doctor", "version": askd_wire::VERSION});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let said = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ];
    // One that ended does not read; it is told by what it does not reply.
    let mut stdin = stdin;
    for message in &said {
        let _ = stdin.as_mut().map(|stdin| writeln!(stdin, "{message}"));
    }
    let until = Instant::now() + PATIENCE;
    let found = loop {
        let Ok(text) = line.recv_timeout(until.saturating_duration_since(Instant::now())) else { break None };
        let reply: Value = serde_json::from_str(&text).unwrap_or_default();
        if reply["id"] == 1 {
            break Some(reply["result"]["tools"].as_array().cloned().unwrap_or_default());
        }
    };
    drop(stdin);
    let _ = child.kill();
    let _ = child.wait();
    match found {
        None => Err(format!("{} does not reply within {}s", safe(&server.command), PATIENCE.as_secs())),
        Some(tools) if tools.iter().any(|tool| tool["name"] == askd_mcp::TOOL) => Ok(()),
        Some(_) => Err(format!("{} has no tool {}", safe(&server.command), askd_mcp::TOOL)),
    }
}

fn named(path: &Path) -> String {
    safe(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_ours_are_found_for_everybody_and_for_this_project() {
        let text = br#"{"mcpServers":{"askd":{"command":"/opt/askd","args":["mcp","--dir","/d"]},
            "other":{"command":"node","args":["mcp"]},"remote":{"type":"http","url":"https://x"}},
            "projects":{"/p":{"mcpServers":{"permissions":{"command":"askd","args":["mcp"]}}},
            "/q":{"mcpServers":{"elsewhere":{"command":"askd","args":["mcp"]}}}}}"#;
        let found = ours(Path::new("/f"), Some(Path::new("/p")), text);
        let names: Vec<&str> = found.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["askd", "permissions"]);
        assert_eq!(found[0].args, ["mcp", "--dir", "/d"]);
        for broken in [&b"{"[..], b"[]", br#"{"mcpServers":[]}"#, br#"{"mcpServers":{"askd":{"command":7}}}"#]
        {
            assert_eq!(ours(Path::new("/f"), None, broken), []);
        }
    }

    #[test]
    fn a_server_that_is_not_there_or_says_nothing_is_told_as_that() {
        let server = |command: &str| Server {
            file: "/f".into(),
            name: "askd".to_owned(),
            command: command.to_owned(),
            args: Vec::new(),
        };
        assert!(replies(&server("/nowhere/askd")).unwrap_err().contains("cannot be started"));
        assert!(replies(&server("/bin/true")).unwrap_err().contains("does not reply"));
    }
}
