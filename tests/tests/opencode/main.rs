//! The real opencode under `askd run`: asks of its main session and of its children, answered at askd and in opencode,
//! proven by files that exist or not.

mod answers;
mod faults;
mod server;

use std::fs;

use anyhow::Result;
use askd_tests::{Model, Step, World};
use serde_json::{Value, json};

/// What opencode needs to talk to the scripted model and to nothing else.
fn env(world: &World, model: &Model, permission: &Value) -> Vec<(String, String)> {
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
        "permission": permission,
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

/// Shell commands ask, everything else is allowed.
fn bash_asks() -> Value {
    json!({"bash": "ask"})
}

fn bash(command: &str) -> Step {
    Step::call("bash", json!({"command": command, "description": "test step"}))
}

/// A subagent that plays `script`.
fn child(name: &str, script: &str) -> Step {
    let input = json!({"description": name, "subagent_type": "general", "prompt": format!("play={script}")});
    Step::call("task", input)
}

/// Everything that a person's configuration consists of, by path.
fn disk(world: &World) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for place in [world.home().join(".config"), world.project()] {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for entry in entries {
            found.push(entry?.path().display().to_string());
        }
    }
    found.sort();
    Ok(found)
}
