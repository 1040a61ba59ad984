//! `askd run -- opencode serve` with one of its clients: the test itself, over opencode's own HTTP API.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use askd_tests::{Model, OpencodeApi, Program, World, children, until};
use serde_json::{Value, json};

pub(crate) struct Server {
    run: Child,
    api: OpencodeApi,
    stderr: PathBuf,
}

impl std::ops::Deref for Server {
    type Target = OpencodeApi;

    fn deref(&self) -> &OpencodeApi {
        &self.api
    }
}

impl Server {
    /// Starts it under askd and waits until it serves.
    pub(crate) fn start(world: &World, model: &Model, permission: &Value) -> Result<Self> {
        let api = OpencodeApi::new(world)?;
        let stderr = world.file("opencode-said");
        let mut command = Command::new(world.askd());
        command.args(["run", "--"]).args(Program::Opencode.command()?).arg("serve").args(api.args());
        command.env_clear().envs(super::env(world, model, permission)).envs([OpencodeApi::env()]);
        command.current_dir(world.project()).stdin(Stdio::null()).stdout(Stdio::null());
        let run = command.stderr(File::create(&stderr)?).process_group(0).spawn()?;
        let server = Self { run, api, stderr };
        until("opencode's server", || Ok((server.get("/permission")?.is_array()).then_some(())))
            .with_context(|| server.said())?;
        Ok(server)
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// The process of opencode itself.
    pub(crate) fn opencode(&self) -> Result<u32> {
        let all = children(self.run.id());
        let found = all.iter().find(|(_, line)| line.contains("serve") && line.contains("opencode"));
        Ok(found.with_context(|| format!("no opencode among {all:?}"))?.0)
    }

    /// The exit status of `askd run`, once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<i32>> {
        Ok(self.run.try_wait()?.map(|status| status.code().unwrap_or(-1)))
    }

    /// A session that begins to play a script.
    pub(crate) fn play(&self, script: &str) -> Result<String> {
        let session = self.post("/session", &json!({}))?;
        let id = session["id"].as_str().context("a session has an id")?.to_owned();
        self.say(&id, script)?;
        Ok(id)
    }

    /// Another prompt of the same session.
    pub(crate) fn say(&self, session: &str, script: &str) -> Result<()> {
        let prompt = json!({"parts": [{"type": "text", "text": format!("play={script}")}]});
        self.post(&format!("/session/{session}/prompt_async"), &prompt).map(drop)
    }

    pub(crate) fn abort(&self, session: &str) -> Result<()> {
        self.post(&format!("/session/{session}/abort"), &json!({})).map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = self.opencode() {
            drop(askd_tests::kill(pid));
        }
        drop(self.run.kill());
        drop(self.run.wait());
    }
}
