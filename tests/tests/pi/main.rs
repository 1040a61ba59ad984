//! The real pi with its real permission extension: asks of its RPC mode, and of children that forward them through the
//! directory, answered at askd and beside it, proven by files that exist or not.

mod forwarded;
#[cfg(target_os = "linux")]
#[expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]
#[path = "../../../crates/askd/tests/cli/spool/fuse.rs"]
mod fuse;
mod host;
#[cfg(target_os = "linux")]
mod mount;
mod rpc;
mod run;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use askd_tests::{Model, Program, Step, World, package};
use serde_json::{Value, json};

/// pi's own directory in this world.
fn agent_dir(world: &World) -> PathBuf {
    world.home().join(".pi/agent")
}

/// Sets pi up for the scripted model, with these rules for its permission extension.
fn install(world: &World, model: &Model, rules: &Value) -> Result<()> {
    let dir = agent_dir(world);
    let extension = dir.join("extensions/pi-permission-system");
    fs::create_dir_all(&extension)?;
    let scripted = json!({
        "baseUrl": format!("{}/v1", model.url()),
        "api": "openai-completions",
        "apiKey": "only-the-scripted-model-sees-this",
        "models": [{"id": "scripted"}],
    });
    fs::write(dir.join("models.json"), json!({"providers": {"scripted": scripted}}).to_string())?;
    let settings = json!({"defaultProvider": "scripted", "defaultModel": "scripted"});
    fs::write(dir.join("settings.json"), settings.to_string())?;
    fs::write(extension.join("config.json"), json!({"permission": rules}).to_string())?;
    let [node, script] = &Program::Pi.command()?[..] else { anyhow::bail!("pi is a script") };
    let program = world.file("bin/pi");
    fs::create_dir_all(world.file("bin"))?;
    fs::write(&program, format!("#!/bin/sh\nexec {node} {script} \"$@\"\n"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Commands ask, everything else is allowed.
fn bash_asks() -> Value {
    json!({"*": "allow", "bash": "ask"})
}

/// pi's command line with the extension.
fn pi(world: &World, args: &[&str]) -> Result<Vec<String>> {
    let extension = package("@gotgenes/pi-permission-system")?;
    let mut command = vec![world.file("bin/pi").display().to_string()];
    command.extend(["-e".to_owned(), extension.display().to_string()]);
    command.extend(args.iter().map(|arg| (*arg).to_owned()));
    Ok(command)
}

/// The whole environment of pi.
fn env(world: &World) -> Vec<(String, String)> {
    let mut env = world.env();
    env.push(("PI_OFFLINE".to_owned(), "1".to_owned()));
    env.push(("TMPDIR".to_owned(), world.file("tmp").display().to_string()));
    env
}

fn bash(command: &str) -> Step {
    Step::call("bash", json!({"command": command}))
}

fn forwarding_dir(world: &World) -> PathBuf {
    agent_dir(world).join("sessions/permission-forwarding")
}

/// Every file in the directory, by its path within.
fn files(dir: &Path) -> BTreeSet<String> {
    let (mut found, mut dirs) = (BTreeSet::new(), vec![dir.to_path_buf()]);
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() && !path.is_symlink() => dirs.push(path),
                path => drop(found.insert(path.strip_prefix(dir).unwrap_or(&path).display().to_string())),
            }
        }
    }
    found
}
