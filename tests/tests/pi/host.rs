//! A host of pi's RPC mode: what an editor or a web page would be. It answers a dialog only when the test says so.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use askd_tests::{World, until};
use serde_json::{Value, json};

pub(crate) struct RpcHost {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<Value>>>,
    stderr: PathBuf,
}

impl RpcHost {
    /// Starts `askd run -- pi --mode rpc`.
    pub(crate) fn start(world: &World) -> Result<Self> {
        let mut command = Command::new(world.askd());
        command.args(["run", "--"]).args(super::pi(world, &["--mode", "rpc"])?);
        Self::spawn(world, command)
    }

    /// Starts `pi --mode rpc` as this session, without askd.
    pub(crate) fn start_alone(world: &World, session: &str) -> Result<Self> {
        let words = super::pi(world, &["--mode", "rpc", "--session-id", session])?;
        let (program, args) = words.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(args);
        Self::spawn(world, command)
    }

    fn spawn(world: &World, mut command: Command) -> Result<Self> {
        let stderr = world.file("rpc-stderr");
        command.env_clear().envs(super::env(world)).current_dir(world.project());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&stderr)?).process_group(0);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no standard output")?;
        let lines = Arc::<Mutex<Vec<Value>>>::default();
        let heard = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Ok(Self { child, stdin, lines, stderr })
    }

    pub(crate) fn send(&mut self, line: &Value) -> Result<()> {
        let Some(stdin) = self.stdin.as_mut() else { bail!("the host has left") };
        stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok(stdin.flush()?)
    }

    pub(crate) fn prompt(&mut self, script: &str) -> Result<()> {
        self.send(&json!({"id": "p", "type": "prompt", "message": format!("play={script}")}))
    }

    /// Waits for a dialog whose title contains `part`.
    pub(crate) fn dialog(&self, part: &str) -> Result<Value> {
        self.find(&format!("a dialog with {part:?}"), |line| {
            line["type"] == "extension_ui_request"
                && matches!(line["method"].as_str(), Some("select" | "input"))
                && line["title"].as_str().is_some_and(|title| title.contains(part))
        })
    }

    pub(crate) fn answer(&mut self, dialog: &Value, value: &str) -> Result<()> {
        self.send(&json!({"type": "extension_ui_response", "id": dialog["id"], "value": value}))
    }

    pub(crate) fn cancel(&mut self, dialog: &Value) -> Result<()> {
        self.send(&json!({"type": "extension_ui_response", "id": dialog["id"], "cancelled": true}))
    }

    /// Waits until the host's screen is told something that contains `part`.
    pub(crate) fn notice(&self, part: &str) -> Result<Value> {
        self.find(&format!("a notice with {part:?}"), |line| {
            line["method"] == "notify" && line["message"].as_str().is_some_and(|text| text.contains(part))
        })
    }

    pub(crate) fn settled(&self) -> Result<Value> {
        self.find("the end of the run", |line| line["type"] == "agent_settled")
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The host goes: it closes pi's input.
    pub(crate) fn leave(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn ended(&mut self) -> Result<i32> {
        let status = until("the end of askd run", || Ok(self.child.try_wait()?))?;
        Ok(status.code().unwrap_or(-1))
    }

    fn find(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        until(what, || Ok(self.lines().into_iter().find(&is_it))).with_context(|| {
            let brief = |line: &Value| line.to_string().chars().take(300).collect::<String>();
            let lines: Vec<String> = self.lines().iter().map(brief).collect();
            format!(
                "lines:\n{}\nstderr: {}",
                lines.join("\n"),
                fs::read_to_string(&self.stderr).unwrap_or_default()
            )
        })
    }
}

impl Drop for RpcHost {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
