//! The Gemini API (gemini-cli). It names no call, so results are told in the order of the calls.

use std::io;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Conversation, http};

pub(super) fn read(request: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    for content in request["contents"].as_array().into_iter().flatten() {
        if content["role"] == "model" {
            conversation.step += 1;
            continue;
        }
        for part in content["parts"].as_array().into_iter().flatten() {
            if let Some(text) = part["text"].as_str() {
                conversation.hear(text);
            }
            let response = &part["functionResponse"];
            if !response.is_null() {
                conversation.told(&response["id"], response["response"].to_string());
            }
        }
    }
    conversation
}

pub(super) fn reply(stream: &mut TcpStream, streamed: bool, blocks: &[Value]) -> io::Result<()> {
    let part = |block: &Value| match block["text"].as_str() {
        Some(text) => json!({"text": text}),
        None => json!({"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}),
    };
    let parts: Vec<Value> = blocks.iter().map(part).collect();
    let reply = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "scripted",
    });
    if !streamed {
        return http::reply(stream, "200 OK", &reply);
    }
    http::begin_events(stream)?;
    http::data(stream, &reply.to_string())
}
