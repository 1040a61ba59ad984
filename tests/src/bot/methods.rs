//! The methods that answer at once.

use serde_json::{Value, json};

use super::{State, chat_json, limits};

pub(super) fn call(state: &mut State, method: &str, body: &Value) -> (u16, Value) {
    let done = match method {
        "getMe" => {
            Ok(json!({"id": state.bot, "is_bot": true, "first_name": "askd", "username": "askd_test_bot"}))
        }
        "sendMessage" => send(state, body),
        "editMessageText" => edit(state, body),
        "answerCallbackQuery" => toast(state, body),
        "deleteWebhook" => {
            state.webhook = false;
            Ok(json!(true))
        }
        _ => return (404, json!({"ok": false, "error_code": 404, "description": "Not Found"})),
    };
    match done {
        Ok(result) => (200, json!({"ok": true, "result": result})),
        Err(limit) => limit.refusal(),
    }
}

/// Text and buttons of a message as they are to be shown.
type Content = (String, Vec<(String, String)>);

fn content(body: &Value) -> Result<Content, limits::Limit> {
    let raw = body["text"].as_str().unwrap_or_default();
    let text = match body["parse_mode"].as_str() {
        None => raw.to_owned(),
        Some("HTML") => limits::parse_html(raw).ok_or(limits::ENTITIES)?,
        Some(_) => return Err(limits::ENTITIES),
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(limits::NO_TEXT);
    }
    if text.encode_utf16().count() > limits::TEXT.most {
        return Err(limits::TEXT);
    }
    let mut buttons = Vec::new();
    for button in body["reply_markup"]["inline_keyboard"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|row| row.as_array().cloned().unwrap_or_default())
    {
        let data = button["callback_data"].as_str().unwrap_or_default().to_owned();
        if data.is_empty() || data.len() > limits::BUTTON_DATA.most {
            return Err(limits::BUTTON_DATA);
        }
        buttons.push((button["text"].as_str().unwrap_or_default().to_owned(), data));
    }
    Ok((text, buttons))
}

fn send(state: &mut State, body: &Value) -> Result<Value, limits::Limit> {
    let chat = body["chat_id"].as_i64().unwrap_or(0);
    if !state.chats.contains_key(&chat) {
        return Err(limits::NO_CHAT);
    }
    if state.blocked.contains(&chat) {
        return Err(limits::BLOCKED);
    }
    let (text, buttons) = content(body)?;
    let id = state.add(chat, &text, buttons, true);
    state.now += 1;
    let reply_to = body["reply_parameters"]["message_id"].as_i64();
    let markup = &body["reply_markup"];
    let to_a_person = state.chats[&chat].iter().any(|shown| Some(shown.id) == reply_to && !shown.bots);
    if let Some(shown) = state.chats.get_mut(&chat).and_then(|chat| chat.last_mut()) {
        shown.reply_to = reply_to;
        // Selective ones address the author of the message that is replied to.
        shown.force_reply = markup["force_reply"] == true && (markup["selective"] != true || to_a_person);
        shown.raw = format!("{}{}", body["text"], body["reply_markup"]);
    }
    Ok(json!({"message_id": id, "date": state.now, "chat": chat_json(chat), "text": text}))
}

fn edit(state: &mut State, body: &Value) -> Result<Value, limits::Limit> {
    let (chat, message) = (body["chat_id"].as_i64().unwrap_or(0), body["message_id"].as_i64().unwrap_or(0));
    if state.blocked.contains(&chat) {
        return Err(limits::BLOCKED);
    }
    if state.frozen.contains(&(chat, message)) {
        return Err(limits::NOT_EDITABLE);
    }
    let (text, buttons) = content(body)?;
    let raw = format!("{}{}", body["text"], body["reply_markup"]);
    let messages = state.chats.get_mut(&chat).ok_or(limits::NO_CHAT)?;
    let found = messages.iter_mut().find(|shown| shown.id == message && shown.bots);
    let shown = found.ok_or(limits::NO_MESSAGE)?;
    if shown.raw == raw {
        return Err(limits::NOT_MODIFIED);
    }
    (shown.text, shown.buttons, shown.raw) = (text.clone(), buttons, raw);
    shown.edits += 1;
    Ok(json!({"message_id": message, "date": state.now, "chat": chat_json(chat), "text": text}))
}

fn toast(state: &mut State, body: &Value) -> Result<Value, limits::Limit> {
    let tap = body["callback_query_id"].as_str().unwrap_or_default();
    let text = body["text"].as_str().unwrap_or_default();
    if text.chars().count() > limits::TOAST.most {
        return Err(limits::TOAST);
    }
    let at = state.taps.iter().position(|known| known == tap).ok_or(limits::TAP_AGE)?;
    state.taps.remove(at);
    state.toasts.push((tap.to_owned(), text.to_owned()));
    Ok(json!(true))
}
