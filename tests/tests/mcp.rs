//! `askd mcp` and a scripted client at the other end of its pipes: what the real agent does not do every day.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};
use askd_tests::{World, until};
use serde_json::{Value, json};

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Client {
    fn start(world: &World) -> Result<Self> {
        // Whoever starts the server is the agent, and nothing that the agent started may answer. So it is not the test.
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" mcp; true"]).arg(world.askd()).env_clear().envs(world.env());
        command.env("CLAUDE_CODE_SESSION_ID", "scripted").current_dir(world.project());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("a pipe")?;
        let lines = Arc::default();
        let kept: Arc<Mutex<Vec<Value>>> = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().map(|mut lines| lines.push(line)).unwrap_or_default();
            }
        });
        Ok(Self { child, stdin, lines })
    }

    /// As an older client begins.
    fn initialize(&mut self, version: &str) -> Result<Value> {
        let info = json!({"name": "claude-code", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))?;
        let reply = self.reply(&json!(0))?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(reply)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        stdin.write_all(line.as_bytes())?;
        stdin.write_all(b"\n")?;
        Ok(stdin.flush()?)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.line(&message.to_string())
    }

    /// A permission check with this input, as JSON text.
    fn ask(&mut self, id: u32, input: &str) -> Result<()> {
        self.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"ask","arguments":{{"tool_name":"Bash","input":{input},"tool_use_id":"toolu_{id}"}},"_meta":{{"claudecode/toolUseId":"toolu_{id}"}}}}}}"#
        ))
    }

    fn cancel(&mut self, id: u32) -> Result<()> {
        let params = json!({"requestId": id, "reason": "stopped"});
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
    }

    fn replies(&self, id: &Value) -> Vec<Value> {
        let lines = self.lines.lock().map(|lines| lines.clone()).unwrap_or_default();
        lines.into_iter().filter(|line| line["id"] == *id).collect()
    }

    fn reply(&self, id: &Value) -> Result<Value> {
        until(&format!("a reply to {id}"), || Ok(self.replies(id).into_iter().next()))
    }

    /// The text of a result, and whether it is an error.
    fn result(&self, id: u32) -> Result<(String, bool)> {
        let reply = self.reply(&json!(id))?;
        let text = reply["result"]["content"][0]["text"].as_str().with_context(|| format!("{reply}"))?;
        Ok((text.to_owned(), reply["result"]["isError"] == true))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn world() -> Result<World> {
    let mut world = World::new()?;
    world.start_daemon()?;
    Ok(world)
}

#[test]
fn c13_the_input_goes_back_byte_for_byte_whatever_a_parser_would_make_of_it() -> Result<()> {
    let world = world()?;
    let mut client = Client::start(&world)?;
    let reply = client.initialize("2025-06-18")?;
    assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    assert_eq!(client.reply(&json!(1))?["result"]["tools"][0]["name"], "ask");
    let input = r#"{ "command":"touch \u0061", "n":12345678901234567890123.10,"s":"\u0061" , "n":1}"#;
    client.ask(2, input)?;
    let ask = until("the ask", || Ok(world.open()?.into_iter().next()))?;
    assert_eq!((ask.lineage.session.as_str(), ask.attendance.as_str()), ("scripted", "background"));
    assert_eq!(world.allow(&ask.id)?, 0);
    let (text, failed) = client.result(2)?;
    assert_eq!((text, failed), (format!("{{\"behavior\":\"allow\",\"updatedInput\":{input}}}"), false));
    world.wait(&ask.id, "the answer handed over", |ask| ask.delivery == "handed")?;
    Ok(())
}

#[test]
fn c5_the_newest_lifecycle_is_served_and_its_cancels_count() -> Result<()> {
    let world = world()?;
    let mut client = Client::start(&world)?;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    client.send(
        &json!({"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": meta}}),
    )?;
    let reply = client.reply(&json!("probe"))?;
    let versions = reply["result"]["supportedVersions"].as_array().with_context(|| format!("{reply}"))?;
    assert!(versions.contains(&json!("2026-07-28")), "{reply}");
    for id in [3, 4] {
        let mut meta = meta.clone();
        meta["claudecode/toolUseId"] = json!(format!("toolu_{id}"));
        let arguments = json!({"tool_name": "Bash", "input": {"command": format!("touch {id}")},
            "tool_use_id": format!("toolu_{id}")});
        let params = json!({"name": "ask", "arguments": arguments, "_meta": meta});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))?;
    }
    let (first, second) = (world.ask("touch 3")?, world.ask("touch 4")?);
    client.cancel(3)?;
    let gone = world.wait(&first.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(gone.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&second.id)?, 0);
    assert!(client.result(4)?.0.contains("\"allow\""));
    assert!(client.replies(&json!(3)).is_empty(), "a cancelled request has no reply");
    Ok(())
}

