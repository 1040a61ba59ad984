//! A scripted model server on loopback that speaks the Anthropic Messages API, OpenAI's two and Gemini's.
//!
//! It keeps no state between requests but its record: which script a request plays and how far it is follows from
//! the conversation in the request, so retries and parallel subagents need no care.

mod gemini;
pub(crate) mod http;
mod openai;
mod script;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use serde_json::{Value, json};

pub use script::{Gate, Scripts, Step};

use crate::patience::until;
use script::Block;

/// What the agent told the model about one tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The script and the step that made the call.
    pub script: String,
    pub step: usize,
    /// Which block of that step.
    pub block: usize,
    /// All text of the result.
    pub text: String,
    pub is_error: bool,
}

/// The running server; it ends when this is dropped.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    scripts: Scripts,
    serial: AtomicU64,
    closed: AtomicBool,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    /// (script, step) of every reply that was asked for.
    turns: Vec<(String, usize)>,
    /// By tool-use id, as first told.
    results: BTreeMap<String, ToolResult>,
    /// The same in the order of arrival.
    order: Vec<String>,
}

impl Model {
    /// Starts to serve on a free port.
    pub fn start(scripts: Scripts) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            scripts,
            serial: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            record: Mutex::default(),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if server.closed.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let server = Arc::clone(&server);
                // A client that goes away in the middle is no matter of the model's.
                thread::spawn(move || drop(server.serve(stream)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Base URL for the agent.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the result of the only call in this step of the script.
    pub fn result(&self, script: &str, step: usize) -> Result<ToolResult> {
        self.result_of_block(script, step, 0)
    }

    /// Waits for the result of one call of several in this step.
    pub fn result_of_block(&self, script: &str, step: usize, block: usize) -> Result<ToolResult> {
        until(&format!("the result of call {block} in step {step} of {script}"), || {
            Ok(self
                .results()
                .into_iter()
                .find(|result| result.script == script && result.step == step && result.block == block))
        })
    }

    /// All results told so far.
    pub fn results(&self) -> Vec<ToolResult> {
        let record = self.shared.record();
        record.order.iter().filter_map(|id| record.results.get(id).cloned()).collect()
    }

    /// Whether this reply was asked for.
    pub fn reached(&self, script: &str, step: usize) -> bool {
        self.shared.record().turns.iter().any(|(name, at)| name == script && *at == step)
    }

    /// Waits until this reply is asked for.
    pub fn wait_for(&self, script: &str, step: usize) -> Result<()> {
        until(&format!("step {step} of {script}"), || Ok(self.reached(script, step).then_some(())))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, so that it sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let Some(request) = http::read(&stream)? else { return Ok(()) };
        if request.method == "GET" && request.path.ends_with("/models") {
            let model = json!({"id": "scripted", "object": "model", "created": 1, "owned_by": "tests"});
            return http::reply(&mut stream, "200 OK", &json!({"object": "list", "data": [model]}));
        }
        if request.method != "POST" {
            return http::reply(&mut stream, "404 Not Found", &error("not_found_error"));
        }
        match request.path.as_str() {
            "/v1/messages" => {
                let request = serde_json::from_slice(&request.body).map_err(io::Error::other)?;
                self.message(&mut stream, &request)
            }
            "/v1/messages/count_tokens" => http::reply(&mut stream, "200 OK", &json!({"input_tokens": 1})),
            path => self.others(&mut stream, path, &request.body),
        }
    }

    /// The APIs of the other agents. A request that offers no tools is for a title or a summary.
    fn others(&self, stream: &mut TcpStream, path: &str, body: &[u8]) -> io::Result<()> {
        let request: Value = serde_json::from_slice(body).map_err(io::Error::other)?;
        let id = format!("r{}", self.next());
        let play = |read: fn(&Value) -> Conversation| {
            if request["tools"].as_array().is_none_or(Vec::is_empty) {
                return vec![json!({"type": "text", "text": "a title"})];
            }
            let conversation = read(&request);
            let step = self.note(&conversation);
            if let Some(gate) = &step.gate {
                gate.pass();
            }
            self.blocks(&conversation, &step)
        };
        if path.ends_with("/chat/completions") {
            openai::reply_chat(stream, &request, &id, &play(openai::read_chat))
        } else if path.ends_with("/responses") {
            openai::reply_responses(stream, &request, &id, &play(openai::read_responses))
        } else if path.contains("enerateContent") {
            gemini::reply(stream, path.contains(":stream"), &play(gemini::read))
        } else if path.contains(":countTokens") {
            http::reply(stream, "200 OK", &json!({"totalTokens": 1}))
        } else {
            http::reply(stream, "404 Not Found", &error("not_found_error"))
        }
    }

    fn message(&self, stream: &mut TcpStream, request: &Value) -> io::Result<()> {
        let conversation = Conversation::read(request);
        let step = self.note(&conversation);
        if let Some(gate) = &step.gate {
            gate.pass();
        }
        let blocks = self.blocks(&conversation, &step);
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        let stop = if calls { "tool_use" } else { "end_turn" };
        let message = json!({
            "id": format!("msg_{}", self.next()),
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        });
        if request["stream"] == true {
            return stream_message(stream, message, &blocks, stop);
        }
        let mut message = message;
        message["content"] = Value::Array(blocks);
        message["stop_reason"] = stop.into();
        http::reply(stream, "200 OK", &message)
    }

    /// Puts the request on record and finds what to reply.
    fn note(&self, conversation: &Conversation) -> Step {
        let mut record = self.record();
        for (id, text, is_error) in &conversation.results {
            if record.results.contains_key(id) {
                continue;
            }
            let Some((script, step, block)) = parse_id(id) else { continue };
            let result = ToolResult { script, step, block, text: text.clone(), is_error: *is_error };
            record.results.insert(id.clone(), result);
            record.order.push(id.clone());
        }
        let Some(script) = &conversation.script else { return Step::say("nothing to play") };
        record.turns.push((script.clone(), conversation.step));
        let steps = self.scripts.0.get(script);
        steps.and_then(|steps| steps.get(conversation.step)).cloned().unwrap_or_else(|| Step::say("the end"))
    }

    fn blocks(&self, conversation: &Conversation, step: &Step) -> Vec<Value> {
        let script = conversation.script.as_deref().unwrap_or_default();
        let block = |(index, block): (usize, &Block)| match block {
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Call { tool, input } => json!({
                "type": "tool_use",
                "id": format!("toolu_{}_{}_{index}_{script}", self.next(), conversation.step),
                "name": tool,
                "input": input,
            }),
        };
        step.blocks.iter().enumerate().map(block).collect()
    }

    fn next(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::SeqCst)
    }
}

/// `toolu_<serial>_<step>_<block>_<script>`.
fn parse_id(id: &str) -> Option<(String, usize, usize)> {
    let mut parts = id.strip_prefix("toolu_")?.splitn(4, '_').skip(1);
    let step = parts.next()?.parse().ok()?;
    let block = parts.next()?.parse().ok()?;
    Some((parts.next()?.to_owned(), step, block))
}

fn error(kind: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": "not played here"}})
}

fn stream_message(stream: &mut TcpStream, message: Value, blocks: &[Value], stop: &str) -> io::Result<()> {
    http::begin_events(stream)?;
    http::event(stream, &json!({"type": "message_start", "message": message}))?;
    for (index, block) in blocks.iter().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "text" {
            empty["text"] = "".into();
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        http::event(stream, &json!({"type": "content_block_start", "index": index, "content_block": empty}))?;
        http::event(stream, &json!({"type": "content_block_delta", "index": index, "delta": delta}))?;
        http::event(stream, &json!({"type": "content_block_stop", "index": index}))?;
    }
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    http::event(stream, &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}))?;
    http::event(stream, &json!({"type": "message_stop"}))
}

