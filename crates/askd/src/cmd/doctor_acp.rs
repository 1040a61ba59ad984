//! What `askd doctor` says of ACP clients and of agents other than Claude Code.

use std::path::Path;

use crate::claude::on_path;
use crate::clients::Client;
use crate::out::safe;

use super::doctor::Report;
use super::setup_client;

/// What an agent keeps from everybody, askd too, and what to do about it: by a word of its command line.
const HIDES: [(&str, &str, &str); 4] = [
    (
        "claude-agent-acp",
        "starts in mode auto, in which a model decides what is asked",
        "choose the mode default in the client",
    ),
    (
        "codex-acp",
        "starts in mode agent, in which a model decides what is asked",
        "choose the mode read-only or workspace-write in the client",
    ),
    (
        "qwen",
        "denies by itself whatever its background subagents would ask, and starts in mode auto, in which a model decides",
        "choose the mode default in the client, and have subagents run in the foreground",
    ),
    (
        "opencode",
        "asks only what its settings tell it to: without a permission of \"ask\" it runs commands unasked",
        "{\"permission\": {\"bash\": \"ask\", \"edit\": \"ask\"}} in opencode.json",
    ),
];

pub(super) fn clients(report: &mut Report) {
    let mut said: Vec<&str> = Vec::new();
    for client in Client::ALL {
        let Ok(file) = setup_client::file(client) else { continue };
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let place = format!("{} ({})", client.name(), safe(&file.to_string_lossy()));
        let entries = match client.entries(&text) {
            Ok(entries) => entries,
            Err(error) => {
                report.problem(
                    format!("{place}: {error}"),
                    "put it right; the client may not read it as it is",
                );
                continue;
            }
        };
        for entry in entries {
            let name = safe(&entry.name);
            match (&entry.agent, entry.behind) {
                (Some(_), true) => report.good(format!("{place}: {name} runs behind askd")),
                (Some(_), false) => report.note(
                    format!("{place}: {name} does not run behind askd"),
                    format!("askd setup {}", client.word()),
                ),
                (None, _) => report.note(
                    format!("{place}: {name} has no command that askd could stand before"),
                    format!("give it one: askd setup {} shows how", client.word()),
                ),
            }
            for (word, what, todo) in HIDES {
                if is_agent(entry.agent.as_deref().unwrap_or_default(), word) && !said.contains(&word) {
                    said.push(word);
                    hides(report, word, what, todo);
                }
            }
        }
    }
    for (word, what, todo) in HIDES {
        if !said.contains(&word) && on_path(word).is_some() {
            hides(report, word, what, todo);
        }
    }
}

fn hides(report: &mut Report, word: &str, what: &str, todo: &str) {
    if word == "opencode" && opencode_asks() {
        report.good("opencode: its settings have permissions that ask");
    } else {
        report.note(format!("{word} {what}"), todo);
    }
}

fn is_agent(line: &[String], word: &str) -> bool {
    line.iter().any(|part| {
        let name = Path::new(part).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        name == word || part.split(['/', '@']).any(|piece| piece == word || piece == format!("{word}-ai"))
    })
}

/// The person's own settings have a permission that asks.
fn opencode_asks() -> bool {
    let Some(home) = std::env::home_dir() else { return false };
    let config = std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), Into::into);
    ["opencode.json", "opencode.jsonc"].iter().any(|name| {
        let text = std::fs::read_to_string(config.join("opencode").join(name)).unwrap_or_default();
        text.split_once("\"permission\"").is_some_and(|(_, rest)| rest.contains("\"ask\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_known_however_it_is_started() {
        let known = |line: &[&str], word: &str| {
            let line: Vec<String> = line.iter().map(|part| (*part).to_owned()).collect();
            is_agent(&line, word)
        };
        assert!(known(&["npx", "-y", "@agentclientprotocol/claude-agent-acp@0.101.0"], "claude-agent-acp"));
        assert!(known(&["/opt/bin/opencode", "acp"], "opencode"));
        assert!(known(&["npx", "opencode-ai@latest", "acp"], "opencode"));
        assert!(!known(&["opencoder"], "opencode") && !known(&["qwen2"], "qwen"));
    }
}