#[test]
fn c6_a_cancel_while_the_daemon_is_away_leaves_no_ask_that_could_be_allowed() -> Result<()> {
    let mut world = world()?;
    let mut client = Client::start(&world)?;
    client.initialize("2025-11-25")?;
    client.ask(20, r#"{"command":"touch twenty"}"#)?;
    let ask = world.ask("touch twenty")?;
    // No daemon can be started meanwhile.
    let config = world.askd_dir().join("config.toml");
    let before = std::fs::read(&config).ok();
    std::fs::write(&config, "[permissions]\nbackground_default = 'alow'\n")?;
    world.kill_daemon()?;
    client.cancel(20)?;
    // What comes behind it is replied to.
    client.send(&json!({"jsonrpc": "2.0", "id": 21, "method": "tools/list"}))?;
    client.reply(&json!(21))?;
    match before {
        Some(before) => std::fs::write(&config, before)?,
        None => std::fs::remove_file(&config)?,
    }
    world.start_daemon()?;
    let gone = world.wait(&ask.id, "the ask withdrawn", |ask| ask.settled().is_some())?;
    assert_eq!(gone.settled().map(|(outcome, _)| outcome), Some("withdrawn"), "{gone:?}");
    assert_ne!(world.allow(&ask.id)?, 0, "nobody waits for it");
    assert!(client.replies(&json!(20)).is_empty(), "a cancelled request has no reply");
    Ok(())
}

#[test]
fn c7_requests_that_end_deny_nothing_and_the_answer_is_still_written() -> Result<()> {
    let world = world()?;
    let mut client = Client::start(&world)?;
    client.initialize("2025-11-25")?;
    client.ask(5, r#"{"command":"touch five"}"#)?;
    let ask = world.ask("touch five")?;
    client.stdin = None;
    assert_eq!(world.deny(&ask.id, "not five")?, 0);
    let (text, failed) = client.result(5)?;
    assert_eq!((text.as_str(), failed), (r#"{"behavior":"deny","message":"not five"}"#, false));
    // Nothing is open any more: it ends by itself.
    until("the end of the server", || Ok(client.child.try_wait()?.map(|_| ())))?;
    world.wait(&ask.id, "the answer handed over", |ask| ask.delivery == "handed")?;
    Ok(())
}

#[test]
fn s7_broken_doubled_and_unknown_lines_end_nothing_and_decide_nothing() -> Result<()> {
    let world = world()?;
    let mut client = Client::start(&world)?;
    client.initialize("2025-11-25")?;
    client.ask(6, r#"{"command":"touch six"}"#)?;
    let ask = world.ask("touch six")?;
    for line in ["", "{", "[]", "\u{1}", "{\"jsonrpc\":\"2.0\"}", "null"] {
        client.line(line)?;
    }
    // The same id again while it is open, an unknown cancel, an unknown response.
    client.ask(6, r#"{"command":"touch six"}"#)?;
    client.cancel(66)?;
    client.send(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}))?;
    // What cannot be asked about fails, and nobody was denied.
    let call = |id: u32, arguments: Value, of: &str| {
        let meta = json!({"claudecode/toolUseId": of});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "ask", "arguments": arguments, "_meta": meta}})
    };
    client.send(&call(7, json!({"input": {}, "tool_use_id": "a"}), "a"))?;
    client.send(&call(8, json!({"tool_name": "Bash", "tool_use_id": "a"}), "a"))?;
    client.send(&call(9, json!({"tool_name": "AskUserQuestion", "input": {}, "tool_use_id": "a"}), "a"))?;
    // The model calls the tool by itself.
    client.send(&call(10, json!({"tool_name": "Bash", "input": {}, "tool_use_id": "a"}), "b"))?;
    for id in 7..=10 {
        let (text, failed) = client.result(id)?;
        assert!(failed && !text.contains("behavior"), "{id}: {text}");
    }
    // A request that cannot be read has its reply too.
    client.line(r#"{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"\ud800","arguments":{"input":{}}}}"#)?;
    assert!(client.reply(&json!(11))?["error"]["message"].is_string());
    assert_eq!(world.asks()?.len(), 1);
    assert_eq!(world.allow(&ask.id)?, 0);
    client.result(6)?;
    assert_eq!(client.replies(&json!(6)).len(), 1);
    Ok(())
}
