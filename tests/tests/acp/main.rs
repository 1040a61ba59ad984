//! Real ACP agents behind `askd acp`: what the client sees, what runs, and what does not.

mod agents;
mod clients;
mod opencode;

use anyhow::Result;
use askd_tests::{AcpClient, Model, Program, Step, World, behind_askd};
use serde_json::{Value, json};

/// What opencode needs to talk to the scripted model and to nothing else; shell commands ask.
fn opencode_env(world: &World, model: &Model) -> Vec<(String, String)> {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": format!("{}/v1", model.url()), "apiKey": "only-the-scripted-model-sees-this"},
        "models": {"scripted": {"name": "scripted", "tool_call": true, "limit": {"context": 100_000, "output": 4000}}},
    });
    let config = json!({
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "permission": {"bash": "ask"},
        "share": "disabled",
        "autoupdate": false,
    });
    let mut env = world.env();
    env.push(("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string()));
    env.push(("TMPDIR".to_owned(), world.file("tmp").display().to_string()));
    for switch in ["MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        env.push((format!("OPENCODE_DISABLE_{switch}"), "1".to_owned()));
    }
    env
}

/// opencode behind askd, with a session.
fn opencode(world: &World, model: &Model, capabilities: &Value) -> Result<AcpClient> {
    let mut agent = Program::Opencode.command()?;
    agent.push("acp".to_owned());
    let command = behind_askd(world.askd(), &[], &agent);
    let mut client = AcpClient::start(world, &command, opencode_env(world, model), capabilities)?;
    client.open(None)?;
    Ok(client)
}

fn bash(command: &str) -> Step {
    Step::call("bash", json!({"command": command, "description": "test step"}))
}

/// A subagent of opencode that plays `script`.
fn child(name: &str, script: &str) -> Step {
    let input = json!({"description": name, "subagent_type": "general", "prompt": format!("play={script}")});
    Step::call("task", input)
}
