//! The two OpenAI APIs: chat completions (opencode, qwen-code) and responses (Codex).

use std::io;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Conversation, http, text_of};

/// Chat completions: the conversation so far.
pub(super) fn read_chat(request: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    for message in messages(request, "messages") {
        match message["role"].as_str() {
            Some("assistant") => conversation.step += 1,
            Some("user") => conversation.hear(&text_of(&message["content"])),
            Some("tool") => conversation.told(&message["tool_call_id"], text_of(&message["content"])),
            _ => {}
        }
    }
    conversation
}

/// Chat completions: the reply.
pub(super) fn reply_chat(
    stream: &mut TcpStream,
    request: &Value,
    id: &str,
    blocks: &[Value],
) -> io::Result<()> {
    let calls: Vec<Value> = calls(blocks)
        .enumerate()
        .map(|(index, block)| {
            let function = json!({"name": block["name"], "arguments": block["input"].to_string()});
            json!({"index": index, "id": block["id"], "type": "function", "function": function})
        })
        .collect();
    let text = words(blocks);
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let whole = |object: &str, choices: Value| json!({"id": id, "object": object, "created": 1, "model": request["model"], "choices": choices});
    if request["stream"] != true {
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        let choice = json!([{"index": 0, "message": message, "finish_reason": finish}]);
        let mut reply = whole("chat.completion", choice);
        reply["usage"] = usage;
        return http::reply(stream, "200 OK", &reply);
    }
    http::begin_events(stream)?;
    let mut deltas = vec![json!({"role": "assistant", "content": text})];
    deltas.extend(calls.into_iter().map(|call| json!({"tool_calls": [call]})));
    for delta in deltas {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        http::data(stream, &whole("chat.completion.chunk", choice).to_string())?;
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish}]);
    http::data(stream, &whole("chat.completion.chunk", end).to_string())?;
    let mut last = whole("chat.completion.chunk", json!([]));
    last["usage"] = usage;
    http::data(stream, &last.to_string())?;
    http::data(stream, "[DONE]")
}

/// Responses: the conversation so far.
pub(super) fn read_responses(request: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    let mut calling = false;
    for item in messages(request, "input") {
        let kind = item["type"].as_str().unwrap_or("message");
        if kind.ends_with("_call") {
            // All calls of one reply stand together.
            conversation.step += usize::from(!calling);
            calling = true;
            continue;
        }
        calling = false;
        if kind.ends_with("_output") {
            conversation.told(&item["call_id"], text_of(&item["output"]));
            continue;
        }
        match item["role"].as_str() {
            Some("assistant") => conversation.step += 1,
            Some("user") => conversation.hear(&text_of(&item["content"])),
            _ => {}
        }
    }
    conversation
}

/// Responses: the reply, always as a stream.
pub(super) fn reply_responses(
    stream: &mut TcpStream,
    request: &Value,
    id: &str,
    blocks: &[Value],
) -> io::Result<()> {
    let mut items: Vec<Value> = calls(blocks)
        .map(|block| {
            let mut item = json!({
                "type": "function_call",
                "id": format!("fc_{id}"),
                "call_id": block["id"],
                "name": block["name"],
                "arguments": block["input"].to_string(),
                "status": "completed",
            });
            // Tools of a namespace are called by both names.
            if let Some((space, name)) = block["name"].as_str().and_then(|name| name.split_once("::")) {
                item["namespace"] = space.into();
                item["name"] = name.into();
            }
            item
        })
        .collect();
    let text = words(blocks);
    if items.is_empty() {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        items.push(json!({
            "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
            "content": content,
        }));
    }
    let mut response = json!({"id": id, "object": "response", "created_at": 1, "model": request["model"], "output": [], "status": "in_progress"});
    http::begin_events(stream)?;
    http::event(stream, &json!({"type": "response.created", "response": response}))?;
    for (index, item) in items.iter().enumerate() {
        http::event(
            stream,
            &json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        )?;
        http::event(
            stream,
            &json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        )?;
    }
    response["status"] = "completed".into();
    response["output"] = Value::Array(items);
    response["usage"] = json!({
        "input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    });
    http::event(stream, &json!({"type": "response.completed", "response": response}))
}

fn messages<'a>(request: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    request[key].as_array().into_iter().flatten()
}

fn calls(blocks: &[Value]) -> impl Iterator<Item = &Value> {
    blocks.iter().filter(|block| block["type"] == "tool_use")
}

fn words(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_is_read() {
        let request = json!({"messages": [
            {"role": "system", "content": "play=nothing"},
            {"role": "user", "content": [{"type": "text", "text": "play=main"}]},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "tool", "tool_call_id": "toolu_1_0_0_main", "content": "done"},
        ]});
        let conversation = read_chat(&request);
        assert_eq!((conversation.script.as_deref(), conversation.step), (Some("main"), 1));
        assert_eq!(conversation.results, [("toolu_1_0_0_main".to_owned(), "done".to_owned(), false)]);
    }

    #[test]
    fn calls_of_one_reply_are_one_step() {
        let request = json!({"input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "play=main"}]},
            {"type": "function_call", "call_id": "a"}, {"type": "function_call", "call_id": "b"},
            {"type": "function_call_output", "call_id": "a", "output": "x"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "y"}]},
        ]});
        let conversation = read_responses(&request);
        assert_eq!((conversation.script.as_deref(), conversation.step), (Some("main"), 1));
        assert_eq!(conversation.results[1], ("b".to_owned(), "y".to_owned(), false));
    }
}
