//! opencode's own HTTP API, as its own clients use it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};

use crate::patience::until;
use crate::world::World;

/// `opencode:client`, as HTTP wants it.
const AUTHORIZATION: &str = "Basic b3BlbmNvZGU6Y2xpZW50";

/// The server of one opencode. [`OpencodeApi::args`] and [`OpencodeApi::env`] have to be given to that.
#[derive(Debug, Clone)]
pub struct OpencodeApi {
    port: u16,
    project: PathBuf,
}

impl OpencodeApi {
    /// At a port that is free now.
    pub fn new(world: &World) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Self { port, project: world.project() })
    }

    /// The arguments with which opencode serves there.
    pub fn args(&self) -> [String; 2] {
        ["--port".to_owned(), self.port.to_string()]
    }

    /// The variable with which it takes our password.
    pub fn env() -> (String, String) {
        ("OPENCODE_SERVER_PASSWORD".to_owned(), "client".to_owned())
    }

    /// What opencode has open.
    pub fn asks(&self) -> Result<Vec<Value>> {
        Ok(self.get("/permission")?.as_array().cloned().unwrap_or_default())
    }

    /// Waits for opencode's own ask with this command.
    pub fn ask(&self, command: &str) -> Result<String> {
        until(&format!("opencode's ask for {command:?}"), || {
            let asks = self.asks()?;
            let found = asks.iter().find(|ask| ask["metadata"]["command"] == command);
            Ok(found.and_then(|ask| ask["id"].as_str()).map(str::to_owned))
        })
    }

    /// Answers in opencode, as its own dialog does.
    pub fn reply(&self, id: &str, reply: &str) -> Result<()> {
        self.post(&format!("/permission/{id}/reply"), &json!({"reply": reply})).map(drop)
    }

    /// What a path of its API says.
    pub fn get(&self, target: &str) -> Result<Value> {
        self.call("GET", target, None)
    }

    /// Sends a body to a path of its API; what it replies.
    pub fn post(&self, target: &str, body: &Value) -> Result<Value> {
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
