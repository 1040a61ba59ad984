//! A scripted ACP client at the other end of an agent's standard input and output: the editor of the tests. It answers
//! an ask only when the test says so.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::patience::until;
use crate::processes;
use crate::world::World;

/// A running agent with its client; it and its group end when this is dropped.
pub struct AcpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Arc<Mutex<Vec<Value>>>,
    stderr: PathBuf,
    project: PathBuf,
    next: u64,
    /// The session that [`AcpClient::open`] made.
    pub session: String,
}

impl AcpClient {
    /// Starts `command` in the project and says who the client is.
    pub fn start(
        world: &World,
        command: &[String],
        env: impl IntoIterator<Item = (String, String)>,
        capabilities: &Value,
    ) -> Result<Self> {
        let (program, args) = command.split_first().context("no command")?;
        let stderr = world.file("acp-stderr");
        let mut process = Command::new(program);
        process.args(args).env_clear().envs(env).current_dir(world.project());
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&stderr)?).process_group(0);
        let mut child = process.spawn().with_context(|| format!("{program} cannot be started"))?;
        let stdin = child.stdin.take();
        let frames = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            let frames = Arc::clone(&frames);
            thread::spawn(move || collect(stdout, &frames));
        }
        let project = world.project();
        let mut client = Self { child, stdin, frames, stderr, project, next: 0, session: String::new() };
        client.call(
            "initialize",
            &json!({
                "protocolVersion": 1,
                "clientCapabilities": capabilities,
                "clientInfo": {"name": "scripted-client", "version": "1"},
            }),
        )?;
        Ok(client)
    }

    /// Makes a session, in this mode if the agent has several.
    pub fn open(&mut self, mode: Option<&str>) -> Result<()> {
        let params = json!({"cwd": self.project.display().to_string(), "mcpServers": []});
        let made = self.call("session/new", &params)?;
        self.session = made["sessionId"].as_str().context("a session has an id")?.to_owned();
        if let Some(mode) = mode {
            self.call("session/set_mode", &json!({"sessionId": self.session, "modeId": mode}))?;
        }
        Ok(())
    }

    /// Prompts the session; [`AcpClient::result`] of what this returns waits for the end of the turn.
    pub fn prompt(&mut self, text: &str) -> Result<u64> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send_request("session/prompt", &json!({"sessionId": self.session, "prompt": prompt}))
    }

    /// Cancels the turn. It answers no ask by that: the test does.
    pub fn cancel(&mut self) -> Result<()> {
        self.send(&json!({"method": "session/cancel", "params": {"sessionId": self.session}}))
    }

    /// Waits for an ask whose tool call tells of `part`; gives the whole request.
    pub fn ask(&self, part: &str) -> Result<Value> {
        self.find(&format!("an ask about {part:?} at the client"), |frames| {
            let is_it = |frame: &&Value| {
                frame["method"] == "session/request_permission"
                    && frame["params"]["toolCall"].to_string().contains(part)
            };
            frames.iter().rfind(is_it).cloned()
        })
    }

    /// All asks that came so far.
    pub fn asks(&self) -> Vec<Value> {
        let asks = |frame: &&Value| frame["method"] == "session/request_permission";
        self.frames().iter().filter(asks).cloned().collect()
    }

    /// Everything that came so far with this method.
    pub fn notifications(&self, method: &str) -> Vec<Value> {
        self.frames().iter().filter(|frame| frame["method"] == method).cloned().collect()
    }

    /// Waits for an update of a session that `as_wanted` knows.
    pub fn update(&self, what: &str, as_wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        self.find(what, |frames| {
            let mut updates = frames.iter().filter(|frame| frame["method"] == "session/update");
            updates.find(|frame| as_wanted(&frame["params"])).map(|frame| frame["params"].clone())
        })
    }

    /// Chooses an option of an ask.
    pub fn choose(&mut self, ask: &Value, option: &str) -> Result<()> {
        self.reply(ask, &json!({"outcome": "selected", "optionId": option}))
    }

    /// Closes the dialog of an ask without an answer.
    pub fn dismiss(&mut self, ask: &Value) -> Result<()> {
        self.reply(ask, &json!({"outcome": "cancelled"}))
    }

    /// Waits until the client is told that this ask needs no answer any more.
    pub fn withdrawn(&self, ask: &Value) -> Result<()> {
        self.find("the withdrawal of an ask at the client", |frames| {
            let gone = |frame: &&Value| {
                frame["method"] == "$/cancel_request" && frame["params"]["requestId"] == ask["id"]
            };
            frames.iter().find(gone).map(|_| ())
        })
    }

    /// Waits for the reply to one of the client's requests.
    pub fn result(&self, id: u64) -> Result<Value> {
        let reply = self.find("the agent's reply", |frames| {
            frames.iter().find(|frame| frame["id"] == id && frame.get("method").is_none()).cloned()
        })?;
        match reply.get("error") {
            Some(error) => Err(anyhow!("the agent refused: {error}")),
            None => Ok(reply["result"].clone()),
        }
    }

    /// Why the turn of a prompt ended.
    pub fn stop_reason(&self, prompt: u64) -> Result<String> {
        Ok(self.result(prompt)?["stopReason"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send_request(method, params)?;
        self.result(id).with_context(|| method.to_owned())
    }

    /// The process that was started.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The client goes: it closes the agent's input.
    pub fn leave(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process; its exit status, none when a signal ended it.
    pub fn ended(&mut self) -> Result<Option<i32>> {
        until("the end of the agent", || Ok(self.child.try_wait()?)).map(|status| status.code())
    }

    /// What it wrote to standard error.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn reply(&mut self, ask: &Value, outcome: &Value) -> Result<()> {
        self.send(&json!({"id": ask["id"], "result": {"outcome": outcome}}))
    }

    fn send(&mut self, frame: &Value) -> Result<()> {
        let mut frame = frame.clone();
        frame["jsonrpc"] = "2.0".into();
        let Some(stdin) = self.stdin.as_mut() else { bail!("the client has left") };
        stdin.write_all(format!("{frame}\n").as_bytes())?;
        stdin.flush()?;
        Ok(())
    }

    fn frames(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find<T>(&self, what: &str, look: impl Fn(&[Value]) -> Option<T>) -> Result<T> {
        let found = until(what, || Ok(look(&self.frames())));
        found.with_context(|| {
            let frames: Vec<String> = self.frames().iter().map(|frame| brief(&frame.to_string())).collect();
            format!("frames:\n{}\nstderr: {}", frames.join("\n"), self.said())
        })
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        processes::kill_group(self.child.id());
        drop(self.child.wait());
    }
}

fn brief(text: &str) -> String {
    text.chars().take(400).collect()
}

fn collect(stdout: ChildStdout, frames: &Mutex<Vec<Value>>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        let frame = serde_json::from_str(&line).unwrap_or(Value::String(line));
        frames.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
    }
}

/// The command line of an agent behind `askd acp`.
pub fn behind_askd(askd: &Path, flags: &[&str], agent: &[String]) -> Vec<String> {
    let mut command = vec![askd.display().to_string(), "acp".to_owned()];
    command.extend(flags.iter().map(|flag| (*flag).to_owned()));
    command.push("--".to_owned());
    command.extend(agent.iter().cloned());
    command
}
