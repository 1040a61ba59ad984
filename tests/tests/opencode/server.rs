//! `askd run -- opencode serve` with one of its clients: the test itself, over opencode's own HTTP API.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use askd_tests::{Model, Program, World, children, until};
use serde_json::{Value, json};

/// `opencode:client`, as HTTP wants it.
const AUTHORIZATION: &str = "Basic b3BlbmNvZGU6Y2xpZW50";

pub(crate) struct Server {
    run: Child,
    port: u16,
    project: PathBuf,
    stderr: PathBuf,
}

impl Server {
    /// Starts it under askd and waits until it serves.
    pub(crate) fn start(world: &World, model: &Model, permission: &Value) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let stderr = world.file("opencode-said");
        let mut command = Command::new(world.askd());
        command.args(["run", "--"]).args(Program::Opencode.command()?).args([
            "serve",
            "--port",
            &port.to_string(),
        ]);
        command
            .env_clear()
            .envs(super::env(world, model, permission))
            .env("OPENCODE_SERVER_PASSWORD", "client");
        command.current_dir(world.project()).stdin(Stdio::null()).stdout(Stdio::null());
        let run = command.stderr(File::create(&stderr)?).process_group(0).spawn()?;
        let server = Self { run, port, project: world.project(), stderr };
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

    /// What opencode has open.
    pub(crate) fn asks(&self) -> Result<Vec<Value>> {
        Ok(self.get("/permission")?.as_array().cloned().unwrap_or_default())
    }

    /// Waits for opencode's own ask with this command.
    pub(crate) fn ask(&self, command: &str) -> Result<String> {
        until(&format!("opencode's ask for {command:?}"), || {
            let asks = self.asks()?;
            let found = asks.iter().find(|ask| ask["metadata"]["command"] == command);
            Ok(found.and_then(|ask| ask["id"].as_str()).map(str::to_owned))
        })
    }

    /// Answers in opencode, as its own dialog does.
    pub(crate) fn reply(&self, id: &str, reply: &str) -> Result<()> {
        self.post(&format!("/permission/{id}/reply"), &json!({"reply": reply})).map(drop)
    }

    fn get(&self, target: &str) -> Result<Value> {
        self.call("GET", target, None)
    }

    fn post(&self, target: &str, body: &Value) -> Result<Value> {
        self.call("POST", target, Some(body))
    }

    fn call(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Value> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        // In its first moments it may leave a request without a reply.
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let project = self.project.display();
        write!(
            stream,
            "{method} {target}?directory={project} HTTP/1.1\r\nhost: localhost\r\nauthorization: {AUTHORIZATION}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply)?;
        let reply = String::from_utf8(reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(|| anyhow!("no reply to {target}"))?;
        if !head.starts_with("HTTP/1.1 2") {
            bail!("{method} {target}: {reply}");
        }
        if body.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(body)?) }
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
