//! A client and an agent that do what a test says, with the real proxy between them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use crate::world::{PATIENCE, World, until};

/// An agent that only relays: what the test writes comes out of it, what it gets the test reads.
const RELAY: &str = r#"#!/bin/sh
exec 3<&0
cat <&3 >"$2" &
echo "the agent is here" >&2
[ -n "$ASKD_OWNER" ] && echo "owner $ASKD_OWNER" >&2
cat "$1"
exit 7
"#;

#[derive(Default)]
struct Recorded {
    lines: Vec<String>,
    ended: bool,
}

/// Lines as they come.
#[derive(Clone, Default)]
pub(crate) struct Tape(Arc<(Mutex<Recorded>, Condvar)>);

impl Tape {
    fn record(&self, from: impl Read + Send + 'static) {
        let tape = self.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                tape.0.0.lock().unwrap().lines.push(text);
                tape.0.1.notify_all();
                line.clear();
            }
            tape.0.0.lock().unwrap().ended = true;
            tape.0.1.notify_all();
        });
    }

    /// Waits for a line that fits.
    pub(crate) fn find(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        let mut tape = self.0.0.lock().unwrap();
        loop {
            if let Some(line) = tape.lines.iter().find(|line| fits(line)) {
                return line.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "in vain: {what} in {:#?}", tape.lines);
            tape = self.0.1.wait_timeout(tape, left).unwrap().0;
        }
    }

    pub(crate) fn json(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let line = self.find(what, |line| serde_json::from_str(line).is_ok_and(|v| fits(&v)));
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.0.lock().unwrap().lines.clone()
    }

    /// Waits for the end of file.
    pub(crate) fn end(&self) {
        let until = Instant::now() + PATIENCE;
        let mut tape = self.0.0.lock().unwrap();
        while !tape.ended {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no end of file");
            tape = self.0.1.wait_timeout(tape, left).unwrap().0;
        }
    }
}

