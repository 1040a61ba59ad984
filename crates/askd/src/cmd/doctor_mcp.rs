//! What `askd doctor` says of the permission tool: whether `claude -p` needs it, where it is set up, whether that is this
//! askd. Nothing that a file names is started: a project's file is the agent's to write, and what the person's own
//! command starts may answer asks.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use askd_client::daemon::own_exe;
use askd_hook::claude::settings::asks_headless;
use serde_json::Value;

use super::doctor::Report;
use crate::cmd::setup::named;
use crate::out::{one_line, safe};

const ADD: &str =
    "put it right in that file: {\"mcpServers\":{\"askd\":{\"command\":\"askd\",\"args\":[\"mcp\"]}}}";

/// A server in Claude's MCP configuration that is called as ours is.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    file: PathBuf,
    name: String,
    command: String,
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
        match is_this_askd(&server.command, project.as_deref()) {
            Some(true) => report.good(format!(
                "permission tool {tool} in {}: claude -p --permission-prompt-tool {tool}",
                named(&server.file)
            )),
            Some(false) => report.problem(
                format!(
                    "permission tool {tool} in {}: {} is another program than this askd, and was not started",
                    named(&server.file),
                    one_line(&server.command)
                ),
                ADD,
            ),
            None => report.problem(
                format!(
                    "permission tool {tool} in {}: there is no program {}",
                    named(&server.file),
                    one_line(&server.command)
                ),
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
        let is_ours = Path::new(&command).file_name()? == "askd" && server["args"][0] == "mcp";
        is_ours.then(|| Server { file: file.to_owned(), name: name.clone(), command })
    })
    .collect()
}

/// Whether this command starts the program that runs here; `None`: there is none of this name.
fn is_this_askd(command: &str, project: Option<&Path>) -> Option<bool> {
    let path = if command.contains('/') {
        project.map_or_else(|| command.into(), |project| project.join(command))
    } else {
        let all = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&all).map(|dir| dir.join(command)).find(|path| path.is_file())?
    };
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    let named = identity(&path)?;
    Some(own_exe().and_then(|own| identity(&own)) == Some(named))
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
        assert_eq!(found[0].command, "/opt/askd");
        for broken in [&b"{"[..], b"[]", br#"{"mcpServers":[]}"#, br#"{"mcpServers":{"askd":{"command":7}}}"#]
        {
            assert_eq!(ours(Path::new("/f"), None, broken), []);
        }
    }

    #[test]
    fn only_the_program_that_runs_is_this_askd() {
        let own = own_exe().unwrap();
        assert_eq!(is_this_askd(own.to_str().unwrap(), None), Some(true));
        assert_eq!(
            is_this_askd(own.file_name().unwrap().to_str().unwrap(), own.parent()),
            None,
            "not on PATH"
        );
        let beside = format!("./{}", own.file_name().unwrap().to_str().unwrap());
        assert_eq!(is_this_askd(&beside, own.parent()), Some(true));
        assert_eq!(is_this_askd("sh", None), Some(false));
        assert_eq!(is_this_askd("/nowhere/askd", None), None);
    }
}
