//! Claude Code without a terminal: it reads and writes JSON lines.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use crate::agents::Version;
use crate::model::Model;
use crate::patience::until;
use crate::processes;
use crate::world::World;

/// Whether the program at the other end of the pipe can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Nobody is there to ask; only hooks can answer.
    Nobody,
    /// The control protocol: the test itself is the host.
    Stdio,
}

/// An ask as the host gets it.
pub struct Request {
    id: String,
    /// The tool's input.
    pub input: Value,
}

/// A running agent; it and its group end when this is dropped.
pub struct Headless {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Arc<Mutex<Vec<Value>>>,
    stderr: PathBuf,
    /// How many asks were already taken by [`Headless::request`].
    taken: usize,
}

impl Headless {
    /// Starts the agent in the world's project folder.
    pub fn start(world: &World, version: Version, model: &Model, host: Host) -> Result<Self> {
        let mut command = Command::new(version.binary()?);
        command.env_clear().envs(world.agent_env(model)).current_dir(world.project());
        Self::spawn(world, command, host)
    }

    /// Starts an agent by a command of the test's own; the flags of the headless mode are added to it.
    pub fn spawn(world: &World, mut command: Command, host: Host) -> Result<Self> {
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        if host == Host::Stdio {
            command.args(["--permission-prompt-tool", "stdio"]);
        }
        let stderr = world.file("agent-stderr");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&stderr)?).process_group(0);
        let mut child = command.spawn().context("the agent cannot be started")?;
        let stdin = child.stdin.take();
        let frames = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            let frames = Arc::clone(&frames);
            thread::spawn(move || collect(stdout, &frames));
        }
        Ok(Self { child, stdin, frames, stderr, taken: 0 })
    }

    /// The agent's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says something as the user.
    pub fn say(&mut self, text: &str) -> Result<()> {
        self.send(&json!({
            "type": "user",
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
            "session_id": "",
        }))
    }

    /// Stops the turn, as a host does for the user.
    pub fn interrupt(&mut self) -> Result<()> {
        let request = json!({"subtype": "interrupt"});
        self.send(&json!({"type": "control_request", "request_id": "stop", "request": request}))
    }

    /// Waits for the next ask that comes to the host.
    pub fn request(&mut self) -> Result<Request> {
        let taken = self.taken;
        let frame = self.find("an ask of the agent to its host", move |frames| {
            let mut asks = frames.iter().filter(|frame| frame["request"]["subtype"] == "can_use_tool");
            asks.nth(taken).cloned()
        })?;
        self.taken += 1;
        let id = frame["request_id"].as_str().unwrap_or_default().to_owned();
        Ok(Request { id, input: frame["request"]["input"].clone() })
    }

    /// Answers an ask as the host: allowed with this input.
    pub fn allow(&mut self, request: &Request, input: &Value) -> Result<()> {
        self.respond(request, &json!({"behavior": "allow", "updatedInput": input}))
    }

    /// Answers an ask as the host: denied with this text.
    pub fn deny(&mut self, request: &Request, message: &str) -> Result<()> {
        self.respond(request, &json!({"behavior": "deny", "message": message}))
    }

    /// Fails to answer an ask as the host.
    pub fn fail(&mut self, request: &Request, error: &str) -> Result<()> {
        let response = json!({"subtype": "error", "request_id": request.id, "error": error});
        self.send(&json!({"type": "control_response", "response": response}))
    }

    /// Waits until the host is told that this ask needs no answer any more.
    pub fn cancelled(&self, request: &Request) -> Result<()> {
        self.find("the withdrawal of an ask at its host", |frames| {
            let gone = |frame: &&Value| {
                frame["type"] == "control_cancel_request" && frame["request_id"] == request.id.as_str()
            };
            frames.iter().find(gone).map(|_| ())
        })
    }

    /// Waits for the `n`th end of a turn, counted from one.
    pub fn turn_end(&self, n: usize) -> Result<Value> {
        self.find("the end of the turn", |frames| {
            frames.iter().filter(|frame| frame["type"] == "result").nth(n - 1).cloned()
        })
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.stderr)?)
    }

    /// Closes the input and nothing else.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process; its exit status.
    pub fn end(&mut self) -> Result<Option<i32>> {
        until("the end of the agent", || Ok(self.child.try_wait()?.map(|status| status.code())))
    }

    /// Everything that it wrote so far.
    pub fn frames(&self) -> Vec<Value> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the input and waits for the end of the process.
    pub fn finish(&mut self) -> Result<()> {
        self.stdin = None;
        until("the end of the agent", || Ok(self.child.try_wait()?.map(|_| ())))
    }

    /// Ends the agent's process, and nothing else, at once.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Answers an ask as the host, in these words.
    pub fn respond(&mut self, request: &Request, response: &Value) -> Result<()> {
        let response = json!({"subtype": "success", "request_id": request.id, "response": response});
        self.send(&json!({"type": "control_response", "response": response}))
    }

    /// Writes one line.
    pub fn send(&mut self, frame: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().ok_or_else(|| anyhow!("the agent's input is closed"))?;
        stdin.write_all(format!("{frame}\n").as_bytes())?;
        stdin.flush()?;
        Ok(())
    }

    fn find<T>(&self, what: &str, look: impl Fn(&[Value]) -> Option<T>) -> Result<T> {
        let found = until(what, || Ok(look(&self.frames.lock().unwrap_or_else(PoisonError::into_inner))));
        found.with_context(|| {
            format!("stderr of the agent: {}", fs::read_to_string(&self.stderr).unwrap_or_default())
        })
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        processes::kill_group(self.child.id());
        drop(self.child.wait());
    }
}

fn collect(stdout: ChildStdout, frames: &Mutex<Vec<Value>>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        let frame = serde_json::from_str(&line).unwrap_or(Value::String(line));
        frames.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
    }
}