pub(crate) struct Stage {
    pub(crate) world: World,
    proxy: Child,
    client: Option<ChildStdin>,
    agent: Option<File>,
    /// What the client got, what the agent got, and standard error.
    pub(crate) at_client: Tape,
    pub(crate) at_agent: Tape,
    pub(crate) said: Tape,
    marks: u32,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::in_world(World::new(), &[])
    }

    pub(crate) fn in_world(world: World, flags: &[&str]) -> Self {
        let (script, into, out) = (world.path("agent"), world.path("into"), world.path("out"));
        world.script(&script, RELAY);
        let made = Command::new("mkfifo").arg(&into).arg(&out).status().unwrap();
        assert!(made.success());
        let mut command = world.command(&["acp"]);
        command.args(flags).arg("--").arg(&script).arg(&into).arg(&out);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut proxy = command.spawn().unwrap();
        let (at_client, at_agent, said) = (Tape::default(), Tape::default(), Tape::default());
        at_client.record(proxy.stdout.take().unwrap());
        said.record(proxy.stderr.take().unwrap());
        let agent = OpenOptions::new().read(true).write(true).open(&into).unwrap();
        at_agent.record(File::open(&out).unwrap());
        let client = proxy.stdin.take();
        Self { world, proxy, client, agent: Some(agent), at_client, at_agent, said, marks: 0 }
    }

    /// With session `s`, in a prompt.
    pub(crate) fn started(flags: &[&str]) -> Self {
        let mut stage = Self::in_world(World::new(), flags);
        stage.open_session();
        stage
    }

    pub(crate) fn open_session(&mut self) {
        self.client(&json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,
            "clientCapabilities":{"subagents":{}},"clientInfo":{"name":"tester","version":"1"}}}));
        self.at_agent.json("initialize", |m| m["method"] == "initialize");
        self.agent(&json!({"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"1"}}}));
        let cwd = self.world.home();
        self.client(
            &json!({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":cwd,"mcpServers":[]}}),
        );
        self.at_agent.json("session/new", |m| m["method"] == "session/new");
        self.agent(&json!({"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}));
        self.at_client.json("the session", |m| m["id"] == 1);
        self.prompt(2);
    }

    pub(crate) fn prompt(&mut self, id: u64) {
        self.client(&json!({"jsonrpc":"2.0","id":id,"method":"session/prompt","params":{"sessionId":"s",
            "prompt":[{"type":"text","text":"go"}]}}));
        self.at_agent.json("a prompt", |m| m["id"] == id && m["method"] == "session/prompt");
    }

    pub(crate) fn client_raw(&mut self, bytes: &[u8]) {
        self.client.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn client(&mut self, message: &Value) {
        self.client_raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn agent_raw(&mut self, bytes: &[u8]) {
        self.agent.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn agent(&mut self, message: &Value) {
        self.agent_raw(format!("{message}\n").as_bytes());
    }

    /// The agent asks to run `command`; the client has it and so has askd. Gives its handle.
    pub(crate) fn ask(&mut self, id: &Value, session: &str, call: &str, command: &str) -> String {
        self.agent(&json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":session,
            "toolCall":{"toolCallId":call,"title":command,"kind":"execute","rawInput":{"command":command}},
            "options":[{"optionId":"ok","name":"Allow once","kind":"allow_once"},
                {"optionId":"ever","name":"Always","kind":"allow_always"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}}));
        self.at_client.json("the ask", |m| m["method"] == "session/request_permission" && m["id"] == *id);
        self.world.handle(command)
    }

    pub(crate) fn select(&mut self, id: &Value, option: &str) {
        self.client(
            &json!({"jsonrpc":"2.0","id":id,"result":{"outcome":{"outcome":"selected","optionId":option}}}),
        );
    }

    /// What the agent was answered to this request.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        self.at_agent.json("an answer", |m| m.get("method").is_none() && m["id"] == *id && m.get("params").is_none())
            ["result"]["outcome"]
            .clone()
    }

    /// How many answers the agent got to this request, once everything that the client wrote has passed.
    pub(crate) fn answers(&mut self, id: &Value) -> usize {
        self.settle_down();
        let lines = self.at_agent.all();
        let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|m| m.get("method").is_none() && m["id"] == *id && m.get("result").is_some()).count()
    }

    /// A line of the client has passed behind everything that it wrote before.
    pub(crate) fn settle_down(&mut self) {
        self.marks += 1;
        let mark = format!("_mark/{}", self.marks);
        self.client(&json!({"jsonrpc":"2.0","method":mark}));
        self.at_agent.json("the mark", |m| m["method"] == *mark);
    }

    pub(crate) fn withdrawn(&self, id: &Value) {
        self.at_client
            .json("the withdrawal", |m| m["method"] == "$/cancel_request" && m["params"]["requestId"] == *id);
    }

    /// The settled ask for this command.
    pub(crate) fn settled(&self, command: &str) -> Value {
        until(&format!("the outcome of {command}"), || {
            let asks: Vec<Value> =
                serde_json::from_str(&self.world.run(&["ls", "--all", "--json"]).out).ok()?;
            asks.into_iter().find(|a| a["action"]["input"]["command"] == command && a["state"] == "settled")
        })
    }

    /// Threads of the proxy that belong to asks, and descriptors that it has open.
    #[cfg(target_os = "linux")]
    pub(crate) fn held(&self) -> (usize, usize) {
        let dir = std::path::PathBuf::from(format!("/proc/{}", self.proxy.id()));
        let tasks = std::fs::read_dir(dir.join("task")).unwrap().filter_map(Result::ok);
        let asks = tasks.filter(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("ask-"))
        });
        (asks.count(), std::fs::read_dir(dir.join("fd")).unwrap().count())
    }

    pub(crate) fn close_client(&mut self) {
        self.client = None;
    }

    /// The agent ends by itself, with status 7.
    pub(crate) fn end_agent(&mut self) {
        self.agent = None;
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.proxy.try_wait().unwrap().is_none()
    }

    pub(crate) fn status(&mut self) -> Option<i32> {
        let proxy = &mut self.proxy;
        until("the end of the proxy", || proxy.try_wait().unwrap()).code()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        (self.client, self.agent) = (None, None);
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}