/// What matters of a request's messages.
#[derive(Default)]
struct Conversation {
    script: Option<String>,
    /// Replies given since the script was named.
    step: usize,
    /// Tool-use id, text, whether an error.
    results: Vec<(String, String, bool)>,
}

impl Conversation {
    fn read(request: &Value) -> Self {
        let mut conversation = Self::default();
        for message in request["messages"].as_array().into_iter().flatten() {
            if message["role"] == "assistant" {
                conversation.step += 1;
                continue;
            }
            match &message["content"] {
                Value::String(text) => conversation.hear(text),
                Value::Array(blocks) => blocks.iter().for_each(|block| conversation.take(block)),
                _ => {}
            }
        }
        conversation
    }

    fn take(&mut self, block: &Value) {
        if block["type"] == "text" {
            self.hear(block["text"].as_str().unwrap_or_default());
        } else if block["type"] == "tool_result" {
            let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
            self.results.push((id, text_of(&block["content"]), block["is_error"] == true));
        }
    }

    /// Of an API that does not tell errors apart.
    fn told(&mut self, call: &Value, text: String) {
        self.results.push((call.as_str().unwrap_or_default().to_owned(), text, false));
    }

    fn hear(&mut self, text: &str) {
        let Some((_, after)) = text.rsplit_once("play=") else { return };
        let name: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if !name.is_empty() {
            self.script = Some(name);
            self.step = 0;
        }
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_plays_the_script_named_last_from_its_first_step() {
        let request = json!({"messages": [
            {"role": "user", "content": "play=one please"},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "text", "text": "now play=two-b."}]},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_7_0_1_two-b",
                "is_error": true, "content": [{"type": "text", "text": "play=three"}]}]},
        ]});
        let conversation = Conversation::read(&request);
        assert_eq!(conversation.script.as_deref(), Some("two-b"));
        assert_eq!(conversation.step, 1);
        assert_eq!(conversation.results, [("toolu_7_0_1_two-b".to_owned(), "play=three".to_owned(), true)]);
        assert_eq!(parse_id("toolu_7_0_1_two-b"), Some(("two-b".to_owned(), 0, 1)));
    }
}
